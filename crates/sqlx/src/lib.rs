//! sqlx with its derives, but without a second copy of both drivers.
//!
//! The `derive` feature of sqlx builds SQLite, both drivers, TLS and an async runtime once more for the compiler,
//! because they share a crate with the macros that check queries against a database. We use none of those macros, so
//! the derives are taken here from the crate that defines them, with no driver enabled.
//!
//! One difference: a derived `Type` has no `PgHasArrayType`. A type that is bound as an array implements it by hand.

pub use sqlx_facade::*;
pub use sqlx_macros::{Decode, Encode, FromRow, Type};
