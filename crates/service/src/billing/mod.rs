//! Money: the balance and its ledger, prices, top-ups by card, usage, work that waits for money, and the audit of it all.

mod audit;
mod balance;
mod checkouts;
mod ledger;
mod prices;
mod stripe;
mod unpaid;
mod usage;

pub use store::billing::ledger::LedgerKind;

pub use self::audit::{Audit, Auditor, Drift};
pub use self::balance::Balances;
pub use self::checkouts::Checkouts;
pub use self::ledger::{Ledger, LedgerQuery};
pub use self::stripe::{API_VERSION as STRIPE_API_VERSION, Stripe, StripeOptions};
pub use self::usage::UsageReports;

pub(crate) use self::balance::BalanceRules;
pub(crate) use self::prices::Prices;
pub(crate) use self::unpaid::Unpaid;

/// Everything about money.
pub struct Billing {
    /// What accounts have left.
    pub balances: Balances,
    /// Every credit and charge.
    pub ledger: Ledger,
    /// Top-ups by card.
    pub checkouts: Checkouts,
    /// What was used.
    pub usage: UsageReports,
    /// Whether all of it agrees.
    pub audit: Auditor,
}
