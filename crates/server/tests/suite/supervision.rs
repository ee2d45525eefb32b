//! Loops that panic: they start again, they are counted, and one that keeps failing shows.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use testkit::Backend;

use crate::app::App;
use crate::metrics::{scrape, value};
use crate::process;
use crate::receiver::Receiver;
use crate::scripted_analyzer::{send_event, until};

testkit::on_both!(
    every_loop_starts_again_and_the_service_goes_on,
    a_loop_that_keeps_failing_makes_the_process_not_ready,
);

const LOOPS: [&str; 16] = [
    "backstop",
    "chat",
    "concluder",
    "connections",
    "courier",
    "feeder",
    "heartbeat",
    "listener",
    "mailer",
    "meters",
    "recorder",
    "refusals",
    "scheduler",
    "sweeper",
    "trials",
    "unpaid",
];

async fn panics(app: &App, worker: &str) -> f64 {
    let (page, series) = (scrape(app).await, format!("auspex_worker_panics_total{{worker=\"{worker}\"}}"));
    if page.contains(&series) { value(&page, &series) } else { 0.0 }
}

async fn every_loop_starts_again_and_the_service_goes_on(app: &App) {
    let service = app.service();
    // The last ones begin when the runtime first runs them.
    until("every loop runs", async || service.health().workers() == LOOPS).await;
    // With SQLite there are no other processes to listen to.
    let is_sqlite = service.store().backend() == Backend::Sqlite;
    let struck = LOOPS.iter().filter(|worker| **worker != "listener" || !is_sqlite);
    for worker in struck {
        let before = panics(app, worker).await;
        service.health().strike(worker);
        until(&format!("the panic of the {worker} is counted"), async || panics(app, worker).await > before)
            .await;
    }
    assert_eq!(app.get("/readyz").await.status, 200);
    assert!(service.health().failing_workers().is_empty());
    // A client that has no connection yet gets one.
    assert_eq!(process::client().get(app.url("/healthz")).send().await.unwrap().status(), 200);

    // Events are recorded, analyzed and delivered, mails are sent, everything is analyzed again, and old events go.
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let receiver = Receiver::start().await;
    let made = key.call(app, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    send_event(app, &key, "user_1", "seen").await;
    app.advance(Duration::from_secs(3));
    receiver.got(1).await;
    app.settle().await;
    assert_eq!(key.call(app, Method::POST, "/v1/analyze", &json!({})).await.status, 202);
    receiver.got(2).await;
    assert!(!app.mails().await.is_empty());
    app.sweeper_has_swept().await;
}

async fn a_loop_that_keeps_failing_makes_the_process_not_ready(app: &App) {
    let service = app.service();
    for deaths in 1..=5 {
        assert_eq!(app.get("/readyz").await.status, 200, "after {} deaths", deaths - 1);
        let before = panics(app, "sweeper").await;
        service.health().strike("sweeper");
        until("it panics", async || panics(app, "sweeper").await > before).await;
    }
    let message = app.get("/readyz").await.refused(503, "not_ready");
    assert!(message.contains("\"sweeper\""), "{message}");
    assert_eq!(app.get("/healthz").await.status, 200, "it is no reason to restart the process");
}
