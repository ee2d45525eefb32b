//! Opening the store, and what callers may know about the database behind it.

use std::sync::Arc;

use crate::db::conn::Conn;
use crate::db::connect::{Database, sqlite_path};
use crate::db::dialect::Backend;
use crate::db::error::{Error, Result};
use crate::db::limits::Limits;
use crate::db::migrate::{self, Schema};
use crate::db::statement::{execute, fetch_one};
use crate::db::transaction::Store;
use crate::db::writability::probe_text;

/// Writers that work beside each other on PostgreSQL: tenants are spread over them, so that waiting for the balance of a
/// busy tenant delays only its share.
const POSTGRES_WRITERS: usize = 4;

/// The row that is written to find out whether the database takes writes.
const PROBE: &str = "write_probe";

impl Store {
    /// Opens the database at `url` (`sqlite:PATH` or `postgres://…`) and brings its schema up to date.
    ///
    /// Several processes may do so at once: one migrates, the others wait for it.
    pub async fn open(url: &str) -> Result<Self> {
        let store = Self::connect(url).await?;
        migrate::run(&store, migrate::NEWEST).await?;
        Ok(store)
    }

    async fn connect(url: &str) -> Result<Self> {
        let writability = Arc::default();
        let database = Database::connect_with(url, Arc::clone(&writability)).await?;
        let is_sharded = database.is_sharded().await?;
        let limits = Limits::Ordinary;
        Ok(Self { database, limits, writability, replica: None, is_for_lists: false, is_sharded })
    }

    /// Opens a database as it is: creates no file and migrates nothing. Only for what works on any schema.
    pub async fn attach(url: &str) -> Result<Self> {
        if let Some(path) = sqlite_path(url)
            && !path.exists()
        {
            return Err(Error::Address(format!("there is no file {}", path.display())));
        }
        Self::connect(url).await
    }

    /// Where the database stands among the migrations of this binary; fails if it knows others.
    pub async fn schema(&self) -> Result<Schema> {
        migrate::schema(self).await
    }

    /// Opens a database as an older version of Auspex did, which knew only the first so many migrations.
    #[cfg(feature = "test-util")]
    pub async fn open_at(url: &str, migrations: usize) -> Result<Self> {
        let store = Self::connect(url).await?;
        migrate::run(&store, migrations).await?;
        Ok(store)
    }

    /// The same database with the statements for one that is divided into shards, which any PostgreSQL runs.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn as_sharded(self) -> Self {
        Self { is_sharded: true, ..self }
    }

    /// Which database this is, for tests: the service must not depend on it.
    #[cfg(feature = "test-util")]
    pub fn backend(&self) -> Backend {
        self.database.backend()
    }

    /// Whether other processes may use the same database: then their writes are not seen here until they are read.
    pub fn is_shared(&self) -> bool {
        self.database.backend() == Backend::Postgres
    }

    /// How many transactions are worth running beside each other: SQLite writes one at a time.
    pub fn parallel_writers(&self) -> usize {
        match self.database.backend() {
            Backend::Sqlite => 1,
            Backend::Postgres => POSTGRES_WRITERS,
        }
    }

    /// Runs the simplest query, to find out whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        self.read("ping", async |conn| {
            let _: (i64,) = fetch_one!(conn, "SELECT count(*) FROM deployment WHERE name = ''")?;
            Ok(())
        })
        .await
    }

    /// Finds out whether the database answers, and whether it takes writes again if it did not.
    pub async fn check(&self) -> Result<()> {
        self.ping().await?;
        if !self.writability.is_failing() {
            return Ok(());
        }
        let _probing = self.writability.begin_probe()?;
        for value in [probe_text().as_str(), ""] {
            self.write("probe", async |conn: &mut Conn| {
                execute!(
                    conn,
                    "INSERT INTO deployment (name, value) VALUES ($1, $2)
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    PROBE,
                    value
                )
            })
            .await?;
        }
        Ok(())
    }

    /// Closes every connection, once the work under way on it has ended.
    pub async fn close(&self) {
        if let Some(replica) = &self.replica {
            replica.close().await;
        }
        self.database.close().await;
    }
}
