//! Objects: ingest of events, recording them in groups, and reading objects.

pub(crate) mod answer_history;
pub(crate) mod answers;
mod cache;
mod conditions;
pub(crate) mod counts;
mod idempotency;
pub(crate) mod ingest;
mod overview;
mod page_cursor;
pub(crate) mod reads;
mod recorder;

pub use store::objects::reads::Sort;

pub use self::answer_history::{AnswerHistory, AnswerQuery};
pub use self::conditions::ConditionChecks;
pub use self::counts::Counts;
pub use self::ingest::{Ingest, Ingested};
pub use self::overview::Overviews;
pub use self::reads::{ObjectQuery, ObjectReads};

pub(crate) use self::answer_history::record as history_record;
pub(crate) use self::cache::ObjectCache;
pub(crate) use self::recorder::Recorder;

/// Objects and their events.
pub struct Objects {
    /// Records events.
    pub ingest: Ingest,
    /// Reads objects.
    pub reads: ObjectReads,
    /// Numbers of objects, and how their answers are distributed.
    pub counts: Counts,
    /// The past of answers.
    pub answers: AnswerHistory,
    /// Checks conditions.
    pub conditions: ConditionChecks,
    /// Counts and summaries of a tenant.
    pub overview: Overviews,
}
