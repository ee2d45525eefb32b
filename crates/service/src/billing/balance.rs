//! Balances: credits, adjustments and the low-balance warning.

use model::TenantId;
use model::api::Balance;
use model::money::{CURRENCY, MICROS_PER_CENT, cents};
use store::accounts::tenants;
use store::billing::balance::{self, Credit, PostedEntry};
use store::billing::ledger::LedgerReason;
use store::{Conn, Store};

use crate::billing::unpaid::Unpaid;
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::{Clock, Error, Kind, Random, Result};

/// Ten million dollars: a larger adjustment is a typo.
const MAX_ADJUSTMENT_CENTS: i64 = 1_000_000_000;
/// The longest note on an adjustment, in characters.
const MAX_NOTE: usize = 200;

/// The billing settings that apply to balances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BalanceRules {
    /// Whether analyses are billed.
    pub(crate) metering: bool,
    /// Whether an empty balance pauses analyses; otherwise the balance may become negative.
    pub(crate) block: bool,
    /// The balance below which a warning is mailed.
    pub(crate) low_cents: u32,
    /// The smallest top-up.
    pub(crate) topup_min_cents: u32,
    /// The largest top-up.
    pub(crate) topup_max_cents: u32,
    /// Whether balances can be topped up by card.
    pub(crate) takes_cards: bool,
}

impl BalanceRules {
    /// Whether an empty balance refuses work.
    pub(crate) fn blocks(&self) -> bool {
        self.metering && self.block
    }
}

/// The balances of all tenants.
#[derive(Clone)]
pub struct Balances {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) rules: BalanceRules,
    pub(crate) unpaid: Unpaid,
    pub(crate) notifications: Notifications,
}

impl Balances {
    /// A tenant's balance and the settings that apply to it.
    pub async fn get(&self, tenant: TenantId) -> Result<Balance> {
        let balance = self.store.read("balance", async |conn| balance::balance(conn, tenant).await).await?;
        let rules = &self.rules;
        Ok(Balance {
            balance_cents: cents(balance),
            currency: CURRENCY.to_owned(),
            metering_enabled: rules.metering,
            enforcement: if rules.block { "block" } else { "grace" }.to_owned(),
            self_serve_topup: rules.takes_cards,
            low_balance_threshold_cents: i64::from(rules.low_cents),
            topup_min_cents: Some(i64::from(rules.topup_min_cents)),
            topup_max_cents: Some(i64::from(rules.topup_max_cents)),
        })
    }

    /// Adds an operator's adjustment, positive or negative, to a tenant's balance. Returns the new balance in
    /// cents.
    pub async fn adjust(&self, tenant: TenantId, amount_cents: i64, note: Option<&str>) -> Result<i64> {
        if amount_cents == 0 || amount_cents.unsigned_abs() > MAX_ADJUSTMENT_CENTS.unsigned_abs() {
            return Err(Error::bad_request(format!(
                "amount: it must be a number of cents up to {MAX_ADJUSTMENT_CENTS} and not 0"
            )));
        }
        let note = note.map(str::trim).filter(|note| !note.is_empty());
        if note.is_some_and(|note| note.chars().count() > MAX_NOTE || note.chars().any(char::is_control)) {
            return Err(Error::bad_request(format!(
                "note: it must be a line of at most {MAX_NOTE} characters"
            )));
        }
        let posted = self
            .store
            .write("adjust_balance", async |conn: &mut Conn| {
                if tenants::find(conn, tenant).await?.is_none() {
                    return Err(Error::new(Kind::NotFound, "there is no such tenant"));
                }
                let credit = Credit {
                    entry_id: self.random.id(self.clock.now()),
                    micros: amount_cents * MICROS_PER_CENT,
                    reason: LedgerReason::Adjustment,
                    payment_ref: None,
                    note,
                };
                self.credit(conn, tenant, &credit).await
            })
            .await?;
        self.wake_workers();
        Ok(cents(posted.balance_micros))
    }

    /// Writes a credit or an adjustment with all of its effects, in the caller's transaction. Call [`Self::wake_workers`]
    /// once that is committed.
    pub(crate) async fn credit(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        credit: &Credit<'_>,
    ) -> Result<PostedEntry> {
        let posted = balance::credit(conn, tenant, credit, self.clock.now()).await?;
        if credit.micros < 0 {
            self.warn_if_low(conn, tenant, posted.balance_micros).await?;
        } else {
            balance::unmark_low(conn, tenant, self.low_threshold_micros()).await?;
            self.unpaid.resume(conn, tenant, posted.balance_micros).await?;
        }
        Ok(posted)
    }

    /// Wakes the workers of this process that send mails and run jobs; those of other processes poll.
    pub(crate) fn wake_workers(&self) {
        self.notifications.wake();
        self.unpaid.wake_workers();
    }

    /// Mails the members of a tenant that its balance is low, in the transaction of the charge that set it to this value:
    /// once, until the balance has been above the threshold again. Returns whether it did.
    pub(crate) async fn warn_if_low(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        balance_micros: i64,
    ) -> Result<bool> {
        let threshold = self.low_threshold_micros();
        // The charge has locked the row, so no other transaction on any node can get here at the same time.
        if balance_micros >= threshold || !balance::mark_low(conn, tenant, threshold).await? {
            return Ok(false);
        }
        self.notifications
            .mail_tenant(conn, tenant, EmailEvent::LowBalance, |templates, to| {
                templates.low_balance(to, cents(balance_micros), cents(threshold))
            })
            .await?;
        Ok(true)
    }

    /// Fails if the tenant's balance is empty and an empty balance blocks work.
    pub(crate) async fn require_funds(&self, conn: &mut Conn, tenant: TenantId) -> Result<()> {
        if self.rules.blocks() && balance::balance(conn, tenant).await? <= 0 {
            return Err(Error::payment_required());
        }
        Ok(())
    }

    fn low_threshold_micros(&self) -> i64 {
        i64::from(self.rules.low_cents) * MICROS_PER_CENT
    }
}
