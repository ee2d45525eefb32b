//! Leases: how workers hold jobs, deliveries and messages while they work on them.

use model::Timestamp;
use uuid::Uuid;

/// A claim on a row, until an instant: only its token ends it earlier, and once it has expired anybody may claim the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Known to the worker that claimed the row.
    pub token: Uuid,
    /// When it expires.
    pub until: Timestamp,
}
