//! Mail: queued in the transaction of the change that it tells of, sent by a worker, at least once.
//!
//! [`Letters`] writes what the service has to say, [`Mailer`] queues it and sends it through a [`Transport`].

mod body;
mod files;
mod letters;
mod message;
mod smtp;
mod transport;

use std::time::Duration;

use lettre::message::Mailbox;
use model::api::ActionType;
use serde::{Deserialize, Serialize};
use store::Store;
use store::outbox::messages::{Channel, Claimed};

pub use body::{Body, Link};
pub use letters::{KeyFacts, Letters};
pub use message::InvalidMail;
pub use smtp::InvalidSmtpUrl;
pub use transport::Transport;

pub use crate::outbox::worker::Firing;

use crate::outbox::worker::{Carrier, Failure, Outbox};
use crate::{Clock, Random, Sealer};

use self::transport::SEND_DEADLINE;

/// A mail to one person, in both of its forms. Its texts may be credentials, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// What it is about, such as `password_reset`: all that the log may say of it.
    pub event: String,
    /// The address it goes to.
    pub to: String,
    /// Its subject, one line.
    pub subject: String,
    /// What it says, as plain text.
    pub text: String,
    /// The same as HTML.
    pub html: String,
}

/// Sends mails through one transport, from one address. It holds a password, so it has no `Debug`.
#[derive(Clone)]
pub struct Postman {
    transport: Transport,
    from: Mailbox,
}

/// Queues mails and sends them.
///
/// Callers check addresses and subjects that people gave them beforehand ([`Mail::check`]): a mail that cannot be sent is
/// dropped by the worker, with a line in the log.
pub type Mailer = Outbox<Postman>;

impl Mail {
    /// Writes `body` down as a mail.
    pub fn new(event: &str, to: &str, subject: &str, body: &Body) -> Self {
        Self {
            event: event.to_owned(),
            to: to.to_owned(),
            subject: subject.to_owned(),
            text: body.to_text(),
            html: body.to_html(),
        }
    }

    /// Whether it can be sent at all: its address is one, and its subject is a single line.
    pub fn check(&self) -> Result<(), InvalidMail> {
        message::recipient(&self.to)?;
        message::one_line(&self.subject).map(drop)
    }
}

impl Mailer {
    /// Sends through `transport`, from an address such as `Auspex <auspex@example.com>`.
    pub fn new(
        store: Store,
        clock: Clock,
        random: Random,
        sealer: Sealer,
        transport: Transport,
        from: &str,
    ) -> Result<Self, InvalidMail> {
        let carrier = Postman { transport, from: message::sender(from)? };
        Ok(Self::over(store, clock, random, sealer, carrier))
    }
}

impl Carrier for Postman {
    type Message = Mail;

    const CHANNEL: Channel = Channel::Mail;
    const DEADLINE: Duration = SEND_DEADLINE;
    // More only gets a sender throttled.
    const SENDS_AT_ONCE: usize = 4;
    const LANE_SENDS: usize = Self::SENDS_AT_ONCE;
    const ACTION: ActionType = ActionType::Email;
    const METER: &'static str = "auspex_mails_total";
    const SENT: &'static str = "the mail was sent";

    fn label(mail: &Mail) -> &str {
        &mail.event
    }

    /// One server takes all of them.
    fn lane(_: &Mail) -> String {
        String::new()
    }

    async fn carry(&self, mail: &Mail, claimed: &Claimed) -> Result<(), Failure> {
        let posting = message::write(&self.from, mail, claimed)
            .map_err(|invalid| Failure::Never(invalid.to_string()))?;
        self.transport.send(posting).await
    }
}
