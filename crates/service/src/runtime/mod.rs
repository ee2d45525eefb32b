//! What every room depends on: callers, time, randomness, errors, background tasks, caches, sealing, traces, rate limits,
//! and the guarded client for URLs that tenants configure. It does not depend on any other room.

mod address_budget;
pub mod audit;
mod caller;
mod clock;
pub(crate) mod cursor;
pub(crate) mod driver;
mod error;
pub(crate) mod group_writer;
mod health;
pub(crate) mod intake;
mod keyed_hash;
mod linger;
mod nodes;
pub(crate) mod outbound;
mod random;
mod rate;
mod sealing;
mod short_cache;
pub(crate) mod sweep_requests;
mod throttle;
pub mod traces;
pub(crate) mod turns;
mod wakeup;
mod workers;

pub use self::address_budget::{AddressBudget, client_network};
pub use self::caller::{Caller, Carrier, ClientInfo, Credential, KeyRights, SessionId};
pub use self::clock::Clock;
#[cfg(feature = "test-util")]
pub use self::clock::ClockHands;
pub use self::cursor::PageQuery;
pub use self::error::{Error, Kind, Result};
pub use self::health::{Health, Supervision};
pub use self::nodes::{HEARTBEAT_INTERVAL, HEARTBEAT_LIFETIME, Nodes, clock_offset_s, start_clock};
pub use self::random::Random;
pub use self::rate::{Allowance, Decision, RateBudget, Share};
pub use self::sealing::{CannotUnseal, InvalidMasterKey, MasterKey, Sealer};
pub use self::throttle::{Limit, Throttle};
pub use self::traces::Traces;
pub use self::turns::{Cursor, Turns};
pub use self::workers::{Waiting, Workers};

pub(crate) use self::caller::{agent_name, require_role};
pub(crate) use self::error::internal;
pub(crate) use self::health::count_panic;
pub(crate) use self::keyed_hash::KeyedHash;
pub(crate) use self::outbound::Outbound;
pub(crate) use self::short_cache::ShortCache;
pub(crate) use self::sweep_requests::SweepRequests;
pub(crate) use self::wakeup::Wakeup;
