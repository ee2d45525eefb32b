//! Web Authentication: what authenticators are asked, and whether what they answer holds. The rules are those of webauthn-rs; this
//! module keeps its types to itself, and adds what it leaves to its caller. Pure: no clock and no database.
//!
//! Attestation is not asked for: whoever may add a passkey may use whichever authenticator they have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::api::{
    PasskeyAlgorithm, PasskeyAssertion, PasskeyAttestation, PasskeyCreationOptions, PasskeyDescriptor,
    PasskeyRequestOptions, PasskeySelection, PasskeySite, PasskeyUser,
};
use serde::Deserialize;
use serde_json::json;
use url::Url;
use uuid::Uuid;
use webauthn_rs::prelude::{
    DiscoverableAuthentication, Passkey, PasskeyRegistration, PublicKeyCredential,
    RegisterPublicKeyCredential, Webauthn, WebauthnBuilder,
};

const SITE_NAME: &str = "Auspex";
const KIND: &str = "public-key";
const REQUIRED: &str = "required";
/// The longest id of a credential that the standard allows, in bytes. It must also fit into an index.
const MAX_CREDENTIAL_ID: usize = 1023;
/// The longest field, in base64url: everything that an authenticator sends is smaller.
const MAX_FIELD: usize = 16 * 1024;

/// Why an authenticator's answer is refused: for the log, not for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused(String);

impl Refused {
    pub(super) fn because(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

type Checked<T> = std::result::Result<T, Refused>;

/// A ceremony that has begun: an authenticator is to create a passkey, or to sign with one.
pub(super) struct Ceremony<Options> {
    /// For the browser.
    pub(super) options: Options,
    /// What the answer is verified with, in JSON. It stays here.
    pub(super) state: String,
}

/// A credential, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credential {
    /// What the authenticator calls it, in base64url.
    pub(super) id: String,
    /// The public key, the count of signatures and the like, in JSON.
    pub(super) content: String,
}

/// What the use of a passkey names, before anything about it is verified.
pub(super) struct Claim {
    answer: PublicKeyCredential,
    /// The credential, in base64url.
    pub(super) credential_id: String,
    /// Whom the authenticator says it is of.
    pub(super) user_handle: Uuid,
}

/// Asks authenticators and verifies their answers, for the pages of one site.
#[derive(Clone)]
pub(super) struct Verifier {
    webauthn: Arc<Webauthn>,
    domain: String,
    timeout: Duration,
}

impl Verifier {
    /// For the pages at a public URL; none if it has no domain, which passkeys need.
    pub(super) fn new(public_url: &Url, timeout: Duration) -> Option<Self> {
        let domain = public_url.domain()?;
        let builder = WebauthnBuilder::new(domain, public_url).ok()?.rp_name(SITE_NAME).timeout(timeout);
        Some(Self { webauthn: Arc::new(builder.build().ok()?), domain: domain.to_owned(), timeout })
    }

    /// Asks for a new passkey of a member, by another authenticator than those that hold the known ones.
    pub(super) fn ask_to_create(
        &self,
        handle: Uuid,
        email: &str,
        known: &[&str],
    ) -> Checked<Ceremony<PasskeyCreationOptions>> {
        // The known ones are a hint to the browser. One that is used all the same is found where it is stored.
        let (asked, state) =
            self.webauthn.start_passkey_registration(handle, email, email, None).map_err(Refused::because)?;
        let asked = asked.public_key;
        let algorithms = asked.pub_key_cred_params.iter();
        let options = PasskeyCreationOptions {
            challenge: encoded(&asked.challenge),
            rp: PasskeySite { id: self.domain.clone(), name: SITE_NAME.to_owned() },
            user: PasskeyUser {
                id: encoded(handle.as_bytes()),
                name: email.to_owned(),
                display_name: email.to_owned(),
            },
            pub_key_cred_params: algorithms
                .map(|algorithm| PasskeyAlgorithm { kind: KIND.to_owned(), alg: algorithm.alg })
                .collect(),
            timeout: self.timeout_ms(),
            exclude_credentials: known
                .iter()
                .map(|id| PasskeyDescriptor { kind: KIND.to_owned(), id: (*id).to_owned() })
                .collect(),
            // The crate would leave it to the authenticator whether it keeps the passkey; only one that does can sign in
            // without an email.
            authenticator_selection: PasskeySelection {
                resident_key: REQUIRED.to_owned(),
                require_resident_key: true,
                user_verification: REQUIRED.to_owned(),
            },
            attestation: "none".to_owned(),
        };
        Ok(Ceremony { options, state: stored(&state)? })
    }

