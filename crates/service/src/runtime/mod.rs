//! What every room stands on: time, randomness, errors, background tasks, caches, sealing, traces, limits on requests,
//! and the guarded way out to addresses that tenants name. Knows nothing of the rooms above it.

pub(crate) mod address_budget;
pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod group_writer;
pub(crate) mod nodes;
pub(crate) mod outbound;
pub(crate) mod random;
pub(crate) mod rate;
pub(crate) mod sealing;
pub(crate) mod short_cache;
pub(crate) mod throttle;
pub mod traces;
pub(crate) mod turns;
pub(crate) mod wakeup;
pub(crate) mod workers;
