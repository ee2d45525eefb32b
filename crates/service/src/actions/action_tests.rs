//! Tests of the actions of rules: a message that says that it is one is sent at once, and the caller hears what came of it.
//!
//! A test can be no more than a rule: it writes to whom a rule may write, counts like the mails and messages of rules, and there
//! are few of them.

use std::sync::Arc;
use std::time::Duration;

use model::TenantId;
use model::api::{
    ActionConfig, ActionType, DeliveryStatus, RuleTest, RuleTestOutcome, RuleTestRequest, WebhookDelivery,
};
use model::rule::ActionTest;
use store::Conn;
use store::actions::firings::{self, MessageCounts};
use store::actions::webhooks::deliveries;
use store::outbox::messages;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::actions::firings::{CHATS_PER_DAY, Firings, MAILS_PER_DAY};
use crate::actions::rules::{check_references, checked_config, checked_name};
use crate::actions::webhooks::{delivery_record, no_such_delivery};
use crate::outbox::ChatMessage;
use crate::outbox::worker::{Failure, Receiver};
use crate::runtime::outbound::OutboundError;
use crate::runtime::{Error, Kind, Limit, Result, Throttle, internal};

/// What a message calls a rule without a name.
const UNNAMED: &str = "a rule without a name";
/// How long a delivery is waited for: longer than one attempt may take by default.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked at meanwhile. In real time.
const LOOK: Duration = Duration::from_millis(300);
/// How long a mail may take, with the wait for others: shorter than the service waits for requests when it ends.
const MAIL_PATIENCE: Duration = Duration::from_secs(12);
/// Test mails at the same time, beside those of the queue. Mail servers throttle whoever opens many connections.
const MAILS_AT_ONCE: usize = 2;

/// Tests actions of rules.
#[derive(Clone)]
pub struct ActionTests {
    firings: Firings,
    throttle: Throttle,
    mails: Arc<Semaphore>,
}

/// Whether a mail may be sent to a recipient.
enum Permission {
    /// It may; with this token the recipient withdraws.
    Given(String),
    /// It may not, for this reason.
    Refused(&'static str),
}

impl ActionTests {
    pub(crate) fn new(firings: Firings, throttle: Throttle) -> Self {
        Self { firings, throttle, mails: Arc::new(Semaphore::new(MAILS_AT_ONCE)) }
    }

    /// Sends a test of an action, and waits for what the receiver says.
    pub async fn run(&self, tenant: TenantId, request: &RuleTestRequest) -> Result<RuleTest> {
        let name = request.name.as_deref().map_or_else(|| Ok(UNNAMED.to_owned()), checked_name)?;
        let config = checked_config(request.action_type, &request.action_config)?;
        let Firings { store, rules, clock, .. } = &self.firings;
        if request.action_type == ActionType::Review {
            return Err(Error::bad_request("action_type: a review sends nothing that could be tested"));
        }
        rules.check_address(&config).await?;
        store
            .read("tested_action", async |conn: &mut Conn| check_references(conn, tenant, &config).await)
            .await?;
        // Before anything is sent, so that requests at the same time cannot send more.
        self.throttle.attempt(&Limit::RULE_TESTS, &tenant.to_string()).await?;
        let test = ActionTest { rule_name: &name, at: clock.now() };
        match config {
            ActionConfig { to: Some(to), subject, .. } => {
                self.mail(tenant, &to, subject.as_deref(), &test).await
            }
            ActionConfig { webhook_url: Some(url), .. } => self.chat(tenant, url, &test).await,
            ActionConfig { endpoint_id: Some(endpoint), .. } => self.webhook(tenant, endpoint).await,
            _ => Err(internal("the settings of an action name no receiver")),
        }
    }

    async fn mail(
        &self,
        tenant: TenantId,
        to: &str,
        subject: Option<&str>,
        test: &ActionTest<'_>,
    ) -> Result<RuleTest> {
        let Firings { mailer, templates, .. } = &self.firings;
        let withdraw_token = match self.permission(tenant, to).await? {
            Permission::Given(withdraw_token) => withdraw_token,
            Permission::Refused(reason) => return Ok(ended(RuleTestOutcome::Unconfirmed, reason)),
        };
        let mail = templates.rule_test(to, subject, test, &withdraw_token);
        let sent = tokio::time::timeout(MAIL_PATIENCE, async {
            let _turn = self.mails.acquire().await;
            mailer.send_once(tenant, &mail).await
        });
        let Ok(sent) = sent.await else {
            let detail =
                format!("the mail server did not take the mail within {} s", MAIL_PATIENCE.as_secs());
            return Ok(ended(RuleTestOutcome::TimedOut, &detail));
        };
        Ok(match sent {
            Ok(()) if mailer.channel().writes_files() => {
                ended(RuleTestOutcome::Sent, "written to a file, because this service has no mail server")
            }
            Ok(()) => ended(RuleTestOutcome::Sent, "the mail server took the mail"),
            Err(failure) => failed(failure),
        })
    }

