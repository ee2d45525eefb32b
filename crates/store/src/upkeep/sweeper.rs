//! What has run out and may go, found by index and taken in small steps.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;

use crate::db::connect::{execute, fetch_all};
use crate::{Backend, Conn, Result};

/// Removes up to `most` idempotency keys that are forgotten by now.
pub async fn drop_keys(conn: &mut Conn, now: Timestamp, most: i64) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM idempotency_keys WHERE (tenant_id, idempotency_key) IN (
             SELECT tenant_id, idempotency_key FROM idempotency_keys
             WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)",
        now,
        most
    )
}

/// The accounts that keep events for some days only, with how many.
pub async fn limited_tenants(conn: &mut Conn) -> Result<Vec<(TenantId, i64)>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, event_retention_days FROM tenants
         WHERE event_retention = 'days' AND event_retention_days IS NOT NULL ORDER BY tenant_id"
    )
}

/// The accounts whose events have any limit: their summaries quote nobody.
pub async fn quoteless_tenants(conn: &mut Conn) -> Result<Vec<TenantId>> {
    let tenants: Vec<(TenantId,)> = fetch_all!(
        conn,
        "SELECT tenant_id FROM tenants WHERE event_retention <> 'forever' ORDER BY tenant_id"
    )?;
    Ok(tenants.into_iter().map(|(tenant,)| tenant).collect())
}

/// Removes the messages that up to `most` summaries of a tenant quote; says how many did.
pub async fn drop_samples(conn: &mut Conn, tenant: TenantId, most: i64) -> Result<u64> {
    // Each database has its own way to take a field out.
    let quoteless = match conn.backend() {
        Backend::Sqlite => "json_remove(state, '$.sample_messages')",
        Backend::Postgres => "state - 'sample_messages'",
    };
    let statement = format!(
        "UPDATE summaries SET samples = 0, state = {quoteless} WHERE (tenant_id, object_id) IN (
             SELECT tenant_id, object_id FROM summaries
             WHERE tenant_id = $1 AND samples > 0 ORDER BY object_id LIMIT $2)"
    );
    execute!(conn, AssertSqlSafe(statement), tenant, most)
}

/// Objects with events received before an instant, each with the newest such event among the `most` oldest ones.
pub async fn outdated(
    conn: &mut Conn,
    tenant: TenantId,
    before: Timestamp,
    most: i64,
) -> Result<Vec<(String, i64)>> {
    fetch_all!(
        conn,
        "SELECT object_id, max(seq) FROM (
             SELECT object_id, seq FROM events WHERE tenant_id = $1 AND received_at < $2 ORDER BY received_at LIMIT $3
         ) AS oldest GROUP BY object_id ORDER BY object_id",
        tenant,
        before,
        most
    )
}

/// Removes the counts of minutes and hours that no overview looks at any more.
pub async fn drop_event_tallies(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<()> {
    execute!(conn, "DELETE FROM event_tallies WHERE tenant_id = $1 AND minute < $2", tenant, before)?;
    execute!(conn, "DELETE FROM hourly_event_tallies WHERE tenant_id = $1 AND hour < $2", tenant, before)?;
    Ok(())
}
