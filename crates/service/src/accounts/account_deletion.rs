//! An owner asks for the deletion of the account, which happens a week later unless it is taken back.

use std::time::Duration;

use model::MemberRole;
use model::api::{AccountDeletion, AccountDeletionRequest};
use store::accounts::tenants::{self, Tenant};
use store::accounts::users::{self, User};
use store::{Conn, Store};

use crate::accounts::authentication::Authentication;
use crate::accounts::ranks::role_of;
use crate::outbox::Notifications;
use crate::runtime::{Caller, Clock, Error, Kind, Result, audit, require_role};

/// How long a deletion can be taken back.
const GRACE: Duration = Duration::from_hours(7 * 24);

/// Deletions that owners ask for.
pub struct AccountDeletions {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

impl AccountDeletions {
    /// Asks for the deletion of the caller's account, whose name must be given. Asking again changes nothing.
    pub async fn request(&self, caller: Caller, request: &AccountDeletionRequest) -> Result<AccountDeletion> {
        let deletes_at = self
            .store
            .write("request_deletion", async |conn: &mut Conn| {
                let (tenant, owners) = self.lock(conn, caller).await?;
                if request.tenant_name.trim() != tenant.name {
                    return Err(Error::bad_request("tenant_name: it must be the name of the account"));
                }
                audit::note(tenant.tenant_id, tenant.tenant_id, audit::NONE, audit::NONE);
                if let Some(at) = tenant.deletion_at {
                    return Ok(at);
                }
                let at = self.clock.now() + GRACE;
                tenants::set_deletion(conn, tenant.tenant_id, Some(at)).await?;
                for owner in &owners {
                    let mail =
                        self.notifications.templates.deletion_requested(&owner.email, &tenant.name, at);
                    self.notifications.mail_user(conn, owner, &mail).await?;
                }
                Ok(at)
            })
            .await?;
        self.notifications.wake();
        Ok(AccountDeletion { deletes_at })
    }

    /// Takes the deletion back.
    pub async fn cancel(&self, caller: Caller) -> Result<()> {
        self.store
            .write("cancel_deletion", async |conn: &mut Conn| {
                let (tenant, owners) = self.lock(conn, caller).await?;
                if tenant.deletion_at.is_none() {
                    return Err(Error::new(
                        Kind::NotFound,
                        "nobody has asked for the deletion of the account",
                    ));
                }
                audit::note(tenant.tenant_id, tenant.tenant_id, audit::NONE, audit::NONE);
                tenants::set_deletion(conn, tenant.tenant_id, None).await?;
                for owner in &owners {
                    let mail = self.notifications.templates.deletion_cancelled(&owner.email, &tenant.name);
                    self.notifications.mail_user(conn, owner, &mail).await?;
                }
                Ok(())
            })
            .await?;
        self.notifications.wake();
        Ok(())
    }

    /// Locks the account, checks that the caller is an owner now, and returns all owners.
    async fn lock(&self, conn: &mut Conn, caller: Caller) -> Result<(Tenant, Vec<User>)> {
        let tenant = tenants::lock(conn, caller.tenant).await?.ok_or_else(Error::gone)?;
        // A request from before everybody was shut out takes nothing back: the deletion would stop halfway.
        if tenant.deleting_at.is_some() {
            return Err(Error::suspended());
        }
        self.authentication.require_recent_proof(conn, caller).await?;
        let mut members = users::of_tenant(conn, caller.tenant).await?;
        require_role(role_of(&members, caller)?, MemberRole::Owner)?;
        members.retain(|member| member.role == MemberRole::Owner);
        Ok((tenant, members))
    }
}
