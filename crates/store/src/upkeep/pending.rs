//! Unfinished work, counted for tests and benchmarks: a drained service has none.

use crate::db::{Conn, Result, Store, fetch_one};

/// How much work waits in each queue, over all tenants.
#[derive(Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct Pending {
    /// Analyses queued or running.
    pub jobs: i64,
    /// Bulk runs not finished.
    pub bulk_runs: i64,
    /// Webhook deliveries to be sent or retried.
    pub deliveries: i64,
    /// Mails and chat messages to be sent.
    pub messages: i64,
    /// Synchronous analyses in flight.
    pub sync_leases: i64,
}

impl Store {
    /// Counts unfinished work by reading whole indexes: for tests and benchmarks only.
    pub async fn pending(&self) -> Result<Pending> {
        self.read("pending", async |conn: &mut Conn| {
            fetch_one!(
                conn,
                "SELECT (SELECT count(*) FROM jobs) AS jobs,
                        (SELECT count(*) FROM bulk_runs WHERE status = 'running') AS bulk_runs,
                        (SELECT count(*) FROM webhook_queue) AS deliveries,
                        (SELECT count(*) FROM outbox) AS messages,
                        (SELECT count(*) FROM sync_leases) AS sync_leases"
            )
        })
        .await
    }
}
