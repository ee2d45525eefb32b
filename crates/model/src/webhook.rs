//! The pure parts of webhooks: event types and signatures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use uuid::Uuid;

use crate::Timestamp;

/// The event type of a finished analysis.
pub const ANALYSIS_COMPLETED: &str = "analysis.completed";
/// The event type of a rule that fired.
pub const RULE_TRIGGERED: &str = "rule.triggered";
/// The event type of a review that was opened.
pub const REVIEW_OPENED: &str = "review.opened";
/// The event type of a review that was decided.
pub const REVIEW_RESOLVED: &str = "review.resolved";
/// The event type of a test, which goes to an endpoint whatever events it asks for.
pub const ENDPOINT_TEST: &str = "endpoint.test";
/// Every event type that an endpoint can ask for, in the order in which they are listed.
pub const EVENT_TYPES: [&str; 4] = [ANALYSIS_COMPLETED, RULE_TRIGGERED, REVIEW_OPENED, REVIEW_RESOLVED];
/// What an endpoint gets that does not say what it wants.
pub const DEFAULT_EVENT_TYPES: [&str; 2] = [ANALYSIS_COMPLETED, RULE_TRIGGERED];

/// The prefix of an endpoint's secret; standard base64 follows.
pub const SECRET_PREFIX: &str = "whsec_";

/// The signatures of a delivery, in both forms that are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    /// `X-Webhook-Signature`: over the timestamp, a dot and the body, keyed with the whole secret string.
    pub hex: String,
    /// `webhook-signature` of Standard Webhooks: over id, timestamp and body joined by dots, keyed with the
    /// decoded secret.
    pub standard: String,
}

/// An endpoint's secret, prepared for signing: what depends only on the secret is computed once.
#[derive(Clone)]
pub struct SigningKey {
    own: Hmac<Sha256>,
    standard: Hmac<Sha256>,
}

impl SigningKey {
    /// Prepares a secret.
    pub fn new(secret: &str) -> Self {
        let encoded = secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret);
        // We generate the secrets, so this decodes; any other secret is used as it is.
        let bytes = STANDARD.decode(encoded).unwrap_or_else(|_| encoded.as_bytes().to_vec());
        Self { own: keyed(secret.as_bytes()), standard: keyed(&bytes) }
    }

    /// Signs one attempt to send a delivery.
    pub fn sign(&self, delivery_id: Uuid, at: Timestamp, body: &str) -> Signatures {
        let seconds = at.seconds().to_string();
        let hex = hmac_of(self.own.clone(), &[&seconds, body]);
        let standard = hmac_of(self.standard.clone(), &[&delivery_id.to_string(), &seconds, body]);
        Signatures {
            hex: format!("sha256={}", hex::encode(hex)),
            standard: format!("v1,{}", STANDARD.encode(standard)),
        }
    }
}

#[expect(clippy::expect_used, reason = "an HMAC takes a key of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("an HMAC takes a key of any length")
}

/// The HMAC-SHA256 of parts joined by dots.
fn hmac_of(mut mac: Hmac<Sha256>, parts: &[&str]) -> [u8; 32] {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            mac.update(b".");
        }
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The second is the example of the Standard Webhooks specification but for its id; both were checked with OpenSSL.
    #[test]
    fn golden_vectors() {
        let id: Uuid = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        let at = Timestamp::from_micros(1_614_265_330_999_999);
        let signed = SigningKey::new(SECRET).sign(id, at, r#"{"test": 2432232314}"#);
        assert_eq!(signed.hex, "sha256=2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964");
        assert_eq!(signed.standard, "v1,6ltHRplMsmoj3iEeqXSFiuqSolc3P2gAhZLiYmX6UnQ=");
    }

    #[test]
    fn every_byte_counts() {
        let sign = |secret, id, at, body| SigningKey::new(secret).sign(id, at, body);
        let (id, at) = (Uuid::from_u128(1), Timestamp::from_seconds(1_700_000_000));
        let signed = sign(SECRET, id, at, "{}");
        let others = [
            sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", id, at, "{}"),
            sign(SECRET, id, at + Duration::from_secs(1), "{}"),
            sign(SECRET, id, at, "{ }"),
        ];
        for other in others {
            assert!(other.hex != signed.hex && other.standard != signed.standard);
        }
        let other_id = sign(SECRET, Uuid::from_u128(2), at, "{}");
        assert!(other_id.hex == signed.hex && other_id.standard != signed.standard);
    }
}
