//! Signed requests: a short-lived HS256 JWT that proves possession of a key's secret, bound to method and path.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use model::Timestamp;
use model::api::KeyRefusalCause;
use serde::Deserialize;

use crate::accounts::refusals::Rejection;

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

    /// Refuses a token that is not signed with the secret, is not current, or is bound to another request. What the claims say
    /// is told only if the signature is right.
    pub(crate) fn check(
        &self,
        token: &str,
        request: RequestLine<'_>,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        let mut rules = Validation::new(Algorithm::HS256);
        // Times are checked below, with our own clock and exactly as specified.
        rules.validate_exp = false;
        rules.validate_aud = false;
        rules.required_spec_claims.clear();
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.0, &rules);
        let claims = decoded.map_err(|error| match error.kind() {
            // The signature is verified before the claims are parsed.
            ErrorKind::Json(_) => {
                Rejection::new(KeyRefusalCause::Claims, "iat and exp must be numbers, htm and htu text")
            }
            _ => Rejection::bare(KeyRefusalCause::Signature),
        });
        let claims = claims?.claims;
        claims.check_time(now)?;
        claims.check_binding(request)
    }
}

impl Claims {
    fn check_time(&self, now: Timestamp) -> Result<(), Rejection> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "current timestamps fit a double with sub-microsecond precision"
        )]
        let now = now.micros() as f64 / 1e6;
        let lifetime = self.exp - self.iat;
        if !(0.0..=MAX_LIFETIME_S).contains(&lifetime) {
            let detail =
                format!("exp is {lifetime:.0} s after iat; it must be 0 to {MAX_LIFETIME_S} s after it");
            return Err(Rejection::new(KeyRefusalCause::Lifetime, detail));
        }
        if self.iat > now + MAX_SKEW_S {
            let ahead = self.iat - now;
            let detail = format!(
                "iat is {ahead:.0} s ahead of this service's clock; at most {MAX_SKEW_S} s are allowed"
            );
            return Err(Rejection::new(KeyRefusalCause::Clock, detail));
        }
        if self.exp < now - MAX_SKEW_S {
            let (made, ended) = (now - self.iat, now - self.exp);
            let detail = format!(
                "by this service's clock the token was made {made:.0} s ago and ended {ended:.0} s ago; at most {MAX_SKEW_S} s are allowed"
            );
            return Err(Rejection::new(KeyRefusalCause::Clock, detail));
        }
        Ok(())
    }

    fn check_binding(&self, request: RequestLine<'_>) -> Result<(), Rejection> {
        if let Some(claim) = self.htm.as_ref().filter(|claim| !claim.eq_ignore_ascii_case(request.method)) {
            let detail = format!("htm is {claim:?}, and the request was {}", request.method);
            return Err(Rejection::new(KeyRefusalCause::Method, detail));
        }
        if let Some(claim) = self.htu.as_ref().filter(|claim| path_of(claim) != request.decoded_path) {
            let path = request.decoded_path.unwrap_or("not valid UTF-8");
            let detail = format!("htu is {claim:?}, and the decoded path of the request was {path:?}");
            return Err(Rejection::new(KeyRefusalCause::Path, detail));
        }
        Ok(())
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
        Verifier::new(SECRET).check(&token, request, Timestamp::from_seconds(NOW)).is_ok()
    }

    /// Why a token with these claims is refused on `POST /v1/a`.
    fn refused(claims: &Value) -> (KeyRefusalCause, String) {
        let token = sign(&json!({"alg": "HS256", "kid": "ak_1"}), claims, SECRET);
        let request = RequestLine { method: "POST", decoded_path: Some("/v1/a") };
        let checked = Verifier::new(SECRET).check(&token, request, Timestamp::from_seconds(NOW));
        let rejection = checked.unwrap_err();
        (rejection.cause, rejection.detail.unwrap_or_default())
    }

    #[test]
    fn a_refusal_says_why() {
        let (cause, detail) = refused(&json!({"iat": NOW - 300, "exp": NOW - 240}));
        assert_eq!(cause, KeyRefusalCause::Clock);
        assert!(detail.contains("made 300 s ago and ended 240 s ago"), "{detail}");
        let (cause, detail) = refused(&json!({"iat": NOW + 300, "exp": NOW + 360}));
        assert_eq!(cause, KeyRefusalCause::Clock);
        assert!(detail.contains("300 s ahead"), "{detail}");
        let (cause, detail) = refused(&json!({"iat": NOW, "exp": NOW + 3_600}));
        assert_eq!(cause, KeyRefusalCause::Lifetime);
        assert!(detail.contains("3600 s after iat"), "{detail}");
        let (cause, detail) = refused(&json!({"iat": NOW, "exp": NOW + 60, "htm": "GET"}));
        assert_eq!(cause, KeyRefusalCause::Method);
        assert_eq!(detail, "htm is \"GET\", and the request was POST");
        let (cause, detail) =
            refused(&json!({"iat": NOW, "exp": NOW + 60, "htm": "POST", "htu": "/v1/b\u{0}"}));
        assert_eq!(cause, KeyRefusalCause::Path);
        assert_eq!(detail, "htu is \"/v1/b\\0\", and the decoded path of the request was \"/v1/a\"");
        assert_eq!(refused(&json!({"iat": NOW})).0, KeyRefusalCause::Claims);
        let long = refused(&json!({"iat": NOW, "exp": NOW + 60, "htu": "/".repeat(10_000)})).1;
        assert!(long.chars().count() <= 500, "{}", long.len());
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
            |token: &str| Verifier::new(SECRET).check(token, request, Timestamp::from_seconds(NOW)).is_ok();
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
