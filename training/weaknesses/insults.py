"""Insults and threats in one line, in plain and in disguised spelling, beside harmless lines that look alike."""

from .common import Case, choice, noul, said, score, shuffled, spin, timed

LOOKS = {"a": "4@", "e": "3", "i": "1!", "o": "0", "s": "5$", "t": "7", "l": "1", "b": "8", "g": "9"}
INSULTS = {
    False: ["[you are|you're|ur|what] [an idiot|a moron|a loser|a clown|a fool|such a loser|a pathetic loser]", "[shut up|get lost|go away], [you|stupid] [idiot|moron|clown|fool]", "[so|how] [dumb|stupid|pathetic|ugly] [can you be|are you]", "[nobody|no one] likes you, [loser|freak|creep]",
            "[your|ur] [brain|face] is [trash|garbage|a joke]", "[people|women|men|foreigners] like [you|these] are [trash|scum|vermin|garbage]", "what a [stupid|worthless|disgusting|useless] [person|human|cow|pig|rat]", "you [disgust me|make me sick|are a waste of air|are worthless]",
            "[kiss my boots|lick my shoes], [loser|nobody]", "[that|this] [guy|woman|admin] is a [complete|total] [idiot|fool|moron|clown]", "they should [all be thrown out|never have been born|crawl back into their holes], these [rats|pigs|animals]", "everyone knows you are [a liar and a coward|a cheap little rat|dumber than a brick]"],
    True: ["[only|just] a [dimwit|halfwit|blockhead] would write that", "[crawl|go] back under your rock, [weirdo|dweeb]", "you [dirty|filthy|miserable] [swine|toad|worm]", "[those|such] people are [filth|parasites] and belong in the gutter", "your [mother|family] must be ashamed of such a [failure|disgrace]", "[bunch|pack] of [imbeciles|cretins], all of you"],
}
THREATS = {
    False: ["i will [find|get|hurt|destroy] you", "[you are|you're] dead [tomorrow|when i see you|meat]", "i know where you [live|work], [be careful|watch out|see you tonight]", "[watch your back|sleep with one eye open], [i am coming|you are next]", "i [swear i will|am going to] [break your legs|smash your face|burn your house down]", "say that again and i [punch|kill|hit] you"],
    True: ["[one day|soon] they will find you in the river", "my [boys|friends] will pay you a visit with [bats|knives]", "[better hide|run], because i am going to [stab|strangle] you", "your [kids|dog] should not walk alone any more, if you know what i mean"],
}
HARMLESS = {
    False: ["[my phone|the battery|this thread] is dead again", "[the trash|garbage] is taken out on mondays", "the clown at the party was [great|so funny]", "i [killed|smashed] it at work today", "this recipe is [stupid|dead] simple", "what a [lovely|beautiful|strange] day", "[you are|you're] [a star|the best|a great friend]", "i will find you at the [station|entrance]", "[see you tonight|i know where you live now], i bring the cake",
               "[how|where] can i [change|find] my settings", "i was such a fool to miss the sale", "the fight scene in that film is [brutal|great]", "we lost the game, [what a shame|next time then]", "the new rat in the zoo is [cute|funny]", "[thanks|cheers] for the help, [mate|friend]", "he shoots, he scores, what a killer goal", "i feel [dumb|stupid] for asking, where is the button", "women like you [inspire|help] us all", "that joke is [sick|wicked], love it"],
    True: ["the swine flu vaccine is in", "she plays the worm dance so well", "a parasite lives in the fish, the biologist says", "my dog is a filthy little sweetheart", "they found a wallet in the river", "run, the bus is coming", "your kids are welcome any time", "the filth in the oven needs a good cleaner", "i could strangle this printer, it jams again"],
}
ASKS = {
    False: {"insult": ["Is somebody insulted?", "Is this an insult?", "Is the text abusive?", "Is this offensive to somebody?", "Does the line attack a person or a group?", "Should a moderator remove this?", "Is this hateful or insulting?"], "threat": ["Is this a threat?", "Does the writer threaten violence?", "Is somebody in danger because of the writer?", "Should a moderator remove this?"]},
    True: {"insult": ["Is this abuse?", "Would the person addressed feel insulted?"], "threat": ["Does this line announce harm to somebody?", "Would you call it threatening?"]},
}


def looked(draw, word, share=0.6):
    """Letters as the digits that look like them."""
    return "".join(draw.choice(LOOKS[letter]) if letter in LOOKS and draw.random() < share else letter for letter in word)


def disguised(draw, text, share=0.5):
    """Some words with digits, gaps, dots, stars or letters too many."""
    def one(word):
        if len(word) < 3 or draw.random() > share:
            return word
        turn = draw.randrange(6)
        if turn < 2:
            return looked(draw, word)
        if turn == 2:
            return draw.choice([" ", ".", "-"]).join(word)
        if turn == 3:
            at = draw.randrange(1, len(word) - 1) if len(word) > 2 else 1
            return word[:at] + "*" + word[at + 1 :]
        if turn == 4:
            at = draw.randrange(len(word))
            return word[:at] + word[at] * draw.randint(2, 4) + word[at + 1 :]
        return "".join(letter.upper() if draw.random() < 0.5 else letter for letter in word)

    return " ".join(map(one, text.split()))


def make(draw, held, kind=None, hidden=None):
    kind = kind or draw.choice(["insult", "insult", "threat", "harmless", "harmless", "harmless"])
    text = spin(draw, draw.choice({"insult": INSULTS, "threat": THREATS, "harmless": HARMLESS}[kind][held]))
    hidden = draw.random() < 0.55 if hidden is None else hidden
    if hidden:
        text = disguised(draw, text)
    elif draw.random() < 0.5:
        text = text[0].upper() + text[1:] + draw.choice([".", "!", "!!", ""])
    asked = [noul(draw.choice(ASKS[held]["insult"]), kind != "harmless" if kind != "threat" else True, sure=0.97 if kind == "insult" else 0.95 if kind == "harmless" else 0.85),
             noul(draw.choice(ASKS[held]["threat"][:-1]), kind == "threat", sure=0.96)]
    turn = draw.random()
    if turn < 0.35:
        asked.append(choice("What kind of line is it?" if not held else "Sort the line.", shuffled(draw, ["insult", "threat", "harmless"]), kind))
    elif turn < 0.55:
        asked.append(score("How harmful is the line?" if not held else "Grade the harm.", ["harmless", "insulting", "threatening"], ["harmless", "insult", "threat"].index(kind)))
    return [Case(draw.choice(["comment", "message", "post", "user"] if not held else ["remark", "line"]), timed(draw, [said(text)]), asked, part="disguised" if hidden else "plain")]
