//! Waking the workers of other processes: `NOTIFY` on PostgreSQL, once for each commit that schedules something.

use model::Timestamp;
use sqlx::postgres::PgListener;

use crate::db::connect::Database;
use crate::db::error::Result;
use crate::db::statement::execute;
use crate::db::transaction::{Conn, Store};

/// The channel of analyses; the payload is when the first of them is due, in microseconds, or empty: now.
pub(crate) const JOBS: &str = "auspex_jobs";
/// The channel of webhook deliveries.
const DELIVERIES: &str = "auspex_deliveries";

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
                let mut listener = PgListener::connect_with(pool).await?;
                listener.listen_all([JOBS, DELIVERIES]).await?;
                Ok(Some(Listener(listener)))
            }
        }
    }
}

impl Listener {
    /// Waits until something was scheduled, or may have been while the connection was lost.
    pub async fn receive(&mut self) -> Result<Notification> {
        // None: the connection was lost, and the next call connects again; notifications in between were missed.
        Ok(match self.0.try_recv().await? {
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
