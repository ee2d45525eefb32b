//! Object, event and analysis records.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::{Label, Timeline};
use crate::record::object_only;
use crate::{Answer, AnswerValue, CompactedState, Date, RawAnswer, SignalType, Timestamp};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// A discrete action.
    Event,
    /// Free-form text.
    Message,
}

crate::text_values!(EventType { Event = "event", Message = "message" });

/// An event, as sent to the service.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct EventInput {
    /// The type of event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255, example = "listing_created")]
    pub name: Option<String>,
    /// The text; at most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Any other data, an object of at most 16 KiB. If `name` is a string, it becomes the object's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, example = json!({"price": 120}))]
    pub metadata: Option<Box<RawValue>>,
    /// When it happened; if left out, when it was received.
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

    /// Sets the text.
    #[must_use]
    pub fn with_content(self, content: impl Into<String>) -> Self {
        Self { content: Some(content.into()), ..self }
    }

    /// Sets any other data, which must be an object. If `name` is a string, it becomes the object's display name.
    #[must_use]
    pub fn with_metadata(self, metadata: &serde_json::Value) -> Self {
        // Serializing a `Value` cannot fail.
        Self { metadata: serde_json::value::to_raw_value(metadata).ok(), ..self }
    }

    /// Sets when it happened.
    #[must_use]
    pub fn occurred_at(self, at: Timestamp) -> Self {
        Self { occurred_at: Some(at), ..self }
    }
}

/// An event, as listed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The type of event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
    /// Any other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub metadata: Option<Box<RawValue>>,
    /// When it happened.
    pub occurred_at: Timestamp,
}

/// The most recent events of an object, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// At most 200 events.
    pub events: Vec<Event>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// Events to be recorded, and whether to wait for a verdict.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct IngestRequest {
    /// The object's type, for example user or listing; 1 to 64 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", example = "user")]
    pub object_type: Option<String>,
    /// 1 to 500 events.
    #[schema(min_items = 1, max_items = 500)]
    pub events: Vec<EventInput>,
    /// Whether to analyze the object now and return a verdict.
    #[serde(default, deserialize_with = "null_as_default")]
    #[schema(value_type = Option<bool>)]
    pub wait: bool,
    /// With `wait`, ask only these signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
    /// With `wait`, whether to analyze the object's history (the default) or only the events of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_history: Option<bool>,
}

/// Reads null like a field that was left out.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    value: D,
) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

/// Whether an analysis will follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisStatus {
    /// It is queued.
    Scheduled,
}

crate::text_values!(AnalysisStatus { Scheduled = "scheduled" });

impl std::fmt::Display for AnalysisStatus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The events were recorded, and an analysis will follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IngestAccepted {
    /// The object's id.
    pub object_id: String,
    /// The number of events recorded.
    pub accepted: i64,
    /// Always `scheduled`.
    pub analysis_status: AnalysisStatus,
    /// How long the object must be quiet before it is analyzed.
    pub analysis_delay_ms: u64,
}

/// The answers about an object, for a caller who waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModerationVerdict {
    /// The object's id.
    pub object_id: String,
    /// The number of events recorded.
    pub accepted: i64,
    /// Whether an analysis was made; false if no configured signal matched.
    pub analyzed: bool,
    /// Whether the object's history was analyzed too.
    pub history_included: bool,
    /// The model that answered.
    pub model: String,
    /// How long the analysis took.
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
    /// The object's id.
    pub object_id: String,
    /// Always `scheduled`.
    pub analysis_status: AnalysisStatus,
}

/// Analyses of all objects are scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnalyzeAllScheduled {
    /// The number of objects.
    pub scheduled: i64,
    /// Always `scheduled`.
    pub analysis_status: AnalysisStatus,
}

/// The latest answer to a signal about an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalResult {
    /// The signal's key.
    pub key: String,
    /// Its type and value.
    #[serde(flatten)]
    pub value: AnswerValue,
    /// The analyzer's own answer, where a calibration is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw: Option<RawAnswer>,
    /// Where the first analyzer was unsure: whether the second one answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub escalated: Option<bool>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// When it was computed.
    pub computed_at: Timestamp,
}

impl From<SignalResult> for Answer {
    fn from(result: SignalResult) -> Self {
        let SignalResult { key, value, raw, escalated, model, .. } = result;
        let model = model.filter(|_| escalated == Some(true));
        Self { signal: key, value, raw, escalated, model }
    }
}

/// An object with its answers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ObjectAnalysis {
    /// The object's id.
    pub object_id: String,
    /// The object's type.
    pub object_type: String,
    /// The object's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub display_name: Option<String>,
    /// The number of events ever recorded.
    pub event_count: i64,
    /// The latest answers to the enabled signals.
    pub analysis: Vec<SignalResult>,
    /// Enabled signals without an answer yet.
    pub pending: Vec<String>,
    /// Its newest labels, up to 200, newest first; if `include` names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub labels: Option<Vec<Label>>,
    /// The first page of its timeline; if `include` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub timeline: Option<Timeline>,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectSummary {
    /// The object's id.
    pub object_id: String,
    /// The object's type.
    pub object_type: String,
    /// The object's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub display_name: Option<String>,
    /// The number of events ever recorded.
    pub event_count: i64,
    /// When its last event was received.
    pub last_seen: Timestamp,
    /// The latest answers to the enabled signals.
    pub analysis: Vec<SignalResult>,
    /// Enabled signals without an answer yet.
    pub pending: Vec<String>,
}

