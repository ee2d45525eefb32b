//! The settings of an account.

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, Reply};
use crate::login::{race, statuses};
use crate::registration::refuses_nonsense;

const PATH: &str = "/v1/settings";

testkit::on_both!(
    a_new_account_has_the_defaults,
    each_field_changes_alone,
    days_come_with_their_number_and_go_with_it,
    the_record_can_be_sent_back_as_it_is,
    an_invalid_change_names_its_field_and_changes_nothing,
    a_key_may_read_and_change_them,
    settings_are_one_account_s,
    racing_changes_of_two_fields_lose_neither,
    a_credential_is_needed,
    nonsense_changes_no_setting,
);

async fn a_new_account_has_the_defaults(app: &App) {
    let token = app.register("ann@example.com").await;
    let reply = app.call(&token, Method::GET, PATH, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json(), record(false, "forever", None));
}

async fn each_field_changes_alone(app: &App) {
    let token = app.register("ann@example.com").await;
    for (change, after) in [
        (json!({"auto_backfill_signals": true}), record(true, "forever", None)),
        (json!({"event_retention": "days", "event_retention_days": 1}), record(true, "days", Some(1))),
        (json!({"event_retention_days": 3650}), record(true, "days", Some(3650))),
        (json!({"auto_backfill_signals": false}), record(false, "days", Some(3650))),
        (json!({}), record(false, "days", Some(3650))),
        (json!({"unknown": 1}), record(false, "days", Some(3650))),
        (json!({"event_retention": "after_analysis"}), record(false, "after_analysis", None)),
        (json!({"event_retention": "forever"}), record(false, "forever", None)),
    ] {
        let reply = patch(app, &token, &change).await;
        assert_eq!(reply.status, 200, "{change}: {}", reply.text);
        assert_eq!(reply.json(), after, "{change}");
        assert_eq!(app.call(&token, Method::GET, PATH, &Value::Null).await.json(), after, "and it is kept");
    }
}

async fn days_come_with_their_number_and_go_with_it(app: &App) {
    let token = app.register("ann@example.com").await;
    for other in ["forever", "after_analysis"] {
        let reply = patch(app, &token, &json!({"event_retention": "days", "event_retention_days": 30})).await;
        assert_eq!(reply.json(), record(false, "days", Some(30)));
        let reply = patch(app, &token, &json!({"event_retention": "days"})).await;
        assert_eq!(reply.json(), record(false, "days", Some(30)), "it has its number already");
        let reply = patch(app, &token, &json!({"event_retention": other})).await;
        assert_eq!(reply.json(), record(false, other, None));
        let message =
            patch(app, &token, &json!({"event_retention": "days"})).await.refused(400, "bad_request");
        assert!(message.contains("event_retention_days"), "the old number is gone: {message}");
    }
}

async fn the_record_can_be_sent_back_as_it_is(app: &App) {
    let token = app.register("ann@example.com").await;
    for whole in
        [record(true, "days", Some(7)), record(true, "after_analysis", None), record(false, "forever", None)]
    {
        for _ in 0..2 {
            let reply = patch(app, &token, &whole).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert_eq!(reply.json(), whole);
        }
    }
}

