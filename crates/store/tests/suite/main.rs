//! What the store promises, tried on both databases.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test that called it")]

// The name that every other crate of the workspace knows it by.
extern crate auspex_store as store;

/// Runs one expression with a native connection, written once for both databases.
macro_rules! on_either {
    ($conn:expr, |$native:ident| $body:expr) => {
        match $conn {
            store::Conn::Sqlite(lent) => {
                let $native = lent.native();
                $body
            }
            store::Conn::Postgres(lent) => {
                let $native = lent.native();
                $body
            }
        }
    };
}

/// Runs a statement on a lent connection and returns how many rows it changed.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        on_either!($conn, |native| {
            sqlx::query($sql)$(.bind($value))*.execute(native).await.map(|done| done.rows_affected())
        })
        .map_err(store::Error::from)
    };
}

/// All rows of a query on a lent connection, each as the type that the caller names.
macro_rules! fetch_all {
    ($conn:expr, $sql:expr $(, $value:expr)* $(,)?) => {
        on_either!($conn, |native| sqlx::query_as($sql)$(.bind($value))*.fetch_all(native).await)
            .map_err(store::Error::from)
    };
}

mod answer_history;
mod catalogue;
mod conditions;
mod deletion;
mod deliveries;
mod event_counters;
mod hot_paths;
mod jobs;
mod labels;
mod limits;
mod migrations;
mod passkeys;
mod recording;
mod replica;
mod rooms;
mod search;
mod sweep_rounds;
mod transactions;
mod values;

use store::Database;
use testkit::TestDatabase;

/// The database at the newest schema, for a test's own statements.
async fn migrated(database: &TestDatabase) -> Database {
    database.open().await.close().await;
    Database::connect(database.url()).await.unwrap()
}
