"""Four to twenty options, with and without text: topics of news, requests to a bank, to a shop and to an office."""

from .common import OBJECTS, Case, choice, done, noul, said, shuffled, timed

# A field has topics: name, what it means, examples.
FIELDS = {
    False: {
        "news": (["What is the news about?", "Which topic is it?", "Which section does this belong in?"], [
            ("world", "events between countries", ["Ministers of eleven states meet to talk about a ceasefire.", "Thousands flee as fighting reaches the border town.", "The president lands in the capital for peace talks."]),
            ("sports", "matches, athletes and results", ["A late goal sends the home side into the final.", "The champion withdraws with a knee injury.", "She ran the mile in record time on Sunday."]),
            ("business", "companies, markets and money", ["Shares fall as the carmaker cuts its forecast.", "The two banks agree to merge for nine billion.", "Oil prices climb for the third week in a row."]),
            ("science and technology", "research, computers and inventions", ["A new chip halves the power that phones need.", "The probe sends first pictures of the comet.", "Researchers grow nerve cells from skin."]),
            ("health", "illness, medicine and care", ["Doctors warn of an early flu season.", "A new drug lowers blood pressure for months.", "Hospitals run short of nurses."]),
            ("culture", "films, music, books and art", ["The director wins the main prize for her quiet drama.", "A lost symphony was played for the first time.", "The museum shows paintings that nobody knew."]),
            ("weather", "storms, heat and forecasts", ["Heavy snow is expected in the north tonight.", "The heat wave breaks on Thursday with storms.", "Fog slows traffic along the coast."]),
            ("crime", "police and courts", ["Two men were arrested after the robbery of a jeweller.", "The jury found the accountant guilty of fraud.", "Police search for a driver who fled."]),
            ("travel", "holidays and places", ["Ten quiet islands for a week in spring.", "The night train to the south runs again.", "What to see in the old town in one day."]),
            ("education", "schools and universities", ["Schools may open later in the morning.", "The university drops its entrance test.", "Pupils read worse than ten years ago."]),
        ]),
        "bank": (["What does the customer want?", "Which request is it?", "Which team should get this?"], [
            ("card lost", "the card is gone", ["I cannot find my card anywhere.", "My wallet with the card was left in a taxi."]), ("card arrival", "when the new card comes", ["My new card should have come last week.", "How long does it take until the card is in the mail?"]),
            ("top up", "put money on the account", ["How do I load money with another card?", "I want to add fifty to my balance."]), ("exchange rate", "what a currency costs", ["What do I get for one hundred dollars?", "Which rate do you use for yen?"]),
            ("transfer pending", "money sent did not arrive yet", ["I sent money yesterday and it still says pending.", "My friend has not received what I sent."]), ("cash withdrawal", "money from a machine", ["The machine kept my cash but booked it.", "Is there a limit at the cash machine?"]),
            ("wrong fee", "a fee that should not be there", ["Why is there a fee on my payment?", "You charged me for a free transfer."]), ("pin blocked", "the secret number does not work", ["I entered my pin wrong three times.", "My pin is locked now."]),
            ("verify identity", "prove who one is", ["Which papers do you need to verify me?", "My passport photo was refused."]), ("close account", "end the account", ["Please delete my account.", "I want to leave the bank."]),
            ("direct debit", "a company takes money regularly", ["The gym takes money each month that I did not allow.", "A debit appeared that I never signed."]), ("virtual card", "a card for the internet only", ["Can I get a card that exists only on the phone?", "I need a disposable card number."]),
            ("age limit", "how old one has to be", ["Can my son of 15 open one?", "From what age may I join?"]), ("mortgage", "a loan for a house", ["We want to buy a flat and need a loan.", "What interest do you take for a house?"]),
            ("statement", "a list of bookings", ["I need all bookings of last year on paper.", "Where can I download my statement?"]), ("phone changed", "a new number", ["My number is different now.", "I have a new phone and get no codes."]),
            ("contactless", "paying without touching", ["Holding the card to the terminal does nothing.", "Tapping does not work any more."]), ("savings", "money that earns interest", ["What do I earn on savings?", "I would like to put money aside each month."]),
            ("cheque", "a paper cheque", ["Can I pay in a cheque?", "The cheque from my aunt bounced."]), ("insurance", "cover for a risk", ["Does the card include travel insurance?", "I want to insure my phone with you."]),
        ]),
        "shop": (["What is it about?", "Which category fits?", "How would you file this?"], [
            ("return", "send something back", ["I would like to send the jacket back.", "Where is the return label?"]), ("size", "which size to take", ["Do the boots run small?", "I am 180 tall, is M right?"]), ("stock", "is it there", ["When is the green one available again?", "Do you still have the lamp?"]), ("voucher", "a code for a lower price", ["My code is refused.", "Can I use two vouchers?"]),
            ("shipping", "how and when it is sent", ["Do you ship to Norway?", "How long does the parcel take?"]), ("warranty", "repair for free", ["It broke within a year, is that covered?", "How long is the guarantee?"]), ("payment", "how to pay", ["May I pay by invoice?", "My card is declined at the checkout."]), ("gift", "for somebody else", ["Can you wrap it as a present?", "It is for my niece, please add a note."]),
            ("complaint", "dissatisfied", ["The quality is a disgrace.", "I am very unhappy with the seam."]), ("opening hours", "when the shop is open", ["Are you open on Sunday?", "Until when can I come today?"]), ("job", "work for the shop", ["Are you hiring?", "I would like to apply as a cashier."]), ("wholesale", "large amounts for resale", ["We want 500 pieces for our shops.", "Do resellers get a discount?"]),
        ]),
    },
    True: {
        "office": (["Where does this belong?", "Pick the department."], [
            ("passport", "papers for travel", ["My passport runs out in May.", "The child needs a travel document."]), ("parking", "cars and where they stand", ["I want a permit to park in my street.", "A car blocks our gate every day."]), ("waste", "rubbish and recycling", ["The bin was not emptied on Monday.", "Where do old batteries go?"]), ("taxes", "what one pays to the state", ["I do not understand my property tax.", "When is the declaration due?"]),
            ("marriage", "weddings", ["We would like to get married in June.", "Which papers do we need for the wedding?"]), ("noise", "too loud", ["The bar below plays music until three.", "Building works start at five each day."]), ("school place", "where a child goes to school", ["Our daughter starts school, which one is ours?", "Can we change the kindergarten?"]), ("dog", "keeping a dog", ["How do I register my puppy?", "The neighbour's dog has no tag."]),
            ("library", "books and reading", ["Can I renew my books on the phone?", "Where do I get a reader's card?"]), ("street light", "lamps in the street", ["The lamp before number nine is dark.", "It flickers at the corner all night."]), ("business permit", "opening a firm", ["I want to open a bakery.", "What do I need to found a company?"]), ("elections", "voting", ["How can I vote by mail?", "Where is my polling place?"]),
            ("trees", "parks and green", ["A branch hangs over the path.", "The tree in the park is dying."]), ("housing", "a flat to live in", ["I need a cheap flat.", "May my landlord raise the rent like that?"]),
        ]),
        "clinic": (["What brings the patient here?", "Choose the ward."], [
            ("eyes", "seeing", ["I see double since Monday.", "My eye is red and itches."]), ("teeth", "mouth and teeth", ["A filling fell out.", "My gum bleeds when I brush."]), ("heart", "heart and circulation", ["My heart races when I climb stairs.", "There is pressure on my chest."]), ("skin", "skin and hair", ["I have a rash on both arms.", "This mole has grown."]), ("bones", "bones and joints", ["I twisted my ankle.", "My knee hurts when it rains."]),
            ("children", "small patients", ["My baby has a fever.", "Our toddler swallowed a coin."]), ("pregnancy", "expecting a child", ["I am in the fifth month and feel dizzy.", "When is the next ultrasound?"]), ("ears", "hearing", ["There is a ringing in my ear.", "I hear badly on the left."]), ("sleep", "sleeping", ["I lie awake until four.", "He snores and stops breathing."]), ("stomach", "digestion", ["I feel sick after each meal.", "Cramps in my belly for days."]),
        ]),
    },
}


