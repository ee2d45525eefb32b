//! Mail: queued in the transaction of the change that it reports, and sent at least once by a worker.
//!
//! [`MailTemplates`] renders the mails; [`Mailer`] queues them and sends them through a [`Transport`].

mod body;
mod channel;
mod files;
mod message;
mod smtp;
mod templates;
mod transport;

pub use self::body::{Body, Link};
pub use self::channel::{MailChannel, Mailer};
pub use self::message::{InvalidMail, Mail};
pub use self::smtp::InvalidSmtpUrl;
pub use self::templates::{Ended, KeyFacts, MailTemplates};
pub use self::transport::Transport;
pub use crate::outbox::worker::Firing;
