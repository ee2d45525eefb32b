//! Several processes on one PostgreSQL.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _};

use crate::app::{App, PASSWORD};
use crate::scripted_analyzer::until;

/// The worker's clock stands still, so that its poll never comes: only the word of the other process can wake it.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_woken_by_what_another_process_schedules() {
    let api = App::start(Backend::Postgres, &[("AUSPEX_ROLE", "api"), ("AUSPEX_DEBOUNCE_MS", "1")]).await;
    let worker = api.second_node(&[("AUSPEX_ROLE", "worker")]).await;
    assert_eq!(worker.get("/healthz").await.status, 200);
    worker.get("/v1/me").await.refused(404, "not_found");
    let token = api.register("ann@example.com").await;
    let key = api.api_key(&token).await;
    let body = json!({"events": [{"type": "event", "name": "signup"}]});
    assert_eq!(key.call(&api, Method::POST, "/v1/objects/user_1/events", &body).await.status, 202);
    api.advance(Duration::from_millis(1));
    // Asked for again after the clock was moved: this is what the worker hears.
    assert_eq!(key.call(&api, Method::POST, "/v1/objects/user_1/analyze", &Value::Null).await.status, 202);
    let asked = Instant::now();
    loop {
        let object = key.call(&api, Method::GET, "/v1/objects/user_1", &Value::Null).await.json();
        if object["pending"] == json!([]) {
            break;
        }
        assert!(asked.elapsed() < Duration::from_secs(10), "the worker sleeps: {object}");
    }
    // Mail has time: the worker finds it when it next looks.
    api.advance(Duration::from_secs(3));
    api.settle().await;
    worker.stop().await;
    api.tear_down().await;
}

/// Records an event by one node, moves the clock in these steps, and waits until another one has analyzed the object.
async fn analyzed_elsewhere(debounce_ms: &str, steps: &[Duration]) {
    let api =
        App::start(Backend::Postgres, &[("AUSPEX_ROLE", "api"), ("AUSPEX_DEBOUNCE_MS", debounce_ms)]).await;
    let token = api.register("ann@example.com").await;
    let key = api.api_key(&token).await;
    let worker = api.second_node(&[("AUSPEX_ROLE", "worker")]).await;
    // It has looked once, and sleeps until it is woken.
    worker.settle().await;
    let body = json!({"events": [{"type": "event", "name": "signup"}]});
    assert_eq!(key.call(&api, Method::POST, "/v1/objects/user_1/events", &body).await.status, 202);
    for step in steps {
        api.advance(*step);
    }
    until("it is analyzed", async || {
        let object = key.call(&api, Method::GET, "/v1/objects/user_1", &Value::Null).await.json();
        object["pending"] == json!([])
    })
    .await;
    worker.stop().await;
    api.tear_down().await;
}

/// The backstop reads again two seconds after it was started: only the notification can wake the worker before.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_due_soon_wakes_another_process() {
    analyzed_elsewhere("1500", &[Duration::from_millis(1_500)]).await;
}

/// Nothing is sent for it (`only_jobs_due_before_the_backstop_finds_them_are_announced` in the store).
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_nobody_announces_is_run_on_time_by_another_process() {
    analyzed_elsewhere("3000", &[Duration::from_secs(2), Duration::from_secs(1)]).await;
}

/// Another node may believe an ended session for a moment. A credential made in that moment would outlive it for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_ended_elsewhere_makes_no_key() {
    let one = App::start(Backend::Postgres, &[]).await;
    let other = one.second_node(&[]).await;
    let old = one.register("ann@example.com").await;
    assert_eq!(
        other.call(&old, Method::GET, "/v1/me", &Value::Null).await.status,
        200,
        "now it is believed there"
    );
    let change = json!({"current_password": PASSWORD, "new_password": "another good passphrase"});
    let reply = one.call(&old, Method::POST, "/v1/me/password", &change).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    other.call(&old, Method::POST, "/v1/api_keys", &json!({})).await.refused(401, "unauthorized");
    let new = reply.json()["token"].as_str().unwrap().to_owned();
    let keys = one.call(&new, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    assert_eq!(keys, json!({"api_keys": []}));
    other.settle().await;
    other.stop().await;
    one.tear_down().await;
}
