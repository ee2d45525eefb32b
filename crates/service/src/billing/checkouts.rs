//! Top-ups by card. A checkout is stored before its session is opened at the payment provider, and a payment is credited
//! exactly once, whether it is reported by an event or found by polling.

use std::time::Duration;

use model::api::{CheckoutCreate, CheckoutSession, CheckoutState, CheckoutStatus};
use model::money::{CURRENCY, MICROS_PER_CENT, cents};
use model::{TenantId, Timestamp};
use serde::Deserialize;
use store::billing::balance::Credit;
use store::billing::checkouts::{self, Checkout};
use store::billing::ledger::LedgerReason;
use store::{Conn, Store};
use tracing::{error, info, warn};

use crate::billing::balance::Balances;
use crate::billing::stripe::{NewSession, Session, Stripe};
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::{Clock, Error, Kind, Random, Result, internal};

/// The provider is asked about a checkout at most this often, however often its status is requested.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long a checkout is kept that nobody pays. Stripe's sessions expire after a day; payment methods that confirm later may
/// take two weeks.
const UNPAID_RETENTION: Duration = Duration::from_hours(24 * 30);
/// The number of checkouts of a tenant that one sweep asks the provider about.
const SWEEP_STEP: i64 = 50;
/// The events that may mean that a session was paid.
const PAYING_EVENTS: [&str; 2] = ["checkout.session.completed", "checkout.session.async_payment_succeeded"];

/// The outcome of a session that may have been paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaymentOutcome {
    Credited,
    /// It had already been credited.
    AlreadyCredited,
    /// It is not paid yet.
    Unpaid,
    /// It does not belong to any checkout of this deployment.
    Unknown,
    /// Amount, currency or session differ from the checkout's: the operator must investigate.
    Mismatch,
}

#[derive(Deserialize)]
struct EventKind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct PaymentEvent {
    data: EventData,
}

#[derive(Deserialize)]
struct EventData {
    object: Session,
}

/// Top-ups by card.
#[derive(Clone)]
pub struct Checkouts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) balances: Balances,
    pub(crate) notifications: Notifications,
    /// The payment provider, if one is configured.
    pub(crate) stripe: Option<Stripe>,
}

impl Checkouts {
    /// Opens a checkout, and returns the URL of its payment page.
    pub async fn open(&self, tenant: TenantId, request: &CheckoutCreate) -> Result<CheckoutSession> {
        let stripe = self.require_stripe()?;
        let rules = &self.balances.rules;
        let amounts = i64::from(rules.topup_min_cents)..=i64::from(rules.topup_max_cents);
        if !amounts.contains(&request.amount_cents) {
            return Err(Error::bad_request(format!(
                "amount_cents: it must be from {} to {}",
                amounts.start(),
                amounts.end()
            )));
        }
        let now = self.clock.now();
        let new = NewSession {
            checkout_id: self.random.id(now),
            tenant_id: tenant.0,
            amount_cents: request.amount_cents,
            currency: CURRENCY,
        };
        self.store
            .write("open_checkout", async |conn: &mut Conn| {
                checkouts::insert(conn, tenant, new.checkout_id, new.amount_cents, new.currency, now).await
            })
            .await?;
        let session = stripe.open_session(&new).await?;
        // A crash here loses nothing: the session's metadata contains the checkout id, which identifies it once it is paid.
        self.store
            .write("keep_session", async |conn: &mut Conn| {
                checkouts::set_session(conn, new.checkout_id, &session.id).await
            })
            .await?;
        let missing_url = || {
            let cause = "Stripe's session has no URL";
            Error::new(Kind::PaymentProviderError, "the payment provider failed; try again later")
                .because(cause)
        };
        Ok(CheckoutSession { id: session.id, url: session.url.ok_or_else(missing_url)? })
    }

