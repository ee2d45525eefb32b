//! Sign-in with an identity provider, and the provider accounts that a member has linked.

use std::sync::Arc;

use model::api::{
    AuthorizationURL, Identities as IdentityList, Identity, OAuthAuthorizeRequest, OAuthCodeRequest,
    OAuthProviders, Token,
};
use model::{AuditAction, EmailAddress, Provider, TenantId, UserId};
use store::accounts::users::{self, User};
use store::accounts::{identities, passkeys, tenants};
use store::{Conn, Store};
use tracing::error;

use crate::accounts::authentication::Authentication;
use crate::accounts::first_proof::{FirstProof, Proof, Proved};
use crate::accounts::invitations::Invitations;
use crate::accounts::providers::{ProvenIdentity, Providers, Unproven};
use crate::accounts::sessions::{Sessions, end_all_but, end_others};
use crate::accounts::tenants::{FirstUser, Tenants, tenant_name};
use crate::accounts::users::{existing_user, identity_record};
use crate::outbox::Notifications;
use crate::runtime::audit::FailedBecause;
use crate::runtime::{Caller, ClientInfo, Clock, Error, Kind, Result, audit};

/// Sign-in with identity providers.
pub struct Identities {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) providers: Arc<Providers>,
    pub(crate) tenants: Tenants,
    pub(crate) invitations: Invitations,
    pub(crate) sessions: Sessions,
    pub(crate) authentication: Authentication,
    pub(crate) first_proof: FirstProof,
    pub(crate) notifications: Notifications,
}

