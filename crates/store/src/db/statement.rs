//! Running one statement on either database.

use crate::db::error::{Error, Result};

/// The text of a statement: the same for both databases, or one for each where they need different ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql<'a> {
    /// What SQLite runs.
    pub(crate) sqlite: &'a str,
    /// What PostgreSQL runs.
    pub(crate) postgres: &'a str,
}

impl<'a> From<&'a str> for Sql<'a> {
    fn from(text: &'a str) -> Self {
        Self { sqlite: text, postgres: text }
    }
}

/// Runs one expression with a native connection, written once for both databases.
macro_rules! on_either {
    ($conn:expr, |$native:ident| $body:expr) => {
        match $conn {
            $crate::db::Conn::Sqlite(lent) => {
                let $native = lent.native();
                $body
            }
            $crate::db::Conn::Postgres(lent) => {
                let $native = lent.native();
                $body
            }
        }
    };
}

/// Runs a statement and returns how many rows it changed.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::on_either!($conn, |native| {
            sqlx::query($sql)$(.bind($value))*.execute(native).await.map(|done| done.rows_affected())
        })
        .map_err($crate::db::Error::from)
    };
}

/// Returns all rows of a query, each as the type that the caller names.
macro_rules! fetch_all {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_all(native).await
        })
        .map_err($crate::db::Error::from)
    };
}

/// Returns the only row of a query.
macro_rules! fetch_one {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_one(native).await
        })
        .map_err($crate::db::Error::from)
    };
}

/// Returns the row of a query, if there is one.
macro_rules! fetch_optional {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        $crate::db::on_either!($conn, |native| {
            sqlx::query_as($sql)$(.bind($value))*.fetch_optional(native).await
        })
        .map_err($crate::db::Error::from)
    };
}

pub(crate) use {execute, fetch_all, fetch_one, fetch_optional, on_either};

/// Refuses a statement that did not change exactly one row.
pub(crate) fn expect_one(actual: u64) -> Result<()> {
    expect_rows(1, actual)
}

/// Refuses a statement that changed another number of rows than expected.
pub(crate) fn expect_rows(expected: usize, actual: u64) -> Result<()> {
    let expected = expected as u64;
    if actual == expected { Ok(()) } else { Err(Error::RowsAffected { expected, actual }) }
}

/// A length as a `bigint` of the database.
pub(crate) fn bigint(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
