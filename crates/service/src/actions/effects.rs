//! A finished analysis, as rules and webhooks see it, and the effects that were queued because of it.

use model::api::{ActionType, FiringStatus};
use model::{Answer, TenantId, Timestamp};

use crate::actions::webhooks::HandedDelivery;

/// A finished analysis, in the transaction that writes it. Its answers need not be the object's current ones, which are
/// in the store: an older analysis does not replace newer answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConcludedAnalysis<'a> {
    /// The tenant that owns the object.
    pub(crate) tenant: TenantId,
    /// The object.
    pub(crate) object_id: &'a str,
    /// The answers of this analysis.
    pub(crate) answers: &'a [Answer],
    /// The model that answered.
    pub(crate) model: &'a str,
    /// The newest event that was read.
    pub(crate) read_seq: i64,
    /// Whether a caller waited for it.
    pub(crate) is_sync: bool,
    /// When it finished.
    pub(crate) at: Timestamp,
    /// The trace that it is part of.
    pub(crate) traceparent: Option<&'a str>,
}

/// What a transaction has queued: after the commit, workers are woken and firings are counted.
#[derive(Default)]
#[must_use]
pub(crate) struct Effects {
    /// Whether mails were queued.
    pub(crate) mails: bool,
    /// Whether chat messages were queued.
    pub(crate) chats: bool,
    /// Whether deliveries were queued that are to be claimed.
    pub(crate) deliveries: bool,
    /// Deliveries that are born leased.
    pub(crate) handed: Vec<HandedDelivery>,
    /// The firings that were recorded.
    pub(crate) firings: Vec<(ActionType, FiringStatus)>,
}
