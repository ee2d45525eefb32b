//! When work of each queue is due next, all queues in one statement.

use model::Timestamp;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::actions::webhooks::queue;
use crate::db::{Conn, Result, fetch_one};
use crate::outbox::messages::Channel;

/// When work of each queue is due next; none: nothing waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct NextDue {
    /// Analyses, also those whose lease expires then.
    pub jobs: Option<Timestamp>,
    /// Webhook deliveries.
    pub deliveries: Option<Timestamp>,
    /// Mails.
    pub mails: Option<Timestamp>,
    /// Chat messages.
    pub chats: Option<Timestamp>,
    /// Trials: those that no process runs are due.
    pub trials: Option<Timestamp>,
    /// Bulk runs: those that have not ended are due.
    pub bulk_runs: Option<Timestamp>,
}

/// Reads when work of each queue is due next.
pub async fn next_due(conn: &mut Conn) -> Result<NextDue> {
    let statement = format!(
        "SELECT (SELECT min(due_at) FROM jobs WHERE attempts <> -2) AS jobs,
                ({}) AS deliveries,
                (SELECT due_at FROM outbox WHERE channel = $2 AND attempts <> -1 ORDER BY due_at LIMIT 1) AS mails,
                (SELECT due_at FROM outbox WHERE channel = $3 AND attempts <> -1 ORDER BY due_at LIMIT 1) AS chats,
                (SELECT min(coalesce(lease_until, created_at)) FROM trials WHERE status = 'running') AS trials,
                (SELECT min(started_at) FROM bulk_runs WHERE status = 'running') AS bulk_runs",
        queue::select_next_due(conn)
    );
    fetch_one!(conn, AssertSqlSafe(statement), Uuid::nil(), Channel::Mail, Channel::Slack)
}
