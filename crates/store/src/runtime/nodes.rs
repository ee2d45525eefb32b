//! The processes of one deployment, each with its last heartbeat.

use model::Timestamp;
use uuid::Uuid;

use crate::db::{Backend, Conn, Result, execute, expect_one, fetch_one, migrate};

/// Records a heartbeat of a node.
pub async fn beat(conn: &mut Conn, node: Uuid, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO nodes (node_id, seen_at) VALUES ($1, $2)
         ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at",
        node,
        now
    )?)
}

/// Why this binary cannot work with the schema any more; none while it can.
pub async fn schema_refusal(conn: &mut Conn) -> Result<Option<String>> {
    migrate::refusal(conn).await
}

/// Counts the nodes with a heartbeat after `instant`.
pub async fn seen_after(conn: &mut Conn, instant: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM nodes WHERE seen_at > $1", instant)?;
    Ok(count)
}

/// Counts the nodes whose last heartbeat was at `instant` or earlier, and that have not said goodbye.
pub async fn seen_until(conn: &mut Conn, instant: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM nodes WHERE seen_at <= $1", instant)?;
    Ok(count)
}

/// Removes a node.
pub async fn remove(conn: &mut Conn, node: Uuid) -> Result<u64> {
    execute!(conn, "DELETE FROM nodes WHERE node_id = $1", node)
}

/// Removes the nodes whose last heartbeat was at `stale` or earlier.
pub async fn sweep(conn: &mut Conn, stale: Timestamp) -> Result<u64> {
    execute!(conn, "DELETE FROM nodes WHERE seen_at <= $1", stale)
}

/// What the database's clock shows. None on SQLite, which has the clock of its only process.
pub async fn clock(conn: &mut Conn) -> Result<Option<Timestamp>> {
    if conn.backend() == Backend::Sqlite {
        return Ok(None);
    }
    let (now,): (Timestamp,) = fetch_one!(conn, "SELECT clock_timestamp()")?;
    Ok(Some(now))
}
