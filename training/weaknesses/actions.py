"""What should be done: situations with the action that fits, and rules that say it."""

from .common import OBJECTS, Case, choice, done, noul, number_word, said, shuffled, spin, timed

# An action, what it means, and what somebody says or what happens when it is the right one.
SITUATIONS = {
    False: [
        ("refund", "give the money back", ["You charged me twice for the same order, I want my money back.", "The concert was cancelled and I paid for two tickets.", "I returned the shoes two weeks ago and still have no money.", "I was billed after I had cancelled."]),
        ("send a replacement", "ship the item again", ["The cup arrived in pieces, I would like a whole one.", "I ordered a blue shirt and got a red one. Please send the blue one.", "The parcel came empty, I still need the lamp.", "The charger you sent is dead, can I get a working one?"]),
        ("reset the password", "let the user choose a new password", ["I forgot my password and cannot get in.", "It keeps saying wrong password.", "I need a link to set a new password, mine is lost."]),
        ("block the account", "stop all access", ["I will keep making new orders with stolen cards, you cannot stop me.", "Somebody in Lagos and Lima uses my account right now and orders phones!", "This account sent the same phishing link to two hundred people in an hour."]),
        ("escalate to legal", "hand it to the lawyers", ["My lawyer will file a suit on Monday.", "We hereby claim damages under section 9 of the contract.", "You will receive a court summons about this breach."]),
        ("escalate to security", "hand it to those who deal with attacks", ["I found a hole in your login that shows the mails of others.", "Our admin key was published on a public forum.", "Somebody scans all our ports and got into one server."]),
        ("ask for details", "more has to be known first", ["It does not work.", "There is a problem with the thing.", "Something is wrong, please help.", "Error!!"]),
        ("offer a discount", "keep the customer with a better price", ["Your competitor is ten percent cheaper, why should I stay?", "I like it, but it is too expensive for me. I would stay for less.", "I will renew if you come down with the price."]),
        ("book a demo", "show the product in a meeting", ["Could somebody show the product to our team next week?", "We would love to see it live before we decide.", "Is there a presentation for forty people?"]),
        ("close the ticket", "nothing is left to do", ["It works now, thank you, you can close this.", "Solved it myself, no need for help any more.", "All good, that was it."]),
        ("call an ambulance", "a life is in danger", ["He fell from the ladder and does not breathe.", "My mother collapsed and is unconscious.", "She has chest pain and her arm is numb."]),
        ("remove the post", "take it off the site", ["You are vermin and should all be wiped out.", "Here is her home address, go and scare her tonight.", "Buy stolen card numbers here, ten for a hundred."]),
        ("thank the customer", "answer kindly, nothing else is needed", ["Best support ever, Ana was wonderful.", "Just wanted to say that I love the new version.", "Five stars, keep going!"]),
        ("restart the service", "bring the process up again", ["The process stopped answering after the memory was full.", "worker 3 is dead since 04:12, no restart was tried.", "The daemon crashed with a segmentation fault."]),
        ("roll back the release", "go back to the version before", ["Since version 4.2 went live, one request in three fails.", "Right after the deployment all checkouts broke.", "The new build made every page ten times slower."]),
        ("change the address", "correct where it is sent", ["I moved, please send it to Mill Lane 4 instead.", "The street number is wrong, it must be 17.", "Can it go to my office rather than home?"]),
        ("verify the identity", "make sure who it is", ["I lost my phone and my mail, please let me in, I am the owner, trust me.", "Please change the bank account for the payout to this new one.", "I call for my wife, give me her balance."]),
        ("order more stock", "buy new goods", ["Only two pieces are left and fifty are ordered.", "The shelf is empty again.", "We sold out of the green ones this morning."]),
        ("send an invoice", "send the bill", ["Our accounting needs the bill for March.", "I paid but never got an invoice.", "Please send a receipt with our tax number."]),
        ("cancel the subscription", "end the contract", ["Please end my plan at the end of the month.", "I do not want to be charged any more, stop the membership.", "We no longer need it, cancel."]),
    ],
    True: [
        ("evacuate", "get everybody out", ["There is smoke on the third floor and it is spreading.", "We smell gas in the whole building."]),
        ("send a technician", "somebody has to come and repair it", ["The lift is stuck between two floors again.", "No hot water since yesterday, the boiler drips."]),
        ("warn the user", "a first, friendly reminder of the rules", ["He advertised his shop in the cooking group, for the first time.", "She wrote in capital letters and swore once."]),
        ("waive the fee", "do not charge the extra", ["The late fee came because your bank site was down all day.", "You charged me a penalty though the error was yours."]),
        ("prescribe rest", "nothing but time is needed", ["A slight cold since yesterday, no fever.", "My legs are sore after the long hike."]),
        ("hire", "make an offer to the applicant", ["She solved every task, knows our field and all references praise her.", "The best candidate in years, wants to start in May."]),
        ("reject", "decline the applicant", ["He did not show up for both interviews and lied about the degree.", "The applicant lacks the licence that the law demands."]),
        ("reschedule", "find another time", ["I am ill, can we meet next week instead?", "The train is cancelled, I cannot make it at three."]),
        ("pay out the claim", "the insurance has to pay", ["The hail broke the roof, the expert confirms it and the policy covers hail.", "The stolen bike was insured, the police report is attached."]),
        ("translate", "put it into another language", ["Our guests from Osaka cannot read the contract.", "We need the manual in Spanish as well."]),
        ("apologise", "say sorry, the mistake was ours", ["Your driver shouted at my grandmother for no reason.", "You forgot our anniversary table and we stood in the rain."]),
        ("charge the deposit", "keep the money that was left as security", ["The tenants left holes in the walls and a broken door.", "The rented car came back with a dented side."]),
    ],
}
ASKS = {False: ["What should be done?", "What is the right next step?", "How should we react?", "Which action fits?", "What should the team do now?", "What would you do with this?", "Next action", "What does this call for?"],
        True: ["Which measure is called for?", "Pick what to do now.", "What has to happen next?"]}
