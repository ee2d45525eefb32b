//! The request budget of a tenant in one window, out of which nodes lease blocks.

use std::time::Duration;

use model::{TenantId, Timestamp};

use crate::db::{Conn, Result, execute, fetch_optional};

/// Leases `block` requests of the window that starts at `window`, unless `limit` requests are already leased.
///
/// Returns how many have been leased in this window, these included: what exceeds `limit` is not the caller's to use.
///
/// A node whose clock is a little slow takes its block from the window of the others, and cannot reset the budget. A
/// window more than `ahead` of the caller's comes from a wrong clock: it is replaced, because otherwise the tenant would
/// wait for that time to come.
pub async fn lease(
    conn: &mut Conn,
    tenant: TenantId,
    window: Timestamp,
    ahead: Duration,
    block: i64,
    limit: i64,
) -> Result<Option<i64>> {
    let leased: Option<(i64,)> = fetch_optional!(
        conn,
        "INSERT INTO rate_budgets (tenant_id, window_start, granted) VALUES ($1, $2, $4)
         ON CONFLICT (tenant_id) DO UPDATE SET
             granted = $4 + CASE WHEN rate_budgets.window_start BETWEEN $2 AND $3
                                 THEN rate_budgets.granted ELSE 0 END,
             window_start = CASE WHEN rate_budgets.window_start BETWEEN $2 AND $3
                                 THEN rate_budgets.window_start ELSE $2 END
         WHERE rate_budgets.granted < $5 OR rate_budgets.window_start NOT BETWEEN $2 AND $3
         RETURNING granted",
        tenant,
        window,
        window + ahead,
        block,
        limit
    )?;
    Ok(leased.map(|(granted,)| granted))
}

/// Removes a tenant's budget if its window started before an instant: the next request starts a new one.
pub async fn drop_old(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<u64> {
    execute!(conn, "DELETE FROM rate_budgets WHERE tenant_id = $1 AND window_start < $2", tenant, before)
}
