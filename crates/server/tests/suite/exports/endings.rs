//! How an export ends early: its client can tell, and goes on after the last row that it has.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use testkit::Backend;

use super::parse;
use crate::app::App;
use crate::scripted_analyzer::{get, ingest, until};
use crate::signer::Signer;

testkit::on_both!(
    an_export_ends_with_its_key_and_goes_on_with_another,
    an_export_ends_with_its_session,
    an_export_ends_with_a_suspension,
    an_account_runs_few_exports_at_a_time,
    an_export_that_takes_too_long_is_broken_off_and_goes_on,
);

/// More than the sockets of both sides hold, so that a client that does not read keeps the export waiting.
const EVENTS: usize = 1_200;
const CONTENT_BYTES: usize = 30 * 1024;

/// An account with more events than fit between the service and a client that does not read.
async fn full(app: &App) -> (String, Signer) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let event = json!({"type": "message", "content": "x".repeat(CONTENT_BYTES)});
    for request in 0..EVENTS / 100 {
        let events: Vec<&Value> = std::iter::repeat_n(&event, 100).collect();
        let reply = ingest(app, &key, &format!("object_{request}"), &json!({"events": events})).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    (token, key)
}

/// Begins an export and takes its first bytes.
async fn begin(app: &App, token: &str, query: &str) -> (Response, Vec<u8>) {
    let path = format!("/v1/export?what=events{query}");
    let mut response = app.request(Method::GET, &path).bearer_auth(token).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let first = response.chunk().await.unwrap().expect("there are rows");
    (response, first.to_vec())
}

/// Takes the rest of an export; none at the end if it was broken off.
async fn finish(mut response: Response, mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend(chunk),
            Ok(None) => return (bytes, true),
            Err(_) => return (bytes, false),
        }
    }
}

/// The rows that arrived whole.
fn whole_rows(bytes: &[u8]) -> Vec<Value> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    parse(std::str::from_utf8(&bytes[..end]).unwrap())
}

fn signed(app: &App, key: &Signer) -> String {
    key.sign(app.now(), &Method::GET, "/v1/export")
}

async fn an_export_ends_with_its_key_and_goes_on_with_another(app: &App) {
    let (token, key) = full(app).await;
    let (response, first) = begin(app, &signed(app, &key), "").await;
    let keys = app.call(&token, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    let path = format!("/v1/api_keys/{}", keys["api_keys"][0]["id"].as_str().unwrap());
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    let (bytes, is_whole) = finish(response, first).await;
    assert!(!is_whole, "a broken export must not look like a whole one");
    let mut rows = whole_rows(&bytes);
    assert!(!rows.is_empty() && rows.len() < EVENTS, "{} rows", rows.len());

    let key = app.api_key(&token).await;
    let cursor = format!("&cursor={}", rows.last().unwrap()["cursor"].as_str().unwrap());
    let (response, first) = begin(app, &signed(app, &key), &cursor).await;
    let (bytes, is_whole) = finish(response, first).await;
    assert!(is_whole);
    rows.extend(whole_rows(&bytes));
    let mut ids: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row["object_id"], row["seq"])).collect();
    assert_eq!(ids.len(), EVENTS);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), EVENTS, "each event once");
    app.advance(Duration::from_mins(1));
}

async fn an_export_ends_with_its_session(app: &App) {
    let (token, _) = full(app).await;
    let (response, first) = begin(app, &token, "").await;
    let out = app.call(&token, Method::POST, "/auth/console/logout", &Value::Null).await;
    assert_eq!(out.status, 204, "{}", out.text);
    let (bytes, is_whole) = finish(response, first).await;
    assert!(!is_whole);
    assert!(whole_rows(&bytes).len() < EVENTS);
    app.advance(Duration::from_mins(1));
}

async fn an_export_ends_with_a_suspension(app: &App) {
    let (_, key) = full(app).await;
    let (response, first) = begin(app, &signed(app, &key), "").await;
    let service = app.service();
    let tenant = service.accounts.operators.tenants().await.unwrap()[0].tenant_id;
    service.accounts.closure.suspend(tenant).await.unwrap();
    // Known everywhere within a second.
    until("the account is suspended", async || get(app, &key, "/v1/me").await.status == 403).await;
    let (_, is_whole) = finish(response, first).await;
    assert!(!is_whole);
    service.accounts.closure.resume(tenant).await.unwrap();
    app.advance(Duration::from_mins(1));
}

async fn an_account_runs_few_exports_at_a_time(app: &App) {
    let (token, key) = full(app).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(begin(app, &signed(app, &key), "").await);
    }
    let refused = get(app, &key, "/v1/export?what=labels").await;
    assert_eq!(
        refused.refused(429, "rate_limited"),
        "4 exports of this account are running; wait for one to end"
    );
    assert_eq!(refused.header("retry-after"), "10");
    let other = app.register("ben@example.com").await;
    let reply = app.call(&other, Method::GET, "/v1/export?what=labels", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    // What the clients of all of them do not take keeps nobody else from the database.
    assert_eq!(app.call(&token, Method::GET, "/v1/objects", &Value::Null).await.status, 200);
    open.clear();
    until("an export may run again", async || get(app, &key, "/v1/export?what=labels").await.status == 200)
        .await;
    app.advance(Duration::from_mins(1));
}

#[test]
fn a_service_that_stops_does_not_wait_for_exports() {
    testkit::in_runtime(async {
        let app = App::start(Backend::Sqlite, &[]).await;
        let (_, key) = full(&app).await;
        let taken = begin(&app, &signed(&app, &key), "").await;
        let (ignored, _) = begin(&app, &signed(&app, &key), "").await;
        app.advance(Duration::from_mins(1));
        app.settle().await;
        let reading = async {
            let (_, is_whole) = finish(taken.0, taken.1).await;
            assert!(!is_whole);
        };
        // Asserts that everything ended in time, also for the client that takes nothing.
        tokio::join!(app.stop(), reading);
        drop(ignored);
    });
}

async fn an_export_that_takes_too_long_is_broken_off_and_goes_on(app: &App) {
    let (token, _) = full(app).await;
    let (response, first) = begin(app, &token, "").await;
    app.advance(Duration::from_hours(1));
    let (bytes, is_whole) = finish(response, first).await;
    assert!(!is_whole, "a broken export must not look like a whole one");
    let mut rows = whole_rows(&bytes);
    assert!(!rows.is_empty() && rows.len() < EVENTS, "{} rows", rows.len());

    let cursor = format!("&cursor={}", rows.last().unwrap()["cursor"].as_str().unwrap());
    let (response, first) = begin(app, &token, &cursor).await;
    let (bytes, is_whole) = finish(response, first).await;
    assert!(is_whole, "the next request has an hour of its own");
    rows.extend(whole_rows(&bytes));
    let mut ids: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row["object_id"], row["seq"])).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((rows.len(), ids.len()), (EVENTS, EVENTS), "each event once");
    app.advance(Duration::from_mins(1));
}
