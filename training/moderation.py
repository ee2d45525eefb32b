"""Judges the built-in questions of the moderation routes: by public sets, and by cases that were written for each of them.

    python3 training/moderation.py AUSPEX [PUBLIC [SCORES]]   asks the moderation routes of a service of its own, and prints tables of
                                                              figures; AUSPEX is the binary, PUBLIC a folder with sets

SCORES is a file in which answers are kept: a run that was broken off goes on there. An answer counts only for the same binary, which has
the weights and the wordings in it, and the same model. With `-` for AUSPEX nothing is asked: the tables are of what the last binary
answered to the wordings of today.

PUBLIC has the files of the sets below under the names that their makers gave them; a set that is not there is left out, and named. Of
those, `sms_spam` was trained on, the others never. For a question with a set, the sensible line is the threshold at which recall minus
false alarms is greatest. That choice does not depend on how many of the texts are yes, which in the sets is not as it is anywhere else.

For the questions without a public set, `moderation_lines.jsonl` has texts that were written for them before any was asked: at least 24 that
are clearly yes, and 36 that are clearly no. A text has the names that it was written for: those answered by `yes`, by `no`, and by no although
it looks `alike` (at least a third of a question's no's). It is asked nothing else. They are judged like a set, but their writers had the
questions in mind, which the people who write comments do not: expect less of your own texts.

`moderation_cases.jsonl` has a few cases for every question: they show one that fails, not how good one is. A case is a text with the names of
the questions that are answered by `yes`, and of those that people would answer differently: they are left `open`, and not counted. Every
other answer is no.
"""

import concurrent.futures
import contextlib
import csv
import gzip
import hashlib
import json
import lzma
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
QUESTIONS = HERE.parent / "crates/service/src/analysis/moderation/questions.json"
GRID = [step / 20 for step in range(1, 20)]
# The labels of the set that OpenAI published beside its paper (MIT). A label that a text lacks is not known.
OPENAI = {"S": "sexual", "S3": "sexual/minors", "H": "hate", "H2": "hate/threatening", "HR": "harassment", "SH": "self-harm", "V": "violence", "V2": "violence/graphic"}


def written(known):
    draw = random.Random(7)
    for line in (HERE / "moderation_cases.jsonl").read_text().splitlines():
        row = json.loads(line)
        # Not all of the others, to save time; but a false alarm about minors must not be missed.
        no = [name for name in known if name not in row["yes"] and name not in row.get("open", [])]
        drawn = draw.sample(no, min(NO_QUESTIONS, len(no)))
        yield row["text"], {name: True for name in row["yes"]} | {name: False for name in no if name in drawn or name == "sexual/minors"}


def for_lines():
    """The texts that were written for the questions without a public set."""
    for line in (HERE / "moderation_lines.jsonl").read_text().splitlines():
        row = json.loads(line)
        labels = dict.fromkeys(row["yes"], True) | dict.fromkeys(row["no"] + row["alike"], False)
        if len(labels) < len(row["yes"] + row["no"] + row["alike"]):
            sys.exit(f"moderation_lines.jsonl: a name has two answers for {row['text']!r}")
        yield row["text"], labels


