//! Facts in the conditions of rules.

use std::time::Duration;

use super::*;

fn window(name: Option<&str>, seconds: u64) -> EventWindow {
    EventWindow { name: name.map(str::to_owned), window: Duration::from_secs(seconds) }
}

fn facts(object_type: &str, age: u64, events: &[(EventWindow, i64)]) -> Facts {
    Facts {
        object_type: object_type.to_owned(),
        age: Duration::from_secs(age),
        events: events.iter().cloned().collect(),
    }
}

fn holds(text: &str, facts: &Facts) -> bool {
    bound(text).matches_with(|_| None, Some(facts))
}

#[test]
fn events_age_and_type_are_compared() {
    let events = [(window(Some("reported"), 86_400), 3), (window(None, 3_600), 7)];
    let seller = facts("seller", 3_600, &events);
    for (text, expected) in [
        ("events(reported, 24h) >= 3", true),
        ("events(reported, 1d) > 3", false),
        ("events('reported', 86400s) = 3", true),
        ("not events(reported, 24h) >= 3", false),
        ("events(*, 1h) != 7", false),
        ("events(*, 60m) <= 99999999999999999999", true),
        ("age = 1h", true),
        ("age < 1h", false),
        ("age <= 60m and age >= 3600s", true),
        ("not age > 30d", true),
        ("type = seller", true),
        ("type != seller or type = buyer", false),
        ("not type = 'buyer'", true),
        ("(type = seller and (events(reported, 24h) > 5 or age < 2h))", true),
    ] {
        assert_eq!(holds(text, &seller), expected, "{text}");
    }
    let a_moment = Facts { age: Duration::from_millis(3_600_500), ..seller };
    assert!(holds("age = 1h and age > 1h", &a_moment), "equal to the second, exact otherwise");
    assert!(!bound("age < 1h or type = seller").matches(|_| None), "without facts none holds");
}

#[test]
fn a_window_is_known_by_its_name_and_length() {
    let condition =
        bound("events(a, 24h) > 1 or events(a, 1d) > 2 and spam > 1 or events(*, 1d) = 0, age > 1d");
    let day = 86_400;
    assert_eq!(condition.event_windows(), [&window(Some("a"), day), &window(None, day)]);
    assert_eq!((condition.facts().len(), condition.keys()), (4, vec!["spam"]));
}

#[test]
fn a_signal_of_that_key_goes_before_a_fact() {
    let with_signals = |key: &str| match key {
        "age" | "events" => Some(SignalShape::Noul),
        "type" => Some(SignalShape::Choice { options: vec!["a".to_owned()] }),
        _ => None,
    };
    let bind = |text: &str| Condition::parse(text).unwrap().bind(with_signals);
    let condition = bind("age > 50, type = a, events > 50 and events(events, 1h) = 0").unwrap();
    assert_eq!((condition.keys(), condition.facts().len()), (vec!["age", "type", "events"], 1));
    assert!(bind("age > 3d").is_err());
}

#[test]
fn an_error_in_a_fact_says_what_is_wrong_and_where() {
    let at_most = "expected a window such as 30s, 15m, 24h or 7d, at most 30d";
    for (text, message) in [
        ("events(reported, 31d) > 1", format!("at column 18: {at_most}, found `31d`")),
        ("events(reported, 0s) > 1", format!("at column 18: {at_most}, found `0s`")),
        ("events(reported, 1w) > 1", format!("at column 18: {at_most}, found `1w`")),
        ("events(reported, d) > 1", format!("at column 18: {at_most}, found `d`")),
        ("events(reported, 1é) > 1", format!("at column 18: {at_most}, found `1é`")),
        (
            "events(reported, 99999999999999999999d) > 1",
            format!("at column 18: {at_most}, found `99999999999999999999d`"),
        ),
        (
            "events(reported) > 1",
            "at column 16: expected a comma and a window such as 24h, found `)`".to_owned(),
        ),
        (
            "events(, 1h) > 1",
            "at column 8: expected the name of an event, or * for any, found `,`".to_owned(),
        ),
        (
            "events('', 1h) > 1",
            "at column 8: expected the name of an event, or * for any, found `''`".to_owned(),
        ),
        (
            "events(a b, 1h) > 1",
            "at column 10: expected a comma and a window such as 24h, found `b`".to_owned(),
        ),
        ("events(a, 1h, 2h) > 1", "at column 13: expected a closing parenthesis, found `,`".to_owned()),
        ("events(a, 1h) > few", "at column 17: a number of events is a whole number, not `few`".to_owned()),
        ("events(a, 1h) > 1.5", "at column 17: a number of events is a whole number, not `1.5`".to_owned()),
        ("events > 3", "at column 1: unknown signal `events`".to_owned()),
        (
            "age > 31d",
            "at column 7: an age is a duration such as 30s, 15m, 24h or 7d, at most 30d, not `31d`"
                .to_owned(),
        ),
        (
            "age > 5",
            "at column 7: an age is a duration such as 30s, 15m, 24h or 7d, at most 30d, not `5`".to_owned(),
        ),
        ("type > seller", "at column 6: `type` is compared with = or !=, not >".to_owned()),
    ] {
        assert_eq!(refusal(text), message, "{text}");
    }
}
