//! Money: the balance and its ledger, top-ups by card, usage, work that waits for money, and the audit of it all.

pub(crate) mod audit;
pub(crate) mod balance;
pub(crate) mod checkouts;
pub(crate) mod stripe;
pub(crate) mod unpaid;
pub(crate) mod usage;
