//! Upkeep: sweeping expired rows, finding what other processes have queued, gauges, the queues for operators, and moving secrets to a
//! new master key.

mod backstop;
mod checkup;
mod diagnosis;
mod gauges;
mod listener;
mod queues;
mod readiness;
mod rekeying;
mod replica;
mod sweeper;

pub use self::backstop::INTERVAL as BACKSTOP_INTERVAL;
pub use self::checkup::Checkup;
pub use self::gauges::{Gauges, QueueGauges};
pub use self::queues::{NamedQueue, QueueReport, Queues, WorkKind};
pub use self::readiness::Readiness;
pub use self::rekeying::{MASTER_KEY_FACT, RekeyError, is_rekeying, rekey};
pub use self::sweeper::SWEEP_INTERVAL;

pub(crate) use self::backstop::Backstop;
pub(crate) use self::listener::Listener;
pub(crate) use self::replica::follow_replica;
pub(crate) use self::sweeper::Sweeper;
