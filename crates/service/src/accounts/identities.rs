//! Sign-in with an identity provider, and the provider accounts that a member has linked.

use model::api::{
    AuthorizationURL, Identities as IdentityList, Identity, OAuthAuthorizeRequest, OAuthCodeRequest,
    OAuthProviders, Token,
};
use model::{EmailAddress, Provider, TenantId, UserId};
use store::accounts::users::{self, User};
use store::accounts::{identities, keys, sessions};
use store::{Conn, Store};

use crate::accounts::authentication::{Authentication, Caller};
use crate::accounts::providers::{ProvenIdentity, Providers};
use crate::accounts::sessions::Sessions;
use crate::accounts::tenants::{FirstUser, Tenants, tenant_name};
use crate::accounts::users::existing_user;
use crate::outbox::Notifications;
use crate::runtime::{Clock, Error, Kind, Result};

/// Sign-in with identity providers.
pub struct Identities {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) providers: Providers,
    pub(crate) tenants: Tenants,
    pub(crate) sessions: Sessions,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

impl Identities {
    /// The configured providers.
    pub fn providers(&self) -> OAuthProviders {
        OAuthProviders {
            providers: self.providers.configured(),
            allow_registration: self.tenants.allow_registration,
        }
    }

    /// The provider's URL that the browser is sent to.
    pub async fn authorization_url(
        &self,
        provider: Provider,
        request: &OAuthAuthorizeRequest,
    ) -> Result<AuthorizationURL> {
        let url = self.providers.authorization_url(provider, &request.state, &request.code_challenge).await?;
        Ok(AuthorizationURL { url: url.into() })
    }

    /// Signs in with a provider's code: the linked user, the user with the same verified email, or a new account.
    pub async fn sign_in(&self, provider: Provider, request: &OAuthCodeRequest) -> Result<Token> {
        let proven = self.prove(provider, request).await?;
        let email = verified_email(&proven)?;
        let attempt = || {
            self.store.write("sign_in_with_provider", async |conn: &mut Conn| {
                if let Some(known) = identities::find(conn, provider, &proven.subject).await? {
                    let token = self.sessions.open(conn, known.tenant_id, known.user_id).await?;
                    return Ok(Token { new_user: Some(false), ..token });
                }
                if let Some(user) = users::by_email(conn, email.key()).await? {
                    self.adopt(conn, &user, provider, &proven).await?;
                    let token = self.sessions.open(conn, user.tenant_id, user.user_id).await?;
                    return Ok(Token { new_user: Some(false), ..token });
                }
                self.sign_up_with(conn, provider, &proven, &email, request.tenant_name.as_deref()).await
            })
        };
        let token = match attempt().await {
            // A concurrent request may have created the account or the link; the second attempt finds it.
            Err(error) if error.kind() == Kind::Conflict => attempt().await?,
            outcome => outcome?,
        };
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(token)
    }

    async fn prove(&self, provider: Provider, request: &OAuthCodeRequest) -> Result<ProvenIdentity> {
        self.providers.identify(provider, &request.code, &request.code_verifier).await
    }

    /// Links a provider's identity to the user with the same email. If the email was not verified, anyone could have
    /// registered it: all credentials of the unverified user are revoked first.
    async fn adopt(
        &self,
        conn: &mut Conn,
        user: &User,
        provider: Provider,
        proven: &ProvenIdentity,
    ) -> Result<()> {
        // Locked before it is read again, so that of two concurrent sign-ins the second does not revoke what the first created.
        users::lock(conn, user.tenant_id, user.user_id).await?;
        let user = existing_user(conn, user.tenant_id, user.user_id).await?;
        if user.email_verified_at.is_none() {
            users::set_password(conn, user.tenant_id, user.user_id, None).await?;
            users::disable_totp(conn, user.tenant_id, user.user_id).await?;
            sessions::delete_of_user(conn, user.user_id).await?;
            keys::revoke_all(conn, user.tenant_id).await?;
            // The unverified user may have linked a provider account, which would keep access.
            for linked in identities::of_user(conn, user.tenant_id, user.user_id).await? {
                identities::delete(conn, user.tenant_id, user.user_id, linked.provider).await?;
            }
            users::verify_email(conn, user.tenant_id, user.user_id, self.clock.now()).await?;
        }
        // A concurrent sign-in with the same identity may have linked it while this one waited for the lock.
        let owner = identities::find(conn, provider, &proven.subject).await?;
        if owner.is_some_and(|owner| owner.user_id == user.user_id) {
            return Ok(());
        }
        self.add(conn, &user, provider, proven).await.map(drop)
    }

