//! What comes along with another record by `include`: the same as from its own route, for whoever may call that.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::members::join;

testkit::on_both!(
    the_caller_is_read_with_what_is_named,
    queues_are_read_with_signals_and_rules,
    the_quality_of_a_signal_is_read_with_its_versions_and_escalation,
);

async fn read(app: &App, token: &str, path: &str) -> Value {
    let reply = app.call(token, Method::GET, path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    reply.json()
}

async fn refused(app: &App, token: &str, path: &str, status: u16, code: &str) -> String {
    app.call(token, Method::GET, path, &Value::Null).await.refused(status, code)
}

async fn the_caller_is_read_with_what_is_named(app: &App) {
    let token = app.register("ann@example.com").await;
    let alone = read(app, &token, "/v1/me").await;
    let all = "/v1/me?include=settings,identities,mfa,passkeys,sessions,notifications";
    let mut with = read(app, &token, all).await;
    let parts = [
        ("settings", read(app, &token, "/v1/settings").await),
        ("identities", read(app, &token, "/v1/me/identities").await),
        ("mfa", read(app, &token, "/v1/me/mfa").await),
        ("passkeys", read(app, &token, "/v1/me/passkeys").await["passkeys"].take()),
        ("sessions", read(app, &token, "/v1/me/sessions").await["sessions"].take()),
        ("notifications", read(app, &token, "/v1/me/notifications").await),
    ];
    for (name, part) in parts {
        assert_eq!(with.as_object_mut().unwrap().remove(name), Some(part), "{name}");
        assert!(alone.get(name).is_none(), "{name}");
    }
    assert_eq!(with, alone);
    let message = refused(app, &token, "/v1/me?include=password", 400, "bad_request").await;
    assert_eq!(
        message,
        "include: it may name settings, identities, mfa, passkeys, sessions, notifications, separated by commas"
    );

    let key = app.api_key(&token).await;
    let settings = key.call(app, Method::GET, "/v1/me?include=settings", &Value::Null).await;
    assert_eq!(settings.json()["settings"], read(app, &token, "/v1/settings").await);
    for name in ["identities", "mfa", "passkeys", "sessions", "notifications"] {
        let path = format!("/v1/me?include={name}");
        key.call(app, Method::GET, &path, &Value::Null).await.refused(403, "forbidden");
    }
}

async fn queues_are_read_with_signals_and_rules(app: &App) {
    let token = app.register("ann@example.com").await;
    let rule = json!({"name": "Look", "when": "is_scammer > 0.5", "action_type": "review",
        "action_config": {"queue": "scams"}});
    assert_eq!(app.call(&token, Method::POST, "/v1/rules", &rule).await.status, 201);
    let viewer = join(app, &token, "vic@example.com", "viewer").await;
    let with = read(app, &viewer, "/v1/reviews/queues?include=signals,rules").await;
    assert_eq!(with["signals"], read(app, &viewer, "/v1/signals").await["signals"]);
    assert_eq!(with["rules"], read(app, &viewer, "/v1/rules").await["rules"]);
    assert_eq!(with["rules"].as_array().unwrap().len(), 1);
    let alone = read(app, &viewer, "/v1/reviews/queues").await;
    assert_eq!(alone, json!({"queues": with["queues"]}));
    refused(app, &viewer, "/v1/reviews/queues?include=reviews", 400, "bad_request").await;
}

async fn the_quality_of_a_signal_is_read_with_its_versions_and_escalation(app: &App) {
    let token = app.register("ann@example.com").await;
    let path = "/v1/signals/is_scammer/quality";
    let with = read(app, &token, &format!("{path}?include=versions,escalation")).await;
    let versions = read(app, &token, "/v1/signals/is_scammer/versions").await;
    assert_eq!(with["versions"], versions["versions"]);
    assert!(!with["versions"].as_array().unwrap().is_empty());
    assert_eq!(with["escalation"], read(app, &token, "/v1/signals/is_scammer/escalation").await);
    let alone = read(app, &token, path).await;
    assert!(alone.get("versions").is_none() && alone.get("escalation").is_none(), "{alone}");

    // Escalation says what it costs, which not everybody sees.
    let viewer = join(app, &token, "vic@example.com", "viewer").await;
    let own = refused(app, &viewer, "/v1/signals/is_scammer/escalation", 403, "forbidden").await;
    assert_eq!(refused(app, &viewer, &format!("{path}?include=escalation"), 403, "forbidden").await, own);
    let with = read(app, &viewer, &format!("{path}?include=versions")).await;
    assert_eq!(with["versions"], read(app, &viewer, "/v1/signals/is_scammer/versions").await["versions"]);
    refused(app, &viewer, "/v1/signals/nothing/quality?include=versions", 404, "not_found").await;
}
