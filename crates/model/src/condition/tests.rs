mod facts;
mod logic;
mod old_grammar;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{Question, SignalType};

/// The signals that the examples are about.
fn signals(key: &str) -> Option<SignalShape> {
    match key {
        "is_scammer" | "spam" => Some(SignalShape::Noul),
        "quality" => Some(SignalShape::Score { levels: 5 }),
        "category" => {
            let options = ["car", "real estate", "driver's \"permit\"", "and", "5"];
            Some(SignalShape::Choice { options: options.map(str::to_owned).to_vec() })
        }
        _ => None,
    }
}

fn bound(text: &str) -> BoundCondition {
    let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    condition.bind(signals).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str) -> String {
    Condition::parse(text).and_then(|condition| condition.bind(signals)).unwrap_err().to_string()
}

/// Whether an object with this answer to every signal matches.
fn accepts(text: &str, answer: ComparedValue<'_>) -> bool {
    bound(text).matches(|_| Some(answer))
}

#[test]
fn numbers_compare_as_specified() {
    // A condition, answers that it accepts, and answers that it does not.
    let examples: &[(&str, &[f64], &[f64])] = &[
        ("is_scammer > 0.9", &[0.900_001, 1.0], &[0.9, 0.0]),
        ("is_scammer >= 90", &[0.9, 1.0], &[0.899_999]),
        ("is_scammer < 90", &[0.0, 0.899_999], &[0.9]),
        ("is_scammer <= .9", &[0.0, 0.9], &[0.900_001]),
        ("is_scammer = 90", &[0.895, 0.9, 0.904_999], &[0.894_999, 0.905]),
        ("is_scammer = 0.9", &[0.895, 0.904_999], &[0.894_999, 0.905]),
        ("is_scammer == 91", &[0.905], &[0.904_999]),
        ("is_scammer != 90", &[0.894_999, 0.905, 0.0, 1.0], &[0.895, 0.904_999]),
        // Not a whole percent: rounded as the answers are.
        ("is_scammer = 90.5", &[0.905, 0.91], &[0.904_999]),
        ("is_scammer = 90.49999999", &[0.9], &[0.905]),
        // 1 is certainty, more than 1 is a percentage.
        ("is_scammer = 1", &[0.995, 1.0], &[0.994_999, 0.01]),
        ("is_scammer = 1.0", &[1.0], &[0.01]),
        ("is_scammer > 1.0000001", &[0.010_001], &[0.01]),
        ("is_scammer >= 1.5", &[0.015], &[0.014_999]),
        ("is_scammer = 100", &[0.995, 1.0], &[0.994_999]),
        ("is_scammer = 0", &[0.0, 0.004_999], &[0.005]),
        ("is_scammer < 0", &[], &[0.0, 1.0]),
        ("is_scammer >= 0", &[0.0, 1.0], &[]),
        // Between two millionths.
        ("is_scammer > 0.1234565", &[0.123_457], &[0.123_456]),
        ("is_scammer >= 0.1234565", &[0.123_457], &[0.123_456]),
        ("is_scammer < 0.1234565", &[0.123_456], &[0.123_457]),
        ("is_scammer <= 0.1234565", &[0.123_456], &[0.123_457]),
        ("quality > 2", &[2.000_001, 4.0], &[2.0]),
        ("quality >= 2.5", &[2.5], &[2.499_999]),
        ("quality = 2", &[1.5, 2.0, 2.499_999], &[1.499_999, 2.5]),
        ("quality = 2.0", &[1.5], &[2.5]),
        ("quality = 0", &[0.0, 0.499_999], &[0.5]),
        ("quality = 4", &[3.5, 4.0], &[3.499_999]),
        ("quality != 2", &[1.499_999, 2.5], &[1.5, 2.499_999]),
        ("quality = 2.25", &[2.25], &[2.249_999, 2.250_001, 2.0]),
        ("quality != 2.25", &[2.249_999, 2.250_001], &[2.25]),
        // No answer has seven decimals.
        ("quality = 2.2500001", &[], &[2.25, 2.250_001]),
        ("quality != 2.2500001", &[2.25, 2.250_001], &[]),
        ("quality > '2'", &[2.5], &[2.0]),
        // Numbers out of range are compared like any other.
        ("is_scammer < 101", &[0.0, 1.0], &[]),
        ("is_scammer <= 100.0000001", &[0.0, 1.0], &[]),
        ("is_scammer > 101", &[], &[0.0, 1.0]),
        ("is_scammer = 150", &[], &[0.0, 1.0]),
        ("is_scammer != 99999999999", &[0.0, 1.0], &[]),
        ("is_scammer > -1", &[0.0, 1.0], &[]),
        ("is_scammer >= -0.5", &[0.0, 1.0], &[]),
        ("is_scammer != -90", &[0.0, 0.9], &[]),
        ("is_scammer < -90", &[], &[0.0, 1.0]),
        ("is_scammer <= -0.0000001", &[], &[0.0]),
        ("is_scammer = -0", &[0.0, 0.004], &[0.005]),
        ("quality < 5", &[0.0, 4.0], &[]),
        ("quality > 4.5", &[], &[0.0, 4.0]),
        ("quality = 7", &[], &[0.0, 4.0]),
        ("quality != 99999999999", &[0.0, 4.0], &[]),
        ("quality > -1", &[0.0, 4.0], &[]),
        ("quality = -1", &[], &[0.0, 4.0]),
    ];
    for (text, accepted, refused) in examples {
        for value in *accepted {
            assert!(accepts(text, ComparedValue::Number(*value)), "{text} accepts {value}");
        }
        for value in *refused {
            assert!(!accepts(text, ComparedValue::Number(*value)), "{text} does not accept {value}");
        }
    }
}

