//! Hashes that only this deployment can compute: choices that look random to everybody else, and are the same on every node.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::runtime::MasterKey;

/// Hashes of one purpose, keyed with the master key. Another master key gives other hashes.
#[derive(Clone)]
pub(crate) struct KeyedHash(Hmac<Sha256>);

impl KeyedHash {
    /// The hashes of a purpose.
    pub(crate) fn new(key: &MasterKey, purpose: &'static str) -> Self {
        let mut mac = key.mac();
        mac.update(purpose.as_bytes());
        mac.update(b"/");
        Self(mac)
    }

    /// The hash of some parts. Each is preceded by its length, so that no two lists of parts are hashed alike.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> u64 {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first)
    }

    /// The hash as a number from 0 up to but not including 1.
    pub(crate) fn fraction_of(&self, parts: &[&[u8]]) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let fraction = (self.of(parts) >> 11) as f64 / (1_u64 << 53) as f64;
        fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Random;

    #[test]
    fn a_hash_depends_on_the_key_the_purpose_and_where_parts_end() {
        let key = MasterKey::generate(&Random::seeded(1));
        let hash = KeyedHash::new(&key, "audits");
        assert_eq!(hash.of(&[b"ab", b"c"]), KeyedHash::new(&key, "audits").of(&[b"ab", b"c"]));
        assert_ne!(hash.of(&[b"ab", b"c"]), hash.of(&[b"a", b"bc"]));
        assert_ne!(hash.of(&[b"ab", b"c"]), KeyedHash::new(&key, "others").of(&[b"ab", b"c"]));
        let other = MasterKey::generate(&Random::seeded(2));
        assert_ne!(hash.of(&[b"ab", b"c"]), KeyedHash::new(&other, "audits").of(&[b"ab", b"c"]));
        assert!((0.0..1.0).contains(&hash.fraction_of(&[b"ab"])));
    }
}
