"""A decisive event at the front, in the middle or at the end of 10 to 200 events."""

import copy
import datetime

from .common import Case, choice, done, noul, said, start, stamp

NOISE = {
    False: ["session_started", "page_viewed", "mail_opened", "settings_viewed", "app_updated", "search_made", "photo_viewed", "profile_viewed", "token_refreshed", "backup_finished", "newsletter_sent", "cart_viewed",
            "filter_changed", "language_set", "sync_done", "list_scrolled", "help_opened", "map_loaded", "cookie_set", "notification_read", "video_paused", "tab_closed", "theme_changed", "contact_imported", "metrics_sent",
            "draft_saved", "calendar_synced", "reminder_shown", "session_ended", "cache_cleared", "file_previewed", "bookmark_added", "widget_moved", "printer_found", "report_viewed", "banner_closed"],
    True: ["screen_locked", "font_loaded", "feed_refreshed", "tour_skipped", "tooltip_shown", "radio_started", "menu_expanded", "keyboard_shown", "zoom_changed", "podcast_queued", "weather_loaded", "sidebar_hidden", "chart_drawn", "hint_closed"],
}
CHATTER = {
    False: ["Good morning!", "Thanks, see you tomorrow.", "Okay, noted.", "Could you send me the link again?", "The weather is nice today.", "I will have a look later.", "Which colour is it?", "Here is the document.", "Lunch at twelve?", "Sounds good to me.",
            "I am in a meeting until three.", "Have a nice weekend.", "Please find the list attached.", "Got it.", "Let me check and come back to you.", "The train was on time.", "What time do you open?", "I like the new layout.", "Yes, that works.", "Is there parking nearby?",
            "We are ten people in the office.", "The update went through.", "Can I bring my dog?", "My colleague will answer you.", "I am reading the manual."],
    True: ["Hello again.", "Fine by me.", "Where can I find the menu?", "The coffee machine works.", "I shall write on Monday.", "Nice picture!", "Do you ship to islands?", "The password manual is on the shelf.", "We met at the fair.", "It rained all day."],
}
KEYS = {False: ["client", "page", "ms", "version", "lang", "source"], True: ["origin", "panel", "took", "theme"]}
VALUES = ["web", "app", "home", "list", "en", "de", "mail", "2.1", "7", "18", "start", "push", 3, 12, 40, 250]
# What decides: what is said or done, and questions with their answers when it is there. Matters of one family may go together.
DECISIVE = {
    False: [
        ([said("If you do not pay me back I will come to your house and hurt you."), said("Watch your back, I know where you live and I will get you.")], [("Does somebody threaten another person?", True), ("Is there a threat of violence?", True), ("Is everything in this history peaceful?", False)], "hostile"),
        ([said("Please cancel my subscription, I am leaving."), done("cancellation_requested", {"reason": "too expensive"})], [("Does the customer want to leave?", True), ("Has a cancellation been asked for?", True)], "unhappy"),
        ([done("chargeback_filed", {"amount": 240}), done("dispute_opened", {"reason": "item never arrived"})], [("Was a payment disputed?", True), ("Is there a chargeback or a dispute?", True)], "unhappy"),
        ([said("Write to me on my private number, then we skip the fees of this site."), said("Let us do the deal outside of this platform, cash only.")], [("Does somebody try to move the deal off the platform?", True), ("Does anyone propose to avoid the fees of the site?", True)], "offsite"),
        ([said("I will order the large one today, where do I pay?"), done("checkout_started", {"items": 2}), done("payment_entered", {"card": "ending 4412"})], [("Is the user about to buy?", True), ("Is there a clear sign of a purchase?", True)], "buying"),
        ([said("The box was empty and nobody answers me. I am very disappointed."), said("This is the worst service I have ever had.")], [("Is there a complaint?", True), ("Is the customer unhappy with something?", True)], "unhappy"),
        ([done("login_from_new_country", {"country": "VN", "usual": "NL"}), done("password_changed_by_unknown_device", {"device": "unknown"})], [("Is there a sign that the account was taken over?", True), ("Did something unusual happen with a login or the password?", True)], "takeover"),
        ([said("You are an idiot and everybody here laughs at you."), said("Shut up, you worthless clown.")], [("Does somebody insult another?", True), ("Is there an insult in the messages?", True)], "hostile"),
        ([said("We were charged twice, please refund the second payment."), done("refund_requested", {"amount": 59})], [("Is money asked back?", True), ("Was a refund requested?", True)], "unhappy"),
        ([said("I am the mother, he is only eleven and uses my account."), said("I am 12 years old, is that okay?")], [("Is a child using the account?", True), ("Does the history show that the user is a child?", True)], "child"),
        ([said("Our whole team of 200 wants to switch to you, send an offer."), said("We would like a quote for 150 licences.")], [("Is this a large business lead?", True), ("Does somebody ask for an offer for many people?", True)], "buying"),
        ([done("server_crashed", {"code": 139}), done("disk_full", {"used_percent": 100})], [("Did a machine fail?", True), ("Is there a technical failure?", True)], "failure"),
    ],
    True: [
        ([said("Tell him that I will burn down his shop tonight."), said("You will regret this, I am bringing a knife.")], [("Has anybody announced violence?", True), ("Does a message contain a threat?", True)], "hostile"),
        ([said("We have decided not to renew, please end the contract in June."), done("contract_terminated", {"by": "customer"})], [("Is the customer going away?", True), ("Does the contract come to an end?", True)], "leaving"),
        ([said("I fell down the stairs and cannot move my leg."), done("accident_reported", {"injured": 1})], [("Was somebody injured?", True), ("Is there an accident in this history?", True)], "accident"),
        ([said("I transferred the money to the wrong person, can you stop it?"), done("transfer_recalled", {"amount": 900})], [("Did somebody send money by mistake?", True), ("Is a payment supposed to be stopped or taken back?", True)], "mistake"),
        ([said("My laptop was stolen from the car last night."), done("theft_reported", {"item": "laptop"})], [("Was something stolen?", True), ("Is a theft reported?", True)], "theft"),
        ([said("Congratulations to myself: I passed the final exam!"), done("exam_passed", {"grade": "A"})], [("Did the student pass?", True), ("Is there good news about an exam?", True)], "exam"),
    ],
}


