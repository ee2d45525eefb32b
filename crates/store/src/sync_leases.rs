//! Places in flight: one row for each synchronous analysis, which runs out by itself.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::database::{execute, fetch_one};
use crate::transaction::expect_one;
use crate::{Conn, Result, tenants};

/// Takes a place, if fewer than `limit` are taken.
pub async fn take(
    conn: &mut Conn,
    tenant: TenantId,
    lease: Uuid,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Result<bool> {
    // Locked, so that two nodes cannot both take the last place.
    tenants::lock(conn, tenant).await?;
    execute!(conn, "DELETE FROM sync_leases WHERE tenant_id = $1 AND expires_at <= $2", tenant, now)?;
    let (taken,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM sync_leases WHERE tenant_id = $1", tenant)?;
    if taken >= limit {
        return Ok(false);
    }
    expect_one(execute!(
        conn,
        "INSERT INTO sync_leases (tenant_id, lease_id, expires_at) VALUES ($1, $2, $3)",
        tenant,
        lease,
        until
    )?)?;
    Ok(true)
}

/// Gives a place back.
pub async fn release(conn: &mut Conn, tenant: TenantId, lease: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM sync_leases WHERE tenant_id = $1 AND lease_id = $2", tenant, lease)?;
    Ok(())
}
