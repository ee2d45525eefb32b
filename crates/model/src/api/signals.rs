//! Signal records, and those of asking questions without recording anything.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::EventInput;
use crate::record::object_only;
use crate::{Answer, AnswerValue, SignalType, Timestamp};

/// A signal's definition, as sent to the service.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalInput {
    /// The type of answer.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// What to judge and how: a string, an object or an array, passed to the analyzer verbatim.
    #[schema(value_type = Value, example = "Is this user trying to defraud others?")]
    pub instructions: Box<RawValue>,
    /// `noul`: an object with optional `true` and `false`; `score`: the levels, low to high; `choice`: options with
    /// descriptions or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Whether it is asked; if left out, a new signal is enabled and an existing one is unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A signal of the account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Signal {
    /// The signal's key.
    pub key: String,
    /// The type of answer.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// The instructions, as sent.
    #[schema(value_type = Value)]
    pub instructions: Box<RawValue>,
    /// The criteria, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Whether it is asked.
    pub enabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The backfill that creating it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub backfill: Option<SignalBackfill>,
}

/// An estimate of a backfill of a signal, and the progress of the latest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillStatus {
    /// The estimate for a backfill started now.
    pub estimate: BackfillEstimate,
    /// The latest backfill, or null.
    #[schema(required = true)]
    pub backfill: Option<SignalBackfill>,
}

/// An estimate of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillEstimate {
    /// The number of objects without an answer to the signal.
    pub objects: i64,
    /// That number times the account's mean charge per analysis, in micro-dollars; 0 if nothing was charged yet.
    pub estimated_cost_micros: i64,
}

/// Asking one signal about every object without an answer to it. `completed` and `pending` add up to `total`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalBackfill {
    /// The signal's key.
    pub signal_key: String,
    /// Whether it is running.
    pub status: BackfillState,
    /// The number of objects without an answer when it started.
    pub total: i64,
    /// How many of them have an answer now.
    pub completed: i64,
    /// How many of them have none.
    pub pending: i64,
    /// When it started.
    pub started_at: Timestamp,
}

/// Whether a backfill is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillState {
    /// Some objects have not been asked about yet.
    Running,
    /// Every object was asked about; one whose analysis failed for good stays pending.
    Done,
}

/// All configured signals, by key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalList {
    /// The signals.
    pub signals: Vec<Signal>,
}

/// Events to be analyzed on their own.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PlaygroundRequest {
    /// 1 to 50 events.
    #[schema(min_items = 1, max_items = 50)]
    pub events: Vec<EventInput>,
    /// The type of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub object_type: Option<String>,
    /// Ask only these signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
}

/// The answers about the events. Nothing was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlaygroundVerdict {
    /// Whether an analysis was made.
    pub analyzed: bool,
    /// The model that answered.
    pub model: String,
    /// How long the analysis took.
    pub latency_ms: u64,
    /// The answers.
    pub answers: Vec<Answer>,
    /// The charge, in micro-dollars.
    pub cost_micros: i64,
    /// The number of events analyzed.
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
    /// A string, or any JSON.
    #[schema(value_type = Value)]
    pub state: Box<RawValue>,
    /// Up to 100 questions by the caller's ids.
    pub questions: IndexMap<String, SystemOneQuestion>,
}

/// A question in the wire format of typed decision models.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct SystemOneQuestion {
    /// The type of answer.
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
    /// The model that answered.
    pub model: String,
    /// One for each question.
    pub answers: IndexMap<String, SystemOneAnswer>,
    /// Tokens read and written.
    pub usage: SystemOneUsage,
}

/// An answer in the wire format of typed decision models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SystemOneAnswer {
    /// Its type and value.
    #[serde(flatten)]
    pub value: AnswerValue,
    /// The descriptions of the levels, by index.
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
