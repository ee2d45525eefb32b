//! Connecting: pools, and the settings of every connection.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor as _, PgPool, SqlitePool};
use tracing::{debug, warn};

use crate::db::dialect::Backend;
use crate::db::error::{Error, Result};
use crate::db::limits::{POSTGRES_CLIENT_CHECK, POSTGRES_SESSION};
use crate::db::sessions::{Sessions, require_own_sessions};
use crate::db::writability::Writability;

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
/// Statements that stay prepared on a SQLite connection: statements over many rows have a text for each size of chunk.
const SQLITE_STATEMENTS: usize = 800;
/// Rows that SQLite's thread may be ahead of the reader: each time that it has to wait, two threads change places.
const SQLITE_ROWS: usize = 1_024;
/// Page cache of each connection to SQLite, in KiB as SQLite writes it: the upper levels of every index of a million
/// objects. Memory is taken as pages are read, so an idle process uses none.
const SQLITE_CACHE: &str = "-16384";
/// How long a caller waits for SQLite: for its one writer, which is busy with earlier callers, or for another process's
/// lock, such as that of an `auspex admin` command.
const SQLITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a locked file is tried again.
const SQLITE_RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Connections to PostgreSQL of one process beside that of its listener: enough for its workers and requests, few enough for
/// many processes.
const POSTGRES_CONNECTIONS: u32 = 19;
/// Connections to a replica of one process: as many lists as are read from it at the same time.
pub(crate) const REPLICA_CONNECTIONS: u32 = 10;
/// Statements that stay prepared on a connection to PostgreSQL: a batch has a text for each combination of statements over
/// one row and over several.
const POSTGRES_STATEMENTS: usize = 256;
/// How PostgreSQL plans. Every statement is written for an index, but a table that was analyzed without a page has a sequential
/// scan for nothing, and a plan that was made then is kept: it would read the whole table for a row, however much it has grown
/// (`docs/adr/0010-plans-by-index.md`). Compiling plans takes longer than running any of ours.
const POSTGRES_PLANS: &str = "SET enable_seqscan = off; SET jit = off";
/// What a process calls itself in `pg_stat_activity`, unless its URL has another `application_name`.
const POSTGRES_NAME: &str = "auspex";
/// How long a caller waits for a connection to PostgreSQL before the database counts as unreachable.
const POSTGRES_TIMEOUT: Duration = Duration::from_secs(5);

impl Database {
    /// Connects to the database at `url`; a SQLite file that does not exist is created.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, Arc::default()).await
    }

    /// Connects to a database whose writes are recorded in `writability`.
    pub(crate) async fn connect_with(url: &str, writability: Arc<Writability>) -> Result<Self> {
        if let Some(path) = sqlite_path(url) {
            Self::connect_sqlite(path).await
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Self::connect_postgres(url, writability).await
        } else {
            Err(Error::Address("a database URL starts with sqlite: or postgres://".to_owned()))
        }
    }

    async fn connect_sqlite(path: &Path) -> Result<Self> {
        keep_private(path)
            .map_err(|cause| Error::Address(format!("cannot use {}: {cause}", path.display())))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was acknowledged is on the disk: a power cut loses nothing.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(SQLITE_TIMEOUT)
            .pragma("cache_size", SQLITE_CACHE)
            // Every statement is written for the indexes of the schema. Given the choice, SQLite would rather index the rows
            // handed to a statement and read a whole table beside them than look each row up by its key.
            .pragma("automatic_index", "OFF")
            // What is deleted is overwritten: whoever finds an old file or a backup must not find it in there.
            .pragma("secure_delete", "ON")
            .statement_cache_capacity(SQLITE_STATEMENTS)
            .row_buffer_size(SQLITE_ROWS);
        // A connection to a file is never lost: it needs no ping.
        let pool = SqlitePoolOptions::new().acquire_timeout(SQLITE_TIMEOUT).test_before_acquire(false);
        // The rollback state of one statement is a few hundred pages, which SQLite would otherwise write to a file.
        let writing = options.clone().pragma("temp_store", "MEMORY");
        let writer = connect_with_retries(&pool.clone().max_connections(1), &writing).await?;
        let readers =
            pool.max_connections(SQLITE_READERS).connect_lazy_with(options.pragma("query_only", "true"));
        Ok(Self::Sqlite { writer, readers })
    }

    async fn connect_postgres(url: &str, writability: Arc<Writability>) -> Result<Self> {
        let pool =
            watched_pool(POSTGRES_CONNECTIONS, writability).connect_with(postgres_options(url)?).await?;
        require_own_sessions(&pool).await?;
        Ok(Self::Postgres(pool))
    }

    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite { .. } => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }

    /// Whether this is a PostgreSQL that can divide tables into shards: then statements are written for one that has.
    pub(crate) async fn is_sharded(&self) -> Result<bool> {
        let Self::Postgres(pool) = self else { return Ok(false) };
        let sharding = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')";
        Ok(sqlx::query_scalar(sharding).fetch_one(pool).await?)
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

/// A pool whose sessions have our settings.
fn postgres_pool(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(POSTGRES_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(POSTGRES_PLANS).await?;
                connection.execute(POSTGRES_SESSION).await?;
                if let Err(error) = connection.execute(POSTGRES_CLIENT_CHECK).await {
                    debug!(%error, "the server cannot check whether a statement's client is still there");
                }
                Ok(())
            })
        })
}

