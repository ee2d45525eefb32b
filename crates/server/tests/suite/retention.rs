//! How long raw events stay, and what outlives them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::PATIENCE;

use crate::app::App;
use crate::signer::Signer;

testkit::on_both!(
    events_go_after_some_days_and_their_counts_stay,
    events_go_once_an_analysis_has_read_them,
    a_long_history_is_folded_and_every_event_counts_once,
    a_limit_ends_what_summaries_quote,
);

const DAY: Duration = Duration::from_hours(24);

async fn stage(app: &App, settings: &Value) -> Signer {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let reply = key.call(app, Method::PATCH, "/v1/settings", settings).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    key
}

async fn send(app: &App, key: &Signer, events: Value, wait: bool) {
    let body = json!({"events": events, "wait": wait});
    let reply = key.call(app, Method::POST, "/v1/objects/user_1/events", &body).await;
    assert!(reply.status.is_success(), "{}", reply.text);
}

async fn get(app: &App, key: &Signer, path: &str) -> Value {
    key.call(app, Method::GET, path, &Value::Null).await.json()
}

async fn listed(app: &App, key: &Signer) -> usize {
    get(app, key, "/v1/objects/user_1/events").await["events"].as_array().unwrap().len()
}

async fn events_go_after_some_days_and_their_counts_stay(app: &App) {
    let key = stage(app, &json!({"event_retention": "days", "event_retention_days": 2})).await;
    send(app, &key, json!([{"type": "message", "content": "old"}, {"type": "event", "name": "sale"}]), true)
        .await;
    app.advance(DAY);
    send(app, &key, json!([{"type": "event", "name": "sale"}]), true).await;
    assert_eq!(listed(app, &key).await, 3);
    app.advance(DAY + Duration::from_secs(1));
    // The sweep comes within ten minutes.
    let swept = tokio::time::timeout(PATIENCE, async {
        while listed(app, &key).await != 1 {
            app.advance(Duration::from_mins(10));
        }
    });
    swept.await.expect("old events go");
    let state = get(app, &key, "/v1/objects/user_1/state").await;
    assert_eq!(state["compacted_events"], 2);
    assert_eq!(state["compacted_state"]["by_action"], json!({"sale": 1}));
    assert!(state["compacted_state"].get("sample_messages").is_none(), "no text outlives its limit");
    let object = get(app, &key, "/v1/objects/user_1").await;
    assert_eq!(
        (&object["event_count"], &object["pending"]),
        (&json!(3), &json!([])),
        "counts and answers stay"
    );
}

async fn events_go_once_an_analysis_has_read_them(app: &App) {
    let key = stage(app, &json!({"event_retention": "after_analysis"})).await;
    send(app, &key, json!([{"type": "message", "content": "a"}, {"type": "event", "name": "b"}]), false)
        .await;
    assert_eq!(listed(app, &key).await, 2);
    app.advance(Duration::from_secs(3));
    app.settle().await;
    assert_eq!(listed(app, &key).await, 0);
    send(app, &key, json!([{"type": "event", "name": "b"}]), true).await;
    assert_eq!(listed(app, &key).await, 0, "a verdict reads them too");
    let state = get(app, &key, "/v1/objects/user_1/state").await;
    assert_eq!(state["compacted_events"], 3);
    assert_eq!(state["compacted_state"]["by_action"], json!({"b": 2}));
    assert_eq!(get(app, &key, "/v1/objects/user_1").await["event_count"], 3);
}

async fn a_long_history_is_folded_and_every_event_counts_once(app: &App) {
    let key = stage(app, &json!({})).await;
    let mut sent = 0;
    for batch in [450, 500, 3, 120] {
        let events: Vec<Value> =
            (0..batch).map(|n| json!({"type": "event", "name": format!("action_{}", n % 3)})).collect();
        send(app, &key, json!(events), false).await;
        sent += batch;
        app.advance(Duration::from_secs(3));
        app.settle().await;
        let state = get(app, &key, "/v1/objects/user_1/state").await;
        let folded = state["compacted_events"].as_i64().unwrap();
        assert_eq!(folded, i64::from(sent - 200), "all but the 200 newest");
        let counted: i64 = state["compacted_state"]["by_action"]
            .as_object()
            .unwrap()
            .values()
            .map(|n| n.as_i64().unwrap())
            .sum();
        assert_eq!(counted, folded);
    }
    assert_eq!(listed(app, &key).await, 200, "the list shows 200 at most");
}

async fn a_limit_ends_what_summaries_quote(app: &App) {
    for (email, limit) in [
        ("ann@example.com", json!({"event_retention": "days", "event_retention_days": 30})),
        ("bob@example.com", json!({"event_retention": "after_analysis"})),
    ] {
        let token = app.register(email).await;
        let key = app.api_key(&token).await;
        let messages: Vec<Value> =
            (0..250).map(|n| json!({"type": "message", "content": format!("text {n}")})).collect();
        send(app, &key, json!(messages), false).await;
        app.advance(Duration::from_secs(3));
        app.settle().await;
        let before = get(app, &key, "/v1/objects/user_1/state").await;
        assert_eq!(before["compacted_state"]["sample_messages"].as_array().unwrap().len(), 8);
        let reply = key.call(app, Method::PATCH, "/v1/settings", &limit).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        // Neither time passes nor an analysis runs.
        let ended = tokio::time::timeout(PATIENCE, async {
            loop {
                let state = get(app, &key, "/v1/objects/user_1/state").await;
                if state["compacted_state"].get("sample_messages").is_none() {
                    break state;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let after = ended.await.expect("quotes go at once");
        let mut expected = before;
        expected["compacted_state"].as_object_mut().unwrap().remove("sample_messages");
        assert_eq!(after, expected, "everything else stays");
    }
}
