"""Numbers, thresholds, counts, sums and dates, in fields and in words."""

import datetime

from .common import Case, choice, date_word, done, noul, number_word, said, score, shuffled, spin, start, stamp, timed

# Object, event, field, lowest, highest, decimals, what it is called, things that are counted (or None), how somebody says it.
FIELDS = {
    False: [
        ("user", "profile_updated", "age", 12, 85, 0, "user's age", None, "[I am|I'm|I just turned] {v}"),
        ("user", "reports_summary", "reports", 0, 14, 0, "number of reports", "reports", "[there are|we have|I count] {v} reports about this one"),
        ("order", "order_placed", "total", 5, 900, 2, "order total", None, "[my order comes to|the total was|I paid] {v}"),
        ("order", "order_placed", "items", 1, 25, 0, "number of items", "items", "[I ordered|there should be|the box had] {v} items"),
        ("account", "login_failed", "attempts", 1, 20, 0, "number of attempts", "attempts", "[it took me|after|I made] {v} attempts"),
        ("invoice", "invoice_sent", "amount", 20, 20000, 0, "invoice amount", None, "[the bill says|you invoiced us|we owe you] {v}"),
        ("customer", "refund_issued", "refund", 1, 500, 2, "refund", None, "[you refunded|I got back|they returned] {v}"),
        ("server", "load_measured", "cpu_percent", 1, 100, 0, "CPU load", None, "[cpu is at|load shows|we are at] {v} percent"),
        ("server", "latency_measured", "latency_ms", 5, 4000, 0, "latency", None, "[requests take|latency is|I measure] {v} ms"),
        ("ticket", "ticket_reopened", "reopened", 0, 9, 0, "number of times it was reopened", "reopenings", "[this was reopened|you reopened it|we are back for the] {v} times"),
        ("customer", "survey_answered", "score", 0, 10, 0, "survey score", None, "[I would give|my rating is|call it] {v} out of 10"),
        ("user", "followers_counted", "followers", 0, 50000, 0, "number of followers", "followers", "[I have|we reached|there are] {v} followers"),
        ("parcel", "parcel_weighed", "weight_kg", 1, 40, 1, "weight of the parcel", None, "[it weighs|the parcel is|the label says] {v} kg"),
        ("lead", "company_described", "employees", 1, 5000, 0, "number of employees", "employees", "[we are|our team is|the company has] {v} people"),
        ("account", "transfer_made", "amount", 1, 30000, 0, "transferred amount", None, "[I sent|please move|they transferred] {v}"),
        ("device", "battery_reported", "battery", 0, 100, 0, "battery level", None, "[battery is at|it shows|only] {v} percent"),
        ("listing", "price_set", "price", 5, 4000, 0, "asking price", None, "[asking|I want|the price is] {v}"),
        ("subscription", "seats_changed", "seats", 1, 300, 0, "number of seats", "seats", "[we need|please set it to|we pay for] {v} seats"),
        ("driver", "ride_finished", "distance_km", 1, 120, 1, "distance", None, "[that was|we drove|the trip is] {v} km"),
        ("machine", "temperature_read", "celsius", -20, 130, 0, "temperature", None, "[it reads|sensor says|it is at] {v} degrees"),
        ("student", "exam_graded", "points", 0, 100, 0, "exam result", "points", "[I got|the exam gave me|they wrote] {v} points"),
        ("user", "messages_sent", "recipients", 1, 400, 0, "number of recipients", "recipients", "[I wrote to|it went to|we mailed] {v} people"),
        ("loan", "application_received", "income", 8000, 200000, 0, "yearly income", None, "[I earn|my income is|I make] {v} a year"),
        ("booking", "guests_entered", "guests", 1, 14, 0, "number of guests", "guests", "[we will be|table for|it is for] {v} people"),
        ("account", "warning_given", "warnings", 0, 7, 0, "number of warnings", "warnings", "[this user has|that makes|we gave] {v} warnings"),
        ("order", "delivery_delayed", "days_late", 0, 40, 0, "delay in days", "days of delay", "[it is|already|we are] {v} days late"),
        ("shop", "stock_counted", "stock", 0, 600, 0, "stock", "pieces in stock", "[we have|there are|I see] {v} pieces left"),
        ("project", "budget_reported", "spent_percent", 0, 140, 0, "share of the budget that is spent", None, "[we have spent|we are at|finance says] {v} percent"),
    ],
    True: [
        ("patient", "vitals_taken", "pulse", 40, 180, 0, "pulse", None, "pulse was {v} when I checked"),
        ("member", "membership_checked", "visits", 0, 30, 0, "number of visits", "visits", "she came in {v} times this month"),
        ("contract", "contract_signed", "term_months", 1, 60, 0, "contract term in months", "months", "they signed for {v} months"),
        ("tenant", "rent_received", "rent", 200, 3500, 0, "rent", None, "rent of {v} arrived today"),
        ("vehicle", "inspection_done", "mileage", 500, 250000, 0, "mileage", None, "the clock stands at {v}"),
        ("account", "chargebacks_counted", "chargebacks", 0, 11, 0, "number of chargebacks", "chargebacks", "that is {v} chargebacks so far"),
        ("applicant", "application_filed", "years_of_experience", 0, 30, 0, "experience in years", "years of experience", "I have done this for {v} years"),
        ("site", "visitors_counted", "visitors", 0, 90000, 0, "number of visitors", "visitors", "yesterday {v} people came by"),
        ("ticket", "reply_sent", "waiting_hours", 0, 96, 0, "waiting time in hours", "hours of waiting", "I waited {v} hours for this"),
        ("campaign", "campaign_closed", "conversion_percent", 0, 60, 1, "conversion rate", None, "conversion ended at {v} percent"),
        ("wallet", "coins_bought", "coins", 10, 9000, 0, "number of coins", "coins", "bought {v} coins just now"),
        ("sensor", "humidity_logged", "humidity", 5, 99, 0, "humidity", None, "humidity climbed to {v}"),
        ("course", "lesson_completed", "lessons", 0, 48, 0, "number of finished lessons", "finished lessons", "finished {v} lessons by now"),
        ("claim", "claim_filed", "damage", 50, 40000, 0, "damage", None, "the garage puts the damage at {v}"),
        ("child", "profile_created", "age_years", 3, 40, 0, "age of this person", None, "hello, {v} years old, new here"),
    ],
}
MORE = {False: ["more than {b}", "over {b}", "above {b}", "greater than {b}", "higher than {b}", "larger than {b}"], True: ["in excess of {b}", "beyond {b}", "more than {b}"]}
LESS = {False: ["less than {b}", "under {b}", "below {b}", "lower than {b}", "smaller than {b}"], True: ["not even {b}", "fewer than {b}", "anything below {b}"]}
LEAST = {False: ["at least {b}", "{b} or more", "no less than {b}", "{b} or higher"], True: ["a minimum of {b}", "not under {b}", "at least {b}"]}
MOST = {False: ["at most {b}", "{b} or less", "no more than {b}", "up to {b}"], True: ["a maximum of {b}", "not over {b}", "at the very most {b}"]}
FRAMES = {
    False: ["Is the {np} {how}?", "Is the {np} [now|here|currently] {how}?", "Does the history show a {np} of {how}?", "{np}: is it {how}?", "Would you say the {np} is {how}?", "Is it {how}, the {np}?", "{How}?", "Can one say that the {np} is {how}?", "Is the recorded {np} {how}?"],
    True: ["Do we see a {np} {how}?", "Check the {np}: {how}?", "According to the events, is the {np} {how}?", "Has somebody recorded a {np} {how}?"],
}
COUNTED = {
    False: ["Are there {how} {plural}?", "{How} {plural}?", "Does this have {how} {plural}?", "Do the events name {how} {plural}?", "Were {how} {plural} counted?"],
    True: ["Can we see {how} {plural}?", "Did we get {how} {plural}?", "Did it come to {how} {plural}?"],
}
# The same asked with a verb, by field.
VERBED = {
    "reports": ["Was this user reported {how} times?", "Has anybody reported the user {how} times?"], "attempts": ["Did it take {how} attempts?", "Did somebody try {how} times?"], "items": ["Were {how} items ordered?", "Did the customer order {how} things?"],
    "reopened": ["Was the ticket reopened {how} times?"], "warnings": ["Was the account warned {how} times?"], "employees": ["Does the company employ {how} people?", "Do {how} people work there?"], "total": ["Did the order cost {how}?", "Did the customer spend {how}?"],
    "amount": ["Was it {how} that was paid or asked for?", "Is it about {how} in money?"], "age": ["Is the user {how} years old?", "Would you say {how} years of age?"], "price": ["Does it cost {how}?", "Does the seller ask {how}?"], "latency_ms": ["Do requests take {how} milliseconds?"],
    "celsius": ["Does it have {how} degrees?"], "battery": ["Does the battery hold {how} percent?"], "income": ["Does the applicant earn {how}?"], "days_late": ["Is it {how} days late?", "Did it come {how} days too late?"], "followers": ["Do {how} people follow this user?"],
    "guests": ["Are {how} guests coming?"], "stock": ["Are {how} pieces left?"], "refund": ["Was {how} refunded?", "Did the customer get {how} back?"], "distance_km": ["Was the ride {how} km long?"], "points": ["Did the student get {how} points?"], "score": ["Did the customer give {how}?"],
    "recipients": ["Did the message go to {how} people?"], "seats": ["Are {how} seats paid for?"], "weight_kg": ["Does it weigh {how} kg?"], "cpu_percent": ["Is the CPU busy to {how} percent?"], "spent_percent": ["Is {how} percent of the budget gone?"],
    "pulse": ["Does the heart beat {how} times a minute?"], "visits": ["Did the member come {how} times?"], "rent": ["Did the tenant pay {how}?"], "chargebacks": ["Were {how} payments charged back?"], "years_of_experience": ["Has the applicant worked {how} years?"], "visitors": ["Did {how} people visit?"],
    "waiting_hours": ["Did the customer wait {how} hours?"], "coins": ["Were {how} coins bought?"], "lessons": ["Has the pupil finished {how} lessons?"], "damage": ["Does the damage come to {how}?"], "age_years": ["Is this person {how} years old?"], "term_months": ["Does the contract run for {how} months?"], "mileage": ["Has the car run {how} miles?"],
}
MONEY = {"total", "amount", "refund", "price", "income", "rent", "damage"}
OTHER_KEYS = ["version", "retries", "page", "batch", "shard", "rank", "slot", "build", "position", "row"]
OTHER_KEYS_HELD = ["attempt", "index", "port", "lane", "zone", "series"]
# An event that repeats, and what one of them is called.
REPEATED = {
    False: [("login_failed", "failed logins", "a failed login"), ("payment_declined", "declined payments", "a declined payment"), ("report_received", "reports", "a report"), ("password_reset", "password resets", "a password reset"),
            ("refund_requested", "requests for a refund", "a request for a refund"), ("item_viewed", "viewed items", "a viewed item"), ("order_cancelled", "cancelled orders", "a cancelled order"), ("call_missed", "missed calls", "a missed call"),
            ("support_contacted", "contacts with support", "a contact with support"), ("coupon_used", "used coupons", "a used coupon"), ("address_changed", "changes of address", "a change of address"), ("alarm_raised", "alarms", "an alarm")],
    True: [("card_added", "added cards", "an added card"), ("delivery_failed", "failed deliveries", "a failed delivery"), ("comment_removed", "removed comments", "a removed comment"), ("device_linked", "linked devices", "a linked device"),
           ("appointment_missed", "missed appointments", "a missed appointment"), ("timeout_hit", "timeouts", "a timeout")],
}
BYSTANDERS = {False: ["page_opened", "session_started", "settings_viewed", "mail_opened", "app_updated", "search_made"], True: ["menu_opened", "banner_seen", "token_renewed", "help_read"]}