async fn an_invalid_change_names_its_field_and_changes_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    let from_anywhere = [
        (json!({"auto_backfill_signals": "yes"}), "auto_backfill_signals"),
        (json!({"auto_backfill_signals": 1}), "auto_backfill_signals"),
        (json!({"event_retention": "weeks"}), "event_retention"),
        (json!({"event_retention": true}), "event_retention"),
        (json!({"event_retention": "days", "event_retention_days": null}), "event_retention_days"),
        (json!({"event_retention": "Days", "event_retention_days": 7}), "event_retention"),
        (json!({"event_retention": "days", "event_retention_days": 0}), "event_retention_days"),
        (json!({"event_retention": "days", "event_retention_days": -1}), "event_retention_days"),
        (json!({"event_retention": "days", "event_retention_days": 3651}), "event_retention_days"),
        (json!({"event_retention": "days", "event_retention_days": i64::MAX}), "event_retention_days"),
        (json!({"event_retention": "days", "event_retention_days": 1.5}), "event_retention_days"),
        (json!({"event_retention": "days", "event_retention_days": "7"}), "event_retention_days"),
        (json!({"event_retention": "forever", "event_retention_days": 7}), "event_retention_days"),
        (json!({"event_retention": "after_analysis", "event_retention_days": 7}), "event_retention_days"),
    ];
    let days = "event_retention_days";
    let without_days = [
        (json!({"event_retention_days": 7}), days),
        (json!({"event_retention": "days"}), days),
        (json!({"event_retention": "days", "event_retention_days": null}), days),
    ];
    let with_days = [0, -1, 3651].map(|number| (json!({"event_retention_days": number}), days));
    for (before, more) in [
        (record(false, "forever", None), without_days.clone()),
        (record(false, "after_analysis", None), without_days),
        (record(false, "days", Some(30)), with_days),
    ] {
        assert_eq!(patch(app, &token, &before).await.json(), before);
        for (change, field) in from_anywhere.iter().chain(&more) {
            let mut change = change.clone();
            // A good field beside the bad one: neither is written.
            change.as_object_mut().unwrap().entry("auto_backfill_signals").or_insert(json!(true));
            let reply = patch(app, &token, &change).await;
            assert_eq!(reply.status, 400, "{before} {change}: {}", reply.text);
            let message = reply.refused(400, "bad_request");
            assert!(message.starts_with(&format!("{field}: ")), "{change}: {message}");
            assert_eq!(app.call(&token, Method::GET, PATH, &Value::Null).await.json(), before, "{change}");
        }
    }
}

async fn a_key_may_read_and_change_them(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let reply = key.call(app, Method::PATCH, PATH, &json!({"auto_backfill_signals": true})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let reply = key.call(app, Method::GET, PATH, &Value::Null).await;
    assert_eq!(reply.json(), record(true, "forever", None));
    assert_eq!(app.call(&token, Method::GET, PATH, &Value::Null).await.json(), reply.json());
}

async fn settings_are_one_account_s(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    patch(app, &ann, &json!({"auto_backfill_signals": true, "event_retention": "after_analysis"})).await;
    let bobs = app.call(&bob, Method::GET, PATH, &Value::Null).await.json();
    assert_eq!(bobs, record(false, "forever", None));
}

async fn racing_changes_of_two_fields_lose_neither(app: &App) {
    let token = app.register("ann@example.com").await;
    let changes = [
        json!({"auto_backfill_signals": true}),
        json!({"event_retention": "days", "event_retention_days": 9}),
    ];
    let change =
        |number: usize| app.request(Method::PATCH, PATH).bearer_auth(&token).json(&changes[number % 2]);
    assert_eq!(statuses(&race(40, change).await), [(200, 40)].into());
    let after = app.call(&token, Method::GET, PATH, &Value::Null).await.json();
    assert_eq!(after, record(true, "days", Some(9)));
}

async fn a_credential_is_needed(app: &App) {
    for method in [Method::GET, Method::PATCH] {
        app.send(app.request(method.clone(), PATH)).await.refused(401, "unauthorized");
        app.call("made-up", method, PATH, &Value::Null).await.refused(401, "unauthorized");
    }
}

async fn nonsense_changes_no_setting(app: &App) {
    let token = app.register("ann@example.com").await;
    let good = json!({"auto_backfill_signals": true, "event_retention": "days", "event_retention_days": 30});
    assert_eq!(patch(app, &token, &good).await.status, 200);
    refuses_nonsense(app, Some(&token), Method::PATCH, PATH, &good).await;
    let reply = app.call(&token, Method::GET, PATH, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["event_retention"], "days");
}

fn record(auto_backfill: bool, retention: &str, days: Option<i64>) -> Value {
    json!({
        "auto_backfill_signals": auto_backfill,
        "event_retention": retention,
        "event_retention_days": days,
        "audit_rate_pct": 0.0,
        "audit_queue": "audit",
    })
}

async fn patch(app: &App, token: &str, body: &Value) -> Reply {
    app.call(token, Method::PATCH, PATH, body).await
}
