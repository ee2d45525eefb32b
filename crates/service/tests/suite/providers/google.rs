//! Sign-in at a real OpenID Connect provider.

use model::Provider;
use serde_json::json;
use service::{Clock, GoogleOptions, ProvenIdentity, Providers};
use testkit::GooglePeer;

use super::{CHALLENGE, OTHER_VERIFIER, STATE, VERIFIER, agree, assert_broken, assert_refused, providers};

/// A provider at which this service is registered, and the registration.
async fn registered() -> (GooglePeer, GoogleOptions) {
    let peer = GooglePeer::start("https://example.test/auspex/console/oauth/google").await;
    let options = GoogleOptions {
        client_id: peer.client_id.clone(),
        client_secret: peer.client_secret.clone(),
        issuer: peer.url().clone(),
    };
    (peer, options)
}

/// The code that the provider sends with the user's browser.
async fn code(providers: &Providers, subject: &str) -> String {
    let url = providers.authorization_url(Provider::Google, STATE, CHALLENGE).await.unwrap();
    let mut query = agree(url, &[("sub", subject)]).await;
    assert_eq!(query["state"], STATE);
    query.remove("code").unwrap()
}

#[tokio::test]
async fn a_user_signs_in() {
    let (peer, options) = registered().await;
    let providers = providers(Some(options), None, Clock::system());
    peer.person("ann-1", &json!({"email": "ann@example.com", "email_verified": true, "name": "Ann"})).await;
    let first = code(&providers, "ann-1").await;
    let ann = ProvenIdentity {
        subject: "ann-1".to_owned(),
        email: "ann@example.com".to_owned(),
        email_verified: true,
        name: Some("Ann".to_owned()),
    };
    assert_eq!(providers.identify(Provider::Google, &first, VERIFIER).await.unwrap(), ann);
    assert_refused(providers.identify(Provider::Google, &first, VERIFIER).await);
    assert_refused(providers.identify(Provider::Google, "made-up", VERIFIER).await);

    peer.person("bob-2", &json!({"email": "bob@example.com"})).await;
    let second = code(&providers, "bob-2").await;
    let bob = providers.identify(Provider::Google, &second, VERIFIER).await.unwrap();
    assert_eq!((bob.subject.as_str(), bob.email_verified, bob.name), ("bob-2", false, None));

    // This provider ignores the verifier; the nonce still binds the token to it.
    let third = code(&providers, "bob-2").await;
    assert_refused(providers.identify(Provider::Google, &third, OTHER_VERIFIER).await);
}

#[tokio::test]
async fn a_user_without_an_address_cannot_sign_in() {
    let (peer, options) = registered().await;
    let providers = providers(Some(options), None, Clock::system());
    peer.person("cat-3", &json!({"name": "Cat"})).await;
    let code = code(&providers, "cat-3").await;
    assert_broken(providers.identify(Provider::Google, &code, VERIFIER).await, "it has no email address");
}

#[tokio::test]
async fn a_wrong_secret_is_an_error_of_the_provider() {
    let (peer, options) = registered().await;
    let honest = providers(Some(options.clone()), None, Clock::system());
    peer.person("ann-1", &json!({"email": "ann@example.com"})).await;
    let code = code(&honest, "ann-1").await;
    let wrong = GoogleOptions { client_secret: "wrong".to_owned(), ..options };
    let wrong = providers(Some(wrong), None, Clock::system());
    assert_broken(wrong.identify(Provider::Google, &code, VERIFIER).await, "invalid_client");
}
