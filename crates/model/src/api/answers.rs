//! Records of the past of answers: analyses, versions of signals, and who made them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Answer, SignalType, Timestamp};

/// What asked for an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisSource {
    /// New events, or a request to analyze one object.
    Async,
    /// A caller who waited for the verdict.
    Sync,
    /// A backfill, or a request to analyze all objects.
    Bulk,
}

crate::text_values!(AnalysisSource { Async = "async", Sync = "sync", Bulk = "bulk" });

/// How somebody acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthorKind {
    /// As a person in the console.
    User,
    /// With an API key.
    Key,
}

crate::text_values!(AuthorKind { User = "user", Key = "key" });

/// Who made something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Author {
    /// How they acted.
    pub kind: AuthorKind,
    /// The id of the user or of the API key.
    pub id: Uuid,
    /// The user's email address or the key's name, as it was then.
    pub name: String,
}

/// An answer with the version of the signal that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionedAnswer {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// The version of the signal that was asked.
    #[schema(minimum = 1)]
    pub version: i64,
}

/// What one analysis said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalysisRecord {
    /// When it was concluded.
    pub at: Timestamp,
    /// What asked for it.
    pub source: AnalysisSource,
    /// The model that answered.
    pub model: String,
    /// The sequence number of the newest event that was read.
    pub read_seq: i64,
    /// All its answers, also those to signals that were disabled or deleted since.
    pub answers: Vec<VersionedAnswer>,
}

/// A page of the past of an object's answers, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalysisList {
    /// The analyses.
    pub analyses: Vec<AnalysisRecord>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// A definition that a signal has or had.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalVersion {
    /// Its number, from 1.
    #[schema(minimum = 1)]
    pub version: i64,
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
    /// The id of the calibration that was switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub calibration: Option<Uuid>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it; left out where the account has no users and nobody is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub by: Option<Author>,
    /// The number of objects whose present answer is of this version.
    pub objects: i64,
}

/// The versions of a signal, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignalVersionList {
    /// The newest 100 versions.
    pub versions: Vec<SignalVersion>,
}

/// How the present answers to a signal are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Distribution {
    /// The number of objects that are counted: those with an answer to the signal.
    pub objects: i64,
    /// Whether more objects match than are counted. Those that were analyzed most recently are.
    pub sampled: bool,
    /// The bins: 20 equal ones for `noul`, one for each level of a `score`, one for each option of a `choice`.
    pub bins: Vec<DistributionBin>,
}

/// How many answers are in a range, or are an option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DistributionBin {
    /// The lower end, which belongs to the bin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<f64>,
    /// The upper end, which belongs to the next bin, except that the last bin of `noul` includes 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub to: Option<f64>,
    /// The option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub option: Option<String>,
    /// The number of answers.
    pub count: i64,
}
