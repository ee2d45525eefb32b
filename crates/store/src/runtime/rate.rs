//! The budgets of a tenant in one window, out of which nodes lease blocks.

use std::time::Duration;

use model::{TenantId, Timestamp};

use crate::db::{Conn, Result, execute, fetch_optional};

/// What a budget is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Requests.
    Requests,
    /// Bytes of events.
    Bytes,
}

macro_rules! lease_statement {
    ($table:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (tenant_id, window_start, granted) VALUES ($1, $2, $4)
             ON CONFLICT (tenant_id) DO UPDATE SET
                 granted = $4 + CASE WHEN ",
            $table,
            ".window_start BETWEEN $2 AND $3
                                     THEN ",
            $table,
            ".granted ELSE 0 END,
                 window_start = CASE WHEN ",
            $table,
            ".window_start BETWEEN $2 AND $3
                                     THEN ",
            $table,
            ".window_start ELSE $2 END
             WHERE ",
            $table,
            ".granted < $5 OR ",
            $table,
            ".window_start NOT BETWEEN $2 AND $3
             RETURNING granted"
        )
    };
}

/// A window of a budget.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// When it starts.
    pub start: Timestamp,
    /// How far ahead of it another node's window may be.
    pub ahead: Duration,
}

/// Leases `block` out of a tenant's budget of a window, unless `limit` is already leased.
///
/// Returns how much has been leased in this window, this included: what exceeds `limit` is not the caller's to use.
///
/// A node whose clock is a little slow takes its block from the window of the others, and cannot reset the budget. A
/// window more than `ahead` of the caller's comes from a wrong clock: it is replaced, because otherwise the tenant would
/// wait for that time to come.
pub async fn lease(
    conn: &mut Conn,
    budget: Budget,
    tenant: TenantId,
    window: Window,
    block: i64,
    limit: i64,
) -> Result<Option<i64>> {
    let Window { start, ahead } = window;
    let statement = match budget {
        Budget::Requests => lease_statement!("rate_budgets"),
        Budget::Bytes => lease_statement!("ingest_budgets"),
    };
    let leased: Option<(i64,)> =
        fetch_optional!(conn, statement, tenant, start, start + ahead, block, limit)?;
    Ok(leased.map(|(granted,)| granted))
}

/// Removes a tenant's budgets whose window started before an instant: the next request starts a new one.
pub async fn drop_old(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<()> {
    execute!(conn, "DELETE FROM rate_budgets WHERE tenant_id = $1 AND window_start < $2", tenant, before)?;
    execute!(conn, "DELETE FROM ingest_budgets WHERE tenant_id = $1 AND window_start < $2", tenant, before)?;
    Ok(())
}
