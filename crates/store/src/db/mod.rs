//! The database, whichever it is: connections, transactions, statements, batches, migrations.
//!
//! # One SQL text for both databases
//!
//! Statements are written once, for SQLite and PostgreSQL, with `$1`, `$2`, … as placeholders. The macros of
//! [`statement`] run them: `execute!` says how many rows changed, `fetch_all!`, `fetch_one!` and `fetch_optional!` return
//! rows as the type that the caller names. Values are bound as our own types, which know their native form on each
//! database (`model`, feature `sqlx`).
//!
//! ```ignore
//! let found: Option<Rule> = fetch_optional!(conn, "SELECT … FROM rules WHERE tenant_id = $1 AND rule_id = $2", tenant, rule)?;
//! ```
//!
//! # Many rows in one statement
//!
//! [`Rows`] is the only builder for that. It takes the rows, then one value for each column; the type of a column
//! follows from the Rust type of its value. It ends as an insertion, or as a statement that sees the rows as a table
//! called `given`:
//!
//! ```ignore
//! Rows::of(&firings)
//!     .column("tenant_id", |firing| firing.tenant_id)
//!     .column("firing_id", |firing| firing.firing_id)
//!     .insert("rule_firings", "ON CONFLICT DO NOTHING")
//!     .execute(conn)
//!     .await?;
//! let found = Rows::of(&keys)
//!     .column("tenant_id", |key| key.0)
//!     .column("object_id", |key| key.1)
//!     .with_given(
//!         "SELECT objects.object_id, risk FROM given CROSS JOIN objects
//!          WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id",
//!     )
//!     .fetch::<(String, f64)>(conn)
//!     .await?;
//! ```
//!
//! A statement over `given` writes `FROM given CROSS JOIN table … WHERE table.key = given.key`. SQLite takes the tables of a
//! cross join in the order written, so it looks up each given row by its key instead of reading the table. [`Rows::delete`]
//! removes rows by their keys.
//!
//! # One plan for each statement
//!
//! PostgreSQL must not depend on what it knows of the tables (`docs/adr/0010-plans-by-index.md`):
//!
//! - The tenant is compared as `= given.tenant_id` or `= given.tenant`: for many rows the builder turns this into a comparison
//!   that only a lookup by index serves ([`Backend::looked_up_by`]). Other statements that join rows by their keys write it
//!   themselves, as claims ([`claim_statements`]) and sweeps ([`chosen`]) do.
//! - A statement orders by columns of `given`, never by those of the table that it looks up.
//! - Where a part of the key comes from another table, `LATERAL (SELECT … OFFSET 0)` is a fence.
//! - An index beside the primary key has a condition, which a statement states to use it. The first rows of a range are a
//!   comparison of rows ([`Backend::range`]), in the order of all columns of the index.
//!
//! # Batches
//!
//! A short transaction costs as much as its number of round trips. Statements whose rows nobody reads go into a
//! [`Batch`], which sends all of them in one round trip ([`batch`]).
//!
//! # Where the databases need different statements
//!
//! Both texts stand beside each other at the call site, as [`Sql`] with a text for each, or as a `match` on
//! [`Conn::backend`]. What can be said once for all statements (column types, locks) is in [`dialect`].

pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod chosen;
pub(crate) mod claim_statements;
pub(crate) mod conn;
pub(crate) mod connect;
pub(crate) mod dialect;
pub(crate) mod error;
pub(crate) mod file_lock;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod lists;
pub(crate) mod migrate;
pub(crate) mod notify;
pub(crate) mod open;
pub(crate) mod replica;
pub(crate) mod rows;
pub(crate) mod sessions;
pub(crate) mod statement;
pub(crate) mod transaction;
pub(crate) mod writability;

pub use batch::Batch;
pub use conn::{Conn, Lent};
pub use connect::{Database, sqlite_path};
pub use dialect::Backend;
pub use error::{Error, Result, StoreError};
pub use file_lock::FileLock;
pub use lease::Lease;
pub use limits::LockWait;
pub use migrate::Schema;
pub use notify::{BACKSTOP_INTERVAL, Listener, Notification};
pub use replica::reading_as;
pub use transaction::Store;

pub(crate) use chosen::Chosen;
pub(crate) use rows::{Rows, RowsStatement};
pub(crate) use statement::{
    Sql, bigint, execute, expect_one, expect_rows, fetch_all, fetch_one, fetch_optional, on_either,
};
