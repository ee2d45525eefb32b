//! Tenants: registration and settings.

use model::api::{EventRetention, RegisterRequest, Settings, SettingsUpdate, Token};
use model::money::MICROS_PER_CENT;
use model::{EmailAddress, MemberRole, TenantId, Timestamp, UserId};
use store::accounts::tenants::{self, Tenant};
use store::accounts::users::{self, NewUser};
use store::analysis::signal_versions;
use store::analysis::signals::{self, Signal};
use store::billing::balance::{self, Credit};
use store::billing::ledger::LedgerReason;
use store::{Conn, Store};

use crate::accounts::email_verification::EmailVerification;
use crate::accounts::passwords::Passwords;
use crate::accounts::sessions::Sessions;
use crate::actions::checked_queue;
use crate::analysis::default_signals;
use crate::runtime::{
    ClientInfo, Clock, Error, Kind, Limit, Random, Result, SweepRequests, Throttle, audit, client_network,
};

/// The maximum length of a tenant's name.
const MAX_TENANT_NAME: usize = 100;
/// Ten years.
const MAX_RETENTION_DAYS: i64 = 3_650;
/// In percent.
const MAX_AUDIT_RATE: f64 = 10.0;

/// The first member of a new tenant.
pub(crate) struct FirstUser<'a> {
    pub(crate) email: &'a EmailAddress,
    pub(crate) password_hash: Option<&'a str>,
    pub(crate) email_verified_at: Option<Timestamp>,
}

/// Registers tenants and manages their settings.
#[derive(Clone)]
pub struct Tenants {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) passwords: Passwords,
    pub(crate) sessions: Sessions,
    pub(crate) verification: EmailVerification,
    pub(crate) throttle: Throttle,
    /// Whether anyone may register an account.
    pub(crate) allow_registration: bool,
    /// Accounts that may be registered from one network in an hour, if they are limited.
    pub(crate) registrations_per_hour: Option<u32>,
    /// The credit that a new tenant starts with.
    pub(crate) signup_credit_cents: u32,
    /// Asks the sweeper to apply a new retention at once.
    pub(crate) sweeps: SweepRequests,
}

impl Tenants {
    /// Registers a tenant with its first admin, signup credit and default signals, signs the admin in, and
    /// mails a link that proves the address.
    pub async fn register(&self, request: &RegisterRequest, client: &ClientInfo) -> Result<Token> {
        self.require_registration()?;
        let name = tenant_name(&request.tenant_name)?;
        let email: EmailAddress =
            request.email.parse().map_err(|error| Error::bad_request(format!("email: {error}")))?;
        Passwords::require_strength(&request.password, &[email.as_str(), name])?;
        self.count_registration(client).await?;
        let hash = self.passwords.hash(&request.password).await?;
        let first = FirstUser { email: &email, password_hash: Some(&hash), email_verified_at: None };
        let token = self
            .store
            .write("register", async |conn: &mut Conn| {
                let (tenant, user) = self.provision(conn, name, &first).await?;
                self.verification.mail_link(conn, tenant, user).await?;
                self.sessions.open(conn, tenant, user, client).await
            })
            .await?;
        self.verification.wake();
        Ok(token)
    }

