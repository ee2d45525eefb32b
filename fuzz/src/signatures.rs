//! Signature headers: those of payments that come in, and those of webhooks as a receiver checks them.

use http::{HeaderMap, HeaderValue};
use model::Timestamp;

#[path = "../../crates/service/src/billing/stripe/signature.rs"]
mod stripe;

#[path = "../../crates/client/src/webhook.rs"]
mod webhook;

const SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Runs one case.
pub fn check(data: &[u8]) {
    let now = Timestamp::from_seconds(1_614_265_330);
    let (header, body) = crate::halves(data);
    if let Ok(text) = std::str::from_utf8(header) {
        assert!(stripe::verify("whsec_other", text, body, now).is_err(), "nobody signed {text}");
    }
    let Ok(value) = HeaderValue::from_bytes(header) else { return };
    for names in [
        &["x-webhook-timestamp", "x-webhook-signature"][..],
        &["webhook-id", "webhook-timestamp", "webhook-signature"],
    ] {
        // Each header in turn is the fuzzer's, with the others as they should be.
        for chosen in names {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.insert(
                    *name,
                    HeaderValue::from_static(if name.ends_with("id") { "msg_1" } else { "1614265330" }),
                );
            }
            headers.insert(*chosen, value.clone());
            let verified = webhook::verify(SECRET, &headers, body, now, webhook::TOLERANCE);
            assert!(verified.is_err(), "nobody signed {headers:?}");
        }
    }
    let _ = webhook::parse(body);
}
