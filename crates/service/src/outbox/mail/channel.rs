//! The mail channel: sends queued mails.

use std::time::Duration;

use lettre::message::Mailbox;
use model::api::ActionType;
use model::{EmailAddress, InvalidEmail, TenantId};
use store::actions::recipients;
use store::outbox::messages::{Channel, LeasedMessage};
use store::{Conn, Store};
use uuid::Uuid;

use super::message::{self, InvalidMail, Mail, SEND_DEADLINE};
use super::transport::Transport;
use crate::outbox::worker::{Failure, Outbox, OutboxChannel};
use crate::runtime::{Clock, Error, Kind, Limit, Random, Result, Sealer, Throttle};

/// Sends mails through one transport, from one address. It contains a password, so it has no `Debug`.
#[derive(Clone)]
pub struct MailChannel {
    transport: Transport,
    from: Mailbox,
    store: Store,
    throttle: Throttle,
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
        let throttle = Throttle::new(store.clone(), clock.clone());
        let channel = MailChannel { transport, from: message::sender(from)?, store: store.clone(), throttle };
        Ok(Self::with_channel(store, clock, random, sealer, channel))
    }
}

impl MailChannel {
    /// Whether mails are written to files, so that nobody receives any.
    pub(crate) fn writes_files(&self) -> bool {
        self.transport.writes_files()
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
            .map_err(|invalid| Failure::never(invalid.to_string()))?;
        if mail.is_dropped {
            return Ok(());
        }
        if let Some(recipient) = mail.asks
            && claimed.attempts == 1
            && !self.may_ask(claimed.tenant_id, recipient, &mail.to).await?
        {
            return Ok(());
        }
        self.transport.send(encoded).await
    }
}

impl MailChannel {
    /// Counts a question to a stranger, of which an address gets few however many accounts ask. One too many is taken back, so
    /// that its account can ask later.
    ///
    /// This happens here, with nothing else in the transaction, and not where the question is queued: whoever asks the same
    /// address waits for the count.
    async fn may_ask(&self, tenant: TenantId, recipient: Uuid, to: &str) -> Result<bool, Failure> {
        let address: EmailAddress =
            to.parse().map_err(|error: InvalidEmail| Failure::never(error.to_string()))?;
        let refused = match self.throttle.attempt(&Limit::CONFIRMATIONS, address.key()).await {
            Ok(()) => return Ok(true),
            Err(refused) => refused,
        };
        if refused.kind() != Kind::RateLimited {
            return Err(later(&refused));
        }
        self.store
            .write("take_back_confirmation", async |conn: &mut Conn| {
                recipients::take_back_confirmation(conn, tenant, recipient).await
            })
            .await
            .map_err(|error| later(&error.into()))?;
        Ok(false)
    }
}

fn later(error: &Error) -> Failure {
    Failure::later(error.to_string())
}
