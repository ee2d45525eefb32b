//! Named transactions: metered, run again when they lose a conflict with another transaction, and given up at a deadline.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use crate::db::audit;
use crate::db::conn::{Conn, Lent};
use crate::db::connect::Database;
use crate::db::error::{Error, Result, StoreError};
use crate::db::limits::{Limits, LockWait};
use crate::db::replica::Replica;
use crate::db::writability::Writability;

/// The service's memory: one database, on either backend, at the newest schema.
#[derive(Clone)]
pub struct Store {
    pub(crate) database: Database,
    pub(crate) limits: Limits,
    /// Whether the database takes writes, as of the last ones.
    pub(crate) writability: Arc<Writability>,
    /// What lists may be read from instead.
    pub(crate) replica: Option<Arc<Replica>>,
    pub(crate) is_for_lists: bool,
    /// Whether the database is divided into shards by tenant (`docs/adr/0047-shards-by-tenant.md`).
    pub(crate) is_sharded: bool,
}

/// Begins a transaction that writes on SQLite. It takes the write lock at once: a read lock that must become a write lock
/// can fail halfway.
const SQLITE_BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
/// Begins a transaction that writes on PostgreSQL; see [`Store::write`] for why this level is enough.
const POSTGRES_BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Begins a snapshot on SQLite: a reader in WAL mode keeps the state that its first statement saw.
const SQLITE_BEGIN_SNAPSHOT: &str = "BEGIN DEFERRED";
/// Begins a snapshot on PostgreSQL.
const POSTGRES_BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Begins a transaction for reads with limits of their own on PostgreSQL.
const POSTGRES_BEGIN_READ: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
/// Tries of a transaction that keeps conflicting. Conflicts pass within milliseconds; more tries only hide a hot spot.
const MAX_TRIES: u32 = 8;
/// The wait before the second try; it doubles with each.
const FIRST_RETRY_MS: u64 = 2;

