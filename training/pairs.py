"""Questions that nobody answered, for the teacher: python3 training/pairs.py HISTORIES PUBLIC COUNT prints some.

The same seed gives the same pairs in the same order, so labels are kept without them.
"""

import json
import random
import re
import sys

import combine
import data
import public
from text_rendering import render

NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
DIGITS = re.compile(r"\d+")
EVENTS, MOST = 240, 8  # Of a history, and questions about it.


def renamed(draw, events):
    """Other names and numbers, each everywhere the same. Times stay."""
    known = {}

    def other(found):
        word = found.group()
        if word not in known:
            known[word] = "".join(draw.choice("123456789") for _ in word) if word.isdigit() else draw.choice(combine.CALLED[:6])
        return known[word] if word.isdigit() or draw.random() < 0.9 else word

    def walked(value):
        if isinstance(value, str):
            return DIGITS.sub(other, NAME.sub(lambda found: other(found) if found.start() else found.group(), value))
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            return round(value * draw.choice([0.5, 0.8, 1.1, 1.5, 2]), 2) if isinstance(value, float) else max(0, value + draw.choice([-3, -1, 1, 2, 5]))
        if isinstance(value, dict):
            return {key: walked(inner) for key, inner in value.items()}
        return [walked(inner) for inner in value]

    return [event | {key: walked(event[key]) for key in ("content", "metadata") if key in event} for event in events]


def cut_short(draw, events):
    at = draw.randint(1, max(1, len(events) - 1))
    return events[:at] if draw.random() < 0.6 else events[-at:]


def joined(draw, events, others):
    """Two histories of a kind, one after the other, in the first one's time."""
    last = events[-1]["at"]
    return events + [event | {"at": last} for event in others]


def pairs(groups, sets, seed, count):
    """(object type, events, question): histories with questions of others of their kind, changed histories with their own, public texts."""
    draw = random.Random(seed)
    kinds = {}
    for group in groups:
        kinds.setdefault(group[0][0], []).append(group)
    names, made = list(sets), 0
    while made < count:
        group = draw.choice(groups)
        object_type, events, asked = draw.choice(group)
        other = draw.choice(kinds[object_type])
        strange = [question for question, _ in draw.choice(other)[2]] if other is not group else []
        own, turn = [question for question, _ in asked], draw.random()
        if turn < 0.45:
            questions = strange
        elif turn < 0.6:
            events, questions = cut_short(draw, events), own + strange[:2]
        elif turn < 0.7:
            events, questions = renamed(draw, events), own + strange[:2]
        elif turn < 0.8:
            events, questions = joined(draw, events, draw.choice(other)[1]), own + strange
        elif turn < 0.85:
            events, questions = combine.lengthened(draw, events), strange
        else:
            name = draw.choice(names) if names else None
            row = draw.choice(sets[name][0]) if name else None
            text = (row.get("text") or row.get("premise") or row.get("prompt", "")) if row else ""
            if not 0 < len(text) < 1500:
                continue
            asks = public.question(draw, name, row, sets[name][1])
            events, questions = [{"at": "2026-01-05T10:00:00Z", "type": "message", "content": text}], strange[:3] + ([asks[1]] if asks else [])
        questions, events = draw.sample(questions, min(len(questions), MOST)), events[-EVENTS:]
        for question in questions[: count - made]:
            yield object_type, events, question
        made += len(questions)


def by_state(found):
    """Pairs that follow each other and share their events, as (state, questions)."""
    state, questions, last = None, [], None
    for object_type, events, question in found:
        if events is not last:
            if questions:
                yield state, questions
            state, questions, last = render(object_type, events), [], events
        questions.append(question)
    if questions:
        yield state, questions


if __name__ == "__main__":
    folders, _ = data.folders(sys.argv[1], ["birch", "ferry"])
    sets = data.read_public(sys.argv[2], [name for name in ("davidson", "clinc150", "goemotions", "nli_mnli", "nli_snli", "sms_spam")])
    for state, questions in by_state(pairs(data.read_histories(folders[:4]), sets, 1, int(sys.argv[3]))):
        print(state, *[json.dumps(question, ensure_ascii=False) for question in questions], sep="\n")
