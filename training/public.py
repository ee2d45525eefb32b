"""Questions over the public sets: one text is a history of one event, its label the answer to a question in many wordings.

The sets are not part of this repository. `AUSPEX_DATA` names a folder with them: `NAME.jsonl.xz`, see docs/model-card.md.
"""

import json
import lzma
import pathlib
import re

# Whole sets that are never trained on.
HELD_OUT = ("fraud_call", "olid", "nli_rte", "nli_scitail", "subj", "custrev", "trec", "snips", "tweet_emotion")

# Sets whose licence is not known or forbids commercial use: trained on until round 9, left out from then on (docs/model-card.md).
LEFT_OUT = ("tweet_hate", "sst5", "nli_sick", "nli_joci", "nli_mpe")

# For a yes/no question: its wordings, the labels that mean yes, what yes and no mean.
NOUL = {
    "sms_spam": [(["Is this message spam?", "Is somebody advertising or luring the reader here?", "Would a filter for unwanted mail be right to stop this?"],
                  {"spam"}, "unsolicited advertising, prizes, lures or premium numbers", "a personal or ordinary message")],
    "fraud_call": [(["Is this an attempt at fraud?", "Does the caller try to trick the person out of money or data?"],
                    {"fraud"}, "the caller tries to deceive to get money, codes or data", "an ordinary call or message")],
    "davidson": [(["Is the language offensive?", "Does the post use insulting or vulgar language?", "Would a moderator object to these words?"],
                  {"offensive_language", "hate_speech"}, "insults, slurs or vulgar words", "nothing offensive"),
                 (["Is this hate speech?", "Does the text attack people for what they are?"],
                  {"hate_speech"}, "attacks a group of people for what they are", "no attack on a group")],
    "olid": [(["Is this post offensive?", "Does the text contain insults, threats or profanity?", "Is it rude or hurtful to somebody?"],
              {"offensive"}, "insults, threats or profanity", "no offensive language")],
    "tweet_hate": [(["Does this text spread hate against women or immigrants?", "Is this hateful towards a group of people?"],
                    {"hate"}, "hostile to a group of people", "no hate against a group")],
    "subj": [(["Is this a personal opinion?", "Does the writer judge rather than report?"],
              {"subjective"}, "opinion, praise or blame", "a plain statement of what happens")],
    "custrev": [(["Is the customer satisfied?", "Is this a positive remark about the product?"],
                 {"positive"}, "the customer praises it", "the customer complains")],
    "sst5": [(["Did the reviewer like the film?", "Is the review favourable?", "Would this writer recommend it?"],
              {"positive", "very positive"}, "praise prevails", "criticism prevails"),
             (["Is the review negative?", "Was the reviewer disappointed?"],
              {"negative", "very negative"}, "criticism prevails", "praise prevails, or neither")],
    "tweet_emotion": [(["Is the writer angry?"], {"anger"}, "the writer is angry", "the writer feels something else")],
}
# For a choice: its wordings, and what the labels mean where their names do not say.
CHOICE = {
    "sms_spam": (["What kind of message is it?"], {"ham": "an ordinary message between people", "spam": "advertising or a lure"}),
    "davidson": (["How should the post be classified?", "Which label would a moderator give?"],
                 {"hate_speech": "hatred of a group", "offensive_language": "offensive, but no hatred of a group", "neither": None}),
    "tweet_emotion": (["Which emotion does the writer show?", "How does the writer feel?"], {}),
    "goemotions": (["Which emotion does the comment express?", "How does the writer feel?", "What is the mood of this?"], {}),
    "clinc150": (["What does the user want?", "Which intent fits the request?", "What should the assistant do?"], {}),
    "hwu64": (["What does the user ask the assistant for?", "Which intent is it?"], {}),
    "snips": (["What does the user want to do?", "Which intent fits?"],
              {"PlayMusic": "play music", "GetWeather": "get the weather", "BookRestaurant": "book a restaurant",
               "SearchCreativeWork": "find a film, book, song or game by name", "RateBook": "rate a book",
               "AddToPlaylist": "add a song to a playlist", "SearchScreeningEvent": "find when and where films are shown"}),
    "trec": (["What kind of answer does the question ask for?"],
             {"entity": "a thing, animal, product or event", "person": "a person or group", "description": "a definition, reason or manner",
              "number": "a number, date or amount", "location": "a place", "abbreviation": "what letters stand for"}),
    "sst5": (["What does the reviewer think of the film?"], {}),
}
SCORE = {
    "sst5": (["How favourable is the review?", "Rate the reviewer's opinion.", "How much did the writer enjoy it?"],
             ["very negative", "negative", "neutral", "positive", "very positive"],
             [["very negative", "negative", "mixed or neutral", "positive", "very positive"],
              ["hated it", "did not like it", "so-so", "liked it", "loved it"]]),
    "davidson": (["How harmful is the language?", "Rate how badly this breaks the rules of a civil forum."], ["neither", "offensive_language", "hate_speech"],
                 [["harmless", "offensive", "hateful"], ["no problem", "rude or vulgar words", "hatred of a group"]]),
}
ASK_TRUE = ["Is it true that {}?", "Does the text say or imply this: {}", "{}", "True or false: {}", "Can one conclude the following? {}"]
UNSAID = 0.38


