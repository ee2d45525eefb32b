//! Random credentials: their format, and the hash that is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::runtime::Random;

/// The entropy of a credential: impossible to guess.
const SECRET_BYTES: usize = 32;
/// The entropy of a public id: no collisions.
const PUBLIC_ID_BYTES: usize = 15;

pub(crate) const CONSOLE_TOKEN: &str = "ct_";
pub(crate) const TENANT_TOKEN: &str = "tt_";
pub(crate) const RESET_TOKEN: &str = "rt_";
pub(crate) const VERIFICATION_TOKEN: &str = "vt_";
pub(crate) const INVITATION_TOKEN: &str = "it_";
pub(crate) const BEARER_KEY: &str = "bk_";
pub(crate) const KEY_ID: &str = "ak_";
pub(crate) const KEY_SECRET: &str = "sk_";

/// A new secret with a prefix that identifies its kind.
pub(crate) fn secret(random: &Random, prefix: &str) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random.bytes::<SECRET_BYTES>()))
}

/// A new public id: letters and digits only, because it is used in query strings.
pub(crate) fn public_id(random: &Random, prefix: &str) -> String {
    format!("{prefix}{}", hex::encode(random.bytes::<PUBLIC_ID_BYTES>()))
}

/// The stored hash of a credential, which has enough entropy for plain SHA-256.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
