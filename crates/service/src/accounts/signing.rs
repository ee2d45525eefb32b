//! Signed requests: a short-lived HS256 JWT that proves possession of a key's secret, bound to method and path.

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use model::Timestamp;
use serde::Deserialize;

/// The maximum lifetime of a token.
const MAX_LIFETIME_S: f64 = 300.0;
/// The maximum clock skew between caller and service.
const MAX_SKEW_S: f64 = 60.0;

/// The claims of a token. Numbers may have fractions, as RFC 7519 allows.
#[derive(Deserialize)]
struct Claims {
    iat: f64,
    exp: f64,
    htm: Option<String>,
    htu: Option<String>,
}

/// The request that a token came with.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: &'a str,
    /// The decoded path; none if it is not valid UTF-8.
    pub decoded_path: Option<&'a str>,
}

/// A key's secret, prepared to verify signatures.
#[derive(Clone)]
pub(crate) struct Verifier(DecodingKey);

impl Verifier {
    /// Uses the whole text of the secret as the key.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(DecodingKey::from_secret(secret))
    }

    /// Whether the token is signed with the secret, not expired, and bound to this request.
    pub(crate) fn accepts(&self, token: &str, request: RequestLine<'_>, now: Timestamp) -> bool {
        let mut rules = Validation::new(Algorithm::HS256);
        // Times are checked below, with our own clock and exactly as specified.
        rules.validate_exp = false;
        rules.validate_aud = false;
        rules.required_spec_claims.clear();
        match jsonwebtoken::decode::<Claims>(token, &self.0, &rules) {
            Ok(data) => data.claims.is_current(now) && data.claims.is_for(request),
            Err(_) => false,
        }
    }
}

impl Claims {
    fn is_current(&self, now: Timestamp) -> bool {
        #[expect(
            clippy::cast_precision_loss,
            reason = "current timestamps fit a double with sub-microsecond precision"
        )]
        let now = now.micros() as f64 / 1e6;
        let lifetime = self.exp - self.iat;
        (0.0..=MAX_LIFETIME_S).contains(&lifetime)
            && self.iat <= now + MAX_SKEW_S
            && self.exp >= now - MAX_SKEW_S
    }

    fn is_for(&self, request: RequestLine<'_>) -> bool {
        let method_matches =
            self.htm.as_ref().is_none_or(|method| method.eq_ignore_ascii_case(request.method));
        let path_matches = self.htu.as_ref().is_none_or(|claim| path_of(claim) == request.decoded_path);
        method_matches && path_matches
    }
}

/// The path of an `htu` claim: all of it if it starts with a slash, otherwise the path of the URL.
fn path_of(claim: &str) -> Option<&str> {
    if claim.starts_with('/') {
        return Some(claim);
    }
    let (_, after_scheme) = claim.split_once("://")?;
    let path = after_scheme.find('/').map_or("/", |start| &after_scheme[start..]);
    path.split(['?', '#']).next()
}