def quiet(draw, held, count):
    """Events that decide nothing; some are everyday messages."""
    chatty = draw.choice([0.0, 0.1, 0.3, 0.7])
    found = []
    for _ in range(count):
        if draw.random() < chatty:
            found.append(said(draw.choice(CHATTER[held])))
        else:
            found.append(done(draw.choice(NOISE[held]), {draw.choice(KEYS[held]): draw.choice(VALUES)} if draw.random() < 0.25 else None))
    return found


def spread(events, first, step):
    return [{"at": stamp(first + number * step)} | event for number, event in enumerate(events)]


def among(draw, held, event, count, place):
    """An event among so many that say nothing."""
    events = quiet(draw, held, count)
    at = {"front": draw.randint(0, max(0, count // 12)), "middle": draw.randint(count // 3, 2 * count // 3), "end": count, "near the end": max(0, count - draw.randint(1, 5))}[place]
    return spread(events[:at] + [event] + events[at:], start(draw), datetime.timedelta(minutes=draw.choice([1, 7, 45, 600])))


def make(draw, held, count=None, place=None, matter=None):
    """The event alone, the same among many, and many without it."""
    matter = matter or draw.choice(DECISIVE[held])
    event, count = copy.deepcopy(draw.choice(matter[0])), count or draw.choice([10, 20, 30, 45, 60, 80, 100, 120, 150, 195])
    place = place or draw.choice(["front", "middle", "end", "end", "near the end"])
    kind = draw.choice(["user", "account", "customer"])
    asked = [noul(ask, true) for ask, true in matter[1][:3]]
    far = [one for one in DECISIVE[held] if one[2] != matter[2]]
    wrong = draw.choice(far)
    asked.append(noul(wrong[1][0][0], not wrong[1][0][1], sure=0.95))
    if draw.random() < 0.3:
        names = [matter[1][0][0], *[one[1][0][0] for one in draw.sample(far, 3)]]
        asked.append(choice("Which of these questions has the answer yes?", draw.sample(names, 4), matter[1][0][0]))
    alone = Case(kind, spread([event], start(draw), datetime.timedelta(minutes=1)), asked, part="alone")
    long = Case(kind, among(draw, held, event, count, place), asked, twin=0, part=f"{place} of {count}")
    without = Case(kind, spread(quiet(draw, held, count), start(draw), datetime.timedelta(minutes=9)), [noul(ask, not true, sure=0.95) for ask, true in matter[1]], part=f"none of {count}")
    rest = [long] + ([without] if draw.random() < 0.5 else [])
    if not held and draw.random() < 0.7:
        # Beside a long one a short one costs as much, so it is seldom there.
        long.twin = None
        return rest
    return [alone, *rest]
