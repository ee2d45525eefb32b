//! The position of a row in its export, and the cursor that says it.

use model::Timestamp;
use model::api::ExportKind;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::range::Range;
use crate::runtime::cursor::CursorTime;

/// The position after all answers of an analysis.
pub(super) const LAST_ANSWER: u32 = u32::MAX;

/// The position of a row: what a page starts after. Names are short, because every row has a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Position {
    /// The object's id.
    #[serde(rename = "o")]
    Object(String),
    /// The analysis, its object, and which of its answers; [`LAST_ANSWER`] is after all of them.
    #[serde(rename = "a")]
    Answer(Uuid, String, u32),
    /// The label.
    #[serde(rename = "l")]
    Label(Uuid),
    /// When the event was received, its object and its number.
    #[serde(rename = "e")]
    Event(CursorTime, String, i64),
    /// The number of the entry.
    #[serde(rename = "m")]
    Ledger(i64),
    /// The number of the line.
    #[serde(rename = "u")]
    Audit(i64),
}

impl Position {
    fn kind(&self) -> ExportKind {
        match self {
            Self::Object(_) => ExportKind::Objects,
            Self::Answer(..) => ExportKind::Answers,
            Self::Label(_) => ExportKind::Labels,
            Self::Event(..) => ExportKind::Events,
            Self::Ledger(_) => ExportKind::Ledger,
            Self::Audit(_) => ExportKind::Audit,
        }
    }

    /// Whether both databases can compare with it.
    fn is_comparable(&self) -> bool {
        match self {
            Self::Object(text) | Self::Answer(_, text, _) | Self::Event(_, text, _) => !text.contains('\0'),
            Self::Label(_) | Self::Ledger(_) | Self::Audit(_) => true,
        }
    }
}

/// The cursor of a row: where it is, in an export of which range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExportCursor {
    #[serde(rename = "p")]
    pub(super) position: Position,
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    from: Option<i64>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    to: Option<i64>,
}

impl ExportCursor {
    pub(super) fn new(range: Range, position: Position) -> Self {
        Self { position, from: range.from.map(Timestamp::micros), to: range.to.map(Timestamp::micros) }
    }

    /// Whether this is the cursor of a row of such an export.
    pub(super) fn belongs_to(&self, what: ExportKind, range: Range) -> bool {
        self.position.kind() == what
            && self.position.is_comparable()
            && *self == Self::new(range, self.position.clone())
    }
}
