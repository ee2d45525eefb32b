"""The same question as yes/no, as a choice and as a scale."""

from . import actions, insults, irony, numbers, places, roles
from .common import Case

LEVELS = {False: [["no", "yes"], ["not so", "so"], ["false", "true"], ["does not apply", "applies"], ["no", "perhaps", "yes"], ["certainly not", "probably not", "probably", "certainly"]],
          True: [["denied", "confirmed"], ["wrong", "right"], ["ruled out", "open", "established"]]}
OPTIONS = {False: [("yes", "no"), ("true", "false"), ("it is so", "it is not so"), ("correct", "incorrect")], True: [("right", "wrong"), ("confirmed", "denied")]}
SOURCES = [numbers, roles, insults, irony, actions]


def other_forms(draw, question, shares, held=False, count=2):
    """A yes/no question as other questions: (question, shares, order that makes their candidates those of the first)."""
    share, found = shares[0], []
    criteria = question.get("criteria") or {}
    for _ in range(count):
        if draw.random() < 0.5:
            yes, no = draw.choice(OPTIONS[held])
            options = {yes: criteria.get("true"), no: criteria.get("false")}
            if draw.random() < 0.5:
                found.append(({"type": "choice", "ask": question["ask"], "criteria": dict(reversed(options.items()))}, [1 - share, share], [1, 0]))
            else:
                found.append(({"type": "choice", "ask": question["ask"], "criteria": options}, [share, 1 - share], [0, 1]))
        else:
            levels = draw.choice(LEVELS[held])
            position = share * (len(levels) - 1)
            shares_of = [max(0.0, 1 - abs(position - level)) for level in range(len(levels))]
            order = [1, 0] if len(levels) == 2 else None
            if draw.random() < 0.4:
                levels, shares_of, order = levels[::-1], shares_of[::-1], [0, 1] if order else None
            found.append(({"type": "score", "ask": question["ask"], "criteria": levels}, shares_of, order))
    return found


def make(draw, held):
    cases = []
    for case in draw.choice(SOURCES).make(draw, held):
        own = [one for one in case.asked if one[0]["type"] == "noul"][:1]
        if not own:
            continue
        asked, pairs = list(own), []
        for question, shares, order in other_forms(draw, *own[0], held, 3):
            asked.append((question, shares))
            if order:
                pairs.append((0, len(asked) - 1, order))
        cases.append(Case(case.object_type, case.events, asked, pairs))
    return cases
