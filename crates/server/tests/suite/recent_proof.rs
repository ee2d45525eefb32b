//! A stolen session does not become permanent: what changes how a person signs in needs a proof of the last minutes.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, PASSWORD, Reply};
use crate::login::{QUARTER, WRONG, retry_after, sign_in, whoami};
use crate::provider_peers::{PROVIDERS, Providers};
use crate::registration::{refuses_nonsense, staged};
use crate::two_factor::Phone;

const PATH: &str = "/auth/console/reauthenticate";
const REQUIRED: &str = "reauthentication_required";

testkit::on_both!(
    an_old_session_cannot_change_how_its_user_signs_in,
    a_password_renews_the_proof,
    a_code_renews_the_proof_and_works_once,
    a_provider_renews_the_proof,
    a_refused_request_uses_up_no_code_of_a_provider,
    the_proof_is_one_session_s,
    wrong_proofs_are_counted,
    exactly_one_proof_is_taken,
    the_operator_chooses_how_long_a_proof_lasts,
    changes_of_identities_and_two_factor_end_all_other_sessions,
    nonsense_proves_nothing,
);

async fn an_old_session_cannot_change_how_its_user_signs_in(stage: &Providers) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    stage.person("google", 1, "ann-private@example.com", true).await;
    assert_eq!(stage.link(&token, "google", 1).await.status, 201);
    app.advance(QUARTER + Duration::from_secs(1));
    let code = json!({"password": PASSWORD, "code": phone.code(app)});
    for (method, path, body) in [
        (Method::POST, "/v1/me/mfa/setup", Value::Null),
        (Method::POST, "/v1/me/mfa/enable", json!({"code": "123456"})),
        (Method::POST, "/v1/me/mfa/disable", code.clone()),
        (Method::DELETE, "/v1/me/identities/google", Value::Null),
        (Method::POST, "/v1/me/identities/github", json!({"code": "c", "code_verifier": "v".repeat(43)})),
    ] {
        app.call(&token, method, path, &body).await.refused(403, REQUIRED);
    }
    assert_eq!(stage.ways_in(&token).await, (true, vec!["google".to_owned()]));
    assert_eq!(whoami(app, &token).await.status, 200, "everything else goes on");

    app.reauthenticate(&token).await;
    assert_eq!(stage.unlink(&token, "google").await.status, 204);
    let reply = app.call(&token, Method::POST, "/v1/me/mfa/disable", &code).await;
    assert_eq!(reply.status, 204, "the refusal has not used up the code: {}", reply.text);
}

async fn a_password_renews_the_proof(app: &App) {
    let token = app.register("ann@example.com").await;
    app.advance(QUARTER);
    assert_eq!(setup(app, &token).await.status, 200, "fifteen minutes are within fifteen minutes");
    app.advance(Duration::from_secs(1));
    setup(app, &token).await.refused(403, REQUIRED);
    show(app, &token, &json!({"password": WRONG})).await.refused(400, "invalid_password");
    setup(app, &token).await.refused(403, REQUIRED);
    let reply = show(app, &token, &json!({"password": PASSWORD})).await;
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    assert_eq!(setup(app, &token).await.status, 200);
}

