//! Copies of a database: taken beside a running service, and checked before they count.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

use crate::db::{Conn, Error, Result, Store, fetch_one, on_either};

/// How long a copy waits for a SQLite file that another process has locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Defects of a file that are reported: enough to see what is wrong.
const MAX_DEFECTS: usize = 20;

/// Copies a SQLite file into another, which must be empty. Readers and writers of the source go on meanwhile; the copy is its
/// state at one instant, without the space that deleted rows have left.
pub async fn copy_sqlite(source: &Path, target: &Path) -> Result<()> {
    let options =
        SqliteConnectOptions::new().filename(source).create_if_missing(false).busy_timeout(LOCK_TIMEOUT);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    let target =
        target.to_str().ok_or_else(|| Error::Address("the name of the file is not UTF-8".to_owned()))?;
    sqlx::query("VACUUM INTO $1").bind(target).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// What is wrong with a SQLite file that nobody else uses: pages, indexes, constraints, references. Nothing, normally.
pub async fn sqlite_defects(file: &Path) -> Result<Vec<String>> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(false);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    let found: Vec<(String,)> =
        sqlx::query_as(AssertSqlSafe(format!("PRAGMA integrity_check({MAX_DEFECTS})")))
            .fetch_all(&mut connection)
            .await?;
    let mut defects: Vec<String> =
        found.into_iter().map(|(line,)| line).filter(|line| line != "ok").collect();
    let dangling: Vec<(String, i64)> =
        sqlx::query_as("SELECT \"table\", count(*) FROM pragma_foreign_key_check GROUP BY \"table\"")
            .fetch_all(&mut connection)
            .await?;
    defects.extend(
        dangling
            .into_iter()
            .map(|(table, rows)| format!("{rows} rows of {table} refer to rows that are missing")),
    );
    connection.close().await?;
    Ok(defects)
}

impl Store {
    /// Whether the database holds nothing at all, not even a table of somebody else's.
    pub async fn is_empty(&self) -> Result<bool> {
        self.read("is_empty", async |conn: &mut Conn| {
            let text = match conn {
                Conn::Sqlite(_) => "SELECT count(*) FROM sqlite_schema",
                Conn::Postgres(_) => {
                    "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
                     WHERE nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%'"
                }
            };
            let (relations,): (i64,) = fetch_one!(conn, text)?;
            Ok(relations == 0)
        })
        .await
    }
}

/// A state of a PostgreSQL database that other connections can read too, for as long as this lives.
pub struct ExportedSnapshot {
    connection: PgConnection,
    id: String,
}

impl ExportedSnapshot {
    /// Takes a snapshot of the database as it is now.
    pub async fn take(url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| Error::Address(format!("not a PostgreSQL URL: {error}")))?
            .application_name("auspex backup");
        let mut connection = PgConnection::connect_with(&options).await?;
        // A dump takes as long as it takes, and nobody waits for this transaction: it only reads.
        sqlx::raw_sql(
            "SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0;
             BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        )
        .execute(&mut connection)
        .await?;
        let (id,): (String,) =
            sqlx::query_as("SELECT pg_export_snapshot()").fetch_one(&mut connection).await?;
        Ok(Self { connection, id })
    }

    /// What `pg_dump --snapshot` and [`adopt`] know it by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ends it; fails if it was lost meanwhile.
    pub async fn end(mut self) -> Result<()> {
        sqlx::raw_sql("COMMIT").execute(&mut self.connection).await?;
        self.connection.close().await?;
        Ok(())
    }
}

/// Makes a snapshot that has just begun show the state of an exported one.
pub async fn adopt(conn: &mut Conn, snapshot: &str) -> Result<()> {
    // The id comes from the database and takes no placeholder.
    let text = format!("SET TRANSACTION SNAPSHOT '{}'", snapshot.replace('\'', "''"));
    on_either!(conn, |native| sqlx::raw_sql(AssertSqlSafe(text)).execute(native).await.map(drop))?;
    Ok(())
}
