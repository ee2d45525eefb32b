//! Providers that fail, or respond incorrectly.

use std::time::Duration;

use model::Provider;
use serde_json::{Value, json};
use service::{Clock, Kind};
use url::Url;

use super::scripted::{ACCESS_TOKEN, CODE, Issuer, Reply, Scripted, key_set};
use super::{
    CHALLENGE, CLIENT_ID, CLIENT_SECRET, STATE, VERIFIER, assert_broken, assert_refused, github_at,
    google_at, providers,
};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Faulty responses of an endpoint that should have returned `json`, each with its cause in the log.
fn faults(json: Value) -> Vec<(Reply, &'static str)> {
    vec![
        (Reply::Json(500, json.clone()), "500 Internal Server Error"),
        (Reply::Json(404, json.clone()), "404 Not Found"),
        (Reply::Redirect, "302 Found"),
        (Reply::Text("<html>hush</html>"), "not the JSON expected, at line 1, column 1"),
        (Reply::Text("{\"access_token\": 12345"), "not the JSON expected"),
        (Reply::Json(200, json!({"access_token": ["hush"]})), "not the JSON expected"),
        (Reply::Huge(json), "larger than 1048576 bytes"),
        (Reply::Endless, "larger than 1048576 bytes"),
    ]
}

#[tokio::test]
async fn a_failing_issuer_is_distinguished_from_a_bad_code() {
    let good = Issuer::start().await;
    let tokens = json!({"access_token": ACCESS_TOKEN, "id_token": good.token()});
    let documents = [
        (DISCOVERY, "reading the OpenID configuration", good.configuration(json!({}))),
        ("/keys", "reading the issuer's keys", key_set(&[(1, "one")])),
        ("/token", "exchanging the code", tokens),
    ];
    for (path, step, document) in documents {
        for (reply, cause) in faults(document) {
            let issuer = Issuer::start().await;
            issuer.provider.set_reply(path, reply);
            assert_broken(issuer.identify().await, &format!("{step}: "));
            assert_broken(issuer.identify().await, cause);
            assert_eq!(issuer.provider.requests("/elsewhere").len(), 0);
        }
    }
}