    async fn sign_up_with(
        &self,
        conn: &mut Conn,
        provider: Provider,
        proven: &ProvenIdentity,
        email: &EmailAddress,
        chosen_name: Option<&str>,
    ) -> Result<Token> {
        self.tenants.require_registration()?;
        let name = match chosen_name {
            Some(name) => tenant_name(name)?,
            None => proven.name.as_deref().and_then(|name| tenant_name(name).ok()).unwrap_or(email.as_str()),
        };
        let now = self.clock.now();
        let first = FirstUser { email, password_hash: None, email_verified_at: Some(now) };
        let (tenant, user) = self.tenants.provision(conn, name, &first).await?;
        let identity = new_identity(tenant, user, provider, proven, now);
        if !identities::insert(conn, &identity, &proven.subject).await? {
            return Err(Error::new(Kind::Conflict, "this account is linked to another user"));
        }
        let token = self.sessions.open(conn, tenant, user).await?;
        Ok(Token { new_user: Some(true), ..token })
    }

    /// The sign-in methods of a member.
    pub async fn list(&self, tenant: TenantId, user: UserId) -> Result<IdentityList> {
        self.store
            .read("identities", async |conn: &mut Conn| {
                let user = existing_user(conn, tenant, user).await?;
                let linked = identities::of_user(conn, tenant, user.user_id).await?;
                Ok(IdentityList {
                    has_password: user.password_hash.is_some(),
                    identities: linked.iter().map(record).collect(),
                    providers: self.providers.configured(),
                })
            })
            .await
    }

    /// Links a provider account to the signed-in member.
    pub async fn link(
        &self,
        caller: Caller,
        provider: Provider,
        request: &OAuthCodeRequest,
    ) -> Result<Identity> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let proven = self.prove(provider, request).await?;
        let email = verified_email(&proven)?;
        let identity = self
            .store
            .write("link_identity", async |conn: &mut Conn| {
                self.authentication.require_valid(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                // If the provider's verified email is the user's own, that is verified too.
                if user.email.parse::<EmailAddress>().is_ok_and(|own| own.key() == email.key()) {
                    users::verify_email(conn, tenant, user.user_id, self.clock.now()).await?;
                }
                self.add(conn, &user, provider, &proven).await
            })
            .await?;
        self.notifications.wake();
        Ok(record(&identity))
    }

    async fn add(
        &self,
        conn: &mut Conn,
        user: &User,
        provider: Provider,
        proven: &ProvenIdentity,
    ) -> Result<identities::Identity> {
        let now = self.clock.now();
        let identity = new_identity(user.tenant_id, user.user_id, provider, proven, now);
        if !identities::insert(conn, &identity, &proven.subject).await? {
            let owner = identities::find(conn, provider, &proven.subject).await?;
            let message = match owner {
                Some(owner) if owner.user_id == user.user_id => "this account is linked already",
                Some(_) => "this account is linked to another user",
                None => "another account of this provider is linked already",
            };
            return Err(Error::new(Kind::Conflict, message));
        }
        let mail = self.notifications.templates.identity_linked(&user.email, provider.label(), now);
        self.notifications.mail_user(conn, user, &mail).await?;
        Ok(identity)
    }

    /// Unlinks a provider, unless it is the last sign-in method.
    pub async fn unlink(&self, tenant: TenantId, user: UserId, provider: Provider) -> Result<()> {
        self.store
            .write("unlink_identity", async |conn: &mut Conn| {
                // Locked, so that two concurrent requests cannot unlink the last two methods.
                users::lock(conn, tenant, user).await?;
                let user = existing_user(conn, tenant, user).await?;
                let linked = identities::of_user(conn, tenant, user.user_id).await?;
                if !linked.iter().any(|identity| identity.provider == provider) {
                    return Err(Error::new(Kind::NotFound, "no account of this provider is linked"));
                }
                if user.password_hash.is_none() && linked.len() == 1 {
                    return Err(Error::new(
                        Kind::Conflict,
                        "this is the last way to sign in: set a password first",
                    ));
                }
                identities::delete(conn, tenant, user.user_id, provider).await?;
                let mail = self.notifications.templates.identity_unlinked(
                    &user.email,
                    provider.label(),
                    self.clock.now(),
                );
                self.notifications.mail_user(conn, &user, &mail).await
            })
            .await?;
        self.notifications.wake();
        Ok(())
    }
}

fn verified_email(proven: &ProvenIdentity) -> Result<EmailAddress> {
    if !proven.email_verified {
        return Err(Error::new(Kind::Forbidden, "the provider has not verified the email address"));
    }
    proven
        .email
        .parse()
        .map_err(|_| Error::new(Kind::Forbidden, "the provider shows no usable email address"))
}

fn new_identity(
    tenant: TenantId,
    user: UserId,
    provider: Provider,
    proven: &ProvenIdentity,
    now: model::Timestamp,
) -> identities::Identity {
    identities::Identity {
        provider,
        tenant_id: tenant,
        user_id: user,
        email: proven.email.clone(),
        created_at: now,
    }
}

fn record(identity: &identities::Identity) -> Identity {
    Identity { provider: identity.provider, email: identity.email.clone(), created_at: identity.created_at }
}