    /// Verifies a new passkey.
    pub(super) fn verify_created(&self, state: &str, answer: &PasskeyAttestation) -> Checked<Credential> {
        let state: PasskeyRegistration = serde_json::from_str(state).map_err(Refused::because)?;
        // Its id is taken from what the authenticator signed, not from here.
        let answer = json!({"id": "", "rawId": "", "type": KIND, "response": {
            "clientDataJSON": bounded(&answer.client_data)?,
            "attestationObject": bounded(&answer.attestation_object)?,
        }});
        let answer: RegisterPublicKeyCredential = serde_json::from_value(answer).map_err(Refused::because)?;
        let passkey = self.webauthn.finish_passkey_registration(&answer, &state).map_err(Refused::because)?;
        if passkey.cred_id().is_empty() || passkey.cred_id().len() > MAX_CREDENTIAL_ID {
            return Err(Refused::because("the credential's id is empty or too long"));
        }
        Ok(Credential { id: encoded(passkey.cred_id()), content: stored(&passkey)? })
    }

    /// Asks for any passkey of this site.
    pub(super) fn ask_to_sign(&self) -> Checked<Ceremony<PasskeyRequestOptions>> {
        let (asked, state) = self.webauthn.start_discoverable_authentication().map_err(Refused::because)?;
        let options = PasskeyRequestOptions {
            challenge: encoded(&asked.public_key.challenge),
            rp_id: self.domain.clone(),
            timeout: self.timeout_ms(),
            user_verification: REQUIRED.to_owned(),
        };
        Ok(Ceremony { options, state: stored(&state)? })
    }

    /// What the use of a passkey names.
    pub(super) fn claim(&self, assertion: &PasskeyAssertion) -> Checked<Claim> {
        let response = &assertion.response;
        let handle = response.user_handle.as_deref().map(bounded).transpose()?;
        let answer = json!({"id": "", "rawId": bounded(&assertion.id)?, "type": KIND, "response": {
            "clientDataJSON": bounded(&response.client_data)?,
            "authenticatorData": bounded(&response.authenticator_data)?,
            "signature": bounded(&response.signature)?,
            "userHandle": handle,
        }});
        let answer: PublicKeyCredential = serde_json::from_value(answer).map_err(Refused::because)?;
        let (user_handle, id) =
            self.webauthn.identify_discoverable_authentication(&answer).map_err(Refused::because)?;
        let credential_id = encoded(id);
        Ok(Claim { answer, credential_id, user_handle })
    }

    /// Verifies the use of a passkey, whose credential is given as it was stored; returns what to store now.
    pub(super) fn verify_signed(&self, state: &str, claim: &Claim, content: &str) -> Checked<String> {
        let state: DiscoverableAuthentication = serde_json::from_str(state).map_err(Refused::because)?;
        let mut passkey: Passkey = serde_json::from_str(content).map_err(Refused::because)?;
        // It also refuses a count of signatures that did not grow, where the authenticator counts.
        let used = self
            .webauthn
            .finish_discoverable_authentication_v2(&claim.answer, state, &passkey)
            .map_err(Refused::because)?;
        match passkey.update_credential(&used) {
            Some(true) => stored(&passkey),
            _ => Ok(content.to_owned()),
        }
    }

    fn timeout_ms(&self) -> u32 {
        u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX)
    }
}

/// The challenge that the browser's data is about, in base64url. Nothing in it is verified yet, but that the page was not shown
/// inside another site's, which the crate only looks at for new passkeys.
pub(super) fn challenge_in(client_data: &str) -> Checked<String> {
    #[derive(Deserialize)]
    struct ClientData {
        challenge: String,
        #[serde(default, rename = "crossOrigin")]
        cross_origin: bool,
    }
    let bytes = URL_SAFE_NO_PAD.decode(bounded(client_data)?).map_err(Refused::because)?;
    let data: ClientData = serde_json::from_slice(&bytes).map_err(Refused::because)?;
    if data.cross_origin {
        return Err(Refused::because("the page was shown inside another site's"));
    }
    Ok(bounded(&data.challenge)?.to_owned())
}

fn bounded(field: &str) -> Checked<&str> {
    if field.len() <= MAX_FIELD { Ok(field) } else { Err(Refused::because("a field is too long")) }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn stored(value: &impl serde::Serialize) -> Checked<String> {
    serde_json::to_string(value).map_err(Refused::because)
}

#[cfg(test)]
mod tests;
