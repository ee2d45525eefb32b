//! Named transactions: metered, and run again when the database says that a conflict, not the caller, is to blame.

use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, QueryBuilder, SqlSafeStr as _, Sqlite, SqliteConnection};
use sqlx_core::transaction::TransactionManager as _;
use tracing::debug;

use crate::{Database, Error, Result, Round, Store};

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
    /// Before a transaction that this word begins, with its first statement.
    Due(&'static str),
    /// Between the word that begins a transaction and its answer.
    Beginning,
    /// Inside a transaction.
    Open,
    /// Inside a transaction that the driver does not know of, because it began with a statement.
    Joined,
}

impl<DB: sqlx::Database> Held<DB> {
    /// The driver's own connection, to run a statement on.
    pub async fn native(&mut self) -> Result<&mut DB::Connection> {
        if let State::Due(word) = self.state {
            self.begin(word).await?;
        }
        Ok(&mut self.connection)
    }

    fn plain(connection: PoolConnection<DB>) -> Self {
        Self { connection, state: State::Plain }
    }

    async fn begun(connection: PoolConnection<DB>, statement: &'static str) -> Result<Self> {
        let mut held = Self::plain(connection);
        held.begin(statement).await?;
        Ok(held)
    }

    async fn begin(&mut self, statement: &'static str) -> Result<()> {
        self.state = State::Beginning;
        DB::TransactionManager::begin(&mut self.connection, Some(statement.into_sql_str())).await?;
        self.state = State::Open;
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        match self.state {
            State::Plain | State::Due(_) => {}
            State::Open => DB::TransactionManager::commit(&mut self.connection).await?,
            State::Beginning | State::Joined => unreachable!("what began with a statement ends with one"),
        }
        self.state = State::Plain;
        Ok(())
    }
}

impl Held<Sqlite> {
    /// What the next text starts with, and the connection to run it on. Where a transaction is due, it begins with this text:
    /// if it fails, nothing else may be run.
    pub(crate) fn begin_with_next(&mut self) -> (QueryBuilder<Sqlite>, &mut SqliteConnection) {
        let mut text = QueryBuilder::default();
        if let State::Due(word) = self.state {
            text.push(word).push("; ");
            self.state = State::Joined;
        }
        (text, &mut self.connection)
    }

    /// Takes back what a transaction did that the driver does not know of.
    async fn undo(&mut self) {
        // Where that fails, the connection is closed.
        if matches!(self.state, State::Joined)
            && sqlx::query("ROLLBACK").execute(&mut *self.connection).await.is_ok()
        {
            self.state = State::Plain;
        }
    }
}

impl<DB: sqlx::Database> Drop for Held<DB> {
    fn drop(&mut self) {
        match self.state {
            State::Plain | State::Due(_) => {}
            // Whether it began is not known, where whoever waited went away. The driver for PostgreSQL would give such a
            // connection to the next with the transaction still open, and that for SQLite one that it does not know of.
            State::Beginning | State::Joined => self.connection.close_on_drop(),
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

/// Taking the write lock at once: a read lock that must grow can fail halfway.
const SQLITE_BEGIN: &str = "BEGIN IMMEDIATE";
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
        let mut tries = Tries::of(name);
        loop {
            let outcome = self.try_write(work.clone()).await;
            if tries.were_enough(&outcome).await {
                return outcome;
            }
        }
    }

    /// As [`Self::write`], for a writer that comes to its end whoever goes away: on SQLite the transaction begins with its first
    /// statement, if that is one over given rows, and is then committed with the round that `work` leaves for the end. This
    /// spares ways to the database.
    pub async fn write_group<T, E: StoreError>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<(T, Round), E> + Clone,
    ) -> Result<T, E> {
        let mut tries = Tries::of(name);
        loop {
            let outcome = self.try_write_group(work.clone()).await;
            if tries.were_enough(&outcome).await {
                return outcome;
            }
        }
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

    async fn try_write_group<T, E: StoreError>(
        &self,
        work: impl AsyncFnOnce(&mut Conn) -> Result<(T, Round), E>,
    ) -> Result<T, E> {
        let mut conn = match &self.database {
            Database::Sqlite { writer, .. } => {
                let connection = writer.acquire().await.map_err(Error::from)?;
                Conn::Sqlite(Held { connection, state: State::Due(SQLITE_BEGIN) })
            }
            Database::Postgres(_) => self.begin().await?,
        };
        let written = match work(&mut conn).await {
            Ok((value, last)) => conn.commit_with(last).await.map(|()| value).map_err(E::from),
            Err(error) => Err(error),
        };
        if let (Err(_), Conn::Sqlite(held)) = (&written, &mut conn) {
            held.undo().await;
        }
        written
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
                Conn::Sqlite(Held::begun(readers.acquire().await?, "BEGIN").await?)
            }
            Database::Postgres(pool) => {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                Conn::Postgres(Held::begun(pool.acquire().await?, begin).await?)
            }
        })
    }

    async fn begin(&self) -> Result<Conn> {
        Ok(match &self.database {
            Database::Sqlite { writer, .. } => {
                Conn::Sqlite(Held::begun(writer.acquire().await?, SQLITE_BEGIN).await?)
            }
            Database::Postgres(pool) => Conn::Postgres(Held::begun(pool.acquire().await?, "BEGIN").await?),
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
    async fn commit(&mut self) -> Result<()> {
        match self {
            Self::Sqlite(held) => held.commit().await,
            Self::Postgres(held) => held.commit().await,
        }
    }

    /// Runs the last round of a transaction and commits it, on SQLite in one way.
    async fn commit_with(&mut self, round: Round) -> Result<()> {
        match (self, round) {
            (Self::Sqlite(held), Round::Sqlite(texts)) if matches!(held.state, State::Joined) => {
                texts.commit(held).await?;
                held.state = State::Plain;
                Ok(())
            }
            (conn, round) => {
                round.run(conn).await?;
                conn.commit().await
            }
        }
    }
}

/// The tries of a transaction.
struct Tries {
    name: &'static str,
    started: Instant,
    count: u32,
}

impl Tries {
    fn of(name: &'static str) -> Self {
        Self { name, started: Instant::now(), count: 1 }
    }

    /// Whether the outcome of the latest try stands. Else it conflicted, and by now the conflict may have passed.
    async fn were_enough<T, E: StoreError>(&mut self, outcome: &Result<T, E>) -> bool {
        let transient = outcome.as_ref().err().and_then(E::store_error).is_some_and(Error::is_transient);
        if !transient || self.count == MAX_TRIES {
            meter(self.name, self.started, self.count, outcome.is_ok());
            return true;
        }
        debug!(transaction = self.name, tries = self.count, "transaction conflicts, trying again");
        tokio::time::sleep(Duration::from_millis(FIRST_RETRY_MS << (self.count - 1))).await;
        self.count += 1;
        false
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
