//! The service from outside: the real thing on a random port, with a test's clock, on both databases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod app;
mod body;
mod database_down;
mod process;
mod shell;
mod signer;
