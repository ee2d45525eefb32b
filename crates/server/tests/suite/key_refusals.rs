//! Why requests were refused: the owner of a key learns it, the log says it, and the answer does not.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, Reply};
use crate::log_watch;
use crate::scripted_analyzer::until;
use crate::signer::Signer;

testkit::on_both!(
    every_cause_is_told_to_the_owner_and_to_nobody_else,
    requests_of_a_minute_are_one_entry_with_a_count,
    an_account_keeps_a_hundred_entries_and_a_week,
    a_flood_with_unknown_keys_leaves_nothing,
    the_log_says_why_beside_the_request,
    members_below_admin_and_keys_do_not_see_them,
    another_node_s_entries_are_seen,
);

const UNAUTHORIZED: &str = r#"{"error":{"code":"unauthorized","message":"unauthorized"}}"#;

async fn make(app: &App, token: &str, body: &Value) -> (String, Signer) {
    let reply = app.call(token, Method::POST, "/v1/api_keys", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let signer = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    (made["api_key"]["id"].as_str().unwrap().to_owned(), signer)
}

async fn refusals(app: &App, token: &str) -> Vec<Value> {
    let reply = app.call(token, Method::GET, "/v1/key_refusals", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let listed = reply.json();
    assert_eq!(listed.as_object().unwrap().len(), 1, "nothing but the list: {listed}");
    listed["refusals"].as_array().unwrap().clone()
}

/// A token of this key with these claims beside those of a good one.
fn token(app: &App, signer: &Signer, other: &Value) -> String {
    let now = app.now().seconds();
    let mut claims = json!({"iat": now, "exp": now + 60, "htm": "GET", "htu": "/v1/me"});
    for (name, value) in other.as_object().unwrap() {
        claims[name] = value.clone();
    }
    signer.token(&json!({"alg": "HS256", "typ": "JWT", "kid": signer.key}), &claims)
}

async fn me(app: &App, query: &str, token: &str) -> Reply {
    app.call(token, Method::GET, &format!("/v1/me{query}"), &Value::Null).await
}

#[track_caller]
fn says_nothing(reply: &Reply) {
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (401, UNAUTHORIZED));
}

/// The newest refusal, which must be the only one of its cause.
async fn newest(app: &App, console: &str, cause: &str) -> Value {
    let all = refusals(app, console).await;
    let of_cause: Vec<&Value> = all.iter().filter(|refusal| refusal["cause"] == cause).collect();
    assert_eq!(of_cause.len(), 1, "{cause} in {all:#?}");
    assert_eq!(of_cause[0]["count"], 1, "{cause}");
    assert_eq!(of_cause[0]["address"], "127.0.0.1");
    of_cause[0].clone()
}

async fn every_cause_is_told_to_the_owner_and_to_nobody_else(app: &App) {
    let console = app.register("ada@acme.example").await;
    let other = app.register("bea@other.example").await;
    let (id, signer) = make(app, &console, &json!({"name": "shop"})).await;
    let now = app.now().seconds();
    let causes = [
        ("clock", json!({"iat": now - 300, "exp": now - 240}), "made 300 s ago and ended 240 s ago"),
        ("lifetime", json!({"exp": now + 3_600}), "exp is 3600 s after iat"),
        ("method", json!({"htm": "POST"}), r#"htm is "POST", and the request was GET"#),
        (
            "path",
            json!({"htu": "/v1/you\u{0}"}),
            r#"htu is "/v1/you\0", and the decoded path of the request was "/v1/me""#,
        ),
        ("claims", json!({"iat": "now"}), "iat and exp must be numbers"),
    ];
    for (cause, claims, detail) in causes {
        let reply = me(app, "", &token(app, &signer, &claims)).await;
        says_nothing(&reply);
        let refusal = newest(app, &console, cause).await;
        assert!(refusal["detail"].as_str().unwrap().contains(detail), "{refusal}");
        assert_eq!((&refusal["key_id"], &refusal["key"]), (&json!(id), &json!(signer.key)));
        assert_eq!(refusal["name"], "shop");
        assert_eq!(refusal["request_id"], reply.headers["x-request-id"].to_str().unwrap());
    }
    let forger = Signer::new(&signer.key, "sk_0123456789abcdef0123456789abcdef");
    says_nothing(&me(app, "", &token(app, &forger, &json!({"iat": now - 300, "exp": now - 240}))).await);
    let forged = newest(app, &console, "signature").await;
    assert_eq!(forged.get("detail"), None, "what a forger says is not repeated: {forged}");

    says_nothing(&me(app, "?api_key=ak_other", &token(app, &signer, &json!({}))).await);
    newest(app, &console, "key_mismatch").await;
    let good = token(app, &signer, &json!({}));
    says_nothing(&me(app, "?token=x", &good).await);
    newest(app, &console, "token_in_query").await;

    let (_, reader) = make(app, &console, &json!({"name": "reader", "scopes": ["read"]})).await;
    let reply = reader.call(app, Method::POST, "/v1/objects/a/events", &json!({"events": []})).await;
    assert_eq!(reply.status, 403, "{}", reply.text);
    let refusal = newest(app, &console, "scope").await;
    assert_eq!(refusal["detail"], "this needs a key with the scope ingest");

    let (_, bearer) = make(app, &console, &json!({"kind": "bearer", "scopes": ["moderate"]})).await;
    says_nothing(&me(app, "", &token(app, &bearer, &json!({}))).await);
    newest(app, &console, "not_for_signing").await;

    let path = format!("/v1/api_keys/{id}");
    let off = app.call(&console, Method::PATCH, &path, &json!({"status": "inactive"})).await;
    assert_eq!(off.status, 200, "{}", off.text);
    says_nothing(&me(app, "", &good).await);
    newest(app, &console, "inactive").await;
    assert_eq!(app.call(&console, Method::DELETE, &path, &Value::Null).await.status, 204);
    says_nothing(&me(app, "", &good).await);
    let revoked = newest(app, &console, "revoked").await;
    assert_eq!((&revoked["key"], &revoked["name"]), (&json!(signer.key), &json!("shop")));

    assert!(refusals(app, &other).await.is_empty(), "another account sees none of it");
}

async fn requests_of_a_minute_are_one_entry_with_a_count(app: &App) {
    let console = app.register("ada@acme.example").await;
    let (_, signer) = make(app, &console, &json!({})).await;
    let wrong = json!({"htm": "POST"});
    for _ in 0..5 {
        says_nothing(&me(app, "", &token(app, &signer, &wrong)).await);
    }
    let listed = refusals(app, &console).await;
    assert_eq!((listed.len(), &listed[0]["count"]), (1, &json!(5)));
    says_nothing(&me(app, "", &token(app, &signer, &wrong)).await);
    assert_eq!(refusals(app, &console).await[0]["count"], 6, "what was written is added to");
    app.advance(Duration::from_mins(1));
    let last = me(app, "", &token(app, &signer, &wrong)).await;
    let listed = refusals(app, &console).await;
    assert_eq!(listed.iter().map(|row| row["count"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 6]);
    assert_eq!(listed[0]["request_id"], last.headers["x-request-id"].to_str().unwrap());
}

async fn an_account_keeps_a_hundred_entries_and_a_week(app: &App) {
    let console = app.register("ada@acme.example").await;
    let (_, signer) = make(app, &console, &json!({})).await;
    for _ in 0..105 {
        says_nothing(&me(app, "", &token(app, &signer, &json!({"htm": "POST"}))).await);
        app.advance(Duration::from_mins(1));
    }
    let listed = refusals(app, &console).await;
    assert_eq!(listed.len(), 100);
    let oldest = listed[99]["at"].as_str().unwrap();
    assert!(oldest.starts_with("2026-01-01T00:05:00"), "the newest are kept: {oldest}");
    // The session lasts a day, so a week later somebody signs in again.
    app.advance(Duration::from_hours(7 * 24 + 1));
    let body = json!({"email": "ada@acme.example", "password": crate::app::PASSWORD});
    let console = app.post("/auth/console/login", &body).await.json()["token"].as_str().unwrap().to_owned();
    until("the old entries are gone", async || {
        app.sweeper_has_swept().await;
        refusals(app, &console).await.is_empty()
    })
    .await;
}

async fn a_flood_with_unknown_keys_leaves_nothing(app: &App) {
    let console = app.register("ada@acme.example").await;
    let unknown = Signer::new("ak_nobody", "sk_0123456789abcdef0123456789abcdef");
    for _ in 0..20 {
        says_nothing(&me(app, "", &token(app, &unknown, &json!({}))).await);
    }
    for nonsense in ["a.b.c", "bk_unknown", "no key at all, but long enough"] {
        says_nothing(&me(app, "", nonsense).await);
    }
    assert!(refusals(app, &console).await.is_empty());
}

async fn the_log_says_why_beside_the_request(app: &App) {
    let console = app.register("ada@acme.example").await;
    let (id, signer) = make(app, &console, &json!({})).await;
    let reply = me(app, "", &token(app, &signer, &json!({"htm": "POST"}))).await;
    says_nothing(&reply);
    let lines = log_watch::lines_about(reply.headers["x-request-id"].to_str().unwrap());
    let expected = format!("key {id}: method");
    assert!(lines.iter().any(|line| line.contains(&expected)), "{expected} in {lines:#?}");
    let body = json!({"email": "ada@acme.example", "password": "a wrong password, surely"});
    let reply = app.post("/auth/console/login", &body).await;
    says_nothing(&reply);
    let lines = log_watch::lines_about(reply.headers["x-request-id"].to_str().unwrap());
    assert!(lines.iter().any(|line| line.contains("the password is wrong")), "{lines:#?}");
}

async fn members_below_admin_and_keys_do_not_see_them(app: &App) {
    let console = app.register("ada@acme.example").await;
    let (_, signer) = make(app, &console, &json!({})).await;
    let reply = signer.call(app, Method::GET, "/v1/key_refusals", &Value::Null).await;
    reply.refused(403, "forbidden");
    says_nothing(&app.get("/v1/key_refusals").await);
}

async fn another_node_s_entries_are_seen(app: &App) {
    let console = app.register("ada@acme.example").await;
    let (_, signer) = make(app, &console, &json!({})).await;
    let node = app.second_node(&[]).await;
    says_nothing(&me(&node, "", &token(app, &signer, &json!({"htm": "POST"}))).await);
    // The other node writes by itself, within a second or when it stops.
    node.stop().await;
    assert_eq!(refusals(app, &console).await.len(), 1);
}
