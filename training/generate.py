"""Generated cases for known weaknesses: what is held out of them, and how well an analyzer does on it.

    python3 training/generate.py held-out                 writes weaknesses/held-out/NAME.jsonl, from templates that training never sees
    python3 training/generate.py questions OUT [NAME…]    writes their questions as `evaluate.py` does, for `answer`
    python3 training/generate.py judge ANSWERS            prints the figures by weakness, by part, and of pairs that should agree
    python3 training/generate.py show NAME [COUNT]        prints cases that training draws

Nothing beyond Python is needed.
"""

import copy
import dataclasses
import json
import pathlib
import random
import sys

import evaluate
import weaknesses
from text_rendering import render
from weaknesses import common, insults, languages, places

HELD_OUT = pathlib.Path(__file__).parent / "weaknesses/held-out"
SEED = 9_000_017  # Training draws from seeds below this one.
CALLS = {"numbers": 130, "scales": 90, "actions": 100, "roles": 60, "irony": 40, "options": 80, "opposites": 50, "forms": 70, "instructions": 80}
STATIONS = [(10, "end"), (80, "end"), (120, "end"), (195, "end"), (195, "middle"), (195, "front")]


def held_places(draw):
    """Each decisive event alone, and the same one at every station."""
    for _ in range(3):
        for matter in places.DECISIVE[True]:
            alone, *_ = places.make(draw, True, 10, "end", matter)
            alone.asked = [one for one in alone.asked if one[0]["type"] == "noul"]
            calls, event = [alone], {key: value for key, value in alone.events[0].items() if key != "at"}
            for count, place in STATIONS:
                events = places.among(draw, True, copy.deepcopy(event), count, place)
                calls.append(common.Case(alone.object_type, events, alone.asked, twin=0, part=f"{place} of {count}"))
            yield calls


def held_cases(name):
    """The held-out calls of a weakness, each a list of cases."""
    draw = random.Random(f"{SEED} {name}")
    if name == "places":
        yield from held_places(draw)
    elif name == "languages":
        for matter in languages.MATTERS:
            for language in languages.SENTENCES[matter]:
                yield languages.make(draw, True, matter, language)
    elif name == "insults":
        for number in range(160):
            yield insults.make(draw, True, ["insult", "insult", "threat", "harmless"][number % 4], number % 8 < 4)
    else:
        for _ in range(CALLS[name]):
            yield weaknesses.make(draw, name, True)


def write_held_out():
    HELD_OUT.mkdir(exist_ok=True)
    for name in weaknesses.MODULES:
        lines = [json.dumps({"call": number} | dataclasses.asdict(case), ensure_ascii=False) for number, call in enumerate(held_cases(name)) for case in call]
        (HELD_OUT / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
        print(name, len(lines), "cases,", sum(len(json.loads(line)["asked"]) for line in lines), "questions")


def rows(names=None):
    """The held-out questions as rows of an evaluation; `id` and `like` tell which rows should agree, and in which order."""
    found = []
    for name in names or weaknesses.MODULES:
        first = {}
        for number, case in enumerate(evaluate.read(HELD_OUT / f"{name}.jsonl")):
            state, base = render(case["object_type"], case["events"]), f"{name} {number}"
            first.setdefault(case["call"], base)
            likes = {other: (f"{base} {one}", order) for one, other, order in case["pairs"]}
            for place, (question, shares) in enumerate(case["asked"]):
                row = {"task": f"weak {name}", "part": case["part"], "id": f"{base} {place}", "state": state} | evaluate.asked_as(question, shares)
                if place in likes:
                    row["like"] = likes[place]
                elif case["twin"] is not None:
                    row["like"] = (f"{first[case['call']]} {place}", list(range(len(shares))))
                found.append(row)
    return found


def agreement(answers):
    """Of pairs that should agree: how far the first candidates are apart, and how often the top is the same."""
    known, groups = {answer["id"]: answer for answer in answers}, {}
    for answer in answers:
        other, order = answer.get("like") or (None, None)
        if other not in known:
            continue
        one, two = evaluate.probabilities(known[other]), evaluate.probabilities(answer)
        two = [two[at] for at in order]
        top = max(range(len(one)), key=one.__getitem__)
        groups.setdefault(answer["task"].removeprefix("weak "), []).append((abs(one[0] - two[0]), float(two[top] == max(two))))
    lines = ["| pairs of | number | mean distance | same top |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {len(own)} | {evaluate.mean(one for one, _ in own):.3f} | {evaluate.mean(two for _, two in own):.3f} |" for name, own in groups.items()])


def kept(answers):
    """A decisive event among others, as a share of what it is alone."""
    known, groups = {answer["id"]: answer for answer in answers}, {}
    for answer in answers:
        if answer["task"] == "weak places" and (answer.get("like") or [None])[0] in known and answer["shares"][0] > 0.5:
            alone = evaluate.probabilities(known[answer["like"][0]])[0]
            groups.setdefault(answer["part"], []).append((evaluate.probabilities(answer)[0], alone))
    lines = ["| a decisive event | questions | probability of yes | alone | share that is left |", "|---|---|---|---|---|"]
    for part, own in groups.items():
        here, alone = evaluate.mean(one for one, _ in own), evaluate.mean(two for _, two in own)
        lines.append(f"| {part} | {len(own)} | {here:.3f} | {alone:.3f} | {here / alone:.3f} |")
    return "\n".join(lines)


def judged(answers, settings=None):
    answers = [answer | {"probabilities": evaluate.probabilities(answer, (settings or {}).get(answer["kind"], (1.0, 0.0)))} for answer in answers]
    parts = [answer | {"task": f"{answer['task']}, {answer['part']}"} for answer in answers if answer["task"].split()[-1] in ("languages", "insults", "instructions")]
    return "\n\n".join([evaluate.table(answers), evaluate.table(parts), agreement(answers), kept(answers)])


def show(name, count=3):
    draw = random.Random()
    for _ in range(int(count)):
        for case in weaknesses.make(draw, name):
            print(render(case.object_type, case.events), *case.asked, sep="\n")


def main():
    what, *rest = sys.argv[1:]
    if what == "held-out":
        write_held_out()
    elif what == "questions":
        pathlib.Path(rest[0]).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(rest[1:])))
    elif what == "judge":
        print(judged(evaluate.read(rest[0])))
    elif what == "show":
        show(*rest)


if __name__ == "__main__":
    main()
