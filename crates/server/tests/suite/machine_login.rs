//! Signing in on a machine through the browser: a member agrees, and the machine that asked, and no other, gets a key.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::app::{App, Reply};
use crate::login::whoami;
use crate::members::join;
use crate::scripted_analyzer::get;
use crate::signer::Signer;

testkit::on_both!(
    a_machine_gets_a_key_once_a_member_has_agreed,
    a_code_is_good_once_and_only_with_its_verifier,
    a_code_ends_with_time_and_with_its_session,
    only_who_may_make_keys_and_has_just_proved_it_may_agree,
);

const AGREE: &str = "/v1/me/machine_login";
const REDEEM: &str = "/auth/console/machine_login";
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

async fn agree(app: &App, token: &str) -> Reply {
    let body = json!({"name": "auspex on workstation", "challenge": challenge(VERIFIER)});
    app.call(token, Method::POST, AGREE, &body).await
}

pub(crate) async fn code(app: &App, token: &str) -> String {
    let reply = agree(app, token).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()["code"].as_str().unwrap().to_owned()
}

pub(crate) async fn redeem(app: &App, code: &str, verifier: &str) -> Reply {
    app.post(REDEEM, &json!({"code": code, "verifier": verifier})).await
}

async fn a_machine_gets_a_key_once_a_member_has_agreed(app: &App) {
    let token = app.register("ann@example.com").await;
    let code = code(app, &token).await;
    let keys = app.call(&token, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    assert_eq!(keys["api_keys"], json!([]), "no key before it is asked for");
    let made = redeem(app, &code, VERIFIER).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let made = made.json();
    assert_eq!(made["api_key"]["name"], "auspex on workstation");
    let key = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(get(app, &key, "/v1/me").await.json()["tenant_name"], "Acme");
    let path = "/v1/audit_log?action=api_key.created";
    let lines = app.call(&token, Method::GET, path, &Value::Null).await.json();
    assert_eq!(lines["entries"][0]["actor"]["name"], "ann@example.com");
    assert_eq!(lines["entries"][0]["address"], "127.0.0.1");
    assert_eq!(app.subjects_to("ann@example.com").await.len(), 1, "and everybody is told");
}

async fn a_code_is_good_once_and_only_with_its_verifier(app: &App) {
    let token = app.register("ann@example.com").await;
    let first = code(app, &token).await;
    let refusal = "the code is not valid, has expired or was used already: run auspex login again";
    let wrong = "x".repeat(43);
    assert_eq!(redeem(app, &first, &wrong).await.refused(400, "invalid_token"), refusal);
    assert_eq!(redeem(app, &first, VERIFIER).await.refused(400, "invalid_token"), refusal, "tried once");
    let second = code(app, &token).await;
    assert_eq!(redeem(app, &second, VERIFIER).await.status, 201);
    assert_eq!(redeem(app, &second, VERIFIER).await.refused(400, "invalid_token"), refusal);
    for forged in ["", "nonsense", &second[..second.len() - 1], &format!("A{second}")] {
        redeem(app, forged, VERIFIER).await.refused(400, "invalid_token");
    }
    let short =
        app.call(&token, Method::POST, AGREE, &json!({"name": "x", "challenge": challenge("short")})).await;
    let short = short.json()["code"].as_str().unwrap().to_owned();
    assert_eq!(
        redeem(app, &short, "short").await.refused(400, "invalid_token"),
        refusal,
        "too easy to guess"
    );
    app.settle().await;
}

async fn a_code_ends_with_time_and_with_its_session(app: &App) {
    let token = app.register("ann@example.com").await;
    let late = code(app, &token).await;
    app.advance(Duration::from_secs(121));
    redeem(app, &late, VERIFIER).await.refused(400, "invalid_token");
    let orphan = code(app, &token).await;
    assert_eq!(app.call(&token, Method::POST, "/auth/console/logout", &Value::Null).await.status, 204);
    assert_eq!(whoami(app, &token).await.status, 401);
    redeem(app, &orphan, VERIFIER).await.refused(401, "unauthorized");
}

async fn only_who_may_make_keys_and_has_just_proved_it_may_agree(app: &App) {
    let owner = app.register("ann@example.com").await;
    app.verify(&owner, "ann@example.com").await;
    let viewer = join(app, &owner, "vic@example.com", "viewer").await;
    agree(app, &viewer).await.refused(403, "forbidden");
    let key = app.api_key(&owner).await;
    let body = json!({"name": "x", "challenge": challenge(VERIFIER)});
    key.call(app, Method::POST, AGREE, &body).await.refused(403, "forbidden");
    for (name, challenge) in [("x", "short"), ("", &"A".repeat(43)), ("x", &"=".repeat(43))] {
        let body = json!({"name": name, "challenge": challenge});
        app.call(&owner, Method::POST, AGREE, &body).await.refused(400, "bad_request");
    }
    // Who is no admin any more when the key is asked for gets none.
    let admin = join(app, &owner, "amy@example.com", "admin").await;
    let code = code(app, &admin).await;
    let id = whoami(app, &admin).await.json()["user_id"].as_str().unwrap().to_owned();
    let role =
        app.call(&owner, Method::PATCH, &format!("/v1/members/{id}"), &json!({"role": "viewer"})).await;
    assert_eq!(role.status, 200, "{}", role.text);
    redeem(app, &code, VERIFIER).await.refused(403, "forbidden");
    app.advance(Duration::from_mins(16));
    agree(app, &owner).await.refused(403, "reauthentication_required");
    app.reauthenticate(&owner).await;
    assert_eq!(agree(app, &owner).await.status, 201);
    app.settle().await;
}
