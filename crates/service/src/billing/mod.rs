//! Billing: balances and the ledger, prices, top-ups by card, usage, jobs parked until they can be paid, and the audit.

mod audit;
mod balance;
mod checkouts;
mod ledger;
mod ledger_cursor;
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
pub(crate) use self::ledger::record as ledger_record;
pub(crate) use self::prices::Prices;
pub(crate) use self::unpaid::Unpaid;

/// Balances, payments and usage.
pub struct Billing {
    /// Balances and adjustments.
    pub balances: Balances,
    /// Credits and charges.
    pub ledger: Ledger,
    /// Top-ups by card.
    pub checkouts: Checkouts,
    /// Usage reports.
    pub usage: UsageReports,
    /// Checks that balances, ledger and usage agree.
    pub audit: Auditor,
}
