"""Who did it: the sender in `name`, in `metadata` and in the text, and the same with the roles swapped."""

from .common import NAMES, Case, choice, done, noul, said, shuffled, spin, timed

ROLES = {
    False: [("agent", "customer"), ("buyer", "seller"), ("support", "user"), ("manager", "employee"), ("teacher", "student"), ("moderator", "member"), ("host", "guest"), ("bot", "visitor"), ("recruiter", "applicant")],
    True: [("driver", "passenger"), ("landlord", "tenant"), ("doctor", "patient"), ("coach", "player"), ("waiter", "diner")],
}
KEYS = {False: ["sender", "from", "author", "role", "by", "speaker", "user_role"], True: ["written_by", "who", "party", "origin"]}
# What one of them does, how that is called in a question, what is said, and what the other says meanwhile.
DEEDS = {
    False: [
        ("rude", "Is the {} rude?", "Who is rude?", ["Are you too dumb to read?", "What a stupid question, use your head.", "Stop wasting my time, you fool.", "Do you even have a brain?"]),
        ("threatens", "Does the {} threaten anybody?", "Who utters a threat?", ["I will make sure that you lose your job.", "You will be sorry, I know your address.", "Do that and I will break your arm."]),
        ("apologises", "Does the {} apologise?", "Who says sorry?", ["I am so sorry about that, it was my fault.", "My apologies, I made a mistake.", "Please forgive me, I mixed it up."]),
        ("offers a discount", "Does the {} offer a lower price?", "Who offers a lower price?", ["You can have it for ten percent less.", "I would go down to forty.", "For you I make it cheaper, say thirty."]),
        ("asks for money back", "Does the {} ask for money back?", "Who wants money back?", ["I want my money back.", "Please return the payment to me.", "Give me back what I paid."]),
        ("is impatient", "Is the {} impatient?", "Who is impatient?", ["How much longer? I have been waiting for an hour!", "Come on, hurry up already.", "I will not wait any more, this takes forever!"]),
        ("asks for contact elsewhere", "Does the {} want to talk somewhere else?", "Who wants to leave the chat for another channel?", ["Text me on my private number instead.", "Let us talk on another app, not here.", "Write to my personal mail, please."]),
        ("is grateful", "Does the {} say thanks?", "Who gives thanks?", ["Thank you so much, that helped a lot!", "You saved my day, thanks.", "I am very grateful for this."]),
        ("promises to pay", "Does the {} promise to pay?", "Who promises to pay?", ["I will pay you on Friday, I promise.", "The money comes from me tomorrow.", "You will get every cent from me next week."]),
        ("refuses", "Does the {} refuse?", "Who refuses?", ["No, I will not do that.", "I am afraid I have to decline.", "Absolutely not, that is out of the question."]),
    ],
    True: [
        ("lies", "Does the {} admit a lie?", "Who admits a lie?", ["I was not honest with you, I made that story up.", "Fine, I lied about it."]),
        ("complains", "Does the {} complain?", "Who complains?", ["This place is filthy and far too loud.", "I am not satisfied at all with this."]),
        ("invites", "Does the {} invite the other?", "Whose invitation is it?", ["Come to my party on Saturday!", "Would you join us for dinner tomorrow?"]),
        ("mocks", "Does the {} make fun of the other?", "Who mocks whom: name the one who mocks.", ["Ha, look at you, what a ridiculous hat.", "Even my cat is smarter than you, haha."]),
        ("gives up", "Does the {} give up?", "Who gives up?", ["I cannot go on, I quit.", "Enough, I am done trying."]),
    ],
}
PLAIN = {
    False: ["Good day.", "The meeting is at ten.", "The blue one is in the box.", "I see.", "That was on Tuesday.", "It is on the second floor.", "Let me look it up.", "The number is on the label.", "All right, go on.", "We can look at the list together."],
    True: ["The window faces north.", "It starts at eight.", "Here we are.", "The form has two pages.", "Left at the corner, please."],
}


def spoken(draw, how, key, who, text, names):
    """What somebody said, with the sender where it is told."""
    called = names.get(who, who)
    if how == "name":
        return said(text, name=called)
    if how == "metadata":
        return said(text, metadata={key: called})
    return said(f"{called.capitalize()}: {text}")


def make(draw, held):
    one, other = shuffled(draw, draw.choice(ROLES[held]))
    deed, ask, who_ask, lines = draw.choice(DEEDS[held])
    how, key = draw.choice(["name", "metadata", "metadata", "text"]), draw.choice(KEYS[held])
    named = draw.random() < 0.3
    names = dict(zip((one, other), draw.sample(NAMES[held], 2))) if named else {}
    line, rest = draw.choice(lines), draw.sample(PLAIN[held], draw.randint(1, 4))
    both = draw.random() < 0.1
    cases = []
    for doer, silent in ((one, other), (other, one)):
        events = [spoken(draw, how, key, doer, line, names)] + [spoken(draw, how, key, silent if number == 0 else draw.choice([doer, silent]), text, names) for number, text in enumerate(rest)]
        if both:
            events.append(spoken(draw, how, key, silent, draw.choice(lines), names))
        events = shuffled(draw, events)
        if named:
            events = [done("participants_joined", {one: names[one], other: names[other]})] + events
        if draw.random() < 0.2:
            events.append(done(draw.choice(["chat_closed", "typing_stopped"] if not held else ["line_hung_up"])))
        subject = {role: f"{role}" if not named or draw.random() < 0.5 else names[role] for role in (one, other)}
        asks = {role: ask.format(subject[role]).replace("the " + subject[role], subject[role]) if subject[role] == names.get(role) else ask.format(role) for role in (one, other)}
        options = [subject[one], subject[other], draw.choice(["both", "both of them"]), draw.choice(["neither", "nobody"])]
        right = options[2] if both else subject[doer]
        asked = [noul(asks[one], both or doer == one), noul(asks[other], both or doer == other), choice(spin(draw, who_ask), shuffled(draw, options), right)]
        cases.append(Case(draw.choice(["conversation", "chat", "ticket"] if not held else ["dialogue", "call"]), timed(draw, events, gap=300), asked))
    return cases
