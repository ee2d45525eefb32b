//! Verification that a delivery is from the service, unchanged and recent. Pure: the receiver passes in the time.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac as _;
use http::HeaderMap;
use model::Timestamp;
use model::api::{AnalysisCompleted, ReviewEvent, RuleTriggered};
use model::webhook::{ANALYSIS_COMPLETED, REVIEW_OPENED, REVIEW_RESOLVED, RULE_TRIGGERED, SECRET_PREFIX};
use serde::Deserialize;

use crate::sign::mac;

/// The usual tolerance between a delivery's timestamp and the receiver's clock.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// Why a delivery must not be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// It has no complete set of signature headers.
    #[error("the delivery is not signed")]
    Unsigned,
    /// A header is malformed.
    #[error("a signature header of the delivery is malformed")]
    Malformed,
    /// It was signed too long ago, or in the future: it may be a replay attack.
    #[error("the delivery's timestamp is too old or in the future")]
    Stale,
    /// A signature does not match the secret and the body.
    #[error("the signature does not match")]
    Forged,
    /// [`verify_any`] was called without a secret: a mistake of the receiver, which says nothing about the delivery.
    #[error("there is no secret to verify the delivery with")]
    NoSecret,
}

/// The payload of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// An analysis has finished.
    AnalysisCompleted(AnalysisCompleted<'static>),
    /// A rule has fired.
    RuleTriggered(RuleTriggered),
    /// A review was opened, or opened again.
    ReviewOpened(ReviewEvent),
    /// A review was resolved.
    ReviewResolved(ReviewEvent),
    /// An event that this version of the client does not know.
    Other(serde_json::Value),
}

/// Verifies the signature of a delivery over its raw body, with the endpoint's secret (`whsec_…`).
///
/// The service signs each delivery twice: with its own headers (`X-Webhook-Timestamp`, `X-Webhook-Signature`) and with those
/// of Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`). One valid set suffices: while a secret is being
/// rotated, the own headers are signed with the previous one, and those of Standard Webhooks with both. Signatures are compared in constant time. `tolerance` is usually [`TOLERANCE`].
///
/// ```
/// use auspex_client::{Timestamp, webhook};
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-webhook-timestamp", "1614265330".parse()?);
/// headers.insert(
///     "x-webhook-signature",
///     "sha256=2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964".parse()?,
/// );
/// let (secret, body) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", br#"{"test": 2432232314}"#);
/// let now = Timestamp::from_seconds(1_614_265_340);
/// webhook::verify(secret, &headers, body, now, webhook::TOLERANCE)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<(), Unverified> {
    let own = verify_own(secret, headers, body, now, tolerance);
    let standard = verify_standard(secret, headers, body, now, tolerance);
    match (standard, own) {
        (Ok(true), _) | (_, Ok(true)) => Ok(()),
        (Err(reason), _) | (_, Err(reason)) => Err(reason),
        (Ok(false), Ok(false)) => Err(Unverified::Unsigned),
    }
}

