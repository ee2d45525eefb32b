//! What an operator wants to know about the database itself.

use model::Timestamp;
use sqlx::AssertSqlSafe;

use crate::db::{Backend, Conn, Result, fetch_one};

/// The name and version of the database's software.
pub async fn version(conn: &mut Conn) -> Result<String> {
    let text = match conn.backend() {
        Backend::Sqlite => "SELECT 'SQLite ' || sqlite_version()",
        Backend::Postgres => "SELECT 'PostgreSQL ' || current_setting('server_version')",
    };
    let (version,): (String,) = fetch_one!(conn, text)?;
    Ok(version)
}

/// Accounts with an endpoint that rests. A few rows for each account, and no delivery.
pub async fn resting_accounts(conn: &mut Conn, now: Timestamp) -> Result<i64> {
    let (accounts,): (i64,) = fetch_one!(
        conn,
        "SELECT count(DISTINCT tenant_id) FROM webhook_endpoints WHERE resting_until > $1",
        now
    )?;
    Ok(accounts)
}

/// The size of the database in bytes.
pub async fn size(conn: &mut Conn) -> Result<i64> {
    let text = match conn.backend() {
        Backend::Sqlite => "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        Backend::Postgres => "SELECT pg_database_size(current_database())",
    };
    let (bytes,): (i64,) = fetch_one!(conn, AssertSqlSafe(text.to_owned()))?;
    Ok(bytes)
}

/// Connections of PostgreSQL in use, and how many it admits; none on SQLite.
pub async fn connections(conn: &mut Conn) -> Result<Option<(i64, i64)>> {
    match conn.backend() {
        Backend::Sqlite => Ok(None),
        Backend::Postgres => {
            let both: (i64, i64) = fetch_one!(
                conn,
                "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
                        current_setting('max_connections')::bigint"
            )?;
            Ok(Some(both))
        }
    }
}