def amount(draw, low, high, decimals):
    """Small ones often, and every size."""
    value = low + (high - low) * draw.random() ** draw.choice([1, 2, 3])
    return round(value, decimals) if decimals else round(value)


def shown(draw, number):
    """A number as people write it."""
    if isinstance(number, int) and number >= 1000 and draw.random() < 0.4:
        return f"{number:,}"
    return number_word(draw, number)


def near(draw, value, low, high, decimals):
    """A bound: near, at, or far from the value."""
    turn = draw.random()
    if turn < 0.25:
        bound = value + draw.choice([-2, -1, 1, 2, 3]) * (10 ** -decimals if decimals and draw.random() < 0.3 else 1)
    elif turn < 0.35:
        bound = value
    elif turn < 0.7:
        bound = value * draw.choice([0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5, 2, 3])
    else:
        bound = amount(draw, low, high, decimals)
    bound = round(bound) if bound >= 1 or low < 0 else 1
    if bound > 50 and draw.random() < 0.6:
        bound = round(bound, -1 if bound < 1000 else -2)
    return bound


def compared(draw, held, value, bound, key=""):
    """Words for a comparison with the bound, and whether it holds."""
    told = shown(draw, bound)
    if key in MONEY and told[0].isdigit() and draw.random() < 0.4:
        told = draw.choice(["${}", "€{}", "{} euros", "{} dollars", "EUR {}"]).format(told)
    words, holds = draw.choice([(MORE, value > bound), (LESS, value < bound), (LEAST, value >= bound), (MOST, value <= bound)])
    return spin(draw, draw.choice(words[held]), b=told), holds


