//! Members: who is signed in, and their console state.

use model::api::{AuthType, Identity, Me};
use model::{EmailAddress, TenantId, UserId};
use store::accounts::users::{self, User};
use store::accounts::{identities, tenants};
use store::{Conn, Store};

use crate::runtime::{Caller, Credential, Error, Kind, Result};

/// The members of all tenants.
pub struct Users {
    pub(crate) store: Store,
    /// The addresses of the operators, in lower case.
    pub(crate) operators: Vec<String>,
}

impl Users {
    /// The caller's tenant and, if signed in, member.
    pub async fn me(&self, caller: Caller) -> Result<Me> {
        self.store
            .read("me", async |conn: &mut Conn| {
                let tenant = tenants::find(conn, caller.tenant).await?.ok_or_else(Error::gone)?;
                let user = match caller.credential {
                    Credential::Console { user, .. } => Some(existing_user(conn, caller.tenant, user).await?),
                    Credential::Key { .. } => None,
                };
                Ok(Me {
                    auth_type: if user.is_some() { AuthType::Console } else { AuthType::Tenant },
                    tenant_id: tenant.tenant_id.0,
                    tenant_name: tenant.name,
                    deletes_at: tenant.deletion_at,
                    user_id: user.as_ref().map(|user| user.user_id.0),
                    email: user.as_ref().map(|user| user.email.clone()),
                    onboarded: user.as_ref().map(|user| user.onboarded),
                    email_verified: user.as_ref().map(|user| user.email_verified_at.is_some()),
                    operator: user.as_ref().map(|user| self.is_operator(user)),
                    role: user.as_ref().map(|user| user.role.specified().to_owned()),
                    member_role: user.map(|user| user.role),
                    settings: None,
                    identities: None,
                    mfa: None,
                    passkeys: None,
                    sessions: None,
                    notifications: None,
                })
            })
            .await
    }

    /// Refuses everybody but an operator who has proved the address.
    pub async fn require_operator(&self, caller: Caller) -> Result<()> {
        let user = caller.user()?;
        let user =
            self.store.read("user", async |conn| existing_user(conn, caller.tenant, user).await).await?;
        if self.is_operator(&user) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Forbidden,
            "this is for operators of the install, once they have proved their address",
        ))
    }

    fn is_operator(&self, user: &User) -> bool {
        let email = user.email.parse::<EmailAddress>();
        user.email_verified_at.is_some()
            && email.is_ok_and(|email| self.operators.iter().any(|key| key == email.key()))
    }

    /// Records that a member has finished the console's onboarding.
    pub async fn set_onboarded(&self, tenant: TenantId, user: UserId) -> Result<()> {
        let found = self
            .store
            .write("set_onboarded", async |conn: &mut Conn| users::set_onboarded(conn, tenant, user).await)
            .await?;
        if found { Ok(()) } else { Err(Error::new(Kind::NotFound, "there is no such user")) }
    }
}

/// The user of a session, or an error if the user has been removed since it was opened.
pub(crate) async fn existing_user(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<User> {
    users::find(conn, tenant, user).await?.ok_or_else(Error::gone)
}

/// Locks and rereads a user whose password was checked before the transaction; none if the password has changed since.
/// Checking takes long, and an old password must not be valid after a change.
pub(crate) async fn with_same_password(conn: &mut Conn, checked: &User) -> Result<Option<User>> {
    users::lock(conn, checked.tenant_id, checked.user_id).await?;
    let user = users::find(conn, checked.tenant_id, checked.user_id).await?;
    Ok(user.filter(|user| user.password_hash == checked.password_hash))
}

/// A linked sign-in method, as it is shown and recorded.
pub(crate) fn identity_record(identity: &identities::Identity) -> Identity {
    Identity { provider: identity.provider, email: identity.email.clone(), created_at: identity.created_at }
}
