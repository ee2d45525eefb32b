//! Analyses that wait for money, or for the end of a suspension: set aside until then, and not looked at in between.
//!
//! A job that is set aside keeps its time and everything else, but is never due. Setting aside and waking both happen under
//! the lock of the tenant's balance, so that no job is set aside after the top-up that should have woken it.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::analysis::jobs::LeasedJob;
use crate::db::notify;
use crate::db::{Conn, Result, execute, fetch_all, fetch_optional};

/// Sets a leased job aside; false when the lease was lost.
pub async fn park(conn: &mut Conn, job: &LeasedJob, token: Uuid) -> Result<bool> {
    let parked = execute!(
        conn,
        "UPDATE jobs SET unpaid = TRUE, lease_token = NULL, lease_until = NULL, begun = 0
         WHERE tenant_id = $1 AND object_id = $2 AND lease_token = $3",
        job.tenant_id,
        &job.object_id,
        token
    )?;
    Ok(parked == 1)
}

/// Sets up to `limit` due jobs of a tenant aside: without money none of them can run.
pub async fn park_due(conn: &mut Conn, tenant: TenantId, now: Timestamp, limit: i64) -> Result<u64> {
    // Materialized: run again for each row, the inner query would lock and change more than its limit.
    let statement = format!(
        "WITH due AS MATERIALIZED (
             SELECT tenant_id AS due_tenant, object_id AS due_object FROM jobs
             WHERE priority IN (0, 1) AND tenant_id = $1 AND due_at <= $2 AND attempts <> -1 LIMIT $3 {}
         )
         UPDATE jobs SET unpaid = TRUE, lease_token = NULL, lease_until = NULL
         FROM due WHERE tenant_id {} AND object_id = due_object",
        conn.backend().skip_locked(),
        conn.looked_up_in_shard("due_tenant", "tenant_id = $1")
    );
    execute!(conn, AssertSqlSafe(statement), tenant, now, limit)
}

/// Whether a tenant has due jobs, which [`park_due`] would set aside.
pub async fn has_due(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<bool> {
    let found: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT CAST(1 AS bigint) FROM jobs
         WHERE priority IN (0, 1) AND tenant_id = $1 AND due_at <= $2 AND attempts <> -1 LIMIT 1",
        tenant,
        now
    )?;
    Ok(found.is_some())
}

/// Makes up to `limit` unpaid jobs of a tenant due again; returns how many.
pub async fn resume(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<u64> {
    let statement = format!(
        "WITH waiting AS MATERIALIZED (
             SELECT tenant_id AS waiting_tenant, object_id AS waiting_object FROM jobs
             WHERE tenant_id = $1 AND unpaid ORDER BY object_id LIMIT $2 {}
         )
         UPDATE jobs SET unpaid = FALSE FROM waiting
         WHERE tenant_id {} AND object_id = waiting_object",
        // The caller has locked the balance, and a transaction that has locked a job may wait for that lock. The caller
        // comes back for the jobs that are skipped.
        conn.backend().skip_locked(),
        conn.looked_up_in_shard("waiting_tenant", "tenant_id = $1")
    );
    let woken = execute!(conn, AssertSqlSafe(statement), tenant, limit)?;
    if woken > 0 {
        notify::notify_jobs(conn).await?;
    }
    Ok(woken)
}

/// The tenants with unpaid jobs, one step of the index each, however many jobs they have.
pub async fn tenants(conn: &mut Conn) -> Result<Vec<TenantId>> {
    if conn.is_sharded() {
        let tenants: Vec<(TenantId,)> =
            fetch_all!(conn, "SELECT DISTINCT tenant_id FROM jobs WHERE unpaid ORDER BY tenant_id")?;
        return Ok(tenants.into_iter().map(|(tenant,)| tenant).collect());
    }
    let tenants: Vec<(TenantId,)> = fetch_all!(
        conn,
        "WITH RECURSIVE waiting (tenant_id) AS (
             SELECT tenant_id FROM (SELECT tenant_id FROM jobs WHERE unpaid AND tenant_id > $1
                                    ORDER BY tenant_id LIMIT 1) AS first
             UNION ALL
             SELECT (SELECT jobs.tenant_id FROM jobs WHERE unpaid AND jobs.tenant_id > waiting.tenant_id
                     ORDER BY jobs.tenant_id LIMIT 1)
             FROM waiting WHERE waiting.tenant_id IS NOT NULL
         )
         SELECT tenant_id FROM waiting WHERE tenant_id IS NOT NULL",
        TenantId(Uuid::nil())
    )?;
    Ok(tenants.into_iter().map(|(tenant,)| tenant).collect())
}
