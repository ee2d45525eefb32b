//! Sign-in at the operator's own OpenID Connect issuer: two providers of different makes, and one that is hostile.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use model::Provider;
use serde_json::{Value, json};
use service::{Clock, Kind, OidcOptions, ProvenIdentity, Providers};
use testkit::{GooglePeer, OwnIssuerPeer};
use url::Url;

use super::scripted::{Issuer, NOW, Reply, key_set, signed};
use super::{
    CHALLENGE, CLIENT_ID, CLIENT_SECRET, OTHER_VERIFIER, STATE, VERIFIER, agree, assert_broken,
    assert_refused, own_issuer,
};

const CALLBACK: &str = "https://example.test/auspex/console/oauth/oidc";

/// This provider takes no other characters.
const ASCII_SECRET: &str = "hush:a+b c/d%";

/// The service, registered at an issuer for addresses of these domains.
fn registered((id, secret): (&str, &str), issuer: &Url, domains: &[&str]) -> Providers {
    let options = OidcOptions {
        client_id: id.to_owned(),
        client_secret: secret.to_owned(),
        issuer: issuer.clone(),
        name: "Acme SSO".to_owned(),
        allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
    };
    own_issuer(options, Clock::system())
}

async fn code(providers: &Providers, subject: &str) -> String {
    let url = providers.authorization_url(Provider::Oidc, STATE, CHALLENGE).await.unwrap();
    let mut query = agree(url, &[("sub", subject)]).await;
    assert_eq!(query["state"], STATE);
    query.remove("code").unwrap()
}

fn ann(issuer: &str) -> ProvenIdentity {
    ProvenIdentity {
        subject: format!("{issuer} ann-1"),
        email: "ann@example.com".to_owned(),
        email_verified: true,
        name: Some("Ann".to_owned()),
    }
}

#[tokio::test]
async fn a_user_signs_in_at_any_issuer() {
    let claims = json!({"email": "ann@example.com", "email_verified": true, "name": "Ann"});
    let first = GooglePeer::start(CALLBACK).await;
    first.person("ann-1", &claims).await;
    let registration = (first.client_id.as_str(), first.client_secret.as_str());
    let providers = registered(registration, first.url(), &[]);
    assert_eq!(providers.configured(), [Provider::Oidc]);
    assert_eq!((providers.name(Provider::Oidc), providers.name(Provider::Google)), ("Acme SSO", "Google"));
    let proof = code(&providers, "ann-1").await;
    let name = first.url().as_str().trim_end_matches('/');
    assert_eq!(providers.identify(Provider::Oidc, &proof, VERIFIER).await.unwrap(), ann(name));
    let other = providers.identify(Provider::Google, &proof, VERIFIER).await.unwrap_err();
    assert_eq!(other.kind(), Kind::NotFound, "it stands in for no other provider");

    for algorithm in ["RS256", "PS256", "ES256", "ES384", "EdDSA"] {
        let second = OwnIssuerPeer::start(algorithm, CLIENT_ID, ASCII_SECRET, CALLBACK);
        second.person("ann-1", &claims).await;
        second.person("bob-2", &json!({"email": "bob@example.com", "email_verified": false})).await;
        let providers = registered((CLIENT_ID, ASCII_SECRET), &second.url(), &[]);
        let proof = code(&providers, "ann-1").await;
        let found = providers.identify(Provider::Oidc, &proof, VERIFIER).await.unwrap();
        assert_eq!(found, ann(second.url().as_str()), "{algorithm}");
        assert_refused(providers.identify(Provider::Oidc, &proof, VERIFIER).await);
        let proof = code(&providers, "ann-1").await;
        assert_refused(providers.identify(Provider::Oidc, &proof, OTHER_VERIFIER).await);
        let proof = code(&providers, "bob-2").await;
        let bob = providers.identify(Provider::Oidc, &proof, VERIFIER).await.unwrap();
        assert_eq!((bob.email.as_str(), bob.email_verified), ("bob@example.com", false));
    }
}

#[tokio::test]
async fn a_client_that_the_issuer_does_not_know_is_the_operator_s_error() {
    let issuer = OwnIssuerPeer::start("RS256", CLIENT_ID, ASCII_SECRET, CALLBACK);
    issuer.person("ann-1", &json!({"email": "ann@example.com", "email_verified": true})).await;
    let proof = code(&registered((CLIENT_ID, ASCII_SECRET), &issuer.url(), &[]), "ann-1").await;
    let wrong = registered((CLIENT_ID, "hush hush"), &issuer.url(), &[]);
    assert_broken(wrong.identify(Provider::Oidc, &proof, VERIFIER).await, "invalid_client");
}

