//! What nobody should send about objects, signals and questions: it is refused or taken, and nothing breaks.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::{App, Reply};
use crate::registration::refuses_nonsense;
use crate::scripted_analyzer::event;

testkit::on_both!(
    bodies_of_nonsense_break_nothing,
    events_and_questions_of_nonsense_break_nothing,
    ids_of_nonsense_break_nothing,
    queries_of_nonsense_break_nothing,
);

const QUIET: Duration = Duration::from_secs(3);

async fn bodies_of_nonsense_break_nothing(app: &App) {
    let signal =
        json!({"type": "score", "instructions": "How?", "criteria": ["low", "high"], "enabled": true});
    let events = json!([event("x")]);
    let good = [
        (Method::POST, "/v1/objects/user_1/events", json!({"events": events, "object_type": "user"})),
        (
            Method::POST,
            "/v1/objects/user_1/ingest",
            json!({"events": events, "wait": true, "signals": ["is_scammer"], "include_history": true}),
        ),
        (
            Method::POST,
            "/v1/playground",
            json!({"events": events, "object_type": "user", "signals": ["is_scammer"]}),
        ),
        (
            Method::POST,
            "/v1/systemone",
            json!({"model": "any", "state": "x", "questions": {"a": {"type": "noul"}}}),
        ),
        (Method::PUT, "/v1/signals/how", signal),
    ];
    for (number, (method, path, body)) in good.into_iter().enumerate() {
        // An account for each: a session does not last as long as all the nonsense.
        let token = app.register(&format!("ann{number}@example.com")).await;
        refuses_nonsense(app, Some(&token), method, path, &body).await;
    }
}

/// JSON that no field of an event or a question wants.
const NONSENSE: [&str; 17] = [
    "null",
    "true",
    "-1",
    "1e999",
    "[]",
    "{}",
    "[[[{}]]]",
    r#""""#,
    r#""\u0000""#,
    r#"{"\u0000": 1}"#,
    r#"{"a": ["b", {"c": "\u0000"}]}"#,
    r#""\ud800""#,
    r#""\u0001\u007f\u0085\u202e""#,
    r#""9999-12-31T23:59:59.999999999+23:59""#,
    r#""-262144-01-01T00:00:00Z""#,
    r#"{"a": 1, "a": 2}"#,
    r#"["", "", null, 5]"#,
];

#[track_caller]
fn survived(reply: &Reply, sent: &str) {
    assert!(reply.status.as_u16() < 500, "{sent}: {} {}", reply.status, reply.text);
    assert_ne!(reply.status, 401, "{sent}");
    // As JSON and as a part of an address.
    if sent.contains(r"\u0000") || sent.contains("%00") {
        reply.refused(400, "bad_request");
    }
}

