//! Places in flight: one row for each synchronous analysis, which runs out by itself.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::connect::{execute, fetch_one};
use crate::db::round::{Round, change_later, insert_later};
use crate::{Conn, Result};

/// A place that a synchronous analysis needs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Whose it is.
    pub tenant: TenantId,
    /// Names it.
    pub lease: Uuid,
    /// When it is asked for.
    pub now: Timestamp,
    /// When it runs out.
    pub until: Timestamp,
    /// How many places the tenant has.
    pub limit: i64,
}

/// Holds the places of tenants until the transaction ends, so that two nodes cannot both take the last one. On SQLite the
/// write transaction sees to that. Locks of their own: whoever edits the tenant does not hold up its requests.
pub(crate) async fn lock(conn: &mut Conn, wanted: &[&Place]) -> Result<()> {
    if let Conn::Postgres(held) = conn
        && !wanted.is_empty()
    {
        let tenants: BTreeSet<TenantId> = wanted.iter().map(|place| place.tenant).collect();
        sqlx::query(
            "SELECT pg_advisory_xact_lock(hashtextextended(tenant_id::text, 0))
             FROM UNNEST($1::uuid[]) AS tenants (tenant_id)",
        )
        .bind(tenants.into_iter().collect::<Vec<_>>())
        .execute(held.native().await?)
        .await?;
    }
    Ok(())
}

/// Takes places with the round where fewer than the limit are taken, in the order given, and says which. The places are
/// locked; `taken` is how many each tenant has in flight.
pub(crate) fn take(round: &mut Round, wanted: &[&Place], mut taken: HashMap<TenantId, i64>) -> HashSet<Uuid> {
    let mut placed: Vec<&Place> = Vec::new();
    for place in wanted {
        let taken = taken.entry(place.tenant).or_default();
        if *taken < place.limit {
            *taken += 1;
            placed.push(place);
        }
    }
    insert_later!(
        round,
        &placed,
        "sync_leases",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("lease_id", "uuid", |row| row.lease),
            ("expires_at", "timestamptz", |row| row.until),
        ],
        "",
    );
    placed.into_iter().map(|place| place.lease).collect()
}

/// Takes one place; false when all are taken.
pub async fn take_one(conn: &mut Conn, place: &Place) -> Result<bool> {
    lock(conn, &[place]).await?;
    let (taken,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM sync_leases WHERE tenant_id = $1 AND expires_at > $2",
        place.tenant,
        place.now
    )?;
    let mut round = conn.round();
    let placed = take(&mut round, &[place], HashMap::from([(place.tenant, taken)]));
    round.run(conn).await?;
    Ok(placed.contains(&place.lease))
}

/// Gives places back with the round.
pub fn release_all(round: &mut Round, places: &[(TenantId, Uuid)]) {
    change_later!(
        round,
        places,
        [("tenant_id", "uuid", |row| row.0), ("lease_id", "uuid", |row| row.1)],
        "DELETE FROM sync_leases WHERE (tenant_id, lease_id) IN (SELECT tenant_id, lease_id FROM given)",
    );
}

/// Gives a place back.
pub async fn release(conn: &mut Conn, tenant: TenantId, lease: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM sync_leases WHERE tenant_id = $1 AND lease_id = $2", tenant, lease)?;
    Ok(())
}

/// Removes places that have run out: those of nodes that crashed.
pub async fn sweep(conn: &mut Conn, now: Timestamp) -> Result<()> {
    execute!(conn, "DELETE FROM sync_leases WHERE expires_at <= $1", now)?;
    Ok(())
}
