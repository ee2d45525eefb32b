//! Moving everything that is sealed from one master key to another, in small steps, while no service runs.
//!
//! Before the first step the database notes the key that it moves to, and a service that is started meanwhile stops with a
//! word about it. After the last the fingerprint changes with that note, in one transaction. What was interrupted goes on
//! where it was: values that the new key has sealed are left alone.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::runtime::nodes;
use store::upkeep::deployment;
use store::upkeep::rekeying::{self, COLUMNS, Column};
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{Random, Result, Sealer};

/// The fact that names the database's master key.
pub const MASTER_KEY_FACT: &str = "master_key";
/// The fact that names the key which everything is being moved to.
const NEXT_FACT: &str = "master_key_next";
/// Values of one transaction: it is over in milliseconds, so that nothing else waits long.
const STEP: i64 = 200;
/// A node that was seen within this time may still be running.
const LIVE: Duration = Duration::from_secs(15);

/// Why everything stays with the key that it has.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RekeyError {
    #[error(
        "AUSPEX_MASTER_KEY_PREVIOUS is not set: it must be the key until now, and AUSPEX_MASTER_KEY the new one"
    )]
    NoPreviousKey,
    #[error("there is nothing to do: AUSPEX_MASTER_KEY and AUSPEX_MASTER_KEY_PREVIOUS are the same key")]
    SameKey,
    #[error("there is nothing to do: this database is on AUSPEX_MASTER_KEY already")]
    AlreadyMoved,
    #[error("there is nothing to do: no service has used this database yet")]
    Unused,
    #[error("AUSPEX_MASTER_KEY_PREVIOUS is not the master key of this database; nothing was changed")]
    OtherPreviousKey,
    #[error("an earlier run began to move this database to another new key: finish it with that one")]
    OtherNextKey,
    #[error("{0} processes of the service are running on this database: stop them first")]
    Running(i64),
    #[error("{place} of row {row} can be opened with neither key; the database stays on the previous one")]
    Unreadable { place: &'static str, row: Uuid },
    #[error("something still seals with the previous key: stop it, and run this again")]
    StillSealing,
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl store::StoreError for RekeyError {
    fn store_error(&self) -> Option<&store::Error> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether a move to another key was begun and is not finished.
pub async fn is_rekeying(store: &Store) -> store::Result<bool> {
    store.read("is_rekeying", async |conn| Ok(deployment::find(conn, NEXT_FACT).await?.is_some())).await
}

/// Moves everything from the sealer's previous key to its current one, and says how many values that were.
pub async fn rekey(
    store: &Store,
    sealer: &Sealer,
    random: &Random,
    now: Timestamp,
) -> Result<u64, RekeyError> {
    begin(store, sealer, now).await?;
    let mut moved = 0;
    for column in COLUMNS {
        let mut last = None;
        loop {
            let (number, end) = step(store, sealer, random, column, last).await?;
            moved += number;
            if end.is_none() {
                break;
            }
            last = end;
        }
    }
    finish(store, sealer).await?;
    Ok(moved)
}

/// Checks that there is something to do and nothing in the way, and notes that it is under way.
async fn begin(store: &Store, sealer: &Sealer, now: Timestamp) -> Result<(), RekeyError> {
    let (previous, next) = (sealer.previous_fingerprint(), sealer.fingerprint());
    store
        .write("begin_rekeying", async |conn: &mut Conn| {
            let previous = previous.as_deref().ok_or(RekeyError::NoPreviousKey)?;
            if previous == next {
                return Err(RekeyError::SameKey);
            }
            match deployment::find(conn, MASTER_KEY_FACT).await? {
                None => return Err(RekeyError::Unused),
                Some(kept) if kept == next => return Err(RekeyError::AlreadyMoved),
                Some(kept) if kept != previous => return Err(RekeyError::OtherPreviousKey),
                Some(_) => {}
            }
            if deployment::find(conn, NEXT_FACT).await?.is_some_and(|begun| begun != next) {
                return Err(RekeyError::OtherNextKey);
            }
            match nodes::seen_after(conn, now - LIVE).await? {
                0 => {}
                running => return Err(RekeyError::Running(running)),
            }
            deployment::set(conn, NEXT_FACT, &next).await?;
            Ok(())
        })
        .await
}

/// Moves the next few values of a column. Returns how many it moved and the row that it came to, none at the end.
async fn step(
    store: &Store,
    sealer: &Sealer,
    random: &Random,
    column: Column,
    last: Option<(TenantId, Uuid)>,
) -> Result<(u64, Option<(TenantId, Uuid)>), RekeyError> {
    store
        .write("rekey", async |conn: &mut Conn| {
            let values = rekeying::after(conn, column, last, STEP).await?;
            let mut moved = 0;
            for value in &values {
                if sealer.sealed_with_current(&value.sealed) {
                    continue;
                }
                let unreadable =
                    |_| RekeyError::Unreadable { place: column.qualified_name, row: value.row_id };
                let plain =
                    sealer.open(column.qualified_name, value.row_id, &value.sealed).map_err(unreadable)?;
                let anew = sealer.seal(random, column.qualified_name, value.row_id, &plain);
                moved += u64::from(rekeying::replace(conn, column, value, &anew).await?);
            }
            Ok((moved, values.last().map(|value| (value.tenant_id, value.row_id))))
        })
        .await
}

/// Makes the new key that of the database, if nothing is left with another.
async fn finish(store: &Store, sealer: &Sealer) -> Result<(), RekeyError> {
    store
        .write("finish_rekeying", async |conn: &mut Conn| {
            for column in COLUMNS {
                if rekeying::sealed_otherwise(conn, column, &sealer.current_id()).await? > 0 {
                    return Err(RekeyError::StillSealing);
                }
            }
            deployment::set(conn, MASTER_KEY_FACT, &sealer.fingerprint()).await?;
            deployment::forget(conn, NEXT_FACT).await?;
            Ok(())
        })
        .await
}
