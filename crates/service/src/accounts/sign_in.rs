//! Sign-in with a password, and the exchange of legacy keys for tokens.

use std::sync::Arc;
use std::time::Duration;

use model::api::{LoginRequest, Token, TokenExchangeRequest, TokenType};
use model::{EmailAddress, Timestamp};
use store::accounts::audit_log::Origin;
use store::accounts::sessions::{self, Holder, NewSession};
use store::accounts::unfinished_sign_ins::{self, UnfinishedSignIn};
use store::accounts::users::{self, User};
use store::{Conn, Store};
use tokio::sync::Semaphore;
use tracing::error;

use crate::accounts::authentication::Authentication;
use crate::accounts::passkeys::{PasskeyChecks, UsedPasskey};
use crate::accounts::passwords::Passwords;
use crate::accounts::sessions::{Sessions, refuse_suspended};
use crate::accounts::tokens;
use crate::accounts::two_factor::TwoFactorCodes;
use crate::accounts::users::with_same_password;
use crate::runtime::audit::FailedBecause;
use crate::runtime::{
    ClientInfo, Clock, Error, Kind, Limit, Result, Throttle, Workers, audit, client_network,
};

/// The lifetime of a tenant token.
/// How many lockouts are recorded at the same time.
pub(crate) const LOCKOUTS_AT_ONCE: usize = 4;
const TENANT_TOKEN_LIFETIME: Duration = Duration::from_mins(15);

/// How long the second factor of a sign-in may take before the audit log has it as failed.
const UNFINISHED_FOR: Duration = Duration::from_mins(5);

/// Signs members in.
pub struct SignIn {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) workers: Workers,
    pub(crate) throttle: Throttle,
    pub(crate) passwords: Passwords,
    pub(crate) two_factor: TwoFactorCodes,
    pub(crate) passkeys: PasskeyChecks,
    pub(crate) authentication: Authentication,
    pub(crate) sessions: Sessions,
    /// [`LOCKOUTS_AT_ONCE`].
    pub(crate) lockouts: Arc<Semaphore>,
}

impl SignIn {
    /// Signs a member in with email and password, and with a code if two-factor is on.
    pub async fn log_in(&self, request: &LoginRequest, client: &ClientInfo) -> Result<Token> {
        // An invalid email takes the same path as an unknown one, so that the response reveals nothing.
        let email_key = request
            .email
            .parse::<EmailAddress>()
            .map_or_else(|_| request.email.clone(), |email| email.key().to_owned());
        let address = client_network(client.address).to_string();
        let _slot = self.throttle.slot().await?;
        if let Some(until) = self.throttle.count(&Limit::LOGIN_ADDRESS, &address).await? {
            self.record_lockout(&email_key, until, client);
            return Err(self.throttle.refusal(until));
        }
        if let Some(until) = self.throttle.count(&Limit::LOGIN_EMAIL, &email_key).await? {
            self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
            self.record_lockout(&email_key, until, client);
            return Err(self.throttle.refusal(until));
        }
        let member = self.check_password(request, &email_key).await;
        let is_password_right = member.is_ok();
        let token = match member {
            Ok(member) => self.open_session(request, &member, client).await,
            Err(error) => Err(error),
        };
        match &token {
            Ok(_) => {
                self.sessions.opened();
                self.throttle.clear(&Limit::LOGIN_EMAIL, &email_key).await?;
                self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
            }
            // A correct password without a code, or an internal error, is not a failed sign-in.
            Err(error) if error.kind() != Kind::Unauthorized => {
                self.throttle.forgive(&Limit::LOGIN_EMAIL, &email_key).await?;
                self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
                match error.kind() {
                    Kind::MfaRequired => self.keep_unfinished(&email_key, client).await?,
                    Kind::Suspended => {
                        self.record_failure(&email_key, client, true, Some(FailedBecause::Suspended));
                    }
                    _ => {}
                }
            }
            Err(_) => self.record_failure(&email_key, client, is_password_right, None),
        }
        token
    }

