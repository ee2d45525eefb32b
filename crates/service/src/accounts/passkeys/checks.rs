//! Challenges of passkeys, and what becomes of the answers.

use std::time::Duration;

use model::api::{PasskeyAssertion, PasskeyRequestOptions};
use model::{TenantId, UserId};
use store::accounts::passkeys::{self, Challenge, Passkey as StoredPasskey};
use store::{Conn, Store};
use tracing::debug;
use url::Url;

use super::verifier::{self, Ceremony, Claim, Refused, Verifier};
use crate::accounts::tokens;
use crate::runtime::{Clock, Error, Kind, Result, internal};

/// How long a challenge can be answered.
const CHALLENGE_LIFETIME: Duration = Duration::from_mins(5);
/// Challenges of sign-ins that wait for an answer at the same time, of all visitors together. Nobody needs to be signed in to ask
/// for one, so they must not fill the database.
const MAX_WAITING: i64 = 10_000;

/// Gives out challenges and checks what authenticators made of them.
#[derive(Clone)]
pub(crate) struct PasskeyChecks {
    store: Store,
    clock: Clock,
    /// None where the service has no domain, which passkeys need.
    verifier: Option<Verifier>,
}

/// A passkey that somebody says they have used.
pub(crate) struct ShownPasskey {
    passkey: StoredPasskey,
    claim: Claim,
    state: String,
}

/// A passkey that was used. It is to be recorded with what it is used for.
pub(crate) struct UsedPasskey {
    passkey: StoredPasskey,
    content: String,
}

impl ShownPasskey {
    /// Whose it is.
    pub(crate) fn owner(&self) -> (TenantId, UserId) {
        (self.passkey.tenant_id, self.passkey.user_id)
    }
}

impl UsedPasskey {
    /// Whose it is.
    pub(crate) fn owner(&self) -> (TenantId, UserId) {
        (self.passkey.tenant_id, self.passkey.user_id)
    }
}

impl PasskeyChecks {
    /// For the pages at a public URL.
    pub(crate) fn new(store: Store, clock: Clock, public_url: &Url) -> Self {
        Self { store, clock, verifier: Verifier::new(public_url, CHALLENGE_LIFETIME) }
    }

    pub(super) fn verifier(&self) -> Result<&Verifier> {
        let message = "passkeys need a domain: the address of this service has none (AUSPEX_PUBLIC_URL)";
        self.verifier.as_ref().ok_or_else(|| Error::new(Kind::Conflict, message))
    }

    /// Asks for any passkey.
    pub(super) async fn ask(&self) -> Result<PasskeyRequestOptions> {
        let Ceremony { options, state } = self.verifier()?.ask_to_sign().map_err(internal)?;
        let challenge = Challenge { user_id: None, user_handle: None, state };
        self.store
            .write("start_passkey_sign_in", async |conn: &mut Conn| {
                passkeys::make_room(conn, MAX_WAITING).await?;
                self.keep(conn, &options.challenge, &challenge).await
            })
            .await?;
        Ok(options)
    }

    /// Stores a challenge until its answer comes.
    pub(super) async fn keep(&self, conn: &mut Conn, text: &str, challenge: &Challenge) -> Result<()> {
        let expires_at = self.clock.now() + CHALLENGE_LIFETIME;
        Ok(passkeys::insert_challenge(conn, &tokens::hash(text), challenge, expires_at).await?)
    }

    /// Uses up the challenge that the browser's data names, whatever becomes of the answer. It must have been given to this member,
    /// or, without one, for a sign-in.
    pub(super) async fn take(&self, client_data: &str, user: Option<UserId>) -> Result<Challenge> {
        let hash = tokens::hash(&verifier::challenge_in(client_data).map_err(refused)?);
        let now = self.clock.now();
        let taken = self
            .store
            .write("take_passkey_challenge", async |conn: &mut Conn| {
                passkeys::take_challenge(conn, &hash, now).await
            })
            .await?;
        let unknown = || refused(Refused::because("the challenge is unknown, was used, or is too old"));
        taken.filter(|challenge| challenge.user_id == user).ok_or_else(unknown)
    }

    /// Finds the passkey that somebody says they have used, and uses up its challenge.
    pub(crate) async fn find(&self, assertion: &PasskeyAssertion) -> Result<ShownPasskey> {
        let claim = self.verifier()?.claim(assertion).map_err(refused)?;
        let challenge = self.take(&assertion.response.client_data, None).await?;
        let id = &claim.credential_id;
        let found = self.store.read("passkey", async |conn| passkeys::by_credential(conn, id).await).await?;
        let passkey = found
            .filter(|passkey| passkey.user_handle == claim.user_handle)
            .ok_or_else(|| refused(Refused::because("the passkey is unknown, or another user's")))?;
        Ok(ShownPasskey { passkey, claim, state: challenge.state })
    }

    /// Verifies that a passkey was used.
    pub(crate) fn verify(&self, shown: ShownPasskey) -> Result<UsedPasskey> {
        let ShownPasskey { passkey, claim, state } = shown;
        let content = self.verifier()?.verify_signed(&state, &claim, &passkey.credential).map_err(refused)?;
        Ok(UsedPasskey { passkey, content })
    }

    /// Verifies that a member used a passkey of theirs.
    pub(crate) async fn verify_of(&self, owner: UserId, assertion: &PasskeyAssertion) -> Result<UsedPasskey> {
        let shown = self.find(assertion).await?;
        if shown.passkey.user_id != owner {
            return Err(refused(Refused::because("the passkey is another user's")));
        }
        self.verify(shown)
    }

    /// Records the use of a passkey in the caller's transaction; refuses one that was removed or copied meanwhile.
    pub(crate) async fn record(&self, conn: &mut Conn, used: &UsedPasskey) -> Result<()> {
        let now = self.clock.now();
        if passkeys::set_used(conn, &used.passkey, &used.content, now).await? {
            Ok(())
        } else {
            Err(refused(Refused::because("the passkey was removed or used meanwhile")))
        }
    }
}

/// The same for everything that does not hold, so that it tells nothing; the log says more.
pub(super) fn refused(reason: Refused) -> Error {
    debug!(%reason, "a passkey is refused");
    Error::new(Kind::InvalidPasskey, "the passkey was not accepted").because(reason)
}
