//! The questions that every new account starts with. They are ordinary signals: edit, disable or delete them.
//!
//! They are kept short because the embedded model reads a question anew for each of its options, and in a file of their own
//! because it is trained on these very words.

use indexmap::IndexMap;
use model::SignalType;
use serde::Deserialize;
use serde_json::Value;

use crate::runtime::{Result, internal};

/// A question, as it would be put by hand.
#[derive(Deserialize)]
pub(crate) struct DefaultSignal {
    #[serde(rename = "type")]
    pub(crate) kind: SignalType,
    pub(crate) instructions: Value,
    pub(crate) criteria: Value,
}

/// The three of them by key, one of each type.
pub(crate) fn all() -> Result<IndexMap<String, DefaultSignal>> {
    serde_json::from_str(include_str!("default_signals.json")).map_err(internal)
}

#[cfg(test)]
mod tests {
    use model::Question;

    use super::*;

    #[test]
    fn each_is_a_question_and_no_two_are_of_one_type() {
        let all = all().unwrap();
        let kinds: Vec<SignalType> = all.values().map(|signal| signal.kind).collect();
        assert_eq!(kinds, [SignalType::Noul, SignalType::Score, SignalType::Choice]);
        for (key, signal) in &all {
            let (instructions, criteria) = (signal.instructions.to_string(), signal.criteria.to_string());
            Question::parse(key, signal.kind, &instructions, Some(&criteria)).unwrap();
        }
    }
}