#[tokio::test]
async fn only_verified_addresses_of_allowed_domains_sign_in() {
    let issuer = Issuer::start_own(&["acme.example", "acme.test"]).await;
    for (email, verified, allowed) in [
        ("ann@acme.example", json!(true), true),
        ("Ann@ACME.test", json!(true), true),
        ("ann@acme.example", json!(false), false),
        ("ann@acme.example", json!("false"), false),
        ("ann@acme.example", Value::Null, false),
        ("ann@evil.example", json!(true), false),
        ("ann@acme.example.evil.example", json!(true), false),
        ("ann@sub.acme.example", json!(true), false),
        ("acme.example@evil.example", json!(true), false),
        ("ann@acme.example@evil.example", json!(true), false),
        ("acme.example", json!(true), false),
    ] {
        issuer.set_id_token(&issuer.token_with(json!({"email": email, "email_verified": verified})));
        let outcome = issuer.identify().await;
        assert_eq!(outcome.is_ok(), allowed, "{email}");
        if let Err(error) = outcome {
            assert_eq!(error.kind(), Kind::Forbidden, "{email}");
            assert!(!error.message().contains("acme"), "it does not say which domains may");
        }
    }
}

#[tokio::test]
async fn a_hostile_issuer_signs_nobody_in() {
    let issuer = Issuer::start_own(&[]).await;
    assert_eq!(issuer.identify().await.unwrap(), ann(issuer.name()));
    let claims = issuer.claims(json!({}));
    let public = key_set(&[(1, "one")])["keys"][0].clone();
    let unsigned = [json!({"alg": "none", "kid": "one"}), claims.clone()]
        .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()))
        .join(".");
    let symmetric = |secret: &[u8]| {
        let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret)).unwrap()
    };
    for (token, cause) in [
        (issuer.token_with(json!({"nonce": null})), "no nonce"),
        (issuer.token_with(json!({"aud": "another"})), "another client"),
        (issuer.token_with(json!({"iss": "https://elsewhere.test"})), "another issuer's"),
        (issuer.token_with(json!({"exp": NOW - 60})), "expired"),
        (format!("{unsigned}."), "algorithm unknown"),
        (symmetric(public.to_string().as_bytes()), "not one of public keys"),
        (symmetric(CLIENT_SECRET.as_bytes()), "not one of public keys"),
        (signed(2, Some("one"), &claims), "signature"),
    ] {
        issuer.set_id_token(&token);
        assert_broken(issuer.identify().await, cause);
    }
    issuer.set_id_token(&issuer.token_with(json!({"nonce": "another"})));
    assert_refused(issuer.identify().await);
    issuer.set_id_token(&issuer.token_with(json!({"email": null})));
    for (reply, cause) in [
        (
            Reply::Json(200, json!({"sub": "eve-6", "email": "ann@example.com", "email_verified": true})),
            "another user",
        ),
        (Reply::Endless, "larger than 1048576 bytes"),
        (Reply::Redirect, "302 Found"),
    ] {
        issuer.provider.set_reply("/userinfo", reply);
        assert_broken(issuer.identify().await, cause);
    }
    let issuer = Issuer { providers: issuer.providers.with_deadline(Duration::from_millis(250)), ..issuer };
    issuer.provider.set_reply("/userinfo", Reply::Slow);
    assert_broken(issuer.identify().await, "timed out");
}

#[tokio::test]
async fn keys_that_the_issuer_rotated_are_read_again() {
    let issuer = Issuer::start_own(&[]).await;
    issuer.identify().await.unwrap();
    issuer.set_keys(&[(2, "two"), (3, "three")]);
    issuer.hands.advance(Duration::from_mins(1));
    issuer.set_id_token(&signed(2, Some("two"), &issuer.claims(json!({}))));
    assert_eq!(issuer.identify().await.unwrap(), ann(issuer.name()));
    issuer.set_id_token(&signed(3, Some("three"), &issuer.claims(json!({}))));
    assert_eq!(issuer.identify().await.unwrap(), ann(issuer.name()));
    issuer.set_id_token(&issuer.token());
    assert_broken(issuer.identify().await, "not one of the issuer's");
    assert_eq!(issuer.provider.requests("/keys").len(), 2, "a wrong key id does not cause a read each time");
}
