//! Named transactions: metered, and run again when the database says that a conflict, not the caller, is to blame.

use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, SqlSafeStr as _, Sqlite};
use sqlx_core::transaction::TransactionManager as _;
use tracing::debug;

use crate::{Database, Error, Result, Store};

/// A connection on loan for one use case, on either database.
pub enum Conn {
    /// To SQLite.
    Sqlite(Held<Sqlite>),
    /// To PostgreSQL.
    Postgres(Held<Postgres>),
}

/// A connection out of the pool, inside a transaction or only for the statements at hand.
pub struct Held<DB: sqlx::Database> {
    connection: PoolConnection<DB>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Outside of a transaction: each statement stands alone.
    Plain,
    /// Between the word that begins a transaction and its answer.
    Beginning,
    /// Inside a transaction.
    Open,
}

impl<DB: sqlx::Database> Held<DB> {
    /// The driver's own connection, to run a statement on.
    pub fn native(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }

    fn plain(connection: PoolConnection<DB>) -> Self {
        Self { connection, state: State::Plain }
    }

    async fn begin(connection: PoolConnection<DB>, statement: &'static str) -> Result<Self> {
        let mut held = Self { connection, state: State::Beginning };
        DB::TransactionManager::begin(&mut held.connection, Some(statement.into_sql_str())).await?;
        held.state = State::Open;
        Ok(held)
    }

    async fn commit(mut self) -> Result<()> {
        if matches!(self.state, State::Open) {
            DB::TransactionManager::commit(&mut self.connection).await?;
            self.state = State::Plain;
        }
        Ok(())
    }
}

impl<DB: sqlx::Database> Drop for Held<DB> {
    fn drop(&mut self) {
        match self.state {
            State::Plain => {}
            // Whether it began is not known, where whoever waited went away. The driver for PostgreSQL would give such a
            // connection to the next with the transaction still open.
            State::Beginning => self.connection.close_on_drop(),
            State::Open => DB::TransactionManager::start_rollback(&mut self.connection),
        }
    }
}

/// An error that a use case may return from its transaction: its own, or one of the store's underneath.
pub trait StoreError: From<Error> {
    /// The store's error, when that is what this is.
    fn store_error(&self) -> Option<&Error>;
}

impl StoreError for Error {
    fn store_error(&self) -> Option<&Error> {
        Some(self)
    }
}

/// Tries of a transaction that keeps conflicting. Conflicts pass within milliseconds; more tries only hide a hot spot.
const MAX_TRIES: u32 = 8;
/// The wait before the second try; it doubles with each.
const FIRST_RETRY_MS: u64 = 2;

impl Store {
    /// Runs `work` in a transaction called `name` and commits what it did if it returns `Ok`.
    ///
    /// On a conflict the whole of `work` runs again, so it must have no effect outside of the transaction.
    // A closure that is cloned and called once, not one that is called again: the compiler cannot see that the future
    // of the latter is `Send` when the closure borrows, and every request handler must be.
    pub async fn write<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E> + Clone,
    ) -> Result<T, E> {
        let started = Instant::now();
        let mut tries = 1;
        let outcome = loop {
            let outcome = self.try_write(work.clone()).await;
            let transient = outcome.as_ref().err().and_then(E::store_error).is_some_and(Error::is_transient);
            if !transient || tries == MAX_TRIES {
                break outcome;
            }
            debug!(transaction = name, tries, "transaction conflicts, trying again");
            tokio::time::sleep(Duration::from_millis(FIRST_RETRY_MS << (tries - 1))).await;
            tries += 1;
        };
        meter(name, started, tries, outcome.is_ok());
        outcome
    }

    async fn try_write<T, E: StoreError>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut conn = self.begin().await?;
        let value = work(&mut conn).await?;
        conn.commit().await?;
        Ok(value)
    }

    /// Lends `work` a connection outside of any transaction: each statement sees the newest committed state.
    pub async fn read<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let outcome = match self.lend().await {
            Ok(mut conn) => work(&mut conn).await,
            Err(error) => Err(error.into()),
        };
        meter(name, started, 1, outcome.is_ok());
        outcome
    }

    /// Lends `work` a connection on which every statement sees the same state, whatever is committed meanwhile.
    pub async fn snapshot<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let started = Instant::now();
        let outcome = match self.begin_snapshot().await {
            Ok(mut conn) => work(&mut conn).await,
            Err(error) => Err(error.into()),
        };
        meter(name, started, 1, outcome.is_ok());
        outcome
    }

    async fn begin_snapshot(&self) -> Result<Conn> {
        Ok(match &self.database {
            // A reader in WAL mode keeps the state that its first statement saw.
            Database::Sqlite { readers, .. } => {
                Conn::Sqlite(Held::begin(readers.acquire().await?, "BEGIN").await?)
            }
            Database::Postgres(pool) => {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                Conn::Postgres(Held::begin(pool.acquire().await?, begin).await?)
            }
        })
    }

    async fn begin(&self) -> Result<Conn> {
        Ok(match &self.database {
            // Taking the write lock at once: a read lock that must grow can fail halfway.
            Database::Sqlite { writer, .. } => {
                Conn::Sqlite(Held::begin(writer.acquire().await?, "BEGIN IMMEDIATE").await?)
            }
            Database::Postgres(pool) => Conn::Postgres(Held::begin(pool.acquire().await?, "BEGIN").await?),
        })
    }

    async fn lend(&self) -> Result<Conn> {
        Ok(match &self.database {
            Database::Sqlite { readers, .. } => Conn::Sqlite(Held::plain(readers.acquire().await?)),
            Database::Postgres(pool) => Conn::Postgres(Held::plain(pool.acquire().await?)),
        })
    }
}

impl Conn {
    async fn commit(self) -> Result<()> {
        match self {
            Self::Sqlite(held) => held.commit().await,
            Self::Postgres(held) => held.commit().await,
        }
    }
}

fn meter(name: &'static str, started: Instant, tries: u32, ok: bool) {
    let outcome = if ok { "ok" } else { "error" };
    metrics::histogram!("auspex_store_transaction_seconds", "name" => name, "outcome" => outcome)
        .record(started.elapsed());
    if tries > 1 {
        metrics::counter!("auspex_store_transaction_retries_total", "name" => name)
            .increment(u64::from(tries - 1));
    }
}

/// Refuses a statement that changed another number of rows than the one it is about.
pub(crate) fn expect_one(actual: u64) -> Result<()> {
    expect_rows(1, actual)
}

/// Refuses a statement that changed another number of rows than those it is about.
pub(crate) fn expect_rows(expected: usize, actual: u64) -> Result<()> {
    let expected = expected as u64;
    if actual == expected { Ok(()) } else { Err(Error::RowsAffected { expected, actual }) }
}
