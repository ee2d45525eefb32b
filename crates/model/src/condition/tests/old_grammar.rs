//! Conditions from before there were `or`, `not`, parentheses and facts mean what they meant. The grammar of then is written
//! down here once more, as plainly as possible.

use proptest::prelude::*;

use super::*;

/// The comparisons of a condition by the grammar of then: key, operator and value of each, all of which had to hold.
fn old_comparisons(text: &str) -> Option<Vec<(String, Operator, String)>> {
    let mut rest = text;
    let mut comparisons = Vec::new();
    loop {
        let (key, after) = old_word(rest.trim_start())?;
        if !is_key(&key) {
            return None;
        }
        let after = after.trim_start();
        let (symbol, operator) = OLD_OPERATORS.into_iter().find(|(symbol, _)| after.starts_with(symbol))?;
        let after = after[symbol.len()..].trim_start();
        let (value, after) = match after.chars().next()? {
            quote @ ('\'' | '"') => old_quoted(&after[1..], quote)?,
            _ => old_word(after).filter(|(word, _)| !is_reserved(word))?,
        };
        comparisons.push((key, operator, value));
        let after = after.trim_start();
        if after.is_empty() {
            return Some(comparisons);
        }
        rest = match (after.strip_prefix(','), old_word(after)) {
            (Some(after), _) => after,
            (None, Some((word, after))) if word.eq_ignore_ascii_case("and") => after,
            _ => return None,
        };
    }
}

const OLD_OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">", Operator::Above),
    ("<", Operator::Below),
    ("=", Operator::Equal),
];

/// A word, and what follows it.
fn old_word(text: &str) -> Option<(String, &str)> {
    let ends = |at: usize, letter: char| {
        letter.is_whitespace()
            || letter == ','
            || OLD_OPERATORS.iter().any(|(symbol, _)| text[at..].starts_with(symbol))
    };
    let length = text.char_indices().find(|(at, letter)| ends(*at, *letter)).map_or(text.len(), |(at, _)| at);
    (length > 0 && !text.starts_with(['\'', '"'])).then(|| (text[..length].to_owned(), &text[length..]))
}

/// A quoted value after its opening quote, and what follows it.
fn old_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        value.push_str(before);
        match after.strip_prefix(quote) {
            Some(doubled) => {
                value.push(quote);
                rest = doubled;
            }
            None => return Some((value, after)),
        }
    }
}

/// Texts of the old grammar, with all that its words may contain, and some that are nearly of it.
fn old_text() -> impl Strategy<Value = String> {
    let key = prop_oneof!["[a-z_]{1,6}", "is_scammer|quality|category|age|type|events|a1"];
    let operator = prop::sample::select(vec![">", ">=", "<", "<=", "=", "==", "!="]);
    let value = prop_oneof![
        "[a-z0-9().!'*]{1,6}",
        "'([a-z ()\",]|'')*'",
        "\"([a-z ()',]|\"\")*\"",
        "[0-9]{1,3}",
        "\\(?x\\)?",
        "and|or|not",
    ];
    let joiner = prop::sample::select(vec![" and ", ",", " , ", " AND ", " or "]);
    let space = prop::sample::select(vec!["", " ", "\n "]);
    let comparison = (key, space.clone(), operator, space, value);
    prop::collection::vec((comparison, joiner), 1..5).prop_map(|parts| {
        let mut text = String::new();
        for (index, ((key, before, operator, after, value), joiner)) in parts.iter().enumerate() {
            let joiner = if index == 0 { "" } else { joiner };
            text = format!("{text}{joiner}{key}{before}{operator}{after}{value}");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn old_conditions_mean_what_they_meant(text in prop_oneof![4 => old_text(), 1 => nearly_a_condition()]) {
        if let Some(old) = old_comparisons(&text) {
            let new = Condition::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let is_flat = match &new.root {
                Node::Comparison(_) => true,
                Node::All(parts) => parts.iter().all(|part| matches!(part, Node::Comparison(_))),
                Node::Any(_) | Node::Not(_) => false,
            };
            prop_assert!(is_flat, "{}", text);
            let new: Vec<_> = new
                .comparisons()
                .into_iter()
                .map(|comparison| (comparison.subject.to_string(), comparison.operator, comparison.value.clone()))
                .collect();
            prop_assert_eq!(new, old, "{}", text);
        }
    }
}

#[test]
fn the_old_grammar_is_exercised() {
    for text in ["a>1", "category=car , quality >= 2 AND spam != '9''(', type = x(y)", "a = (x", "a = b)"] {
        assert!(old_comparisons(text).is_some(), "{text}");
    }
    for text in ["", "a > 1 or b > 2", "(a > 1)", "not a > 1", "a > 1 b", "a = and"] {
        assert!(old_comparisons(text).is_none(), "{text}");
    }
}
