//! The ways to sign in that a user links and unlinks.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{LINKED, NEW_PASSWORD, UNLINKED, VERIFIER, count, token_of};
use crate::login::sign_in;
use crate::provider_peers::{PROVIDERS, Providers};

testkit::on_both!(
    ways_to_sign_in_are_linked_and_unlinked,
    linking_one_s_own_address_verifies_it,
    a_sign_in_that_links_ends_all_other_sessions,
    an_identity_belongs_to_one_user,
    the_last_way_to_sign_in_stays,
    only_the_user_manages_their_ways_to_sign_in,
);

async fn ways_to_sign_in_are_linked_and_unlinked(stage: &Providers) {
    let token = stage.app.register("ann@example.com").await;
    let none = json!({"has_password": true, "identities": [], "providers": ["google", "github"]});
    assert_eq!(stage.get(&token, "/v1/me/identities").await, none);
    let me = stage.get(&token, "/v1/me").await;
    let mut linked = Vec::new();
    for provider in PROVIDERS {
        stage.unlink(&token, provider).await.refused(404, "not_found");
        let email = format!("private-{provider}@example.com");
        stage.person(provider, 1, &email, true).await;
        stage.app.advance(Duration::from_secs(1));
        let reply = stage.link(&token, provider, 1).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let identity = json!({"provider": provider, "email": email, "created_at": stage.app.now()});
        assert_eq!(reply.json(), identity);
        linked.push(identity);
        assert_eq!(stage.get(&token, "/v1/me/identities").await["identities"], json!(linked));
        stage.link(&token, provider, 1).await.refused(409, "conflict");
        // It signs in the user whom it is linked to, whatever its own address.
        let by_provider = stage.token(provider, 1, 200).await;
        assert_eq!(stage.get(&by_provider, "/v1/me").await, me);
    }
    for provider in PROVIDERS {
        stage.app.advance(Duration::from_secs(1));
        assert_eq!(stage.unlink(&token, provider).await.status, 204);
        stage.unlink(&token, provider).await.refused(404, "not_found");
        let stranger = stage.token(provider, 1, 201).await;
        assert_ne!(stage.get(&stranger, "/v1/me").await["tenant_id"], me["tenant_id"]);
    }
    assert_eq!(stage.get(&token, "/v1/me/identities").await, none);
    let subjects = stage.app.subjects_to("ann@example.com").await;
    assert_eq!(subjects, [LINKED, LINKED, UNLINKED, UNLINKED]);
    let mails = stage.app.mails().await;
    for (mail, label) in mails.iter().zip(["Google", "GitHub", "Google", "GitHub"]) {
        assert!(mail.text.contains(label), "{}", mail.text);
    }
}

async fn a_sign_in_that_links_ends_all_other_sessions(stage: &Providers) {
    let app = &stage.app;
    let first = app.register("ann@example.com").await;
    app.verify(&first, "ann@example.com").await;
    let [other, held] = [sign_in(app, "ann@example.com").await, sign_in(app, "ann@example.com").await];
    stage.person("google", 1, "ann@example.com", true).await;
    // In a browser where the member is signed in already.
    let proof = stage.proof("google", 1).await;
    let reply = app.call(&held, Method::POST, "/auth/console/oauth/google", &proof).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let entered = reply.json()["token"].as_str().unwrap().to_owned();
    for (session, status) in [(&first, 401), (&other, 401), (&held, 200), (&entered, 200)] {
        assert_eq!(app.call(session, Method::GET, "/v1/me", &Value::Null).await.status, status);
    }
    // From then on it is a sign-in like any other.
    let again = stage.token("google", 1, 200).await;
    for session in [&held, &entered, &again] {
        assert_eq!(app.call(session, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    }
    stage.person("github", 1, "ann@example.com", true).await;
    let by_github = stage.token("github", 1, 200).await;
    for (session, status) in [(&held, 401), (&entered, 401), (&again, 401), (&by_github, 200)] {
        assert_eq!(app.call(session, Method::GET, "/v1/me", &Value::Null).await.status, status);
    }
}

async fn linking_one_s_own_address_verifies_it(stage: &Providers) {
    for (first, second) in [("google", "github"), ("github", "google")] {
        let email = format!("ann-{first}@example.com");
        let token = stage.app.register(&email).await;
        let key = stage.app.api_key(&token).await;
        stage.person(first, 1, &email.to_uppercase(), true).await;
        assert_eq!(stage.link(&token, first, 1).await.status, 201);
        // So the next provider that shows it takes nothing away.
        stage.person(second, 2, &email, true).await;
        let token = stage.token(second, 2, 200).await;
        let (has_password, linked) = stage.ways_in(&token).await;
        assert!(has_password && linked.len() == 2);
        assert_eq!(key.call(&stage.app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    }
}

async fn an_identity_belongs_to_one_user(stage: &Providers) {
    for provider in PROVIDERS {
        stage.person(provider, 1, &format!("ann-{provider}@example.com"), true).await;
        let ann = stage.token(provider, 1, 201).await;
        let email = format!("bob-{provider}@example.com");
        let bob = stage.app.register(&email).await;
        stage.link(&bob, provider, 1).await.refused(409, "conflict");
        assert_eq!(stage.ways_in(&bob).await, (true, vec![]));
        assert_eq!(stage.ways_in(&ann).await.1, [provider]);
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 0);
    }
}

async fn the_last_way_to_sign_in_stays(stage: &Providers) {
    for (first, second) in [("google", "github"), ("github", "google")] {
        let email = format!("ann-{first}@example.com");
        stage.person(first, 1, &email, true).await;
        stage.person(second, 2, &email, true).await;
        let token = stage.token(first, 1, 201).await;
        stage.unlink(&token, first).await.refused(409, "conflict");
        stage.unlink(&token, second).await.refused(404, "not_found");
        assert_eq!(stage.link(&token, second, 2).await.status, 201);
        assert_eq!(stage.unlink(&token, first).await.status, 204);
        stage.unlink(&token, second).await.refused(409, "conflict");
        assert_eq!(count(&stage.app.subjects_to(&email).await, UNLINKED), 1);
        // A password is a way to sign in as well.
        stage.reset_password(&email, NEW_PASSWORD).await;
        let token = token_of(&stage.log_in(&email, NEW_PASSWORD).await);
        assert_eq!(stage.ways_in(&token).await, (true, vec![second.to_owned()]));
        assert_eq!(stage.unlink(&token, second).await.status, 204);
    }
}

async fn only_the_user_manages_their_ways_to_sign_in(stage: &Providers) {
    let token = stage.app.register("ann@example.com").await;
    let key = stage.app.api_key(&token).await;
    let proof = json!({"code": "c", "code_verifier": VERIFIER});
    for (method, path, body) in [
        (Method::GET, "/v1/me/identities", &Value::Null),
        (Method::POST, "/v1/me/identities/google", &proof),
        (Method::DELETE, "/v1/me/identities/google", &Value::Null),
    ] {
        key.call(&stage.app, method.clone(), path, body).await.refused(403, "forbidden");
        stage.app.call("wrong", method.clone(), path, body).await.refused(401, "unauthorized");
        stage.app.send(stage.app.request(method, path).json(body)).await.refused(401, "unauthorized");
    }
}
