//! Records of objects, events, signals and analyses.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::record::object_only;
use crate::{Answer, CompactedState, Judgement, SignalType, Timestamp};

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// A discrete action.
    Event,
    /// Free-form text.
    Message,
}

crate::text_values!(EventType { Event = "event", Message = "message" });

/// Something that happened, as it is sent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct EventInput {
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255, example = "listing_created")]
    pub name: Option<String>,
    /// What was said; at most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Anything else, an object of at most 16 KiB. `name`, when a text, becomes the object's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"price": 120}))]
    pub metadata: Option<Box<RawValue>>,
    /// When it happened; the time of receipt if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
}

object_only!(EventInput);

impl EventInput {
    /// A discrete action, by its name.
    pub fn event(name: impl Into<String>) -> Self {
        Self {
            kind: EventType::Event,
            name: Some(name.into()),
            content: None,
            metadata: None,
            occurred_at: None,
        }
    }

    /// Free-form text.
    pub fn message(content: impl Into<String>) -> Self {
        let content = Some(content.into());
        Self { kind: EventType::Message, name: None, content, metadata: None, occurred_at: None }
    }

    /// With what was said.
    #[must_use]
    pub fn with_content(self, content: impl Into<String>) -> Self {
        Self { content: Some(content.into()), ..self }
    }

    /// With anything else, which must be an object. `name`, when a text, becomes the object's display name.
    #[must_use]
    pub fn with_metadata(self, metadata: &serde_json::Value) -> Self {
        // A value that is in memory can be written.
        Self { metadata: serde_json::value::to_raw_value(metadata).ok(), ..self }
    }

    /// With when it happened.
    #[must_use]
    pub fn occurred_at(self, at: Timestamp) -> Self {
        Self { occurred_at: Some(at), ..self }
    }
}

/// Something that happened, as it is listed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// What was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub metadata: Option<Box<RawValue>>,
    /// When it happened.
    pub occurred_at: Timestamp,
}

/// The most recent events of an object, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// At most 200.
    pub events: Vec<Event>,
}

/// Events to be recorded, and whether to wait for a verdict.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IngestRequest {
    /// What the object is, for example user or listing; 1 to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", example = "user")]
    pub object_type: Option<String>,
    /// 1 to 500 events.
    #[schema(min_items = 1, max_items = 500)]
    pub events: Vec<EventInput>,
    /// Whether to score the object now and answer with a verdict.
    #[serde(default)]
    pub wait: bool,
    /// With `wait`, score only these signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
    /// With `wait`, whether to score over the object's history (the default) or this request's events alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_history: Option<bool>,
}

/// Events were recorded, and an analysis will follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IngestAccepted {
    /// The object.
    pub object_id: String,
    /// How many events were recorded.
    pub accepted: i64,
    /// Always `scheduled`.
    #[schema(example = "scheduled")]
    pub analysis_status: String,
    /// How long the object must be quiet before it is analyzed.
    pub analysis_delay_ms: u64,
}

/// The answers about an object, worked out while the caller waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModerationVerdict {
    /// The object.
    pub object_id: String,
    /// How many events were recorded.
    pub accepted: i64,
    /// Whether anything was scored; false when no configured signal matched.
    pub analyzed: bool,
    /// Whether the object's history was scored too.
    pub history_included: bool,
    /// What answered.
    pub model: String,
    /// How long that took.
    pub latency_ms: u64,
    /// The answers.
    pub answers: Vec<Answer>,
    /// Why nothing was analyzed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
}

/// An analysis of one object is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnalyzeScheduled {
    /// The object.
    pub object_id: String,
    /// Always `scheduled`.
    #[schema(example = "scheduled")]
    pub analysis_status: String,
}

/// Analyses of all objects are scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnalyzeAllScheduled {
    /// How many objects.
    pub scheduled: i64,
    /// Always `scheduled`.
    #[schema(example = "scheduled")]
    pub analysis_status: String,
}

/// The latest stored answer of an object to a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalResult {
    /// The signal.
    pub key: String,
    /// What it says.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// What answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// When.
    pub computed_at: Timestamp,
}

impl From<SignalResult> for Answer {
    fn from(result: SignalResult) -> Self {
        Self { signal: result.key, judgement: result.judgement }
    }
}

/// An object with its answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectAnalysis {
    /// The object.
    pub object_id: String,
    /// Events ever recorded.
    pub event_count: i64,
    /// The latest answers of enabled signals.
    pub analysis: Vec<SignalResult>,
    /// Enabled signals with no answer yet.
    pub pending: Vec<String>,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectSummary {
    /// The object.
    pub object_id: String,
    /// What it is.
    pub object_type: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub display_name: Option<String>,
    /// Events ever recorded.
    pub event_count: i64,
    /// When its last event was received.
    pub last_seen: Timestamp,
    /// The latest answers of enabled signals.
    pub analysis: Vec<SignalResult>,
    /// Enabled signals with no answer yet.
    pub pending: Vec<String>,
}

/// A page of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectList {
    /// The objects.
    pub objects: Vec<ObjectSummary>,
    /// The page size that applied.
    pub limit: i64,
    /// The rows that were skipped.
    pub offset: i64,
    /// For the next page; absent on the last page and for signal queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// What is known of an object beside its answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectState {
    /// The object.
    pub object_id: String,
    /// Events folded into the summary.
    pub compacted_events: i64,
    /// When the newest of them was received, or null.
    pub compacted_through: Option<Timestamp>,
    /// The summary, or null.
    pub compacted_state: Option<CompactedState>,
    /// When it was last analyzed, or null.
    pub last_analyzed_at: Option<Timestamp>,
}

/// The account at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// Objects.
    pub objects: i64,
    /// Configured signals.
    pub signals: i64,
    /// The share of objects with at least one answer, 0 to 1.
    pub analyzed_pct: f64,
    /// Events received in the last 24 hours.
    pub events_today: i64,
    /// Objects with a yes/no probability of 0.8 or more.
    pub flagged: i64,
    /// One for each enabled signal.
    pub signal_summary: Vec<SignalSummary>,
    /// Objects by type, most first.
    pub categories: Vec<CategoryCount>,
    /// The ten highest yes/no probabilities.
    pub top_risk: Vec<RiskyObject>,
}

/// A signal at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalSummary {
    /// The signal.
    pub key: String,
    /// What kind of answer it has.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// Objects with an answer.
    pub total: i64,
    /// The mean probability or position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub avg: Option<f64>,
    /// Objects answered 0.8 or more, for yes/no signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub high: Option<i64>,
    /// Their share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub high_pct: Option<f64>,
    /// The share of each option, for choice signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub choices: Option<IndexMap<String, f64>>,
}

/// How many objects there are of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CategoryCount {
    /// The object type.
    pub name: String,
    /// How many.
    pub count: i64,
}

/// An object with a high yes/no probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RiskyObject {
    /// The object.
    pub object_id: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub display_name: Option<String>,
    /// Its highest yes/no probability.
    pub risk: f64,
}
