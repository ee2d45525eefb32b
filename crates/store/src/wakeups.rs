//! Waking the workers of other processes: a word on PostgreSQL's channel, one for each commit that schedules something.

use sqlx::postgres::PgListener;

use crate::database::execute;
use crate::{Conn, Database, Result, Store};

const CHANNEL: &str = "auspex_jobs";

/// Hears when another process has scheduled analyses.
pub struct Listener(PgListener);

impl Store {
    /// Listens to other processes; none on SQLite, where there are no others.
    pub async fn listen(&self) -> Result<Option<Listener>> {
        match &self.database {
            Database::Sqlite { .. } => Ok(None),
            Database::Postgres(pool) => {
                let mut listener = PgListener::connect_with(pool).await?;
                listener.listen(CHANNEL).await?;
                Ok(Some(Listener(listener)))
            }
        }
    }
}

impl Listener {
    /// Returns when something was scheduled, or may have been while the connection was lost.
    pub async fn heard(&mut self) -> Result<()> {
        // None: the connection was lost and is made anew by the next call; words in between were missed.
        self.0.try_recv().await?;
        Ok(())
    }
}

/// Says, once the transaction is committed, that analyses were scheduled.
pub(crate) async fn announce(conn: &mut Conn) -> Result<()> {
    if let Conn::Postgres(_) = conn {
        execute!(conn, "SELECT pg_notify($1, '')", CHANNEL)?;
    }
    Ok(())
}
