//! Removing what has expired, found by index and in small steps.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;

use crate::db::{Backend, Chosen, Conn, Result, execute, fetch_all};

/// Removes up to `limit` expired idempotency keys.
pub async fn drop_idempotency_keys(conn: &mut Conn, now: Timestamp, limit: i64) -> Result<u64> {
    let keys = Chosen {
        table: "idempotency_keys",
        key: &["tenant_id", "idempotency_key"],
        rows: "WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
        is_of_tenant: false,
    };
    let statement = keys.delete(conn);
    execute!(conn, AssertSqlSafe(statement), now, limit)
}

/// The tenants that do not keep events forever: their summaries quote no messages.
pub async fn tenants_with_limited_retention(conn: &mut Conn) -> Result<Vec<TenantId>> {
    let tenants: Vec<(TenantId,)> = fetch_all!(
        conn,
        "SELECT tenant_id FROM tenants WHERE event_retention <> 'forever' ORDER BY tenant_id"
    )?;
    Ok(tenants.into_iter().map(|(tenant,)| tenant).collect())
}

/// Removes the quoted messages from up to `limit` summaries of a tenant; returns how many summaries changed.
pub async fn drop_samples(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<u64> {
    // The databases differ in how a field is removed from JSON.
    let without_samples = match conn.backend() {
        Backend::Sqlite => "json_remove(state, '$.sample_messages')",
        Backend::Postgres => "state - 'sample_messages'",
    };
    let summaries = Chosen {
        table: "summaries",
        key: &["tenant_id", "object_id"],
        rows: "WHERE tenant_id = $1 AND samples > 0 ORDER BY object_id LIMIT $2",
        is_of_tenant: true,
    };
    let statement = summaries.update(conn, &format!("samples = 0, state = {without_samples}"));
    execute!(conn, AssertSqlSafe(statement), tenant, limit)
}

/// Objects with events received before an instant, each with the newest such event among the `limit` oldest ones.
pub async fn events_past_retention(
    conn: &mut Conn,
    tenant: TenantId,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<(String, i64)>> {
    fetch_all!(
        conn,
        "SELECT object_id, max(seq) FROM (
             SELECT object_id, seq FROM events WHERE tenant_id = $1 AND received_at < $2 AND type <> 'retained'
             ORDER BY received_at LIMIT $3
         ) AS oldest GROUP BY object_id ORDER BY object_id",
        tenant,
        before,
        limit
    )
}

/// Removes the counts of answers to signals that were deleted: an analysis that was under way then may have added some.
pub async fn drop_tallies_of_deleted_signals(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    execute!(
        conn,
        "DELETE FROM signal_tallies WHERE tenant_id = $1
           AND signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1)",
        tenant
    )?;
    Ok(())
}

/// Removes the event counts of minutes and hours before an instant.
pub async fn drop_event_tallies(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<()> {
    execute!(conn, "DELETE FROM event_tallies WHERE tenant_id = $1 AND minute < $2", tenant, before)?;
    execute!(conn, "DELETE FROM hourly_event_tallies WHERE tenant_id = $1 AND hour < $2", tenant, before)?;
    Ok(())
}
