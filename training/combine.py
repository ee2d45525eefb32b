"""Combinators: each makes another question, or another history, whose answer follows from the one that was written."""

import copy
import datetime
import json

from weaknesses import forms, instructions, opposites, places

PREFIXES = ["", "", "", "", "From the history: ", "Judge by the events. ", "Based on what happened, ", "Read the events and decide. ", "Given everything above: "]
NOISE = [
    ("session_refreshed", {"client": "web"}), ("notification_delivered", {"channel": "push"}), ("heartbeat", {}), ("cookie_banner_closed", {}),
    ("theme_changed", {"to": "dark"}), ("app_opened", {"version": "8.4.1"}), ("sync_completed", {"items": 0}), ("terms_banner_shown", {"lang": "en"}),
    ("cache_warmed", {}), ("ab_test_assigned", {"variant": "b"}), ("locale_detected", {"source": "browser"}), ("device_seen", {"os": "Android 14"}),
    ("newsletter_issue_sent", {"issue": 31}), ("avatar_thumbnail_generated", {}), ("search_index_updated", {}), ("daily_digest_queued", {}),
]
CALLED = ["Alex", "Mara", "Jun", "Item 4471", "Order 20-118", "Sam K.", "Lena", "acct_88", "Toni", "Priya", "Case 913"]
# Other words for the default signals, so that the model learns what they mean and not how they are written.
SHORT = {
    "is_scammer": ["Is this user a scammer?", "Is the user trying to defraud others?", "Is this person deceiving others for gain?", "Does this account belong to a fraudster?", "scam risk"],
    "trust_score": ["How far can this user be trusted?", "Rate how trustworthy the user is.", "How safe is it to deal with this user?"],
    "buyer_intent": ["How close is this user to buying?", "Where does the user stand on the way to a purchase?", "What is the buyer's intent?"],
}


def paraphrased(random, question):
    ask = question["ask"]
    if not isinstance(ask, str):
        return question
    key = question.get("signal")
    if key and random.random() < 0.4:
        return question | {"ask": random.choice(SHORT[key])}
    turn = random.random()
    if turn < 0.05:
        return question | {"ask": {"question": ask}}
    if turn < 0.08:
        return question | {"ask": {"task": "answer from the events", "question": ask}}
    return question | {"ask": random.choice(PREFIXES) + ask}


def negated(random, question, shares):
    """The opposite question. Only its frame is negated: the words of the question stay as somebody wrote them."""
    ask = question["ask"] if isinstance(question["ask"], str) else json.dumps(question["ask"])
    frame = random.choice(["Is the answer to this question no? {}", "Should this be answered with no: {}", "Would it be wrong to answer this with yes? {}"])
    criteria = question.get("criteria") or {}
    turned = {}
    if "false" in criteria:
        turned["true"] = criteria["false"]
    if "true" in criteria:
        turned["false"] = criteria["true"]
    return {"type": "noul", "ask": frame.format(ask), "criteria": turned or None}, shares[::-1]


def words(name, what):
    return f"{name}: {what}" if isinstance(what, str) else str(name)


def as_noul(random, question, shares):
    """One option of a choice, or a part of a scale, asked as yes or no."""
    ask = question["ask"] if isinstance(question["ask"], str) else json.dumps(question["ask"])
    if question["type"] == "choice":
        options = list(question["criteria"].items())
        at = shares.index(max(shares)) if random.random() < 0.5 else random.randrange(len(options))
        share = shares[at]
        told = words(*options[at])
        asks = [f"{ask} Is it this: {told}", f"Is \"{told}\" the right answer? {ask}", f"{ask} — {told}?"]
    else:
        levels = question["criteria"]
        at = random.randrange(1, len(levels))
        share = sum(shares[at:])
        asks = [f"{ask} Is it at least this much: {levels[at]}", f"{ask} Does it reach the level \"{levels[at]}\" or more?"]
    share = min(max(share, 0.03), 0.97)
    return {"type": "noul", "ask": random.choice(asks)}, [share, 1 - share]


def merged(random, question, shares):
    """Two options, or two neighbouring levels, become one; or an option that is surely wrong goes."""
    if question["type"] == "score":
        levels = list(question["criteria"])
        if len(levels) < 4:
            return question, shares
        at = random.randrange(len(levels) - 1)
        levels[at : at + 2] = [f"{levels[at]}; or {levels[at + 1]}"]
        return question | {"criteria": levels}, [*shares[:at], shares[at] + shares[at + 1], *shares[at + 2 :]]
    options = list(zip(question["criteria"].items(), shares))
    if len(options) < 3:
        return question, shares
    random.shuffle(options)
    wrong = [option for option in options if option[1] < 0.02]
    if wrong and random.random() < 0.5:
        options.remove(wrong[0])
    elif len(options) > 3:
        ((one, first), share), ((other, second), rest) = options.pop(), options.pop()
        both = f"{words(one, first)}; or {words(other, second)}" if isinstance(first, str) or isinstance(second, str) else None
        options.append(((f"{one} or {other}"[:64], both), share + rest))
    total = sum(share for _, share in options)
    return question | {"criteria": dict(option for option, _ in options)}, [share / total for _, share in options]


