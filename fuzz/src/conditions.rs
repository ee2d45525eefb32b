//! Conditions of rules and searches: whatever is written either parses or is refused with a column inside the text.

use model::condition::{ComparedValue, Condition, Facts, Query, SignalShape};

fn shape(key: &str) -> Option<SignalShape> {
    match key.len() % 4 {
        0 => Some(SignalShape::Noul),
        1 => Some(SignalShape::Score { levels: 3 }),
        2 => Some(SignalShape::Choice { options: vec!["a".to_owned(), "späte".to_owned()] }),
        _ => None,
    }
}

/// Runs one case.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Condition::parse(text) {
        Ok(condition) => {
            assert!(condition.keys().len() <= condition.comparisons().len());
            let printed = condition.to_string();
            assert_eq!(Condition::parse(&printed).as_ref(), Ok(&condition), "{printed}");
            if let Ok(bound) = condition.bind(shape) {
                assert!(!bound.matches(|_| None));
                bound.matches_with(|_| Some(ComparedValue::Number(0.5)), Some(&Facts::default()));
            }
        }
        Err(error) => assert!(error.column <= text.chars().count() + 1, "{error:?}"),
    }
    let (query, skipped) = Query::parse_with_skipped(text, shape);
    if let Query::Text(searched) = query {
        assert_eq!(searched, text);
    }
    for skipped in skipped {
        assert!(skipped.error.column <= text.chars().count() + 1, "{skipped}");
    }
}
