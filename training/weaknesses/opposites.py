"""A question and its opposite: by «not», by a word that means the opposite, by its frame. Their answers sum to one."""

import re

from .common import Case, done, noul, said, timed

# What is so, what is asked, what asks for the opposite.
MATTERS = {
    False: [
        (["The invoice was paid this morning.", "I have paid everything, here is the receipt."], ["The invoice is still open.", "I have not paid yet, sorry."], ["Has the invoice been paid?", "Is the bill settled?"], ["Is the invoice still unpaid?", "Has the invoice not been paid?", "Is money still owed?"]),
        (["Works like a charm, I am happy.", "I am very satisfied with it."], ["I am unhappy with it.", "It disappoints me every day."], ["Is the customer satisfied?", "Is the writer happy with it?"], ["Is the customer dissatisfied?", "Is the writer unhappy with it?", "Is the customer not satisfied?"]),
        (["The parcel is here, thanks.", "It arrived today."], ["Nothing has arrived so far.", "The parcel never came."], ["Has the parcel arrived?", "Was it delivered?"], ["Is the parcel still missing?", "Has the parcel not arrived?", "Was it never delivered?"]),
        (["Sure, I agree with that.", "Yes, let us do it that way."], ["No, I disagree.", "I do not want it that way."], ["Does the writer agree?", "Is the proposal accepted?"], ["Does the writer disagree?", "Is the proposal rejected?", "Does the writer not agree?"]),
        (["Thank you kindly, dear team.", "Would you be so good as to help me, please?"], ["Move it, you lazy lot.", "What kind of idiots work there?"], ["Is the message polite?", "Is the tone friendly?"], ["Is the message rude?", "Is the tone unfriendly?", "Is the message impolite?"]),
        (["I am still a member and will stay.", "We renewed for another year."], ["I have cancelled and I am gone.", "We left in May."], ["Is the customer still with us?", "Does the customer stay?"], ["Has the customer left?", "Is the customer gone?", "Does the customer not stay?"]),
        (["The problem is solved.", "It runs again, thanks."], ["It still does not work.", "The error is back."], ["Is the problem solved?", "Does it work again?"], ["Does the problem persist?", "Is the problem unsolved?", "Is it still broken?"]),
        (["I have never been there.", "It was not me, I was at home."], ["Yes, it was me, I admit it.", "I did it and I am not proud."], ["Does the writer deny it?", "Does the person say it was not them?"], ["Does the writer admit it?", "Does the person confess?"]),
        (["The account was verified with a passport.", "Identity confirmed by video call."], ["Nobody has checked who this is.", "The verification failed, no papers."], ["Is the account verified?", "Is it known who this is?"], ["Is the account unverified?", "Is it unknown who this is?", "Is the account not verified?"]),
        (["We can start today, everything is ready.", "All set, go ahead."], ["We are not ready, parts are missing.", "It will take more time before we can start."], ["Are they ready?", "Can it start now?"], ["Are they not ready yet?", "Is it too early to start?"]),
    ],
    True: [
        (["The door was locked when I left.", "I turned the key twice."], ["The door stood open all night.", "I forgot to lock up."], ["Was the door locked?", "Is the house secured?"], ["Was the door left unlocked?", "Is the house unsecured?"]),
        (["He told the truth, the video proves it.", "Her story was confirmed by three people."], ["He made it all up.", "Her story is a lie, the camera shows it."], ["Is the story true?", "Is the person honest?"], ["Is the story false?", "Is the person dishonest?"]),
        (["The child slept all night.", "She is fast asleep."], ["He was awake until dawn.", "She cannot fall asleep."], ["Does the child sleep?", "Is the child asleep?"], ["Is the child awake?", "Does the child not sleep?"]),
        (["Prices went up by a fifth.", "Everything is dearer now."], ["Prices dropped sharply.", "Everything got cheaper."], ["Did prices rise?", "Is it more expensive now?"], ["Did prices fall?", "Is it cheaper now?"]),
        (["They won three to nothing.", "What a victory!"], ["They lost badly.", "A bitter defeat for the team."], ["Did the team win?", "Was it a victory?"], ["Did the team lose?", "Was it a defeat?"]),
        (["The offer includes breakfast and the transfer.", "Breakfast is in the price."], ["Breakfast is extra.", "The offer comes without breakfast."], ["Is breakfast included?", "Is breakfast free?"], ["Is breakfast excluded?", "Does breakfast cost extra?"]),
    ],
}
FRAMES = {False: ["Is it false that this is so: {}", "Is the answer to this question no? {}", "Is the opposite true? {}", "Should one answer no to this: {}"], True: ["Would no be the right reply to this? {}", "Is this to be denied: {}"]}
# In written questions «not» goes behind the subject, where the subject can be told.
VERBS = "Is|Are|Was|Were|Does|Do|Did|Has|Have|Had|Can|Could|Will|Would|Should"
NOUNS = ("user|customer|buyer|seller|writer|account|order|message|person|company|team|client|owner|agent|patient|tenant|student|member|driver|host|guest|author|reviewer|sender|caller|shop|payment|refund|parcel|machine|server|"
         "project|contract|ticket|applicant|candidate|employee|manager|employer|landlord|parent|mother|father|child|speaker|merchant|vendor|supplier|lead|prospect|subscriber|player|moderator|group|post|review|listing|device|service|"
         "system|deal|problem|issue|case|claim|invoice|bill|delivery|package|meeting|trip|booking|event|work|job|loan|vehicle|car|house|flat|dog|cat|teacher|doctor|neighbour|colleague|friend|couple|family|store|bank|courier|carrier|"
         "donor|volunteer|visitor|partner|contractor|technician|operator|developer|engineer|editor|organiser|organizer|admin|administrator|insurer|school|hotel|restaurant|clinic|studio|office|club|platform|site|app|product|item|price")
SUBJECT = re.compile(rf"^(?:{VERBS}) (?:(?:the|this|that) (?:{NOUNS})|it|he|she|they|there|anyone|anybody|somebody|someone)(?= [a-z])(?! (?:of|in|and|or|who|that|which|with|from|about|for|on|at|to)\b)")


def not_asked(ask):
    """A yes/no question with «not», or None where its subject cannot be told."""
    found = isinstance(ask, str) and ask.count("?") == 1 and ask.endswith("?") and " not " not in ask and not re.search(r"\b(?:any|anyone|ever|never|no|nobody|only|or|and|yet|already)\b", ask) and SUBJECT.match(ask)
    return ask[: found.end()] + " not" + ask[found.end() :] if found else None


def make(draw, held):
    yes, no, asks, turned = draw.choice(MATTERS[held])
    cases = []
    for true, lines in ((True, yes), (False, no)):
        line = draw.choice(lines)
        events = [said(line)] if draw.random() < 0.75 else [done("note_added" if not held else "remark_filed", content=line)]
        ask = draw.choice(asks)
        asked = [noul(ask, true), noul(draw.choice(turned), not true), noul(draw.choice(FRAMES[held]).format(ask), not true, sure=0.95)]
        cases.append(Case(draw.choice(["customer", "case", "message"] if not held else ["report"]), timed(draw, events), asked, [(0, 1, [1, 0]), (0, 2, [1, 0])]))
    return cases
