//! Timelines and lists with cursors: everything once, in order, however the pages are cut.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::receiver::Receiver;
use crate::scripted_analyzer::{Scripted, Turn, get, ingest, ingest_and_wait, send_event};
use crate::signer::Signer;

testkit::on_both!(
    a_timeline_has_everything_once_and_in_order,
    a_timeline_shows_the_kinds_that_are_named,
    events_are_listed_to_the_last,
    firings_and_deliveries_are_listed_to_the_last,
    a_cursor_belongs_to_its_list,
    an_object_says_its_type_and_name,
    an_object_is_read_with_what_is_named,
);

const QUIET: Duration = Duration::from_secs(3);

async fn read(app: &App, key: &Signer, path: &str) -> Value {
    let reply = get(app, key, path).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// All rows of a list, page by page; every page but the last is full.
async fn walk(app: &App, key: &Signer, path: &str, list: &str, limit: usize) -> Vec<Value> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let (mut rows, mut next) = (Vec::new(), path.to_owned());
    loop {
        let page = read(app, key, &next).await;
        rows.extend(page[list].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => {
                assert_eq!(page[list].as_array().unwrap().len(), limit, "{next}");
                next = format!("{path}{separator}cursor={cursor}");
            }
            None => return rows,
        }
    }
}

/// An account whose rule fires and whose webhook is told, about an object with analyses, firings and deliveries that all
/// happened at the same times.
async fn stage(stage: &Scripted) -> (Signer, Receiver) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = json!({"url": receiver.url()});
    let made = key.call(stage, Method::POST, "/v1/webhooks", &endpoint).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let rule = json!({"when": "is_scammer > 0.8", "action_type": "webhook", "cooldown_seconds": 1,
        "action_config": {"endpoint_id": made.json()["endpoint"]["id"]}});
    assert_eq!(key.call(stage, Method::POST, "/v1/rules", &rule).await.status, 201);
    stage.analyzer.always(Turn::Answer(0.9));
    for number in 0..3 {
        send_event(stage, &key, "user_1", &format!("event {number}")).await;
        stage.advance(QUIET);
        stage.settle().await;
        stage.advance(QUIET);
    }
    // At one time: several events, and a verdict that fires.
    let events: Vec<Value> =
        (0..4).map(|number| json!({"type": "event", "name": format!("same {number}")})).collect();
    let verdict = ingest(stage, &key, "user_1", &json!({"events": events, "wait": true})).await;
    assert_eq!(verdict.status, 200, "{}", verdict.text);
    stage.settle().await;
    (key, receiver)
}

fn kinds(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["kind"].as_str().unwrap()).collect()
}

