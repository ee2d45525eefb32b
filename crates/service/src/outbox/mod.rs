//! Mails and chat messages: queued in the transaction of the change that they report, and sent by a worker.

mod chat;
pub mod mail;
mod notifications;
pub(crate) mod worker;

pub use self::notifications::Notifications;

pub(crate) use self::chat::{ChatMessage, ChatOutbox};
pub(crate) use self::notifications::EmailEvent;
