//! Verdict slots: one row for each synchronous analysis in flight, which expires by itself.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Batch, Conn, Result, Rows, execute, fetch_one};

/// A slot that a synchronous analysis asks for.
#[derive(Clone, Copy, Debug)]
pub struct VerdictSlot {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub slot_id: Uuid,
    /// When it is asked for.
    pub now: Timestamp,
    /// When it expires.
    pub until: Timestamp,
    /// How many slots the tenant has.
    pub limit: i64,
}

/// Locks the slots of tenants until the transaction ends, so that two nodes cannot both take the last one. On SQLite the
/// write transaction is the lock. Advisory locks: a transaction that changes the tenant's row does not delay its verdicts.
pub(crate) async fn lock(conn: &mut Conn, requested: &[&VerdictSlot]) -> Result<()> {
    if let Conn::Postgres(lent) = conn
        && !requested.is_empty()
    {
        let tenants: BTreeSet<TenantId> = requested.iter().map(|slot| slot.tenant).collect();
        sqlx::query(
            "SELECT pg_advisory_xact_lock(hashtextextended(tenant_id::text, 0))
             FROM UNNEST($1::uuid[]) AS tenants (tenant_id)",
        )
        .bind(tenants.into_iter().collect::<Vec<_>>())
        .execute(lent.native())
        .await?;
    }
    Ok(())
}

/// Takes slots, in the order given, of tenants that have fewer in flight than their limit; returns the ids of those taken.
/// The slots are locked; `in_flight` is how many each tenant has.
pub(crate) fn take(
    batch: &mut Batch,
    requested: &[&VerdictSlot],
    mut in_flight: HashMap<TenantId, i64>,
) -> HashSet<Uuid> {
    let mut taken: Vec<&VerdictSlot> = Vec::new();
    for slot in requested {
        let in_flight = in_flight.entry(slot.tenant).or_default();
        if *in_flight < slot.limit {
            *in_flight += 1;
            taken.push(slot);
        }
    }
    batch.add(
        Rows::of(&taken)
            .column("tenant_id", |slot| slot.tenant)
            .column("lease_id", |slot| slot.slot_id)
            .column("expires_at", |slot| slot.until)
            .insert("sync_leases", ""),
    );
    taken.into_iter().map(|slot| slot.slot_id).collect()
}

/// Takes one slot; false when all are taken.
pub async fn take_one(conn: &mut Conn, slot: &VerdictSlot) -> Result<bool> {
    lock(conn, &[slot]).await?;
    let (in_flight,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM sync_leases WHERE tenant_id = $1 AND expires_at > $2",
        slot.tenant,
        slot.now
    )?;
    let mut batch = conn.batch();
    let taken = take(&mut batch, &[slot], HashMap::from([(slot.tenant, in_flight)]));
    batch.run(conn).await?;
    Ok(taken.contains(&slot.slot_id))
}

/// Releases slots, each by its tenant and id.
pub fn release_all(batch: &mut Batch, slots: &[(TenantId, Uuid)]) {
    batch.add(
        Rows::of(slots)
            .column("tenant_id", |slot| slot.0)
            .column("lease_id", |slot| slot.1)
            .delete("sync_leases", ""),
    );
}

/// Releases a slot.
pub async fn release(conn: &mut Conn, tenant: TenantId, slot_id: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM sync_leases WHERE tenant_id = $1 AND lease_id = $2", tenant, slot_id)?;
    Ok(())
}

/// Removes expired slots: those of nodes that crashed.
pub async fn sweep(conn: &mut Conn, now: Timestamp) -> Result<()> {
    execute!(conn, "DELETE FROM sync_leases WHERE expires_at <= $1", now)?;
    Ok(())
}