#[test]
fn options_compare_exactly() {
    assert!(accepts("category = car", ComparedValue::Choice("car")));
    assert!(!accepts("category = car", ComparedValue::Choice("Car")));
    assert!(!accepts("category != car", ComparedValue::Choice("car")));
    assert!(accepts("category != car", ComparedValue::Choice("no longer an option")));
    assert!(accepts("category = 'real estate'", ComparedValue::Choice("real estate")));
    assert!(accepts("category = \"driver's \"\"permit\"\"\"", ComparedValue::Choice("driver's \"permit\"")));
    assert!(accepts("category='driver''s \"permit\"'", ComparedValue::Choice("driver's \"permit\"")));
    assert!(accepts("category = 'and'", ComparedValue::Choice("and")));
    assert!(accepts("category = 5", ComparedValue::Choice("5")));
    assert!(!accepts("category = 5", ComparedValue::Number(5.0)), "an answer of another type");
    assert!(!accepts("quality != 2", ComparedValue::Choice("car")), "an answer of another type");
}

#[test]
fn all_comparisons_must_hold_and_a_missing_answer_matches_none() {
    let both = bound("is_scammer>90 AND category=car");
    let object = |scammer: Option<f64>, category: Option<&'static str>| {
        both.matches(|key| match key {
            "is_scammer" => scammer.map(ComparedValue::Number),
            _ => category.map(ComparedValue::Choice),
        })
    };
    assert!(object(Some(0.95), Some("car")));
    assert!(!object(Some(0.95), Some("5")));
    assert!(!object(Some(0.5), Some("car")));
    assert!(!object(Some(0.95), None));
    for text in ["is_scammer != 3", "is_scammer >= 0", "category != car"] {
        assert!(!bound(text).matches(|_| None), "{text}");
    }
}

#[test]
fn ranges_of_one_signal_are_one_range() {
    let between = bound("spam > 50, quality < 3 and spam <= 0.6, spam != 55");
    assert_eq!(between.comparisons().len(), 3, "two bounds are one comparison");
    for (value, accepted) in [(0.5, false), (0.500_001, true), (0.55, false), (0.6, true), (0.600_001, false)]
    {
        assert_eq!(between.matches(|_| Some(ComparedValue::Number(value))), accepted, "{value}");
    }
    for text in ["spam > 60, spam < 50", "spam > 60, spam <= 60", "spam > 1, spam >= 0"] {
        let nothing = bound(text);
        assert_eq!(nothing.comparisons().len(), 1);
        for value in [0.0, 0.5, 0.55, 0.6, 1.0] {
            assert!(!nothing.matches(|_| Some(ComparedValue::Number(value))), "{text} {value}");
        }
    }
}

