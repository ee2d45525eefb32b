//! Records of signals, and of asking questions without recording anything.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::EventInput;
use crate::record::object_only;
use crate::{Answer, Judgement, SignalType, Timestamp};

/// A question, as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalInput {
    /// What kind of answer it has.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// What to judge and how: a text, an object or an array, passed to the analyzer verbatim.
    #[schema(value_type = Value, example = "Is this user trying to defraud others?")]
    pub instructions: Box<RawValue>,
    /// `noul`: an object with optional `true` and `false`; `score`: the levels, low to high; `choice`: options with
    /// descriptions or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Whether it is asked; left out, a new signal is and another stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A question of the account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Signal {
    /// What it is called.
    pub key: String,
    /// What kind of answer it has.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// As it was sent.
    #[schema(value_type = Value)]
    pub instructions: Box<RawValue>,
    /// As it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Whether it is asked.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The backfill that creating it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub backfill: Option<SignalBackfill>,
}

/// What a backfill of a signal would take, and how far the latest one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillStatus {
    /// What a backfill would take now.
    pub estimate: BackfillEstimate,
    /// The latest backfill, or null.
    pub backfill: Option<SignalBackfill>,
}

/// What a backfill would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillEstimate {
    /// Objects without an answer to the signal.
    pub objects: i64,
    /// Their number times the account's mean charge per analysis, in micro-dollars; 0 without paid history.
    pub estimated_cost_micros: i64,
}

/// Asking one signal about every object without an answer to it. `completed` and `pending` add up to `total`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalBackfill {
    /// The signal.
    pub signal_key: String,
    /// Whether it is under way.
    pub status: BackfillState,
    /// Objects without an answer when it started.
    pub total: i64,
    /// How many of them have one now.
    pub completed: i64,
    /// How many have none.
    pub pending: i64,
    /// When it started.
    pub started_at: Timestamp,
}

/// Whether a backfill is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillState {
    /// Objects are still to be asked about.
    Running,
    /// Every object was asked about; one whose analysis was given up stays pending.
    Done,
}

/// Every configured question, by key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalList {
    /// The questions.
    pub signals: Vec<Signal>,
}

/// Events to be scored on their own.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PlaygroundRequest {
    /// 1 to 50 events.
    #[schema(min_items = 1, max_items = 50)]
    pub events: Vec<EventInput>,
    /// What the object would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub object_type: Option<String>,
    /// Score only these signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
}

/// What the events would be answered. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaygroundVerdict {
    /// Whether anything was scored.
    pub analyzed: bool,
    /// What answered.
    pub model: String,
    /// How long that took.
    pub latency_ms: u64,
    /// The answers.
    pub answers: Vec<Answer>,
    /// What it was charged, in micro-dollars.
    pub cost_micros: i64,
    /// How many events were scored.
    pub events_count: i64,
    /// Why nothing was analyzed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// Questions about a state, in the wire format of typed decision models.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SystemOneRequest {
    /// Ignored: the configured model answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A text, or JSON.
    #[schema(value_type = Value)]
    pub state: Box<RawValue>,
    /// Up to 100 questions by the caller's ids.
    pub questions: IndexMap<String, SystemOneQuestion>,
}

/// A question in the wire format of typed decision models.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct SystemOneQuestion {
    /// What kind of answer it has.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// What to judge and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub instructions: Option<Box<RawValue>>,
    /// As for signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
}

object_only!(SystemOneQuestion);

/// Answers in the wire format of typed decision models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SystemOneResponse {
    /// What answered.
    pub model: String,
    /// One for each question.
    pub answers: IndexMap<String, SystemOneAnswer>,
    /// Tokens read and written.
    pub usage: SystemOneUsage,
}

/// An answer in the wire format of typed decision models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SystemOneAnswer {
    /// What it says.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The texts of the levels by index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legend: Option<IndexMap<String, String>>,
}

/// Tokens read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SystemOneUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}