def rows(folder, name):
    with lzma.open(pathlib.Path(folder) / f"{name}.jsonl.xz", "rt") as file:
        return [json.loads(line) for line in file]


def noul(random, asks, yes, no, share):
    criteria = random.choice([None, None, {"true": yes, "false": no}, {"true": yes}])
    return {"type": "noul", "ask": random.choice(asks), "criteria": criteria}, [share, 1 - share]


def choice(random, asks, names, meaning, answers, most=10):
    """Some of the names with the answers among them."""
    others = [name for name in names if name not in answers]
    options = answers[:1] + random.sample(others, min(len(others), random.randint(1, most - 1)))
    random.shuffle(options)
    told = random.random() < 0.7
    criteria = {option.replace("_", " "): meaning.get(option) if told else None for option in options}
    return {"type": "choice", "ask": random.choice(asks), "criteria": criteria}, [float(option in answers) for option in options]


def labelled(random, name, row, names):
    """A question about a row of a labelled set."""
    label = row["label"]
    kinds = [kind for kind, sets in (("noul", NOUL), ("choice", CHOICE), ("score", SCORE)) if name in sets]
    kind = random.choice(kinds)
    if kind == "noul":
        asks, yes, told, untold = random.choice(NOUL[name])
        return noul(random, asks, told, untold, 0.97 if label in yes else 0.03)
    if kind == "choice":
        asks, meaning = CHOICE[name]
        return choice(random, asks, names, meaning, [label], random.choice([6, 10, 20]) if len(names) > 20 else len(names))
    asks, order, levels = SCORE[name]
    at = order.index(label)
    shares = [0.76 if level == at else 0.12 if abs(level - at) == 1 else 0.0 for level in range(len(order))]
    return {"type": "score", "ask": random.choice(asks), "criteria": random.choice(levels)}, [share / sum(shares) for share in shares]


def emotions(random, row, names):
    felt = [label for label in row["labels"].split(",")]
    if random.random() < 0.5:
        return choice(random, *[CHOICE["goemotions"][0], names, {}], felt, 8)
    about = random.choice(felt) if random.random() < 0.5 else random.choice([name for name in names if name not in felt])
    asks = [f"Does the comment express {about}?", f"Is there {about} in this?", f"Would you say the writer shows {about}?"]
    return noul(random, asks, about, f"no {about}", 0.93 if about in felt else 0.06)


