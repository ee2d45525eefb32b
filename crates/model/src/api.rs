//! The records of the HTTP API, named as in the specification. The server and the client share them.

mod account;
mod answers;
mod audit;
mod billing;
mod conditions;
mod keys;
mod members;
mod objects;
mod replays;
mod rules;
mod signals;
mod system;
mod timeline;
mod usage;
mod webhooks;

pub use account::*;
pub use answers::*;
pub use audit::*;
pub use billing::*;
pub use conditions::*;
pub use keys::*;
pub use members::*;
pub use objects::*;
pub use replays::*;
pub use rules::*;
pub use signals::*;
pub use system::*;
pub use timeline::*;
pub use usage::*;
pub use webhooks::*;
