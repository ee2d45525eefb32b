//! Random credentials: how they look, and the hash that is kept of them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::runtime::Random;

/// Entropy of a credential: more than anybody can guess.
const SECRET_BYTES: usize = 32;
/// Entropy of a public id: more than will ever collide.
const PUBLIC_ID_BYTES: usize = 15;

pub(crate) const CONSOLE_TOKEN: &str = "ct_";
pub(crate) const TENANT_TOKEN: &str = "tt_";
pub(crate) const RESET_TOKEN: &str = "rt_";
pub(crate) const KEY_ID: &str = "ak_";
pub(crate) const KEY_SECRET: &str = "sk_";

/// A new secret, told apart from others by its prefix.
pub(crate) fn secret(random: &Random, prefix: &str) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random.bytes::<SECRET_BYTES>()))
}

/// A new public id: letters and digits only, since it travels in query strings.
pub(crate) fn public_id(random: &Random, prefix: &str) -> String {
    format!("{prefix}{}", hex::encode(random.bytes::<PUBLIC_ID_BYTES>()))
}

/// What is kept of a credential with so much entropy that one round of SHA-256 protects it.
pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
