//! Recent proof: a session that has just shown a password, a code, a passkey or a provider may change how its member signs in.

use std::sync::Arc;

use model::api::{OAuthCodeRequest, PasskeyAssertion, ReauthenticateRequest};
use model::{Provider, TenantId, UserId};
use store::accounts::{identities, sessions, users};
use store::{Conn, Store};

use crate::accounts::passkeys::PasskeyChecks;
use crate::accounts::passwords::Passwords;
use crate::accounts::providers::Providers;
use crate::accounts::reauthentication::reauthenticating;
use crate::accounts::two_factor::TwoFactorCodes;
use crate::accounts::users::{existing_user, with_same_password};
use crate::runtime::{Caller, Clock, Error, Kind, Result, SessionId, Throttle};

/// Renews the proof of a session.
pub struct RecentProof {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) throttle: Throttle,
    pub(crate) passwords: Passwords,
    pub(crate) codes: TwoFactorCodes,
    pub(crate) providers: Arc<Providers>,
    pub(crate) passkeys: PasskeyChecks,
}

/// What a signed-in user shows.
enum Shown<'a> {
    Password(&'a str),
    Code(&'a str),
    Provider(Provider, OAuthCodeRequest),
    Passkey(&'a PasskeyAssertion),
}

/// Whose session is to be renewed.
#[derive(Clone, Copy)]
struct Holder {
    tenant: TenantId,
    user: UserId,
    session: SessionId,
}

impl RecentProof {
    /// Renews the proof of the caller's session with a password, a code, a passkey or a provider.
    pub async fn reauthenticate(&self, caller: Caller, request: &ReauthenticateRequest) -> Result<()> {
        let (user, session) = caller.session()?;
        let holder = Holder { tenant: caller.tenant, user, session };
        let shown = shown(request)?;
        reauthenticating(&self.throttle, user, async || match &shown {
            Shown::Password(password) => self.by_password(holder, password).await,
            Shown::Code(code) => self.by_code(holder, code).await,
            Shown::Provider(provider, code) => self.by_provider(holder, *provider, code).await,
            Shown::Passkey(assertion) => self.by_passkey(holder, assertion).await,
        })
        .await
    }

    async fn by_password(&self, holder: Holder, password: &str) -> Result<()> {
        let invalid = || Error::new(Kind::InvalidPassword, "the password is not right");
        let Holder { tenant, user, .. } = holder;
        let user = self.store.read("user", async |conn| existing_user(conn, tenant, user).await).await?;
        if !self.passwords.verify(password, user.password_hash.as_deref()).await? {
            return Err(invalid());
        }
        self.store
            .write("reauthenticate", async |conn: &mut Conn| {
                with_same_password(conn, &user).await?.ok_or_else(invalid)?;
                self.renew(conn, holder).await
            })
            .await
    }

    async fn by_code(&self, holder: Holder, code: &str) -> Result<()> {
        // In one transaction: a session that has ended does not use up the code.
        self.store
            .write("reauthenticate", async |conn: &mut Conn| {
                let user = existing_user(conn, holder.tenant, holder.user).await?;
                if !self.codes.take(conn, &user, code).await? {
                    return Err(Error::new(Kind::InvalidCode, "the code is not valid"));
                }
                self.renew(conn, holder).await
            })
            .await
    }

    async fn by_provider(&self, holder: Holder, provider: Provider, code: &OAuthCodeRequest) -> Result<()> {
        let proven = self.providers.identify(provider, &code.code, &code.code_verifier).await?;
        self.store
            .write("reauthenticate", async |conn: &mut Conn| {
                users::lock(conn, holder.tenant, holder.user).await?;
                let owner = identities::find(conn, provider, &proven.subject).await?;
                if owner.is_none_or(|owner| owner.user_id != holder.user) {
                    return Err(Error::new(
                        Kind::Forbidden,
                        "this account at the provider is not linked to you",
                    ));
                }
                self.renew(conn, holder).await
            })
            .await
    }

    async fn by_passkey(&self, holder: Holder, assertion: &PasskeyAssertion) -> Result<()> {
        let used = self.passkeys.verify_of(holder.user, assertion).await?;
        self.store
            .write("reauthenticate", async |conn: &mut Conn| {
                self.passkeys.record(conn, &used).await?;
                self.renew(conn, holder).await
            })
            .await
    }

    async fn renew(&self, conn: &mut Conn, holder: Holder) -> Result<()> {
        if sessions::set_proved(conn, &holder.session.0, self.clock.now()).await? {
            Ok(())
        } else {
            Err(Error::refused("the session has ended"))
        }
    }
}

/// What a request shows: exactly one of a password, a code, a passkey, or a provider's code with its verifier.
fn shown(request: &ReauthenticateRequest) -> Result<Shown<'_>> {
    let missing = |field: &str| Error::bad_request(format!("{field}: it is required with provider"));
    if let Some(assertion) = &request.passkey {
        if request.password.is_some() || request.code.is_some() || request.provider.is_some() {
            return Err(Error::bad_request("passkey: send it alone, without password, code or provider"));
        }
        return Ok(Shown::Passkey(assertion));
    }
    match (&request.password, &request.code, request.provider) {
        (Some(password), None, None) => Ok(Shown::Password(password)),
        (None, Some(code), None) => Ok(Shown::Code(code)),
        (None, code, Some(provider)) => {
            let code = code.clone().ok_or_else(|| missing("code"))?;
            let code_verifier = request.code_verifier.clone().ok_or_else(|| missing("code_verifier"))?;
            Ok(Shown::Provider(
                provider,
                OAuthCodeRequest { code, code_verifier, tenant_name: None, invitation: None },
            ))
        }
        (None, None, None) => {
            Err(Error::bad_request("password: it is required, or code, provider or passkey"))
        }
        (Some(_), ..) => Err(Error::bad_request("password: send it alone, without code or provider")),
    }
}