def threshold(draw, held):
    kind, event, key, low, high, decimals, phrase, plural, saying = draw.choice(FIELDS[held])
    value = amount(draw, low, high, decimals)
    others = draw.sample(OTHER_KEYS_HELD if held else OTHER_KEYS, draw.randint(0, 2))
    metadata = {name: draw.randint(0, 60) for name in others} | {key: value if draw.random() < 0.85 else str(value)}
    metadata = dict(shuffled(draw, metadata.items()))
    events = [done(event, metadata)] if draw.random() < 0.65 else [said(spin(draw, saying, v=shown(draw, value)).capitalize() + ".")]
    for _ in range(draw.choice([0, 0, 1, 2, 4])):
        events.insert(draw.randint(0, len(events)), done(draw.choice(BYSTANDERS[held]), draw.choice([None, {draw.choice(OTHER_KEYS_HELD if held else OTHER_KEYS): draw.randint(0, 200)}])))
    asked = []
    for _ in range(3):
        bound = near(draw, value, low, high, decimals)
        how, holds = compared(draw, held, value, bound, key)
        frame = draw.choice((COUNTED if plural and draw.random() < 0.5 else FRAMES)[held])
        if key in VERBED and draw.random() < 0.35:
            frame = draw.choice(VERBED[key])
        if frame == "{How}?":
            frame = "{np} {how}?"
        asked.append(noul(upper(spin(draw, frame, np=phrase, how=how, How=how.capitalize(), plural=plural)), holds))
    turn = draw.random()
    if key.startswith("age") and turn < 0.6:
        limit = draw.choice([13, 16, 18, 18, 18, 21, 25, 65])
        asked.append(noul(spin(draw, "[Under|Younger than] {b}?" if not held else "Is this person not yet {b}?", b=limit), value < limit))
        if limit == 18:
            asked.append(noul(draw.choice(["Is this a minor?", "Is the user a child or a teenager?"] if not held else ["Is this somebody who is not of age?"]), value < 18))
            asked.append(noul(draw.choice(["Is this an adult?", "Is the user of age?"] if not held else ["Is this a grown-up?"]), value >= 18))
    elif turn < 0.3:
        first, last = sorted((near(draw, value, low, high, 0), near(draw, value, low, high, 0)))
        if first < last:
            asked.append(noul(spin(draw, "Is the {np} between {a} and {b}?" if not held else "Does the {np} lie within {a} to {b}?", np=phrase, a=shown(draw, first), b=shown(draw, last)), first <= value <= last))
    elif turn < 0.6:
        asked.append(bands(draw, value, low, high, phrase, held))
    elif turn < 0.8:
        wrong = {str(near(draw, value, low, high, decimals)) for _ in range(6)} - {str(value)}
        asked.append(choice(spin(draw, "[What is the {np}?|Which {np} was recorded?|How high is the {np}?]" if not held else "Tell the {np}.", np=phrase), shuffled(draw, [str(value), *sorted(wrong)[: draw.randint(1, 4)]]), str(value)))
    return Case(kind, timed(draw, events), asked)