impl Store {
    /// Runs `work` in a transaction called `name` and commits what it did if it returns `Ok`.
    ///
    /// On a conflict the whole of `work` runs again, so it must have no effect outside of the transaction. At the deadline
    /// ([`Limits`]) it is given up, and its connection is closed.
    ///
    /// # Isolation
    ///
    /// SQLite runs writers one after the other (`BEGIN IMMEDIATE`), which is serializable. PostgreSQL runs them at
    /// `READ COMMITTED`. That is enough because no transaction decides by rows that another could change meanwhile:
    ///
    /// - Rows that a decision depends on are locked first (`FOR UPDATE`, or the update itself), and read by a later
    ///   statement, which sees everything committed before the lock was granted.
    /// - Rows of one kind are locked in key order, and kinds in one order (objects, jobs, tallies, balances), so that two
    ///   transactions do not deadlock. If they do, PostgreSQL ends one of them, and it runs again here.
    /// - Queued work is claimed by a lease: `FOR UPDATE SKIP LOCKED` hands a row to one worker, and whatever that worker
    ///   writes later names its token, so a worker whose lease has expired changes nothing.
    /// - What must happen once is a unique key (`ON CONFLICT`) or an update that names the state it expects; the number of
    ///   changed rows tells whether it happened.
    /// - Counters and balances change by addition in the database, never from a value that was read before.
    // A closure that is cloned and called once, not one that is called again: the compiler cannot see that the future
    // of the latter is `Send` when the closure borrows, and every request handler must be.
    pub async fn write<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E> + Clone,
    ) -> Result<T, E> {
        let started = Instant::now();
        let deadline = started + self.deadline();
        let mut tries = 1;
        loop {
            let outcome = self.try_write(name, deadline, work.clone()).await;
            let error = outcome.as_ref().err().and_then(E::store_error);
            let is_transient = error.is_some_and(|error| {
                let is_left = self.limits.leaves_lock_timeouts() && error.is_lock_timeout();
                error.is_transient() && !is_left
            });
            if !is_transient || tries == MAX_TRIES || Instant::now() >= deadline {
                self.writability.record(outcome.is_ok(), error);
                self.note_own_write();
                meter(name, started, tries, outcome.is_ok());
                return outcome;
            }
            debug!(transaction = name, tries, "transaction conflicts, trying again");
            tokio::time::sleep(Duration::from_millis(FIRST_RETRY_MS << (tries - 1))).await;
            tries += 1;
        }
    }

    async fn try_write<T, E: StoreError>(
        &self,
        name: &str,
        deadline: Instant,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let begun = timeout_at(deadline, self.begin_write()).await;
        let mut conn = begun.unwrap_or_else(|_| Err(self.late()))?;
        // Not in a variable of its own: the future of every use case would be twice as large.
        let outcome = timeout_at(deadline, async {
            let value = work(&mut conn).await?;
            audit::conclude(&mut conn, name).await?;
            conn.commit().await?;
            Ok(value)
        })
        .await;
        // At the deadline nobody knows whether the commit has reached the database.
        let outcome = outcome.unwrap_or_else(|_| Err(self.late().into()));
        conn.settle(&outcome);
        outcome
    }

    /// Lends `work` a connection outside of any transaction: each statement sees the newest committed state, or with
    /// [`Store::for_lists`] that of a replica. What a replica fails to answer is asked again of the primary.
    pub async fn read<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E> + Clone,
    ) -> Result<T, E> {
        self.look(name, false, work).await
    }

    /// Lends `work` a connection on which every statement sees the same state, whatever is committed meanwhile.
    pub async fn snapshot<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E> + Clone,
    ) -> Result<T, E> {
        self.look(name, true, work).await
    }

    async fn look<T, E: StoreError>(
        &self,
        name: &'static str,
        is_snapshot: bool,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E> + Clone,
    ) -> Result<T, E> {
        let started = Instant::now();
        let reader = self.reader();
        if let Some((replica, caller)) = reader
            && let Some(conn) =
                replica.lend(caller, is_snapshot.then(|| self.begin(POSTGRES_BEGIN_SNAPSHOT))).await
        {
            let outcome = run_on(conn, work.clone(), Replica::deadline(), Replica::late).await;
            replica.record(&outcome);
            if outcome.is_ok() {
                meter(name, started, 1, true);
                return outcome;
            }
        }
        let deadline = Instant::now() + self.deadline();
        let lent = timeout_at(deadline, async {
            if is_snapshot { self.begin_snapshot().await } else { self.lend().await }
        })
        .await;
        let outcome = match lent.unwrap_or_else(|_| Err(self.late())) {
            Ok(conn) => run_on(conn, work, deadline, || self.late()).await,
            Err(error) => Err(error.into()),
        };
        if let Some((replica, caller)) = reader {
            // The next list must not show an older state than this one.
            replica.note(caller);
        }
        meter(name, started, 1, outcome.is_ok());
        outcome
    }

    /// The same database with limits for work that may take minutes: what a sweep, an audit or a removal of much at once
    /// does.
    #[must_use]
    pub fn for_maintenance(&self) -> Self {
        Self { limits: Limits::Maintenance, ..self.clone() }
    }

    /// The same database for work that is split if it waits in vain for a lock that another transaction holds.
    #[must_use]
    pub fn for_groups(&self, wait: LockWait) -> Self {
        Self { limits: Limits::Group(wait), ..self.clone() }
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.limits.deadline(self.database.backend())
    }

    fn late(&self) -> Error {
        Error::Late { limit_s: self.deadline().as_secs() }
    }

    async fn begin_write(&self) -> Result<Conn> {
        Ok(match &self.database {
            Database::Sqlite { writer, .. } => {
                Conn::Sqlite(Lent::begun(writer.acquire().await?, SQLITE_BEGIN_WRITE.into_sql_str()).await?)
            }
            Database::Postgres(pool) => {
                let lent = Lent::begun(pool.acquire().await?, self.begin(POSTGRES_BEGIN_WRITE)).await?;
                Conn::Postgres(lent.sharded(self.is_sharded))
            }
        })
    }

    async fn begin_snapshot(&self) -> Result<Conn> {
        Ok(match &self.database {
            Database::Sqlite { readers, .. } => Conn::Sqlite(
                Lent::begun(readers.acquire().await?, SQLITE_BEGIN_SNAPSHOT.into_sql_str()).await?,
            ),
            Database::Postgres(pool) => {
                let lent = Lent::begun(pool.acquire().await?, self.begin(POSTGRES_BEGIN_SNAPSHOT)).await?;
                Conn::Postgres(lent.sharded(self.is_sharded))
            }
        })
    }

    async fn lend(&self) -> Result<Conn> {
        Ok(match &self.database {
            Database::Sqlite { readers, .. } => Conn::Sqlite(Lent::plain(readers.acquire().await?)),
            Database::Postgres(pool) => {
                let connection = pool.acquire().await?;
                let lent = match self.limits {
                    Limits::Ordinary | Limits::Group(_) => Lent::plain(connection),
                    // Other limits hold for a transaction, so that they end with it.
                    Limits::Maintenance | Limits::Migration => {
                        Lent::begun(connection, self.begin(POSTGRES_BEGIN_READ)).await?
                    }
                };
                Conn::Postgres(lent.sharded(self.is_sharded))
            }
        })
    }

    /// Begins a transaction on PostgreSQL with these limits, in one round trip.
    fn begin(&self, statement: &'static str) -> SqlStr {
        match self.limits.postgres_settings() {
            None => statement.into_sql_str(),
            Some(settings) => AssertSqlSafe(format!("{statement}; {settings}")).into_sql_str(),
        }
    }
}

/// Runs reads on a connection until the deadline, and gives it back.
async fn run_on<T, E: StoreError>(
    mut conn: Conn,
    work: impl AsyncFnOnce(&mut Conn) -> Result<T, E>,
    deadline: Instant,
    late: impl FnOnce() -> Error,
) -> Result<T, E> {
    let outcome = timeout_at(deadline, work(&mut conn)).await;
    let outcome = outcome.unwrap_or_else(|_| Err(late().into()));
    conn.settle(&outcome);
    outcome
}

/// Records a transaction: its name with two counters, and all of them together with a histogram. One histogram a name would
/// be two thousand series.
fn meter(name: &'static str, started: Instant, tries: u32, ok: bool) {
    let (outcome, took) = (if ok { "ok" } else { "error" }, started.elapsed());
    metrics::histogram!("auspex_store_transaction_seconds", "outcome" => outcome).record(took);
    metrics::counter!("auspex_store_transactions_total", "name" => name, "outcome" => outcome).increment(1);
    metrics::counter!("auspex_store_transaction_microseconds_total", "name" => name)
        .increment(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    if tries > 1 {
        metrics::counter!("auspex_store_transaction_retries_total", "name" => name)
            .increment(u64::from(tries - 1));
    }
}