#[tokio::test]
async fn a_failing_github_is_distinguished_from_a_bad_code() {
    let user = json!({"id": 42, "name": "Ann"});
    let emails = json!([{"email": "ann@example.com", "primary": true, "verified": true}]);
    let documents = [
        ("/login/oauth/access_token", "exchanging the code", json!({"access_token": ACCESS_TOKEN})),
        ("/api/v3/user", "asking for the user", user),
        ("/api/v3/user/emails", "asking for the addresses", emails),
    ];
    let github = Scripted::start().await;
    let providers = providers(None, Some(github_at(&github.url)), Clock::system());
    for (path, step, document) in &documents {
        for (path, _, document) in &documents {
            github.set_reply(path, Reply::Json(200, document.clone()));
        }
        assert!(providers.identify(Provider::Github, CODE, VERIFIER).await.is_ok());
        for (reply, cause) in faults(document.clone()) {
            github.set_reply(path, reply);
            let outcome = providers.identify(Provider::Github, CODE, VERIFIER).await;
            assert_broken(outcome, &format!("{step}: "));
            assert_broken(providers.identify(Provider::Github, CODE, VERIFIER).await, cause);
        }
    }
    github.set_reply("/api/v3/user/emails", Reply::Json(200, json!([])));
    assert_broken(
        providers.identify(Provider::Github, CODE, VERIFIER).await,
        "no address is the primary one",
    );
    assert_eq!(github.requests("/elsewhere").len(), 0);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_times_out() {
    let deadline = Duration::from_millis(250);
    for path in [DISCOVERY, "/keys", "/token"] {
        let issuer = Issuer::start().await;
        let issuer = Issuer { providers: issuer.providers.with_deadline(deadline), ..issuer };
        for reply in [Reply::Silence, Reply::Slow] {
            issuer.provider.set_reply(path, reply);
            assert_broken(issuer.identify().await, "timed out");
        }
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let providers = providers(Some(google_at(&unreachable)), Some(github_at(&unreachable)), Clock::system());
    for provider in [Provider::Google, Provider::Github] {
        assert_broken(providers.identify(provider, CODE, VERIFIER).await, "refused");
    }
    let error = providers.authorization_url(Provider::Google, STATE, CHALLENGE).await.unwrap_err();
    assert_eq!(error.kind(), Kind::IdentityProviderError);
}

#[tokio::test]
async fn all_calls_of_a_sign_in_share_one_deadline() {
    let slow = async || {
        let issuer = Issuer::start().await;
        let (pause, tokens) =
            (Duration::from_millis(200), json!({"access_token": ACCESS_TOKEN, "id_token": issuer.token()}));
        for (path, document) in [
            (DISCOVERY, issuer.configuration(json!({}))),
            ("/keys", key_set(&[(1, "one")])),
            ("/token", tokens),
        ] {
            issuer.provider.set_reply(path, Reply::Late(pause, document));
        }
        issuer
    };
    assert!(slow().await.identify().await.is_ok(), "each call alone is fast enough");
    let issuer = slow().await;
    let issuer = Issuer { providers: issuer.providers.with_deadline(Duration::from_millis(450)), ..issuer };
    assert_broken(issuer.identify().await, "timed out");
    assert_eq!(issuer.provider.requests("/token").len(), 1, "the first two calls were answered");
}

#[tokio::test]
async fn an_untrustworthy_configuration_is_refused() {
    let issuer = Issuer::start().await;
    for (changes, cause) in [
        (json!({"issuer": "https://elsewhere.test"}), "another issuer's"),
        (json!({"issuer": format!("{}/deeper", issuer.name())}), "another issuer's"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "not a URL"),
        (json!({"token_endpoint": "ftp://127.0.0.1/token"}), "not a URL"),
        (json!({"jwks_uri": "/keys"}), "not a URL"),
        (json!({"userinfo_endpoint": "file:///etc/passwd"}), "not a URL"),
        (json!({"jwks_uri": null}), "not the JSON expected"),
    ] {
        issuer.set_configuration(changes);
        assert_broken(issuer.identify().await, cause);
    }
    // A configuration that cannot be used is not cached either.
    issuer.set_configuration(json!({"issuer": format!("{}/", issuer.name())}));
    issuer.set_id_token(&issuer.token_with(json!({"iss": format!("{}/", issuer.name())})));
    assert!(issuer.identify().await.is_ok());
}

#[tokio::test]
async fn the_browser_is_sent_to_the_issuer_s_authorization_endpoint() {
    let issuer = Issuer::start().await;
    let url = issuer.providers.authorization_url(Provider::Google, STATE, CHALLENGE).await.unwrap();
    assert!(url.as_str().starts_with(&format!("{}/authorize?tenant=1&", issuer.name())), "{url}");
    let query: Vec<_> = url.query_pairs().into_owned().skip(1).collect();
    let expected = [
        ("response_type", "code"),
        ("client_id", CLIENT_ID),
        ("redirect_uri", "https://example.test/auspex/console/oauth/google"),
        ("scope", "openid email profile"),
        ("state", STATE),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("nonce", CHALLENGE),
    ];
    assert_eq!(query, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn the_secret_is_sent_as_the_issuer_supports() {
    for (methods, in_body) in [
        (json!(["client_secret_post"]), true),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["private_key_jwt"]), false),
        (Value::Null, false),
    ] {
        let issuer = Issuer::start().await;
        issuer.set_configuration(json!({"token_endpoint_auth_methods_supported": methods}));
        issuer.identify().await.unwrap();
        let request = issuer.provider.requests("/token").remove(0);
        assert_eq!(request.authorization.is_none(), in_body);
        let secret = in_body.then_some(CLIENT_SECRET);
        assert_eq!(request.form.get("client_secret").map(String::as_str), secret);
    }
}

#[tokio::test]
async fn a_refused_code_is_distinguished_from_a_refused_client() {
    let issuer = Issuer::start().await;
    let refuses = |status: u16, error: &str| {
        let refusal = json!({"error": error, "error_description": format!("{CODE} hush")});
        issuer.provider.set_reply("/token", Reply::Json(status, refusal));
    };
    for (status, error) in [(400, "invalid_grant"), (401, "invalid_grant"), (200, "bad_verification_code")] {
        refuses(status, error);
        assert_refused(issuer.identify().await);
    }
    for (status, error, cause) in [
        (401, "invalid_client", "answered invalid_client"),
        (400, "redirect_uri_mismatch", "answered redirect_uri_mismatch"),
        (500, "invalid_grant", "500"),
        (400, "hush hush", "without a code"),
        (400, &"a".repeat(65), "without a code"),
    ] {
        refuses(status, error);
        assert_broken(issuer.identify().await, cause);
    }
}
