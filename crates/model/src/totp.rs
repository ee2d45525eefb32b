//! Time-based one-time passwords (RFC 6238): SHA-1, six digits, thirty seconds, as every authenticator app supports.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;

use crate::Timestamp;

const STEP_SECONDS: i64 = 30;
/// Steps before and after the current one whose codes are accepted too: clocks differ, and people type slowly.
const SKEW_STEPS: i64 = 1;
/// The length of the hash, as RFC 4226 recommends.
pub const SECRET_BYTES: usize = 20;

/// The time step that an instant falls into.
pub fn step_at(now: Timestamp) -> i64 {
    now.seconds().div_euclid(STEP_SECONDS)
}

/// The six-digit code of a time step.
pub fn code(secret: &[u8], step: i64) -> String {
    // An HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(secret) else { return String::new() };
    mac.update(&step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let offset = usize::from(digest[digest.len() - 1] & 0x0f);
    let number = digest[offset..offset + 4].iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % 1_000_000)
}

/// The newest of the currently valid time steps that has this code.
pub fn matching_step(secret: &[u8], attempt: &str, now: Timestamp) -> Option<i64> {
    let current = step_at(now);
    let mut found = None;
    // Every step is checked, so that the timing does not reveal which one matched.
    for step in current - SKEW_STEPS..=current + SKEW_STEPS {
        if bool::from(code(secret, step).as_bytes().ct_eq(attempt.as_bytes())) {
            found = Some(step);
        }
    }
    found
}

/// Encodes the secret for an authenticator app: base32 without padding.
pub fn base32(secret: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::with_capacity(secret.len().div_ceil(5) * 8);
    for chunk in secret.chunks(5) {
        let bits =
            chunk.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte)) << (8 * (5 - chunk.len()));
        for letter in 0..(chunk.len() * 8).div_ceil(5) {
            let index = (bits >> (35 - 5 * letter)) & 31;
            text.push(char::from(ALPHABET[usize::try_from(index).unwrap_or(0)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn test_vectors_of_rfc_6238() {
        for (seconds, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code(SECRET, step_at(Timestamp::from_seconds(seconds))), expected);
        }
    }

    #[test]
    fn one_step_of_skew_is_accepted() {
        let now = Timestamp::from_seconds(1_234_567_890);
        let step = step_at(now);
        for offset in -1..=1 {
            assert_eq!(matching_step(SECRET, &code(SECRET, step + offset), now), Some(step + offset));
        }
        for offset in [-2, 2] {
            assert_eq!(matching_step(SECRET, &code(SECRET, step + offset), now), None);
        }
        for attempt in ["", "00592", "0059240", "abcdef", "００5924"] {
            assert_eq!(matching_step(SECRET, attempt, now), None);
        }
    }

    #[test]
    fn test_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), text);
        }
        assert_eq!(base32(SECRET), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }
}
