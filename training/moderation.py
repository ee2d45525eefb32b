"""Judges the built-in questions of the moderation routes: by public sets, and by cases that were written for each of them.

    python3 training/moderation.py AUSPEX [PUBLIC]   asks by `AUSPEX model eval` and prints AUC, precision and recall at 0.5, and the
                                                     threshold at which wrong answers cost least

Of the public sets only `olid` has never been trained on. The cases are few: they show a question that fails, not how good one is.
A case is a text with the names of the questions that are answered by `yes`, and of those that people would answer differently: they
are left `open`, and not asked about it. Every other answer is no. For `sexual/minors` there are only texts that it must not flag.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
QUESTIONS = HERE.parent / "crates/service/src/analysis/moderation/questions.json"
ROWS = 400

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


def definitions():
    known = json.loads(QUESTIONS.read_text())
    return known["categories"] | known["attributes"]


def line(text, definition, is_yes):
    return {"text": text, "object_type": "message", "signal": {"type": "noul"} | definition, "value": is_yes}


def sets(folder, known):
    """Every set by its name: the names of its questions, and for each text which of them are answered by yes, and which are open."""
    cases = [json.loads(one) for one in (HERE / "moderation_cases.jsonl").read_text().splitlines()]
    yield "written cases", list(known), [(case["text"], set(case["yes"]), set(case.get("open", []))) for case in cases]
    if folder:
        import public

        draw = random.Random(7)
        for name, questions in PUBLIC.items():
            rows = draw.sample(public.rows(folder, name), ROWS)
            texts = [(row["text"], {question for question, yes in questions.items() if row["label"] in yes}, set()) for row in rows]
            yield name, list(questions), texts


def figure(value):
    return f"{value['value']:.2f} ({value['low']:.2f} to {value['high']:.2f})" if value else "–"


def main(auspex, folder=None):
    known = definitions()
    print("| set | question | texts | yes | AUC | precision at 0.5 | recall at 0.5 | best threshold |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, questions, texts in sets(folder, known):
        with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
            for question in questions:
                asked = ((text, yes) for text, yes, still_open in texts if question not in still_open)
                file.writelines(json.dumps(line(text, known[question], question in yes)) + "\n" for text, yes in asked)
            file.flush()
            told = subprocess.run([auspex, "model", "eval", "--json", file.name], check=True, stdout=subprocess.PIPE).stdout
        for question, report in zip(questions, json.loads(told)):
            half = next(row for row in report["thresholds"] if abs(row["threshold"] - 0.5) < 1e-9)
            cells = [figure(report.get("auc")), figure(half.get("precision")), figure(half.get("recall")), report["best_threshold"]]
            print("| " + " | ".join(map(str, [name, question, report["labels"], report["yes"], *cells])) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
