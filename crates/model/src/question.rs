//! Questions that signals ask about an object, and the candidates for their answers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The allowed number of candidates of a score or a choice: each gets a letter when a language model is asked.
const CANDIDATES: std::ops::RangeInclusive<usize> = 2..=26;
/// The longest name of an option.
const MAX_OPTION_NAME: usize = 64;
/// The largest instructions and the largest criteria, in bytes of JSON: a few pages each.
const MAX_JSON_BYTES: usize = 32 * 1024;

/// The type of a signal's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalType {
    /// The probability of yes.
    Noul,
    /// One of several options.
    Choice,
    /// A position on a labelled spectrum.
    Score,
}

crate::text_values!(SignalType { Noul = "noul", Choice = "choice", Score = "score" });

impl FromStr for SignalType {
    type Err = InvalidQuestion;

    fn from_str(text: &str) -> Result<Self, InvalidQuestion> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.as_str() == text)
            .ok_or_else(|| InvalidQuestion::new("type", "there is no such type"))
    }
}

/// A validated question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The signal's key, or the caller's id for the question.
    pub key: String,
    /// The type of answer.
    pub kind: SignalType,
    /// What to judge and how: a string, an object or an array, verbatim.
    pub instructions: Value,
    /// The criteria, verbatim.
    pub criteria: Option<Value>,
    /// The possible answers: yes and no; the levels from low to high; the options.
    pub candidates: Vec<Candidate>,
}

/// A possible answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name in answers: `yes` or `no`, the index of a level, or the name of an option.
    pub name: String,
    /// What it means, if the criteria say so: a string or any other JSON.
    pub description: Option<Value>,
}

/// Why a question is invalid, and which field is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidQuestion {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl InvalidQuestion {
    fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl fmt::Display for InvalidQuestion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for InvalidQuestion {}

impl Question {
    /// The length of its texts, in bytes.
    pub fn length(&self) -> usize {
        let candidates = self.candidates.iter().map(|candidate| {
            candidate.name.len() + candidate.description.as_ref().map_or(0, |text| text.to_string().len())
        });
        self.instructions.to_string().len() + candidates.sum::<usize>()
    }

    /// Validates a question, with instructions and criteria as JSON.
    pub fn parse(
        key: &str,
        kind: SignalType,
        instructions: &str,
        criteria: Option<&str>,
    ) -> Result<Self, InvalidQuestion> {
        let instructions = json("instructions", instructions)?;
        let is_empty = match &instructions {
            Value::String(text) => text.trim().is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => {
                return Err(InvalidQuestion::new("instructions", "it must be a text, an object or an array"));
            }
        };
        if is_empty {
            return Err(InvalidQuestion::new("instructions", "it must not be empty"));
        }
        // Some clients send null for a field that they leave out.
        let criteria =
            criteria.map(|text| json("criteria", text)).transpose()?.filter(|criteria| !criteria.is_null());
        let candidates = match kind {
            SignalType::Noul => noul(criteria.as_ref())?,
            SignalType::Score => score(criteria.as_ref())?,
            SignalType::Choice => choice(criteria.as_ref())?,
        };
        Ok(Self { key: key.to_owned(), kind, instructions, criteria, candidates })
    }
}

fn json(field: &'static str, text: &str) -> Result<Value, InvalidQuestion> {
    if text.len() > MAX_JSON_BYTES {
        return Err(InvalidQuestion::new(
            field,
            format!("it must be at most {MAX_JSON_BYTES} bytes of JSON"),
        ));
    }
    serde_json::from_str(text).map_err(|error| InvalidQuestion::new(field, error.to_string()))
}

fn noul(criteria: Option<&Value>) -> Result<Vec<Candidate>, InvalidQuestion> {
    let wrong = || {
        InvalidQuestion::new("criteria", "for a noul it must be an object with only the keys true and false")
    };
    let fields = match criteria {
        None => None,
        Some(Value::Object(fields)) if fields.keys().all(|key| key == "true" || key == "false") => {
            Some(fields)
        }
        Some(_) => return Err(wrong()),
    };
    let described = |name: &str, key: &str| Candidate {
        name: name.to_owned(),
        description: fields.and_then(|fields| fields.get(key)).filter(|value| !value.is_null()).cloned(),
    };
    Ok(vec![described("yes", "true"), described("no", "false")])
}

