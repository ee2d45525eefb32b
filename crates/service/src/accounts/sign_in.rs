//! Signing in, and the tokens that come of it.

use std::net::IpAddr;
use std::time::Duration;

use model::api::{LoginRequest, Token, TokenExchangeRequest, TokenType};
use model::{EmailAddress, TenantId, UserId};
use store::accounts::sessions::Holder;
use store::accounts::users::User;
use store::Conn;
use store::accounts::{sessions, users};

use crate::accounts::authentication::unauthorized;
use crate::runtime::throttle::Limit;
use crate::{Error, Kind, Result, Service, client_network};
use crate::accounts::tokens;

/// The life of a console token.
const CONSOLE_TOKEN_LIFE: Duration = Duration::from_hours(24);
/// The life of a tenant token.
const TENANT_TOKEN_LIFE: Duration = Duration::from_mins(15);

impl Service {
    /// Signs a person in with email and password, and with a code where two-factor is on.
    pub async fn log_in(&self, request: &LoginRequest, address: IpAddr) -> Result<Token> {
        // An address that is none belongs to nobody: it goes the whole way, so that the answer tells nothing.
        let email_key = request
            .email
            .parse::<EmailAddress>()
            .map_or_else(|_| request.email.clone(), |email| email.key().to_owned());
        let address = client_network(address).to_string();
        let _place = self.throttle.place().await?;
        self.throttle.attempt(&Limit::LOGIN_ADDRESS, &address).await?;
        if let Err(locked) = self.throttle.attempt(&Limit::LOGIN_EMAIL, &email_key).await {
            self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
            return Err(locked);
        }
        let token = self.check_login(request, &email_key).await;
        match &token {
            Ok(_) => {
                self.throttle.clear(&Limit::LOGIN_EMAIL, &email_key).await?;
                self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
            }
            // A right password that lacks the code, or a failure of ours, is no failed sign-in.
            Err(error) if error.kind() != Kind::Unauthorized => {
                self.throttle.forgive(&Limit::LOGIN_EMAIL, &email_key).await?;
                self.throttle.forgive(&Limit::LOGIN_ADDRESS, &address).await?;
            }
            Err(_) => {}
        }
        token
    }

    async fn check_login(&self, request: &LoginRequest, email_key: &str) -> Result<Token> {
        let user =
            self.store.read("user_by_email", async |conn| users::by_email(conn, email_key).await).await?;
        let hash = user.as_ref().and_then(|user| user.password_hash.as_deref());
        if !self.passwords.verify(&request.password, hash).await? {
            return Err(unauthorized());
        }
        let checked = user.ok_or_else(unauthorized)?;
        // All or nothing: a sign-in that comes to nothing leaves the code as it was.
        self.store
            .write("log_in", async |conn: &mut Conn| {
                let user = self.with_same_password(conn, &checked).await?.ok_or_else(unauthorized)?;
                if user.totp_enabled_at.is_some() {
                    let code = request.code.as_deref().ok_or_else(|| {
                        Error::new(Kind::MfaRequired, "an authenticator or recovery code is required")
                    })?;
                    if !self.take_code(conn, &user, code).await? {
                        return Err(unauthorized());
                    }
                }
                self.open_session(conn, user.tenant_id, user.user_id).await
            })
            .await
    }

    /// The person as they are now, locked, if their password is still the one that was checked before the transaction
    /// began. Checking takes long, and nobody may act on a password that was changed meanwhile.
    pub(crate) async fn with_same_password(&self, conn: &mut Conn, checked: &User) -> Result<Option<User>> {
        users::lock(conn, checked.tenant_id, checked.user_id).await?;
        let user = users::find(conn, checked.tenant_id, checked.user_id).await?;
        Ok(user.filter(|user| user.password_hash == checked.password_hash))
    }

    /// Exchanges a legacy key for a short-lived tenant token.
    pub async fn exchange_token(&self, request: &TokenExchangeRequest) -> Result<Token> {
        let key = self.legacy_key(&request.secret).await?;
        if key.public_id != request.api_key {
            return Err(unauthorized());
        }
        self.touch(key.tenant_id, key.key_id, key.legacy_used_at, true).await;
        let token = self.new_token(tokens::TENANT_TOKEN, TENANT_TOKEN_LIFE, TokenType::Tenant);
        let (hash, now) = (tokens::hash(&token.token), self.clock.now());
        self.store
            .write("exchange_token", async |conn: &mut Conn| {
                let holder = Holder::Key(key.key_id);
                sessions::insert(conn, key.tenant_id, holder, &hash, now, token.expires_at).await
            })
            .await?;
        Ok(token)
    }

    /// Opens a console session within a transaction of the caller's.
    pub(crate) async fn open_session(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        user: UserId,
    ) -> Result<Token> {
        let token = self.new_token(tokens::CONSOLE_TOKEN, CONSOLE_TOKEN_LIFE, TokenType::Console);
        let hash = tokens::hash(&token.token);
        sessions::insert(conn, tenant, Holder::User(user), &hash, self.clock.now(), token.expires_at).await?;
        Ok(token)
    }

    fn new_token(&self, prefix: &str, life: Duration, token_type: TokenType) -> Token {
        Token {
            token: tokens::secret(&self.random, prefix),
            expires_at: self.clock.now() + life,
            token_type,
            new_user: None,
        }
    }
}
