//! Two databases behind one set of statements.
//!
//! The macros below take one SQL text with `$1` placeholders and expand the same query for each native driver. Values
//! bind as our own types, which know their native form on each database (`model`, feature `sqlx`). Where one text
//! cannot serve both, [`crate::db::dialect`] holds the difference.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Executor as _, PgPool, SqlitePool};
use tracing::warn;

use crate::{Error, Result};

/// Which database is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Embedded, one process, no set-up.
    Sqlite,
    /// Shared by any number of processes.
    Postgres,
}

/// An open database.
#[derive(Clone)]
pub enum Database {
    /// SQLite admits one writer at a time. Giving it one connection turns lock contention into a fair queue.
    Sqlite {
        /// The only connection that writes.
        writer: SqlitePool,
        /// Connections that read beside it.
        readers: SqlitePool,
    },
    /// PostgreSQL.
    Postgres(PgPool),
}

/// Readers beside SQLite's one writer. Reads are short and the machine has few cores; more only cost memory.
const SQLITE_READERS: u32 = 4;
/// Statements that stay prepared on a SQLite connection: statements of many rows have a text for each size of chunk.
const SQLITE_STATEMENTS: usize = 800;
/// Rows that a statement may be ahead of whoever reads them: each time that it has to wait, two threads change places.
const SQLITE_ROWS: usize = 1_024;
/// Pages that each connection to SQLite remembers, in KiB as SQLite writes it: the upper levels of every index of a million
/// objects. Taken as they are read, so an idle process has none.
const SQLITE_CACHE: &str = "-16384";
/// How long a caller waits for SQLite: for its one writer, which is there and busy with those who came before, or for another
/// process's lock, such as an `auspex admin` command's.
const SQLITE_PATIENCE: Duration = Duration::from_secs(30);
/// How long it takes to look again whether a file is still locked.
const SQLITE_AGAIN: Duration = Duration::from_millis(5);
/// Connections to PostgreSQL a process: enough for its workers and requests, few enough for many processes.
const POSTGRES_CONNECTIONS: u32 = 20;
/// Statements that stay prepared on a connection to PostgreSQL: a round has a text for each way in which its parts have one row
/// or several.
const POSTGRES_STATEMENTS: usize = 256;
/// How PostgreSQL plans: by the indexes that every statement was written for. What it knows of a table's size is old after a
/// bulk load, and a plan that was made while a table was empty is kept: it would read whole tables for a row
/// (`docs/adr/0010-plans-by-index.md`). Compiling plans takes longer than running any of ours.
const POSTGRES_PLANS: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
/// How long after its last use a connection to PostgreSQL is believed to be there without asking: to ask costs as much as a
/// statement.
const POSTGRES_TRUST: Duration = Duration::from_secs(1);
/// How long a caller waits for a connection to PostgreSQL before it counts as unreachable.
const POSTGRES_PATIENCE: Duration = Duration::from_secs(5);

impl Database {
    /// Opens the database at `url`; a SQLite file that does not exist is made.
    pub async fn connect(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            Self::connect_sqlite(Path::new(path.strip_prefix("//").unwrap_or(path))).await
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Self::connect_postgres(url).await
        } else {
            Err(Error::Address("a database address starts with sqlite: or postgres://".to_owned()))
        }
    }

    async fn connect_sqlite(path: &Path) -> Result<Self> {
        keep_private(path)
            .map_err(|cause| Error::Address(format!("cannot use {}: {cause}", path.display())))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was answered as recorded is on the disk: a power cut loses nothing.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(SQLITE_PATIENCE)
            .pragma("cache_size", SQLITE_CACHE)
            .statement_cache_capacity(SQLITE_STATEMENTS)
            .row_buffer_size(SQLITE_ROWS);
        // A file does not hang up: there is no need to ask whether it is still there.
        let pool = SqlitePoolOptions::new().acquire_timeout(SQLITE_PATIENCE).test_before_acquire(false);
        // What a statement that writes must be able to take back is a few hundred pages, of which SQLite would make a file.
        let writing = options.clone().pragma("temp_store", "MEMORY");
        let writer = connect_patiently(&pool.clone().max_connections(1), &writing).await?;
        let readers =
            pool.max_connections(SQLITE_READERS).connect_lazy_with(options.pragma("query_only", "true"));
        Ok(Self::Sqlite { writer, readers })
    }

    async fn connect_postgres(url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| Error::Address(format!("not a PostgreSQL address: {error}")))?
            .application_name("auspex")
            .statement_cache_capacity(POSTGRES_STATEMENTS);
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(POSTGRES_PATIENCE)
            .test_before_acquire(false)
            .before_acquire(|connection, metadata| {
                Box::pin(async move {
                    if metadata.idle_for >= POSTGRES_TRUST {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(POSTGRES_PLANS).await.map(drop) })
            })
            .connect_with(options)
            .await?;
        Ok(Self::Postgres(pool))
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite { .. } => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// Connects to a SQLite file that another process may just be making: while that one gives the file its log, it is locked for all
/// others, and SQLite lets nobody wait for that by itself.
async fn connect_patiently(pool: &SqlitePoolOptions, options: &SqliteConnectOptions) -> Result<SqlitePool> {
    let started = Instant::now();
    loop {
        let connected = pool.clone().connect_with(options.clone()).await.map_err(Error::from);
        if !connected.as_ref().is_err_and(Error::is_transient) || started.elapsed() > SQLITE_PATIENCE {
            return connected;
        }
        tokio::time::sleep(SQLITE_AGAIN).await;
    }
}

/// Makes a SQLite file for its owner alone, and takes it from others where they could read it: everything that anybody ever
/// said is in there. SQLite gives the files beside it the rights of the file itself.
fn keep_private(path: &Path) -> std::io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other.map(drop),
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let is_open = std::fs::metadata(&name).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
        if is_open && let Err(error) = std::fs::set_permissions(&name, Permissions::from_mode(0o600)) {
            warn!(%error, file = ?name, "others than its owner can read the database");
        }
    }
    Ok(())
}

/// Runs one expression with a native connection, written once for both databases.
macro_rules! on_either {
    ($conn:expr, |$native:ident| $body:expr) => {
        match $conn {
            $crate::Conn::Sqlite(held) => {
                let $native = held.native().await?;
                $body
            }
            $crate::Conn::Postgres(held) => {
                let $native = held.native().await?;
                $body
            }
        }
    };
}

/// Runs a statement and says how many rows it changed.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::connect::on_either!($conn, |native| {
            sqlx::query($sql)$(.bind($value))*.execute(native).await.map(|done| done.rows_affected())
        })
        .map_err($crate::Error::from)
    };
}

/// All rows of a query, each as the type that the caller names.
macro_rules! fetch_all {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::connect::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_all(native).await
        })
        .map_err($crate::Error::from)
    };
}

/// The one row of a query.
macro_rules! fetch_one {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::connect::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_one(native).await
        })
        .map_err($crate::Error::from)
    };
}

/// The row of a query, if there is one.
macro_rules! fetch_optional {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::connect::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_optional(native).await
        })
        .map_err($crate::Error::from)
    };
}

pub(crate) use {execute, fetch_all, fetch_one, fetch_optional, on_either};
