//! Mail: queued in the transaction of the change that it tells of, sent by a worker, at least once.
//!
//! [`Letters`] writes what the service has to say, [`Mailer`] queues and sends it through a [`Transport`].

mod body;
mod files;
mod letters;
mod message;
mod smtp;
mod transport;
mod worker;

use std::sync::Arc;

use lettre::message::Mailbox;
use model::TenantId;
use serde::{Deserialize, Serialize};
use store::outbox::{self, Channel, NewMessage};
use store::{Conn, Store};
use tokio::sync::Notify;
use uuid::Uuid;

pub use body::{Body, Link};
pub use letters::{KeyFacts, Letters};
pub use message::InvalidMail;
pub use smtp::InvalidSmtpUrl;
pub use transport::Transport;

use crate::{Clock, Random, Sealer};

/// Names the column that a sealed mail belongs in, so that it opens nowhere else.
const PLACE: &str = "outbox.message";

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

/// The rule's firing that a mail reports. Such a mail is dropped with its object.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'a> {
    /// The object that the rule fired for.
    pub object_id: &'a str,
    /// The firing.
    pub firing_id: Uuid,
}

/// Queues mails and sends them. Cheap to clone; clones share the queue and the bell.
#[derive(Clone)]
pub struct Mailer {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    transport: Transport,
    from: Mailbox,
    bell: Arc<Notify>,
}

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
        let from = message::sender(from)?;
        Ok(Self { store, clock, random, sealer, transport, from, bell: Arc::default() })
    }

    /// Queues a mail in the caller's transaction; call [`Mailer::wake`] once that is committed.
    ///
    /// Callers check addresses and subjects that people gave them beforehand ([`Mail::check`]): a mail that cannot be
    /// sent is dropped by the worker, with a line in the log.
    pub async fn enqueue(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        mail: &Mail,
        firing: Option<Firing<'_>>,
    ) -> store::Result<()> {
        let now = self.clock.now();
        let message_id = self.random.id(now);
        // Texts have no form that JSON lacks.
        let plain = serde_json::to_vec(mail).unwrap_or_default();
        let message = NewMessage {
            message_id,
            channel: Channel::Mail,
            message: &self.sealer.seal(&self.random, PLACE, message_id, &plain),
            object_id: firing.map(|firing| firing.object_id),
            firing_id: firing.map(|firing| firing.firing_id),
            created_at: now,
        };
        outbox::enqueue(conn, tenant, &message).await
    }

    /// Tells the worker of this process that something was queued; others find it when they next look.
    pub fn wake(&self) {
        self.bell.notify_one();
    }
}
