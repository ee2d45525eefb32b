//! Places in flight: one row for each synchronous analysis, which runs out by itself.

use std::collections::{BTreeMap, HashSet};

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::bulk::with_rows;
use crate::database::execute;
use crate::round::{Round, change_later, insert_later};
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

/// Takes places with the round where fewer than the limit are taken, in the order given, and says which.
pub(crate) async fn take(conn: &mut Conn, round: &mut Round, wanted: &[&Place]) -> Result<HashSet<Uuid>> {
    let moments: BTreeMap<TenantId, Timestamp> =
        wanted.iter().map(|place| (place.tenant, place.now)).collect();
    let moments: Vec<(TenantId, Timestamp)> = moments.into_iter().collect();
    lock(conn, &moments).await?;
    let found = with_rows!(
        (TenantId, i64, i64);
        conn,
        &moments,
        [("tenant_id", "uuid", |row| row.0), ("moment", "timestamptz", |row| row.1)],
        "SELECT tenant_id, count(*), sum(CASE WHEN expires_at > moment THEN 0 ELSE 1 END)
         FROM given JOIN sync_leases USING (tenant_id) GROUP BY tenant_id",
    );
    if found.iter().any(|(_, _, expired)| *expired > 0) {
        change_later!(
            round,
            &moments,
            [("tenant_id", "uuid", |row| row.0), ("moment", "timestamptz", |row| row.1)],
            "DELETE FROM sync_leases WHERE (tenant_id, lease_id) IN
                 (SELECT tenant_id, lease_id FROM given JOIN sync_leases USING (tenant_id) WHERE expires_at <= moment)",
        );
    }
    let mut taken: BTreeMap<TenantId, i64> =
        found.into_iter().map(|(tenant, all, expired)| (tenant, all - expired)).collect();
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
    Ok(placed.into_iter().map(|place| place.lease).collect())
}

/// Takes one place; false when all are taken.
pub async fn take_one(conn: &mut Conn, place: &Place) -> Result<bool> {
    let mut round = conn.round();
    let placed = take(conn, &mut round, &[place]).await?;
    round.run(conn).await?;
    Ok(placed.contains(&place.lease))
}

/// Holds the tenants' places until the transaction ends, so that two nodes cannot both take the last one. On SQLite the
/// write transaction sees to that. Locks of their own: whoever edits the tenant does not hold up its requests.
async fn lock(conn: &mut Conn, tenants: &[(TenantId, Timestamp)]) -> Result<()> {
    if let Conn::Postgres(held) = conn
        && !tenants.is_empty()
    {
        let tenants: Vec<TenantId> = tenants.iter().map(|(tenant, _)| *tenant).collect();
        sqlx::query(
            "SELECT pg_advisory_xact_lock(hashtextextended(tenant_id::text, 0))
             FROM UNNEST($1::uuid[]) AS tenants (tenant_id)",
        )
        .bind(tenants)
        .execute(held.native())
        .await?;
    }
    Ok(())
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
