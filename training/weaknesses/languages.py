"""The same matters in twelve languages beside English. Sentences stand in `sentences.py`."""

from .common import OBJECTS, Case, choice, done, noul, said, shuffled, timed
from .sentences import SENTENCES

# A matter: yes/no questions that hold for it, its name as an option.
MATTERS = {
    "threat": (["Does the writer threaten somebody?", "Is this a threat?", "Is violence announced?"], "a threat", ["Is the writer hostile?"]),
    "refund": (["Does the writer want money back?", "Is this a request for a refund?"], "a request for a refund", []),
    "cancel": (["Does the customer want to cancel?", "Is somebody ending a subscription or contract?"], "a cancellation", []),
    "praise": (["Is the writer satisfied?", "Is this praise?"], "praise", ["Is the message friendly?"]),
    "late": (["Is something late or missing?", "Does the writer wait for a delivery?"], "a delivery that did not come", []),
    "offsite": (["Does the writer want to deal outside of the platform?", "Is somebody asked to pay or talk elsewhere?"], "a deal outside of the platform", ["Is this risky for the other side?"]),
    "password": (["Can the writer not log in?", "Is this about access to an account?"], "trouble with logging in", []),
    "price": (["Does the writer ask what something costs?", "Is this a question about a price?"], "a question about the price", ["Is a question asked?"]),
    "insult": (["Is somebody insulted?", "Is the message offensive?"], "an insult", ["Is the writer hostile?"]),
    "solved": (["Has the problem been solved?", "Does everything work now?"], "a problem that is solved", []),
    "broken": (["Is the item damaged?", "Does the writer report a defect?"], "a damaged item", []),
    "buy": (["Does the writer want to buy now?", "Is the writer ready to order?"], "somebody who wants to buy", []),
    # Held out whole.
    "job": (["Is somebody looking for work?", "Is this an application for a job?"], "an application for a job", []),
    "appointment": (["Does the writer want an appointment?", "Is a date for a visit asked for?"], "a request for an appointment", []),
    "sick": (["Is the writer ill?", "Does somebody report sick?"], "a report of illness", []),
}
HELD = {"job", "appointment", "sick"}
OFF = {"threat": {"insult"}, "insult": {"threat"}, "late": {"refund"}, "refund": {"late", "broken"}, "broken": {"refund"}, "buy": {"price"}, "price": {"buy"}}
ASKS = {False: ["What is the message about?", "What does the writer want?", "What kind of message is it?"], True: ["Which of these describes the message?", "Sum up the message."]}


def sentences(matter, held):
    """(language, sentence): the last of each language is held out."""
    return [(language, text) for language, texts in SENTENCES[matter].items() for text in (texts if matter in HELD else texts[-1:] if held else texts[:-1])]


def make(draw, held, matter=None, language=None):
    matters = [name for name in MATTERS if held or name not in HELD]
    matter = matter or draw.choice(matters)
    found = [one for one in sentences(matter, held) if language in (None, one[0])]
    language, text = draw.choice(found)
    far = [name for name in matters if name != matter and name not in OFF.get(matter, ())]
    others = draw.sample(far, draw.randint(2, 6))
    events = [said(text)]
    if draw.random() < 0.3:
        events.insert(0, done(draw.choice(["session_started", "chat_opened", "mail_received"] if not held else ["form_filled"])))
    yes, name, also = MATTERS[matter]
    asked = [noul(draw.choice(yes), True, sure=0.95), noul(draw.choice(MATTERS[others[0]][0]), False, sure=0.95),
             choice(draw.choice(ASKS[held]), shuffled(draw, [name, *[MATTERS[one][1] for one in others]]), name)]
    if also:
        asked.append(noul(draw.choice(also), True, sure=0.9))
    return [Case(draw.choice(OBJECTS[held]), timed(draw, events), asked, part=language)]
