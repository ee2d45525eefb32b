//! Keeping a deployment healthy: sweeping what has expired, gauges, and moving secrets to a new master key.

pub(crate) mod gauges;
pub(crate) mod rekeying;
pub(crate) mod sweeper;
