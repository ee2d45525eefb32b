"""A teacher's answers, kept without their questions: `pairs.py` makes the same questions again from the same seed.

A file is lines of JSON in xz: for each shard its number, a check of its questions, and the shares of all candidates as bytes.
"""

import base64
import hashlib
import json
import lzma
import pathlib
import time


def check(rows):
    """A name for the questions of a shard: labels of other questions are refused."""
    told = json.dumps([(object_type, events, [(question["ask"], question.get("criteria")) for question, _ in asked]) for object_type, events, asked in rows], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def candidates(question):
    return 2 if question["type"] == "noul" else len(question["criteria"])


def written(number, rows, shares):
    """The line of a shard; `shares` has the probabilities of each question, in order."""
    told = bytes(round(255 * share) for one in shares for share in one)
    return json.dumps({"shard": number, "check": check(rows), "shares": base64.b64encode(told).decode()})


def save(path, lines):
    """Under another name first: whoever waits for the file finds it whole."""
    path = pathlib.Path(path)
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress("\n".join(lines).encode(), preset=6))
    part.rename(path)


def read(path, wait=0.0):
    """The shards by number. Waits for a file that a teacher is still writing."""
    path, started = pathlib.Path(path), time.time()
    while not path.exists() and time.time() - started < wait:
        time.sleep(0.5)
    told = map(json.loads, lzma.decompress(path.read_bytes()).decode().splitlines())
    return {one["shard"]: one for one in told}


class Taught:
    """A teacher's answers with their questions. The file is read when it is needed, which may be before it is written, and again when it has grown."""

    def __init__(self, path, source):
        self.path, self.source, self.changed, self.known = pathlib.Path(path), source, None, {}

    def shards(self):
        changed = self.path.stat().st_mtime_ns if self.path.exists() else None
        if changed is None or changed != self.changed:
            self.known, self.changed = read(self.path, wait=3600), changed
        return self.known

    def shard(self, told):
        return joined(self.source.shard(told["shard"]), told)


def joined(rows, told, trust=0.6):
    """The questions of a shard with the teacher's shares; where somebody wrote an answer, the mean of both, `trust` being the writer's part."""
    if check(rows) != told["check"]:
        raise SystemExit(f"labels of shard {told['shard']} are of other questions")
    data, at, result = base64.b64decode(told["shares"]), 0, []
    for object_type, events, asked in rows:
        answered = []
        for question, shares in asked:
            count = candidates(question)
            own = [value / max(1, sum(data[at : at + count])) for value in data[at : at + count]]
            at += count
            if shares is not None:
                own = [trust * share + (1 - trust) * value for share, value in zip(shares, own)]
            answered.append((question | {"taught": True}, own))
        result.append((object_type, events, answered))
    return result
