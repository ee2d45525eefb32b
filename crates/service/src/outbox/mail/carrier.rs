//! Sends queued mails.

use std::time::Duration;

use lettre::message::Mailbox;
use model::api::ActionType;
use store::Store;
use store::outbox::messages::{Channel, LeasedMessage};

use super::message::{self, InvalidMail, Mail, SEND_DEADLINE};
use super::transport::Transport;
use crate::outbox::worker::{Carrier, Failure, Outbox};
use crate::runtime::{Clock, Random, Result, Sealer};

/// Sends mails through one transport, from one address. It holds a password, so it has no `Debug`.
#[derive(Clone)]
pub struct MailCarrier {
    transport: Transport,
    from: Mailbox,
}

/// Queues mails and sends them.
///
/// Callers check addresses and subjects that people gave them beforehand ([`Mail::check`]): a mail that cannot be sent is
/// dropped by the worker, with a line in the log.
pub type Mailer = Outbox<MailCarrier>;

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
        let carrier = MailCarrier { transport, from: message::sender(from)? };
        Ok(Self::over(store, clock, random, sealer, carrier))
    }
}

impl Carrier for MailCarrier {
    type Message = Mail;

    const CHANNEL: Channel = Channel::Mail;
    const DEADLINE: Duration = SEND_DEADLINE;
    // More only gets a sender throttled.
    const SENDS_AT_ONCE: usize = 4;
    const LANE_SENDS: usize = Self::SENDS_AT_ONCE;
    const ACTION: ActionType = ActionType::Email;
    const METER: &'static str = "auspex_mails_total";
    const SENT: &'static str = "the mail was sent";
    const WORKER: &'static str = "mailer";

    fn label(mail: &Mail) -> &str {
        &mail.event
    }

    /// One server takes all of them.
    fn lane(_: &Mail) -> String {
        String::new()
    }

    async fn carry(&self, mail: &Mail, claimed: &LeasedMessage) -> Result<(), Failure> {
        let posting = message::write(&self.from, mail, claimed)
            .map_err(|invalid| Failure::Never(invalid.to_string()))?;
        self.transport.send(posting).await
    }
}