/// The key id in a token's header, if any. None if the token is not an HS256 JWT.
#[expect(clippy::option_option, reason = "not a valid token, a token without a key id, a token with one")]
pub(crate) fn key_id(token: &str) -> Option<Option<String>> {
    let header = jsonwebtoken::decode_header(token).ok()?;
    (header.alg == Algorithm::HS256).then_some(header.kid)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use serde_json::{Value, json};
    use sha2::Sha256;

    use super::*;

    const NOW: i64 = 1_767_225_600;
    const SECRET: &[u8] = b"sk_test";

    /// Signs by hand, so that the library under test does not also create its input.
    fn sign(header: &Value, claims: &Value, secret: &[u8]) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    fn accepts(claims: &Value, request: (&str, &str)) -> bool {
        let token = sign(&json!({"alg": "HS256", "typ": "JWT", "kid": "ak_1"}), claims, SECRET);
        let request = RequestLine { method: request.0, decoded_path: Some(request.1) };
        Verifier::new(SECRET).accepts(&token, request, Timestamp::from_seconds(NOW))
    }

    fn alive(iat: f64, exp: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let now = NOW as f64;
        accepts(&json!({"iat": now + iat, "exp": now + exp}), ("GET", "/v1/me"))
    }

    #[test]
    fn a_token_lives_at_most_five_minutes_with_a_minute_of_skew() {
        for (iat, exp) in [
            (0.0, 60.0),
            (0.0, 300.0),
            (60.0, 120.0),
            (-300.0, 0.0),
            (-360.0, -60.0),
            (0.0, 0.0),
            (-1.5, 2.5),
        ] {
            assert!(alive(iat, exp), "{iat} {exp}");
        }
        for (iat, exp) in
            [(0.0, 301.0), (61.0, 100.0), (-361.0, -61.0), (0.0, -1.0), (-400.0, 1.0), (0.0, 1e300)]
        {
            assert!(!alive(iat, exp), "{iat} {exp}");
        }
    }

    #[test]
    fn claims_must_be_present_and_of_the_right_type() {
        for claims in [
            json!({}),
            json!({"iat": NOW}),
            json!({"exp": NOW + 60}),
            json!({"iat": "now", "exp": NOW}),
            json!({"iat": NOW, "exp": null}),
            json!([NOW, NOW]),
            json!("x"),
            json!({"iat": NOW, "exp": NOW + 60, "htm": 1}),
            json!({"iat": NOW, "exp": NOW + 60, "htu": ["/v1/me"]}),
        ] {
            assert!(!accepts(&claims, ("GET", "/v1/me")), "{claims}");
        }
    }

    #[test]
    fn a_token_is_bound_to_method_and_path() {
        let bound = |htm: &str, htu: &str, path: &str| {
            accepts(&json!({"iat": NOW, "exp": NOW + 60, "htm": htm, "htu": htu}), ("POST", path))
        };
        assert!(bound("POST", "/v1/a", "/v1/a"));
        assert!(bound("post", "https://api.example.com:8443/v1/a?x=1#y", "/v1/a"));
        assert!(bound("POST", "https://api.example.com", "/"));
        assert!(bound("POST", "/v1/objects/a b?c#d/ü", "/v1/objects/a b?c#d/ü"), "a leading slash: all path");
        assert!(!bound("GET", "/v1/a", "/v1/a"));
        assert!(!bound("POST", "/v1/b", "/v1/a"));
        assert!(!bound("POST", "/v1/a%20b", "/v1/a b"), "not decoded again");
        assert!(!bound("POST", "v1/a", "/v1/a"));
        assert!(!bound("POST", "", "/v1/a"));
    }

    #[test]
    fn only_hs256_with_the_right_secret_is_accepted() {
        let claims = json!({"iat": NOW, "exp": NOW + 60});
        let request = RequestLine { method: "GET", decoded_path: Some("/") };
        let accepts =
            |token: &str| Verifier::new(SECRET).accepts(token, request, Timestamp::from_seconds(NOW));
        let good = sign(&json!({"alg": "HS256"}), &claims, SECRET);
        assert!(accepts(&good));
        assert_eq!(key_id(&good), Some(None));
        assert_eq!(
            key_id(&sign(&json!({"alg": "HS256", "kid": "ak_1"}), &claims, SECRET)),
            Some(Some("ak_1".to_owned()))
        );
        assert!(!accepts(&sign(&json!({"alg": "HS256"}), &claims, b"sk_other")));
        for header in [
            json!({"alg": "none"}),
            json!({"alg": "HS512"}),
            json!({"alg": "RS256"}),
            json!({}),
            json!({"alg": "hs256"}),
        ] {
            let token = sign(&header, &claims, SECRET);
            assert!(!accepts(&token), "{header}");
            assert_eq!(key_id(&token), None, "{header}");
        }
        let (head, _) = good.rsplit_once('.').unwrap();
        for token in ["", "a.b.c", "..", head, &format!("{head}."), &format!("{good}A"), &format!("{good}.x")]
        {
            assert!(!accepts(token), "{token}");
        }
    }
}
