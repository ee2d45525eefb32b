//! Money: balances, the ledger, usage, checkouts, work that waits for money, and the audit of it all.

pub mod audit;
pub mod balance;
pub mod checkouts;
pub mod ledger;
pub mod unpaid;
pub mod usage;
