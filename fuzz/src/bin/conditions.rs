//! Conditions of rules and searches: whatever is written either parses or is refused with a column inside the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::condition::{Condition, Query, SignalShape};

fn shape(key: &str) -> Option<SignalShape> {
    match key.len() % 4 {
        0 => Some(SignalShape::Noul),
        1 => Some(SignalShape::Score { levels: 3 }),
        2 => Some(SignalShape::Choice { options: vec!["a".to_owned(), "späte".to_owned()] }),
        _ => None,
    }
}

fuzz_target!(|text: &str| {
    match Condition::parse(text) {
        Ok(condition) => {
            assert!(condition.keys().len() <= condition.comparisons().len());
            if let Ok(bound) = condition.bind(shape) {
                bound.matches(|_| None);
            }
        }
        Err(error) => assert!(error.column <= text.chars().count() + 1, "{error:?}"),
    }
    if let Query::Text(searched) = Query::parse(text, shape) {
        assert_eq!(searched, text);
    }
});
