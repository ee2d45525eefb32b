//! Connections on loan: inside a transaction or for single statements, and how they go back.

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, SqlStr, Sqlite};
use sqlx_core::transaction::TransactionManager as _;
use tokio::time::timeout;

use crate::db::dialect::Backend;
use crate::db::error::{Error, Result, StoreError};
use crate::db::limits::RETURN_LIMIT;

/// A connection on loan for one use case, on either database.
pub enum Conn {
    /// To SQLite.
    Sqlite(Lent<Sqlite>),
    /// To PostgreSQL.
    Postgres(Lent<Postgres>),
}

impl Conn {
    /// Which database this leads to.
    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    /// Whether the database is divided into shards by tenant, so that a statement that locks rows must name theirs.
    pub(crate) fn is_sharded(&self) -> bool {
        matches!(self, Self::Postgres(lent) if lent.is_sharded)
    }

    /// What follows the tenant's column where rows are looked up by a value of another row, as by [`Backend::looked_up_by`]. In
    /// shards the tenant is named too (`tenant_id = $1`), so that the statement goes to one of them.
    pub(crate) fn looked_up_in_shard(&self, value: &str, named: &str) -> String {
        if self.is_sharded() { format!("= {value} AND {named}") } else { self.backend().looked_up_by(value) }
    }

    pub(crate) async fn commit(&mut self) -> Result<()> {
        match self {
            Self::Sqlite(lent) => lent.commit().await,
            Self::Postgres(lent) => lent.commit().await,
        }
    }

    /// Closes the connection instead of lending it again, if the outcome says that it or its database is out of order.
    pub(crate) fn settle<T, E: StoreError>(self, outcome: &Result<T, E>) {
        if outcome.as_ref().err().and_then(E::store_error).is_some_and(Error::is_unavailable) {
            self.discard();
        }
    }

    /// Closes the connection instead of lending it again.
    pub(crate) fn discard(mut self) {
        match &mut self {
            Self::Sqlite(lent) => lent.state = State::Broken,
            Self::Postgres(lent) => lent.state = State::Broken,
        }
    }
}

/// A connection out of the pool, inside a transaction or only for single statements.
pub struct Lent<DB: sqlx::Database> {
    connection: PoolConnection<DB>,
    state: State,
    is_sharded: bool,
}

#[derive(Clone, Copy)]
enum State {
    /// Outside of a transaction: each statement stands alone.
    Plain,
    /// `BEGIN` was sent and has not been answered yet.
    Beginning,
    /// Inside a transaction.
    Open,
    /// Nobody knows what its server does with it.
    Broken,
}

impl<DB: sqlx::Database> Lent<DB> {
    /// The driver's own connection, to run a statement on.
    pub fn native(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }

    pub(crate) fn plain(connection: PoolConnection<DB>) -> Self {
        Self { connection, state: State::Plain, is_sharded: false }
    }

    /// The same, to a database that is divided into shards by tenant, or not.
    pub(crate) fn sharded(mut self, is_sharded: bool) -> Self {
        self.is_sharded = is_sharded;
        self
    }

    /// Whether the database is divided into shards by tenant.
    pub(crate) fn is_sharded(&self) -> bool {
        self.is_sharded
    }

    pub(crate) async fn begun(connection: PoolConnection<DB>, statement: SqlStr) -> Result<Self> {
        let mut lent = Self::plain(connection);
        lent.begin(statement).await?;
        Ok(lent)
    }

    pub(crate) async fn begin(&mut self, statement: SqlStr) -> Result<()> {
        self.state = State::Beginning;
        DB::TransactionManager::begin(&mut self.connection, Some(statement)).await?;
        self.state = State::Open;
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        DB::TransactionManager::commit(&mut self.connection).await?;
        self.state = State::Plain;
        Ok(())
    }
}

impl<DB: sqlx::Database> Drop for Lent<DB> {
    fn drop(&mut self) {
        if let State::Open = self.state {
            DB::TransactionManager::start_rollback(&mut self.connection);
        }
        // The pool tests the connection, which a caller may have left in the middle of a statement, and takes it back.
        let returning = self.connection.return_to_pool();
        match self.state {
            State::Plain | State::Open => {
                // A connection that no longer answers is thrown away, and another takes its place.
                let returning = async { drop(timeout(RETURN_LIMIT, returning).await) };
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(returning);
                }
            }
            // The connection is closed at once, without a word to the server: that could take as long as what was given up.
            // After a beginning that was cut short nobody knows whether there is a transaction; the driver for PostgreSQL
            // would hand such a connection to the next caller with the transaction still open.
            State::Beginning | State::Broken => drop(returning),
        }
    }
}