def openai(folder):
    """`samples-1680.jsonl.gz` of openai/moderation-api-release."""
    with gzip.open(folder / "samples-1680.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            labels = {OPENAI[label]: bool(value) for label, value in row.items() if label in OPENAI}
            if "sexual" in labels:
                labels["SEXUALLY_EXPLICIT"] = labels["sexual"]
            yield row["prompt"], labels


def hatecheck(folder):
    """`test_suite_cases.csv` of paul-rottger/hatecheck-data (CC BY 4.0)."""
    with (folder / "test_suite_cases.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            hateful, kind = row["label_gold"] == "hateful", row["functionality"]
            labels = {"hate": hateful, "IDENTITY_ATTACK": hateful}
            # Which of the other hateful texts threaten is not labelled.
            if kind.startswith("threat_") or not hateful:
                labels |= {"hate/threatening": hateful, "THREAT": hateful}
            if kind.startswith("profanity_") or kind.startswith("ident_"):
                labels["PROFANITY"] = kind.startswith("profanity_")
            yield row["test_case"], labels


def surge(folder):
    """`toxicity_en.csv` of surge-ai/toxicity (MIT)."""
    with (folder / "toxicity_en.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield row["text"], {"TOXICITY": row["is_toxic"] == "Toxic"}


def labelled(name, question, yes):
    def read(folder):
        with lzma.open(folder / f"{name}.jsonl.xz", "rt") as file:
            for row in map(json.loads, file):
                yield row["text"], {question: row["label"] == yes}

    return read


# The sets: how they are read, and how many texts are taken.
PUBLIC = {
    "OpenAI's evaluation set": (openai, 200),
    "Surge AI toxicity": (surge, 120),
    "OLID": (labelled("olid", "TOXICITY", "offensive"), 120),
    "HateCheck": (hatecheck, 120),
    "sms_spam (trained on)": (labelled("sms_spam", "SPAM", "spam"), 60),
}
# With fewer texts of either answer, no line is chosen.
FEWEST = 10
# Longer texts are left out: what they cost would be spent on few.
LONGEST = 1_000
# Beside the questions that a written case answers by yes, so many others are drawn.
NO_QUESTIONS = 9


def drawn(rows, count):
    """A sample with enough of every question's yes: those with the rarest one first, then the rest at random."""
    rows = [(text, labels) for text, labels in rows if text.strip() and len(text) <= LONGEST]
    draw = random.Random(7)
    draw.shuffle(rows)
    questions = {name for _, labels in rows for name in labels}
    rare = sorted(questions, key=lambda name: sum(labels.get(name, False) for _, labels in rows))
    quota = count // (2 * len(questions))
    taken = []
    for name in rare:
        have = sum(labels.get(name, False) for _, labels in taken)
        wanted = [row for row in rows if row not in taken and row[1].get(name)]
        taken += wanted[: max(0, quota - have)]
    rest = [row for row in rows if row not in taken]
    taken += rest[: count - len(taken)]
    draw.shuffle(taken)
    return taken


@contextlib.contextmanager
def service(auspex):
    """A service on a database of its own; yields its address and a key for the moderation routes."""
    with tempfile.TemporaryDirectory() as home:
        settings = {"AUSPEX_LISTEN": "127.0.0.1:0", "AUSPEX_DATA_DIR": f"{home}/data", "AUSPEX_LOG": "error", "HOME": home}
        settings |= {"AUSPEX_SIGNUP_CREDIT_CENTS": "100000000", "AUSPEX_RATE_LIMIT_PER_MINUTE": "1000000", "AUSPEX_ANALYZER_TIMEOUT_MS": "300000"}
        given = {name: value for name, value in os.environ.items() if name.startswith("AUSPEX_ANALYZER") or name == "PATH"}
        server = subprocess.Popen([auspex, "serve"], env=settings | given, cwd=home, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split(" listens on ")[1].strip()
            account = {"tenant_name": "Eval", "email": "eval@example.com", "password": "seven lamps along the quay"}
            session = post(f"{url}/auth/console/register", account)["token"]
            key = {"name": "eval", "kind": "bearer", "scopes": ["moderate"]}
            yield url, post(f"{url}/v1/api_keys", key, bearer(session))["secret"]
        finally:
            server.terminate()
            server.wait()


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def post(url, body, headers=None):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"} | (headers or {}))
    for attempt in range(10):
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            # A machine that others keep busy.
            if error.code not in (429, 503, 504) or attempt == 9:
                raise
            time.sleep(3)


def moderate(url, key, text):
    """The answer of OpenAI's route to a text: all categories."""
    return post(f"{url}/v1/moderations", {"input": text}, bearer(key))


def scores(url, key, known, text, names):
    """The scores of a text by the routes that clients use: categories by one, attributes by the other."""
    found = {}
    if any(name in known["categories"] for name in names):
        found |= moderate(url, key, text)["results"][0]["category_scores"]
    attributes = [name for name in names if name in known["attributes"]]
    if attributes:
        request = {"comment": {"text": text}, "requestedAttributes": dict.fromkeys(attributes, {}), "languages": ["en"]}
        answered = post(f"{url}/v1alpha1/comments:analyze?key={key}", request)["attributeScores"]
        found |= {name: answered[name]["summaryScore"]["value"] for name in attributes}
    return found


def share(part, whole):
    """A share with its 95 % interval (Wilson)."""
    if whole == 0:
        return "–"
    z, p = 1.96, part / whole
    middle, half = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return f"{p:.2f} ({max(0.0, (middle - half) / scale):.2f} to {min(1.0, (middle + half) / scale):.2f})"


def auc_interval(area, yes, no):
    """The 95 % interval of an AUC of so many texts of each side (Newcombe's method 5, as in docs/adr/0024-intervals-of-figures.md): the
    values from which this one is at most 1.96 standard errors away, by the formula of Hanley and McNeil."""
    others = (yes + no) / 2 - 1

    def is_too_far(value):
        pairs = 1 + others * (1 - value) / (2 - value) + others * value / (1 + value)
        return abs(value - area) > 1.96 * math.sqrt(value * (1 - value) * pairs / (yes * no))

    def end(bound):
        outside, inside = bound, area
        for _ in range(60):
            middle = (outside + inside) / 2
            outside, inside = (middle, inside) if is_too_far(middle) else (outside, middle)
        return inside

    return end(0.0), end(1.0)


def auc(yes, no):
    """The area under the curve with its 95 % interval."""
    if not yes or not no:
        return "–"
    area = sum((a > b) + (a == b) / 2 for a in yes for b in no) / (len(yes) * len(no))
    low, high = auc_interval(area, len(yes), len(no))
    return f"{area:.2f} ({low:.2f} to {high:.2f})"


def recall_and_alarms(judged, line):
    yes, no = [score for score, is_yes in judged if is_yes], [score for score, is_yes in judged if not is_yes]
    return sum(score >= line for score in yes), len(yes), sum(score >= line for score in no), len(no)


def best_line(judged):
    """Where recall minus false alarms is greatest; the middle of these lines if there are several."""

    def gain(line):
        found, yes, alarms, no = recall_and_alarms(judged, line)
        return found / max(yes, 1) - alarms / max(no, 1)

    gains = {line: gain(line) for line in GRID}
    best = [line for line, value in gains.items() if value >= max(gains.values()) - 1e-9]
    return best[len(best) // 2]


def table(name, judged_by_question):
    """Figures of a set. What is found at the sensible line is counted on texts that it was not chosen on: on each half, at the line of
    the other."""
    print(f"\n{name}\n\n| question | texts, yes | AUC | at 0.5: found | false alarms | sensible line | found there | false alarms there |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for question, judged in judged_by_question.items():
        yes, no = [score for score, is_yes in judged if is_yes], [score for score, is_yes in judged if not is_yes]
        cells = [f"{len(judged)}, {len(yes)}", auc(yes, no)]
        found, all_yes, alarms, all_no = recall_and_alarms(judged, 0.5)
        cells += [share(found, all_yes), share(alarms, all_no)]
        if min(all_yes, all_no) < FEWEST:
            cells += ["too few", "–", "–"]
        else:
            halves = judged[0::2], judged[1::2]
            crossed = [recall_and_alarms(judge, best_line(other)) for judge, other in (halves, halves[::-1])]
            found, _, alarms, _ = map(sum, zip(*crossed))
            cells += [f"{best_line(judged):.2f}", share(found, all_yes), share(alarms, all_no)]
        print(f"| `{question}` | " + " | ".join(cells) + " |", flush=True)


def cases_table(judged_by_question):
    """The written cases, too few for anything but counting."""
    print("\nwritten cases\n\n| question | found at 0.5 | false alarms at 0.5 | AUC |\n| --- | --- | --- | --- |")
    for question, judged in judged_by_question.items():
        found, yes, alarms, no = recall_and_alarms(judged, 0.5)
        curve = auc([score for score, is_yes in judged if is_yes], [score for score, is_yes in judged if not is_yes])
        print(f"| `{question}` | {found} of {yes} | {alarms} of {no} | {curve} |", flush=True)


class Kept:
    """Answers in a file, by text and question. They count where binary, model and wording are the same."""

    def __init__(self, path, wordings, source):
        self.path = path and pathlib.Path(path)
        self.lock = threading.Lock()
        self.wordings = wordings
        lines = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        # Those of before have neither.
        rows = [row for row in map(json.loads, lines) if "source" in row]
        self.source = source or (rows[-1]["source"] if rows else None)
        self.scores = {}
        for row in rows:
            if row["source"] == self.source:
                same = {name: score for name, score in row["scores"].items() if row["wordings"][name] == wordings.get(name)}
                self.scores.setdefault(row["text"], {}).update(same)

    def get(self, text, names, ask):
        found = self.scores.get(text, {})
        missing = [name for name in names if name not in found]
        if missing:
            if ask is None:
                return None
            asked = ask(text, missing)
            found = self.scores[text] = found | asked
            if self.path:
                row = {"source": self.source, "text": text, "scores": asked, "wordings": {name: self.wordings[name] for name in asked}}
                with self.lock, self.path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        return found


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def judge(sets, known, kept, ask):
    """Asks about all texts, and prints a table of each set."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, texts in sets.items():
            judged = {}
            answers = pool.map(lambda row: kept.get(row[0], list(row[1]), ask), texts)
            for (_, labels), found in zip(texts, answers):
                for question, is_yes in labels.items() if found else ():
                    judged.setdefault(question, []).append((found[question], is_yes))
            judged = {question: judged[question] for question in known if question in judged}
            cases_table(judged) if name == "written cases" else table(name, judged)


def public_sets(folder):
    """A sample of each set that is there. A folder without any is a mistake."""
    folder, sets = pathlib.Path(folder), {}
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: AUSPEX_EVAL_DATA must name the one with the public sets, or nothing")
    for name, (read, count) in PUBLIC.items():
        try:
            sets[name] = drawn(read(folder), count)
        except FileNotFoundError as error:
            print(f"{name} is left out: {error.filename} is not there", file=sys.stderr)
    if not sets:
        sys.exit(f"{folder} has none of the public sets")
    return sets


def main(auspex, folder=None, scores_file=None):
    known = json.loads(QUESTIONS.read_text())
    names = known["categories"] | known["attributes"]
    wordings = {name: digest(json.dumps(question, sort_keys=True).encode()) for name, question in names.items()}
    sets = public_sets(folder) if folder else {}
    sets["written for a line"] = list(for_lines())
    sets["written cases"] = list(written(list(names)))
    if auspex == "-":
        judge(sets, names, Kept(scores_file, wordings, None), None)
        return
    binary = pathlib.Path(auspex).resolve()
    with service(str(binary)) as (url, key):
        model = moderate(url, key, "Good morning.")["model"]
        kept = Kept(scores_file, wordings, {"binary": digest(binary.read_bytes()), "model": model})
        judge(sets, names, kept, lambda text, asked: scores(url, key, known, text, asked))


if __name__ == "__main__":
    main(*sys.argv[1:])
