//! Accounts: tenants and users, signing in, API keys, and finding out who is asking.

pub(crate) mod authentication;
pub(crate) mod identities;
pub(crate) mod keys;
pub(crate) mod operators;
pub(crate) mod password_reset;
pub(crate) mod passwords;
pub(crate) mod providers;
pub(crate) mod sign_in;
pub(crate) mod signing;
pub(crate) mod tenants;
pub(crate) mod tokens;
pub(crate) mod two_factor;
