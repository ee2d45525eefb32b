//! Validation of ID tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use service::ProvenIdentity;

use super::scripted::{ACCESS_TOKEN, CODE, Issuer, NOW, Reply, key, key_set, signed};
use super::{CLIENT_ID, CLIENT_SECRET, VERIFIER, assert_broken, assert_refused};

fn ann() -> ProvenIdentity {
    ProvenIdentity {
        subject: "ann-1".to_owned(),
        email: "ann@example.com".to_owned(),
        email_verified: true,
        name: Some("Ann".to_owned()),
    }
}

#[tokio::test]
async fn a_valid_token_is_accepted() {
    let issuer = Issuer::start().await;
    assert_eq!(issuer.identify().await.unwrap(), ann());
    let request = issuer.provider.requests("/token").remove(0);
    // Form-encoded, then encoded for Basic authentication.
    let credentials = STANDARD.encode(format!("{CLIENT_ID}:hush%3Aa%2Bb+c%2Fd%25%C3%A9"));
    assert_eq!(request.authorization, Some(format!("Basic {credentials}")));
    let form = [
        ("grant_type", "authorization_code"),
        ("code", CODE),
        ("redirect_uri", "https://example.test/auspex/console/oauth/google"),
        ("code_verifier", VERIFIER),
    ];
    assert_eq!(request.form, form.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[tokio::test]
async fn variants_of_valid_tokens_are_accepted() {
    let issuer = Issuer::start().await;
    for changes in [
        json!({"iat": NOW + 60}),
        json!({"exp": NOW - 59}),
        json!({"aud": [CLIENT_ID]}),
        json!({"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}),
        json!({"email_verified": "true"}),
    ] {
        issuer.set_id_token(&issuer.token_with(changes.clone()));
        assert_eq!(issuer.identify().await.unwrap(), ann(), "{changes}");
    }
    for (changes, verified) in
        [(json!({"email_verified": "false"}), false), (json!({"email_verified": null}), false)]
    {
        issuer.set_id_token(&issuer.token_with(changes));
        assert_eq!(issuer.identify().await.unwrap().email_verified, verified);
    }
    issuer.set_id_token(&issuer.token_with(json!({"name": " "})));
    assert_eq!(issuer.identify().await.unwrap().name, None);
}

#[tokio::test]
async fn a_signed_token_with_wrong_claims_is_refused() {
    let issuer = Issuer::start().await;
    for (changes, cause) in [
        (json!({"iss": "https://elsewhere.test"}), "another issuer's"),
        (json!({"iss": format!("{}/", issuer.name())}), "another issuer's"),
        (json!({"iss": [issuer.name()]}), "malformed"),
        (json!({"aud": "another"}), "another client"),
        (json!({"aud": []}), "another client"),
        (json!({"aud": null}), "malformed"),
        (json!({"aud": [CLIENT_ID, "another"]}), "another client"),
        (json!({"aud": [CLIENT_ID, "another"], "azp": "another"}), "another client"),
        (json!({"azp": "another"}), "another client"),
        (json!({"exp": NOW - 60}), "expired"),
        (json!({"exp": null}), "malformed"),
        (json!({"iat": NOW + 61}), "in the future"),
        (json!({"iat": null}), "malformed"),
        (json!({"nonce": null}), "no nonce"),
        (json!({"sub": ""}), "subject is empty or too long"),
        (json!({"sub": "a".repeat(256)}), "subject is empty or too long"),
        (json!({"sub": null}), "malformed"),
    ] {
        issuer.set_id_token(&issuer.token_with(changes));
        assert_broken(issuer.identify().await, cause);
    }
    issuer.hands.advance(Duration::from_mins(61));
    issuer.set_id_token(&issuer.token());
    assert_broken(issuer.identify().await, "expired");
}

#[tokio::test]
async fn a_code_of_another_sign_in_is_the_caller_s_error() {
    let issuer = Issuer::start().await;
    issuer.set_id_token(&issuer.token_with(json!({"nonce": "another"})));
    assert_refused(issuer.identify().await);
    // An invalid token is reported first: the caller is not to blame for it.
    issuer.set_id_token(&issuer.token_with(json!({"nonce": "another", "aud": "another"})));
    assert_broken(issuer.identify().await, "another client");
}

/// A token built by hand, for what the library refuses to create.
fn forged(header: Value, claims: &Value, signature: &[u8]) -> String {
    let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn with_secret(claims: &Value, secret: &[u8]) -> String {
    let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(secret)).unwrap()
}

#[tokio::test]
async fn a_token_that_the_issuer_did_not_sign_is_refused() {
    let issuer = Issuer::start().await;
    let claims = issuer.claims(json!({}));
    let public = key_set(&[(1, "one")])["keys"][0].clone();
    let point =
        ["x", "y"].map(|part| URL_SAFE_NO_PAD.decode(public[part].as_str().unwrap()).unwrap()).concat();
    let header = |algorithm: &str| json!({"alg": algorithm, "kid": "one"});
    let valid = issuer.token();
    let (message, signature) = valid.rsplit_once('.').unwrap();
    let (first, _) = message.split_once('.').unwrap();
    let other_claims = URL_SAFE_NO_PAD.encode(issuer.claims(json!({"sub": "eve-6"})).to_string());
    let mut demanding = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::ES256) };
    demanding.crit = Some(vec!["b64".to_owned()]);
    for (token, cause) in [
        (forged(header("none"), &claims, b""), "algorithm unknown"),
        (forged(header("None"), &claims, b""), "algorithm unknown"),
        (with_secret(&claims, CLIENT_SECRET.as_bytes()), "not one of public keys"),
        (with_secret(&claims, public.to_string().as_bytes()), "not one of public keys"),
        (with_secret(&claims, &point), "not one of public keys"),
        (forged(header("RS256"), &claims, &[1; 256]), "not one of the issuer's"),
        (signed(2, Some("one"), &claims), "signature"),
        (signed(1, Some("two"), &claims), "not one of the issuer's"),
        (forged(header("ES256"), &claims, &[0; 64]), "signature"),
        (forged(header("ES256"), &claims, b""), "signature"),
        (format!("{first}.{other_claims}.{signature}"), "signature"),
        (jsonwebtoken::encode(&demanding, &claims, &key(1)).unwrap(), "extension"),
        (message.to_owned(), "malformed"),
        (String::new(), "malformed"),
    ] {
        issuer.set_id_token(&token);
        assert_broken(issuer.identify().await, cause);
    }
    issuer.provider.set_reply("/token", Reply::Json(200, json!({"access_token": ACCESS_TOKEN})));
    assert_broken(issuer.identify().await, "contains no ID token");
}

#[tokio::test]
async fn an_unknown_key_causes_a_new_read_at_most_once_a_minute() {
    let issuer = Issuer::start().await;
    let times_read = || issuer.provider.requests("/keys").len();
    issuer.identify().await.unwrap();
    issuer.identify().await.unwrap();
    assert_eq!(times_read(), 1);

    issuer.set_keys(&[(2, "two")]);
    issuer.set_id_token(&signed(2, Some("two"), &issuer.claims(json!({}))));
    issuer.hands.advance(Duration::from_secs(59));
    assert_broken(issuer.identify().await, "not one of the issuer's");
    assert_eq!(times_read(), 1);
    issuer.hands.advance(Duration::from_secs(1));
    assert_eq!(issuer.identify().await.unwrap(), ann());
    assert_eq!(times_read(), 2);

    // Tokens signed with the first key are no longer accepted.
    issuer.set_id_token(&issuer.token());
    assert_broken(issuer.identify().await, "not one of the issuer's");
}

#[tokio::test]
async fn the_issuer_s_documents_are_cached_for_an_hour() {
    let issuer = Issuer::start().await;
    let times_read =
        || ["/.well-known/openid-configuration", "/keys"].map(|path| issuer.provider.requests(path).len());
    issuer.set_id_token(&issuer.token_with(json!({"exp": NOW + 86_400})));
    issuer.identify().await.unwrap();
    issuer.hands.advance(Duration::from_secs(3599));
    issuer.identify().await.unwrap();
    assert_eq!(times_read(), [1, 1]);
    issuer.hands.advance(Duration::from_secs(1));
    issuer.identify().await.unwrap();
    assert_eq!(times_read(), [2, 2]);
}

#[tokio::test]
async fn a_token_without_key_id_needs_a_single_matching_key() {
    let issuer = Issuer::start().await;
    let without_key_id = signed(1, None, &issuer.claims(json!({})));
    issuer.set_id_token(&without_key_id);
    assert_eq!(issuer.identify().await.unwrap(), ann());

    // An unknown kind of key is ignored.
    let mut keys = key_set(&[(1, "one")]);
    keys["keys"].as_array_mut().unwrap().push(json!({"kty": "new", "use": {"odd": true}}));
    for (keys, accepted) in [
        (keys.clone(), true),
        (key_set(&[(1, "one"), (2, "two")]), false),
        (with(&keys, "use", json!("sig")), true),
        (with(&keys, "use", json!("enc")), false),
        (with(&keys, "alg", json!("ES384")), false),
        (with(&keys, "crv", json!("P-384")), false),
    ] {
        let issuer = Issuer::start().await;
        issuer.set_id_token(&signed(1, None, &issuer.claims(json!({}))));
        issuer.provider.set_reply("/keys", Reply::Json(200, keys.clone()));
        let outcome = issuer.identify().await;
        if accepted {
            assert_eq!(outcome.unwrap(), ann(), "{keys}");
        } else {
            assert_broken(outcome, "not one of the issuer's");
        }
    }
}

fn with(keys: &Value, member: &str, value: Value) -> Value {
    let mut keys = keys.clone();
    keys["keys"][0][member] = value;
    keys
}

#[tokio::test]
async fn a_missing_address_is_read_from_userinfo() {
    let issuer = Issuer::start().await;
    issuer.set_id_token(&issuer.token_with(json!({"email": null, "email_verified": null})));
    let user = json!({"sub": "ann-1", "email": "ann@example.com", "email_verified": "true", "name": "Ann"});
    issuer.provider.set_reply("/userinfo", Reply::Json(200, user));
    assert_eq!(issuer.identify().await.unwrap(), ann());
    let request = issuer.provider.requests("/userinfo").remove(0);
    assert_eq!(request.authorization, Some(format!("Bearer {ACCESS_TOKEN}")));

    let other = json!({"sub": "eve-6", "email": "ann@example.com", "email_verified": true});
    issuer.provider.set_reply("/userinfo", Reply::Json(200, other));
    assert_broken(issuer.identify().await, "another user");
    issuer.provider.set_reply("/userinfo", Reply::Json(200, json!({"sub": "ann-1", "email": ""})));
    assert_broken(issuer.identify().await, "no email address");
}