def barer(random, question):
    """Without what the criteria say, where the question stands without it."""
    criteria = question.get("criteria")
    if question.get("signal") or not criteria or question["type"] == "score":
        return question
    if question["type"] == "noul":
        return question | {"criteria": random.choice([None, {key: criteria[key] for key in criteria if key == "true"} or None])}
    if all(len(name) > 3 for name in criteria):
        return question | {"criteria": dict.fromkeys(criteria)}
    return question


def coded(random, question):
    """Options under names that say nothing, where their descriptions say it all."""
    criteria = question["criteria"]
    if len(criteria) > 26 or not all(isinstance(what, str) for what in criteria.values()):
        return question
    name = random.choice(["{}", "option {}", "C{}", "class_{}", "{})"]).format
    codes = random.sample(range(1, 30), len(criteria)) if random.random() < 0.5 else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return question | {"criteria": {name(code): what for code, what in zip(codes, criteria.values())}}


def noisy(random, events):
    """Events that mean nothing, somewhere. Never messages: «the last message» must stay the last."""
    events = copy.deepcopy(events)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(events) + 1)
        name, metadata = random.choice(NOISE)
        near = events[min(at, len(events) - 1)]["at"]
        events.insert(at, {"at": near, "type": "event", "name": name} | ({"metadata": metadata} if metadata else {}))
    return events


def varied(random, question, shares):
    """Another way to ask the same."""
    turn = random.random()
    kind = question["type"]
    if kind == "noul" and turn < 0.10:
        question, shares = negated(random, question, shares)
    elif kind != "noul" and turn < 0.12:
        question, shares = as_noul(random, question, shares)
    elif kind != "noul" and turn < 0.24 and not question.get("signal"):
        question, shares = merged(random, question, shares)
    elif kind == "choice" and turn < 0.32:
        question = coded(random, question)
    elif turn > 0.88:
        question = barer(random, question)
    return paraphrased(random, question), shares


def turned(question, shares):
    """A yes/no question with «not» in it, or None."""
    ask = opposites.not_asked(question["ask"])
    criteria = question.get("criteria") or {}
    other = {side: criteria[from_] for side, from_ in (("true", "false"), ("false", "true")) if from_ in criteria}
    return ({"type": "noul", "ask": ask, "criteria": other or None}, shares[::-1]) if ask else None


def paired(random, asked):
    """Some questions once more in another form that must be answered alike: the opposite, a choice, a scale turned round."""
    asked, pairs = list(asked), []
    for at, (question, shares) in enumerate(list(asked)):
        turn, other, order = random.random(), None, None
        if question["type"] == "noul":
            if turn < 0.10:
                other, order = turned(question, shares), [1, 0]
            elif turn < 0.14:
                other, order = negated(random, question, shares), [1, 0]
            elif turn < 0.22:
                *other, order = forms.other_forms(random, question, shares, count=1)[0]
        elif question["type"] == "score" and turn < 0.3:
            other, order = (question | {"criteria": question["criteria"][::-1]}, shares[::-1]), list(range(len(shares)))[::-1]
        elif question["type"] == "choice" and turn < 0.12:
            names = list(question["criteria"].items())
            other, order = (coded(random, question), shares), list(range(len(names)))
            if other[0] is question:
                other = (question | {"criteria": {name: what if what is not None else random.choice([name, f"it is {name}"]) for name, what in names}}, shares)
        if other:
            asked.append(tuple(other))
            if order:
                pairs.append((at, len(asked) - 1, order))
    return asked, pairs


def with_order(random, events, asked):
    """The same history with an order to whoever reads it: no answer changes."""
    return instructions.with_order(random, events, instructions.ordered(random, random.choice(asked)[0]))


def lengthened(random, events):
    """The same history among many events that mean nothing. Nothing is said in them: «the last message» must stay the last."""
    first = datetime.datetime.fromisoformat(events[0]["at"].removesuffix("Z"))
    quiet = places.quiet(random, False, random.choice([10, 20, 40, 60, 90, 120, 160, 190]))
    quiet = [event for event in quiet if event["type"] == "event"]
    step = datetime.timedelta(minutes=random.choice([3, 20, 300]))
    before = places.spread(quiet, first - (len(quiet) + 1) * step, step)
    if random.random() < 0.7:
        return before + events
    at = random.randrange(len(events))
    return before[: len(before) // 2] + events[: at + 1] + [event | {"at": events[at]["at"]} for event in before[len(before) // 2 :]] + events[at + 1 :]
