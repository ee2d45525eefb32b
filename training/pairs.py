"""Questions that nobody answered, for the teacher: python3 training/pairs.py HISTORIES PUBLIC SHARDS prints some.

They come in shards. The same seed and number give the same shard, so labels are kept without them (`labels.py`).
"""

import json
import random
import re
import sys

import combine
import data
import histories
import public
from text_rendering import render

NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
DIGITS = re.compile(r"\d+")
STATES, EVENTS, MOST = 256, 240, 8  # Histories of a shard, events of a history, questions about it.
FOREIGN = 0.3  # The share of histories in languages other than English, of which there are too few.


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
    """The beginning, the end, or all but one event."""
    at = draw.randint(1, max(1, len(events) - 1))
    turn = draw.random()
    if turn < 0.4 and len(events) > 2:
        return events[: at - 1] + events[at:]
    return events[:at] if turn < 0.8 else events[-at:]


def joined(events, others):
    """Two histories of a kind, one after the other, in the first one's time."""
    last = events[-1]["at"]
    return events + [event | {"at": last} for event in others]


def crossed(draw, group):
    """What the variants of a line change, put together anew: of each time one of the events that stand there."""
    told = {}
    for _, events, _ in draw.sample(group, min(len(group), 3)):
        for event in events:
            told.setdefault(event["at"], []).append(event)
    return [draw.choice(told[at]) for at in sorted(told)]


class Pairs:
    """Histories with questions of others of their kind, changed histories with their own, public texts."""

    def __init__(self, described, sets, seed):
        self.sets, self.names, self.seed = sets, list(sets), seed
        self.groups = [group for _, _, group in described]
        self.foreign = [group for _, language, group in described if language != "en"] or self.groups
        self.kinds, self.writers = {}, {}
        for writer, language, group in described:
            self.kinds.setdefault((group[0][0], language == "en"), []).append(group)
            self.writers.setdefault(id(group), (writer, language == "en"))

    def strange(self, draw, group, object_type):
        """Questions that somebody asked about another object of this type."""
        kin = self.kinds[object_type, self.writers[id(group)][1]]
        other = draw.choice(kin)
        return [(question, None) for question, _ in draw.choice(other)[2]] if other is not group else []

    def row(self, draw):
        """(object type, events, [(question, what was written or None)])"""
        group = draw.choice(self.foreign if draw.random() < FOREIGN else self.groups)
        object_type, events, asked = draw.choice(group)
        turn, strange = draw.random(), self.strange(draw, group, object_type)
        own = [(question, None) for question, _ in asked]
        if turn < 0.20:
            own = asked + strange[:2]
        elif turn < 0.45:
            events = crossed(draw, group)
        elif turn < 0.60:
            events, own = cut_short(draw, events), own + strange[:1]
        elif turn < 0.70:
            events = renamed(draw, events)
        elif turn < 0.84:
            own = strange
        elif turn < 0.87:
            events, own = joined(events, draw.choice(draw.choice(self.kinds[object_type, self.writers[id(group)][1]]))[1]), own + strange
        elif turn < 0.90:
            events, own = combine.lengthened(draw, events), own + strange[:2]
        elif self.names:
            name = draw.choice(self.names)
            row = draw.choice(self.sets[name][0])
            text, asks = row.get("text") or row.get("premise") or row.get("prompt", ""), public.question(draw, name, row, self.sets[name][1])
            if not 0 < len(text) < 1500 or not asks:
                return None
            events, own = [{"at": "2026-01-05T10:00:00Z", "type": "message", "content": asks[0]}], strange[:2] + [(asks[1], None)]
        if draw.random() < 0.2:
            key = draw.choice(list(histories.DEFAULTS))
            own = own + [(histories.DEFAULTS[key] | {"signal": key}, None)] * all(question.get("signal") != key for question, _ in own)
        return (object_type, events[-EVENTS:], draw.sample(own, min(len(own), MOST))) if own and events else None

    def shard(self, number):
        draw, rows = random.Random(f"{self.seed} {number}"), []
        while len(rows) < STATES:
            row = self.row(draw)
            rows += [row] if row else []
        return rows


def main():
    folders, _ = data.folders(sys.argv[1], ["birch", "ferry"])
    sets = data.read_public(sys.argv[2], ["davidson", "clinc150", "goemotions", "nli_mnli", "nli_snli", "sms_spam"])
    pairs = Pairs(data.read_described(folders[:8]), sets, 1)
    for number in range(int(sys.argv[3])):
        for object_type, events, asked in pairs.shard(number):
            print(render(object_type, events), *[json.dumps(question, ensure_ascii=False) for question, _ in asked], sep="\n")


if __name__ == "__main__":
    main()
