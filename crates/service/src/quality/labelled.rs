//! Labels that count, with the answers that stood when they were given.

use model::api::{LabelAnswer, LabelValue};
use model::quality::{ClassAnswer, Classes, Labelled, YesNoAnswer};
use model::{AnswerValue, Question, TenantId};
use store::Conn;
use store::quality::labels::{self, AnsweredLabel};
use uuid::Uuid;

use crate::runtime::{Result, internal};

/// The newest labels that figures and fits go by: a request must have an end.
const MAX_LABELS: i64 = 50_000;

/// A label and the answer that it is compared with.
pub(crate) struct Comparison {
    pub(crate) value: LabelValue,
    pub(crate) answer: LabelAnswer,
    label: AnsweredLabel,
}

/// Reads the newest labels about a question that count and have an answer.
pub(crate) async fn read(conn: &mut Conn, tenant: TenantId, signal: Uuid) -> Result<Vec<AnsweredLabel>> {
    Ok(labels::answered(conn, tenant, signal, MAX_LABELS).await?)
}

impl Comparison {
    pub(crate) fn parse(label: AnsweredLabel) -> Result<Self> {
        Ok(Self {
            value: serde_json::from_str(&label.value).map_err(internal)?,
            answer: serde_json::from_str(&label.answer).map_err(internal)?,
            label,
        })
    }

    /// When the label was given.
    pub(crate) fn at(&self) -> model::Timestamp {
        self.label.created_at
    }

    /// The yes/no answer; none of another type.
    pub(crate) fn yes_no(&self, value: &AnswerValue) -> Option<YesNoAnswer> {
        self.value.compare_yes_no(value)
    }

    /// The choice or score; none of another type.
    pub(crate) fn class(&self, classes: &mut Classes, value: &AnswerValue) -> Option<ClassAnswer> {
        self.value.compare_class(classes, value)
    }

    /// The comparison with its time.
    pub(crate) fn labelled<T>(&self, answer: T) -> Labelled<T> {
        Labelled { answer, at: self.label.created_at, audit: self.label.audit }
    }
}

/// The classes of a question.
pub(crate) fn classes(question: &Question) -> Classes {
    Classes::new(question.candidates.iter().map(|candidate| candidate.name.clone()))
}
