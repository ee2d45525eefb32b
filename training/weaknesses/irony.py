"""Irony beside its plain twin: praise for what is bad, and the same said straight."""

from .common import Case, choice, noul, said, shuffled, timed

PRAISE = {False: ["Great", "Wonderful", "Brilliant", "Oh fantastic", "How lovely", "Just perfect", "Well done", "Super", "Amazing", "Nice"], True: ["Splendid", "What a treat", "Marvellous", "Top notch"]}
BAD = {
    False: ["the train is cancelled again", "my order is lost for the third time", "another hour on hold", "the site is down on payday", "it broke after one day", "the update deleted all my photos", "it is raining on my wedding", "they charged me twice", "my boss moved the deadline to tonight", "the soup is cold and so is the coffee", "the elevator is out of order and I live on the ninth floor", "I got the wrong size again", "the support bot sent me in circles", "a flat tyre at midnight", "the meeting could have been one mail and took three hours"],
    True: ["the flight leaves five hours late", "the neighbours drill at six in the morning", "my umbrella broke in the storm", "the parcel was left in the rain", "the printer ate my only copy", "the hotel lost our booking"],
}
GOOD = {
    False: ["the train is on time again", "my order came a day early", "they answered within a minute", "the site is twice as fast now", "it still runs after ten years", "the update brought back all my photos", "the sun is out on my wedding day", "they gave me a discount", "my boss gave us Friday off", "the soup is hot and the coffee fresh", "the elevator is repaired at last", "it fits perfectly", "the support solved it at once", "we found a taxi right away", "the meeting took only ten minutes"],
    True: ["the flight landed early", "the neighbours brought us cake", "the umbrella held in the storm", "the parcel was kept dry for me", "the printer works like a charm", "the hotel gave us the big room"],
}
TAILS = {False: ["Just what I needed.", "Exactly how I imagined my day.", "Keep up the good work.", "I could not be happier.", "Thanks a lot.", "Really made my day.", ""], True: ["As if I had wished for it.", "My compliments to everybody.", ""]}
BLAME = {False: ["How annoying", "This is terrible", "I am angry", "Bad news", "So frustrating", "Unbelievable", "What a pity"], True: ["I am fed up", "This is a nuisance", "Sad to say"]}
BLAME_TAILS = {False: ["I want this fixed.", "Not what I needed.", "I am really disappointed.", "Please help.", ""], True: ["It upsets me.", ""]}
ASKS = {False: ["Is this ironic?", "Is the writer being sarcastic?", "Does the writer mean the opposite of the words?", "Is this sarcasm?"], True: ["Is the praise meant as mockery?", "Are the words meant the other way round?"]}
HAPPY = {False: ["Is the writer pleased?", "Is the writer satisfied?", "Is this a good experience?"], True: ["Is the writer glad about it?"]}


def make(draw, held, kind=None):
    """The ironic line, the straight praise and the straight complaint in one go."""
    at = draw.randrange(len(BAD[held]))
    praise, tail = draw.choice(PRAISE[held]), draw.choice(TAILS[held])
    mark = draw.choice([", ", "! ", ": ", ". "])
    lines = [("ironic", praise, BAD[held][at], tail), ("praise", praise, GOOD[held][at], tail), ("complaint", draw.choice(BLAME[held]), BAD[held][at], draw.choice(BLAME_TAILS[held]))]
    cases = []
    for kind, opening, event, closing in lines:
        event = event[0].upper() + event[1:] if mark in ("! ", ". ") else event
        text = f"{opening}{mark}{event}. {closing}".strip()
        asked = [noul(draw.choice(ASKS[held]), kind == "ironic", sure=0.95), noul(draw.choice(HAPPY[held]), kind == "praise", sure=0.95)]
        if draw.random() < 0.4:
            asked.append(choice("How is it meant?" if not held else "What does the writer really express?", shuffled(draw, ["as praise", "as irony", "as a plain complaint"]), {"ironic": "as irony", "praise": "as praise", "complaint": "as a plain complaint"}[kind]))
        cases.append(Case(draw.choice(["message", "review", "post"] if not held else ["note"]), timed(draw, [said(text)]), asked))
    return draw.sample(cases, len(cases))