def text_of(draw, name, meaning):
    """What stands beside an option's name: its meaning, nothing new, or nothing."""
    return draw.choice([meaning, meaning, f"{name}: {meaning}", name, f"it is about {name}"])


def make(draw, held, count=None):
    asks, topics = draw.choice(list(FIELDS[held].values()))
    name, meaning, texts = draw.choice(topics)
    count = min(count or draw.randint(4, 20), len(topics))
    options = shuffled(draw, [(name, meaning), *[(one[0], one[1]) for one in draw.sample([one for one in topics if one[0] != name], count - 1)]])
    events = [said(draw.choice(texts))]
    if draw.random() < 0.25:
        events.insert(0, done(draw.choice(["ticket_opened", "mail_received"] if not held else ["call_taken"])))
    ask = draw.choice(asks)
    bare = choice(ask, [one for one, _ in options], name)
    style = draw.random()
    told = choice(ask, {one: (what if style < 0.5 else text_of(draw, one, what)) for one, what in options}, name)
    asked, pairs = [bare, told], [(0, 1, list(range(count)))]
    if draw.random() < 0.3:
        codes = draw.sample([f"{letter}{number}" for letter in "ABCDKX" for number in range(1, 9)], count)
        asked.append(choice(ask, dict(zip(codes, [f"{one}: {what}" for one, what in options])), codes[[one for one, _ in options].index(name)]))
        pairs.append((1, 2, list(range(count))))
    if draw.random() < 0.4:
        other = next(one for one, _ in options if one != name)
        asked += [noul(f"Is this about {name}?" if not held else f"Does it concern {name}?", True, sure=0.95), noul(f"Is this about {other}?" if not held else f"Does it concern {other}?", False, sure=0.95)]
    return [Case(draw.choice(OBJECTS[held]), timed(draw, events), asked, pairs, part="with and without text")]
