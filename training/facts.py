"""Questions whose answers follow from the events by rule: order, counts, values, amounts, times. They teach reading; what
only a person can infer is in the written histories."""

import datetime
import re
from collections import Counter

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
SPANS = [("less than an hour", 3600), ("less than a day", 86400), ("less than a week", 7 * 86400), ("less than a month", 30 * 86400), ("a month or more", None)]
COUNTS = [["none", "one", "two", "three or more"], ["0", "1", "2", "3", "4 or more"], ["no such event", "one", "two or three", "four or more"]]


def label(event):
    return re.sub(r"[._]", " ", event["name"]) if event["type"] == "event" and event.get("name") else None


def moment(event):
    return datetime.datetime.fromisoformat(event["at"].replace("Z", "+00:00"))


def noul(random, asks, true):
    share = 0.97 if true else 0.03
    return {"type": "noul", "ask": random.choice(asks)}, [share, 1 - share]


def among(random, ask, right, wrong):
    options = [right, *list(dict.fromkeys(str(one) for one in wrong if str(one) != right))[:4]]
    random.shuffle(options)
    return ({"type": "choice", "ask": ask, "criteria": dict.fromkeys(options)}, [float(option == right) for option in options]) if len(options) > 1 else None


def order(random, events, pool):
    once = [name for name, count in Counter(filter(None, map(label, events))).items() if count == 1]
    if len(once) < 2:
        return None
    names = [label(event) for event in events]
    one, other = random.sample(once, 2)
    before = names.index(one) < names.index(other)
    if random.random() < 0.5:
        return noul(random, [f"Did {one} come before {other}?", f"Was there {one} first and {other} later?"], before)
    return noul(random, [f"Did {one} come after {other}?", f"Was {other} followed by {one}?"], not before)


def edge(random, events, pool):
    names = [label(event) or "message" for event in events]
    last = random.random() < 0.65
    right = names[-1 if last else 0]
    wrong = random.sample(names, len(names)) + random.sample(pool["names"], 2)
    return among(random, random.choice(["What happened last?", "What is the newest event?"] if last else ["What happened first?", "What is the oldest event?"]), right, wrong)


def count(random, events, pool):
    names = Counter(label(event) or "message" for event in events)
    name = random.choice([*names, *random.sample(pool["names"], 1)])
    number = names.get(name, 0)
    what = "messages" if name == "message" else f"{name} events"
    if random.random() < 0.5:
        least = random.randint(1, 4)
        return noul(random, [f"Are there at least {least} {what}?", f"Did it happen {least} times or more: {name}"], number >= least)
    levels = random.choice(COUNTS)
    at = {4: min(number, 3), 5: min(number, 4)}[len(levels)] if levels != COUNTS[2] else 0 if number == 0 else 1 if number == 1 else 2 if number < 4 else 3
    return {"type": "score", "ask": random.choice([f"How many {what} are there?", f"How often did this happen: {name}"]), "criteria": levels}, [float(level == at) for level in range(len(levels))]


def value(random, events, pool):
    known = [(label(event), key, told) for event in events for key, told in event.get("metadata", {}).items() if isinstance(told, (str, int, float)) and not isinstance(told, bool) and len(str(told)) < 40]
    if not known:
        return None
    name, key, told = random.choice(known)
    if sum(one == key for _, one, _ in known) > 1 and len({str(v) for _, k, v in known if k == key}) > 1:
        return None
    others = [one for one in pool["values"].get(key, []) if str(one) != str(told)]
    number = NUMBER.search(str(told))
    if number and number.group() not in ("0", "0.0"):
        for factor in (0.5, 1.1, 2, 10):
            near = float(number.group()) * factor
            others.append(str(told).replace(number.group(), f"{near:.0f}" if "." not in number.group() else f"{near:.2f}"))
    others = [one for one in others if str(one) != str(told)]
    if not others:
        return None
    shown = key.replace("_", " ")
    turn = random.random()
    if number and turn < 0.35:
        bound = float(number.group()) * random.choice([0.3, 0.6, 0.85, 0.95, 1.05, 1.2, 1.7, 3])
        bound = round(bound) if abs(bound) > 12 else round(bound, 1)
        more = random.random() < 0.5
        true = float(number.group()) > bound if more else float(number.group()) < bound
        words = ["more than", "over", "above"] if more else ["less than", "under", "below"]
        return noul(random, [f"Is the {shown} {random.choice(words)} {bound}?"], true) if float(number.group()) != bound else None
    if turn < 0.65:
        true = random.random() < 0.5
        claimed = told if true else random.choice(others)
        return noul(random, [f"Is the {shown} {claimed}?", f"{shown}: is it {claimed}?", f"Does the history give {claimed} as the {shown}?"], true)
    return among(random, f"What is the {shown}?", str(told), random.sample(others, min(4, len(others))))


def span(random, events, pool):
    if len(events) < 2:
        return None
    first, last = sorted(random.sample(range(len(events)), 2)) if random.random() < 0.5 else (0, len(events) - 1)
    seconds = (moment(events[last]) - moment(events[first])).total_seconds()
    names = [label(event) for event in events]
    if (first, last) != (0, len(events) - 1) and (not names[first] or not names[last] or names.count(names[first]) > 1 or names.count(names[last]) > 1):
        return None
    what = "between the first and the last event" if (first, last) == (0, len(events) - 1) else f"between {names[first]} and {names[last]}"
    if random.random() < 0.5:
        words, limit = random.choice([("an hour", 3600), ("a day", 86400), ("three days", 3 * 86400), ("a week", 7 * 86400), ("a month", 31 * 86400)])
        return noul(random, [f"Did more than {words} pass {what}?", f"Is there more than {words} {what}?"], seconds > limit)
    at = next(place for place, (_, limit) in enumerate(SPANS) if limit is None or seconds < limit)
    return {"type": "score", "ask": f"How much time passed {what}?", "criteria": [words for words, _ in SPANS]}, [float(place == at) for place in range(len(SPANS))]


def presence(random, events, pool):
    names = [name for name in map(label, events) if name]
    true = bool(names) and random.random() < 0.5
    name = random.choice(names) if true else random.choice(pool["names"])
    return noul(random, [f"Did this happen: {name}?", f"Is there a {name} event?", f"Was there ever {name}?"], true) if true or name not in names else None


def quoted(random, events, pool):
    own = [event["content"] for event in events if event.get("content")]
    true = bool(own) and random.random() < 0.5
    words = random.choice(own if true else pool["messages"]).split()
    if len(words) < 5:
        return None
    at = random.randrange(max(1, len(words) - 8))
    return noul(random, [f"Does a message say «{' '.join(words[at : at + 9])}»?", f"Did somebody write: {' '.join(words[at : at + 9])}"], true)


RULES = [order, edge, count, value, value, value, span, presence, quoted]


def pooled(groups):
    """Names, values and messages of all histories: what else there could be."""
    pool = {"names": set(), "values": {}, "messages": []}
    for group in groups:
        for _, events, _ in group[:1]:
            for event in events:
                if label(event):
                    pool["names"].add(label(event))
                if event.get("content"):
                    pool["messages"].append(event["content"])
                for key, told in event.get("metadata", {}).items():
                    if isinstance(told, (str, int, float)) and not isinstance(told, bool):
                        pool["values"].setdefault(key, []).append(told)
    return pool | {"names": sorted(pool["names"])}


def asked(random, events, pool):
    """One question by rule, or None where the rule that was drawn has nothing to ask."""
    return random.choice(RULES)(random, events, pool)
