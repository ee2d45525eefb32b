//! The outbox: emails and chat messages that wait to be sent.

pub mod messages;
