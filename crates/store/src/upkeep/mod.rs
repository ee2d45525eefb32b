//! Keeping a deployment healthy: sweeping, gauges, backups, rekeying, and facts about the deployment.

pub mod backup;
pub mod checkup;
pub mod deployment;
pub mod gauges;
pub mod kept_history;
pub mod next_due;
#[cfg(feature = "test-util")]
pub(crate) mod pending;
pub mod queues;
pub mod rekeying;
pub mod sweep_rounds;
pub mod sweeper;
