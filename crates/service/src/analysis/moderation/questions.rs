//! The built-in questions: one for each category and attribute that other moderation services know.

use std::sync::OnceLock;

use indexmap::IndexMap;
use model::{Question, SignalType};
use serde::Deserialize;
use serde_json::Value;

use crate::runtime::{Result, internal};

/// Attributes of this kind are the same as the ones without.
const EXPERIMENTAL: &str = "_EXPERIMENTAL";

/// A question by the name that the other service gives it.
pub(super) struct BuiltInQuestion {
    /// The name, such as `harassment/threatening` or `TOXICITY`.
    pub(super) name: String,
    /// Its key is that of the signal which overrides it: the name in lower case with underscores.
    pub(super) question: Question,
}

/// All built-in questions.
pub(super) struct BuiltIn {
    /// The categories of OpenAI's moderation endpoint.
    pub(super) categories: Vec<BuiltInQuestion>,
    /// The attributes of the Perspective API.
    attributes: Vec<BuiltInQuestion>,
}

#[derive(Deserialize)]
struct Definitions {
    categories: IndexMap<String, Definition>,
    attributes: IndexMap<String, Definition>,
}

#[derive(Deserialize)]
struct Definition {
    instructions: Value,
    criteria: Value,
}

impl BuiltIn {
    /// The questions, parsed once.
    pub(super) fn get() -> Result<&'static Self> {
        static PARSED: OnceLock<BuiltIn> = OnceLock::new();
        if let Some(parsed) = PARSED.get() {
            return Ok(parsed);
        }
        let parsed = Self::parse()?;
        Ok(PARSED.get_or_init(|| parsed))
    }

    fn parse() -> Result<Self> {
        let definitions: Definitions =
            serde_json::from_str(include_str!("questions.json")).map_err(internal)?;
        let all = |definitions: IndexMap<String, Definition>| {
            definitions.into_iter().map(built_in).collect::<Result<Vec<_>>>()
        };
        Ok(Self { categories: all(definitions.categories)?, attributes: all(definitions.attributes)? })
    }

    /// The question of an attribute; experimental versions of an attribute ask the same.
    pub(super) fn attribute(&self, name: &str) -> Option<&BuiltInQuestion> {
        let find = |name: &str| self.attributes.iter().find(|attribute| attribute.name == name);
        find(name).or_else(|| find(name.strip_suffix(EXPERIMENTAL)?))
    }

    /// The names of the attributes.
    pub(super) fn attribute_names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|attribute| attribute.name.as_str())
    }
}

fn built_in((name, definition): (String, Definition)) -> Result<BuiltInQuestion> {
    let (instructions, criteria) = (definition.instructions.to_string(), definition.criteria.to_string());
    let question = Question::parse(&key(&name), SignalType::Noul, &instructions, Some(&criteria));
    Ok(BuiltInQuestion { question: question.map_err(internal)?, name })
}

/// The key of the signal that overrides a category or an attribute.
fn key(name: &str) -> String {
    name.to_lowercase().replace(['/', '-'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_valid_and_can_be_overridden_by_a_signal() {
        let all = BuiltIn::get().unwrap();
        assert_eq!(all.categories.len(), 13);
        for BuiltInQuestion { name, question } in all.categories.iter().chain(&all.attributes) {
            assert!(model::condition::is_key(&question.key), "{name}: {}", question.key);
        }
        assert_eq!(all.categories[1].question.key, "harassment_threatening");
    }

    #[test]
    fn experimental_versions_ask_the_same() {
        let all = BuiltIn::get().unwrap();
        let plain = all.attribute("TOXICITY").unwrap();
        assert_eq!(all.attribute("TOXICITY_EXPERIMENTAL").unwrap().question, plain.question);
        assert_eq!(all.attribute("REASONING_EXPERIMENTAL").unwrap().name, "REASONING_EXPERIMENTAL");
        assert!(all.attribute("toxicity").is_none());
    }
}