    /// Records a failed sign-in of a member. That is done after the response, so that its time does not tell whether the email
    /// has an account. With the right password it is what became of the sign-in that waited for its second factor.
    fn record_failure(
        &self,
        email_key: &str,
        client: &ClientInfo,
        is_password_right: bool,
        because: Option<FailedBecause>,
    ) {
        let (store, email_key, origin) =
            (self.store.clone(), email_key.to_owned(), client.origin(self.clock.now()));
        self.workers.start(|_| async move {
            let recorded = store
                .write("record_failed_sign_in", async |conn: &mut Conn| {
                    let Some(user) = users::by_email(conn, &email_key).await? else { return Ok(()) };
                    let who = (user.tenant_id, user.user_id);
                    if let Some(address) = origin.address.as_ref().filter(|_| is_password_right) {
                        unfinished_sign_ins::finish(conn, user.tenant_id, user.user_id, address).await?;
                    }
                    audit::record_failed_sign_in(conn, who, &origin, because).await
                })
                .await;
            if let Err(error) = recorded {
                error!(cause = error.cause(), "cannot record a failed sign-in: {error}");
            }
        });
    }

    /// Records that a member was locked out, once until the end of the lockout; after the response, like a failure. In a flood, a
    /// later refusal records it.
    fn record_lockout(&self, email_key: &str, until: Timestamp, client: &ClientInfo) {
        let Ok(slot) = Arc::clone(&self.lockouts).try_acquire_owned() else { return };
        let (store, email_key, origin) =
            (self.store.clone(), email_key.to_owned(), client.origin(self.clock.now()));
        self.workers.start(|_| async move {
            let _slot = slot;
            let recorded = async {
                let known = store.read("user_by_email", async |conn| users::by_email(conn, &email_key).await);
                let Some(user) = known.await? else { return Ok(()) };
                let (who, lockout) = ((user.tenant_id, user.user_id), format!("{email_key} until {until}"));
                store
                    .write("record_lockout", async |conn: &mut Conn| {
                        if Limit::LOCKOUT_LINES.attempt(conn, &lockout, origin.at).await?.is_some() {
                            return Ok(());
                        }
                        let because = Some(FailedBecause::LockedOut);
                        audit::record_failed_sign_in(conn, who, &origin, because).await
                    })
                    .await
            };
            if let Err(error) = recorded.await {
                error!(cause = error.cause(), "cannot record a lockout: {error}");
            }
        });
    }

    /// Keeps a sign-in whose password was right, until its second factor follows from the same address. If that takes longer than
    /// [`UNFINISHED_FOR`] from when the password was last given, the sweeper records that it failed. One that somebody began
    /// elsewhere has failed by this.
    async fn keep_unfinished(&self, email_key: &str, client: &ClientInfo) -> Result<()> {
        let origin = client.origin(self.clock.now());
        self.store
            .write("keep_unfinished_sign_in", async |conn: &mut Conn| {
                let Some(user) = users::by_email(conn, email_key).await? else { return Ok(()) };
                let (tenant_id, user_id) = (user.tenant_id, user.user_id);
                users::lock(conn, tenant_id, user_id).await?;
                let before = unfinished_sign_ins::find(conn, tenant_id, user_id).await?;
                let begun = UnfinishedSignIn {
                    tenant_id,
                    user_id,
                    unfinished_at: origin.at,
                    unfinished_address: origin.address.clone(),
                    unfinished_request_id: origin.request_id.clone(),
                };
                unfinished_sign_ins::keep(conn, &begun).await?;
                match before {
                    Some(before) if before.unfinished_address != begun.unfinished_address => {
                        record_unfinished(conn, before).await
                    }
                    _ => Ok(()),
                }
            })
            .await
    }

    /// The member whose password it is.
    async fn check_password(&self, request: &LoginRequest, email_key: &str) -> Result<User> {
        let user =
            self.store.read("user_by_email", async |conn| users::by_email(conn, email_key).await).await?;
        let hash = user.as_ref().and_then(|user| user.password_hash.as_deref());
        if !self.passwords.verify(&request.password, hash).await? {
            let reason = match (&user, hash) {
                (None, _) => "no user has this email",
                (Some(_), None) => "the user has no password",
                (Some(_), Some(_)) => "the password is wrong",
            };
            return Err(Error::refused(reason));
        }
        user.ok_or_else(Error::gone)
    }

