//! Sealing: secrets that must be read back (signing secrets, TOTP seeds, queued mails) are encrypted with the master key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::Hmac;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::runtime::{KeyedHash, Random, Result};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const KEY_ID_BYTES: usize = 8;

/// The key that encrypts secrets at rest.
#[derive(Clone)]
pub struct MasterKey([u8; KEY_BYTES]);

impl MasterKey {
    /// Generates a new key.
    pub fn generate(random: &Random) -> Self {
        Self(random.bytes())
    }

    /// Parses a key from base64.
    pub fn from_base64(text: &str) -> Result<Self, InvalidMasterKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidMasterKey)?;
        bytes.try_into().map(Self).map_err(|_| InvalidMasterKey)
    }

    /// Encodes the key as base64.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Identifies the key without revealing it. The database stores it, so that a wrong key is detected at startup.
    pub fn fingerprint(&self) -> String {
        hex::encode(self.id())
    }

    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let digest = Sha256::new().chain_update(b"auspex master key id").chain_update(self.0).finalize();
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest[..KEY_ID_BYTES]);
        id
    }

    /// A keyed hash of what is not sealed.
    pub(super) fn mac(&self) -> Hmac<Sha256> {
        let digest = Sha256::new().chain_update(b"auspex keyed hashes").chain_update(self.0).finalize();
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..digest.len()].copy_from_slice(&digest);
        Hmac::new(&block)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&Key::from(self.0))
    }
}

/// The master key is not 32 bytes in base64.
#[derive(Debug, thiserror::Error)]
#[error("it must be 32 bytes in base64; make one with: openssl rand -base64 32")]
pub struct InvalidMasterKey;

/// A sealed secret that cannot be opened: it was sealed with another key or for another column or row, or was modified.
#[derive(Debug, thiserror::Error)]
#[error("a sealed secret cannot be opened with the master key")]
pub struct CannotUnseal;

/// Seals and opens secrets. A secret sealed for one column and row cannot be opened for another.
#[derive(Clone)]
pub struct Sealer {
    current: MasterKey,
    previous: Option<MasterKey>,
}

impl Sealer {
    /// Seals with `current`, and opens secrets sealed with either key.
    pub fn new(current: MasterKey, previous: Option<MasterKey>) -> Self {
        Self { current, previous }
    }

    /// The fingerprint of the current key.
    pub fn fingerprint(&self) -> String {
        self.current.fingerprint()
    }

    /// The hashes of a purpose, with the current key.
    pub(crate) fn keyed_hash(&self, purpose: &'static str) -> KeyedHash {
        KeyedHash::new(self.current.mac(), purpose)
    }

    /// The fingerprint of the previous key, if there is one.
    pub fn previous_fingerprint(&self) -> Option<String> {
        self.previous.as_ref().map(MasterKey::fingerprint)
    }

    /// The prefix of every secret sealed with the current key.
    pub(crate) fn current_id(&self) -> [u8; KEY_ID_BYTES] {
        self.current.id()
    }

    /// Whether a secret was sealed with the current key.
    pub(crate) fn sealed_with_current(&self, sealed: &[u8]) -> bool {
        sealed.starts_with(&self.current_id())
    }

    /// Seals `secret` for one column (`table.column`) of the row `owner`.
    pub fn seal(&self, random: &Random, column: &'static str, owner: Uuid, secret: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = random.bytes();
        let payload = Payload { msg: secret, aad: &binding(column, owner) };
        let sealed = self.current.cipher().encrypt(&XNonce::from(nonce), payload);
        // The only failure is a message of more than 256 GiB.
        let sealed = sealed.unwrap_or_default();
        [self.current.id().as_slice(), &nonce, &sealed].concat()
    }

    /// Opens a secret that was sealed for the same column and row.
    pub fn open(&self, column: &'static str, owner: Uuid, sealed: &[u8]) -> Result<Vec<u8>, CannotUnseal> {
        let (id, rest) = sealed.split_at_checked(KEY_ID_BYTES).ok_or(CannotUnseal)?;
        let (nonce, secret) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(CannotUnseal)?;
        let key =
            [Some(&self.current), self.previous.as_ref()].into_iter().flatten().find(|key| key.id() == id);
        let payload = Payload { msg: secret, aad: &binding(column, owner) };
        key.ok_or(CannotUnseal)?.cipher().decrypt(&XNonce::from(*nonce), payload).map_err(|_| CannotUnseal)
    }
}

fn binding(column: &str, owner: Uuid) -> Vec<u8> {
    [column.as_bytes(), b"/", owner.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u64) -> MasterKey {
        MasterKey::generate(&Random::seeded(seed))
    }

    #[test]
    fn a_secret_opens_only_for_the_column_and_row_it_was_sealed_for() {
        let (random, sealer) = (Random::seeded(7), Sealer::new(key(1), None));
        let (owner, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let sealed = sealer.seal(&random, "api_keys.secret", owner, b"hush");
        assert_eq!(sealer.open("api_keys.secret", owner, &sealed).unwrap(), b"hush");
        assert!(!sealed.windows(4).any(|window| window == b"hush"));
        assert!(sealer.open("api_keys.secret", other, &sealed).is_err());
        assert!(sealer.open("users.totp_secret", owner, &sealed).is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(sealer.open("api_keys.secret", owner, &changed).is_err(), "byte {at}");
            assert!(sealer.open("api_keys.secret", owner, &sealed[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn the_previous_key_still_opens_and_another_does_not() {
        let (random, owner) = (Random::seeded(7), Uuid::from_u128(1));
        let sealed = Sealer::new(key(1), None).seal(&random, "column", owner, b"hush");
        assert_eq!(Sealer::new(key(2), Some(key(1))).open("column", owner, &sealed).unwrap(), b"hush");
        assert!(Sealer::new(key(2), None).open("column", owner, &sealed).is_err());
    }

    #[test]
    fn keys_are_encoded_as_base64() {
        let key = key(1);
        assert_eq!(MasterKey::from_base64(&key.to_base64()).unwrap().fingerprint(), key.fingerprint());
        for text in ["", "x", "AAAA", &"A".repeat(64)] {
            assert!(MasterKey::from_base64(text).is_err(), "{text}");
        }
    }
}
