"""What the generators share: cases, questions, times, and templates with alternatives."""

import dataclasses
import datetime
import re

SURE = 0.97
ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty".split()
TENS = {30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety", 100: "a hundred"}
MONTHS = "January February March April May June July August September October November December".split()
NAMES = {
    False: ["Ana", "Ben", "Chloe", "David", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kemal", "Lara", "Mateo", "Nora", "Oskar", "Paula", "Rafael", "Sofia", "Tomas", "Vera"],
    True: ["Amira", "Bruno", "Carla", "Dmitri", "Esther", "Felix", "Gwen", "Hassan", "Irene", "Jakub", "Katya", "Leon", "Miriam", "Nils", "Olga", "Pedro"],
}
OBJECTS = {False: ["user", "customer", "account", "ticket", "conversation", "message", "order", "case"], True: ["person", "client", "thread", "contact", "request", "member"]}


@dataclasses.dataclass
class Case:
    """An object with its events and what is asked about it.

    `pairs` has (one, other, order): question `other` must be answered like question `one`, with its candidates in that order.
    `twin` names the question of the first case of a call that this case's first question must agree with, where there is one.
    """

    object_type: str
    events: list
    asked: list
    pairs: list = dataclasses.field(default_factory=list)
    twin: int | None = None
    part: str = ""


def spin(draw, text, **slots):
    """A template with every [one|other] decided, and its slots filled."""
    while found := ALTERNATIVES.search(text):
        text = text[: found.start()] + draw.choice(found.group(1).split("|")) + text[found.end() :]
    return text.format(**slots) if slots else text


def start(draw):
    return datetime.datetime(draw.randint(2023, 2027), draw.randint(1, 12), draw.randint(1, 28), draw.randint(0, 23), draw.randint(0, 59))


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def timed(draw, events, first=None, gap=None):
    """Events with times that rise."""
    moment, gap = first or start(draw), gap or draw.choice([120, 3600, 20000, 86400])
    told = []
    for event in events:
        told.append({"at": stamp(moment)} | event)
        moment += datetime.timedelta(seconds=draw.randint(gap // 10 + 1, gap * 2))
    return told


def said(content, name=None, metadata=None):
    return {"type": "message"} | ({"name": name} if name else {}) | {"content": content} | ({"metadata": metadata} if metadata else {})


def done(name, metadata=None, content=None):
    return {"type": "event", "name": name} | ({"content": content} if content else {}) | ({"metadata": metadata} if metadata else {})


def noul(ask, true, criteria=None, sure=SURE):
    share = sure if true else 1 - sure
    return {"type": "noul", "ask": ask, "criteria": criteria}, [share, 1 - share]


def choice(ask, options, right):
    """`options`: names, or names with what they mean; `right`: one name, or several that are equally right."""
    options = options if isinstance(options, dict) else dict.fromkeys(options)
    right = right if isinstance(right, (list, tuple, set)) else [right]
    return {"type": "choice", "ask": ask, "criteria": options}, [float(option in right) / len(right) for option in options]


def score(ask, levels, position):
    """`position` may lie between two levels."""
    return {"type": "score", "ask": ask, "criteria": list(levels)}, [max(0.0, 1 - abs(position - level)) for level in range(len(levels))]


def shuffled(draw, items):
    return draw.sample(list(items), len(items))


def number_word(draw, number, share=0.3):
    """A number in digits, or sometimes in words."""
    if isinstance(number, int) and draw.random() < share:
        if 0 <= number <= 20:
            return WORDS[number]
        if number in TENS:
            return TENS[number]
    return str(number)


def date_word(draw, day):
    return draw.choice([f"{day:%Y-%m-%d}", f"{day.day} {MONTHS[day.month - 1]} {day.year}", f"{MONTHS[day.month - 1]} {day.day}, {day.year}"])


def reversed_scale(question, shares):
    return question | {"criteria": question["criteria"][::-1]}, shares[::-1]
