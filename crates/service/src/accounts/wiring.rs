//! Puts the room together: each part with what it owns.

use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::sync::Semaphore;
use url::Url;

use super::account_deletion::AccountDeletions;
use super::audit_log::AuditLog;
use super::authentication::Authentication;
use super::closure::Closure;
use super::email_verification::EmailVerification;
use super::first_proof::FirstProof;
use super::identities::Identities;
use super::invitations::Invitations;
use super::keys::Keys;
use super::machine_login::MachineLogin;
use super::members::Members;
use super::operators::Operators;
use super::passkeys::{PasskeyChecks, Passkeys};
use super::password_reset::PasswordReset;
use super::passwords::Passwords;
use super::providers::Providers;
use super::recent_proof::RecentProof;
use super::refusals::Refusals;
use super::sessions::Sessions;
use super::sign_in::{self, SignIn};
use super::tenants::Tenants;
use super::two_factor::{TwoFactor, TwoFactorCodes};
use super::users::Users;
use crate::actions::CourierHandle;
use crate::outbox::Notifications;
use crate::runtime::{Clock, Random, Result, Sealer, SweepRequests, Throttle, Workers};

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

/// The dependencies of the accounts room.
pub(crate) struct AccountParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) workers: Workers,
    pub(crate) throttle: Throttle,
    pub(crate) providers: Arc<Providers>,
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
    fn authentication(&self, refusals: &Refusals) -> Authentication {
        Authentication::new(
            self.store.clone(),
            self.clock.clone(),
            self.sealer.clone(),
            self.recent_proof,
            refusals.clone(),
        )
    }

    fn sessions(&self, authentication: &Authentication) -> Sessions {
        Sessions {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
        }
    }

    fn first_proof(&self, authentication: &Authentication) -> FirstProof {
        FirstProof {
            clock: self.clock.clone(),
            sealer: self.sealer.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
            courier: self.courier.clone(),
        }
    }

    fn verification(&self, first_proof: &FirstProof) -> EmailVerification {
        EmailVerification {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            first_proof: first_proof.clone(),
            notifications: self.notifications.clone(),
        }
    }

    fn tenants(
        &self,
        passwords: &Passwords,
        sessions: &Sessions,
        verification: &EmailVerification,
    ) -> Tenants {
        Tenants {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            passwords: passwords.clone(),
            sessions: sessions.clone(),
            verification: verification.clone(),
            throttle: self.throttle.clone(),
            allow_registration: self.allow_registration,
            registrations_per_hour: self.registrations_per_hour,
            signup_credit_cents: self.signup_credit_cents,
            sweeps: self.sweeps.clone(),
        }
    }

    fn keys(&self, authentication: &Authentication) -> Keys {
        Keys {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            sealer: self.sealer.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
        }
    }

    fn invitations(
        &self,
        passwords: &Passwords,
        sessions: &Sessions,
        authentication: &Authentication,
    ) -> Invitations {
        Invitations {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            throttle: self.throttle.clone(),
            passwords: passwords.clone(),
            sessions: sessions.clone(),
            authentication: authentication.clone(),
            notifications: self.notifications.clone(),
            is_limited: self.limits_invitations,
        }
    }
}

impl Accounts {
    pub(crate) fn new(parts: AccountParts) -> Result<Self> {
        let shared = Shared::new(parts)?;
        Ok(Self {
            users: shared.users(),
            members: shared.members(),
            sign_in: shared.sign_in(),
            identities: shared.identities(),
            passkeys: shared.passkeys(),
            password_reset: shared.password_reset(),
            recent_proof: shared.recent_proof(),
            two_factor: shared.two_factor(),
            machine_login: shared.machine_login(),
            operators: shared.operators(),
            closure: shared.closure(),
            deletions: shared.deletions(),
            audit_log: shared.audit_log(),
            tenants: shared.tenants,
            invitations: shared.invitations,
            sessions: shared.sessions,
            verification: shared.verification,
            keys: shared.keys,
            refusals: shared.refusals,
            authentication: shared.authentication,
            notifications: shared.parts.notifications,
        })
    }
}

/// What more than one part of the room owns a copy of.
struct Shared {
    parts: AccountParts,
    refusals: Refusals,
    authentication: Authentication,
    passwords: Passwords,
    passkey_checks: PasskeyChecks,
    codes: TwoFactorCodes,
    sessions: Sessions,
    first_proof: FirstProof,
    verification: EmailVerification,
    tenants: Tenants,
    keys: Keys,
    invitations: Invitations,
}

