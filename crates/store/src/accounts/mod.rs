//! Accounts: tenants, users, sessions, API keys and linked identities.

pub mod audit_log;
pub mod closure;
pub mod email_verifications;
pub mod identities;
pub mod invitations;
pub mod key_refusals;
pub mod keys;
pub mod networks;
pub mod passkeys;
pub mod password_resets;
pub mod sessions;
pub mod tenants;
pub mod two_factor;
pub mod unfinished_sign_ins;
pub mod users;
