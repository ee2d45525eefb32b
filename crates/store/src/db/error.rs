//! Errors of the store.

use sqlx::error::ErrorKind;

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the database refused or failed. For the log, never for a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database, or the connection to it, failed.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// A statement changed another number of rows than expected.
    #[error("expected {expected} row(s) to change, {actual} did")]
    RowsAffected {
        /// How many rows it should have changed.
        expected: u64,
        /// How many it changed.
        actual: u64,
    },
    /// The URL of the database is invalid.
    #[error("{0}")]
    Address(String),
    /// Another process serves from the same SQLite file.
    #[error("{0}")]
    InUse(String),
    /// The schema in the database is not one this binary can work with.
    #[error("{0}")]
    Schema(String),
}

impl Error {
    /// Whether the same transaction may succeed when it is simply run again.
    pub fn is_transient(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        match error.code().as_deref() {
            // PostgreSQL: serialization failure, deadlock.
            Some("40001" | "40P01") => true,
            // SQLite: busy (primary code 5) and locked (6), with any extended code above the low byte.
            Some(code) => {
                code.parse::<u32>().is_ok_and(|code| code < 0x10000 && matches!(code & 0xff, 5 | 6))
                    && is_sqlite(error.as_ref())
            }
            None => false,
        }
    }

    /// Whether the database could not be reached or did not answer in time, as opposed to refusing a statement.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => match error.code().as_deref() {
                // PostgreSQL: connection exceptions, out of connections, shutting down or starting up.
                Some(code) => code.starts_with("08") || matches!(code, "53300" | "57P01" | "57P02" | "57P03"),
                None => false,
            },
            Self::Database(error) => {
                matches!(
                    error,
                    sqlx::Error::Io(_)
                        | sqlx::Error::PoolTimedOut
                        | sqlx::Error::PoolClosed
                        | sqlx::Error::WorkerCrashed
                )
            }
            _ => false,
        }
    }

    /// Whether a row with the same key is already there.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation)
    }
}

fn is_sqlite(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some()
}
