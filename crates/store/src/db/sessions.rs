//! Sessions on PostgreSQL: which of them are still good, and whether every connection has its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnectionMetadata;
use sqlx::{Connection as _, Executor as _, PgConnection, PgPool, Row as _};
use tokio::time::timeout;

use crate::db::error::{Error, Result};
use crate::db::limits::PING_LIMIT;
use crate::db::writability::Writability;

/// How long after its last use a connection is used again without a ping, which costs as much as a statement.
const PING_AFTER: Duration = Duration::from_secs(1);
/// How often two connections are compared. A pooler that lends sessions for a transaction shows it at once, unless other
/// processes use it at the same moment.
const COMPARISONS: usize = 8;

/// Finds connections that are not worth using again.
pub(crate) struct Sessions {
    /// When a connection was last found lost. Those that nobody has used since have the same fate, and are not even asked:
    /// each would take as long to say nothing.
    lost: Mutex<Option<Instant>>,
    writability: Arc<Writability>,
}

impl Sessions {
    pub(crate) fn new(writability: Arc<Writability>) -> Self {
        Self { lost: Mutex::default(), writability }
    }

    /// Whether a connection out of the pool can be lent again.
    pub(crate) async fn is_usable(
        &self,
        connection: &mut PgConnection,
        metadata: PoolConnectionMetadata,
    ) -> bool {
        let PoolConnectionMetadata { age, idle_for, .. } = metadata;
        if self.writability.was_read_only_within(age) {
            return false;
        }
        if idle_for < PING_AFTER {
            return true;
        }
        if self.lost().is_some_and(|lost| lost.elapsed() < idle_for) {
            return false;
        }
        let answer = timeout(PING_LIMIT, connection.ping()).await;
        if answer.is_err() {
            *self.lost() = Some(Instant::now());
        }
        matches!(answer, Ok(Ok(())))
    }

    fn lost(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails if connections do not have a session each, as behind a pooler in transaction mode: settings, prepared statements and
/// `LISTEN` would then be those of whoever comes next (`docs/adr/0042-poolers-keep-sessions.md`).
pub(crate) async fn require_own_sessions(pool: &PgPool) -> Result<()> {
    let mut one = pool.acquire().await?;
    let mut other = pool.acquire().await.map_err(|error| match error {
        sqlx::Error::PoolTimedOut => Error::Sessions(
            "the database, or the pooler in front of it, gives this process a single connection; a process needs up to 20"
                .to_owned(),
        ),
        error => error.into(),
    })?;
    let expected = (session(&mut one).await?, session(&mut other).await?);
    for _ in 0..COMPARISONS {
        let found = (session(&mut one).await?, session(&mut other).await?);
        if found != expected || found.0 == found.1 {
            return Err(Error::Sessions(
                "the pooler in front of PostgreSQL lends its sessions for a transaction at a time; Auspex needs a session for \
                 each connection: set pool_mode = session (PgBouncer), or connect to PostgreSQL itself"
                    .to_owned(),
            ));
        }
    }
    // It was for the comparison alone: the pool opens more connections when there is work for them.
    other.close().await?;
    Ok(())
}

/// Which process of the server is behind a connection; asked without a prepared statement.
async fn session(connection: &mut PgConnection) -> Result<i32> {
    Ok(connection.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)?)
}
