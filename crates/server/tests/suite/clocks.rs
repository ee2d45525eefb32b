//! Clocks that are wrong, or that somebody sets.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use service::{Clock, clock_offset_s};
use testkit::{Backend, Stage as _, on_both};

use crate::app::App;
use crate::scripted_analyzer::until;
use crate::signer::Signer;

on_both!(
    a_clock_that_is_ahead_for_a_moment_deletes_and_delays_nothing,
    a_clock_that_stands_by_its_time_is_believed,
);

const DAY: Duration = Duration::from_hours(24);

/// A key of an account that keeps events for 30 days.
async fn account(app: &App) -> Signer {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    keep(app, &key, 30).await;
    key
}

/// Sets for how long events are kept, which wakes the sweeper.
async fn keep(app: &App, key: &Signer, days: i64) {
    let settings = json!({"event_retention": "days", "event_retention_days": days});
    assert_eq!(key.call(app, Method::PATCH, "/v1/settings", &settings).await.status, 200);
}

async fn send(app: &App, key: &Signer, object: &str) {
    let body = json!({"events": [{"type": "event", "name": "seen"}]});
    let reply = key.call(app, Method::POST, &format!("/v1/objects/{object}/events"), &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

async fn get(app: &App, key: &Signer, path: &str) -> Value {
    key.call(app, Method::GET, path, &Value::Null).await.json()
}

async fn events(app: &App, key: &Signer, object: &str) -> usize {
    get(app, key, &format!("/v1/objects/{object}/events")).await["events"].as_array().unwrap().len()
}

/// Lets so many seconds pass, with a heartbeat after each five.
async fn pass(app: &App, seconds: u64) {
    for _ in 0..seconds.div_ceil(5) {
        app.advance(Duration::from_secs(5));
        app.heart_has_beaten().await;
    }
}

async fn a_clock_that_is_ahead_for_a_moment_deletes_and_delays_nothing(app: &App) {
    let key = account(app).await;
    send(app, &key, "old").await;
    pass(app, 120).await;
    app.settle().await;
    for ahead in [Duration::from_hours(1), DAY * 40] {
        app.set_clock_ahead(ahead);
        // The heartbeat sees it, an event comes, and somebody wakes the sweeper.
        app.heart_has_beaten().await;
        send(app, &key, "new").await;
        keep(app, &key, 20).await;
        keep(app, &key, 30).await;
        app.advance(Duration::from_secs(3));
        app.settle().await;
        assert_eq!(get(app, &key, "/v1/objects/new").await["pending"], json!([]), "it was analyzed in time");
        app.set_clock_back(ahead);
        app.heart_has_beaten().await;
        app.sweeper_has_swept().await;
        assert_eq!(events(app, &key, "old").await, 1);
    }
    assert_eq!(events(app, &key, "new").await, 2);
}

async fn a_clock_that_stands_by_its_time_is_believed(app: &App) {
    let key = account(app).await;
    send(app, &key, "old").await;
    pass(app, 120).await;
    app.settle().await;
    let before = app.now();
    app.set_clock_ahead(DAY * 40);
    app.heart_has_beaten().await;
    pass(app, 50).await;
    assert!(app.now().since(before) < Duration::from_mins(2));
    assert_eq!(events(app, &key, "old").await, 1);
    pass(app, 30).await;
    assert!(app.now().since(before) >= DAY * 40);
    until("it is swept, by a time that was confirmed", async || {
        app.advance(Duration::from_mins(10));
        events(app, &key, "old").await == 0
    })
    .await;
}

/// The database is real, and so is its clock; only this process's is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_a_wrong_clock_goes_by_the_database_s() {
    let (right, wrong) = (Clock::system(), Clock::system());
    wrong.pretend_ahead(Duration::from_hours(1));
    let app = App::start_by(Backend::Postgres, &[("AUSPEX_DEBOUNCE_MS", "1")], wrong.clone()).await;
    let off_by = |clock: &Clock| clock.now().since(right.now()) + right.now().since(clock.now());
    assert!(off_by(&wrong) < Duration::from_mins(1), "{:?}", off_by(&wrong));
    let offset = clock_offset_s(app.service().store(), &wrong).await.unwrap().unwrap();
    assert!((3_590.0..3_610.0).contains(&offset), "{offset}");
    let key = account(&app).await;
    send(&app, &key, "one").await;
    until("it is analyzed at once", async || {
        get(&app, &key, "/v1/objects/one").await["pending"] == json!([])
    })
    .await;
    // Set while it runs, it changes nothing either, and operators hear of it.
    wrong.pretend_ahead(DAY * 40);
    app.heart_has_beaten().await;
    send(&app, &key, "two").await;
    until("it is analyzed at once", async || {
        get(&app, &key, "/v1/objects/two").await["pending"] == json!([])
    })
    .await;
    assert!(off_by(&wrong) < Duration::from_mins(1), "{:?}", off_by(&wrong));
    assert_eq!(events(&app, &key, "one").await, 1);
    let shown = app.get("/metrics").await.text;
    let offset = shown.lines().find_map(|line| line.strip_prefix("auspex_clock_offset_seconds ")).unwrap();
    assert!((offset.parse::<f64>().unwrap() - 40.0 * 86_400.0).abs() < 60.0, "{offset}");
    app.tear_down().await;
}