YES = {False: ["Should we {action}?", "Is it right to {action} here?", "Is this a case for this: {action}?"], True: ["Does it make sense to {action}?", "Would you {action}?"]}
# Rules in the question itself: what is counted, and what follows from how many.
RULES = {False: [("report_received", "reports", ["do nothing", "warn", "suspend"]), ("payment_failed", "failed payments", ["wait", "remind", "cancel"]), ("alarm_raised", "alarms", ["ignore", "check", "evacuate"]), ("deadline_missed", "missed deadlines", ["accept", "talk", "dismiss"])],
         True: [("visit_missed", "missed visits", ["excuse", "call", "strike off"]), ("parcel_returned", "returned parcels", ["send again", "ask", "stop sending"])]}


def situation(draw, held):
    action, meaning, texts = draw.choice(SITUATIONS[held])
    others = draw.sample([one for one in SITUATIONS[held] if one[0] != action], draw.randint(2, min(9, len(SITUATIONS[held]) - 1)))
    options = shuffled(draw, [(action, meaning), *[(one[0], one[1]) for one in others]])
    told = draw.random() < 0.5
    events = [said(draw.choice(texts))] if draw.random() < 0.8 else [done(draw.choice(["note_added", "case_described"] if not held else ["entry_made"]), content=draw.choice(texts))]
    if draw.random() < 0.3:
        events.insert(0, done(draw.choice(["ticket_opened", "call_received", "session_started"] if not held else ["line_opened"])))
    asked = [choice(draw.choice(ASKS[held]), {name: what if told else None for name, what in options}, action)]
    ask = draw.choice(YES[held])
    asked += [noul(ask.format(action=action), True, sure=0.95), noul(ask.format(action=others[0][0]), False, sure=0.94)]
    return Case(draw.choice(OBJECTS[held]), timed(draw, events), asked)


def rule(draw, held):
    name, plural, (none, some, many) = draw.choice(RULES[held])
    limit, count = draw.randint(2, 5), draw.randint(0, 7)
    ask = spin(draw, "[Our rule:|The policy is:|] from {limit} {plural} on {many}, with fewer {some}, without any {none}. What should be done?" if not held
               else "Decide by this rule. {limit} or more {plural}: {many}. Some, but fewer: {some}. None: {none}.", limit=number_word(draw, limit), plural=plural, many=many, some=some, none=none)
    right = many if count >= limit else some if count else none
    events = shuffled(draw, [done(name)] * count + [done(draw.choice(["page_opened", "mail_sent", "login"] if not held else ["door_opened", "note_read"])) for _ in range(draw.randint(1, 4))])
    return Case(draw.choice(OBJECTS[held]), timed(draw, events), [choice(ask, shuffled(draw, [none, some, many]), right)])


def make(draw, held):
    return [rule(draw, held) if draw.random() < 0.2 else situation(draw, held)]
