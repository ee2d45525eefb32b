//! What the store promises, tried on both databases.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test that called it")]

// The name that every other crate of the workspace knows it by.
extern crate auspex_store as store;

/// Runs a statement on a lent connection and says how many rows it changed.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        match $conn {
            store::Conn::Sqlite(held) => {
                sqlx::query($sql)$(.bind($value))*.execute(held.native()).await.map(|done| done.rows_affected())
            }
            store::Conn::Postgres(held) => {
                sqlx::query($sql)$(.bind($value))*.execute(held.native()).await.map(|done| done.rows_affected())
            }
        }
        .map_err(store::Error::from)
    };
}

/// All rows of a query on a lent connection, each as the type that the caller names.
macro_rules! fetch_all {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        match $conn {
            store::Conn::Sqlite(held) => sqlx::query_as($sql)$(.bind($value))*.fetch_all(held.native()).await,
            store::Conn::Postgres(held) => sqlx::query_as($sql)$(.bind($value))*.fetch_all(held.native()).await,
        }
        .map_err(store::Error::from)
    };
}

mod catalogue;
mod hot_paths;
mod migrations;
mod transactions;
mod values;
