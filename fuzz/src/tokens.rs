//! Signed requests: what is not signed is never accepted, and what is signed only as it says.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Timestamp;

#[path = "../../crates/service/src/accounts/request_signature.rs"]
mod signing;

/// The secret that signed requests are checked with.
const SECRET: &str = "sk_the secret of the fuzzer";

#[derive(serde::Deserialize)]
struct Header {
    alg: String,
}

#[derive(serde::Deserialize)]
struct Claims {
    iat: f64,
    exp: f64,
    htm: Option<String>,
    htu: Option<String>,
}

const NOW: i64 = 1_767_225_600;

/// Runs one case.
pub fn check(data: &[u8]) {
    let now = Timestamp::from_seconds(NOW);
    if let Ok(token) = std::str::from_utf8(data) {
        assert!(!accepted(token, "GET", Some("/v1/me"), now), "not signed: {token}");
    }
    // Rightly signed, with any header and claims.
    let (header, claims) = crate::halves(data);
    let header = if header.is_empty() { br#"{"alg":"HS256"}"# } else { header };
    let token = signed(header, claims);
    if accepted(&token, "GET", Some("/v1/me"), now) {
        // Not as values: what other fields say is nobody's business, also whether their text is well-formed.
        let header: Header = serde_json::from_slice(header).expect("an accepted header is JSON");
        assert_eq!(header.alg, "HS256");
        let claims: Claims = serde_json::from_slice(claims).expect("accepted claims are JSON");
        #[expect(clippy::cast_precision_loss, reason = "of this century")]
        let now = NOW as f64;
        assert!(claims.exp - claims.iat <= 300.0 && claims.exp >= now - 60.0 && claims.iat <= now + 60.0);
        assert!(claims.htm.is_none_or(|method| method.eq_ignore_ascii_case("GET")));
        assert!(claims.htu.is_none_or(|path| path.contains("/v1/me")));
    }
}

fn accepted(token: &str, method: &str, path: Option<&str>, now: Timestamp) -> bool {
    let _ = signing::key_id(token);
    let request = signing::RequestLine { method, decoded_path: path };
    signing::Verifier::new(SECRET.as_bytes()).check(token, request, now).is_ok()
}

/// A token with any header and claims, rightly signed.
fn signed(header: &[u8], claims: &[u8]) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).expect("HMAC takes any key");
    mac.update(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}
