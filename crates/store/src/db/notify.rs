//! Waking the workers of other processes: a word on one of PostgreSQL's channels, for each commit that schedules
//! something.

use model::Timestamp;
use sqlx::postgres::PgListener;

use crate::db::connect::execute;
use crate::{Conn, Database, Result, Store};

pub(crate) const JOBS: &str = "auspex_jobs";
const DELIVERIES: &str = "auspex_deliveries";

/// Hears when another process has scheduled something.
pub struct Listener(PgListener);

/// What was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Analyses, and when the first of them is due; none: now.
    Jobs(Option<Timestamp>),
    /// Webhook deliveries.
    Deliveries,
    /// Anything: the connection was lost for a while.
    Perhaps,
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
    /// Returns when something was scheduled, or may have been while the connection was lost.
    pub async fn heard(&mut self) -> Result<Heard> {
        // None: the connection was lost and is made anew by the next call; words in between were missed.
        Ok(match self.0.try_recv().await? {
            None => Heard::Perhaps,
            Some(word) if word.channel() == DELIVERIES => Heard::Deliveries,
            Some(word) => Heard::Jobs(word.payload().parse().ok().map(Timestamp::from_micros)),
        })
    }
}

/// Says, once the transaction is committed, that analyses were scheduled.
pub(crate) async fn announce(conn: &mut Conn) -> Result<()> {
    say(conn, JOBS).await
}

/// Says, once the transaction is committed, that deliveries were queued.
pub(crate) async fn announce_deliveries(conn: &mut Conn) -> Result<()> {
    say(conn, DELIVERIES).await
}

async fn say(conn: &mut Conn, channel: &str) -> Result<()> {
    if let Conn::Postgres(_) = conn {
        execute!(conn, "SELECT pg_notify($1, '')", channel)?;
    }
    Ok(())
}
