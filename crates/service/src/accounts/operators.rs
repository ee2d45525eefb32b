//! Administration by the operator, directly on the database: tenants, members and keys.

use model::api::{APIKeyCreate, APIKeySecret, OperatorTenant, OperatorTenantList};
use model::money::cents;
use model::{EmailAddress, MemberRole, TenantId, UserId};
use serde::{Deserialize, Serialize};
use store::accounts::tenants::{self, Tenant, TenantTotals};
use store::accounts::users::{self, NewUser};
use store::accounts::{sessions, two_factor};
use store::{Conn, Store};
use uuid::Uuid;

use crate::accounts::keys::Keys;
use crate::accounts::passwords::Passwords;
use crate::accounts::tenants::{Tenants, tenant_name};
use crate::outbox::Notifications;
use crate::runtime::{Clock, Error, Kind, Random, Result, audit, cursor};

const LISTED: i64 = 50;

/// Where a page of accounts ended.
#[derive(Serialize, Deserialize)]
struct TenantCursor {
    tenant: Uuid,
}

/// Administration by the operator.
pub struct Operators {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) passwords: Passwords,
    pub(crate) tenants: Tenants,
    pub(crate) keys: Keys,
    pub(crate) notifications: Notifications,
}

impl Operators {
    /// Creates a tenant without members.
    pub async fn create_tenant(&self, name: &str) -> Result<Tenant> {
        let name = tenant_name(name)?;
        self.store
            .write("create_tenant", async |conn: &mut Conn| {
                let now = self.clock.now();
                let tenant = TenantId(self.random.id(now));
                tenants::insert(conn, tenant, name, now).await?;
                self.tenants.provision_tenant(conn, tenant, now).await?;
                tenants::find(conn, tenant).await?.ok_or_else(no_such_tenant)
            })
            .await
    }

    /// All tenants, oldest first.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        Ok(self.store.read("tenants", async |conn| tenants::all(conn).await).await?)
    }

    /// A page of the accounts that are not being deleted, oldest first.
    pub async fn list_tenants(&self, limit: Option<i64>, cursor: Option<&str>) -> Result<OperatorTenantList> {
        let limit = limit.unwrap_or(LISTED);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        let cursor = cursor.map(|text| cursor::decode(text, |_: &TenantCursor| true)).transpose()?;
        let after = TenantId(cursor.map_or(Uuid::nil(), |cursor| cursor.tenant));
        let rows = self
            .store
            .read("operator_tenants", async |conn| tenants::totals_after(conn, after, limit + 1).await)
            .await?;
        let (rows, last) = cursor::cut(rows, limit);
        let next_cursor = last.map(|last| cursor::encode(&TenantCursor { tenant: last.tenant_id.0 }));
        Ok(OperatorTenantList { tenants: rows.into_iter().map(totals).collect(), next_cursor })
    }

    /// Adds a member to a tenant: without a role, the first one as its owner and others as admins. The email address counts as
    /// verified.
    pub async fn create_user(
        &self,
        tenant: TenantId,
        email: &str,
        password: &str,
        role: Option<MemberRole>,
    ) -> Result<UserId> {
        let email: EmailAddress =
            email.parse().map_err(|error| Error::bad_request(format!("email: {error}")))?;
        Passwords::require_strength(password, &[email.as_str()])?;
        let hash = self.passwords.hash(password).await?;
        self.store
            .write("create_user", async |conn: &mut Conn| {
                let now = self.clock.now();
                // Locked, so that of two first members one is the owner.
                tenants::lock(conn, tenant).await?.ok_or_else(no_such_tenant)?;
                let is_first = users::first_of_tenant(conn, tenant).await?.is_none();
                let by_default = if is_first { MemberRole::Owner } else { MemberRole::Admin };
                let user = NewUser {
                    user_id: UserId(self.random.id(now)),
                    tenant_id: tenant,
                    email: email.as_str(),
                    email_key: email.key(),
                    email_verified_at: Some(now),
                    password_hash: Some(&hash),
                    role: role.unwrap_or(by_default),
                };
                if users::insert(conn, &user, now).await? {
                    let after = serde_json::json!({"email": user.email, "role": user.role});
                    audit::note(tenant, user.user_id, audit::NONE, Some(&after));
                    Ok(user.user_id)
                } else {
                    Err(Error::new(Kind::Conflict, "the email address has an account already"))
                }
            })
            .await
    }

    /// Turns two-factor off for somebody who has lost both the app and the recovery codes. Their sessions end, and they are
    /// mailed.
    pub async fn reset_mfa(&self, email: &str) -> Result<()> {
        let email: EmailAddress =
            email.parse().map_err(|error| Error::bad_request(format!("email: {error}")))?;
        self.store
            .write("reset_mfa", async |conn: &mut Conn| {
                let user = users::by_email(conn, email.key()).await?;
                let user =
                    user.ok_or_else(|| Error::new(Kind::NotFound, "there is no user with this email"))?;
                if user.totp_enabled_at.is_none() {
                    return Err(Error::new(Kind::Conflict, "two-factor is off for this user"));
                }
                two_factor::disable_totp(conn, user.tenant_id, user.user_id).await?;
                audit::note(user.tenant_id, user.user_id, audit::NONE, audit::NONE);
                sessions::delete_of_user(conn, user.user_id).await?;
                let mail = self.notifications.templates.mfa_disabled(&user.email, self.clock.now());
                self.notifications.mail_user(conn, &user, &mail).await
            })
            .await
    }

    /// Returns a tenant, or an error if it does not exist.
    pub async fn require_tenant(&self, tenant: TenantId) -> Result<Tenant> {
        let found = self.store.read("tenant", async |conn| tenants::find(conn, tenant).await).await?;
        found.ok_or_else(no_such_tenant)
    }

    /// Creates an API key for a tenant.
    pub async fn create_key_for(&self, tenant: TenantId, name: Option<String>) -> Result<APIKeySecret> {
        self.require_tenant(tenant).await?;
        self.keys.create_for(tenant, &APIKeyCreate { name, ..APIKeyCreate::default() }, None).await
    }
}

fn no_such_tenant() -> Error {
    Error::new(Kind::NotFound, "there is no such tenant")
}

fn totals(row: TenantTotals) -> OperatorTenant {
    OperatorTenant {
        tenant_id: row.tenant_id.0,
        name: row.name,
        created_at: row.created_at,
        members: row.members,
        balance_cents: cents(row.balance_micros),
        storage_bytes: row.storage_bytes,
        suspended_at: row.suspended_at,
        deletion_at: row.deletion_at,
    }
}
