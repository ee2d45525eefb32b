//! Labels: what people say is true.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::{Author, UnknownName};
use crate::quality::{ClassAnswer, Classes, YesNoAnswer};
use crate::record::object_only;
use crate::{Answer, AnswerValue, FirstAnswer, Question, SignalType, Timestamp};

/// How a label was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelSource {
    /// By a person in the console.
    Person,
    /// With an API key.
    Api,
    /// With the resolution of a review.
    Review,
}

crate::text_values!(LabelSource { Person = "person", Api = "api", Review = "review" });

impl FromStr for LabelSource {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|source| source.as_str() == text).ok_or(UnknownName)
    }
}

/// What is true: `noul` true or false; `score` the index of a level; `choice` an option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum LabelValue {
    /// Yes or no.
    YesNo(bool),
    /// The index of a level.
    Level(i64),
    /// An option.
    Choice(String),
}

impl LabelValue {
    /// The yes/no answer that this label is compared with; none of another type.
    pub fn compare_yes_no(&self, answer: &AnswerValue) -> Option<YesNoAnswer> {
        let Self::YesNo(is_yes) = self else { return None };
        Some(YesNoAnswer { answer: answer.noul?, is_yes: *is_yes })
    }

    /// The choice or score that this label is compared with; none of another type.
    pub fn compare_class(&self, classes: &mut Classes, answer: &AnswerValue) -> Option<ClassAnswer> {
        match self {
            Self::Choice(option) => classes.compare(option, answer),
            Self::Level(level) => classes.compare(&level.to_string(), answer),
            Self::YesNo(_) => None,
        }
    }

    /// The value of a label about a question; an error says what it must be.
    pub fn about(question: &Question, value: &Value) -> Result<Self, String> {
        let names = || question.candidates.iter().map(|candidate| candidate.name.as_str());
        match (question.kind, value) {
            (SignalType::Noul, Value::Bool(is_yes)) => Ok(Self::YesNo(*is_yes)),
            (SignalType::Choice, Value::String(option)) if names().any(|name| name == option) => {
                Ok(Self::Choice(option.clone()))
            }
            (SignalType::Score, Value::Number(level))
                if level.as_u64().is_some_and(|level| level < question.candidates.len() as u64) =>
            {
                Ok(Self::Level(level.as_i64().unwrap_or_default()))
            }
            (SignalType::Noul, _) => {
                Err(format!("value: `{}` is a yes/no signal: true or false", question.key))
            }
            (SignalType::Choice, _) => {
                let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                Err(format!("value: `{}` is a choice of {}", question.key, names.join(", ")))
            }
            (SignalType::Score, _) => {
                let last = question.candidates.len() - 1;
                Err(format!("value: `{}` is a score: the index of a level, 0 to {last}", question.key))
            }
        }
    }
}

/// What a person, or a program, says is true about a signal of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Label {
    /// Its id.
    pub id: Uuid,
    /// The object's id.
    pub object_id: String,
    /// The key of the signal.
    pub signal: String,
    /// The version of the signal when the label was given.
    #[schema(minimum = 1)]
    pub version: i64,
    /// What is true.
    pub value: LabelValue,
    /// What else the author said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub note: Option<String>,
    /// How it was given.
    pub source: LabelSource,
    /// Who gave it.
    pub by: Author,
    /// Whether the object was drawn at random.
    pub audit: bool,
    /// What the service said then; left out if it had not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answer: Option<LabelAnswer>,
    /// When it was given.
    pub created_at: Timestamp,
}

/// What the service said when a label was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabelAnswer {
    /// The answer. Its model is left to the field beside it.
    #[serde(flatten)]
    pub answer: Answer,
    /// What the first analyzer had said, where the second one answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub first: Option<Box<FirstAnswer>>,
    /// The version of the signal that was asked.
    #[schema(minimum = 1)]
    pub version: i64,
    /// The model that answered.
    pub model: String,
    /// The sequence number of the newest event that was read.
    pub read_seq: i64,
}

impl LabelAnswer {
    /// What the first analyzer said, calibrated where a calibration was on.
    pub fn first_value(&self) -> AnswerValue {
        let value = &self.answer.value;
        self.first.as_ref().map_or_else(|| value.clone(), |first| first.value.of_kind(value.kind))
    }

    /// What the first analyzer itself said, before any calibration.
    pub fn first_own_value(&self) -> AnswerValue {
        let Answer { value, raw, .. } = &self.answer;
        match (&self.first, raw) {
            (Some(first), _) => first.own(value.kind),
            (None, Some(raw)) => raw.of_kind(value.kind),
            (None, None) => value.clone(),
        }
    }
}

/// A label to be given.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": true, "note": "Refunded by the bank."}))]
pub struct LabelInput {
    /// What is true: `noul` true or false; `choice` an option; `score` the index of a level.
    #[schema(value_type = LabelValue)]
    pub value: Value,
    /// What else is worth knowing; at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// A label to be given, and what it is about.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct LabelCreate {
    /// The object's id.
    pub object_id: String,
    /// The key of the signal.
    pub signal: String,
    /// What is true: `noul` true or false; `choice` an option; `score` the index of a level.
    #[schema(value_type = LabelValue)]
    pub value: Value,
    /// What else is worth knowing; at most 2,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

object_only!(LabelCreate);

/// Labels to be given.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LabelsCreate {
    /// 1 to 1,000 labels.
    #[schema(min_items = 1, max_items = 1000)]
    pub labels: Vec<LabelCreate>,
}

/// How many labels were taken, and which were not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelsAccepted {
    /// The number of labels that were taken.
    pub accepted: i64,
    /// Those that were not.
    pub refused: Vec<RefusedLabel>,
}

/// A label that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedLabel {
    /// Its place in the request, from 0.
    pub index: i64,
    /// What is wrong with it.
    pub message: String,
}

/// A page of labels, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabelList {
    /// The labels.
    pub labels: Vec<Label>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
