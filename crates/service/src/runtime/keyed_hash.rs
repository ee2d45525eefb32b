//! Hashes that only this deployment can compute: choices that look random to everybody else, and are the same on every node.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Hashes of one purpose. [`Sealer::keyed_hash`](crate::runtime::Sealer::keyed_hash) keys them with the master key: another master
/// key gives other hashes.
#[derive(Clone)]
pub(crate) struct KeyedHash(Hmac<Sha256>);

impl KeyedHash {
    /// The hashes of a purpose, by a keyed MAC that has read nothing yet.
    pub(super) fn new(mut mac: Hmac<Sha256>, purpose: &'static str) -> Self {
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
    use crate::runtime::{MasterKey, Random, Sealer};

    #[test]
    fn a_hash_depends_on_the_key_the_purpose_and_where_parts_end() {
        let hashes =
            |seed, purpose| Sealer::new(MasterKey::generate(&Random::seeded(seed)), None).keyed_hash(purpose);
        let hash = hashes(1, "audits");
        assert_eq!(hash.of(&[b"ab", b"c"]), hashes(1, "audits").of(&[b"ab", b"c"]));
        assert_ne!(hash.of(&[b"ab", b"c"]), hash.of(&[b"a", b"bc"]));
        assert_ne!(hash.of(&[b"ab", b"c"]), hashes(1, "others").of(&[b"ab", b"c"]));
        assert_ne!(hash.of(&[b"ab", b"c"]), hashes(2, "audits").of(&[b"ab", b"c"]));
        assert!((0.0..1.0).contains(&hash.fraction_of(&[b"ab"])));
    }
}
