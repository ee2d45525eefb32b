//! An analysis that has just been written, as rules and webhooks see it, and what was queued because of it.

use model::api::{ActionType, FiringStatus};
use model::{Answer, TenantId, Timestamp};

/// An analysis that has just been written, in the transaction that is still open. What stands about the object is for
/// the store to say: an older analysis does not replace newer answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConcludedAnalysis<'a> {
    /// Whose object it is.
    pub(crate) tenant: TenantId,
    /// The object.
    pub(crate) object_id: &'a str,
    /// What this analysis found.
    pub(crate) found: &'a [Answer],
    /// What answered.
    pub(crate) model: &'a str,
    /// Whether a caller waited for it.
    pub(crate) is_sync: bool,
    /// When.
    pub(crate) at: Timestamp,
    /// The trace that it is part of.
    pub(crate) traceparent: Option<&'a str>,
}

/// What a transaction queued: once it is committed, workers are woken and firings are counted.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Consequences {
    /// Whether mails were queued.
    pub(crate) mails: bool,
    /// Whether chat messages were queued.
    pub(crate) chats: bool,
    /// Whether deliveries were queued.
    pub(crate) deliveries: bool,
    /// Firings, as they were recorded.
    pub(crate) firings: Vec<(ActionType, FiringStatus)>,
}
