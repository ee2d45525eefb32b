//! Signed requests: what is not signed is never accepted, and what is signed only as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Timestamp;

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

fuzz_target!(|data: &[u8]| {
    let now = Timestamp::from_seconds(NOW);
    if let Ok(token) = std::str::from_utf8(data) {
        assert!(!auspex_fuzz::token_accepted(token, "GET", Some("/v1/me"), now), "not signed: {token}");
    }
    // Rightly signed, with any header and claims.
    let (header, claims) = auspex_fuzz::halves(data);
    let header = if header.is_empty() { br#"{"alg":"HS256"}"# } else { header };
    let token = auspex_fuzz::signed(header, claims);
    if auspex_fuzz::token_accepted(&token, "GET", Some("/v1/me"), now) {
        // Not as values: what other fields say is nobody's business, also whether their text is well-formed.
        let header: Header = serde_json::from_slice(header).expect("an accepted header is JSON");
        assert_eq!(header.alg, "HS256");
        let claims: Claims = serde_json::from_slice(claims).expect("accepted claims are JSON");
        #[allow(clippy::cast_precision_loss, reason = "of this century")]
        let now = NOW as f64;
        assert!(claims.exp - claims.iat <= 300.0 && claims.exp >= now - 60.0 && claims.iat <= now + 60.0);
        assert!(claims.htm.is_none_or(|method| method.eq_ignore_ascii_case("GET")));
        assert!(claims.htu.is_none_or(|path| path.contains("/v1/me")));
    }
});
