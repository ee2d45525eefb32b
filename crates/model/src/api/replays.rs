//! Records of replays: what a rule would have done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Date, Timestamp};

/// A rule to replay over the past of answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"when": "is_scammer > 0.65 and events(reported, 24h) >= 3", "cooldown_seconds": 3600}))]
pub struct RuleReplayRequest {
    /// The condition, as of a rule.
    #[schema(max_length = 4000)]
    pub when: String,
    /// The cooldown in seconds; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: Option<i64>,
    /// From when firings are counted; from the oldest analysis that is kept if left out. What was true before is known from
    /// the analyses before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Until when; until now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

/// What a rule would have done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleReplay {
    /// How often it would have fired.
    pub firings: i64,
    /// For how many objects.
    pub objects: i64,
    /// Its firings by day, for days that have some, oldest first.
    pub by_day: Vec<ReplayDay>,
    /// The newest firings, at most 50.
    pub examples: Vec<ReplayExample>,
    /// By signal of the condition: how the objects that it would have fired for compare with what people said. Signals without
    /// labels are left out.
    pub labelled: BTreeMap<String, ReplayLabels>,
    /// The enabled rules, replayed likewise, the most similar first.
    pub overlap: Vec<RuleOverlap>,
    /// From when firings were counted.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
    /// Whether all analyses of that time are still kept.
    pub complete: bool,
}

/// The firings of a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayDay {
    /// The day, in UTC.
    pub day: Date,
    /// The firings.
    pub firings: i64,
}

/// A firing that would have been.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayExample {
    /// The object.
    pub object_id: String,
    /// When.
    pub at: Timestamp,
    /// The values that satisfied the condition, by signal, and by fact where it has facts.
    #[schema(value_type = Object, example = json!({"is_scammer": 0.97}))]
    pub signal_values: Map<String, Value>,
}

/// How the objects that a rule would have fired for compare with the labels of a signal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayLabels {
    /// Of the labelled objects that it would have fired for, the share whose label satisfies the condition's comparisons with
    /// the signal. Left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub precision: Option<f64>,
    /// Of the objects whose label satisfies them, the share that it would have fired for. Left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recall: Option<f64>,
}

/// How many objects two rules would have fired for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleOverlap {
    /// The other rule.
    pub rule_id: Uuid,
    /// Its name.
    pub name: String,
    /// Objects that both would have fired for.
    pub both: i64,
    /// Objects that only the replayed rule would have fired for.
    pub only_this: i64,
    /// Objects that only the other rule would have fired for.
    pub only_that: i64,
}

/// Where a replay in the background stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayStatus {
    /// It runs.
    Running,
    /// Its result is there.
    Done,
    /// It has failed, or its process has ended: start it again.
    Failed,
}

/// A replay in the background. Once it is done, it has the fields of [`RuleReplay`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleReplayRun {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub status: ReplayStatus,
    /// The analyses that it has read.
    pub analyses: i64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// How often it would have fired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub firings: Option<i64>,
    /// For how many objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub objects: Option<i64>,
    /// Its firings by day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub by_day: Option<Vec<ReplayDay>>,
    /// The newest firings, at most 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub examples: Option<Vec<ReplayExample>>,
    /// How it compares with labels, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub labelled: Option<BTreeMap<String, ReplayLabels>>,
    /// The enabled rules, the most similar first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub overlap: Option<Vec<RuleOverlap>>,
    /// From when firings were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<Timestamp>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<Timestamp>,
    /// Whether all analyses of that time are still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub complete: Option<bool>,
}

impl RuleReplayRun {
    /// A replay without a result.
    pub fn new(id: Uuid, status: ReplayStatus, analyses: i64, error: Option<String>) -> Self {
        Self {
            id,
            status,
            analyses,
            error,
            firings: None,
            objects: None,
            by_day: None,
            examples: None,
            labelled: None,
            overlap: None,
            from: None,
            to: None,
            complete: None,
        }
    }

    /// The same, done with this result.
    #[must_use]
    pub fn done(self, result: RuleReplay) -> Self {
        Self {
            status: ReplayStatus::Done,
            firings: Some(result.firings),
            objects: Some(result.objects),
            by_day: Some(result.by_day),
            examples: Some(result.examples),
            labelled: Some(result.labelled),
            overlap: Some(result.overlap),
            from: Some(result.from),
            to: Some(result.to),
            complete: Some(result.complete),
            ..self
        }
    }
}

/// The response to a request for a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RuleReplayResponse {
    /// It runs in the background.
    Started(Box<RuleReplayRun>),
    /// The result.
    Done(Box<RuleReplay>),
}
