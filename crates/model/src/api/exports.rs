//! Rows of exports: the records of the lists, each with the cursor by which an export goes on after it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::Timestamp;
use crate::api::{
    AnalysisSource, AuditEntry, EventType, Label, LedgerEntry, ObjectSummary, UnknownName, VersionedAnswer,
};

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportKind {
    /// Objects with their present answers, by id.
    Objects,
    /// What every analysis said that is kept, oldest first; one row for each signal.
    Answers,
    /// Labels, oldest first.
    Labels,
    /// Events, in the order of receipt.
    Events,
    /// The entries of the ledger, oldest first.
    Ledger,
    /// The lines of the audit log, oldest first.
    Audit,
}

crate::text_values!(ExportKind {
    Objects = "objects",
    Answers = "answers",
    Labels = "labels",
    Events = "events",
    Ledger = "ledger",
    Audit = "audit",
});

impl FromStr for ExportKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownName)
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// A JSON object on each line.
    #[default]
    Ndjson,
    /// Comma-separated values (RFC 4180).
    Csv,
}

crate::text_values!(ExportFormat { Ndjson = "ndjson", Csv = "csv" });

impl FromStr for ExportFormat {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or(UnknownName)
    }
}

/// An object, as exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedObject {
    /// The object, as listed.
    #[serde(flatten)]
    pub object: ObjectSummary,
    /// When its first event was received.
    pub first_seen: Timestamp,
    /// When it was last analyzed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_analyzed_at: Option<Timestamp>,
}

/// One answer of one analysis, as exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedAnswer {
    /// The object that was analyzed.
    pub object_id: String,
    /// When the analysis was concluded.
    pub at: Timestamp,
    /// The answer.
    #[serde(flatten)]
    pub answer: VersionedAnswer,
    /// The model that answered.
    pub model: String,
    /// What asked for the analysis.
    pub source: AnalysisSource,
    /// The sequence number of the newest event that was read.
    pub read_seq: i64,
}

/// An event, as exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportedEvent {
    /// The object that it belongs to.
    pub object_id: String,
    /// The object's type now.
    pub object_type: String,
    /// Its number, in order of arrival at its object.
    pub seq: i64,
    /// The type of event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Any other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it was received.
    pub received_at: Timestamp,
}

/// A row of an export, without its cursor.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ExportedRow {
    /// An object.
    Object(ExportedObject),
    /// An answer.
    Answer(ExportedAnswer),
    /// A label.
    Label(Label),
    /// An event.
    Event(ExportedEvent),
    /// An entry of the ledger.
    Ledger(LedgerEntry),
    /// A line of the audit log.
    Audit(AuditEntry),
}
