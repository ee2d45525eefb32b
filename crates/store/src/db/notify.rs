//! Waking the workers of other processes: `NOTIFY` on PostgreSQL, once for a commit that schedules something for now. Such commits
//! wait for each other, whatever else they write, and each goes to every process; what is due later is found by the backstop.

use std::time::Duration;

use model::Timestamp;
use sqlx::Executor as _;
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use crate::db::conn::Conn;
use crate::db::connect::{Database, connection_beside};
use crate::db::error::{Error, Result};
use crate::db::limits::PING_LIMIT;
use crate::db::statement::execute;
use crate::db::transaction::Store;

/// The channel of analyses; the payload is when the first of them is due, in microseconds, or empty: now.
pub(crate) const JOBS: &str = "auspex_jobs";
/// The channel of webhook deliveries.
const DELIVERIES: &str = "auspex_deliveries";

/// How long the connection may be silent before it is tried: without a word from the server, one that is lost looks like one
/// on which nothing happens.
const SILENCE: Duration = Duration::from_secs(10);

/// How often every process reads by itself what is due (the service's backstop): what is due no sooner need not be announced.
pub const BACKSTOP_INTERVAL: Duration = Duration::from_secs(2);

/// Receives what other processes have scheduled.
pub struct Listener(PgListener);

/// What another process has scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Analyses, and when the first of them is due; none: now.
    Jobs(Option<Timestamp>),
    /// Webhook deliveries.
    Deliveries,
    /// Perhaps anything: the connection was lost for a while.
    Unknown,
}

impl Store {
    /// Listens to other processes; none on SQLite, where there are no others.
    pub async fn listen(&self) -> Result<Option<Listener>> {
        match &self.database {
            Database::Sqlite { .. } => Ok(None),
            Database::Postgres(pool) => {
                // If this connection stalls, the driver waits for it where it came from: not in the pool of all others.
                let beside = connection_beside(pool);
                let listening = timeout(PING_LIMIT, async {
                    let mut listener = PgListener::connect_with(&beside).await?;
                    listener.listen_all([JOBS, DELIVERIES]).await?;
                    Ok(Some(Listener(listener)))
                });
                listening.await.map_err(|_| Error::Late { limit_s: PING_LIMIT.as_secs() })?
            }
        }
    }
}

impl Listener {
    /// Waits until something was scheduled, or may have been while the connection was lost.
    pub async fn receive(&mut self) -> Result<Notification> {
        let received = loop {
            if let Ok(received) = timeout(SILENCE, self.0.try_recv()).await {
                break received?;
            }
            let answered = timeout(PING_LIMIT, self.0.execute("SELECT 1")).await;
            answered.map_err(|_| Error::Late { limit_s: PING_LIMIT.as_secs() })??;
        };
        // None: the connection was lost, and the next call connects again; notifications in between were missed.
        Ok(match received {
            None => Notification::Unknown,
            Some(received) if received.channel() == DELIVERIES => Notification::Deliveries,
            Some(received) => Notification::Jobs(received.payload().parse().ok().map(Timestamp::from_micros)),
        })
    }
}

/// Notifies other processes, once the transaction is committed, that analyses were scheduled.
pub(crate) async fn notify_jobs(conn: &mut Conn) -> Result<()> {
    notify(conn, JOBS).await
}

/// Notifies other processes, once the transaction is committed, that deliveries were queued.
pub(crate) async fn notify_deliveries(conn: &mut Conn) -> Result<()> {
    notify(conn, DELIVERIES).await
}

async fn notify(conn: &mut Conn, channel: &str) -> Result<()> {
    if let Conn::Postgres(_) = conn {
        execute!(conn, "SELECT pg_notify($1, '')", channel)?;
    }
    Ok(())
}
