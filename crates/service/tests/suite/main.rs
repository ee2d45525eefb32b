//! Tests of the use cases, on both databases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

// The name under which the other crates of the workspace import it.
extern crate auspex_service as service;

mod mail;
mod providers;
mod quality;
mod rate;
mod rooms;