def upper(text):
    return text[:1].upper() + text[1:]


def bands(draw, value, low, high, phrase, held):
    """A scale of ranges, from low to high or from high to low."""
    steps = sorted({max(low + 1, round(low + (high - low) * share)) for share in draw.sample([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7], draw.randint(2, 4))})
    levels = [f"under {steps[0]}", *[f"{a} to {b - 1}" if b - 1 > a else str(a) for a, b in zip(steps, steps[1:])], draw.choice([f"{steps[-1]} or more", f"{steps[-1]} and above"])]
    at = sum(int(value) >= step for step in steps)
    ask = spin(draw, "[How high is the {np}?|In which range is the {np}?|{np}]" if not held else "Into which band does the {np} fall?", np=phrase)
    if draw.random() < 0.3:
        return choice(upper(ask), shuffled(draw, levels), levels[at])
    question, shares = score(upper(ask), levels, at)
    return (question | {"criteria": levels[::-1]}, shares[::-1]) if draw.random() < 0.3 else (question, shares)


def counted(draw, held):
    """Events that repeat, among others."""
    (name, plural, one), (other, others, _) = draw.sample(REPEATED[held], 2)
    number, rest = draw.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 11]), draw.choice([0, 0, 1, 2, 3, 5])
    events = shuffled(draw, [done(name)] * number + [done(other)] * rest + [done(draw.choice(BYSTANDERS[held])) for _ in range(draw.randint(1, 4))])
    asked = []
    for about, count in ((plural, number), (plural, number), (others, rest)):
        bound = max(1, count + draw.choice([-3, -2, -1, -1, 0, 0, 1, 1, 2, 4]))
        how, holds = compared(draw, held, count, bound)
        asked.append(noul(upper(spin(draw, draw.choice(COUNTED[held]), how=how, How=how, plural=about)), holds))
    turn = draw.random()
    if turn < 0.3:
        levels = draw.choice([["none", "one", "two", "three or more"], ["0", "1 or 2", "3 to 5", "more than 5"], ["never", "once", "several times"]])
        at = {"none": min(number, 3), "0": 0 if not number else 1 if number < 3 else 2 if number < 6 else 3, "never": min(number, 2)}[levels[0]]
        asked.append(score(f"How many {plural} are there?" if not held else f"Count the {plural}.", levels, at))
    elif turn < 0.6:
        asked.append(noul(f"Was there {one}?" if not held else f"Do the events contain {one}?", number > 0))
    elif turn < 0.85 and number != rest:
        asked.append(choice("Which happened more often?" if not held else "Of which are there more?", [plural, others], plural if number > rest else others))
    return Case(draw.choice(["account", "user", "customer"]), timed(draw, events), asked)


