//! The processes of one deployment, each with the time it was last seen.

use model::Timestamp;
use uuid::Uuid;

use crate::db::connect::{execute, fetch_one};
use crate::db::transaction::expect_one;
use crate::{Conn, Result};

/// Notes that a node is alive.
pub async fn beat(conn: &mut Conn, node: Uuid, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO nodes (node_id, seen_at) VALUES ($1, $2)
         ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at",
        node,
        now
    )?)
}

/// How many nodes were seen after `instant`.
pub async fn seen_after(conn: &mut Conn, instant: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM nodes WHERE seen_at > $1", instant)?;
    Ok(count)
}

/// Forgets a node.
pub async fn remove(conn: &mut Conn, node: Uuid) -> Result<u64> {
    execute!(conn, "DELETE FROM nodes WHERE node_id = $1", node)
}

/// Forgets the nodes that were last seen at `stale` or earlier.
pub async fn sweep(conn: &mut Conn, stale: Timestamp) -> Result<u64> {
    execute!(conn, "DELETE FROM nodes WHERE seen_at <= $1", stale)
}
