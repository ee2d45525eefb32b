//! What moved an answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Answer;

/// A request for what moved an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainRequest {
    /// The key of the signal.
    #[schema(example = "is_scammer")]
    pub signal: String,
}

/// What moved an answer about an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The answer to the signal about all that is read of the object now.
    pub answer: Answer,
    /// The parts of the history that moved the answer most, largest first: at most 20.
    pub parts: Vec<ExplainedPart>,
    /// How it was found out.
    pub method: ExplainMethod,
    /// What it cost, in millionths of a dollar.
    #[schema(minimum = 0)]
    pub cost_micros: i64,
}

/// A part of an object's history, and how it moved an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedPart {
    /// The place of its event in the order of arrival; left out for a line of the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub seq: Option<i64>,
    /// What the part is.
    pub kind: PartKind,
    /// What it says, at most 500 characters of it.
    #[schema(max_length = 500)]
    pub excerpt: String,
    /// How much the answer differs when this part is not read, positive if the part raised it: the probability of yes, the
    /// score, or the probability of the option chosen.
    pub moved: f64,
}

/// What a part of a history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// An event.
    Event,
    /// A message.
    Message,
    /// A line of the summary of older events.
    Summary,
}

/// How it was found out what moved an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExplainMethod {
    /// The history was read once, and the question again for each part, with that part hidden.
    Unread,
    /// The analyzer was asked again for each of some parts, with that part left out of the history.
    LeftOut,
}