def inference(random, name, row, generic=False):
    """Premise and hypothesis: is it so, is it not, or does nobody say?"""
    label, claim = row["label"], row["hypothesis"].strip()
    three = label in ("neutral",) or name not in ("nli_rte", "nli_scitail", "nli_qnli")
    if name == "nli_qnli":
        return noul(random, [f"Does the text answer the question: {claim}", f"Is the answer to this in the text? {claim}"], "the text holds the answer", "it does not", 0.95 if label == "entailment" else 0.06)
    if three and random.random() < 0.4:
        names = {"entailment": random.choice(["true", "follows", "yes"]), "contradiction": random.choice(["false", "contradicted"]), "neutral": random.choice(["not said", "cannot be told", "unclear"])}
        criteria = {names[key]: None for key in random.sample(sorted(names), 3)}
        return {"type": "choice", "ask": f"Given the text, what about this claim? {claim}", "criteria": criteria}, [float(option == names[label]) for option in criteria]
    share = {"entailment": 0.97, "contradiction": 0.02, "neutral": UNSAID, "not_entailment": 0.15}[label]
    return noul(random, [ask.format(claim) for ask in ASK_TRUE], "the text says so or it follows", "the text says otherwise", share)


PAIRS = [("yes", "no"), ("positive", "negative"), ("true", "false"), ("good", "bad"), ("flattering", "unflattering"), ("satisfied", "dissatisfied"),
         ("increase", "decrease"), ("they loved it", "they didn't like it!"), ("equivalent", "not equivalent"), ("duplicates", "not duplicates")]
STARS = ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]
LISTED = re.compile(r"^\s*(?:[-*•]|[A-E][.:)]|\(?[A-E]\)|option \d:)\s*(.+)$", re.I | re.M)


def apart(body, otherwise):
    """The question that opens or closes a prompt, apart from the rest."""
    lines = [line.strip() for line in body.split("\n") if line.strip()]
    for at in (-1, -2, 0, 1):
        if len(lines) > 2 and lines[at].endswith("?") and len(lines[at]) < 250:
            asked = lines.pop(at)
            return "\n".join(lines), asked
    return "\n".join(lines), otherwise


def prompted(random, row):
    """A prompt whose answer is one of listed options, of two words or of stars; None where it is something else."""
    prompt, answer = row["prompt"].strip(), row["completion"].strip()
    if len(prompt) > 1800 or "predict a possible question" in prompt:
        return None
    if answer in STARS:
        at = STARS.index(answer)
        shares = [max(0.0, 0.8 - 0.65 * abs(level - at)) for level in range(5)]
        return prompt, {"type": "score", "ask": "How many stars does the writer give?", "criteria": STARS}, [share / sum(shares) for share in shares]
    for pair in PAIRS:
        if answer.lower() in pair:
            at = pair.index(answer.lower())
            if pair == ("yes", "no"):
                text, ask = apart(prompt, random.choice(["Is the answer yes?", "Answer the question at the end.", "What is the answer, yes or no?"]))
                return text, {"type": "noul", "ask": ask}, [0.95 - 0.9 * at, 0.05 + 0.9 * at]
            text, ask = apart(prompt, "Which answer is right?")
            return text, {"type": "choice", "ask": ask, "criteria": dict.fromkeys(pair)}, [1.0 - at, float(at)]
    listed = list(dict.fromkeys(option.strip() for option in LISTED.findall(prompt)))
    if answer in listed and 2 <= len(listed) <= 8:
        # The options are told once: as options.
        text, ask = apart(LISTED.sub("", prompt), "Which answer is right?")
        return text, {"type": "choice", "ask": ask, "criteria": dict.fromkeys(listed)}, [float(option == answer) for option in listed]
    return None


def names_of(name, rows):
    if name == "goemotions":
        return sorted({label for row in rows for label in row["labels"].split(",")})
    return sorted({row["label"] for row in rows}) if "label" in rows[0] else []


def question(random, name, row, names):
    """The text of a row, a question about it and the shares of its candidates; None where nothing can be asked."""
    if name == "t0_classification":
        return prompted(random, row)
    if name.startswith("nli_"):
        return row["premise"], *inference(random, name, row)
    if name == "goemotions":
        return row["text"], *emotions(random, row, names)
    return row["text"], *labelled(random, name, row, names)
