//! What the fuzz targets share: the files of the service that parse foreign bytes, taken as they are.
//!
//! They are included by path and not through their crates: those would have to be built with coverage too, with both databases
//! and the embedded model. What stands around them here is only what their imports name.

#![allow(dead_code, reason = "a target uses what it needs")]

// The import's lines are read with the client's records, which are the model's.
extern crate model as client;

/// Named by the import of the Stripe signature.
pub mod runtime {
    pub type Result<T, E> = std::result::Result<T, E>;
}

/// Named by the check of signed requests, which says why one is refused.
pub mod accounts {
    pub mod refusals {
        use model::api::KeyRefusalCause;

        #[derive(Debug)]
        pub struct Rejection {
            pub cause: KeyRefusalCause,
            pub detail: Option<String>,
        }

        impl Rejection {
            pub fn new(cause: KeyRefusalCause, detail: impl Into<String>) -> Self {
                Self { cause, detail: Some(detail.into()) }
            }

            pub fn bare(cause: KeyRefusalCause) -> Self {
                Self { cause, detail: None }
            }
        }
    }
}

#[path = "../../crates/service/src/objects/page_cursor.rs"]
mod page_cursor;

#[path = "../../crates/service/src/billing/ledger_cursor.rs"]
mod ledger_cursor;

#[path = "../../crates/service/src/accounts/request_signature.rs"]
mod signing;

mod stripe;

#[path = "../../crates/client/src/sign.rs"]
mod sign;

#[path = "../../crates/client/src/webhook.rs"]
pub mod webhook;

#[path = "../../crates/server/src/parse_errors.rs"]
mod parse_errors;

mod import;
pub mod passkeys;

#[path = "../../crates/service/src/accounts/passkeys/verifier.rs"]
mod verifier;

pub use import::parse as import_line;
pub use stripe::accepts as stripe_accepts;

/// A cursor that was read can be written and read again: nothing about it is lost or changes.
pub fn cursors(text: &str) {
    if let Some(cursor) = page_cursor::PageCursor::decode(text) {
        assert_eq!(page_cursor::PageCursor::decode(&cursor.encode()), Some(cursor));
    }
    if let Some(cursor) = ledger_cursor::LedgerCursor::decode(text) {
        assert_eq!(ledger_cursor::LedgerCursor::decode(&cursor.encode()), Some(cursor));
    }
}

/// The secret that signed requests are checked with.
pub const SECRET: &str = "sk_the secret of the fuzzer";

/// Whether a signed request is accepted.
pub fn token_accepted(token: &str, method: &str, path: Option<&str>, now: model::Timestamp) -> bool {
    let _ = signing::key_id(token);
    let request = signing::RequestLine { method, decoded_path: path };
    signing::Verifier::new(SECRET.as_bytes()).check(token, request, now).is_ok()
}

/// A token with any header and claims, rightly signed.
pub fn signed(header: &[u8], claims: &[u8]) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).expect("HMAC takes any key");
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// The bytes up to a zero, and those after it.
pub fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    let middle = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    (&data[..middle], data.get(middle + 1..).unwrap_or_default())
}
