//! The `Stripe-Signature` header: `t=SECONDS,v1=HEX[,v1=HEX…]`, each `v1` the HMAC-SHA256 of `SECONDS.BODY`.
//!
//! There are several `v1` while a secret is being rotated: one match is enough.

use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Timestamp;
use sha2::Sha256;

use crate::runtime::Result;

/// The maximum age of a signature, including clock skew. Stripe's own libraries use the same value.
const TOLERANCE_S: u64 = 300;

/// Why an event's signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadSignature {
    #[error("the Stripe-Signature header is malformed")]
    Malformed,
    #[error("no signature fits the body")]
    Mismatch,
    #[error("the signature is too old, or of the future")]
    OutOfTolerance,
}

/// Refuses a body that was not signed with the secret, or not recently.
pub(super) fn verify(secret: &str, header: &str, body: &[u8], now: Timestamp) -> Result<(), BadSignature> {
    let (seconds, signatures) = parse(header).ok_or(BadSignature::Malformed)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| BadSignature::Mismatch)?;
    mac.update(seconds.as_bytes());
    mac.update(b".");
    mac.update(body);
    // Constant time: every signature is compared.
    let matching = signatures.iter().filter(|signature| mac.clone().verify_slice(signature).is_ok()).count();
    if matching == 0 {
        return Err(BadSignature::Mismatch);
    }
    let signed_at: i64 = seconds.parse().map_err(|_| BadSignature::Malformed)?;
    if signed_at.abs_diff(now.seconds()) > TOLERANCE_S {
        return Err(BadSignature::OutOfTolerance);
    }
    Ok(())
}

/// The time as it was signed, and every `v1`. Unknown schemes are ignored.
fn parse(header: &str) -> Option<(&str, Vec<Vec<u8>>)> {
    let mut seconds = None;
    let mut signatures = Vec::new();
    for item in header.split(',') {
        match item.trim().split_once('=')? {
            ("t", value) => {
                let is_number =
                    (1..=12).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
                if !is_number || seconds.replace(value).is_some() {
                    return None;
                }
            }
            ("v1", value) => signatures.push(hex::decode(value).ok()?),
            _ => {}
        }
    }
    Some((seconds?, signatures)).filter(|(_, signatures)| !signatures.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_test_secret";
    const BODY: &[u8] = br#"{"id": "evt_1", "object": "event"}"#;
    const SIGNED_AT: i64 = 1_767_225_600;
    /// Generated with `stripe.WebhookSignature.generate_signature_header` of the official library.
    const OFFICIAL: &str = "t=1767225600,v1=80c600a8a715ab1b1bad508c32887659ac788686bf4173ce15f813f0beaf040e";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn verified(header: &str, now: i64) -> Result<(), BadSignature> {
        verify(SECRET, header, BODY, at(now))
    }

    #[test]
    fn a_signature_of_the_official_library_is_valid_for_five_minutes() {
        for now in [SIGNED_AT - 300, SIGNED_AT, SIGNED_AT + 300] {
            assert_eq!(verified(OFFICIAL, now), Ok(()), "{now}");
        }
        for now in [SIGNED_AT - 301, SIGNED_AT + 301] {
            assert_eq!(verified(OFFICIAL, now), Err(BadSignature::OutOfTolerance), "{now}");
        }
    }

    #[test]
    fn another_body_secret_or_time_does_not_match() {
        let other_body = verify(SECRET, OFFICIAL, b"{}", at(SIGNED_AT));
        let other_secret = verify("whsec_other", OFFICIAL, BODY, at(SIGNED_AT));
        let other_time = verified(&OFFICIAL.replace("t=1767225600", "t=1767225601"), SIGNED_AT);
        for refused in [other_body, other_secret, other_time] {
            assert_eq!(refused, Err(BadSignature::Mismatch));
        }
    }

    #[test]
    fn one_of_several_signatures_is_enough() {
        let (time, matching) = OFFICIAL.split_once(',').unwrap();
        let wrong = format!("v1={}", "0".repeat(64));
        for header in [
            format!("{time},{wrong},{matching}"),
            format!("{time},{matching},{wrong}"),
            format!("{matching},{time}"),
            format!("{time}, {matching}, v0={}", "1".repeat(64)),
        ] {
            assert_eq!(verified(&header, SIGNED_AT), Ok(()), "{header}");
        }
        assert_eq!(verified(&format!("{time},{wrong}"), SIGNED_AT), Err(BadSignature::Mismatch));
        let old_scheme = matching.replace("v1=", "v0=");
        assert_eq!(verified(&format!("{time},{old_scheme}"), SIGNED_AT), Err(BadSignature::Malformed));
    }

    #[test]
    fn a_malformed_header_is_refused() {
        let (time, matching) = OFFICIAL.split_once(',').unwrap();
        for header in [
            "",
            ",",
            "t",
            time,
            matching,
            &format!("{time},{time},{matching}"),
            &format!("t=,{matching}"),
            &format!("t=-1767225600,{matching}"),
            &format!("t=+1767225600,{matching}"),
            &format!("t=17672256000000,{matching}"),
            &format!("{time},v1=zz"),
            &format!("{time},v1"),
            &format!("{time};{matching}"),
        ] {
            assert_eq!(verified(header, SIGNED_AT), Err(BadSignature::Malformed), "{header}");
        }
        assert_eq!(verified(&format!("{time},v1="), SIGNED_AT), Err(BadSignature::Mismatch));
    }
}
