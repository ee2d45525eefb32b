//! Mail: queued in the transaction of the change that it tells of, sent by a worker, at least once.
//!
//! [`MailTemplates`] writes what the service has to say, [`Mailer`] queues it and sends it through a [`Transport`].

mod body;
mod carrier;
mod files;
mod message;
mod smtp;
mod templates;
mod transport;

pub use self::body::{Body, Link};
pub use self::carrier::{MailCarrier, Mailer};
pub use self::message::{InvalidMail, Mail};
pub use self::smtp::InvalidSmtpUrl;
pub use self::templates::{KeyFacts, MailTemplates};
pub use self::transport::Transport;
pub use crate::outbox::worker::Firing;
