//! Nouns and pure rules of the service: ids, time, money and what follows from them.
//!
//! Nothing here does I/O, reads a clock or rolls dice; whoever calls hands those in. The `sqlx` feature
//! teaches the nouns their native form on each database and is only for the `store` crate.

pub mod api;
mod date;
mod email;
mod id;
mod provider;
#[cfg(feature = "sqlx")]
mod sql;
mod timestamp;
pub mod totp;

pub use date::{Date, InvalidDate};
pub use email::{EmailAddress, InvalidEmail};
pub use id::{KeyId, TenantId, UserId};
pub use provider::{Provider, UnknownProvider};
pub use timestamp::{InvalidTimestamp, Timestamp};