/// The same, for connections that may be lost while nobody uses them.
fn watched_pool(connections: u32, writability: Arc<Writability>) -> PgPoolOptions {
    let sessions = Arc::new(Sessions::new(writability));
    postgres_pool(connections).before_acquire(move |connection, metadata| {
        let sessions = Arc::clone(&sessions);
        Box::pin(async move { Ok(sessions.is_usable(connection, metadata).await) })
    })
}

fn postgres_options(url: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Address(format!("not a PostgreSQL URL: {error}")))?
        // Numbers travel in binary, and poolers refuse to begin a session with settings that they do not know.
        .extra_float_digits(None)
        .statement_cache_capacity(POSTGRES_STATEMENTS);
    Ok(match options.get_application_name() {
        Some(_) => options,
        None => options.application_name(POSTGRES_NAME),
    })
}

/// A pool of connections to a replica. They are opened when they are needed: the service starts and works without it.
pub(crate) fn replica_pool(url: &str) -> Result<PgPool> {
    Ok(watched_pool(REPLICA_CONNECTIONS, Arc::default()).connect_lazy_with(postgres_options(url)?))
}

/// A pool of one connection to the same database.
pub(crate) fn connection_beside(pool: &PgPool) -> PgPool {
    postgres_pool(1).connect_lazy_with((*pool.connect_options()).clone())
}

/// The file of a database URL, if the database is SQLite.
pub fn sqlite_path(url: &str) -> Option<&Path> {
    url.strip_prefix("sqlite:").map(|path| Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Connects to a SQLite file that another process may just be creating: while that one switches the file to WAL mode it is
/// locked for all others, and SQLite's own busy timeout does not cover that.
async fn connect_with_retries(
    pool: &SqlitePoolOptions,
    options: &SqliteConnectOptions,
) -> Result<SqlitePool> {
    let started = Instant::now();
    loop {
        let connected = pool.clone().connect_with(options.clone()).await.map_err(Error::from);
        if !connected.as_ref().is_err_and(Error::is_transient) || started.elapsed() > SQLITE_TIMEOUT {
            return connected;
        }
        tokio::time::sleep(SQLITE_RETRY_INTERVAL).await;
    }
}

/// Creates a SQLite file that only its owner can read, and restricts one that others can read: it holds everything that
/// anybody ever said. SQLite gives the files beside it the permissions of the file itself.
fn keep_private(path: &Path) -> std::io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other.map(drop),
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let is_readable_by_others =
            std::fs::metadata(&name).is_ok_and(|file| file.permissions().mode() & 0o077 != 0);
        if is_readable_by_others
            && let Err(error) = std::fs::set_permissions(&name, Permissions::from_mode(0o600))
        {
            warn!(%error, file = ?name, "the database file can be read by other users, and its permissions cannot be changed");
        }
    }
    Ok(())
}
