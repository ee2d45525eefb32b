//! Signed requests: what is not signed is never accepted, and what is signed only as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::Timestamp;
use serde_json::Value;

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
        let header: Value = serde_json::from_slice(header).expect("an accepted header is JSON");
        assert_eq!(header["alg"], "HS256");
        let claims: Value = serde_json::from_slice(claims).expect("accepted claims are JSON");
        let number = |name: &str| claims[name].as_f64().expect("a time");
        #[allow(clippy::cast_precision_loss, reason = "of this century")]
        let now = NOW as f64;
        assert!(
            number("exp") - number("iat") <= 300.0
                && number("exp") >= now - 60.0
                && number("iat") <= now + 60.0
        );
        assert!(claims["htm"].as_str().is_none_or(|method| method.eq_ignore_ascii_case("GET")));
        assert!(claims["htu"].as_str().is_none_or(|path| path.contains("/v1/me")));
    }
});