async fn events_and_questions_of_nonsense_break_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    let event = |field: &str, nonsense: &str| {
        let mut members = vec![(r"type", r#""message""#), ("content", r#""hello""#)];
        members.retain(|(name, _)| *name != field);
        members.push((field, nonsense));
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!(r#""{name}": {value}"#)).collect();
        format!("{{{}}}", members.join(", "))
    };
    for nonsense in NONSENSE {
        let mut requests = Vec::new();
        for field in ["type", "name", "content", "metadata", "occurred_at", "unknown"] {
            let events = format!("[{}]", event(field, nonsense));
            requests.push(("/v1/objects/user_1/events", format!(r#"{{"events": {events}, "wait": true}}"#)));
            requests.push(("/v1/objects/user_2/events", format!(r#"{{"events": {events}}}"#)));
            requests.push(("/v1/playground", format!(r#"{{"events": {events}}}"#)));
        }
        for (kind, field) in [
            ("noul", "instructions"),
            ("noul", "criteria"),
            ("score", "criteria"),
            ("choice", "criteria"),
            ("score", "unknown"),
        ] {
            let question = format!(r#"{{"type": "{kind}", "{field}": {nonsense}}}"#);
            requests
                .push(("/v1/systemone", format!(r#"{{"state": "x", "questions": {{"a": {question}}}}}"#)));
        }
        for (path, body) in requests {
            let request = app.request(Method::POST, path).bearer_auth(&token);
            let reply = app.send(request.header("content-type", "application/json").body(body.clone())).await;
            survived(&reply, &format!("{path} {body}"));
        }
    }
    app.advance(QUIET);
}

async fn ids_of_nonsense_break_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    let mut ids: Vec<String> = [
        "%00",
        "a%00b",
        "%00%00",
        "%01",
        "%0A",
        "%7F",
        "%C2%85",
        "%FF",
        "%ED%A0%80",
        "%F0%9F%98%80",
        "%25",
        "%2500",
        "%2F",
        "a%2F%2Fb",
        "%5C",
        "%27%20OR%201%3D1%3B--",
        "%E2%80%AE",
        "%EF%BB%BF",
        "%3Fq=1",
        "%23",
        "+",
        ";",
        "*",
    ]
    .map(str::to_owned)
    .into();
    ids.extend(["x".repeat(255), "x".repeat(256), "%F0%9F%98%80".repeat(255), "%F0%9F%98%80".repeat(256)]);
    let events = json!({"events": [event("x")]});
    let signal = json!({"type": "noul", "instructions": "Is it?"});
    for id in ids {
        let routes = [
            (Method::POST, format!("/v1/objects/{id}/events"), &events),
            (Method::POST, format!("/v1/objects/{id}/ingest"), &events),
            (Method::GET, format!("/v1/objects/{id}/events"), &Value::Null),
            (Method::GET, format!("/v1/objects/{id}/state"), &Value::Null),
            (Method::POST, format!("/v1/objects/{id}/analyze"), &Value::Null),
            (Method::GET, format!("/v1/objects/{id}"), &Value::Null),
            (Method::DELETE, format!("/v1/objects/{id}"), &Value::Null),
            (Method::PUT, format!("/v1/signals/{id}"), &signal),
            (Method::GET, format!("/v1/signals/{id}/backfill"), &Value::Null),
            (Method::POST, format!("/v1/signals/{id}/backfill"), &Value::Null),
            (Method::DELETE, format!("/v1/signals/{id}"), &Value::Null),
        ];
        for (method, path, body) in routes {
            let reply = app.call(&token, method.clone(), &path, body).await;
            survived(&reply, &format!("{method} {path}"));
        }
    }
    app.advance(QUIET);
}

async fn queries_of_nonsense_break_nothing(app: &App) {
    let token = app.register("ann@example.com").await;
    let values = [
        "",
        "%00",
        "a%00",
        "-1",
        "0",
        "1.5",
        "1e999",
        "18446744073709551616",
        "NaN",
        "%FF",
        "%ED%A0%80",
        "%F0%9F%98%80",
        "%27%20OR%201%3D1%3B--",
        "%25",
        "_",
        "*",
        "%22",
        "is_scammer%3E%3E1",
        "is_scammer%3E1e999",
        "is_scammer%3ENaN",
        "is_scammer%3D%00",
        "buyer_intent%3D%27",
        "and%20and%20and",
        ",,,,",
        "recent%20",
        "AAAA",
        "%C2%85",
    ];
    for parameter in ["q", "sort", "limit", "offset", "cursor", "unknown"] {
        for value in values {
            let path = format!("/v1/objects?{parameter}={value}");
            let reply = app.call(&token, Method::GET, &path, &Value::Null).await;
            survived(&reply, &path);
        }
    }
    let long = format!("/v1/objects?q={}", "is_scammer%3E0,".repeat(500));
    survived(&app.call(&token, Method::GET, &long, &Value::Null).await, "a long query");
    for key in ["".as_bytes(), b"\xff", &[b'x'; 256]] {
        let request = app.request(Method::POST, "/v1/objects/user_1/events").bearer_auth(&token);
        let request = request.header("idempotency-key", key).json(&json!({"events": [event("x")]}));
        app.send(request).await.refused(400, "bad_request");
    }
}
