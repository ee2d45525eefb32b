//! Gauges for operators: how much waits in each queue, and for how long. Every read follows an index and is bounded.

use model::Timestamp;
use uuid::Uuid;

use crate::analysis::jobs::Priority;
use crate::db::{Conn, Result, fetch_one};
use crate::outbox::messages::Channel;

/// Rows are counted up to this: beyond it the number no longer matters, and counting must stay cheap.
pub const COUNT_LIMIT: i64 = 100_000;

/// Analyses of one priority that wait for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Backlog {
    /// How many are due and not leased, counted up to [`COUNT_LIMIT`].
    pub due: i64,
    /// Since when the oldest of them is due.
    pub oldest: Option<Timestamp>,
}

/// Counts the analyses of a priority that are due.
pub async fn backlog(conn: &mut Conn, priority: Priority, now: Timestamp) -> Result<Backlog> {
    fetch_one!(
        conn,
        // The plus keeps SQLite from reading all jobs of the priority: it reads what is due, by time.
        "SELECT (SELECT count(*) FROM (SELECT 1 AS one FROM jobs WHERE +priority = $1 AND due_at <= $2 AND attempts <> -2
                                       LIMIT $3) AS waiting) AS due,
                (SELECT min(due_at) FROM jobs WHERE +priority = $1 AND due_at <= $2 AND attempts <> -2) AS oldest",
        priority,
        now,
        COUNT_LIMIT
    )
}

/// Counts webhook deliveries that are still to be sent or retried, up to [`COUNT_LIMIT`].
pub async fn deliveries(conn: &mut Conn) -> Result<i64> {
    let (waiting,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM webhook_queue WHERE endpoint_id >= $1 AND attempts <> -1 LIMIT $2) AS waiting",
        Uuid::nil(),
        COUNT_LIMIT
    )?;
    Ok(waiting)
}

/// Counts messages of a channel that are still to be sent or retried, up to [`COUNT_LIMIT`].
pub async fn messages(conn: &mut Conn, channel: Channel) -> Result<i64> {
    let (waiting,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM outbox WHERE channel = $1 AND attempts <> -1 LIMIT $2) AS waiting",
        channel,
        COUNT_LIMIT
    )?;
    Ok(waiting)
}