/// A page of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectList {
    /// The objects.
    pub objects: Vec<ObjectSummary>,
    /// The page size.
    pub limit: i64,
    /// The number of objects skipped.
    pub offset: i64,
    /// The cursor of the next page; absent on the last page and for signal queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Each comparison of `q` that was skipped, and why; and whether the search ended before all objects were looked at.
    #[serde(default)]
    #[schema(required = true)]
    pub warnings: Vec<String>,
}

/// The summary of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectState {
    /// The object's id.
    pub object_id: String,
    /// The number of events folded into the summary.
    pub compacted_events: i64,
    /// When the newest of them was received, or null.
    #[schema(required = true)]
    pub compacted_through: Option<Timestamp>,
    /// The summary, or null.
    #[schema(required = true)]
    pub compacted_state: Option<CompactedState>,
    /// When it was last analyzed, or null.
    #[schema(required = true)]
    pub last_analyzed_at: Option<Timestamp>,
    /// Whether an analysis of it waits or runs. Once this is false, the answers to all events before are there.
    #[serde(default)]
    #[schema(required = true)]
    pub analysis_scheduled: bool,
}

/// The account at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The number of objects.
    pub objects: i64,
    /// The number of configured signals.
    pub signals: i64,
    /// The share of objects with at least one answer, 0 to 1.
    pub analyzed_pct: f64,
    /// The number of events received in the last 24 hours.
    pub events_today: i64,
    /// The number of events received in the 24 hours before those.
    #[serde(default)]
    #[schema(required = true)]
    pub events_yesterday: i64,
    /// The number of objects with a yes/no probability of 0.8 or more.
    pub flagged: i64,
    /// A summary of each enabled signal.
    pub signal_summary: Vec<SignalSummary>,
    /// The number of objects by type, largest first.
    pub categories: Vec<CategoryCount>,
    /// The ten objects with the highest yes/no probabilities.
    pub top_risk: Vec<RiskyObject>,
    /// What happened on the last 14 days in UTC, today included, oldest first: from the first of them on which something did.
    #[serde(default)]
    #[schema(required = true, max_items = 14)]
    pub days: Vec<OverviewDay>,
}

/// What happened on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OverviewDay {
    /// The day, in UTC.
    pub date: Date,
    /// Objects that were first seen.
    pub objects: i64,
    /// How often an analysis flagged an object: a yes/no probability of 0.8 or more, after less or none. One that goes back and
    /// forth counts each time.
    pub flagged: i64,
    /// How often rules fired, in shadow too.
    pub firings: i64,
}

/// A signal at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalSummary {
    /// The signal's key.
    pub key: String,
    /// The type of answer.
    #[serde(rename = "type")]
    pub kind: SignalType,
    /// The number of objects with an answer.
    pub total: i64,
    /// The mean probability or position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub avg: Option<f64>,
    /// The number of objects at 0.8 or more, for yes/no signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub high: Option<i64>,
    /// The share of objects at 0.8 or more, for yes/no signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub high_pct: Option<f64>,
    /// The share of each option, for choice signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub choices: Option<IndexMap<String, f64>>,
}

/// The number of objects of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CategoryCount {
    /// The object type.
    pub name: String,
    /// The number of objects.
    pub count: i64,
}

/// An object with a high yes/no probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RiskyObject {
    /// The object's id.
    pub object_id: String,
    /// The object's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub display_name: Option<String>,
    /// Its highest yes/no probability.
    pub risk: f64,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::{Rule, RuleMode};

    /// Reads a record of a service that did not send a field yet.
    fn without<R: DeserializeOwned>(field: &str, mut record: Value) -> R {
        record.as_object_mut().unwrap().remove(field).unwrap();
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn answers_of_earlier_versions_are_read() {
        let at = "2026-01-01T00:00:00Z";
        let list = json!({"objects": [], "limit": 100, "offset": 0, "warnings": ["so"]});
        assert!(without::<ObjectList>("warnings", list).warnings.is_empty());
        let state = json!({
            "object_id": "user_1", "compacted_events": 0, "compacted_through": null, "compacted_state": null,
            "last_analyzed_at": null, "analysis_scheduled": true,
        });
        assert!(!without::<ObjectState>("analysis_scheduled", state).analysis_scheduled);
        let rule = json!({
            "id": "01a1e41b-843b-7bb9-ab02-864f5f0f6b38", "name": "Scammers", "when": "is_scammer > 0.9", "enabled": true,
            "action_type": "review", "action_config": {"queue": "q"}, "mode": "shadow", "cooldown_seconds": 0,
            "created_at": at, "updated_at": at,
        });
        assert_eq!(without::<Rule>("mode", rule).mode, RuleMode::Live);
    }
}
