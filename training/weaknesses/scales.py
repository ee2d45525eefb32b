"""Scales of bare level names: from low to high and from high to low, and the same scale under other names."""

from .common import OBJECTS, Case, done, reversed_scale, said, score, spin, timed

# For each matter: how it is asked, names of levels from little to much, and what was said at five strengths, weak to strong.
MATTERS = {
    False: {
        "anger": (["How angry is the writer?", "How upset does this person sound?", "Rate the anger.", "Level of anger"],
                  [["calm", "annoyed", "angry", "furious"], ["none", "mild", "moderate", "strong", "extreme"], ["relaxed", "irritated", "enraged"], ["cool", "warm", "hot"], ["not angry", "a bit angry", "very angry"]],
                  [["Thanks, all fine here.", "No hurry, whenever you can.", "Good morning, just checking in."], ["It is a little tiresome that I have to ask again.", "I had hoped for a quicker answer, to be honest."],
                   ["This is getting annoying, I have asked three times.", "I am not happy with how this was handled."], ["I am really angry. This is the last time I put up with it.", "Unacceptable! I want this fixed today!"],
                   ["I AM FURIOUS. Never, NEVER have I been treated like this!!!", "You people are a disgrace, I am beside myself with rage!"]]),
        "urgency": (["How urgent is it?", "Rate the urgency.", "How soon must somebody act?", "Urgency"],
                    [["not urgent", "soon", "urgent", "emergency"], ["low", "medium", "high"], ["low", "normal", "high", "critical"], ["can wait", "this week", "today", "right now"]],
                    [["No rush at all, next month is fine.", "Whenever you find the time, there is no deadline."], ["It would be nice to have it within the next weeks.", "Sometime soon would be good."],
                     ["I need this by the end of the week.", "Please look at it in the next few days, we depend on it."], ["We need this today, customers are waiting.", "It has to be solved this afternoon, please hurry."],
                     ["Everything is down, act NOW!", "Emergency: it is burning, send somebody immediately!"]]),
        "satisfaction": (["How satisfied is the customer?", "Rate the satisfaction.", "How happy is this person with the result?", "Satisfaction"],
                         [["dissatisfied", "neutral", "satisfied"], ["very unhappy", "unhappy", "neither", "happy", "very happy"], ["terrible", "poor", "fair", "good", "excellent"], ["bad", "mixed", "good"], ["awful", "weak", "okay", "strong", "superb"]],
                         [["Worst purchase of my life, broken and useless.", "A complete failure from start to end."], ["It arrived late and the finish is poor.", "Rather disappointing for that price."],
                          ["It does what it says, nothing more.", "Some things are good, some are not."], ["Works well and came on time, I am content.", "Good quality, I would buy it again."],
                          ["Absolutely brilliant, I am over the moon!", "Perfect in every way, better than I dreamed!"]]),
        "severity": (["How severe is the problem?", "Rate the severity.", "How bad is the incident?", "Severity"],
                     [["trivial", "minor", "major", "critical"], ["low", "medium", "high"], ["harmless", "noticeable", "serious", "disastrous"], ["S4", "S3", "S2", "S1"]],
                     [["There is a typo on the about page.", "The icon is one pixel too far left."], ["One report loads a bit slowly in the morning.", "The export button needs two clicks sometimes."],
                      ["Some customers cannot change their address.", "Search fails for every tenth user."], ["Nobody can check out since this morning.", "Logins fail for most of our users."],
                      ["All data of the production database is gone.", "Every site is down and customer data has leaked."]]),
        "confidence": (["How sure is the writer?", "Rate the certainty.", "How confident does this sound?"],
                       [["unsure", "fairly sure", "certain"], ["no idea", "doubtful", "likely", "convinced"], ["guessing", "thinking", "knowing"], ["low", "moderate", "high"]],
                       [["No idea, honestly, I would be guessing.", "I really do not know."], ["It might be the cable, but I am not sure.", "Perhaps it was Tuesday, I doubt it though."],
                        ["I think it is the cable.", "It was probably Tuesday."], ["I am quite sure it is the cable.", "I clearly remember it was Tuesday."], ["It is the cable, one hundred percent, I measured it.", "Without any doubt it was Tuesday, I have it in writing."]]),
        "interest": (["How interested is the buyer?", "Rate the interest.", "How keen is this person?"],
                     [["none", "some", "strong"], ["not interested", "curious", "interested", "eager"], ["cold", "lukewarm", "warm", "hot"], ["no", "maybe", "definitely"]],
                     [["No thanks, please take me off the list.", "We do not need this and never will."], ["Not now, perhaps another year.", "I only looked by chance."],
                      ["Could you send me some more information?", "It sounds interesting, what does it do?"], ["We would like a demo next week and a quote.", "This is what we were looking for, what does it cost for ten?"],
                      ["Send the contract, we sign today!", "I want it, where can I pay right now?"]]),
        "politeness": (["How polite is the message?", "Rate the tone.", "How courteous is the writer?"],
                       [["rude", "neutral", "polite"], ["insulting", "curt", "plain", "friendly", "very kind"], ["impolite", "acceptable", "courteous"], ["hostile", "cold", "warm"]],
                       [["Shut up and fix it, you useless lot.", "Are you people stupid or what?"], ["Fix it. Now.", "Wrong again. Redo."], ["The file is missing on page two.", "The meeting is at four."],
                        ["Could you please send me the file? Thank you.", "Would you mind having a look? Thanks."], ["Thank you so very much for your kindness, I truly appreciate all you did.", "You have been wonderful, my warmest thanks and best wishes to you all."]]),
        "risk": (["How risky is this account?", "Rate the risk.", "How much danger comes from this user?"],
                 [["safe", "suspicious", "dangerous"], ["low", "medium", "high"], ["no risk", "slight risk", "considerable risk", "severe risk"], ["green", "yellow", "red"]],
                 [["Verified customer for nine years, every bill paid on time.", "All documents checked, no complaint ever."], ["One payment came a day late, the rest was fine.", "A new device was used once, confirmed by code."],
                  ["Two cards were tried before one worked.", "The address was changed shortly before the order."], ["Four stolen cards were tried within an hour.", "Three buyers report that nothing was ever sent."],
                  ["Police confirm that the account was used to rob dozens of people.", "The owner admitted to the fraud and still goes on."]]),
        "difficulty": (["How hard is the task?", "Rate the difficulty."],
                       [["easy", "medium", "hard"], ["trivial", "simple", "tricky", "very hard"], ["child's play", "manageable", "demanding", "nearly impossible"]],
                       [["Anybody can do it in a minute.", "Just press the green button, that is all."], ["It takes a bit of reading, then it works.", "Two steps, both explained."], ["You need some experience and an afternoon.", "It is doable, but one has to think."],
                        ["Only our best people manage, and it takes days.", "It is really hard, most give up."], ["Nobody has ever managed it.", "Experts have failed at it for decades."]]),
        "progress": (["How far along is the order?", "Rate the progress.", "How much of it is finished?"],
                     [["not started", "started", "half done", "nearly done", "finished"], ["open", "in progress", "closed"], ["beginning", "middle", "end"]],
                     [["Nothing has been done yet, it waits in the queue.", "We have not begun."], ["The first part is ready, most is still to do.", "We have just started."], ["We are about half way through.", "Half of the parts are assembled."],
                      ["Only the final check is left.", "Almost there, one small thing is missing."], ["Everything is finished and handed over.", "Completed and signed off this morning."]]),
    },
    True: {
        "worry": (["How worried is this person?", "Degree of worry?"],
                  [["at ease", "concerned", "alarmed"], ["serene", "uneasy", "anxious", "panicking"]],
                  [["I sleep very well, nothing troubles me.", "All is well, I have no concerns."], ["A small doubt remains, but fine.", "I am a tiny bit uneasy about it."], ["I do worry about the exam.", "It concerns me that she has not called."],
                   ["I am very anxious, I can hardly eat.", "I am badly frightened for the children."], ["Help, I am panicking, I cannot breathe!", "I am in sheer terror, what shall I do!"]]),
        "formality": (["How formal is the text?", "Grade the style."],
                      [["casual", "neutral", "formal"], ["slang", "colloquial", "standard", "official"]],
                      [["yo whats up dude lol", "nah bro cant make it haha"], ["Hey, can't come tonight, sorry!", "Hi guys, see you later then."], ["I cannot come this evening.", "The meeting has been moved to Friday."],
                       ["I regret that I am unable to attend this evening.", "Please be informed that the meeting has been postponed."], ["The undersigned hereby gives notice that attendance shall not be possible.", "Pursuant to section four, the parties are herewith notified of the adjournment."]]),
        "damage": (["How badly is the item damaged?", "Grade the damage."],
                   [["intact", "scratched", "broken", "destroyed"], ["no damage", "light damage", "heavy damage"]],
                   [["It came in perfect shape.", "Not a scratch on it."], ["There is a faint mark on the back.", "One corner is slightly scuffed."], ["The lid has a crack, but it closes.", "One of the legs is bent."],
                    ["The screen is shattered and it no longer starts.", "The frame is snapped in two places."], ["Nothing but splinters was in the box.", "It burned down to ashes."]]),
        "trust": (["How much does the writer trust the seller?", "Grade the trust."],
                  [["distrusts", "undecided", "trusts"], ["no trust", "little trust", "some trust", "full trust"]],
                  [["He is a liar, I do not believe a word.", "I would never send this person money."], ["I have my doubts about him.", "Something seems off with that seller."], ["I do not know him well enough to say.", "Could be honest, could be not."],
                   ["So far he has kept his word.", "I think she is honest."], ["I would trust her with my house keys.", "He has never let me down, I rely on him blindly."]]),
        "loyalty": (["How likely is the customer to stay?", "Grade the loyalty."],
                    [["leaving", "wavering", "staying"], ["gone", "at risk", "stable", "devoted"]],
                    [["Cancel everything, I am going to your competitor.", "I have closed the account for good."], ["I am comparing other providers at the moment.", "If the price goes up again I may leave."], ["It is fine for now, I will see next year.", "No plans either way."],
                     ["I intend to renew, it serves us well.", "We are content and will carry on."], ["With you for twenty years and for twenty more!", "I would never go anywhere else."]]),
    },
}
FILLERS = {False: ["session_started", "mail_received", "ticket_opened", "form_sent"], True: ["chat_joined", "note_saved"]}


def make(draw, held):
    """A text, asked on a scale, on the scale turned round, and on the same scale under other names."""
    asks, scales, texts = draw.choice(list(MATTERS[held].values()))
    strength = draw.randrange(5)
    events = [said(draw.choice(texts[strength]))]
    while draw.random() < 0.3:
        events.insert(0, done(draw.choice(FILLERS[held])))
    if draw.random() < 0.2 and strength not in (0, 4):
        events[-1]["content"] += " " + draw.choice(texts[strength])
    ask = draw.choice(asks)
    first, second = (draw.sample(scales, 2) + scales)[:2]
    asked, pairs = [], []
    for levels in (first, second):
        question = score(ask, levels, strength / 4 * (len(levels) - 1))
        turned = reversed_scale(*question)
        if draw.random() < 0.5:
            question, turned = turned, question
        asked += [question, turned]
        pairs.append((len(asked) - 2, len(asked) - 1, list(range(len(levels)))[::-1]))
    asked = asked if draw.random() < 0.6 else asked[:2]
    return [Case(draw.choice(OBJECTS[held]), timed(draw, events), asked, [pair for pair in pairs if pair[1] < len(asked)])]
