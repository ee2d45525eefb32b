//! Invitations: a link by mail that makes somebody a member of an account.

use std::time::Duration;

use model::api::{Invitation, InvitationAcceptRequest, InvitationCreate, InvitationList, Token};
use model::{AuditAction, EmailAddress, TenantId, UserId};
use store::accounts::invitations::{self, Invitation as StoredInvitation};
use store::accounts::tenants;
use store::accounts::users::{self, NewUser, User};
use store::{Conn, Store};
use uuid::Uuid;

use crate::accounts::authentication::Authentication;
use crate::accounts::passwords::Passwords;
use crate::accounts::ranks::{rank_over, role_of};
use crate::accounts::sessions::Sessions;
use crate::accounts::tokens;
use crate::outbox::Notifications;
use crate::runtime::{
    Caller, ClientInfo, Clock, Error, Kind, Limit, PageQuery, Random, Result, Throttle, audit, cursor,
    require_role,
};

/// The lifetime of a link.
const LIFETIME: Duration = Duration::from_hours(7 * 24);
/// Open invitations of an account: few enough for a list.
const MAX_OPEN: i64 = 100;

/// Invites people, and makes them members.
#[derive(Clone)]
pub struct Invitations {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) throttle: Throttle,
    pub(crate) passwords: Passwords,
    pub(crate) sessions: Sessions,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
    /// Whether anyone may open an account, so that inviting could be used to write to strangers.
    pub(crate) is_limited: bool,
}

impl Invitations {
    /// Mails a link to an address. One that has an account elsewhere gets the mail all the same, so that this tells nothing.
    pub async fn create(&self, caller: Caller, request: &InvitationCreate) -> Result<Invitation> {
        let email: EmailAddress =
            request.email.parse().map_err(|error| Error::bad_request(format!("email: {error}")))?;
        if self.is_limited {
            self.require_proved_address(caller).await?;
            self.throttle.attempt(&Limit::INVITATIONS, &caller.tenant.to_string()).await?;
        }
        let token = tokens::secret(&self.random, tokens::INVITATION_TOKEN);
        let now = self.clock.now();
        let invitation = StoredInvitation {
            invitation_id: self.random.id(now),
            tenant_id: caller.tenant,
            email: email.as_str().to_owned(),
            email_key: email.key().to_owned(),
            role: request.role,
            created_at: now,
            expires_at: now + LIFETIME,
        };
        self.store
            .write("create_invitation", async |conn: &mut Conn| {
                let tenant = tenants::lock(conn, caller.tenant).await?.ok_or_else(Error::gone)?;
                self.authentication.require_recent_proof(conn, caller).await?;
                let inviter = self.check(conn, caller, &invitation).await?;
                let token_hash = tokens::hash(&token);
                let replaced = invitations::put(conn, &invitation, inviter.user_id, &token_hash).await?;
                let account = (tenant.name.as_str(), inviter.email.as_str());
                let mail =
                    self.notifications.templates.invitation(email.as_str(), account, request.role, &token);
                audit::note(
                    caller.tenant,
                    invitation.invitation_id,
                    audit::NONE,
                    Some(&record(invitation.clone())),
                );
                self.notifications.mail_stranger(conn, caller.tenant, &mail).await?;
                record_ended(conn, caller.tenant, replaced).await
            })
            .await?;
        self.notifications.wake();
        Ok(record(invitation))
    }

    /// Refuses an invitation that the caller may not make; returns the member who makes it.
    async fn check(&self, conn: &mut Conn, caller: Caller, invitation: &StoredInvitation) -> Result<User> {
        let members = users::of_tenant(conn, caller.tenant).await?;
        require_role(role_of(&members, caller)?, rank_over(invitation.role))?;
        let is_same = |email: &str| {
            email.parse::<EmailAddress>().is_ok_and(|email| email.key() == invitation.email_key)
        };
        if members.iter().any(|member| is_same(&member.email)) {
            return Err(Error::new(Kind::Conflict, "email: this is a member of the account already"));
        }
        if invitations::count(conn, caller.tenant, invitation.created_at).await? >= MAX_OPEN {
            let reason = format!("an account has at most {MAX_OPEN} open invitations: withdraw one first");
            return Err(Error::new(Kind::Conflict, reason));
        }
        let inviter = caller.user()?;
        let inviter = members.into_iter().find(|member| member.user_id == inviter);
        inviter.ok_or_else(Error::gone)
    }

