"""Judges the built-in questions of the moderation routes: by public sets, and by cases that were written for each of them.

    python3 training/moderation.py AUSPEX [PUBLIC [SCORES]]   asks a service of its own what the moderation routes ask the analyzer, and
                                                              prints tables of figures; AUSPEX is the binary, PUBLIC a folder with sets

SCORES is a file in which answers are kept: a run that was broken off goes on there. With `-` for AUSPEX nothing is asked, and the tables
are of the answers that are there.

PUBLIC has the files of the sets below under the names that their makers gave them; what is not there is left out. Of those, `sms_spam` was
trained on, the others never. For a question with a set, the sensible line is the threshold at which recall minus false alarms is greatest.
That choice does not depend on how many of the texts are yes, which in the sets is not as it is anywhere else. The written cases are few:
they show a question that fails, not how good one is. A case is a text with the names of the questions that are answered by `yes`, and of
those that people would answer differently: they are left `open`, and not counted. Every other answer is no.
"""

import concurrent.futures
import contextlib
import csv
import gzip
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
    """A service on a database of its own; yields its address and a session to call with."""
    with tempfile.TemporaryDirectory() as home:
        settings = {"AUSPEX_LISTEN": "127.0.0.1:0", "AUSPEX_DATA_DIR": f"{home}/data", "AUSPEX_LOG": "error", "HOME": home}
        settings |= {"AUSPEX_SIGNUP_CREDIT_CENTS": "100000000", "AUSPEX_RATE_LIMIT_PER_MINUTE": "1000000", "AUSPEX_ANALYZER_TIMEOUT_MS": "300000"}
        given = {name: value for name, value in os.environ.items() if name.startswith("AUSPEX_ANALYZER") or name == "PATH"}
        server = subprocess.Popen([auspex, "serve"], env=settings | given, cwd=home, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split(" listens on ")[1].strip()
            account = {"tenant_name": "Eval", "email": "eval@example.com", "password": "seven lamps along the quay"}
            yield url, post(f"{url}/auth/console/register", account)["token"]
        finally:
            server.terminate()
            server.wait()


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


def scores(url, token, known, text, names):
    """The scores of a text: the state and the questions that the moderation routes send to the analyzer. No answer depends on what else
    is asked, so that only the questions with a label are."""
    state = f"Object of type message.\nEvents, oldest first:\n2026-01-01T00:00:00.000000Z message {' '.join(text.splitlines())}\n"
    questions = {f"q{number}": {"type": "noul"} | known[name] for number, name in enumerate(names)}
    found = post(f"{url}/v1/systemone", {"state": state, "questions": questions}, {"authorization": f"Bearer {token}"})["answers"]
    return {name: found[f"q{number}"]["noul"] for number, name in enumerate(names)}


def share(part, whole):
    """A share with its 95 % interval (Wilson)."""
    if whole == 0:
        return "–"
    z, p = 1.96, part / whole
    middle, half = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return f"{p:.2f} ({max(0.0, (middle - half) / scale):.2f} to {min(1.0, (middle + half) / scale):.2f})"


def auc(yes, no):
    """The area under the curve with its 95 % interval (Hanley and McNeil)."""
    if not yes or not no:
        return "–"
    area = sum((a > b) + (a == b) / 2 for a in yes for b in no) / (len(yes) * len(no))
    q1, q2 = area / (2 - area), 2 * area * area / (1 + area)
    variance = area * (1 - area) + (len(yes) - 1) * (q1 - area**2) + (len(no) - 1) * (q2 - area**2)
    half = 1.96 * math.sqrt(max(0.0, variance) / (len(yes) * len(no)))
    return f"{area:.2f} ({max(0.0, area - half):.2f} to {min(1.0, area + half):.2f})"


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
    """Answers in a file, by text and question."""

    def __init__(self, path):
        self.path = path and pathlib.Path(path)
        self.lock = threading.Lock()
        lines = self.path.read_text().splitlines() if self.path and self.path.exists() else []
        self.scores = {row["text"]: row["scores"] for row in map(json.loads, lines)}

    def get(self, text, names, ask):
        found = self.scores.get(text, {})
        if not all(name in found for name in names):
            if ask is None:
                return None
            found = self.scores[text] = found | ask(text, [name for name in names if name not in found])
            if self.path:
                with self.lock, self.path.open("a") as file:
                    file.write(json.dumps({"text": text, "scores": found}) + "\n")
        return found


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


def main(auspex, folder=None, scores_file=None):
    known = json.loads(QUESTIONS.read_text())
    known = known["categories"] | known["attributes"]
    sets = {}
    for name, (read, count) in PUBLIC.items() if folder else ():
        with contextlib.suppress(FileNotFoundError):
            sets[name] = drawn(read(pathlib.Path(folder)), count)
    sets["written cases"] = list(written(list(known)))
    kept = Kept(scores_file)
    if auspex == "-":
        judge(sets, known, kept, None)
        return
    with service(str(pathlib.Path(auspex).resolve())) as (url, token):
        judge(sets, known, kept, lambda text, names: scores(url, token, known, text, names))


if __name__ == "__main__":
    main(*sys.argv[1:])
