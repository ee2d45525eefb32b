//! The database itself, whichever it is: connecting, transactions, batches of statements, migrations, and every
//! difference between SQLite and PostgreSQL that is not a text of its own.

pub(crate) mod bulk;
pub mod connect;
pub(crate) mod dialect;
pub(crate) mod error;
pub(crate) mod leased_queue;
pub(crate) mod migrate;
pub(crate) mod notify;
pub(crate) mod round;
pub(crate) mod transaction;
