//! Moves all sealed secrets from one master key to another, in small steps, while no service runs.
//!
//! Before the first step the new key's fingerprint is stored in the database, and a service that is started meanwhile stops
//! with an error. After the last step the database's fingerprint is replaced, in one transaction. An interrupted run can be
//! repeated: secrets that are already sealed with the new key are skipped.

use model::{TenantId, Timestamp};
use store::runtime::nodes;
use store::upkeep::deployment;
use store::upkeep::rekeying::{self, COLUMNS, Column};
use store::{Conn, Store};
use uuid::Uuid;

use crate::runtime::{HEARTBEAT_LIFETIME, Random, Result, Sealer};

/// The deployment fact with the fingerprint of the database's master key.
pub const MASTER_KEY_FACT: &str = "master_key";
/// The deployment fact with the fingerprint of the new key while rekeying.
const NEXT_FACT: &str = "master_key_next";
/// Secrets per transaction: it takes only milliseconds, so that nothing else waits long.
const STEP: i64 = 200;
/// Why rekeying failed.
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

/// Whether rekeying was started and is not finished.
pub async fn is_rekeying(store: &Store) -> store::Result<bool> {
    store.read("is_rekeying", async |conn| Ok(deployment::find(conn, NEXT_FACT).await?.is_some())).await
}

/// Moves all secrets from the sealer's previous key to its current one, and returns their number.
pub async fn rekey(
    store: &Store,
    sealer: &Sealer,
    random: &Random,
    now: Timestamp,
) -> Result<u64, RekeyError> {
    let store = &store.for_maintenance();
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

/// Checks that rekeying is necessary and possible, and marks it as started.
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
                Some(current) if current == next => return Err(RekeyError::AlreadyMoved),
                Some(current) if current != previous => return Err(RekeyError::OtherPreviousKey),
                Some(_) => {}
            }
            if deployment::find(conn, NEXT_FACT).await?.is_some_and(|started| started != next) {
                return Err(RekeyError::OtherNextKey);
            }
            match nodes::seen_after(conn, now - HEARTBEAT_LIFETIME).await? {
                0 => {}
                running => return Err(RekeyError::Running(running)),
            }
            deployment::set(conn, NEXT_FACT, &next).await?;
            Ok(())
        })
        .await
}

/// Moves the next secrets of a column. Returns how many were moved, and the last row, or none at the end.
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
                let resealed = sealer.seal(random, column.qualified_name, value.row_id, &plain);
                moved += u64::from(rekeying::replace(conn, column, value, &resealed).await?);
            }
            Ok((moved, values.last().map(|value| (value.tenant_id, value.row_id))))
        })
        .await
}

/// Makes the new key the key of the database, if no secret is left with another.
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
