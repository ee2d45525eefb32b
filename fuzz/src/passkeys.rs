//! What authenticators and browsers answer about passkeys, to a verifier that waits for the right challenge.

use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::api::{PasskeyAssertion, PasskeyAttestation, PasskeySignature};
use serde_json::json;
use uuid::Uuid;

#[path = "../../crates/service/src/accounts/passkeys/verifier/mod.rs"]
mod verifier;

use verifier::{Ceremony, Credential, Refused, Verifier, challenge_in};

const SITE: &str = "https://auspex.example.com";

/// Runs one case.
pub fn check(data: &[u8]) {
    create(data);
    // The head of an authenticator's data has 37 bytes, with zeros in it; the signature follows.
    let (authenticator, signature) = data.split_at(data.len().min(37));
    sign(authenticator, signature);
    read_client_data(data);
}

/// Challenges that wait for their answers, and a passkey that is known.
struct Waiting {
    verifier: Verifier,
    created: (String, String),
    signed: (String, String),
    stored: Option<Credential>,
}

fn waiting() -> &'static Waiting {
    static WAITING: OnceLock<Waiting> = OnceLock::new();
    WAITING.get_or_init(|| {
        let verifier =
            Verifier::new(&SITE.parse().expect("a URL"), Duration::from_mins(5)).expect("a domain");
        let Ceremony { options, state } =
            verifier.ask_to_create(Uuid::nil(), "ann@example.com", &[]).expect("a challenge");
        let created = (client_data("webauthn.create", &options.challenge), state);
        let Ceremony { options, state } = verifier.ask_to_sign().expect("a challenge");
        let signed = (client_data("webauthn.get", &options.challenge), state);
        let mut waiting = Waiting { verifier, created, signed, stored: None };
        waiting.stored = Some(waiting.create(&right_answer()).expect("a passkey"));
        waiting
    })
}

fn client_data(kind: &str, challenge: &str) -> String {
    let data = json!({"type": kind, "challenge": challenge, "origin": SITE, "crossOrigin": false});
    encoded(data.to_string().as_bytes())
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The authenticator's answer about a passkey whose public key is the base point of P-256.
fn right_answer() -> Vec<u8> {
    use sha2::{Digest as _, Sha256};
    const X: &str = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
    const Y: &str = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
    let [x, y] = [X, Y].map(|half| hex::decode(half).expect("hex"));
    let domain = Sha256::digest(b"auspex.example.com");
    // Flags: present, verified, with a credential; the count, the kind of authenticator, an id of four bytes.
    let head = [domain.as_slice(), &[0x45, 0, 0, 0, 0], &[0; 16], &[0, 4, 1, 2, 3, 4]].concat();
    let key = [b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20".as_slice(), &x, b"\x22\x58\x20", &y].concat();
    let data = [head, key].concat();
    let length = u8::try_from(data.len()).expect("it is short");
    [b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".as_slice(), &[length], &data].concat()
}

impl Waiting {
    fn create(&self, object: &[u8]) -> Result<Credential, Refused> {
        let (client_data, state) = &self.created;
        let answer =
            PasskeyAttestation { client_data: client_data.clone(), attestation_object: encoded(object) };
        self.verifier.verify_created(state, &answer)
    }
}

/// Whatever an authenticator says about a new passkey, what is accepted has an id that can be stored.
fn create(object: &[u8]) {
    if let Ok(credential) = waiting().create(object) {
        assert!((1..=1364).contains(&credential.id.len()));
    }
}

/// Nobody signs in with bytes that the authenticator did not sign.
fn sign(authenticator: &[u8], signature: &[u8]) {
    let Waiting { verifier, signed: (client_data, state), stored, .. } = waiting();
    let stored = stored.as_ref().expect("a passkey");
    let response = PasskeySignature {
        client_data: client_data.clone(),
        authenticator_data: encoded(authenticator),
        signature: encoded(signature),
        user_handle: Some(encoded(Uuid::nil().as_bytes())),
    };
    let claim = verifier.claim(&PasskeyAssertion { id: stored.id.clone(), response });
    if let Ok(claim) = claim {
        assert!(verifier.verify_signed(state, &claim, &stored.content).is_err(), "nobody signed this");
    }
}

/// What a browser says it did is read without falling over.
fn read_client_data(data: &[u8]) {
    let _ = challenge_in(&encoded(data));
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = challenge_in(text);
    }
}