impl Identities {
    /// The configured providers.
    pub fn providers(&self) -> OAuthProviders {
        OAuthProviders {
            providers: self.providers.configured(),
            allow_registration: self.tenants.allow_registration,
            oidc_name: self.providers.oidc_name().map(str::to_owned),
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

    /// Signs in with a provider's code: the linked user, the user with the same verified email, or a new account. If that is the
    /// first proof of the address, what was set up before ends, unless `session` is one of the same member.
    pub async fn sign_in(
        &self,
        provider: Provider,
        request: &OAuthCodeRequest,
        client: &ClientInfo,
        session: Option<Caller>,
    ) -> Result<Token> {
        let (proven, email) = self.prove_entrant(provider, request, client).await?;
        if let Some(invitation) = &request.invitation {
            return self.accept(provider, &proven, invitation, client).await;
        }
        let attempt = || {
            self.store.write("sign_in_with_provider", async |conn: &mut Conn| {
                let known = identities::find(conn, provider, &proven.subject).await?;
                let known = known.map(|identity| (identity.tenant_id, identity.user_id));
                let by_email = match known {
                    Some(_) => None,
                    None => users::by_email(conn, email.key()).await?,
                };
                let Some((tenant, user)) = known.or(by_email.map(|user| (user.tenant_id, user.user_id)))
                else {
                    let name = request.tenant_name.as_deref();
                    let token = self.sign_up_with(conn, provider, &proven, &email, name, client).await?;
                    return Ok::<_, Error>((Proved::default(), token));
                };
                let proved = self.enter(conn, (tenant, user), provider, &proven, (client, session)).await?;
                let token = self.sessions.open(conn, tenant, user, client).await?;
                Ok((proved, Token { new_user: Some(false), ..token }))
            })
        };
        let (proved, token) = match attempt().await {
            // A concurrent request may have created the account or the link; the second attempt finds it.
            Err(error) if error.kind() == Kind::Conflict => attempt().await?,
            Err(error) if error.kind() == Kind::Suspended => {
                let because = FailedBecause::Suspended;
                let refused = Unproven { error, because, subject: Some(proven.subject.clone()), email: None };
                self.record_failure(provider, &refused, client).await;
                return Err(refused.error);
            }
            outcome => outcome?,
        };
        self.first_proof.finish(proved);
        Ok(token)
    }

    /// Accepts an invitation with a provider's identity, which need not show the address that was invited: the link proves that.
    async fn accept(
        &self,
        provider: Provider,
        proven: &ProvenIdentity,
        invitation: &str,
        client: &ClientInfo,
    ) -> Result<Token> {
        let token = self
            .store
            .write("accept_invitation", async |conn: &mut Conn| {
                let (tenant, user) = self.invitations.redeem(conn, invitation, None, client).await?;
                let identity = new_identity(tenant, user, provider, proven, self.clock.now());
                if !identities::insert(conn, &identity, &proven.subject).await? {
                    return Err(Error::new(Kind::Conflict, "this account is linked to another user"));
                }
                self.sessions.open(conn, tenant, user, client).await
            })
            .await?;
        self.sessions.opened();
        Ok(Token { new_user: Some(true), ..token })
    }

    async fn prove(&self, provider: Provider, request: &OAuthCodeRequest) -> Result<ProvenIdentity> {
        self.providers.identify(provider, &request.code, &request.code_verifier).await
    }

    /// Proves who signs in, with a verified address. A refusal is on record if the provider has told whose it is.
    async fn prove_entrant(
        &self,
        provider: Provider,
        request: &OAuthCodeRequest,
        client: &ClientInfo,
    ) -> Result<(ProvenIdentity, EmailAddress)> {
        let refused = match self.providers.prove(provider, &request.code, &request.code_verifier).await {
            Ok(proven) => match verified_email(&proven) {
                Ok(email) => return Ok((proven, email)),
                Err(error) => Box::new(Unproven {
                    error,
                    because: FailedBecause::AddressUnverified,
                    subject: Some(proven.subject),
                    email: Some(proven.email),
                }),
            },
            Err(refused) => refused,
        };
        self.record_failure(provider, &refused, client).await;
        Err(refused.error)
    }

    /// Records a refused sign-in of the member whom the identity is linked to, or who has its address.
    async fn record_failure(&self, provider: Provider, refused: &Unproven, client: &ClientInfo) {
        let Some(subject) = &refused.subject else { return };
        let email = refused.email.as_ref().and_then(|email| email.parse::<EmailAddress>().ok());
        let origin = client.origin(self.clock.now());
        let recorded = self
            .store
            .write("record_failed_sign_in", async |conn: &mut Conn| {
                let linked = identities::find(conn, provider, subject).await?;
                let linked = linked.map(|identity| (identity.tenant_id, identity.user_id));
                let named = match (&linked, &email) {
                    (None, Some(email)) => users::by_email(conn, email.key()).await?,
                    _ => None,
                };
                let Some(who) = linked.or(named.map(|user| (user.tenant_id, user.user_id))) else {
                    return Ok(());
                };
                audit::record_failed_sign_in(conn, who, &origin, Some(refused.because)).await
            })
            .await;
        if let Err(error) = recorded {
            error!(cause = error.cause(), "cannot record a failed sign-in: {error}");
        }
    }

    /// Admits the owner of a provider's identity to a member: the one that it is linked to, or the one with the same email,
    /// whom it is linked to then; that ends the member's other sessions.
    async fn enter(
        &self,
        conn: &mut Conn,
        (tenant, user): (TenantId, UserId),
        provider: Provider,
        proven: &ProvenIdentity,
        (client, session): (&ClientInfo, Option<Caller>),
    ) -> Result<Proved> {
        let shows_address = has_address(&existing_user(conn, tenant, user).await?, proven);
        let proved = if shows_address {
            let proof = Proof { keep: false, session, client: Some(client) };
            self.first_proof.prove(conn, tenant, user, proof).await?
        } else {
            Proved::default()
        };
        // Locked before it is looked for again: unlinking it meanwhile ends its right to sign in, and a concurrent sign-in with
        // the same identity may have linked it.
        users::lock(conn, tenant, user).await?;
        match identities::find(conn, provider, &proven.subject).await? {
            Some(owner) if owner.user_id == user => {}
            _ if shows_address => {
                let user = existing_user(conn, tenant, user).await?;
                let linked = self.add(conn, &user, provider, proven).await?;
                // A new way to sign in leaves nobody else signed in, whoever adds it and how.
                end_all_but(conn, user.user_id, session).await?;
                let origin = client.origin(self.clock.now());
                let entrant = audit::Entrant { who: (tenant, user.user_id), origin: &origin };
                let (action, after) = (AuditAction::IdentityLinked, identity_record(&linked));
                entrant.record(conn, action, provider, audit::NONE, Some(&after)).await?;
            }
            _ => return Err(Error::new(Kind::Conflict, "this account has just been unlinked")),
        }
        Ok(proved)
    }

    async fn sign_up_with(
        &self,
        conn: &mut Conn,
        provider: Provider,
        proven: &ProvenIdentity,
        email: &EmailAddress,
        chosen_name: Option<&str>,
        client: &ClientInfo,
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
        let token = self.sessions.open(conn, tenant, user, client).await?;
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
                    identities: linked.iter().map(identity_record).collect(),
                    providers: self.providers.configured(),
                })
            })
            .await
    }

    /// Links a provider account to the signed-in member; their other sessions end.
    pub async fn link(
        &self,
        caller: Caller,
        provider: Provider,
        request: &OAuthCodeRequest,
    ) -> Result<Identity> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        self.authentication.check_recent_proof(caller).await?;
        let proven = self.prove(provider, request).await?;
        verified_email(&proven)?;
        let (proved, identity) = self
            .store
            .write("link_identity", async |conn: &mut Conn| {
                // Tenants are locked before members, here as everywhere.
                tenants::lock(conn, tenant).await?;
                self.authentication.require_recent_proof(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                let proved = if has_address(&user, &proven) {
                    let proof = Proof { keep: false, session: Some(caller), client: None };
                    self.first_proof.prove(conn, tenant, user.user_id, proof).await?
                } else {
                    Proved::default()
                };
                let identity = self.add(conn, &user, provider, &proven).await?;
                audit::note(tenant, provider, audit::NONE, Some(&identity_record(&identity)));
                end_others(conn, caller).await?;
                Ok::<_, Error>((proved, identity))
            })
            .await?;
        self.first_proof.finish(proved);
        Ok(identity_record(&identity))
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
        let mail =
            self.notifications.templates.identity_linked(&user.email, self.providers.name(provider), now);
        self.notifications.mail_user(conn, user, &mail).await?;
        Ok(identity)
    }

    /// Unlinks a provider, unless it is the last sign-in method; the member's other sessions end.
    pub async fn unlink(&self, caller: Caller, provider: Provider) -> Result<()> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        self.store
            .write("unlink_identity", async |conn: &mut Conn| {
                // This locks the user, so that two concurrent requests cannot unlink the last two methods.
                self.authentication.require_recent_proof(conn, caller).await?;
                let user = existing_user(conn, tenant, user).await?;
                let linked = identities::of_user(conn, tenant, user.user_id).await?;
                let Some(found) = linked.iter().find(|identity| identity.provider == provider) else {
                    return Err(Error::new(Kind::NotFound, "no account of this provider is linked"));
                };
                audit::note(tenant, provider, Some(&identity_record(found)), audit::NONE);
                let passkeys = passkeys::of_user(conn, tenant, user.user_id).await?;
                if user.password_hash.is_none() && linked.len() == 1 && passkeys.is_empty() {
                    return Err(Error::new(
                        Kind::Conflict,
                        "this is the last way to sign in: set a password first",
                    ));
                }
                identities::delete(conn, tenant, user.user_id, provider).await?;
                end_others(conn, caller).await?;
                let mail = self.notifications.templates.identity_unlinked(
                    &user.email,
                    self.providers.name(provider),
                    self.clock.now(),
                );
                self.notifications.mail_user(conn, &user, &mail).await
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(())
    }
}

/// Whether the provider shows the member's own address.
fn has_address(user: &User, proven: &ProvenIdentity) -> bool {
    let [own, shown] = [&user.email, &proven.email].map(|email| email.parse::<EmailAddress>());
    matches!((own, shown), (Ok(own), Ok(shown)) if own.key() == shown.key())
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