/// Verifies the signature of a delivery, as [`verify`] does, with any of several secrets: while one is being rotated, pass the old
/// and the new one. Without any, it is [`Unverified::NoSecret`].
pub fn verify_any(
    secrets: &[impl AsRef<str>],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<(), Unverified> {
    let mut outcome = Err(Unverified::NoSecret);
    for secret in secrets {
        outcome = verify(secret.as_ref(), headers, body, now, tolerance);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Parses the payload of a delivery. Verify it first.
pub fn parse(body: &[u8]) -> Result<Payload, serde_json::Error> {
    #[derive(Deserialize)]
    struct Named {
        event: String,
    }
    let Named { event } = serde_json::from_slice(body)?;
    Ok(match event.as_str() {
        ANALYSIS_COMPLETED => Payload::AnalysisCompleted(serde_json::from_slice(body)?),
        RULE_TRIGGERED => Payload::RuleTriggered(serde_json::from_slice(body)?),
        REVIEW_OPENED => Payload::ReviewOpened(serde_json::from_slice(body)?),
        REVIEW_RESOLVED => Payload::ReviewResolved(serde_json::from_slice(body)?),
        _ => Payload::Other(serde_json::from_slice(body)?),
    })
}

/// Verifies the service's own headers; false if they are absent.
fn verify_own(
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<bool, Unverified> {
    let Some(signature) = text(headers, "x-webhook-signature")? else { return Ok(false) };
    let at = text(headers, "x-webhook-timestamp")?.ok_or(Unverified::Unsigned)?;
    check_time(at, now, tolerance)?;
    let signature = signature.strip_prefix("sha256=").ok_or(Unverified::Malformed)?;
    let signature = hex::decode(signature).map_err(|_| Unverified::Malformed)?;
    matches(secret.as_bytes(), &[at.as_bytes(), b".", body], &signature)
        .then_some(true)
        .ok_or(Unverified::Forged)
}

/// Verifies the headers of Standard Webhooks, one of whose signatures must match; false if they are absent.
fn verify_standard(
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<bool, Unverified> {
    let Some(signatures) = text(headers, "webhook-signature")? else { return Ok(false) };
    let at = text(headers, "webhook-timestamp")?.ok_or(Unverified::Unsigned)?;
    let id = text(headers, "webhook-id")?.ok_or(Unverified::Unsigned)?;
    check_time(at, now, tolerance)?;
    let encoded = secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(encoded).map_err(|_| Unverified::Forged)?;
    // There are several while a secret is being replaced.
    let is_valid = signatures.split_whitespace().filter_map(|signature| signature.strip_prefix("v1,")).any(
        |signature| {
            STANDARD.decode(signature).is_ok_and(|signature| {
                matches(&key, &[id.as_bytes(), b".", at.as_bytes(), b".", body], &signature)
            })
        },
    );
    is_valid.then_some(true).ok_or(Unverified::Forged)
}

fn matches(key: &[u8], parts: &[&[u8]], signature: &[u8]) -> bool {
    mac(key, parts).is_some_and(|mac| mac.verify_slice(signature).is_ok())
}

fn check_time(text: &str, now: Timestamp, tolerance: Duration) -> Result<(), Unverified> {
    let at = Timestamp::from_seconds(text.parse().map_err(|_| Unverified::Malformed)?);
    if now.since(at) > tolerance || at.since(now) > tolerance { Err(Unverified::Stale) } else { Ok(()) }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Unverified> {
    headers.get(name).map(|value| value.to_str().map_err(|_| Unverified::Malformed)).transpose()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
    const BODY: &str = r#"{"event":"analysis.completed"}"#;
    const OWN: [&str; 2] = ["x-webhook-timestamp", "x-webhook-signature"];
    const STANDARD_SET: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

    /// The headers of a delivery, as the service sends them.
    fn headers(at: Timestamp) -> HeaderMap {
        let id = Uuid::from_u128(1);
        let signed = model::webhook::SigningKey::new(SECRET).sign(id, at, BODY);
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-webhook-timestamp", at.seconds().to_string()),
            ("x-webhook-signature", signed.hex),
            ("webhook-id", id.to_string()),
            ("webhook-timestamp", at.seconds().to_string()),
            ("webhook-signature", signed.standard),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        headers
    }

    fn without(names: &[&str]) -> HeaderMap {
        let mut headers = headers(NOW);
        for name in names {
            headers.remove(*name);
        }
        headers
    }

    fn check(headers: &HeaderMap) -> Result<(), Unverified> {
        verify(SECRET, headers, BODY.as_bytes(), NOW, TOLERANCE)
    }

    #[test]
    fn one_set_of_headers_is_required() {
        assert_eq!(check(&headers(NOW)), Ok(()));
        assert_eq!(check(&without(&OWN)), Ok(()));
        assert_eq!(check(&without(&STANDARD_SET)), Ok(()));
        assert_eq!(check(&HeaderMap::new()), Err(Unverified::Unsigned));
        // An incomplete set is no signature, and does not stand in the way of the other.
        for missing in ["x-webhook-timestamp", "webhook-id", "webhook-timestamp"] {
            assert_eq!(check(&without(&[missing])), Ok(()), "{missing}");
            let other = if missing.starts_with("x-") { &STANDARD_SET[..] } else { &OWN };
            assert_eq!(
                check(&without(&[other, &[missing]].concat())),
                Err(Unverified::Unsigned),
                "{missing}"
            );
        }
    }

    #[test]
    fn a_receiver_with_the_new_secret_verifies_while_both_are_valid() {
        let new = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
        let signed = model::webhook::SigningKey::new(new).sign(Uuid::from_u128(1), NOW, BODY);
        let mut headers = headers(NOW);
        let old = headers["webhook-signature"].to_str().unwrap().to_owned();
        headers.insert("webhook-signature", format!("{} {old}", signed.standard).parse().unwrap());
        for secret in [SECRET, new] {
            assert_eq!(verify(secret, &headers, BODY.as_bytes(), NOW, TOLERANCE), Ok(()));
        }
        let neither = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSy";
        let outcome = verify(neither, &headers, BODY.as_bytes(), NOW, TOLERANCE);
        assert_eq!(outcome, Err(Unverified::Forged));
    }

    #[test]
    fn one_of_several_secrets_is_enough() {
        let new = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
        let check = |secrets: &[&str], headers: &HeaderMap| {
            verify_any(secrets, headers, BODY.as_bytes(), NOW, TOLERANCE)
        };
        // Each set of headers alone, so that one secret need not fit both.
        for headers in [headers(NOW), without(&OWN), without(&STANDARD_SET)] {
            for secrets in [&[SECRET] as &[&str], &[new, SECRET], &[SECRET, new]] {
                assert_eq!(check(secrets, &headers), Ok(()), "{secrets:?}");
            }
            for secrets in [&[new] as &[&str], &[new, ""]] {
                assert_eq!(check(secrets, &headers), Err(Unverified::Forged), "{secrets:?}");
            }
            assert_eq!(
                check(&[], &headers),
                Err(Unverified::NoSecret),
                "a mistake of the receiver's, not of the sender"
            );
        }
        assert_eq!(check(&[new, SECRET], &HeaderMap::new()), Err(Unverified::Unsigned));
        let old = headers(NOW - Duration::from_mins(6));
        assert_eq!(check(&[new, SECRET], &old), Err(Unverified::Stale));
    }

    #[test]
    fn a_delivery_without_a_valid_set_of_headers_is_refused() {
        let other = format!("{BODY} ");
        for headers in [headers(NOW), without(&OWN), without(&STANDARD_SET)] {
            let forged = Err(Unverified::Forged);
            assert_eq!(verify(SECRET, &headers, other.as_bytes(), NOW, TOLERANCE), forged);
            let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx";
            assert_eq!(verify(secret, &headers, BODY.as_bytes(), NOW, TOLERANCE), forged);
        }
        for (name, value, reason) in [
            ("x-webhook-signature", "sha256=00", Unverified::Forged),
            ("x-webhook-signature", "sha256=zz", Unverified::Malformed),
            ("x-webhook-signature", "00", Unverified::Malformed),
            ("x-webhook-timestamp", "now", Unverified::Malformed),
            ("webhook-signature", "v1,AAAA", Unverified::Forged),
            ("webhook-signature", "", Unverified::Forged),
            ("webhook-id", "another", Unverified::Forged),
        ] {
            let other = if name.starts_with("x-") { &STANDARD_SET[..] } else { &OWN };
            let mut headers = without(other);
            headers.insert(name, value.parse().unwrap());
            assert_eq!(check(&headers), Err(reason), "{name}: {value}");
        }
    }

    #[test]
    fn one_of_several_signatures_is_enough() {
        let mut headers = without(&OWN);
        let ours = headers["webhook-signature"].to_str().unwrap().to_owned();
        headers.insert("webhook-signature", format!("v1a,xyz v1,AAAA {ours}").parse().unwrap());
        assert_eq!(check(&headers), Ok(()));
    }

    #[test]
    fn old_and_future_deliveries_are_stale() {
        let minutes = |minutes: u64| Duration::from_mins(minutes);
        for (at, verdict) in [
            (NOW - minutes(5), Ok(())),
            (NOW + minutes(5), Ok(())),
            (NOW - minutes(6), Err(Unverified::Stale)),
            (NOW + minutes(6), Err(Unverified::Stale)),
        ] {
            assert_eq!(check(&headers(at)), verdict, "{at}");
        }
    }

    #[test]
    fn payloads_are_parsed_by_their_event() {
        let tenant = Uuid::from_u128(3);
        let analysis = format!(
            r#"{{"event":"analysis.completed","object_id":"a","tenant_id":"{tenant}","model":"m",
                "occurred_at":"2026-01-01T00:00:00.000000Z","answers":[{{"signal":"s","type":"noul","noul":0.5}}]}}"#
        );
        let Payload::AnalysisCompleted(read) = parse(analysis.as_bytes()).unwrap() else {
            panic!("{analysis}")
        };
        assert_eq!((read.object_id.as_ref(), read.answers[0].value.noul), ("a", Some(0.5)));
        assert!(matches!(parse(br#"{"event":"another"}"#).unwrap(), Payload::Other(_)));
        assert!(parse(b"{}").is_err());
    }
}