    async fn require_proved_address(&self, caller: Caller) -> Result<()> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let user = self.store.read("user", async |conn| users::find(conn, tenant, user).await).await?;
        if user.ok_or_else(Error::gone)?.email_verified_at.is_some() {
            return Ok(());
        }
        Err(Error::new(Kind::Forbidden, "confirm your own email address first, with the link in your mail"))
    }

    /// The open invitations of an account, oldest first.
    pub async fn list(&self, tenant: TenantId, query: &PageQuery) -> Result<InvitationList> {
        let now = self.clock.now();
        let (limit, after) = query.bounds("invitations")?;
        let open = self
            .store
            .read("invitations", async |conn| {
                invitations::of_tenant_after(conn, tenant, after, now, limit + 1).await
            })
            .await?;
        let (open, last) = cursor::cut(open, limit);
        let next_cursor =
            last.map(|last| cursor::after_made("invitations", last.created_at, last.invitation_id));
        Ok(InvitationList { invitations: open.into_iter().map(record).collect(), next_cursor })
    }

    /// Withdraws an open invitation.
    pub async fn withdraw(&self, caller: Caller, invitation: Uuid) -> Result<()> {
        let now = self.clock.now();
        self.store
            .write("withdraw_invitation", async |conn: &mut Conn| {
                let members = users::of_tenant(conn, caller.tenant).await?;
                let found = invitations::delete(conn, caller.tenant, invitation, now).await?;
                let found = found.ok_or_else(|| Error::new(Kind::NotFound, "there is no such invitation"))?;
                require_role(role_of(&members, caller)?, rank_over(found.role))?;
                audit::note(caller.tenant, invitation, Some(&record(found)), audit::NONE);
                Ok(())
            })
            .await
    }

    /// Accepts an invitation with a password, and signs the new member in.
    pub async fn accept(&self, request: &InvitationAcceptRequest, client: &ClientInfo) -> Result<Token> {
        let token_hash = tokens::hash(&request.token);
        let now = self.clock.now();
        let found = self
            .store
            .read("invitation", async |conn| invitations::find(conn, &token_hash, now).await)
            .await?;
        Passwords::require_strength(&request.password, &[&found.ok_or_else(invalid_link)?.email])?;
        let hash = self.passwords.hash(&request.password).await?;
        let token = self
            .store
            .write("accept_invitation", async |conn: &mut Conn| {
                let (tenant, user) = self.redeem(conn, &request.token, Some(&hash), client).await?;
                self.sessions.open(conn, tenant, user, client).await
            })
            .await?;
        self.sessions.opened();
        Ok(token)
    }

    /// Makes whoever holds a link a member, in the caller's transaction. The link proves the address.
    pub(crate) async fn redeem(
        &self,
        conn: &mut Conn,
        token: &str,
        password_hash: Option<&str>,
        client: &ClientInfo,
    ) -> Result<(TenantId, UserId)> {
        let now = self.clock.now();
        let invitation =
            invitations::take(conn, &tokens::hash(token), now).await?.ok_or_else(invalid_link)?;
        let user = NewUser {
            user_id: UserId(self.random.id(now)),
            tenant_id: invitation.tenant_id,
            email: &invitation.email,
            email_key: &invitation.email_key,
            email_verified_at: Some(now),
            password_hash,
            role: invitation.role,
        };
        if users::insert(conn, &user, now).await? {
            let who = (user.tenant_id, user.user_id);
            audit::record_sign_in(conn, AuditAction::MemberJoined, who, &client.origin(now)).await?;
            Ok(who)
        } else {
            let message = "the email address has an account already; an address belongs to one account only";
            Err(Error::new(Kind::Conflict, message))
        }
    }
}

/// Records that open invitations ended with another change. To be called last in the transaction.
pub(crate) async fn record_ended(
    conn: &mut Conn,
    tenant: TenantId,
    ended: impl IntoIterator<Item = StoredInvitation>,
) -> Result<()> {
    for invitation in ended {
        let (what, id) = ((tenant, AuditAction::InvitationWithdrawn), invitation.invitation_id);
        audit::also(conn, what, id, Some(&record(invitation)), audit::NONE).await?;
    }
    Ok(())
}

fn invalid_link() -> Error {
    Error::new(Kind::InvalidToken, "the link is not valid, was used or withdrawn, or is too old")
}

pub(crate) fn record(invitation: StoredInvitation) -> Invitation {
    Invitation {
        id: invitation.invitation_id,
        email: invitation.email,
        role: invitation.role,
        expires_at: invitation.expires_at,
    }
}