fn score(criteria: Option<&Value>) -> Result<Vec<Candidate>, InvalidQuestion> {
    let levels = criteria.and_then(Value::as_array).filter(|levels| CANDIDATES.contains(&levels.len()));
    let levels = levels.ok_or_else(|| {
        InvalidQuestion::new("criteria", "for a score it must be an array of 2 to 26 levels")
    })?;
    let level = |(index, level): (usize, &Value)| match level {
        Value::String(text) if !text.trim().is_empty() => {
            Ok(Candidate { name: index.to_string(), description: Some(level.clone()) })
        }
        _ => Err(InvalidQuestion::new("criteria", format!("level {index} must be a text that is not empty"))),
    };
    levels.iter().enumerate().map(level).collect()
}

fn choice(criteria: Option<&Value>) -> Result<Vec<Candidate>, InvalidQuestion> {
    let options = criteria.and_then(Value::as_object).filter(|options| CANDIDATES.contains(&options.len()));
    let options = options.ok_or_else(|| {
        InvalidQuestion::new("criteria", "for a choice it must be an object of 2 to 26 options")
    })?;
    let option = |(name, description): (&String, &Value)| {
        if (1..=MAX_OPTION_NAME).contains(&name.chars().count()) {
            let description = (!description.is_null()).then(|| description.clone());
            Ok(Candidate { name: name.clone(), description })
        } else {
            Err(InvalidQuestion::new(
                "criteria",
                format!("an option's name must have 1 to {MAX_OPTION_NAME} characters"),
            ))
        }
    };
    options.iter().map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(kind: SignalType, criteria: Option<&str>) -> Result<Vec<String>, InvalidQuestion> {
        let question = Question::parse("key", kind, "\"Is it?\"", criteria)?;
        Ok(question.candidates.into_iter().map(|candidate| candidate.name).collect())
    }

    #[test]
    fn candidates_follow_from_the_criteria() {
        assert_eq!(names(SignalType::Noul, None).unwrap(), ["yes", "no"]);
        assert_eq!(names(SignalType::Noul, Some(r#"{"false": "never"}"#)).unwrap(), ["yes", "no"]);
        assert_eq!(names(SignalType::Score, Some(r#"["low", "high"]"#)).unwrap(), ["0", "1"]);
        assert_eq!(
            names(SignalType::Choice, Some(r#"{"b": null, "a": "first"}"#)).unwrap(),
            ["b", "a"],
            "as sent"
        );
    }

    #[test]
    fn an_error_names_the_field() {
        let many = format!("[{}]", vec!["\"level\""; 27].join(","));
        let long = format!("{{\"{}\": null, \"a\": null}}", "x".repeat(65));
        for (kind, criteria) in [
            (SignalType::Noul, Some(r#"{"maybe": "x"}"#)),
            (SignalType::Noul, Some("[]")),
            (SignalType::Score, None),
            (SignalType::Score, Some(r#"["one"]"#)),
            (SignalType::Score, Some(r#"["one", ""]"#)),
            (SignalType::Score, Some(r#"["one", 2]"#)),
            (SignalType::Score, Some(&many)),
            (SignalType::Choice, None),
            (SignalType::Choice, Some(r#"{"a": null}"#)),
            (SignalType::Choice, Some(r#"{"": null, "a": null}"#)),
            (SignalType::Choice, Some(&long)),
        ] {
            assert_eq!(names(kind, criteria).unwrap_err().field, "criteria", "{kind:?} {criteria:?}");
        }
        for instructions in ["\" \"", "{}", "[]", "null", "1", "true"] {
            let refused = Question::parse("key", SignalType::Noul, instructions, None).unwrap_err();
            assert_eq!(refused.field, "instructions", "{instructions}");
        }
    }
}
