//! All SQL, and only SQL: a folder for each room, a file for each noun. One text serves SQLite and PostgreSQL (see [`db`]).
//!
//! A use case runs in one named transaction: [`Store::write`] retries it on a conflict and meters it by its name,
//! [`Store::read`] lends a connection for statements that need no transaction.
//!
//! Arrows between the rooms run one way: `objects -> billing -> analysis`, `objects -> actions`,
//! `upkeep -> {analysis, outbox}`, and every room uses `db`.

pub mod accounts;
pub mod actions;
pub mod analysis;
pub mod billing;
pub mod db;
pub mod objects;
pub mod outbox;
pub mod quality;
pub mod runtime;
pub mod upkeep;

pub use db::{
    BACKSTOP_INTERVAL, Backend, Batch, Conn, Database, Error, FileLock, Lease, Listener, LockWait,
    Notification, Result, Schema, Store, StoreError, reading_as, sqlite_path,
};
#[cfg(feature = "test-util")]
pub use upkeep::pending::Pending;
