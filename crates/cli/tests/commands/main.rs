//! The command line of an account: the real binary against a real service, on both databases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod access;
mod browser;
mod examples;
mod exports;
mod failures;
mod records;
mod terminal;
mod world;
