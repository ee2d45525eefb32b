//! An analysis that has just been written, for rules and webhooks to go by, and what follows once it is committed.

use model::api::{ActionType, FiringStatus};
use model::{Answer, TenantId, Timestamp};

use crate::Service;

/// An analysis that has just been written, in the transaction that is still open. What stands about the object is for
/// the store to say: an older analysis does not replace newer answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concluded<'a> {
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

/// What was queued in a transaction: once it is committed, workers are woken and firings are counted.
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

impl Service {
    /// Wakes and counts, after the commit: a worker that looks earlier finds nothing and goes back to sleep.
    pub(crate) fn follow_up(&self, consequences: &Consequences) {
        if consequences.mails {
            self.mailer.wake();
        }
        if consequences.chats {
            self.slack.wake();
        }
        if consequences.deliveries {
            self.courier_bell.ring();
        }
        for (action, status) in &consequences.firings {
            metrics::counter!("auspex_rule_firings_total", "action" => action.as_str(), "status" => status.as_str())
                .increment(1);
        }
    }
}
