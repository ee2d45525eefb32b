//! The signature of payment events.

#[path = "../../crates/service/src/billing/stripe/signature.rs"]
mod signature;

/// Whether a body with this header is accepted.
pub fn accepts(secret: &str, header: &str, body: &[u8], now: model::Timestamp) -> bool {
    signature::verify(secret, header, body, now).is_ok()
}
