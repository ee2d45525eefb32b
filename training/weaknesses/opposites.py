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
        (["The refund was approved.", "They granted my request."], ["The refund was refused.", "They turned my request down."], ["Was the request approved?", "Did they say yes to it?"], ["Was the request refused?", "Did they turn it down?"]),
        (["I am calm and can wait.", "No hurry at all."], ["This is urgent, I need it within the hour.", "Please hurry, there is no time left."], ["Can the matter wait?", "Is the writer patient?"], ["Is the matter urgent?", "Is the writer impatient?"]),
        (["I am sure about it.", "There is no doubt in my mind."], ["I am not sure at all.", "I keep changing my mind about it."], ["Is the writer certain?", "Does the person sound confident?"], ["Is the writer uncertain?", "Does the person hesitate?"]),
        (["The shop is open until eight.", "Come in, we are open."], ["The shop is closed today.", "We shut down in spring."], ["Is the shop open?", "Can one go there now?"], ["Is the shop closed?", "Is it shut?"]),
        (["The room was spotless.", "Everything was clean and fresh."], ["The room was filthy.", "There was dirt everywhere."], ["Was the room clean?"], ["Was the room dirty?", "Was the place filthy?"]),
        (["Delivery took one day, impressive.", "They answered within a minute."], ["Delivery took six weeks.", "They answered after a month."], ["Was it quick?", "Did it go fast?"], ["Was it slow?", "Did it take too long?"]),
        (["The new version is much better.", "It has improved a lot."], ["The new version is worse.", "It went downhill after the update."], ["Did it get better?", "Is there an improvement?"], ["Did it get worse?", "Is there a decline?"]),
        (["We hired two more people.", "The team is growing."], ["We had to let three people go.", "The team gets smaller every month."], ["Is the team growing?"], ["Is the team shrinking?", "Are people being laid off?"]),
        (["It is exactly like in the picture.", "The colour matches what I saw online."], ["It looks nothing like the picture.", "The colour is completely off."], ["Does the item match its description?"], ["Does the item differ from its description?", "Is it something else than was shown?"]),
        (["I recommend it to everyone.", "Buy it, you will love it."], ["Stay away from it.", "I would warn anybody against this shop."], ["Does the writer recommend it?"], ["Does the writer advise against it?", "Is this a warning?"]),
        (["My card was accepted.", "The payment went through."], ["My card was declined.", "The payment bounced."], ["Did the payment succeed?"], ["Did the payment fail?", "Was the card declined?"]),
        (["I came by myself.", "I live alone."], ["I came with my whole family.", "There are five of us."], ["Is the person alone?"], ["Is the person in company?", "Are there others with the person?"]),
        (["The meeting is still on.", "We meet on Friday as planned."], ["The meeting was called off.", "Friday is cancelled."], ["Does the meeting take place?"], ["Was the meeting cancelled?", "Was it called off?"]),
        (["It was our fault, we apologise.", "Sorry, we made a mistake."], ["We did nothing wrong.", "It is your own fault."], ["Does the writer take the blame?"], ["Does the writer refuse the blame?", "Does the writer blame somebody else?"]),
        (["The device is brand new, sealed.", "Never used, still in the box."], ["It is ten years old and well used.", "It has seen a lot of use."], ["Is the device new?", "Is it unused?"], ["Is the device used?", "Is it old?"]),
        (["He has a lot of experience.", "She has done this for twenty years."], ["He is a beginner.", "It is her very first day."], ["Is the person experienced?"], ["Is the person a beginner?", "Is the person inexperienced?"]),
        (["The road is clear.", "Nothing blocks the way."], ["A tree lies across the road.", "The way is blocked."], ["Is the way free?"], ["Is the way blocked?", "Is something in the way?"]),
        (["We found your bag.", "The key turned up."], ["The bag is still lost.", "Nobody has seen the key."], ["Was the lost thing found?"], ["Is the thing still lost?"]),
        (["She passed the exam.", "He got his licence."], ["She failed the exam.", "He did not get his licence."], ["Did the person pass?"], ["Did the person fail?"]),
        (["The baby is healthy.", "I feel great again."], ["I have a fever and cannot get up.", "She is in hospital."], ["Is the person well?", "Is the person healthy?"], ["Is the person ill?", "Is the person unwell?"]),
        (["The dog is friendly and loves children.", "He would never hurt anyone."], ["The dog bit the postman.", "He snaps at everybody."], ["Is the animal harmless?"], ["Is the animal dangerous?"]),
        (["I earn more than I need.", "Money is no problem."], ["I cannot pay my rent.", "We are deep in debt."], ["Is the person well off?"], ["Is the person short of money?", "Is money tight?"]),
        (["The instructions are easy to follow.", "A child could set it up."], ["I do not understand the instructions.", "It is far too complicated."], ["Is it easy?", "Is it simple?"], ["Is it difficult?", "Is it complicated?"]),
        (["He keeps every promise.", "You can rely on her."], ["He forgets every appointment.", "You can never count on her."], ["Is the person reliable?"], ["Is the person unreliable?"]),
        (["The backup exists, nothing is gone.", "All files are safe."], ["All files are gone for good.", "There is no backup."], ["Are the files safe?"], ["Are the files lost?", "Was data lost?"]),
        (["It is legal here, I checked.", "We have the permit."], ["That is against the law.", "We have no permit for it."], ["Is it allowed?", "Is it legal?"], ["Is it forbidden?", "Is it illegal?"]),
        (["I remember the day well.", "I can tell you every detail."], ["I cannot recall anything.", "My mind is blank about that day."], ["Does the person remember it?"], ["Has the person forgotten it?"]),
        (["The house is quiet at night.", "You hear nothing at all."], ["The neighbours make noise all night.", "It is so loud that nobody sleeps."], ["Is it quiet?"], ["Is it loud?", "Is it noisy?"]),
        (["He told everybody about it.", "It was in all the papers."], ["Nobody knows about it.", "We keep it to ourselves."], ["Is it publicly known?"], ["Is it a secret?", "Is it kept hidden?"]),
        (["My contract runs for two more years.", "I am bound until next winter."], ["I can leave any day.", "There is no commitment."], ["Is the customer bound by a contract?"], ["Is the customer free to leave?"]),
        (["The two reports agree.", "Both witnesses say the same."], ["The reports contradict each other.", "The witnesses tell different stories."], ["Do the accounts agree?"], ["Do the accounts contradict each other?"]),
        (["We gained a hundred members.", "More visitors than ever came."], ["Members leave us by the dozen.", "Hardly anybody came this time."], ["Did the number go up?", "Was there growth?"], ["Did the number go down?", "Was there a loss?"]),
        (["She is in the office today.", "He is at his desk."], ["She is on leave until May.", "He is out of office."], ["Is the person present?"], ["Is the person absent?", "Is the person away?"]),
        (["It was meant as a joke, we all laughed.", "Just kidding."], ["I mean it, this is no joke.", "I am dead serious."], ["Is it meant as a joke?"], ["Is it meant seriously?"]),
        (["We are strangers, I never met him.", "I do not know this person."], ["We have been friends for years.", "I know her well."], ["Are they strangers?"], ["Do they know each other?"]),
        (["The food was delicious.", "Best soup I ever had."], ["The food was disgusting.", "I could not eat it."], ["Did the food taste good?"], ["Did the food taste bad?"]),
        (["He was early, as always.", "She arrived ten minutes before time."], ["He was an hour late.", "She missed the start."], ["Was the person on time?", "Was the person punctual?"], ["Was the person late?"]),
        (["I want to keep it.", "I will not give it away."], ["I want to send it back.", "I am returning the parcel."], ["Does the customer keep it?"], ["Does the customer return it?", "Is it sent back?"]),
        (["There is plenty left.", "The shelves are full."], ["We have run out.", "The shelves are empty."], ["Is there enough?", "Is it in stock?"], ["Is it sold out?", "Has it run out?"]),
        (["I did it on purpose.", "That was deliberate."], ["It was an accident.", "I did not mean to do it."], ["Was it deliberate?", "Was it intended?"], ["Was it an accident?", "Was it unintended?"]),
        (["The update made it safer.", "The hole is closed."], ["Anybody can get in.", "The hole is still there."], ["Is it secure now?"], ["Is it still vulnerable?", "Can it be attacked?"]),
        (["I feel at home here.", "Everybody welcomed me."], ["Nobody talks to me here.", "I feel left out."], ["Does the person feel welcome?"], ["Does the person feel excluded?"]),
        (["He gave me his full attention.", "They listened to every word."], ["He ignored me.", "They did not listen."], ["Was the person heard?"], ["Was the person ignored?"]),
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