    /// Whether a recipient may be written to. If so, the mail is counted; if it was never asked, it is, as when a rule fires.
    async fn permission(&self, tenant: TenantId, to: &str) -> Result<Permission> {
        let Firings { store, clock, recipients, mailer, .. } = &self.firings;
        let today = clock.now().date();
        let permission = store
            .write("test_rule_mail", async |conn: &mut Conn| {
                let addressees = recipients.look_up(conn, tenant, std::iter::once(to)).await?;
                let addressee = addressees.of(to).ok_or_else(|| internal("the recipient is unknown"))?;
                let permission = match addressee.consent.objection() {
                    Some(reason) => Permission::Refused(reason),
                    None => Permission::Given(addressee.withdraw_token.clone()),
                };
                let questions = self.firings.ask_recipients(conn, tenant, addressees.due).await?;
                messages::enqueue(conn, &questions).await?;
                if let Permission::Given(_) = permission {
                    let one = MessageCounts { mails: 1, chats: 0 };
                    let before = firings::count_messages(conn, tenant, today, one).await?;
                    self.within(before.mails, MAILS_PER_DAY, "rule mails")?;
                }
                Ok::<_, Error>(permission)
            })
            .await?;
        mailer.wake();
        Ok(permission)
    }

    async fn chat(&self, tenant: TenantId, url: String, test: &ActionTest<'_>) -> Result<RuleTest> {
        let Firings { store, clock, chat, .. } = &self.firings;
        let today = clock.now().date();
        store
            .write("test_rule_chat", async |conn: &mut Conn| {
                let one = MessageCounts { mails: 0, chats: 1 };
                let before = firings::count_messages(conn, tenant, today, one).await?;
                self.within(before.chats, CHATS_PER_DAY, "chat messages")
            })
            .await?;
        let message = ChatMessage { url, body: test.slack_message() };
        Ok(match chat.send_once(tenant, &message).await {
            Ok(()) => ended(RuleTestOutcome::Sent, "the message was posted to Slack"),
            Err(failure) => failed(failure),
        })
    }

    /// Sends a test delivery, which is signed and retried like any other, and waits for its first attempt.
    async fn webhook(&self, tenant: TenantId, endpoint: Uuid) -> Result<RuleTest> {
        let sent = self.firings.deliveries.send_test(tenant, endpoint).await?;
        let attempt = self.first_attempt(tenant, sent.id);
        // It is sent whatever happens here: without its outcome, the caller hears at least which delivery it is.
        if let Ok(Ok(delivery)) = tokio::time::timeout(DELIVERY_PATIENCE, attempt).await {
            return Ok(outcome_of(delivery));
        }
        let waiting = ended(RuleTestOutcome::Waiting, "no attempt has ended yet");
        Ok(RuleTest { delivery_id: Some(sent.id), ..waiting })
    }

    /// Refuses one message more than an account may send in a day.
    fn within(&self, before: i64, most: i64, what: &str) -> Result<()> {
        if before < most {
            return Ok(());
        }
        let now = self.firings.clock.now();
        let message = format!("the account's limit of {most} {what} a day is reached");
        Err(Error::new(Kind::RateLimited, message).retry_after(now.date().plus_days(1).midnight().since(now)))
    }

    /// A delivery once its first attempt has ended. Whichever process sends it, the database says so.
    async fn first_attempt(&self, tenant: TenantId, delivery: Uuid) -> Result<WebhookDelivery> {
        loop {
            let found = self
                .firings
                .store
                .read("tested_delivery", async |conn: &mut Conn| {
                    deliveries::find(conn, tenant, delivery).await
                })
                .await?;
            let found = delivery_record(found.ok_or_else(no_such_delivery)?)?;
            match found.status {
                DeliveryStatus::Delivering => {}
                DeliveryStatus::Pending if found.attempts == 0 => {}
                _ => return Ok(found),
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn ended(outcome: RuleTestOutcome, detail: &str) -> RuleTest {
    RuleTest { outcome, status_code: None, detail: Some(detail.to_owned()), delivery_id: None }
}

fn failed(failure: Failure) -> RuleTest {
    let (outcome, status) = match failure.receiver {
        Receiver::Answered(status) => (RuleTestOutcome::Refused, Some(i64::from(status))),
        Receiver::TimedOut => (RuleTestOutcome::TimedOut, None),
        Receiver::Unreached => (RuleTestOutcome::Unreachable, None),
    };
    RuleTest { outcome, status_code: status, detail: Some(failure.reason), delivery_id: None }
}

fn outcome_of(delivery: WebhookDelivery) -> RuleTest {
    let outcome = if delivery.status == DeliveryStatus::Delivered {
        RuleTestOutcome::Sent
    } else if delivery.last_status_code.is_some() {
        RuleTestOutcome::Refused
    } else if delivery.last_error == Some(OutboundError::Timeout.to_string()) {
        RuleTestOutcome::TimedOut
    } else {
        RuleTestOutcome::Unreachable
    };
    RuleTest {
        outcome,
        status_code: delivery.last_status_code,
        detail: delivery.last_error,
        delivery_id: Some(delivery.id),
    }
}
