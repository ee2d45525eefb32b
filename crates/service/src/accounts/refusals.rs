//! Refused requests that named a key of an account: why, for its owners. The response to the request does not say.
//!
//! Whoever knows the public id of a key can cause entries, so they cost little: they are counted in memory and written by a
//! background task at most once a second, as one row a key, cause and minute, of which an account keeps the newest.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::api::{KeyRefusal, KeyRefusalCause, KeyRefusalList};
use model::{KeyId, TenantId, Timestamp};
use store::accounts::key_refusals::{self, NewRefusal, Refused};
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::{Caller, Clock, Credential, Error, Kind, Result, Wakeup};

/// How many rows an account keeps, and how many are listed.
const KEPT: i64 = 100;
/// How many rows wait to be written at most; what is refused beyond that is only logged.
const MAX_PENDING: usize = 1_000;
/// How long the writer rests after it has written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The longest detail, in characters.
const MAX_DETAIL: usize = 500;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) cause: KeyRefusalCause,
    pub(crate) detail: Option<String>,
}

impl Rejection {
    /// A cause with what exactly is wrong.
    pub(crate) fn new(cause: KeyRefusalCause, detail: impl Into<String>) -> Self {
        let mut detail: String = detail.into();
        if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL) {
            detail.truncate(end);
        }
        Self { cause, detail: Some(detail) }
    }

    /// A cause that says everything.
    pub(crate) fn bare(cause: KeyRefusalCause) -> Self {
        Self { cause, detail: None }
    }
}

/// Where a refused request came from.
#[derive(Clone, Copy, Debug)]
pub struct RefusedFrom<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The id of the request.
    pub request_id: Option<&'a str>,
}

/// Rows that wait to be written, by what makes them one row.
type Pending = HashMap<(TenantId, KeyId, KeyRefusalCause, Timestamp), NewRefusal>;

/// The refused requests of all accounts. Cheap to clone; clones share what waits.
#[derive(Clone)]
pub struct Refusals {
    store: Store,
    clock: Clock,
    pending: Arc<Mutex<Pending>>,
    /// Held while rows are written, so that a reader waits for those that are under way.
    writing: Arc<tokio::sync::Mutex<()>>,
    wakeup: Wakeup,
}

impl Refusals {
    pub(crate) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, pending: Arc::default(), writing: Arc::default(), wakeup: Wakeup::default() }
    }

    /// The newest refused requests of an account's keys.
    pub async fn list(&self, tenant: TenantId) -> Result<KeyRefusalList> {
        self.write_pending().await?;
        let rows = self
            .store
            .read("key_refusals", async |conn| key_refusals::newest(conn, tenant, KEPT).await)
            .await?;
        Ok(KeyRefusalList { refusals: rows.into_iter().map(record).collect() })
    }

    /// Notes that an authenticated key was refused an operation.
    pub fn note_forbidden(&self, caller: &Caller, refusal: &Error, from: RefusedFrom<'_>) {
        if let (Credential::Key { key, .. }, Kind::Forbidden) = (caller.credential, refusal.kind()) {
            let rejection = Rejection::new(KeyRefusalCause::Scope, refusal.message());
            self.note((caller.tenant, key), rejection, from);
        }
    }

    /// Notes that a request was refused which named this key.
    pub(crate) fn note(&self, (tenant, key): (TenantId, KeyId), rejection: Rejection, from: RefusedFrom<'_>) {
        let Rejection { cause, detail } = rejection;
        let at = self.clock.now();
        let minute = Timestamp::from_seconds(at.seconds() - at.seconds().rem_euclid(60));
        let slot = (tenant, key, cause, minute);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING && !pending.contains_key(&slot) {
            return;
        }
        let requests = pending.get(&slot).map_or(0, |known| known.requests) + 1;
        let (address, request_id) = (Some(from.address.to_string()), from.request_id.map(str::to_owned));
        let row = NewRefusal { tenant, key, cause, minute, requests, at, detail, address, request_id };
        pending.insert(slot, row);
        drop(pending);
        self.wakeup.wake();
    }

    /// Writes what was noted, until `stop` is cancelled; then once more.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut is_stopping = false;
        while !is_stopping {
            is_stopping = stop.run_until_cancelled(self.wakeup.woken()).await.is_none();
            if let Err(error) = self.write_pending().await {
                warn!(cause = error.cause(), "cannot write refused requests: {error}");
            }
            // A rest by the real time: it spares the database, and nothing depends on it.
            stop.run_until_cancelled(tokio::time::sleep(WRITE_INTERVAL)).await;
        }
    }

    /// Writes what waits, one transaction an account. What cannot be written is lost: it is in the log.
    async fn write_pending(&self) -> Result<()> {
        let _writing = self.writing.lock().await;
        let taken = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let mut rows: Vec<_> = taken.into_iter().collect();
        // In key order, to avoid deadlocks with other nodes.
        rows.sort_unstable_by_key(|(slot, _)| *slot);
        let rows: Vec<NewRefusal> = rows.into_iter().map(|(_, row)| row).collect();
        for rows in rows.chunk_by(|one, other| one.tenant == other.tenant) {
            self.store
                .write("add_key_refusals", async |conn: &mut Conn| {
                    for row in rows {
                        key_refusals::add(conn, row).await?;
                    }
                    if let Some(row) = rows.first() {
                        key_refusals::drop_surplus(conn, row.tenant, KEPT).await?;
                    }
                    Ok::<_, Error>(())
                })
                .await?;
        }
        Ok(())
    }
}

fn record(row: Refused) -> KeyRefusal {
    KeyRefusal {
        at: row.at,
        key_id: row.key_id.0,
        key: row.public_id,
        name: row.name,
        cause: row.cause,
        detail: row.detail,
        count: row.requests,
        request_id: row.request_id,
        address: row.address,
    }
}
