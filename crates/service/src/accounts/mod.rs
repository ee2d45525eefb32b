//! Accounts: tenants and their members, signing in, API keys, and authentication of requests.

mod account_deletion;
mod audit_log;
mod authentication;
mod closure;
mod email_verification;
mod first_proof;
mod identities;
mod invitations;
mod keys;
mod machine_login;
mod members;
mod operators;
mod passkeys;
mod password_reset;
mod passwords;
mod providers;
mod ranks;
mod reauthentication;
mod recent_proof;
mod refusals;
mod request_signature;
mod sessions;
mod sign_in;
mod tenants;
mod tokens;
mod two_factor;
mod users;
mod wiring;

pub use self::account_deletion::AccountDeletions;
pub(crate) use self::audit_log::record as audit_record;
pub use self::audit_log::{AuditLog, AuditQuery, ChainReport};
pub use self::authentication::{Authentication, Presented};
pub use self::closure::Closure;
pub use self::email_verification::EmailVerification;
pub use self::identities::Identities;
pub use self::invitations::Invitations;
pub use self::keys::Keys;
pub use self::machine_login::MachineLogin;
pub use self::members::Members;
pub use self::operators::Operators;
pub use self::passkeys::Passkeys;
pub use self::password_reset::PasswordReset;
pub use self::providers::{GithubOptions, GoogleOptions, OidcOptions, ProvenIdentity, Providers};
pub use self::recent_proof::RecentProof;
pub use self::refusals::{Refusals, RefusedFrom};
pub use self::request_signature::RequestLine;
pub use self::sessions::Sessions;
pub use self::sign_in::SignIn;
pub(crate) use self::sign_in::record_one_unfinished;
pub use self::tenants::Tenants;
pub use self::two_factor::TwoFactor;
pub use self::users::Users;
pub(crate) use self::wiring::AccountParts;

use crate::outbox::Notifications;

/// Tenants, members and credentials.
pub struct Accounts {
    /// Authentication of requests.
    pub authentication: Authentication,
    /// Registration and settings.
    pub tenants: Tenants,
    /// Members.
    pub users: Users,
    /// Members and their roles.
    pub members: Members,
    /// Invitations to become a member.
    pub invitations: Invitations,
    /// Sign-in with a password.
    pub sign_in: SignIn,
    /// Sign-in with an identity provider.
    pub identities: Identities,
    /// Passkeys.
    pub passkeys: Passkeys,
    /// Changing a password, and resetting it by a mailed link.
    pub password_reset: PasswordReset,
    /// Sessions of members.
    pub sessions: Sessions,
    /// Renewed proof of who is signed in.
    pub recent_proof: RecentProof,
    /// Links that prove an address.
    pub verification: EmailVerification,
    /// Two-factor sign-in.
    pub two_factor: TwoFactor,
    /// API keys.
    pub keys: Keys,
    /// Signing in on machines.
    pub machine_login: MachineLogin,
    /// Requests that were refused, for the owners of their keys.
    pub refusals: Refusals,
    /// Administration by the operator.
    pub operators: Operators,
    /// Suspension and deletion by the operator.
    pub closure: Closure,
    /// Deletions that owners ask for.
    pub deletions: AccountDeletions,
    /// Who changed what.
    pub audit_log: AuditLog,
    /// Mail preferences of members.
    pub notifications: Notifications,
}
