//! What an account may have, and how a request that does not fit is told so: by the place, in words of the interface.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};

use crate::app::App;

testkit::on_both!(
    an_account_has_at_most_a_hundred_signals,
    an_account_has_at_most_a_hundred_keys,
    a_wrong_parameter_is_named,
    a_wrong_body_is_told_where,
    an_array_is_no_object,
);

async fn an_account_has_at_most_a_hundred_signals(app: &App) {
    let token = app.register("ann@example.com").await;
    let signal = json!({"type": "noul", "instructions": "Is it?"});
    let put = async |key: String| app.call(&token, Method::PUT, &format!("/v1/signals/{key}"), &signal).await;
    // Three came with the account.
    for number in 4..=98 {
        assert_eq!(put(format!("signal_{number}")).await.status, 200);
    }
    // Two at once do not share the last places with a third.
    let racers = join_all((0..4).map(|number| put(format!("late_{number}")))).await;
    let mut statuses: Vec<u16> = racers.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 409, 409]);
    let message = put("one_more".to_owned()).await.refused(409, "conflict");
    assert_eq!(message, "an account has at most 100 signals");
    assert_eq!(put("signal_7".to_owned()).await.status, 200, "one that is there can be changed");
    let removed = app.call(&token, Method::DELETE, "/v1/signals/signal_7", &Value::Null).await;
    assert_eq!(removed.status, 204);
    assert_eq!(put("one_more".to_owned()).await.status, 200);
}

async fn an_account_has_at_most_a_hundred_keys(app: &App) {
    let token = app.register("ann@example.com").await;
    let make = async || app.call(&token, Method::POST, "/v1/api_keys", &Value::Null).await;
    let first = make().await.json();
    for _ in 2..=98 {
        assert_eq!(make().await.status, 201);
    }
    let racers = join_all((0..4).map(|_| make())).await;
    let mut statuses: Vec<u16> = racers.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 409, 409]);
    let message = make().await.refused(409, "conflict");
    assert_eq!(message, "an account has at most 100 API keys: revoke one first");
    let path = format!("/v1/api_keys/{}", first["api_key"]["id"].as_str().unwrap());
    let off = app.call(&token, Method::PATCH, &path, &json!({"status": "inactive"})).await;
    assert_eq!(off.status, 200);
    make().await.refused(409, "conflict");
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(make().await.status, 201);
}

async fn a_wrong_parameter_is_named(app: &App) {
    let token = app.register("ann@example.com").await;
    for (path, said) in [
        ("/v1/webhooks/7", "endpoint_id: it must be a UUID"),
        ("/v1/rules/7", "rule_id: it must be a UUID"),
        ("/v1/objects/%ff", "the path is not UTF-8 once it is decoded"),
        ("/v1/objects?limit=x", "limit: it must be a whole number"),
        ("/v1/objects?limit=", "limit: it must be a whole number"),
        ("/v1/objects?limit=1.5", "limit: it must be a whole number"),
        ("/v1/objects?limit=0", "limit: it must be from 1 to 200"),
        ("/v1/objects?offset=99999999999999999999", "offset: it is out of range"),
        ("/v1/objects?limit=1&limit=2", "limit: it is there more than once"),
        ("/v1/objects?q=%00", "a parameter contains U+0000"),
        (
            "/v1/webhook_deliveries?status=lost",
            "status: it must be one of: pending, delivering, delivered, dead",
        ),
        ("/v1/webhook_deliveries?endpoint_id=7", "endpoint_id: it must be a UUID"),
        ("/v1/rule_firings?rule_id=%F0%9F%A6%9C", "rule_id: it must be a UUID"),
        ("/v1/billing/ledger?batch_id=1", "batch_id: it must be a UUID"),
        ("/v1/usage?from=yesterday", "from: not a date such as 2026-01-31"),
    ] {
        let reply = app.call(&token, Method::GET, path, &Value::Null).await;
        assert_eq!(reply.refused(400, "bad_request"), said, "{path}");
    }
}

async fn a_wrong_body_is_told_where(app: &App) {
    let token = app.register("ann@example.com").await;
    let path = "/v1/objects/user_1/events";
    for (body, said) in [
        ("", "the body is empty; it must be JSON"),
        ("{", "the body is not JSON: see line 1, column 1"),
        (r#"{"events": [}"#, "the body is not JSON: see line 1, column 13"),
        ("[]", "the body must be a JSON object"),
        ("{}", "events: it is required"),
        (r#"{"events": {}}"#, "events: it must be an array"),
        (r#"{"events": [{}]}"#, "events[0].type: it is required"),
        (r#"{"events": [{"type": "shout"}]}"#, "events[0].type: it must be one of: event, message"),
        (r#"{"events": [{"type": "event", "name": 7}]}"#, "events[0].name: it must be a text"),
        (r#"{"events": [{"type": "event", "type": "event"}]}"#, "type: it is there more than once"),
        (r#"{"events": [], "wait": "yes"}"#, "wait: it must be true or false"),
        (r#"{"events": [], "signals": "all"}"#, "signals: it must be an array"),
    ] {
        let request = app.request(Method::POST, path).bearer_auth(&token).body(body);
        assert_eq!(app.send(request).await.refused(400, "bad_request"), said, "{body}");
    }
}

async fn an_array_is_no_object(app: &App) {
    let token = app.register("ann@example.com").await;
    for (path, body, said) in [
        (
            "/v1/objects/user_1/events",
            json!({"events": [["event", "signup"]]}),
            "events[0]: it must be an object",
        ),
        ("/v1/playground", json!({"events": [["event", "signup"]]}), "events[0]: it must be an object"),
        (
            "/v1/systemone",
            json!({"state": "x", "questions": {"a": ["noul"]}}),
            "questions.a: it must be an object",
        ),
        (
            "/v1/systemone",
            json!({"state": "x", "questions": [["a", {"type": "noul"}]]}),
            "questions: it must be an object",
        ),
    ] {
        let reply = app.call(&token, Method::POST, path, &body).await;
        assert_eq!(reply.refused(400, "bad_request"), said, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_in_files_is_its_owner_s_alone() {
    let mut app = App::start(Backend::Sqlite, &[]).await;
    let database = app.database_url().strip_prefix("sqlite:").unwrap().trim_start_matches("//").to_owned();
    let files = || ["", "-wal", "-shm"].map(|suffix| format!("{database}{suffix}"));
    let modes = |when: &str| {
        for file in files() {
            assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "{when}: {file}");
        }
    };
    app.register("ann@example.com").await;
    modes("made");
    assert_eq!(std::fs::metadata(app.data_directory()).unwrap().mode() & 0o777, 0o700);
    // As an earlier version may have left it.
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o644)).unwrap();
    app.restart(&[]).await;
    app.register("bob@example.com").await;
    modes("opened again");
    app.tear_down().await;
}
