//! Changing a password, and resetting a forgotten one.

use std::net::IpAddr;
use std::time::Duration;

use model::api::{ChangePasswordRequest, ForgotPasswordRequest, ResetPasswordRequest, Token};
use model::{AuditAction, EmailAddress, TenantId, UserId};
use store::accounts::{password_resets, sessions, users};
use store::{Conn, Store};
use tracing::error;

use crate::accounts::authentication::Authentication;
use crate::accounts::first_proof::{FirstProof, Proof};
use crate::accounts::passwords::Passwords;
use crate::accounts::reauthentication::reauthenticating;
use crate::accounts::sessions::Sessions;
use crate::accounts::tokens;
use crate::accounts::users::{existing_user, with_same_password};
use crate::outbox::Notifications;
use crate::runtime::{
    Caller, ClientInfo, Clock, Error, Kind, Limit, Random, Result, Throttle, Workers, audit, client_network,
};

/// The lifetime of a reset link.
const RESET_LIFETIME: Duration = Duration::from_hours(1);

/// Changes and resets passwords.
#[derive(Clone)]
pub struct PasswordReset {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) workers: Workers,
    pub(crate) throttle: Throttle,
    pub(crate) passwords: Passwords,
    pub(crate) sessions: Sessions,
    pub(crate) authentication: Authentication,
    pub(crate) first_proof: FirstProof,
    pub(crate) notifications: Notifications,
}

impl PasswordReset {
    /// Changes a password: all sessions end, and the caller gets a new one.
    pub async fn change(
        &self,
        caller: Caller,
        request: &ChangePasswordRequest,
        client: &ClientInfo,
    ) -> Result<Token> {
        let (tenant, user) = (caller.tenant, caller.user()?);
        let token = reauthenticating(&self.throttle, user, async || {
            let user = self.store.read("user", async |conn| existing_user(conn, tenant, user).await).await?;
            if !self.passwords.verify(&request.current_password, user.password_hash.as_deref()).await? {
                return Err(invalid_password());
            }
            Passwords::require_strength(&request.new_password, &[&user.email])?;
            let hash = self.passwords.hash(&request.new_password).await?;
            self.store
                .write("change_password", async |conn: &mut Conn| {
                    let user = with_same_password(conn, &user).await?.ok_or_else(invalid_password)?;
                    users::set_password(conn, tenant, user.user_id, Some(&hash)).await?;
                    sessions::delete_of_user(conn, user.user_id).await?;
                    password_resets::delete_of_user(conn, user.user_id).await?;
                    let mail = self.notifications.templates.password_changed(&user.email, self.clock.now());
                    self.notifications.mail_user(conn, &user, &mail).await?;
                    self.sessions.open(conn, tenant, user.user_id, client).await
                })
                .await
        })
        .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(token)
    }

    /// Sends a reset link, if the email has an account. Neither the response nor its timing reveals whether it does: looking
    /// up the user and queueing the mail happen after the response, and take the same work with and without an account.
    ///
    /// Requests for an email are counted by client network, so that a stranger cannot keep its owner from getting a link.
    pub async fn request_link(&self, request: &ForgotPasswordRequest, address: IpAddr) -> Result<()> {
        let email: EmailAddress =
            request.email.parse().map_err(|error| Error::bad_request(format!("email: {error}")))?;
        let network = client_network(address);
        self.throttle.attempt(&Limit::FORGOT_ADDRESS, &network.to_string()).await?;
        self.throttle.attempt(&Limit::FORGOT_EMAIL, &format!("{} from {network}", email.key())).await?;
        let this = self.clone();
        self.workers.start(|_stop| async move {
            if let Err(error) = this.send_reset_link(&email).await {
                error!(cause = error.cause(), "cannot queue a reset link: {error}");
            }
        });
        Ok(())
    }

    /// Queues a reset link. Where none is to be sent, the same statements write a link that has already expired, whose token
    /// nobody learns, and a mail that the worker drops, both of nobody: otherwise the time of the next request would show that an
    /// address has an account. Only requests for the same address wait for each other.
    async fn send_reset_link(&self, email: &EmailAddress) -> Result<()> {
        let token = tokens::secret(&self.random, tokens::RESET_TOKEN);
        let (hash, now) = (tokens::hash(&token), self.clock.now());
        let nobody = (TenantId(self.random.id(now)), UserId(self.random.id(now)));
        self.store
            .write("send_reset_link", async |conn: &mut Conn| {
                let is_blocked = Limit::RESET_LINKS.attempt(conn, email.key(), now).await?.is_some();
                let known = users::by_email(conn, email.key()).await?.filter(|_| !is_blocked);
                let (tenant, user) = known.as_ref().map_or(nobody, |user| (user.tenant_id, user.user_id));
                let lifetime = if known.is_some() { RESET_LIFETIME } else { Duration::ZERO };
                password_resets::insert(conn, tenant, user, &hash, now + lifetime).await?;
                let to = known.as_ref().map_or(email.as_str(), |user| &user.email);
                let mut mail = self.notifications.templates.password_reset(to, &token);
                mail.is_dropped = known.is_none();
                Ok::<_, Error>(self.notifications.mailer.enqueue(conn, tenant, &mail, None).await?)
            })
            .await?;
        self.notifications.wake();
        Ok(())
    }

    /// Sets a new password with a reset link: the link is used up, the address is proved, and all sessions end. If nobody had
    /// proved the address before, what was set up until now ends too, unless `session` is one of the same member.
    pub async fn reset(
        &self,
        request: &ResetPasswordRequest,
        client: &ClientInfo,
        session: Option<Caller>,
    ) -> Result<()> {
        // Strength first: a refused password must not use up the link.
        Passwords::require_strength(&request.password, &[])?;
        let token_hash = tokens::hash(&request.token);
        let found = self
            .store
            .read("reset_link", async |conn: &mut Conn| {
                password_resets::find(conn, &token_hash, self.clock.now()).await
            })
            .await?;
        found.ok_or_else(invalid_token)?;
        let hash = self.passwords.hash(&request.password).await?;
        let proof = Proof { keep: request.keep == Some(true), session, client: Some(client) };
        let proved = self
            .store
            .write("reset_password", async |conn: &mut Conn| {
                let now = self.clock.now();
                let (tenant, user) =
                    password_resets::take(conn, &token_hash, now).await?.ok_or_else(invalid_token)?;
                let user = users::find(conn, tenant, user).await?.ok_or_else(invalid_token)?;
                let proved = self.first_proof.prove(conn, tenant, user.user_id, proof).await?;
                users::set_password(conn, tenant, user.user_id, Some(&hash)).await?;
                sessions::delete_of_user(conn, user.user_id).await?;
                password_resets::delete_of_user(conn, user.user_id).await?;
                let who = (tenant, user.user_id);
                audit::record_sign_in(conn, AuditAction::PasswordReset, who, &client.origin(now)).await?;
                let mail = self.notifications.templates.password_changed(&user.email, now);
                self.notifications.mail_user(conn, &user, &mail).await?;
                Ok::<_, Error>(proved)
            })
            .await?;
        self.first_proof.finish(proved);
        Ok(())
    }
}

fn invalid_password() -> Error {
    Error::new(Kind::InvalidPassword, "the current password is not right")
}

fn invalid_token() -> Error {
    Error::new(Kind::InvalidToken, "the reset link is not valid, was used, or is too old")
}
