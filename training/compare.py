"""The figures by which rounds are compared (`LOG.md`): python3 training/compare.py ANSWERS…

ANSWERS are `answers.jsonl` of `train.py`, `teacher.py` or `multilingual.py`. Every written answer is calibrated by what was fitted on
the other held-out writer; generated cases by what was fitted on both.
"""

import json
import sys

import evaluate
import generate

WEAK = [("numbers", "numbers"), ("who did it", "roles"), ("what should be done", "actions"), ("insults in one line", "insults"), ("twelve languages, generated", "languages"),
        ("a decisive event among others", "places"), ("irony", "irony"), ("many options", "options"), ("one question in several forms", "forms"), ("orders in the history", "instructions")]
NAMES = {"noul": "yes/no", "choice": "choice", "score": "scale"}


def by_kind(answers):
    """Accuracy a kind, with AUC for yes/no."""
    told = []
    for kind in evaluate.KINDS:
        own = [answer for answer in answers if answer["kind"] == kind]
        if own:
            got = evaluate.judged(own)
            told.append(f"{NAMES[kind]} {got['accuracy']:.3f} ({got['low']:.3f} to {got['high']:.3f}" + (f"; AUC {got['auc']:.3f}" if kind == "noul" else "") + f"; calibration error {got['calibration']:.3f}; {len(own)} questions)")
    return ", ".join(told)


def public(answers):
    """The mean AUC of yes/no sets, and choice over all rows."""
    tasks = sorted({answer["task"] for answer in answers if answer["kind"] == "noul"})
    areas = {task.split()[-1]: evaluate.judged([answer for answer in answers if answer["task"] == task and answer["kind"] == "noul"])["auc"] for task in tasks}
    choices = [answer for answer in answers if answer["kind"] == "choice"]
    told = f"mean AUC {evaluate.mean(areas.values()):.3f} ({', '.join(f'{name} {area:.3f}' for name, area in areas.items())})"
    return told + (f", choice {evaluate.judged(choices)['accuracy']:.3f}" if choices else "")


def figures(answers):
    """A line for each row of the table, then what `generate.py` says of generated cases."""
    usual, weak = [one for one in answers if not one["task"].startswith("weak")], [one for one in answers if one["task"].startswith("weak")]
    written = [one for one in usual if not one["task"].startswith("public")]
    moved, settings, lines = evaluate.crossed(usual), evaluate.fitted(written), []
    histories = [one for one in moved if one["task"].startswith("histories")]
    for name, own in (
        ("histories", histories),
        ("histories in English", [one for one in histories if one.get("lang") == "en"]),
        ("histories in other languages", [one for one in histories if one.get("lang", "en") != "en"]),
        ("default signals", [one for one in moved if one["task"].startswith("default signals")]),
    ):
        lines.append(f"{name}: {by_kind(own)}")
    lines.append("public: " + public([one for one in moved if one["task"].startswith("public")]))
    for name, task in WEAK + [("bare scales", "scales"), ("opposites", "opposites")]:
        own = [one | {"probabilities": evaluate.probabilities(one, settings[one["kind"]])} for one in weak if one["task"] == f"weak {task}"]
        lines.append(f"{name}: {by_kind(own)}")
    return "\n".join(lines) + "\n\n" + generate.judged(weak, settings) + "\n\n" + json.dumps(settings)


def main():
    for path in sys.argv[1:]:
        print(path, figures(evaluate.read(path)), sep="\n")


if __name__ == "__main__":
    main()
