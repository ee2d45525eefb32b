//! Objects: taking events in, recording them in groups, and reading objects back.

pub(crate) mod answers;
mod cache;
pub(crate) mod ingest;
mod overview;
mod reads;
mod recorder;

pub use store::objects::reads::Sort;

pub use self::ingest::{Ingest, Ingested};
pub use self::overview::Overviews;
pub use self::reads::{ObjectQuery, ObjectReads};

pub(crate) use self::cache::ObjectCache;
pub(crate) use self::recorder::Recorder;

/// Everything about objects and their events.
pub struct Objects {
    /// Events in.
    pub ingest: Ingest,
    /// Objects out.
    pub reads: ObjectReads,
    /// An account at a glance.
    pub overview: Overviews,
}
