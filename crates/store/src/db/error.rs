//! Errors of the store.

use std::borrow::Cow;

use sqlx::error::ErrorKind;

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the database refused or failed. For the log, never for a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database, or the connection to it, failed.
    #[error("{0}")]
    Database(#[from] sqlx::Error),
    /// A transaction or a read was given up at its deadline. A commit may or may not have succeeded.
    #[error("the database did not answer within {limit_s} s")]
    Late {
        /// How long it may take.
        limit_s: u64,
    },
    /// The last writes failed, and it is not yet time to try again.
    #[error("the database takes no writes")]
    Unwritable,
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
    /// Connections to PostgreSQL do not have the sessions that a process needs.
    #[error("{0}")]
    Sessions(String),
    /// The replica cannot answer for the primary.
    #[error("{0}")]
    Replica(&'static str),
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
        match self.code() {
            // Busy and locked.
            Some(Code::Sqlite(code)) => matches!(code & 0xff, 5 | 6),
            // Serialization failure, deadlock, a lock that was not granted in time, and a session that was ended between
            // two statements, and so before its commit.
            Some(Code::Postgres(code)) => matches!(code.as_ref(), "40001" | "40P01" | "55P03" | "25P03"),
            None => false,
        }
    }

    /// Whether a lock was not granted in time.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self.code(), Some(Code::Postgres(code)) if code == "55P03")
    }

    /// Whether the server takes no writes, as one that was demoted.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.code(), Some(Code::Postgres(code)) if code == "25006")
    }

    /// Whether the database could not be reached, did not answer in time or cannot write, as opposed to refusing a statement.
    pub fn is_unavailable(&self) -> bool {
        match (self, self.code()) {
            (Self::Late { .. } | Self::Unwritable, _) => true,
            // Out of memory, read-only, I/O error, corrupt, full, cannot open, not a database.
            (_, Some(Code::Sqlite(code))) => matches!(code & 0xff, 7 | 8 | 10 | 11 | 13 | 14 | 26),
            (_, Some(Code::Postgres(code))) => {
                // Connection exceptions; out of disk, memory or connections; errors of the system.
                ["08", "53", "58"].iter().any(|class| code.starts_with(class))
                    // Became read-only, a statement canceled at its time limit, shutting down, crashed or starting up, the
                    // database dropped, an idle session ended.
                    || matches!(code.as_ref(), "25006" | "57014" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05")
            }
            (Self::Database(error), None) => {
                matches!(
                    error,
                    sqlx::Error::Io(_)
                        // What a driver makes of a connection that ends in the middle of a message.
                        | sqlx::Error::Protocol(_)
                        | sqlx::Error::PoolTimedOut
                        | sqlx::Error::PoolClosed
                        | sqlx::Error::WorkerCrashed
                )
            }
            _ => false,
        }
    }

    fn code(&self) -> Option<Code<'_>> {
        let Self::Database(sqlx::Error::Database(error)) = self else { return None };
        let code = error.code()?;
        if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
            code.parse().ok().map(Code::Sqlite)
        } else {
            Some(Code::Postgres(code))
        }
    }

    /// Whether a row with the same key is already there.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::Database(error)) if error.kind() == ErrorKind::UniqueViolation)
    }
}

/// What a database calls an error: SQLite a number, whose low byte is the primary code, PostgreSQL an SQLSTATE.
enum Code<'a> {
    Sqlite(u32),
    Postgres(Cow<'a, str>),
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