    /// Opens a session for a member whose password was right, if their second factor is.
    async fn open_session(
        &self,
        request: &LoginRequest,
        checked: &User,
        client: &ClientInfo,
    ) -> Result<Token> {
        let used = self.used_passkey(checked, request).await?;
        // In one transaction: a sign-in that fails does not use up the code.
        self.store
            .write("log_in", async |conn: &mut Conn| {
                let user = with_same_password(conn, checked).await?;
                let user = user.ok_or_else(|| Error::refused("the password was changed meanwhile"))?;
                match &used {
                    Some(used) => self.passkeys.record(conn, used).await.map_err(unauthorized)?,
                    None if user.totp_enabled_at.is_some() => {
                        self.check_code(conn, &user, request.code.as_deref()).await?;
                    }
                    None => {}
                }
                self.sessions.open(conn, user.tenant_id, user.user_id, client).await
            })
            .await
    }

    /// The passkey that a sign-in with a password shows as its second factor, if it shows one.
    async fn used_passkey(&self, user: &User, request: &LoginRequest) -> Result<Option<UsedPasskey>> {
        let Some(assertion) = &request.passkey else { return Ok(None) };
        self.passkeys.verify_of(user.user_id, assertion).await.map(Some).map_err(unauthorized)
    }

    async fn check_code(&self, conn: &mut Conn, user: &User, code: Option<&str>) -> Result<()> {
        let message = "an authenticator or recovery code is required, or a passkey";
        let code = code.ok_or_else(|| Error::new(Kind::MfaRequired, message))?;
        if self.two_factor.take(conn, user, code).await? {
            Ok(())
        } else {
            Err(Error::refused("the code is wrong"))
        }
    }

    /// Exchanges a legacy key for a short-lived tenant token.
    pub async fn exchange_token(&self, request: &TokenExchangeRequest) -> Result<Token> {
        let key = self.authentication.legacy_key(&request.secret).await?;
        if key.public_id != request.api_key {
            return Err(Error::refused("the legacy key belongs to another key id"));
        }
        self.authentication.touch(key.tenant_id, key.key_id, key.legacy_used_at, true).await;
        let token = self.sessions.new_token(tokens::TENANT_TOKEN, TENANT_TOKEN_LIFETIME, TokenType::Tenant);
        let (hash, now) = (tokens::hash(&token.token), self.clock.now());
        self.store
            .write("exchange_token", async |conn: &mut Conn| {
                refuse_suspended(conn, key.tenant_id).await?;
                let session = NewSession {
                    tenant_id: key.tenant_id,
                    holder: Holder::Key(key.key_id),
                    token_hash: &hash,
                    address: None,
                    agent: None,
                    created_at: now,
                    expires_at: token.expires_at,
                };
                Ok::<_, Error>(sessions::insert(conn, &session).await?)
            })
            .await?;
        Ok(token)
    }
}

/// Records unfinished sign-ins that nothing has followed; true if there may be more.
pub(crate) async fn record_one_unfinished(conn: &mut Conn, now: Timestamp) -> Result<bool> {
    let Some(unfinished) = unfinished_sign_ins::oldest(conn, now - UNFINISHED_FOR).await? else {
        return Ok(false);
    };
    // Another node may have come first.
    if unfinished_sign_ins::forget(conn, &unfinished).await? {
        record_unfinished(conn, unfinished).await?;
    }
    Ok(true)
}

async fn record_unfinished(conn: &mut Conn, unfinished: UnfinishedSignIn) -> Result<()> {
    let origin = Origin {
        at: unfinished.unfinished_at,
        address: unfinished.unfinished_address,
        request_id: unfinished.unfinished_request_id,
    };
    let who = (unfinished.tenant_id, unfinished.user_id);
    audit::record_failed_sign_in(conn, who, &origin, Some(FailedBecause::SecondFactorMissing)).await
}

/// A passkey that is not accepted fails a sign-in like a wrong password.
fn unauthorized(error: Error) -> Error {
    if error.kind() == Kind::InvalidPasskey { Error::refused("the passkey is not accepted") } else { error }
}