def changes(draw, held):
    """Two values of one field: what rose, what fell, what is left."""
    kind, event, key, low, high, decimals, phrase, _, _ = draw.choice(FIELDS[held])
    before = amount(draw, low, high, decimals)
    after = before if draw.random() < 0.12 else near(draw, before, low, high, 0)
    events = [done(event, {key: before}), done(event, {key: after})]
    if draw.random() < 0.5:
        events.insert(1, done(draw.choice(BYSTANDERS[held])))
    word = "rose" if after > before else "fell" if after < before else "stayed the same"
    asked = [noul(spin(draw, "Did the {np} [rise|go up|increase]?" if not held else "Has the {np} grown since?", np=phrase), after > before),
             noul(spin(draw, "Did the {np} [fall|go down|decrease]?" if not held else "Has the {np} shrunk since?", np=phrase), after < before),
             choice(spin(draw, "What happened to the {np}?" if not held else "How did the {np} develop?", np=phrase), shuffled(draw, ["rose", "fell", "stayed the same"]), word)]
    bound = near(draw, after, low, high, 0)
    how, holds = compared(draw, held, after, bound)
    asked.append(noul(spin(draw, "Is the [latest|last|newest] {np} {how}?" if not held else "Is the {np} {how} at the end?", np=phrase, how=how), holds))
    return Case(kind, timed(draw, events), asked)


