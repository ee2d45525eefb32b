//! A software authenticator: it makes passkeys and signs with them, as a phone or a security key does through a browser.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The bits of an authenticator's data.
pub mod flags {
    /// Somebody is there.
    pub const PRESENT: u8 = 1;
    /// It is the owner, by a PIN or a fingerprint.
    pub const VERIFIED: u8 = 4;
    /// A new credential is in the data.
    pub const CREDENTIAL: u8 = 64;
}

enum Key {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// An authenticator with one passkey. Its fields are what it does next, for tests that have it do wrong.
pub struct Authenticator {
    key: Key,
    /// What it calls the passkey.
    pub credential_id: Vec<u8>,
    /// The page that the browser shows.
    pub origin: String,
    /// The domain that the browser lets it sign for.
    pub domain: String,
    /// What it says about its user.
    pub flags: u8,
    /// How often it has signed, if it counts.
    pub count: u32,
    /// Whom the passkey is for.
    pub user_handle: Option<String>,
}

impl Authenticator {
    /// With a key of P-256, in a browser on a page of this origin.
    pub fn p256(origin: &str, number: u8) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
        Self::with(Key::P256(key.unwrap()), origin, number)
    }

    /// With a key of Ed25519.
    pub fn ed25519(origin: &str, number: u8) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::with(Key::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()), origin, number)
    }

    fn with(key: Key, origin: &str, number: u8) -> Self {
        let url: url::Url = origin.parse().unwrap();
        Self {
            key,
            credential_id: vec![number; 32],
            origin: url.origin().ascii_serialization(),
            domain: url.domain().unwrap().to_owned(),
            flags: flags::PRESENT | flags::VERIFIED,
            count: 0,
            user_handle: None,
        }
    }

    /// Makes the passkey, by the options that the service gave.
    pub fn create(&mut self, options: &Value) -> Value {
        self.user_handle = options["user"]["id"].as_str().map(str::to_owned);
        let client_data = self.client_data("webauthn.create", options);
        let data = self.data(self.flags | flags::CREDENTIAL);
        let length = u16::try_from(self.credential_id.len()).unwrap().to_be_bytes();
        let data = [&data[..], &[7; 16], &length, &self.credential_id, &self.cose_key()].concat();
        // {"fmt": "none", "attStmt": {}, "authData": …}
        let length = u16::try_from(data.len()).unwrap().to_be_bytes();
        let object =
            [b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59".as_slice(), &length, &data].concat();
        json!({
            "type": "public-key",
            "id": encoded(&self.credential_id),
            "rawId": encoded(&self.credential_id),
            "response": {"clientDataJSON": encoded(&client_data), "attestationObject": encoded(&object)},
        })
    }

    /// Signs a challenge, by the options that the service gave.
    pub fn sign(&self, options: &Value) -> Value {
        let client_data = self.client_data("webauthn.get", options);
        let data = self.data(self.flags);
        let message = [data.as_slice(), Sha256::digest(&client_data).as_slice()].concat();
        let signature = match &self.key {
            Key::P256(key) => key.sign(&SystemRandom::new(), &message).unwrap().as_ref().to_vec(),
            Key::Ed25519(key) => key.sign(&message).as_ref().to_vec(),
        };
        let mut response = json!({
            "clientDataJSON": encoded(&client_data),
            "authenticatorData": encoded(&data),
            "signature": encoded(&signature),
        });
        if let Some(handle) = &self.user_handle {
            response["userHandle"] = json!(handle);
        }
        json!({"type": "public-key", "id": encoded(&self.credential_id), "response": response})
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        let data = json!({"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": false});
        data.to_string().into_bytes()
    }

    fn data(&self, flags: u8) -> Vec<u8> {
        [Sha256::digest(&self.domain).as_slice(), &[flags], &self.count.to_be_bytes()].concat()
    }

    /// The public key as a COSE key in CBOR.
    fn cose_key(&self) -> Vec<u8> {
        match &self.key {
            Key::P256(key) => {
                let point = key.public_key().as_ref();
                [
                    b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20".as_slice(),
                    &point[1..33],
                    b"\x22\x58\x20",
                    &point[33..],
                ]
                .concat()
            }
            Key::Ed25519(key) => {
                [b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20".as_slice(), key.public_key().as_ref()].concat()
            }
        }
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
