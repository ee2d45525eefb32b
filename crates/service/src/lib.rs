//! The use cases of the service, and the outside world that they need. Knows nothing of HTTP servers.

mod clock;
mod error;
mod random;
mod sealing;
mod workers;

pub use clock::{Clock, ClockHands};
pub use error::{Error, Kind, Result};
pub use random::Random;
pub use sealing::{CannotUnseal, InvalidMasterKey, MasterKey, Sealer};
pub use workers::Workers;