def sums(draw, held):
    """Several amounts of one kind."""
    name, key, what = draw.choice([("payment_received", "amount", "payments"), ("purchase_made", "price", "purchases"), ("hours_logged", "hours", "logged hours"), ("points_earned", "points", "points")] if not held
                                  else [("donation_made", "sum", "donations"), ("fine_charged", "fee", "fines")])
    values = [draw.choice([5, 10, 20, 25, 50, 75, 100, draw.randint(1, 200)]) for _ in range(draw.randint(2, 4))]
    total, highest = sum(values), max(values)
    asked = []
    for told, value in ((f"Do the {what} add up to {{how}}?" if not held else f"Taken together, are the {what} {{how}}?", total), (f"Is the largest of the {what} {{how}}?" if not held else f"Is the biggest single one of the {what} {{how}}?", highest)):
        bound = max(1, int(round(value * draw.choice([0.4, 0.6, 0.8, 1.25, 1.6, 2.2]), -1)))
        how, holds = compared(draw, held, value, bound)
        asked.append(noul(told.format(how=how), holds))
    return Case(draw.choice(["customer", "user", "account"]), timed(draw, [done(name, {key: value}) for value in values]), asked)


def dates(draw, held):
    """A date in a field, in words or as the time of an event, against another."""
    first = start(draw)
    day = datetime.datetime(first.year, first.month, first.day) + datetime.timedelta(days=draw.randint(1, 60))
    name, key, what = draw.choice([("invoice_sent", "due_on", "due date"), ("subscription_started", "renews_on", "renewal date"), ("delivery_planned", "expected", "planned delivery"), ("trial_started", "trial_ends", "end of the trial"), ("contract_noted", "deadline", "deadline")]
                                  if not held else [("permit_issued", "valid_until", "expiry of the permit"), ("visit_booked", "visit_on", "day of the visit"), ("loan_granted", "repay_by", "day of repayment")])
    told = f"{day:%Y-%m-%d}"
    opening = done(name, {key: told}) if draw.random() < 0.6 else said(spin(draw, "[Please note|Reminder|As agreed]: the {what} is {day}." if not held else "For your calendar: {what} on {day}.", what=what, day=date_word(draw, day)))
    moment = first + datetime.timedelta(days=draw.choice([0, 1, 2, 5, 12, 33, 64, 90]), hours=draw.randint(0, 5), minutes=5)
    closing_name, closing = draw.choice([("payment_received", "the payment"), ("status_checked", "the check"), ("item_delivered", "the delivery"), ("reminder_sent", "the reminder")] if not held else [("form_returned", "the return of the form"), ("caller_asked", "the question")])
    events = [{"at": stamp(first)} | opening, {"at": stamp(moment)} | done(closing_name)]
    other = day + datetime.timedelta(days=draw.choice([-40, -9, -3, -1, 1, 2, 8, 35]))
    days, limit = (moment - first).total_seconds() / 86400, draw.choice([1, 3, 7, 14, 30, 60])
    late = moment.date() > day.date()
    asked = [
        noul(spin(draw, "Is the {what} [before|earlier than] {day}?" if not held else "Does the {what} come ahead of {day}?", what=what, day=date_word(draw, other)), day < other),
        noul(spin(draw, "Is the {what} [after|later than] {day}?" if not held else "Does the {what} come past {day}?", what=what, day=date_word(draw, other)), day > other),
        noul(spin(draw, "Did {closing} come after the {what}?" if not held else "Was {closing} too late for the {what}?", closing=closing, what=what), late),
        noul(spin(draw, "Did [more than|over] {n} days pass between the first and the last event?" if not held else "Is the last event at least {n} days younger than the first?", n=number_word(draw, limit)), days > limit if not held else days >= limit),
        noul(f"Was {closing} in {first:%B}?" if not held else f"Does {closing} fall into {first:%B}?", moment.month == first.month),
    ]
    return Case(draw.choice(["invoice", "customer", "order", "case"]), events, draw.sample(asked, 4))


def make(draw, held):
    return [draw.choices([threshold, counted, changes, sums, dates], [5, 2, 1.5, 0.7, 1.5])[0](draw, held)]