#[test]
fn a_condition_has_one_canonical_text() {
    for (text, printed) in [
        ("is_scammer>90", "is_scammer > 90"),
        ("  is_scammer\t>=\n0.90 ,spam==1", "is_scammer >= 0.90 and spam = 1"),
        ("a<1 aNd b<='2' AND c!=\"3\"", "a < 1 and b <= 2 and c != 3"),
        ("a = 'two words'", "a = \"two words\""),
        ("a = it's", "a = it's"),
        ("a = '\"quoted\"'", "a = \"\"\"quoted\"\"\""),
        ("a = ''", "a = \"\""),
        ("a = 'Or'", "a = \"Or\""),
        ("a = 'x,y'", "a = \"x,y\""),
        ("a = wow!", "a = wow!"),
        ("a = 'x!=y'", "a = \"x!=y\""),
        ("a!=!", "a != !"),
        ("a = x(y)", "a = \"x(y)\""),
        ("A = 1 OR (b = 2) oR c = 3, d = 4", "A = 1 or b = 2 or c = 3 and d = 4"),
        ("(a = 1 or b = 2), c = 3", "(a = 1 or b = 2) and c = 3"),
        ("a = 1 and (b = 2 and (c = 3))", "a = 1 and b = 2 and c = 3"),
        ("not a = 1 or NOT(NOT(b = 2 , c = 3))", "not a = 1 or not not (b = 2 and c = 3)"),
        ("events( reported ,24h )>=3", "events(reported, 1d) >= 3"),
        ("events('*', 90s) = 0, events(*, 90m) = 1", "events(\"*\", 90s) = 0 and events(*, 90m) = 1"),
        ("events(\"a, b\", 7d) > 1", "events(\"a, b\", 7d) > 1"),
        ("a = and", "a = \"and\""),
    ] {
        assert_eq!(Condition::parse(text).unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn keys_are_named_once_in_order() {
    let text = "spam > 1, quality = 2 and spam < 90";
    assert_eq!(Condition::parse(text).unwrap().keys(), ["spam", "quality"]);
    assert_eq!(bound(text).keys(), ["spam", "quality"]);
}

#[test]
fn a_key_is_letters_digits_and_underscores() {
    let long = "k".repeat(64);
    for key in ["a", "is_scammer", "A1_", "2fa_risk", "1a", "_a", "android", "nothing", &long] {
        assert!(is_key(key), "{key}");
    }
    for key in ["", "1", "_", "1_000", "a-b", "a b", "é", "and", "Or", "NOT", &"k".repeat(65)] {
        assert!(!is_key(key), "{key}");
    }
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    let signal_key = "cannot be the key of a signal: 1 to 64 letters, digits and underscores, at least one of them a letter";
    let operators = "an operator (>, >=, <, <=, = or !=)";
    let end_of_value = "`and`, `or` or a comma (a value of several words needs quotes)";
    let probability = "is a probability: from 0 to 1, or in percent without the sign, such as 0.7 or 70";
    for (text, message) in [
        ("", "at column 1: expected the key of a signal, but the text ends here".to_owned()),
        ("  ", "at column 3: expected the key of a signal, but the text ends here".to_owned()),
        ("spam > 1,", "at column 10: expected the key of a signal, but the text ends here".to_owned()),
        ("spam > 1,,spam < 2", "at column 10: expected the key of a signal, found `,`".to_owned()),
        ("spam > 1 and and", "at column 14: expected the key of a signal, found `and`".to_owned()),
        ("'spam' > 1", "at column 1: expected the key of a signal, found `'spam'`".to_owned()),
        ("> 1", "at column 1: expected the key of a signal, found `>`".to_owned()),
        ("spåm > 1", format!("at column 1: `spåm` {signal_key}")),
        ("not", "at column 4: expected the key of a signal, but the text ends here".to_owned()),
        ("spam > 1 OR", "at column 12: expected the key of a signal, but the text ends here".to_owned()),
        ("spam > 1 or or", "at column 13: expected the key of a signal, found `or`".to_owned()),
        ("(spam > 1", "at column 1: this parenthesis is never closed".to_owned()),
        ("spam > 1 and ()", "at column 15: expected the key of a signal, found `)`".to_owned()),
        ("(spam > 1) )", format!("at column 12: expected {end_of_value}, found `)`")),
        ("(spam > 1) spam < 2", format!("at column 12: expected {end_of_value}, found `spam`")),
        ("spam", format!("at column 5: expected {operators}, but the text ends here")),
        ("is scammer > 1", format!("at column 4: expected {operators}, found `scammer`")),
        ("spam ! 1", format!("at column 6: expected {operators}, found `!`")),
        ("spam >", "at column 7: expected a value, but the text ends here".to_owned()),
        ("spam => 1", "at column 7: expected a value, found `>`".to_owned()),
        ("spam > and quality > 1", "at column 8: expected a value, found `and`".to_owned()),
        ("spam > 'é' , category = 'car", "at column 25: this quote is never closed".to_owned()),
        ("category = real estate", format!("at column 17: expected {end_of_value}, found `estate`")),
        ("category = 'car'5", format!("at column 17: expected {end_of_value}, found `5`")),
        ("spam > 1 and is_scamer > 90", "at column 14: unknown signal `is_scamer`".to_owned()),
        ("spam > high", format!("at column 8: `spam` {probability}, not `high`")),
        ("spam > --1", format!("at column 8: `spam` {probability}, not `--1`")),
        ("spam > -", format!("at column 8: `spam` {probability}, not `-`")),
        ("spam > 1e2", format!("at column 8: `spam` {probability}, not `1e2`")),
        ("spam > 90%", format!("at column 8: `spam` {probability}, not `90%`")),
        ("spam > .", format!("at column 8: `spam` {probability}, not `.`")),
        ("spam > ''", format!("at column 8: `spam` {probability}, not ``")),
        ("quality = best", "at column 11: `quality` is a position: a number from 0 to 4, not `best`".to_owned()),
        (
            "category >= car",
            "at column 10: `category` is a choice: it is compared with = or !=, not >=".to_owned(),
        ),
        (
            "category = Car",
            "at column 12: `category` is a choice of `car`, `real estate`, `driver's \"permit\"`, `and`, `5`, not `Car`"
                .to_owned(),
        ),
    ] {
        assert_eq!(refusal(text), message, "{text}");
    }
}

#[test]
fn an_error_quotes_only_the_start_of_a_long_text() {
    let long = "é".repeat(100_000);
    let message = refusal(&format!("spam > {long}"));
    assert!(message.ends_with(&format!("not `{}…`", "é".repeat(64))), "{}", message.len());
}

#[test]
fn the_number_of_comparisons_is_limited() {
    let most = vec!["spam!= 1"; MAX_COMPARISONS].join(",");
    assert!(Condition::parse(&most).is_ok());
    let beyond = format!("{most},spam!= 1");
    assert_eq!(refusal(&beyond), "at column 451: a condition has at most 50 comparisons");
    let (Query::Signals(condition), skipped) = Query::parse_with_skipped(&beyond, signals) else {
        panic!("a signal query")
    };
    assert_eq!(condition.comparisons().len(), MAX_COMPARISONS);
    assert_eq!(skipped.len(), 1);
}

#[test]
fn a_query_skips_what_it_cannot_parse() {
    // The input and the resulting condition; `None` if the whole text is searched for.
    for (typed, understood) in [
        ("is_scammer > 90", Some("is_scammer > 90")),
        ("is_scammer > 90, nonsense", Some("is_scammer > 90")),
        ("nonsense and is_scammer > 90", Some("is_scammer > 90")),
        ("is_scamer > 90, category = car", Some("category = car")),
        ("is_scammer > 90 or spam > 3, quality < 2", Some("is_scammer > 90 or (spam > 3 and quality < 2)")),
        ("is_scammer > 90 or nonsense", Some("is_scammer > 90")),
        ("not (nonsense, is_scammer > 90)", Some("not is_scammer > 90")),
        ("not nonsense, is_scammer > 90", Some("is_scammer > 90")),
        ("(is_scammer > 90 or spam > 3", Some("is_scammer > 90 or spam > 3")),
        ("(nonsense) or quality < 2", Some("quality < 2")),
        ("foo (bar, quality < 2", Some("quality < 2")),
        ("events(reported, 1h) > 3, quality < 2", Some("quality < 2")),
        ("age > 3d and type = user or quality < 2", Some("quality < 2")),
        ("category = and, quality < 2", Some("category = 'and', quality < 2")),
        ("is_scammer > high, quality < 2", Some("quality < 2")),
        ("is_scammer > 900, quality < 2", Some("is_scammer > 900 and quality < 2")),
        ("category > car, quality < 2", Some("quality < 2")),
        ("don't and quality < 2", Some("quality < 2")),
        ("' and quality < 2", Some("quality < 2")),
        ("quality < 2,,", Some("quality < 2")),
        ("", None),
        ("and", None),
        ("is_scammer", None),
        ("is_scammer >", None),
        ("is_scamer > 90", None),
        ("https://shop.example/?id=5", None),
        ("Ann, Bob and Carol", None),
        ("category > car", None),
    ] {
        let expected = understood.map_or(Query::Text(typed.to_owned()), |text| Query::Signals(bound(text)));
        assert_eq!(Query::parse(typed, signals), expected, "{typed}");
    }
}

#[test]
fn a_query_may_name_values_that_a_signal_no_longer_has() {
    for (typed, accepted, refused) in [
        ("category = bike", ComparedValue::Choice("bike"), ComparedValue::Choice("car")),
        ("category != bike", ComparedValue::Choice("car"), ComparedValue::Choice("bike")),
        ("quality > 6", ComparedValue::Number(7.0), ComparedValue::Number(4.0)),
        ("quality < 99999999999999999999", ComparedValue::Number(4.0), ComparedValue::Choice("car")),
        ("quality <= 4294.967295", ComparedValue::Number(4.0), ComparedValue::Choice("car")),
    ] {
        let Query::Signals(condition) = Query::parse(typed, signals) else { panic!("{typed}") };
        assert!(condition.matches(|_| Some(accepted)), "{typed}");
        assert!(!condition.matches(|_| Some(refused)), "{typed}");
    }
    for typed in ["quality > 4294.967295", "quality >= 5000", "quality = 5000"] {
        let Query::Signals(condition) = Query::parse(typed, signals) else { panic!("{typed}") };
        assert!(!condition.matches(|_| Some(ComparedValue::Number(25.0))), "{typed}");
    }
}

#[test]
fn a_shape_follows_from_the_question() {
    let shape = |kind, criteria| SignalShape::from(&Question::parse("key", kind, "\"?\"", criteria).unwrap());
    assert_eq!(shape(SignalType::Noul, None), SignalShape::Noul);
    assert_eq!(shape(SignalType::Score, Some(r#"["low", "high"]"#)), SignalShape::Score { levels: 2 });
    let options = vec!["b".to_owned(), "a".to_owned()];
    assert_eq!(shape(SignalType::Choice, Some(r#"{"b": null, "a": null}"#)), SignalShape::Choice { options });
}

fn any_operator() -> impl Strategy<Value = Operator> {
    use Operator::{Above, AtLeast, AtMost, Below, Equal, NotEqual};
    prop::sample::select(vec![Above, AtLeast, Below, AtMost, Equal, NotEqual])
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let key = "[a-zA-Z0-9_]{1,64}".prop_filter("reserved", |key| is_key(key));
    let value =
        prop_oneof![".{0,20}", "[a-z'\"!=<>, ()]{0,8}", "(?i:and|or|not)", "[0-9]{1,3}(\\.[0-9]{0,8})?"];
    let window = (proptest::option::of("[a-z'\"!=<>, ()*]{1,8}"), 1..=MAX_WINDOW.as_secs());
    let subject = prop_oneof![
        3 => key.prop_map(Subject::Key),
        1 => window.prop_map(|(name, seconds)| {
            Subject::Events(EventWindow { name, window: std::time::Duration::from_secs(seconds) })
        }),
    ];
    let comparison = (subject, any_operator(), value).prop_map(|(subject, operator, value)| {
        let columns = Columns { subject: 0, operator: 0, value: 0 };
        Node::Comparison(Comparison { subject, operator, value, columns })
    });
    let node = comparison.prop_recursive(4, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Node::Not(Box::new(inner))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| Node::all_of(parts).unwrap()),
            prop::collection::vec(inner, 1..4).prop_map(|parts| Node::any_of(parts).unwrap()),
        ]
    });
    node.prop_map(|root| Condition { root })
}

/// The tokens of the language in any order.
fn nearly_a_condition() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(vec!["is_scammer", "quality", "category", "and", "AND", ",", " ", "'", "\""]),
        prop::sample::select(vec![">", ">=", "<", "<=", "=", "==", "!=", "!", "car", "0.9", "90", "é", "or"]),
        prop::sample::select(vec![
            "(", ")", "not ", " or ", "events(", "24h", "*", "age", "type", " and ", "9(x)"
        ]),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Answers and numbers in tenths of a billionth, where every comparison is one of integers.
fn holds(operator: Operator, answer: u64, number: u64, rounded: impl Fn(u64) -> u64) -> bool {
    match operator {
        Operator::Above => answer > number,
        Operator::AtLeast => answer >= number,
        Operator::Below => answer < number,
        Operator::AtMost => answer <= number,
        Operator::Equal => rounded(answer) == rounded(number),
        Operator::NotEqual => rounded(answer) != rounded(number),
    }
}

/// Hundred-millionths near where answers and comparisons change sides: whole and half percents, whole and half levels.
fn near_an_edge(most: u64) -> impl Strategy<Value = u64> {
    let edge = prop::sample::select(vec![500_000_u64, 50_000_000]);
    let near = (edge, 0_u64..=220, -150_i64..=150)
        .prop_map(|(edge, multiple, distance)| (edge * multiple).saturating_add_signed(distance));
    prop_oneof![near, 0..=most].prop_map(move |number| number.min(most))
}

fn written(hundred_millionths: u64) -> String {
    format!("{}.{:08}", hundred_millionths / 100_000_000, hundred_millionths % 100_000_000)
}

fn answer_of(hundred_millionths: u64) -> (u64, ComparedValue<'static>) {
    let millionths = hundred_millionths / 100;
    let value = f64::from(u32::try_from(millionths).unwrap()) / 1e6;
    (millionths * 10_000, ComparedValue::Number(value))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_and_parsing_round_trips(condition in any_condition()) {
        let printed = condition.to_string();
        prop_assert_eq!(Condition::parse(&printed), Ok(condition), "{}", printed);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in prop_oneof!["(?s).{0,300}", nearly_a_condition()]) {
        let query = Query::parse(&text, signals);
        if let Ok(condition) = Condition::parse(&text) {
            prop_assert_eq!(&Condition::parse(&condition.to_string()).unwrap(), &condition);
            if let Ok(strict) = condition.bind(signals) && strict.facts().is_empty() {
                prop_assert_eq!(query, Query::Signals(strict), "a valid condition means the same in a query");
            }
        }
    }

    #[test]
    fn a_probability_compares_as_the_decimals_do(
        operator in any_operator(),
        answer in near_an_edge(100_000_000),
        number in near_an_edge(10_000_000_000),
    ) {
        let text = format!("is_scammer {operator} {}", written(number));
        let (answer, value) = answer_of(answer);
        let number = if number > 100_000_000 { number } else { number * 100 };
        let percents = |number: u64| (number + 50_000_000) / 100_000_000;
        prop_assert_eq!(accepts(&text, value), holds(operator, answer, number, percents), "{} {:?}", text, value);
    }

    #[test]
    fn a_position_compares_as_the_decimals_do(
        operator in any_operator(),
        answer in near_an_edge(400_000_000),
        number in near_an_edge(400_000_000),
    ) {
        let text = format!("quality {operator} {}", written(number));
        let (answer, value) = answer_of(answer);
        let is_level = number.is_multiple_of(100_000_000);
        let rounded = |number: u64| if is_level { (number + 5_000_000_000) / 10_000_000_000 } else { number };
        prop_assert_eq!(accepts(&text, value), holds(operator, answer, number * 100, rounded), "{} {:?}", text, value);
    }
}
