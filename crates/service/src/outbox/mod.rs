//! Messages to people: mails and chat messages, queued with the change that they tell of and sent by a worker.

pub(crate) mod chat;
pub mod mail;
pub(crate) mod notifications;
pub(crate) mod worker;
