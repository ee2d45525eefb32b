//! Sign-in at a fake GitHub.

use std::collections::HashMap;

use model::Provider;
use serde_json::{Value, json};
use service::{Clock, GithubOptions, Kind, ProvenIdentity, Providers};
use testkit::GithubPeer;

use super::{
    CHALLENGE, CLIENT_ID, CLIENT_SECRET, OTHER_VERIFIER, STATE, VERIFIER, agree, assert_broken,
    assert_refused, github_at, providers,
};

const CALLBACK: &str = "https://example.test/auspex/console/oauth/github";

fn github(callback: &str, more: &[&str]) -> (GithubPeer, Providers) {
    let peer = GithubPeer::start(CLIENT_ID, CLIENT_SECRET, callback, more);
    let providers = providers(None, Some(github_at(peer.url())), Clock::system());
    (peer, providers)
}

fn ann() -> Value {
    json!({"name": "Ann", "emails": [
        {"email": "old@example.com", "primary": false, "verified": true},
        {"email": "ann@example.com", "primary": true, "verified": true},
    ]})
}

async fn code(providers: &Providers, id: &str) -> String {
    let url = providers.authorization_url(Provider::Github, STATE, CHALLENGE).await.unwrap();
    let mut query = agree(url, &[("id", id)]).await;
    assert_eq!(query["state"], STATE);
    query.remove("code").unwrap()
}

#[tokio::test]
async fn a_user_signs_in() {
    let (peer, providers) = github(CALLBACK, &[]);
    peer.person(42, &ann()).await;
    let first = code(&providers, "42").await;
    let expected = ProvenIdentity {
        subject: "42".to_owned(),
        email: "ann@example.com".to_owned(),
        email_verified: true,
        name: Some("Ann".to_owned()),
    };
    assert_eq!(providers.identify(Provider::Github, &first, VERIFIER).await.unwrap(), expected);
    assert_refused(providers.identify(Provider::Github, &first, VERIFIER).await);
    assert_refused(providers.identify(Provider::Github, "made-up", VERIFIER).await);
    let second = code(&providers, "42").await;
    assert_refused(providers.identify(Provider::Github, &second, OTHER_VERIFIER).await);
}

#[tokio::test]
async fn an_unverified_address_is_reported() {
    let bob = json!({"name": null, "emails": [
        {"email": "bob@example.com", "primary": true, "verified": false},
    ]});
    let (peer, lenient) = github(CALLBACK, &[]);
    peer.person(7, &bob).await;
    let found = lenient.identify(Provider::Github, &code(&lenient, "7").await, VERIFIER).await.unwrap();
    assert_eq!((found.email.as_str(), found.email_verified, found.name), ("bob@example.com", false, None));

    let (peer, strict) = github(CALLBACK, &["--refuse-unverified"]);
    peer.person(7, &bob).await;
    let error = strict.identify(Provider::Github, &code(&strict, "7").await, VERIFIER).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Forbidden, "{error:?}");
}

#[tokio::test]
async fn a_wrong_registration_is_an_error_of_the_provider() {
    let (peer, honest) = github(CALLBACK, &[]);
    peer.person(42, &ann()).await;
    let options = GithubOptions { client_secret: "hush hush".to_owned(), ..github_at(peer.url()) };
    let wrong = providers(None, Some(options), Clock::system());
    let outcome = wrong.identify(Provider::Github, &code(&honest, "42").await, VERIFIER).await;
    assert_broken(outcome, "incorrect_client_credentials");

    let (_peer, elsewhere) = github("https://example.test/elsewhere", &[]);
    assert_broken(elsewhere.identify(Provider::Github, "any", VERIFIER).await, "redirect_uri_mismatch");
}

#[tokio::test]
async fn the_browser_is_sent_with_all_parameters() {
    let github = providers(None, Some(github_at(&"https://github.test".parse().unwrap())), Clock::system());
    let url = github.authorization_url(Provider::Github, STATE, CHALLENGE).await.unwrap();
    assert!(url.as_str().starts_with("https://github.test/login/oauth/authorize?"), "{url}");
    let query: HashMap<_, _> = url.query_pairs().into_owned().collect();
    let expected = [
        ("response_type", "code"),
        ("client_id", CLIENT_ID),
        ("redirect_uri", CALLBACK),
        ("scope", "read:user user:email"),
        ("state", STATE),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ];
    assert_eq!(query, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}
