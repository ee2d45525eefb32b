//! A request to record events, and its outcome.

use model::{NewEvent, TenantId, Timestamp};

use crate::analysis::history::ObjectHistory;
use crate::analysis::jobs::Schedule;
use crate::analysis::verdict_slots::VerdictSlot;
use crate::db::bigint;

/// One request, ready to be recorded.
#[derive(Clone, Debug)]
pub struct IngestRequest {
    /// Whose it is.
    pub tenant: TenantId,
    /// The object that it is about.
    pub object_id: String,
    /// The object's type, if the request names one.
    pub object_type: Option<String>,
    /// The object's display name, if the request names one.
    pub display_name: Option<String>,
    /// What happened.
    pub events: Vec<NewEvent>,
    /// The caller's idempotency key.
    pub idempotency: Option<IdempotencyKey>,
    /// When to analyze the object; none when the caller waits for a verdict.
    pub schedule: Option<Schedule>,
    /// The verdict slot that a caller who waits needs.
    pub verdict_slot: Option<VerdictSlot>,
    /// When it was received.
    pub received_at: Timestamp,
    /// The trace that its analysis belongs to.
    pub traceparent: Option<String>,
}

impl IngestRequest {
    /// The bytes of contents and metadata that it stores.
    pub fn stored_bytes(&self) -> i64 {
        bigint(self.events.iter().map(NewEvent::bytes).sum())
    }

    /// The bytes of all texts of its events.
    pub fn sent_bytes(&self) -> i64 {
        let names = self.events.iter().map(|event| event.name.as_ref().map_or(0, String::len));
        self.stored_bytes() + bigint(names.sum())
    }
}

/// A caller's idempotency key.
#[derive(Clone, Debug)]
pub struct IdempotencyKey {
    /// The key.
    pub key: String,
    /// Whether the caller waits for a verdict.
    pub kind: IngestKind,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Whether the caller waits for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestKind {
    /// The caller does not wait.
    Async,
    /// The caller waits.
    Sync,
}

model::text_values!(IngestKind { Async = "async", Sync = "sync" });
model::sql_text!(IngestKind);

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was recorded.
    New {
        /// The sequence number of the last event of the request.
        last_seq: i64,
        /// Whether it got the verdict slot that it asked for.
        has_slot: bool,
        /// The whole history of the object, if the request created it and the caller waits.
        new_object: Option<Box<ObjectHistory>>,
    },
    /// The key was used before, for the same object and kind: nothing was recorded again.
    Replayed {
        /// How many events the first request recorded.
        accepted: i64,
    },
    /// The key belongs to a request that waited for a verdict, or waits now.
    Conflict,
    /// The key was used for another object.
    KeyReused,
    /// The tenant's balance is empty: nothing was recorded.
    PaymentRequired,
    /// The tenant may not store that many bytes: nothing was recorded.
    QuotaExceeded,
}
