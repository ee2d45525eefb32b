//! Accounts: tenants, users, sessions, API keys and linked identities.

pub mod closure;
pub mod identities;
pub mod keys;
pub mod sessions;
pub mod tenants;
pub mod users;
