//! Money: balances, the ledger, usage, checkouts, jobs that wait for money, and the audit.

pub mod audit;
pub mod balance;
pub mod checkouts;
pub mod decimal;
pub mod ledger;
pub mod unpaid;
pub mod usage;
