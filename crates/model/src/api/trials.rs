//! Trials of another wording of a signal.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::{Figure, QualityDifference, SignalQuality, UnknownName};
use crate::{Answer, Timestamp};

/// Whether a trial has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// It has not.
    Running,
    /// Every object was asked about.
    Done,
    /// Somebody stopped it.
    Cancelled,
}

crate::text_values!(TrialStatus { Running = "running", Done = "done", Cancelled = "cancelled" });

impl FromStr for TrialStatus {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownName)
    }
}

/// Which objects a trial is put to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum TrialOver {
    /// Objects of one of these kinds.
    Named(TrialObjects),
    /// The most recently analyzed objects that match a query.
    Query(TrialQuery),
}

/// A query for the objects that a trial is put to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrialQuery {
    /// As for the list of objects.
    pub q: String,
}

/// A kind of objects that a trial is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialObjects {
    /// Those that were labelled last. Each is read up to the newest event that the service had read when it was labelled.
    Labelled,
    /// Those that were analyzed last.
    Recent,
}

/// A trial to be started.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TrialCreate {
    /// The proposed instructions, as of a signal; the present ones if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub instructions: Option<Box<RawValue>>,
    /// The proposed criteria, as of a signal; the present ones if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Which objects it is put to.
    pub over: TrialOver,
    /// At most so many objects; 100 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<i64>,
    /// Whether to say only how many objects there are and what it would cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// What a trial would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrialEstimate {
    /// The number of objects.
    pub objects: i64,
    /// The estimated cost in micro-dollars.
    pub estimated_cost_micros: i64,
}

/// An object whose answer changes side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrialFlip {
    /// The object's id.
    pub object_id: String,
    /// The answer to the present wording.
    pub present: Answer,
    /// The answer to the proposed wording.
    pub proposed: Answer,
}

/// A trial of another wording. Its figures are over the objects that have both answers.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    /// Its id.
    pub id: Uuid,
    /// The key of the signal.
    pub signal: String,
    /// The version that the proposed wording is compared with.
    #[schema(minimum = 1)]
    pub version: i64,
    /// The proposed instructions.
    #[schema(value_type = Value)]
    pub instructions: Box<RawValue>,
    /// The proposed criteria.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub criteria: Option<Box<RawValue>>,
    /// Which objects it is put to.
    pub over: TrialOver,
    /// Whether it has ended.
    pub status: TrialStatus,
    /// The number of objects.
    pub total: i64,
    /// Labelled objects that are left out, because what stood when they were labelled cannot be read any more.
    #[serde(default)]
    #[schema(required = true)]
    pub left_out: i64,
    /// How many of the objects are done.
    pub completed: i64,
    /// What it has cost so far, in micro-dollars.
    pub cost_micros: i64,
    /// The share of objects whose answers are on the same side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agreement: Option<Figure>,
    /// How good the present wording is on the labelled objects; only of a single trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub present: Option<SignalQuality>,
    /// How good the proposed wording is on the labelled objects; only of a single trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub proposed: Option<SignalQuality>,
    /// The figures of the proposed wording minus those of the present one; only of a single trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub difference: Option<QualityDifference>,
    /// The objects whose answers change side, the largest change first, at most 100; only of a single trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub flips: Option<Vec<TrialFlip>>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<Timestamp>,
}

/// A trial that was started.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialStarted {
    /// The trial.
    pub trial: Trial,
}

/// A page of trials, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TrialList {
    /// The trials.
    pub trials: Vec<Trial>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
