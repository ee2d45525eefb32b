//! The members of an account: their roles, and how one leaves.

use model::api::{APIKeyStatus, Member, MemberList, MemberRemoved, MemberUpdate};
use model::{MemberRole, TenantId, UserId};
use store::accounts::users::{self, User};
use store::accounts::{invitations, keys, tenants};
use store::actions::reviews;
use store::runtime::created_by::MadeBy;
use store::{Conn, Store};

use crate::accounts::authentication::Authentication;
use crate::accounts::invitations::record_ended;
use crate::accounts::keys::{record as key_record, record_revoked};
use crate::accounts::ranks::{rank_over, role_of};
use crate::outbox::Notifications;
use crate::runtime::{Caller, Clock, Error, Kind, PageQuery, Result, audit, cursor, require_role};

/// The members of all accounts.
pub struct Members {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

impl Members {
    /// The members of an account, oldest first.
    pub async fn list(&self, tenant: TenantId, query: &PageQuery) -> Result<MemberList> {
        let (limit, (at, id)) = query.bounds("members")?;
        let members = self
            .store
            .read("members", async |conn| {
                users::of_tenant_after(conn, tenant, (at, UserId(id)), limit + 1).await
            })
            .await?;
        let (members, last) = cursor::cut(members, limit);
        let next_cursor = last.map(|last| cursor::after_made("members", last.created_at, last.user_id.0));
        Ok(MemberList { members: members.into_iter().map(record).collect(), next_cursor })
    }

    /// Changes what a member may do. Only owners make and unmake owners, and one of them stays. Open invitations by somebody who
    /// may do less from now on end, and who becomes a viewer gives their claims back.
    pub async fn update(&self, caller: Caller, user: UserId, update: &MemberUpdate) -> Result<Member> {
        let member = self
            .store
            .write("update_member", async |conn: &mut Conn| {
                let members = self.lock(conn, caller).await?;
                let member = manageable(&members, caller, user)?;
                require_role(role_of(&members, caller)?, rank_over(update.role))?;
                if update.role != MemberRole::Owner {
                    require_other_owner(&members, user)?;
                }
                let mut ended = Vec::new();
                if update.role < member.role {
                    let by = made_by(&members, user);
                    ended = invitations::delete_made_by(conn, caller.tenant, by, self.clock.now()).await?;
                }
                if update.role < MemberRole::Analyst {
                    // Who may not resolve reviews keeps none from others.
                    reviews::release_all_of(conn, caller.tenant, user.0).await?;
                }
                users::set_role(conn, caller.tenant, user, update.role).await?;
                let before = record(member.clone());
                let after = Member { role: update.role, ..before.clone() };
                audit::note(caller.tenant, user, Some(&before), Some(&after));
                record_ended(conn, caller.tenant, ended).await?;
                Ok::<_, Error>(after)
            })
            .await?;
        self.authentication.clear_cache();
        Ok(member)
    }

    /// Removes a member: their sessions and the open invitations that they sent end at once, and their claims are given back.
    /// Returns the keys that they made, which are revoked only if asked.
    pub async fn remove(&self, caller: Caller, user: UserId, revokes_keys: bool) -> Result<MemberRemoved> {
        let keys = self
            .store
            .write("remove_member", async |conn: &mut Conn| {
                let tenant = caller.tenant;
                let members = self.lock(conn, caller).await?;
                let member = record(manageable(&members, caller, user)?.clone());
                require_other_owner(&members, user)?;
                let by = made_by(&members, user);
                let now = self.clock.now();
                let mut made = keys::made_by(conn, tenant, by).await?;
                if revokes_keys {
                    keys::revoke_made_by(conn, tenant, by).await?;
                    for key in &made {
                        reviews::release_all_of(conn, tenant, key.key_id.0).await?;
                    }
                }
                reviews::release_all_of(conn, tenant, user.0).await?;
                let ended = invitations::delete_made_by(conn, tenant, by, now).await?;
                users::delete(conn, tenant, user).await?;
                audit::note(tenant, user, Some(&member), audit::NONE);
                if revokes_keys {
                    record_revoked(conn, &self.notifications, &made, now).await?;
                    for key in &mut made {
                        key.status = APIKeyStatus::Revoked;
                    }
                }
                record_ended(conn, tenant, ended).await?;
                Ok::<_, Error>(made)
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(MemberRemoved { keys: keys.iter().map(key_record).collect() })
    }

    /// Locks the account, so that changes of its members come one after the other, and checks the caller as of now.
    async fn lock(&self, conn: &mut Conn, caller: Caller) -> Result<Vec<User>> {
        tenants::lock(conn, caller.tenant).await?;
        self.authentication.require_recent_proof(conn, caller).await?;
        let members = users::of_tenant(conn, caller.tenant).await?;
        require_role(role_of(&members, caller)?, MemberRole::Admin)?;
        Ok(members)
    }
}

/// What a member made, given all members, oldest first.
fn made_by(members: &[User], user: UserId) -> MadeBy {
    MadeBy { user, is_first: members.first().is_some_and(|first| first.user_id == user) }
}

/// A member whom the caller may change or remove.
fn manageable(members: &[User], caller: Caller, user: UserId) -> Result<&User> {
    let member = members.iter().find(|member| member.user_id == user);
    let member = member.ok_or_else(|| Error::new(Kind::NotFound, "there is no such member"))?;
    require_role(role_of(members, caller)?, rank_over(member.role))?;
    Ok(member)
}

/// Refuses to take away the only owner.
fn require_other_owner(members: &[User], user: UserId) -> Result<()> {
    let is_owner = |member: &&User| member.role == MemberRole::Owner;
    let mut owners = members.iter().filter(is_owner);
    if owners.clone().any(|owner| owner.user_id == user) && owners.all(|owner| owner.user_id == user) {
        return Err(Error::new(
            Kind::Conflict,
            "this is the last owner of the account: make another member an owner first",
        ));
    }
    Ok(())
}

fn record(user: User) -> Member {
    Member { user_id: user.user_id.0, email: user.email, role: user.role, created_at: user.created_at }
}
