//! Idempotency keys of ingest: what a key may be, and how long it is remembered. `store/src/objects/idempotency.rs` finds
//! repeats.

use std::time::Duration;

use model::Timestamp;
use store::objects::request::{IdempotencyKey, IngestKind};

use crate::runtime::{Error, Result};

/// How long an idempotency key is remembered. The sweeper deletes expired keys.
const KEY_LIFETIME: Duration = Duration::from_hours(24);
/// The longest idempotency key, in characters.
const MAX_KEY: usize = 255;

/// Checks the key of a request that is received now.
pub(crate) fn check(key: &str, kind: IngestKind, now: Timestamp) -> Result<IdempotencyKey> {
    if (1..=MAX_KEY).contains(&key.chars().count()) {
        Ok(IdempotencyKey { key: key.to_owned(), kind, expires_at: now + KEY_LIFETIME })
    } else {
        Err(Error::bad_request(format!("Idempotency-Key: it must have 1 to {MAX_KEY} characters")))
    }
}
