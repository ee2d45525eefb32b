//! The records of the HTTP API, named as in the specification. The server and the client share them.

mod account;
mod answers;
mod billing;
mod conditions;
mod keys;
mod labels;
mod objects;
mod quality;
mod replays;
mod reviews;
mod rules;
mod signals;
mod system;
mod timeline;
mod trials;
mod usage;
mod webhooks;

pub use account::*;
pub use answers::*;
pub use billing::*;
pub use conditions::*;
pub use keys::*;
pub use labels::*;
pub use objects::*;
pub use quality::*;
pub use replays::*;
pub use reviews::*;
pub use rules::*;
pub use signals::*;
pub use system::*;
pub use timeline::*;
pub use trials::*;
pub use usage::*;
pub use webhooks::*;
