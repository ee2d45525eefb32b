//! `and`, `or`, `not` and parentheses, by Kleene's logic.

use proptest::prelude::*;

use super::*;

/// What a condition is worth by Kleene's logic: none is unknown.
fn kleene(node: &Node, answers: &HashMap<&str, ComparedValue<'static>>) -> Option<bool> {
    match node {
        Node::Comparison(comparison) => {
            let alone = Condition { root: node.clone() }.bind(signals).unwrap();
            let answer = *answers.get(comparison.key()?)?;
            Some(alone.matches(|_| Some(answer)))
        }
        Node::Not(inner) => kleene(inner, answers).map(|value| !value),
        Node::All(parts) => {
            let values: Vec<_> = parts.iter().map(|part| kleene(part, answers)).collect();
            match values {
                values if values.contains(&Some(false)) => Some(false),
                values if values.contains(&None) => None,
                _ => Some(true),
            }
        }
        Node::Any(parts) => {
            let values: Vec<_> = parts.iter().map(|part| kleene(part, answers)).collect();
            match values {
                values if values.contains(&Some(true)) => Some(true),
                values if values.contains(&None) => None,
                _ => Some(false),
            }
        }
    }
}

fn any_tree() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec![">", ">=", "<", "<=", "=", "!="]);
    let comparison = prop_oneof![
        (operator.clone(), 0_u32..=100).prop_map(|(operator, value)| format!("spam {operator} {value}")),
        (operator.clone(), 0_u32..=100)
            .prop_map(|(operator, value)| format!("is_scammer {operator} {value}")),
        (operator, -1_i32..6).prop_map(|(operator, value)| format!("quality {operator} {value}")),
        prop::sample::select(vec![
            "category = car",
            "category != car",
            "category = 5",
            "category != 'real estate'"
        ])
        .prop_map(str::to_owned),
    ];
    comparison.prop_recursive(6, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("({})", parts.join(" and "))),
            prop::collection::vec(inner, 1..4).prop_map(|parts| format!("({})", parts.join(" or "))),
        ]
    })
}

