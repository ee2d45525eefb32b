//! The mail channel: sends queued mails.

use std::time::Duration;

use lettre::message::Mailbox;
use model::api::ActionType;
use store::Store;
use store::outbox::messages::{Channel, LeasedMessage};

use super::message::{self, InvalidMail, Mail, SEND_DEADLINE};
use super::transport::Transport;
use crate::outbox::worker::{Failure, Outbox, OutboxChannel};
use crate::runtime::{Clock, Random, Result, Sealer};

/// Sends mails through one transport, from one address. It contains a password, so it has no `Debug`.
#[derive(Clone)]
pub struct MailChannel {
    transport: Transport,
    from: Mailbox,
}

/// Queues mails and sends them.
///
/// Callers check addresses and subjects from users beforehand ([`Mail::check`]): the worker drops a mail that cannot be
/// sent, and logs it.
pub type Mailer = Outbox<MailChannel>;

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
        let channel = MailChannel { transport, from: message::sender(from)? };
        Ok(Self::with_channel(store, clock, random, sealer, channel))
    }
}

impl OutboxChannel for MailChannel {
    type Message = Mail;

    const CHANNEL: Channel = Channel::Mail;
    const DEADLINE: Duration = SEND_DEADLINE;
    // With more, mail servers throttle the sender.
    const SENDS_AT_ONCE: usize = 4;
    const LANE_SENDS: usize = Self::SENDS_AT_ONCE;
    const ACTION: ActionType = ActionType::Email;
    const METER: &'static str = "auspex_mails_total";
    const SENT: &'static str = "the mail was sent";
    const WORKER: &'static str = "mailer";

    fn label(mail: &Mail) -> &str {
        &mail.event
    }

    /// A single lane: one server takes all mails.
    fn lane(_: &Mail) -> String {
        String::new()
    }

    async fn send(&self, mail: &Mail, claimed: &LeasedMessage) -> Result<(), Failure> {
        let encoded = message::encode(&self.from, mail, claimed)
            .map_err(|invalid| Failure::Never(invalid.to_string()))?;
        if mail.is_dropped {
            return Ok(());
        }
        self.transport.send(encoded).await
    }
}