    /// The status of a checkout. While it is pending the provider is asked, so that a payment is credited even if its event
    /// was lost.
    pub async fn status(&self, tenant: TenantId, session_id: &str) -> Result<CheckoutStatus> {
        let mut checkout = self.find(tenant, session_id).await?;
        if checkout.status == CheckoutState::Pending && self.reconcile(&checkout, session_id).await? {
            checkout = self.find(tenant, session_id).await?;
        }
        let credited = checkout.status == CheckoutState::Credited;
        Ok(CheckoutStatus {
            id: session_id.to_owned(),
            status: if credited { CheckoutState::Credited } else { CheckoutState::Pending },
            amount_cents: Some(checkout.amount_cents),
            balance_after_cents: checkout.balance_after_micros.filter(|_| credited).map(cents),
        })
    }

    async fn find(&self, tenant: TenantId, session_id: &str) -> Result<Checkout> {
        let found = self
            .store
            .read("checkout", async |conn| checkouts::find_by_session(conn, session_id).await)
            .await?;
        found
            .filter(|checkout| checkout.tenant_id == tenant)
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no such checkout"))
    }

    /// Asks the provider about a pending checkout, unless that was done moments ago; returns whether it is credited.
    async fn reconcile(&self, checkout: &Checkout, session_id: &str) -> Result<bool> {
        let Some(stripe) = &self.stripe else { return Ok(false) };
        let now = self.clock.now();
        let begun = self
            .store
            .write("ask_about_checkout", async |conn: &mut Conn| {
                checkouts::begin_asking(conn, checkout.checkout_id, now, now - ASK_EVERY).await
            })
            .await?;
        if !begun {
            return Ok(false);
        }
        match stripe.session(session_id).await {
            Ok(session) if session.id == session_id => {
                let settled = self.settle_session(&session).await?;
                // Also if a concurrent request credited it: the caller reads the checkout again.
                Ok(matches!(settled, PaymentOutcome::Credited | PaymentOutcome::AlreadyCredited))
            }
            Ok(session) => {
                error!(asked = session_id, answered = session.id, "Stripe returned another session");
                Ok(false)
            }
            Err(error) => {
                warn!(cause = error.cause(), "cannot look up a pending checkout: {error}");
                Ok(false)
            }
        }
    }

    /// Handles an event from the payment provider. Events that are not about payments are accepted and ignored.
    pub async fn take_payment_event(&self, signature: Option<&str>, body: &[u8]) -> Result<()> {
        let stripe = self.require_stripe()?;
        let header =
            signature.ok_or_else(|| Error::bad_request("there must be one Stripe-Signature header"))?;
        stripe.verify(header, body, self.clock.now()).map_err(|reason| {
            warn!(%reason, "an event with a bad signature was refused");
            Error::bad_request(reason.to_string())
        })?;
        let malformed = |_| Error::bad_request("the body is not an event that this service knows");
        let EventKind { kind } = serde_json::from_slice(body).map_err(malformed)?;
        if !PAYING_EVENTS.contains(&kind.as_str()) {
            return Ok(());
        }
        let event: PaymentEvent = serde_json::from_slice(body).map_err(malformed)?;
        if !event.data.object.has_usable_id() {
            return Err(Error::bad_request("the session has no usable id"));
        }
        self.settle_session(&event.data.object).await?;
        Ok(())
    }

    /// Credits the checkout of a session if the session is paid and not credited yet.
    async fn settle_session(&self, session: &Session) -> Result<PaymentOutcome> {
        let settled = self
            .store
            .write("settle_checkout", async |conn: &mut Conn| self.settle_in(conn, session).await)
            .await?;
        let outcome = match settled {
            PaymentOutcome::Credited => {
                info!(session = session.id, "a top-up was credited");
                self.balances.wake_workers();
                "credited"
            }
            PaymentOutcome::AlreadyCredited => "already",
            PaymentOutcome::Unpaid => "unpaid",
            PaymentOutcome::Unknown => {
                info!(session = session.id, "a session that belongs to no checkout was paid");
                "unknown"
            }
            PaymentOutcome::Mismatch => {
                error!(
                    session = session.id,
                    amount = session.amount_total,
                    currency = session.currency,
                    "a paid session does not match its checkout: nothing is credited"
                );
                "disagrees"
            }
        };
        metrics::counter!("auspex_payments_total", "outcome" => outcome).increment(1);
        Ok(settled)
    }

