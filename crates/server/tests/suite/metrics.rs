//! Metrics as a scraper reads them: values that move, labels that are bounded, and a token where one is configured.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use testkit::{Backend, Stage as _};

use crate::app::App;

testkit::on_both!(what_happens_is_counted_by_route_and_outcome);

const BACKENDS: [Backend; 2] = [Backend::Sqlite, Backend::Postgres];

/// The value of a series; 0 where it has not begun.
pub(crate) fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |number| number.parse().unwrap())
}

pub(crate) async fn scrape(app: &App) -> String {
    let reply = app.get("/metrics").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    reply.text
}

async fn what_happens_is_counted_by_route_and_outcome(app: &App) {
    let recorded =
        r#"auspex_http_requests_total{method="POST",route="/v1/objects/{object_id}/events",status="202"}"#;
    let timed =
        r#"auspex_http_request_duration_seconds_count{method="POST",route="/v1/objects/{object_id}/events"}"#;
    let analyzed = r#"auspex_analyses_total{source="async",outcome="ok"}"#;
    let judged = r#"auspex_analyses_total{source="sync",outcome="ok"}"#;
    let (hit, miss) =
        (r#"auspex_object_cache_total{outcome="hit"}"#, r#"auspex_object_cache_total{outcome="miss"}"#);
    let moving = [recorded, timed, analyzed, judged, hit, miss, "auspex_recorder_batch_requests_count"];
    let before = scrape(app).await;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let path = "/v1/objects/somebody%40example.com/events";
    let mut body = json!({"events": [{"type": "event", "name": "signup"}]});
    assert_eq!(key.call(app, Method::POST, path, &body).await.status, 202);
    app.advance(Duration::from_secs(3));
    app.settle().await;
    body["wait"] = json!(true);
    assert_eq!(key.call(app, Method::POST, path, &body).await.status, 200);
    for _ in 0..2 {
        let object = "/v1/objects/somebody%40example.com";
        assert_eq!(key.call(app, Method::GET, object, &serde_json::Value::Null).await.status, 200);
    }
    app.send(app.request(Method::from_bytes(b"BREW").unwrap(), "/coffee/of/ann")).await;
    let after = scrape(app).await;
    for series in moving {
        assert!(value(&after, series) > value(&before, series), "{series} does not move:\n{after}");
    }
    let unknown = r#"auspex_http_requests_total{method="other",route="unknown",status="404"}"#;
    assert!(value(&after, unknown) >= 1.0, "{after}");
    for secret in ["somebody", "coffee", "ann@"] {
        assert!(!after.contains(secret), "paths and people are no labels: {secret}");
    }
    for told in [
        "auspex_queue_jobs{priority=\"live\"} 0",
        "auspex_queue_lag_seconds{priority=\"bulk\"} 0",
        "auspex_running_analyses{tenant=\"other\"} 0",
        "auspex_queue_deliveries 0",
        "auspex_queue_messages{channel=\"slack\"} 0",
        "auspex_database_up 1",
        "# TYPE auspex_http_request_duration_seconds histogram",
        "# TYPE auspex_store_transaction_seconds histogram",
        "# TYPE process_resident_memory_bytes gauge",
        &format!("auspex_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(after.lines().any(|line| line == told), "{told} is missing:\n{after}");
    }
    every_family_is_described(&after);
}

/// Each family has a help line, a type line and a name that follows the conventions.
#[track_caller]
fn every_family_is_described(page: &str) {
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    for (name, kind) in families {
        assert!(page.contains(&format!("# HELP {name} ")), "{name} is not described");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        assert!(name.starts_with("auspex_") || name.starts_with("process_"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_told_with_how_long() {
    for backend in BACKENDS {
        let mut app = App::start(backend, &[("AUSPEX_ROLE", "api")]).await;
        let token = app.register("ann@example.com").await;
        for object in ["a", "b"] {
            let body = json!({"events": [{"type": "event", "name": "signup"}]});
            let path = format!("/v1/objects/{object}/events");
            assert_eq!(app.call(&token, Method::POST, &path, &body).await.status, 202);
        }
        let (jobs, lag) =
            (r#"auspex_queue_jobs{priority="live"}"#, r#"auspex_queue_lag_seconds{priority="live"}"#);
        let page = scrape(&app).await;
        assert!(value(&page, jobs) < 0.5 && value(&page, lag) < 0.5, "nothing is due yet");
        app.advance(Duration::from_secs(10));
        let page = scrape(&app).await;
        assert!((value(&page, jobs) - 2.0).abs() < 0.5, "{page}");
        assert!((value(&page, lag) - 7.0).abs() < 0.5, "three seconds of ten it was not due: {page}");
        app.restart(&[]).await;
        app.settle().await;
        let page = scrape(&app).await;
        assert!(value(&page, jobs) < 0.5 && value(&page, lag) < 0.5, "{page}");
        app.strike().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_demanded_where_one_is_configured() {
    let app = App::start(Backend::Sqlite, &[("AUSPEX_METRICS_TOKEN", "let-me-see-the-numbers")]).await;
    app.get("/metrics").await.refused(401, "unauthorized");
    for wrong in ["", "let-me-see-the-number", "let-me-see-the-numbers!", "LET-ME-SEE-THE-NUMBERS"] {
        app.send(app.request(Method::GET, "/metrics").bearer_auth(wrong)).await.refused(401, "unauthorized");
    }
    let shown = app.send(app.request(Method::GET, "/metrics").bearer_auth("let-me-see-the-numbers")).await;
    assert_eq!(shown.status, 200);
    app.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_not_there_where_they_are_disabled() {
    for settings in [("AUSPEX_METRICS", "false"), ("AUSPEX_ENV", "production")] {
        let app = App::start(Backend::Sqlite, &[settings]).await;
        app.get("/metrics").await.refused(404, "not_found");
        app.strike().await;
    }
    let guarded = [("AUSPEX_ENV", "production"), ("AUSPEX_METRICS_TOKEN", "let-me-see-the-numbers")];
    let app = App::start(Backend::Sqlite, &guarded).await;
    app.get("/metrics").await.refused(401, "unauthorized");
    app.strike().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_shows_its_own() {
    let app = App::start(Backend::Sqlite, &[("AUSPEX_ROLE", "worker")]).await;
    assert!(scrape(&app).await.contains("auspex_queue_jobs"));
    app.strike().await;
}