impl Shared {
    fn new(parts: AccountParts) -> Result<Self> {
        let refusals = Refusals::new(parts.store.clone(), parts.clock.clone());
        let authentication = parts.authentication(&refusals);
        let passwords = Passwords::new(parts.random.clone())?;
        let sessions = parts.sessions(&authentication);
        let first_proof = parts.first_proof(&authentication);
        let verification = parts.verification(&first_proof);
        Ok(Self {
            tenants: parts.tenants(&passwords, &sessions, &verification),
            keys: parts.keys(&authentication),
            invitations: parts.invitations(&passwords, &sessions, &authentication),
            passkey_checks: PasskeyChecks::new(parts.store.clone(), parts.clock.clone(), &parts.public_url),
            codes: TwoFactorCodes { clock: parts.clock.clone(), sealer: parts.sealer.clone() },
            parts,
            refusals,
            authentication,
            passwords,
            sessions,
            first_proof,
            verification,
        })
    }

    fn users(&self) -> Users {
        Users { store: self.parts.store.clone(), operators: self.parts.operators.clone() }
    }

    fn members(&self) -> Members {
        Members {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            authentication: self.authentication.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn sign_in(&self) -> SignIn {
        SignIn {
            workers: self.parts.workers.clone(),
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            throttle: self.parts.throttle.clone(),
            passwords: self.passwords.clone(),
            two_factor: self.codes.clone(),
            authentication: self.authentication.clone(),
            sessions: self.sessions.clone(),
            passkeys: self.passkey_checks.clone(),
            lockouts: Arc::new(Semaphore::new(sign_in::LOCKOUTS_AT_ONCE)),
        }
    }

    fn identities(&self) -> Identities {
        Identities {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            providers: self.parts.providers.clone(),
            tenants: self.tenants.clone(),
            invitations: self.invitations.clone(),
            sessions: self.sessions.clone(),
            authentication: self.authentication.clone(),
            first_proof: self.first_proof.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn passkeys(&self) -> Passkeys {
        Passkeys {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            throttle: self.parts.throttle.clone(),
            sessions: self.sessions.clone(),
            authentication: self.authentication.clone(),
            notifications: self.parts.notifications.clone(),
            checks: self.passkey_checks.clone(),
        }
    }

    fn password_reset(&self) -> PasswordReset {
        PasswordReset {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            workers: self.parts.workers.clone(),
            throttle: self.parts.throttle.clone(),
            passwords: self.passwords.clone(),
            sessions: self.sessions.clone(),
            authentication: self.authentication.clone(),
            first_proof: self.first_proof.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn recent_proof(&self) -> RecentProof {
        RecentProof {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            throttle: self.parts.throttle.clone(),
            passwords: self.passwords.clone(),
            codes: self.codes.clone(),
            providers: self.parts.providers.clone(),
            passkeys: self.passkey_checks.clone(),
        }
    }

    fn two_factor(&self) -> TwoFactor {
        TwoFactor {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            sealer: self.parts.sealer.clone(),
            throttle: self.parts.throttle.clone(),
            passwords: self.passwords.clone(),
            codes: self.codes.clone(),
            passkeys: self.passkey_checks.clone(),
            authentication: self.authentication.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn machine_login(&self) -> MachineLogin {
        MachineLogin {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            sealer: self.parts.sealer.clone(),
            authentication: self.authentication.clone(),
            keys: self.keys.clone(),
        }
    }

    fn operators(&self) -> Operators {
        Operators {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            random: self.parts.random.clone(),
            passwords: self.passwords.clone(),
            tenants: self.tenants.clone(),
            keys: self.keys.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn closure(&self) -> Closure {
        // Finding what is left of an account may read much of a table.
        Closure { store: self.parts.store.for_maintenance(), clock: self.parts.clock.clone() }
    }

    fn deletions(&self) -> AccountDeletions {
        AccountDeletions {
            store: self.parts.store.clone(),
            clock: self.parts.clock.clone(),
            authentication: self.authentication.clone(),
            notifications: self.parts.notifications.clone(),
        }
    }

    fn audit_log(&self) -> AuditLog {
        AuditLog { maintenance: self.parts.store.for_maintenance(), store: self.parts.store.clone() }
    }
}
