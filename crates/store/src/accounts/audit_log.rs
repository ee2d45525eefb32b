//! Reading, checking and sweeping the audit log. It is written in [`crate::db::audit`].

use model::{TenantId, Timestamp};
use uuid::Uuid;

pub use crate::db::audit::{Actor, Line, NewLine, Note, Origin, acting, also, append, note};
use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

/// Which lines are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineFilter<'a> {
    /// Only those of this actor.
    pub actor: Option<Uuid>,
    /// Only those of this action.
    pub action: Option<&'a str>,
    /// Only those before this one.
    pub before: Option<i64>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, seq, entry_id, at, actor_kind, actor_id, actor_name, action, target_kind, target_id, \
             address, request_id, before, after, hash FROM audit_log ",
            $rest
        )
    };
}

/// A page of the lines of a tenant, newest first.
pub async fn newest(
    conn: &mut Conn,
    tenant: TenantId,
    filter: LineFilter<'_>,
    limit: i64,
) -> Result<Vec<Line>> {
    let before = filter.before.unwrap_or(i64::MAX);
    match (filter.actor, filter.action) {
        (None, None) => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"),
            tenant,
            before,
            limit
        ),
        (Some(actor), None) => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND seq < $2 AND actor_id = $4 ORDER BY seq DESC LIMIT $3"),
            tenant,
            before,
            limit,
            actor
        ),
        (None, Some(action)) => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND seq < $2 AND action = $4 ORDER BY seq DESC LIMIT $3"),
            tenant,
            before,
            limit,
            action
        ),
        (Some(actor), Some(action)) => fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND seq < $2 AND actor_id = $4 AND action = $5 ORDER BY seq DESC LIMIT $3"
            ),
            tenant,
            before,
            limit,
            actor,
            action
        ),
    }
}

/// Where the chain of a tenant begins and ends.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Chain {
    /// The number of the last line that was swept; 0: none.
    pub swept_seq: i64,
    /// Its hash.
    pub swept_hash: Vec<u8>,
    /// The number of the newest line.
    pub seq: i64,
    /// Its hash.
    pub hash: Vec<u8>,
}

/// The chain of a tenant, if it has one.
pub async fn chain(conn: &mut Conn, tenant: TenantId) -> Result<Option<Chain>> {
    fetch_optional!(
        conn,
        "SELECT swept_seq, swept_hash, seq, hash FROM audit_chains WHERE tenant_id = $1",
        tenant
    )
}

/// The lines of a tenant after one, oldest first.
pub async fn after(conn: &mut Conn, tenant: TenantId, seq: i64, limit: i64) -> Result<Vec<Line>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"), tenant, seq, limit)
}

/// Removes up to `limit` of the oldest lines of a tenant that were written before an instant; returns how many. The chain keeps
/// the hash of the last of them, so that the rest can still be checked.
pub async fn sweep(conn: &mut Conn, tenant: TenantId, before: Timestamp, limit: i64) -> Result<u64> {
    let oldest: Vec<(i64, Timestamp, Vec<u8>)> = fetch_all!(
        conn,
        "SELECT seq, at, hash FROM audit_log WHERE tenant_id = $1 ORDER BY seq LIMIT $2",
        tenant,
        limit
    )?;
    // Only a beginning of the chain can go.
    let Some((seq, _, hash)) = oldest.into_iter().take_while(|(_, at, _)| *at < before).last() else {
        return Ok(0);
    };
    expect_one(execute!(
        conn,
        "UPDATE audit_chains SET swept_seq = $2, swept_hash = $3 WHERE tenant_id = $1",
        tenant,
        seq,
        hash
    )?)?;
    execute!(conn, "DELETE FROM audit_log WHERE tenant_id = $1 AND seq <= $2", tenant, seq)
}