    async fn settle_in(&self, conn: &mut Conn, session: &Session) -> Result<PaymentOutcome> {
        let mut found = checkouts::find_by_session(conn, &session.id).await?;
        if let (None, Some(checkout_id)) = (&found, session.checkout_id()) {
            found = checkouts::find(conn, checkout_id).await?;
        }
        let Some(checkout) = found else { return Ok(PaymentOutcome::Unknown) };
        let is_other_session =
            checkout.provider_session_id.as_ref().is_some_and(|known| *known != session.id);
        if checkout.status == CheckoutState::Credited && !is_other_session {
            return Ok(PaymentOutcome::AlreadyCredited);
        }
        if !session.is_paid() {
            return Ok(PaymentOutcome::Unpaid);
        }
        let is_same_currency = session.currency.as_deref().is_some_and(|currency| {
            // Stripe writes currencies in lower case.
            currency.eq_ignore_ascii_case(&checkout.currency)
        });
        if is_other_session || !is_same_currency || session.amount_total != Some(checkout.amount_cents) {
            return Ok(PaymentOutcome::Mismatch);
        }
        let now = self.clock.now();
        if !checkouts::claim(conn, checkout.checkout_id, &session.id, now).await? {
            return Ok(PaymentOutcome::AlreadyCredited);
        }
        let micros = checkout.amount_cents.checked_mul(MICROS_PER_CENT);
        let credit = Credit {
            entry_id: self.random.id(now),
            micros: micros.ok_or_else(|| internal("a top-up larger than any balance"))?,
            reason: LedgerReason::Topup,
            payment_ref: Some(&session.id),
            note: None,
        };
        let posted = self.balances.credit(conn, checkout.tenant_id, &credit).await?;
        checkouts::set_ledger_entry(conn, checkout.checkout_id, posted.seq).await?;
        let balance_cents = cents(posted.balance_micros);
        self.notifications
            .mail_tenant(conn, checkout.tenant_id, EmailEvent::TopupCredited, |templates, to| {
                templates.topup_credited(to, checkout.amount_cents, balance_cents, now)
            })
            .await?;
        Ok(PaymentOutcome::Credited)
    }

    /// Ends checkouts of a tenant that nobody has paid for long. The provider is asked once more before: its event about
    /// the payment may have been lost. Credited ones are kept like the ledger.
    pub(crate) async fn sweep(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - UNPAID_RETENTION;
        let unpaid = self.store.read("unpaid_checkouts", async |conn| {
            checkouts::unpaid_before(conn, tenant, before, SWEEP_STEP).await
        });
        for checkout in unpaid.await? {
            if let Some(session_id) = &checkout.provider_session_id {
                // Without the provider nobody can say whether it was paid.
                let Some(stripe) = &self.stripe else { continue };
                let session = match stripe.session(session_id).await {
                    Ok(session) => session,
                    Err(error) => {
                        warn!(cause = error.cause(), "cannot look up an old checkout: {error}");
                        continue;
                    }
                };
                if session.id != *session_id || self.settle_session(&session).await? != PaymentOutcome::Unpaid
                {
                    continue;
                }
            }
            let id = checkout.checkout_id;
            self.store
                .write("drop_checkout", async |conn: &mut Conn| checkouts::drop_unpaid(conn, id).await)
                .await?;
        }
        Ok(())
    }

    fn require_stripe(&self) -> Result<&Stripe> {
        self.stripe
            .as_ref()
            .ok_or_else(|| Error::new(Kind::PaymentsNotConfigured, "card payments are not configured"))
    }
}
