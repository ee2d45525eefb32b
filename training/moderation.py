"""Judges the built-in questions of the moderation routes: by public sets, and by cases that were written for each of them.

    python3 training/moderation.py questions OUT [PUBLIC]   writes the questions about the cases, and about public sets where given
    python3 training/moderation.py judge ANSWERS            prints AUC, precision and recall at 0.5, and the threshold of the best F1

Of the public sets only `olid` has never been trained on. The cases are few: they show a question that fails, not how good one is.
"""

import json
import pathlib
import random
import sys

from evaluate import area, read
from text_rendering import render

HERE = pathlib.Path(__file__).parent
QUESTIONS = HERE.parent / "crates/service/src/analysis/moderation/questions.json"
ROWS = 600

# A public set, and for each question the labels that mean yes.
PUBLIC = {
    "olid": {name: {"offensive"} for name in ("TOXICITY", "INSULT", "PROFANITY", "harassment")},
    "davidson": {
        "TOXICITY": {"offensive_language", "hate_speech"},
        "PROFANITY": {"offensive_language", "hate_speech"},
        "IDENTITY_ATTACK": {"hate_speech"},
        "hate": {"hate_speech"},
    },
    "tweet_hate": {"IDENTITY_ATTACK": {"hate"}, "hate": {"hate"}},
    "sms_spam": {"SPAM": {"spam"}},
}
# Attributes that no case was written for.
WITHOUT_CASES = {"sexual/minors"}


def definitions():
    known = json.loads(QUESTIONS.read_text())
    return known["categories"] | known["attributes"]


def asked(task, text, name, definition, is_yes):
    event = {"at": "2026-01-05T10:00:00Z", "type": "message", "content": text}
    return {
        "task": f"{task} {name}",
        "kind": "noul",
        "state": render("message", [event]),
        "ask": definition["instructions"],
        "criteria": definition["criteria"],
        "shares": [float(is_yes), float(not is_yes)],
    }


def questions(out, folder=None):
    known, rows = definitions(), []
    cases = read(HERE / "moderation_cases.jsonl")
    named = {name for case in cases for name in case["yes"]} - WITHOUT_CASES
    for case in cases:
        for name in sorted(named):
            rows.append(asked("cases", case["text"], name, known[name], name in case["yes"]))
    if folder:
        import public

        draw = random.Random(7)
        for task, names in PUBLIC.items():
            for row in draw.sample(public.rows(folder, task), ROWS):
                for name, yes in names.items():
                    rows.append(asked(task, row["text"], name, known[name], row["label"] in yes))
    pathlib.Path(out).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def at(threshold, scores, truth):
    """Precision, recall and F1 where scores from this threshold are flagged."""
    flagged = [true for score, true in zip(scores, truth) if score >= threshold]
    hits, yes = sum(flagged), sum(truth)
    precision, recall = hits / len(flagged) if flagged else 0.0, hits / yes if yes else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def judge(path):
    by_task = {}
    for answer in read(path):
        scores, truth = by_task.setdefault(answer["task"], ([], []))
        scores.append(answer["probabilities"][0])
        truth.append(answer["shares"][0] > 0.5)
    print("| set | question | rows | yes | AUC | precision at 0.5 | recall at 0.5 | best threshold | its F1 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for task, (scores, truth) in by_task.items():
        precision, recall, _ = at(0.5, scores, truth)
        best = max((step / 20 for step in range(1, 20)), key=lambda threshold: at(threshold, scores, truth)[2])
        figures = [area(scores, truth), precision, recall]
        cells = [*task.rsplit(" ", 1), len(truth), sum(truth), *(f"{figure:.2f}" for figure in figures), f"{best:.2f}"]
        print(f"| {' | '.join(map(str, cells))} | {at(best, scores, truth)[2]:.2f} |")


if __name__ == "__main__":
    {"questions": questions, "judge": judge}[sys.argv[1]](*sys.argv[2:])