async fn a_code_renews_the_proof_and_works_once(app: &App) {
    let token = app.register("ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    app.advance(QUARTER + Duration::from_secs(1));
    let code = json!({"code": phone.code(app)});
    assert_eq!(show(app, &token, &code).await.status, 204);
    setup(app, &token).await.refused(409, "conflict");
    show(app, &token, &code).await.refused(400, "invalid_code");
    assert_eq!(show(app, &token, &json!({"code": phone.recovery_codes[0]})).await.status, 204);
    show(app, &token, &json!({"code": phone.recovery_codes[0]})).await.refused(400, "invalid_code");

    let bob = app.register("bob@example.com").await;
    show(app, &bob, &json!({"code": "123456"})).await.refused(400, "invalid_code");
}

async fn a_provider_renews_the_proof(stage: &Providers) {
    for provider in PROVIDERS {
        stage.person(provider, 1, &format!("ann-{provider}@example.com"), true).await;
        stage.person(provider, 2, &format!("eve-{provider}@example.com"), true).await;
        let token = stage.token(provider, 1, 201).await;
        stage.app.advance(QUARTER + Duration::from_secs(1));
        show(&stage.app, &token, &json!({"password": PASSWORD})).await.refused(400, "invalid_password");
        for (person, status) in [(2, 403), (1, 204)] {
            setup(&stage.app, &token).await.refused(403, REQUIRED);
            let mut proof = stage.proof(provider, person).await;
            proof["provider"] = json!(provider);
            let reply = show(&stage.app, &token, &proof).await;
            assert_eq!(reply.status, status, "{}", reply.text);
        }
        assert_eq!(setup(&stage.app, &token).await.status, 200);
    }
}

async fn a_refused_request_uses_up_no_code_of_a_provider(stage: &Providers) {
    let token = stage.app.register("ann@example.com").await;
    stage.person("google", 1, "ann-private@example.com", true).await;
    stage.app.advance(QUARTER + Duration::from_secs(1));
    let proof = stage.proof("google", 1).await;
    let path = "/v1/me/identities/google";
    stage.app.call(&token, Method::POST, path, &proof).await.refused(403, REQUIRED);
    stage.app.reauthenticate(&token).await;
    let reply = stage.app.call(&token, Method::POST, path, &proof).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
}

async fn the_proof_is_one_session_s(app: &App) {
    let stolen = app.register("ann@example.com").await;
    app.advance(QUARTER + Duration::from_secs(1));
    let fresh = sign_in(app, "ann@example.com").await;
    assert_eq!(setup(app, &fresh).await.status, 200, "a session is fresh after signing in");
    setup(app, &stolen).await.refused(403, REQUIRED);
}

async fn wrong_proofs_are_counted(app: &App) {
    let token = app.register("ann@example.com").await;
    for number in 0..5 {
        let (body, code) = match number % 2 {
            0 => (json!({"password": WRONG}), "invalid_password"),
            _ => (json!({"code": "123456"}), "invalid_code"),
        };
        show(app, &token, &body).await.refused(400, code);
    }
    let reply = show(app, &token, &json!({"password": PASSWORD})).await;
    reply.refused(429, "rate_limited");
    assert!((1..=900).contains(&retry_after(&reply)), "{:?}", reply.headers);
    // One count for all that asks for a password or a code.
    let change = json!({"current_password": PASSWORD, "new_password": "eleven purple submarines whistle"});
    app.call(&token, Method::POST, "/v1/me/password", &change).await.refused(429, "rate_limited");
    app.advance(QUARTER);
    app.reauthenticate(&token).await;
}

async fn exactly_one_proof_is_taken(app: &App) {
    let token = app.register("ann@example.com").await;
    for (body, named) in [
        (json!({}), "password"),
        (json!({"password": PASSWORD, "code": "123456"}), "password"),
        (json!({"password": PASSWORD, "provider": "google"}), "password"),
        (json!({"provider": "google"}), "code"),
        (json!({"provider": "google", "code": "c"}), "code_verifier"),
        (json!({"provider": "facebook", "code": "c"}), "provider"),
        (json!({"password": 7}), "password"),
    ] {
        let message = show(app, &token, &body).await.refused(400, "bad_request");
        assert!(message.contains(named), "{message}");
    }
    let unconfigured = json!({"provider": "google", "code": "c", "code_verifier": "v".repeat(43)});
    show(app, &token, &unconfigured).await.refused(404, "not_found");
    app.post(PATH, &json!({"password": PASSWORD})).await.refused(401, "unauthorized");
    let key = app.api_key(&token).await;
    key.call(app, Method::POST, PATH, &json!({"password": PASSWORD})).await.refused(403, "forbidden");
}

async fn the_operator_chooses_how_long_a_proof_lasts(app: &Strict) {
    let token = app.register("ann@example.com").await;
    app.advance(Duration::from_mins(1));
    assert_eq!(setup(app, &token).await.status, 200);
    app.advance(Duration::from_secs(1));
    setup(app, &token).await.refused(403, REQUIRED);
}

async fn changes_of_identities_and_two_factor_end_all_other_sessions(stage: &Providers) {
    let app = &stage.app;
    let token = app.register("ann@example.com").await;
    let bob = app.register("bob@example.com").await;
    stage.person("github", 1, "ann-private@example.com", true).await;
    let other = sign_in(app, "ann@example.com").await;
    assert_eq!(setup(app, &token).await.status, 200);
    assert_eq!(whoami(app, &other).await.status, 200, "a set-up changes nothing yet");
    assert_eq!(stage.link(&token, "github", 1).await.status, 201);
    whoami(app, &other).await.refused(401, "unauthorized");

    let other = sign_in(app, "ann@example.com").await;
    let phone = Phone::switched_on(app, &token).await;
    whoami(app, &other).await.refused(401, "unauthorized");

    let other = stage.token("github", 1, 200).await;
    assert_eq!(stage.unlink(&token, "github").await.status, 204);
    whoami(app, &other).await.refused(401, "unauthorized");

    let reply = crate::two_factor::login_with(app, &phone.code(app)).await;
    let other = reply.json()["token"].as_str().unwrap().to_owned();
    let body = json!({"password": PASSWORD, "code": phone.recovery_codes[0]});
    assert_eq!(app.call(&token, Method::POST, "/v1/me/mfa/disable", &body).await.status, 204);
    whoami(app, &other).await.refused(401, "unauthorized");
    for kept in [&token, &bob] {
        assert_eq!(whoami(app, kept).await.status, 200);
    }
}

async fn nonsense_proves_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    let good = json!({"password": WRONG});
    refuses_nonsense(app, Some(&token), Method::POST, PATH, &good).await;
    setup(app, &token).await.refused(403, REQUIRED);
}

async fn setup(app: &App, token: &str) -> Reply {
    app.call(token, Method::POST, "/v1/me/mfa/setup", &Value::Null).await
}

async fn show(app: &App, token: &str, body: &Value) -> Reply {
    app.call(token, Method::POST, PATH, body).await
}

/// A service whose proofs last a minute.
struct Strict(App);

staged! {
    Strict: &[("AUSPEX_RECENT_PROOF_SECONDS", "60")];
}
