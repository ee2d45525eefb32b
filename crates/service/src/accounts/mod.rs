//! Accounts: tenants and their members, signing in, API keys, and authentication of requests.

mod audit_log;
mod authentication;
mod closure;
mod email_verification;
mod first_proof;
mod identities;
mod invitations;
mod keys;
mod leaving;
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

pub(crate) use self::audit_log::record as audit_record;
pub use self::audit_log::{AuditLog, AuditQuery, ChainReport};
pub use self::authentication::{Authentication, Presented};
pub use self::closure::Closure;
pub use self::email_verification::EmailVerification;
pub use self::identities::Identities;
pub use self::invitations::Invitations;
pub use self::keys::Keys;
pub use self::leaving::Leaving;
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

use std::sync::Arc;
use std::time::Duration;

use self::first_proof::FirstProof;
use self::passkeys::PasskeyChecks;
use self::passwords::Passwords;
use self::two_factor::TwoFactorCodes;
use crate::actions::CourierHandle;
use crate::outbox::Notifications;
use crate::runtime::{Clock, Random, Result, Sealer, SweepRequests, Throttle, Workers};
use store::Store;
use tokio::sync::Semaphore;
use url::Url;

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
    pub leaving: Leaving,
    /// Who changed what.
    pub audit_log: AuditLog,
    /// Mail preferences of members.
    pub notifications: Notifications,
}

/// The dependencies of the accounts room.
pub(crate) struct AccountParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) workers: Workers,
    pub(crate) throttle: Throttle,
    pub(crate) providers: Providers,
    pub(crate) notifications: Notifications,
    pub(crate) public_url: Url,
    /// The addresses of the operators.
    pub(crate) operators: Vec<String>,
    pub(crate) allow_registration: bool,
    /// Whether inviting is limited, because anyone may open an account.
    pub(crate) limits_invitations: bool,
    pub(crate) registrations_per_hour: Option<u32>,
    pub(crate) signup_credit_cents: u32,
    /// How long a session counts as proved after it showed a password, a code, a passkey or a provider.
    pub(crate) recent_proof: Duration,
    /// Recalls deliveries of endpoints that are disabled.
    pub(crate) courier: CourierHandle,
    /// Asks for an account to be swept when its retention is set.
    pub(crate) sweeps: SweepRequests,
}

impl AccountParts {
    /// What opens sessions, and what proves addresses.
    fn proofs(&self, authentication: &Authentication) -> (Sessions, FirstProof, EmailVerification) {
        let sessions = Sessions {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
        };
        let first_proof = FirstProof {
            clock: self.clock.clone(),
            sealer: self.sealer.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
            courier: self.courier.clone(),
        };
        let verification = EmailVerification {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            first_proof: first_proof.clone(),
            notifications: self.notifications.clone(),
        };
        (sessions, first_proof, verification)
    }
}

impl Accounts {
    #[expect(clippy::too_many_lines, reason = "names every part of the room once")]
    pub(crate) fn new(parts: AccountParts) -> Result<Self> {
        let refusals = Refusals::new(parts.store.clone(), parts.clock.clone());
        let authentication = Authentication::new(
            parts.store.clone(),
            parts.clock.clone(),
            parts.sealer.clone(),
            parts.recent_proof,
            refusals.clone(),
        );
        let (sessions, first_proof, verification) = parts.proofs(&authentication);
        let AccountParts {
            store, clock, random, sealer, workers, throttle, providers, notifications, ..
        } = parts;
        let passwords = Passwords::new(random.clone())?;
        let providers = Arc::new(providers);
        let checks = PasskeyChecks::new(store.clone(), clock.clone(), &parts.public_url);
        let codes = TwoFactorCodes { clock: clock.clone(), sealer: sealer.clone() };
        let tenants = Tenants {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            passwords: passwords.clone(),
            sessions: sessions.clone(),
            verification: verification.clone(),
            throttle: throttle.clone(),
            allow_registration: parts.allow_registration,
            registrations_per_hour: parts.registrations_per_hour,
            signup_credit_cents: parts.signup_credit_cents,
            sweeps: parts.sweeps,
        };
        let keys = Keys {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            sealer: sealer.clone(),
            authentication: authentication.clone(),
            notifications: notifications.clone(),
        };
        let invitations = Invitations {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            throttle: throttle.clone(),
            passwords: passwords.clone(),
            sessions: sessions.clone(),
            authentication: authentication.clone(),
            notifications: notifications.clone(),
            is_limited: parts.limits_invitations,
        };
        Ok(Self {
            members: Members {
                store: store.clone(),
                clock: clock.clone(),
                authentication: authentication.clone(),
                notifications: notifications.clone(),
            },
            users: Users { store: store.clone(), operators: parts.operators },
            sign_in: SignIn {
                workers: workers.clone(),
                store: store.clone(),
                clock: clock.clone(),
                throttle: throttle.clone(),
                passwords: passwords.clone(),
                two_factor: codes.clone(),
                authentication: authentication.clone(),
                sessions: sessions.clone(),
                passkeys: checks.clone(),
                lockouts: Arc::new(Semaphore::new(sign_in::LOCKOUTS_AT_ONCE)),
            },
            recent_proof: RecentProof {
                store: store.clone(),
                clock: clock.clone(),
                throttle: throttle.clone(),
                passwords: passwords.clone(),
                codes: codes.clone(),
                providers: providers.clone(),
                passkeys: checks.clone(),
            },
            passkeys: Passkeys {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                throttle: throttle.clone(),
                sessions: sessions.clone(),
                authentication: authentication.clone(),
                notifications: notifications.clone(),
                checks: checks.clone(),
            },
            identities: Identities {
                store: store.clone(),
                clock: clock.clone(),
                providers,
                tenants: tenants.clone(),
                invitations: invitations.clone(),
                sessions: sessions.clone(),
                authentication: authentication.clone(),
                first_proof: first_proof.clone(),
                notifications: notifications.clone(),
            },
            password_reset: PasswordReset {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                workers,
                throttle: throttle.clone(),
                passwords: passwords.clone(),
                sessions: sessions.clone(),
                authentication: authentication.clone(),
                first_proof,
                notifications: notifications.clone(),
            },
            machine_login: MachineLogin {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                sealer: sealer.clone(),
                authentication: authentication.clone(),
                keys: keys.clone(),
            },
            two_factor: TwoFactor {
                store: store.clone(),
                clock: clock.clone(),
                random: random.clone(),
                sealer,
                throttle,
                passwords: passwords.clone(),
                codes,
                passkeys: checks.clone(),
                authentication: authentication.clone(),
                notifications: notifications.clone(),
            },
            audit_log: AuditLog { maintenance: store.for_maintenance(), store: store.clone() },
            leaving: Leaving {
                store: store.clone(),
                clock: clock.clone(),
                authentication: authentication.clone(),
                notifications: notifications.clone(),
            },
            // Finding what is left of an account may read much of a table.
            closure: Closure { store: store.for_maintenance(), clock: clock.clone() },
            operators: Operators {
                store,
                clock,
                random,
                passwords,
                tenants: tenants.clone(),
                keys: keys.clone(),
                notifications: notifications.clone(),
            },
            authentication,
            refusals,
            invitations,
            sessions,
            verification,
            tenants,
            keys,
            notifications,
        })
    }
}
