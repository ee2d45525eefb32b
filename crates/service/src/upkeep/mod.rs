//! Upkeep: sweeping expired rows, listening to other processes, gauges, and moving secrets to a
//! new master key.

mod gauges;
mod listener;
mod rekeying;
mod sweeper;

pub use self::gauges::{Gauges, QueueGauges};
pub use self::rekeying::{MASTER_KEY_FACT, RekeyError, is_rekeying, rekey};

pub(crate) use self::listener::Listener;
pub(crate) use self::sweeper::Sweeper;
