//! Signing in on a machine through the browser: a member agrees in the console, and the machine gets a key of its own.
//!
//! The browser carries a code to the machine. It is sealed and holds everything itself, so nothing is stored before it is redeemed,
//! and then only its hash, so that it works once. Whoever steals it lacks the verifier, which never leaves the machine.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::api::{APIKeyCreate, APIKeySecret, MachineLoginCode, MachineLoginConsent, MachineLoginRedeem};
use model::{MemberRole, TenantId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use store::{Conn, Store};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::accounts::authentication::Authentication;
use crate::accounts::keys::{Keys, key_name};
use crate::runtime::{
    Caller, Carrier, ClientInfo, Clock, Credential, Error, Kind, Limit, Random, Result, Sealer, SessionId,
    audit, internal,
};

/// How long a code works: the browser brings it at once. Shorter than `Limit::MACHINE_LOGIN`, which remembers that it was used.
const VALID: Duration = Duration::from_mins(2);
/// A challenge is 32 bytes.
const CHALLENGE_BYTES: usize = 32;
/// The lengths that a verifier may have, as in RFC 7636: a shorter one could be guessed from its challenge.
const VERIFIER_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;
/// What codes are sealed for.
const COLUMN: &str = "machine_login.code";

/// Signing in on machines.
pub struct MachineLogin {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) authentication: Authentication,
    pub(crate) keys: Keys,
}

/// What a code holds.
#[derive(Serialize, Deserialize)]
struct Consent {
    /// By which its use is remembered.
    id: Uuid,
    tenant: TenantId,
    user: UserId,
    /// The session that agreed: when it ends, so does the code.
    session: [u8; 32],
    challenge: String,
    name: String,
    expires_at: Timestamp,
}

impl MachineLogin {
    /// Makes a code for a machine, for a signed-in member who agrees; needs recent proof.
    pub async fn consent(&self, caller: Caller, request: &MachineLoginConsent) -> Result<MachineLoginCode> {
        let name = key_name(&request.name)?.to_owned();
        let challenge = URL_SAFE_NO_PAD.decode(&request.challenge);
        if !challenge.is_ok_and(|bytes| bytes.len() == CHALLENGE_BYTES) {
            return Err(Error::bad_request(
                "challenge: it must be a SHA-256 in base64url without padding, 43 characters",
            ));
        }
        let (user, session) = caller.session()?;
        self.authentication.check_recent_proof(caller).await?;
        let now = self.clock.now();
        let consent = Consent {
            id: self.random.id(now),
            tenant: caller.tenant,
            user,
            session: session.0,
            challenge: request.challenge.clone(),
            name,
            expires_at: now + VALID,
        };
        let plain = serde_json::to_vec(&consent).map_err(internal)?;
        let sealed = self.sealer.seal(&self.random, COLUMN, Uuid::nil(), &plain);
        Ok(MachineLoginCode { code: URL_SAFE_NO_PAD.encode(sealed), expires_at: consent.expires_at })
    }

    /// Makes the key of a machine that has a code and its verifier.
    pub async fn redeem(&self, request: &MachineLoginRedeem, client: &ClientInfo) -> Result<APIKeySecret> {
        let now = self.clock.now();
        let consent =
            self.open(&request.code).filter(|consent| consent.expires_at > now).ok_or_else(invalid)?;
        // Counted before the verifier is compared: a code can be tried once.
        let is_used = self
            .store
            .write("redeem_machine_login", async |conn: &mut Conn| {
                Limit::MACHINE_LOGIN.attempt(conn, &consent.id.to_string(), now).await
            })
            .await?
            .is_some();
        if is_used || !fits(&request.verifier, &consent.challenge) {
            return Err(invalid());
        }
        let Consent { tenant, user, session, name, .. } = consent;
        let session = SessionId(session);
        // The proof was recent when the member agreed. The session must still be there, and the role is looked up again.
        let credential =
            Credential::Console { user, session, role: MemberRole::Viewer, carrier: Carrier::Header };
        let caller = self.authentication.renew(Caller { tenant, credential }).await?;
        caller.require(MemberRole::Admin, None)?;
        let create = APIKeyCreate { name: Some(name), ..APIKeyCreate::default() };
        audit::acting_as(caller, client.origin(now), self.keys.create(caller, &create)).await
    }

    fn open(&self, code: &str) -> Option<Consent> {
        let sealed = URL_SAFE_NO_PAD.decode(code).ok()?;
        let consent = self.sealer.open(COLUMN, Uuid::nil(), &sealed).ok()?;
        serde_json::from_slice(&consent).ok()
    }
}

/// Whether a challenge was made from this verifier.
fn fits(verifier: &str, challenge: &str) -> bool {
    let made = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    VERIFIER_LENGTH.contains(&verifier.len()) && bool::from(made.as_bytes().ct_eq(challenge.as_bytes()))
}

fn invalid() -> Error {
    Error::new(
        Kind::InvalidToken,
        "the code is not valid, has expired or was used already: run auspex login again",
    )
}
