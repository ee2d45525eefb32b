//! The signals that every new tenant starts with. They can be edited, disabled and deleted like any other.
//!
//! They are short because the embedded model reads a question once for each of its options, and in a separate file
//! because the model is trained on exactly these texts.

use indexmap::IndexMap;
use model::SignalType;
use serde::Deserialize;
use serde_json::Value;

use crate::runtime::{Result, internal};

/// The definition of a signal, as in the API.
#[derive(Deserialize)]
pub(crate) struct DefaultSignal {
    #[serde(rename = "type")]
    pub(crate) kind: SignalType,
    pub(crate) instructions: Value,
    pub(crate) criteria: Value,
}

/// The three default signals by key, one of each type.
pub(crate) fn all() -> Result<IndexMap<String, DefaultSignal>> {
    serde_json::from_str(include_str!("default_signals.json")).map_err(internal)
}

#[cfg(test)]
mod tests {
    use model::Question;

    use super::*;

    #[test]
    fn each_is_valid_and_there_is_one_of_each_type() {
        let all = all().unwrap();
        let kinds: Vec<SignalType> = all.values().map(|signal| signal.kind).collect();
        assert_eq!(kinds, [SignalType::Noul, SignalType::Score, SignalType::Choice]);
        for (key, signal) in &all {
            let (instructions, criteria) = (signal.instructions.to_string(), signal.criteria.to_string());
            Question::parse(key, signal.kind, &instructions, Some(&criteria)).unwrap();
        }
    }
}