    /// Whether the first account is still to be opened.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(!self.store.read("any_tenant", async |conn| tenants::is_any(conn).await).await?)
    }

    /// Each registration hashes a password, and sends a mail to an address that may be anybody's.
    async fn count_registration(&self, client: &ClientInfo) -> Result<()> {
        let Some(attempts) = self.registrations_per_hour else { return Ok(()) };
        let limit = Limit { attempts: attempts.into(), ..Limit::REGISTER_ADDRESS };
        self.throttle.attempt(&limit, &client_network(client.address).to_string()).await
    }

    pub(crate) fn require_registration(&self) -> Result<()> {
        if self.allow_registration {
            Ok(())
        } else {
            Err(Error::new(Kind::Forbidden, "registration is disabled"))
        }
    }

    /// Creates a tenant with its first member, signup credit and default signals.
    pub(crate) async fn provision(
        &self,
        conn: &mut Conn,
        name: &str,
        first: &FirstUser<'_>,
    ) -> Result<(TenantId, UserId)> {
        let now = self.clock.now();
        let tenant = TenantId(self.random.id(now));
        let user = UserId(self.random.id(now));
        tenants::insert(conn, tenant, name, now).await?;
        let new_user = NewUser {
            user_id: user,
            tenant_id: tenant,
            email: first.email.as_str(),
            email_key: first.email.key(),
            email_verified_at: first.email_verified_at,
            password_hash: first.password_hash,
            role: MemberRole::Owner,
        };
        if !users::insert(conn, &new_user, now).await? {
            return Err(Error::new(Kind::Conflict, "the email address has an account already"));
        }
        self.provision_tenant(conn, tenant, now).await?;
        Ok((tenant, user))
    }

    /// Creates what a tenant needs before it has members: a balance with the signup credit, and the default signals.
    pub(crate) async fn provision_tenant(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        now: Timestamp,
    ) -> Result<()> {
        balance::open(conn, tenant).await?;
        let credit = i64::from(self.signup_credit_cents) * MICROS_PER_CENT;
        if credit > 0 {
            let credit = Credit {
                entry_id: self.random.id(now),
                micros: credit,
                reason: LedgerReason::SignupCredit,
                payment_ref: None,
                note: None,
            };
            balance::credit(conn, tenant, &credit, now).await?;
        }
        for (key, signal) in default_signals::all()? {
            let signal = Signal {
                key,
                signal_id: self.random.id(now),
                kind: signal.kind,
                instructions: signal.instructions.to_string(),
                criteria: Some(signal.criteria.to_string()),
                version: 1,
                calibration_id: None,
                escalation: None,
                enabled: true,
                created_at: now,
                updated_at: now,
            };
            signals::put(conn, tenant, &signal).await?;
            signal_versions::record(conn, tenant, &signal, None).await?;
        }
        Ok(())
    }

    /// The settings of a tenant.
    pub async fn settings(&self, tenant: TenantId) -> Result<Settings> {
        let found = self.store.read("settings", async |conn| tenants::find(conn, tenant).await).await?;
        Ok(settings_of(&found.ok_or_else(Error::gone)?))
    }

    /// Changes the settings of a tenant; omitted fields do not change.
    pub async fn update_settings(&self, tenant: TenantId, update: &SettingsUpdate) -> Result<Settings> {
        let settings = self
            .store
            .write("update_settings", async |conn: &mut Conn| {
                let mut tenant = tenants::lock(conn, tenant).await?.ok_or_else(Error::gone)?;
                let before = settings_of(&tenant);
                apply(update, &mut tenant)?;
                tenants::set_settings(conn, &tenant).await?;
                let after = settings_of(&tenant);
                audit::note(tenant.tenant_id, tenant.tenant_id, Some(&before), Some(&after));
                Ok::<_, Error>(after)
            })
            .await?;
        if settings.event_retention != EventRetention::Forever {
            self.sweeps.sweep(tenant);
        }
        Ok(settings)
    }
}

/// Checks and trims the name of a tenant.
pub(crate) fn tenant_name(name: &str) -> Result<&str> {
    let name = name.trim();
    let characters = name.chars().count();
    if (1..=MAX_TENANT_NAME).contains(&characters) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Error::bad_request(format!("tenant_name: it must have 1 to {MAX_TENANT_NAME} characters")))
    }
}

fn apply(update: &SettingsUpdate, tenant: &mut Tenant) -> Result<()> {
    if let Some(on) = update.auto_backfill_signals {
        tenant.auto_backfill_signals = on;
    }
    if let Some(mode) = update.event_retention {
        tenant.event_retention = mode;
    }
    if let Some(rate) = update.audit_rate_pct {
        if !(0.0..=MAX_AUDIT_RATE).contains(&rate) {
            return Err(Error::bad_request(format!("audit_rate_pct: it must be from 0 to {MAX_AUDIT_RATE}")));
        }
        tenant.audit_rate_pct = rate;
    }
    if let Some(queue) = &update.audit_queue {
        checked_queue("audit_queue", queue)?.clone_into(&mut tenant.audit_queue);
    }
    let by_days = tenant.event_retention == EventRetention::Days;
    // A mode without days drops the stored number; a number in the request must match the mode.
    let days = update.event_retention_days.unwrap_or(tenant.event_retention_days.filter(|_| by_days));
    tenant.event_retention_days = match (days, by_days) {
        (Some(1..=MAX_RETENTION_DAYS), true) | (None, false) => days,
        (Some(_), true) => {
            return Err(Error::bad_request(format!(
                "event_retention_days: it must be from 1 to {MAX_RETENTION_DAYS}"
            )));
        }
        (None, true) => {
            return Err(Error::bad_request("event_retention_days: it is required with event_retention days"));
        }
        (Some(_), false) => {
            return Err(Error::bad_request("event_retention_days: it only goes with event_retention days"));
        }
    };
    Ok(())
}

fn settings_of(tenant: &Tenant) -> Settings {
    Settings {
        auto_backfill_signals: tenant.auto_backfill_signals,
        event_retention: tenant.event_retention,
        event_retention_days: tenant.event_retention_days,
        audit_rate_pct: tenant.audit_rate_pct,
        audit_queue: tenant.audit_queue.clone(),
    }
}