async fn a_timeline_has_everything_once_and_in_order(app: &Scripted) {
    let (key, _receiver) = stage(app).await;
    let path = "/v1/objects/user_1/timeline";
    let whole = walk(app, &key, path, "items", 50).await;
    // Newest first; at one time, what follows from another comes before it. A verdict is told to nobody but its caller.
    let of_verdict = ["delivery", "firing", "analysis", "event", "event", "event", "event"];
    let of_analysis = ["delivery", "delivery", "firing", "analysis", "event"];
    let expected: Vec<&str> = of_verdict.into_iter().chain([of_analysis; 3].concat()).collect();
    assert_eq!(kinds(&whole), expected);
    let times: Vec<&str> = whole.iter().map(|item| item["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    let names = |items: &[Value]| -> Vec<String> {
        let events = items.iter().filter(|item| item["kind"] == "event");
        events.map(|item| item["event"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&whole), ["same 3", "same 2", "same 1", "same 0", "event 2", "event 1", "event 0"]);
    for limit in [1, 2, 3, 4, 5, 7, 21, 22, 23] {
        let cut = walk(app, &key, &format!("{path}?limit={limit}"), "items", limit).await;
        assert_eq!(cut, whole, "in pages of {limit}");
    }
    // Each has its record under the name of its kind, the one that its own list has.
    let firings = read(app, &key, "/v1/rule_firings?object_id=user_1").await;
    assert_eq!(whole[1]["firing"], firings["firings"][0]);
    assert_eq!(whole[1]["id"], firings["firings"][0]["id"]);
    let deliveries = read(app, &key, "/v1/webhook_deliveries").await;
    let listed: BTreeSet<String> =
        deliveries["deliveries"].as_array().unwrap().iter().map(Value::to_string).collect();
    for item in whole.iter().filter(|item| item["kind"] == "delivery") {
        assert!(listed.contains(&item["delivery"].to_string()), "{item}");
        assert_eq!(item["at"], item["delivery"]["created_at"]);
    }
    let answers = read(app, &key, "/v1/objects/user_1/answers").await;
    assert_eq!(whole[2]["analysis"], answers["analyses"][0]);
    let events = read(app, &key, "/v1/objects/user_1/events").await;
    assert_eq!(whole[3], json!({"kind": "event", "at": whole[3]["at"], "event": events["events"][0]}));
}

async fn a_timeline_shows_the_kinds_that_are_named(app: &Scripted) {
    let (key, _receiver) = stage(app).await;
    let path = "/v1/objects/user_1/timeline";
    let some = walk(app, &key, &format!("{path}?kinds=analysis,firing&limit=3"), "items", 3).await;
    assert_eq!(kinds(&some), [["firing", "analysis"]; 4].concat());
    assert_eq!(walk(app, &key, &format!("{path}?kinds=delivery&limit=2"), "items", 2).await.len(), 7);
    for (wrong, message) in [
        ("kinds=nonsense", "kinds: each must be one of label, delivery, firing, analysis, event"),
        ("kinds=event,", "kinds: each must be one of label, delivery, firing, analysis, event"),
        ("limit=0", "limit: it must be from 1 to 200"),
        ("limit=201", "limit: it must be from 1 to 200"),
        ("cursor=x", "cursor: does not belong to this list"),
    ] {
        let refused = get(app, &key, &format!("{path}?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}");
        let said = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.starts_with(message.split(" delivery").next().unwrap()), "{said}");
    }
    assert_eq!(get(app, &key, "/v1/objects/nobody/timeline").await.status, 404);
    let other = app.account("bob@example.com").await;
    assert_eq!(get(app, &other, path).await.status, 404);
    // With its object, its timeline ends.
    assert_eq!(key.call(app, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    assert_eq!(get(app, &key, path).await.status, 404);
    send_event(app, &key, "user_1", "another").await;
    assert_eq!(kinds(&walk(app, &key, path, "items", 50).await), ["event"]);
    app.advance(QUIET);
    app.settle().await;
}

async fn events_are_listed_to_the_last(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    // 450 events at 9 times, out of order.
    for batch in 0..9 {
        let at = format!("2026-01-0{}T00:00:00Z", [5, 1, 9, 3, 3, 7, 2, 5, 8][batch]);
        let events: Vec<Value> = (0..50)
            .map(|number| json!({"type": "event", "name": format!("{batch}-{number}"), "occurred_at": at}))
            .collect();
        assert_eq!(ingest(app, &key, "user_1", &json!({"events": events})).await.status, 202);
    }
    let first = read(app, &key, "/v1/objects/user_1/events").await;
    assert_eq!(first["events"].as_array().unwrap().len(), 200);
    assert_eq!((&first["events"][0]["name"], &first["events"][199]["name"]), (&json!("2-49"), &json!("7-0")));
    let all = walk(app, &key, "/v1/objects/user_1/events", "events", 200).await;
    assert_eq!(all.len(), 450);
    let names: BTreeSet<&str> = all.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 450, "each once");
    assert!(all.is_sorted_by(|one, next| one["occurred_at"].as_str() >= next["occurred_at"].as_str()));
    assert_eq!(read(app, &key, "/v1/objects/nobody/events").await, json!({"events": []}));
    app.advance(QUIET);
    app.settle().await;
}

async fn firings_and_deliveries_are_listed_to_the_last(app: &Scripted) {
    let (key, _receiver) = stage(app).await;
    for path in ["/v1/rule_firings?limit=", "/v1/rule_firings?object_id=user_1&limit="] {
        let whole = walk(app, &key, &format!("{path}50"), "firings", 50).await;
        assert_eq!(whole.len(), 4);
        for limit in 1..=5 {
            assert_eq!(walk(app, &key, &format!("{path}{limit}"), "firings", limit).await, whole);
        }
    }
    for path in ["/v1/webhook_deliveries?limit=", "/v1/webhook_deliveries?status=delivered&limit="] {
        let whole = walk(app, &key, &format!("{path}50"), "deliveries", 50).await;
        assert_eq!(whole.len(), 7);
        for limit in [1, 2, 3, 6, 7] {
            assert_eq!(walk(app, &key, &format!("{path}{limit}"), "deliveries", limit).await, whole);
        }
    }
}

async fn a_cursor_belongs_to_its_list(app: &Scripted) {
    let (key, _receiver) = stage(app).await;
    let cursor = async |path: &str| read(app, &key, path).await["next_cursor"].as_str().unwrap().to_owned();
    let firings = cursor("/v1/rule_firings?limit=1").await;
    let deliveries = cursor("/v1/webhook_deliveries?limit=1").await;
    let timeline = cursor("/v1/objects/user_1/timeline?limit=1").await;
    assert_eq!(ingest_and_wait(app, &key, "user_2", "x").await.status, 200);
    // While somebody receives what it fires.
    app.settle().await;
    for path in [
        format!("/v1/rule_firings?object_id=user_1&cursor={firings}"),
        format!("/v1/rule_firings?cursor={deliveries}"),
        format!("/v1/webhook_deliveries?status=dead&cursor={deliveries}"),
        format!("/v1/webhook_deliveries?cursor={timeline}"),
        format!("/v1/objects/user_1/timeline?kinds=event&cursor={timeline}"),
        format!("/v1/objects/user_2/timeline?cursor={timeline}"),
        format!("/v1/objects/user_1/events?cursor={timeline}"),
        "/v1/objects/user_1/events?cursor=%F0%9F%99%82".to_owned(),
    ] {
        let refused = get(app, &key, &path).await;
        assert_eq!(refused.json()["error"]["message"], "cursor: does not belong to this list", "{path}");
        assert_eq!(refused.status, 400);
    }
}

async fn an_object_says_its_type_and_name(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let named = json!({"object_type": "seller", "events": [{"type": "event", "name": "x", "metadata": {"name": "Kim"}}]});
    assert_eq!(ingest(app, &key, "user_1", &named).await.status, 202);
    send_event(app, &key, "user_2", "x").await;
    let shown = read(app, &key, "/v1/objects/user_1").await;
    assert_eq!((&shown["object_type"], &shown["display_name"]), (&json!("seller"), &json!("Kim")));
    let shown = read(app, &key, "/v1/objects/user_2").await;
    assert_eq!((&shown["object_type"], shown.get("display_name")), (&json!("object"), None));
    app.advance(QUIET);
    app.settle().await;
}

async fn an_object_is_read_with_what_is_named(app: &Scripted) {
    let (key, _receiver) = stage(app).await;
    let label =
        key.call(app, Method::PUT, "/v1/objects/user_1/labels/is_scammer", &json!({"value": true})).await;
    assert_eq!(label.status, 200, "{}", label.text);
    let alone = read(app, &key, "/v1/objects/user_1").await;
    assert!(alone.get("labels").is_none() && alone.get("timeline").is_none(), "{alone}");
    let with = read(app, &key, "/v1/objects/user_1?include=labels,timeline").await;
    assert_eq!(with["analysis"], alone["analysis"]);
    assert_eq!(with["labels"], json!([label.json()]));
    assert_eq!(with["timeline"], read(app, &key, "/v1/objects/user_1/timeline").await);
    let events = read(app, &key, "/v1/objects/user_1?include=timeline&kinds=event").await;
    assert_eq!(events["timeline"], read(app, &key, "/v1/objects/user_1/timeline?kinds=event").await);
    assert_ne!(events["timeline"], with["timeline"]);
    let labels = read(app, &key, "/v1/objects/user_1?include=%20labels").await;
    assert!(labels["labels"].is_array() && labels.get("timeline").is_none());
    assert!(read(app, &key, "/v1/objects/user_1?include=").await.get("labels").is_none());
    let refused = get(app, &key, "/v1/objects/user_1?include=labels,events").await;
    let message = refused.refused(400, "bad_request");
    assert_eq!(message, "include: it may name labels, timeline, separated by commas");
    get(app, &key, "/v1/objects/nobody?include=timeline").await.refused(404, "not_found");
}
