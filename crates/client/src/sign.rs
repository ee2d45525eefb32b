//! Signed requests: each attempt gets a new HS256 token for one method and one path.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

/// How long a token is valid.
const LIFETIME_S: i64 = 60;

/// Signs a token for a request, given its decoded path.
pub(crate) fn token(id: &str, secret: &str, now: Timestamp, method: &str, decoded_path: &str) -> String {
    let header = json!({"alg": "HS256", "typ": "JWT", "kid": id});
    let claims = json!({
        "iat": now.seconds(),
        "exp": now.seconds() + LIFETIME_S,
        "jti": Uuid::new_v4(),
        "htm": method,
        "htu": decoded_path,
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(&header), encode(&claims));
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac(secret.as_bytes(), &[message.as_bytes()])))
}

/// The HMAC-SHA256 of the concatenated parts.
fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    mac(key, parts).map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default()
}

/// The same before it is finalized, for constant-time verification of a signature.
pub(crate) fn mac(key: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    // An HMAC takes a key of any length, so this never fails.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in parts {
        mac.update(part);
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_bound_to_method_path_and_minute() {
        let now = Timestamp::from_seconds(1_700_000_000);
        let token = token("ak_1", "sk_1", now, "GET", "/v1/objects/a b");
        let parts: Vec<&str> = token.split('.').collect();
        let read =
            |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
        assert_eq!(read(parts[0]), json!({"alg": "HS256", "typ": "JWT", "kid": "ak_1"}));
        let claims = read(parts[1]);
        assert_eq!(claims["iat"], 1_700_000_000);
        assert_eq!(claims["exp"], 1_700_000_060);
        assert_eq!((claims["htm"].as_str(), claims["htu"].as_str()), (Some("GET"), Some("/v1/objects/a b")));
        assert!(claims["jti"].as_str().unwrap().parse::<Uuid>().is_ok());
        assert_eq!(parts.len(), 3);
    }

    /// The example of RFC 7515, appendix A.1, whose key is binary.
    #[test]
    fn test_vector_of_rfc_7515() {
        let key = URL_SAFE_NO_PAD
            .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
            .unwrap();
        let message = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.\
            eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let signature = URL_SAFE_NO_PAD.encode(hmac(&key, &[message.as_bytes()]));
        assert_eq!(signature, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    }
}
