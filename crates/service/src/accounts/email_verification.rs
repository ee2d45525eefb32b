//! The link mailed at registration, which proves the address.

use std::time::Duration;

use model::api::{FirstProofPreview, FirstProofRequest, VerifyRequest};
use model::{TenantId, UserId};
use store::accounts::{email_verifications, password_resets};
use store::{Conn, Store};

use crate::accounts::first_proof::{FirstProof, Proof};
use crate::accounts::tokens;
use crate::accounts::users::existing_user;
use crate::outbox::Notifications;
use crate::runtime::{Caller, ClientInfo, Clock, Error, Kind, Random, Result};

/// The lifetime of a link. After it, a reset link proves the address as well.
const LIFETIME: Duration = Duration::from_hours(7 * 24);

/// Mails links that prove addresses, and redeems them.
#[derive(Clone)]
pub struct EmailVerification {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) first_proof: FirstProof,
    pub(crate) notifications: Notifications,
}

impl EmailVerification {
    /// Queues a mail with a link, in the caller's transaction. Call [`Self::wake`] once that is committed.
    pub(crate) async fn mail_link(&self, conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<()> {
        let token = tokens::secret(&self.random, tokens::VERIFICATION_TOKEN);
        let expires_at = self.clock.now() + LIFETIME;
        email_verifications::insert(conn, tenant, user, &tokens::hash(&token), expires_at).await?;
        let user = existing_user(conn, tenant, user).await?;
        let mail = self.notifications.templates.email_verification(&user.email, &token);
        self.notifications.mail_user(conn, &user, &mail).await
    }

    /// Sends queued links at once; to be called after the commit.
    pub(crate) fn wake(&self) {
        self.notifications.wake();
    }

    /// What a link, of this kind or to reset a password, would end by proving the address. Does not use it up.
    pub async fn preview(&self, request: &FirstProofRequest) -> Result<FirstProofPreview> {
        let (hash, now) = (tokens::hash(&request.token), self.clock.now());
        self.store
            .read("preview_first_proof", async |conn: &mut Conn| {
                let found = match email_verifications::find(conn, &hash, now).await? {
                    Some(found) => Some(found),
                    None => password_resets::find(conn, &hash, now).await?,
                };
                let (tenant, user) = found.ok_or_else(invalid_token)?;
                self.first_proof.preview(conn, tenant, user).await
            })
            .await
    }

    /// Proves an address with a link, which is used up by that.
    pub async fn verify(
        &self,
        request: &VerifyRequest,
        client: &ClientInfo,
        session: Option<Caller>,
    ) -> Result<()> {
        let hash = tokens::hash(&request.token);
        let proof = Proof { keep: request.keep == Some(true), session, client: Some(client) };
        let proved = self
            .store
            .write("verify_email", async |conn: &mut Conn| {
                let taken = email_verifications::take(conn, &hash, self.clock.now()).await?;
                let (tenant, user) = taken.ok_or_else(invalid_token)?;
                self.first_proof.prove(conn, tenant, user, proof).await
            })
            .await?;
        self.first_proof.finish(proved);
        Ok(())
    }
}

fn invalid_token() -> Error {
    Error::new(Kind::InvalidToken, "the link is not valid, was used, or is too old")
}