fn any_answers() -> impl Strategy<Value = HashMap<&'static str, ComparedValue<'static>>> {
    let number =
        |most: f64| proptest::option::of((0_u32..=100).prop_map(move |part| f64::from(part) / 100.0 * most));
    let category = proptest::option::of(prop::sample::select(vec!["car", "5", "real estate"]));
    (number(1.0), number(1.0), number(4.0), category).prop_map(|(spam, scammer, quality, category)| {
        let numbers = [("spam", spam), ("is_scammer", scammer), ("quality", quality)];
        let numbers =
            numbers.into_iter().filter_map(|(key, value)| Some((key, ComparedValue::Number(value?))));
        numbers.chain(category.map(|option| ("category", ComparedValue::Choice(option)))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_matches_where_the_condition_is_true(text in any_tree(), answers in any_answers()) {
        let condition = Condition::parse(&text).unwrap();
        if condition.comparisons().len() <= MAX_COMPARISONS {
            let matches = condition.bind(signals).unwrap().matches(|key| answers.get(key).copied());
            prop_assert_eq!(matches, kleene(&condition.root, &answers) == Some(true), "{} {:?}", text, answers);
        }
    }

    #[test]
    fn a_condition_and_its_negation_never_both_match(text in any_tree(), answers in any_answers()) {
        let matches = |text: &str| bound(text).matches(|key| answers.get(key).copied());
        let (yes, no) = (matches(&text), matches(&format!("not ({text})")));
        prop_assert!(!(yes && no), "{}", text);
        if answers.len() == 4 {
            prop_assert!(yes || no, "with every answer one of them is true: {}", text);
        }
    }
}

#[test]
fn and_binds_stronger_than_or_and_a_comma_is_and() {
    let object = |spam: f64, quality: f64, scammer: f64| {
        move |key: &str| {
            Some(ComparedValue::Number(match key {
                "spam" => spam,
                "quality" => quality,
                _ => scammer,
            }))
        }
    };
    for text in ["spam > 50 or quality > 2 and is_scammer > 50", "spam > 50 OR quality > 2, is_scammer > 50"]
    {
        assert!(bound(text).matches(object(0.9, 0.0, 0.0)), "{text}");
        assert!(bound(text).matches(object(0.0, 3.0, 0.9)), "{text}");
        assert!(!bound(text).matches(object(0.0, 3.0, 0.0)), "{text}");
    }
    let grouped = bound("(spam > 50 or quality > 2) and is_scammer > 50");
    assert!(!grouped.matches(object(0.9, 3.0, 0.0)));
    let negated = bound("not spam > 50 and quality > 2");
    assert!(negated.matches(object(0.1, 3.0, 0.0)) && !negated.matches(object(0.1, 1.0, 0.0)));
}

#[test]
fn a_comparison_without_an_answer_is_unknown_and_so_is_its_negation() {
    let spam_only = |key: &str| (key == "spam").then_some(ComparedValue::Number(0.9));
    for (text, matches) in [
        ("quality > 2", false),
        ("not quality > 2", false),
        ("not not quality > 2", false),
        ("not (quality > 2 or spam > 95)", false),
        ("spam > 50 or not quality > 2", true),
        ("not (quality > 2 and spam > 95)", true),
        ("not (quality > 2 and spam > 50)", false),
        ("category != car or not category = car", false),
    ] {
        assert_eq!(bound(text).matches(spam_only), matches, "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}spam > 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Condition::parse(&nested(MAX_DEPTH)).is_ok());
    let message = "at column 21: parentheses and `not` are nested more than 20 deep";
    assert_eq!(refusal(&nested(MAX_DEPTH + 1)), message);
    assert!(Condition::parse(&format!("{}spam > 1", "not ".repeat(MAX_DEPTH))).is_ok());
    assert!(Condition::parse(&format!("{}spam > 1", "not ".repeat(MAX_DEPTH + 1))).is_err());
    // However long, it ends soon and without an overflow of the stack.
    for text in ["(", "not ", "not(", "spam > 1 or (", "events(", ")", "()", ",", "a = ("] {
        let long = text.repeat(10_000);
        assert!(Condition::parse(&long).is_err());
        let (_, skipped) = Query::parse_with_skipped(&format!("{long} spam > 1"), signals);
        assert!(skipped.len() <= 2 * MAX_COMPARISONS);
    }
}

#[test]
fn keywords_are_values_right_after_an_operator() {
    for (text, value) in
        [("category = and", "and"), ("(category = or)", "or"), ("category = not, spam > 1", "not")]
    {
        assert_eq!(Condition::parse(text).unwrap().comparisons()[0].value, value, "{text}");
    }
    // A signal's key is a value there, too.
    let (query, skipped) = Query::parse_with_skipped("category = spam", signals);
    assert_eq!(
        (query, skipped.len()),
        (
            Query::Signals(
                Condition::parse("category = spam")
                    .unwrap()
                    .bind(|_| { Some(SignalShape::Choice { options: vec!["spam".to_owned()] }) })
                    .unwrap()
            ),
            0
        )
    );
}

#[test]
fn what_a_query_skips_is_listed_with_the_reason() {
    let skipped = |text: &str| {
        let (_, skipped) = Query::parse_with_skipped(text, signals);
        skipped.iter().map(Skipped::to_string).collect::<Vec<_>>()
    };
    assert!(skipped("spam > 1 or not (quality = 2)").is_empty());
    assert!(skipped("Ann, Bob and (Carol").is_empty(), "no comparison was meant");
    assert_eq!(
        skipped("is_scamer > 90, nonsense or spam > 3 and age > 3d"),
        [
            "skipped `is_scamer > 90`: at column 1: unknown signal `is_scamer`",
            "skipped `nonsense`: at column 26: expected an operator (>, >=, <, <=, = or !=), found `or`",
            "skipped `age > 3d`: at column 42: `age` is a fact, which only rules know",
        ]
    );
    assert_eq!(skipped("(spam > 1"), ["skipped `(spam > 1`: at column 1: this parenthesis is never closed"]);
}
