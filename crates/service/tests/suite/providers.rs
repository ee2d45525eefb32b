//! Sign-in with an identity provider, tested with providers on loopback.

mod broken;
mod github;
mod google;
mod oidc;
mod scripted;
mod tokens;

use std::collections::HashMap;
use std::error::Error as _;

use model::{Provider, Timestamp};
use service::{Clock, Error, GithubOptions, GoogleOptions, Kind, OidcOptions, ProvenIdentity, Providers};
use url::Url;

const PUBLIC_URL: &str = "https://example.test/auspex/";
const CLIENT_ID: &str = "auspex-client";
const CLIENT_SECRET: &str = "hush:a+b c/d%é";
const STATE: &str = "state-1~!";
/// The pair of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const OTHER_VERIFIER: &str = "another-verifier-another-verifier-another-verifier";

fn providers(google: Option<GoogleOptions>, github: Option<GithubOptions>, clock: Clock) -> Providers {
    // Another test in this process may already have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Providers::new(google, github, None, &PUBLIC_URL.parse().unwrap(), clock).unwrap()
}

/// The operator's own issuer, alone.
fn own_issuer(options: OidcOptions, clock: Clock) -> Providers {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Providers::new(None, None, Some(options), &PUBLIC_URL.parse().unwrap(), clock).unwrap()
}

fn google_at(issuer: &Url) -> GoogleOptions {
    GoogleOptions {
        client_id: CLIENT_ID.to_owned(),
        client_secret: CLIENT_SECRET.to_owned(),
        issuer: issuer.clone(),
    }
}

fn github_at(url: &Url) -> GithubOptions {
    GithubOptions {
        client_id: CLIENT_ID.to_owned(),
        client_secret: CLIENT_SECRET.to_owned(),
        url: url.clone(),
        api_url: url.join("api/v3/").unwrap(),
    }
}

/// The user agrees at the provider; returns the query that the provider redirects the browser with.
async fn agree(authorization: Url, person: &[(&str, &str)]) -> HashMap<String, String> {
    let location = testkit::agree(authorization, person).await;
    assert_eq!(location.host_str(), Some("example.test"));
    location.query_pairs().into_owned().collect()
}

/// Asserts a failure of the provider: the public message is generic, the cause is for the log, and neither has a secret.
#[track_caller]
fn assert_broken(outcome: Result<ProvenIdentity, Error>, cause: &str) {
    let error = outcome.unwrap_err();
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(one) = next {
        causes.push(one.to_string());
        next = one.source();
    }
    let causes = causes.join(": ");
    assert_eq!(error.kind(), Kind::IdentityProviderError, "{error:?}");
    assert!(error.message().ends_with("failed at the provider"), "{error}");
    assert!(causes.contains(cause), "expected {cause:?} in {causes:?}");
    assert_no_secrets(&error);
}

#[track_caller]
fn assert_refused(outcome: Result<ProvenIdentity, Error>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::BadRequest, "{error:?}");
    assert_eq!(error.message(), "the sign-in code is not valid or was used");
    assert_no_secrets(&error);
}

#[track_caller]
fn assert_no_secrets(error: &Error) {
    let everything = format!("{error:?} {error}");
    for secret in ["hush", VERIFIER, OTHER_VERIFIER, "eyJ", "gho_", scripted::CODE, scripted::ACCESS_TOKEN] {
        assert!(!everything.contains(secret), "{everything}");
    }
}

#[tokio::test]
async fn only_configured_providers_are_available() {
    let nowhere: Url = "http://127.0.0.1:1".parse().unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(0)).0;
    let none = providers(None, None, clock.clone());
    assert_eq!(none.configured(), []);
    for provider in Provider::ALL {
        let error = none.authorization_url(provider, STATE, CHALLENGE).await.unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(none.identify(provider, "code", VERIFIER).await.unwrap_err().kind(), Kind::NotFound);
    }
    let one = providers(None, Some(github_at(&nowhere)), clock.clone());
    assert_eq!(one.configured(), [Provider::Github]);
    let both = providers(Some(google_at(&nowhere)), Some(github_at(&nowhere)), clock);
    assert_eq!(both.configured(), [Provider::Google, Provider::Github]);
}

#[tokio::test]
async fn a_malformed_field_is_named() {
    let nowhere: Url = "http://127.0.0.1:1".parse().unwrap();
    let providers = providers(None, Some(github_at(&nowhere)), Clock::system());
    let long = |length: usize| "a".repeat(length);
    for (state, challenge, field) in [
        ("", CHALLENGE, "state"),
        ("two words", CHALLENGE, "state"),
        ("é", CHALLENGE, "state"),
        (&long(513), CHALLENGE, "state"),
        (STATE, &long(42), "code_challenge"),
        (STATE, &long(44), "code_challenge"),
        (STATE, &CHALLENGE.replace('-', "+"), "code_challenge"),
    ] {
        let error = providers.authorization_url(Provider::Github, state, challenge).await.unwrap_err();
        assert_eq!(error.kind(), Kind::BadRequest);
        assert!(error.message().starts_with(&format!("`{field}` must be ")), "{error}");
    }
    for (code, verifier, field) in [
        ("", VERIFIER, "code"),
        (&long(2049), VERIFIER, "code"),
        ("code", &long(42), "code_verifier"),
        ("code", &long(129), "code_verifier"),
        ("code", &VERIFIER.replace('-', "+"), "code_verifier"),
    ] {
        let error = providers.identify(Provider::Github, code, verifier).await.unwrap_err();
        assert_eq!(error.kind(), Kind::BadRequest);
        assert!(error.message().starts_with(&format!("`{field}` must be ")), "{error}");
    }
    assert!(providers.authorization_url(Provider::Github, &long(512), &long(43)).await.is_ok());
}
