//! Metrics as a scraper reads them: values that move, labels that are bounded, and a token where one is configured.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage as _, TestDatabase};

use crate::app::{App, PASSWORD};
use crate::receiver::Receiver;
use crate::refusals::filled_in;
use crate::scripted_analyzer::until;
use crate::secrets_in_logs::Process;

testkit::on_both!(what_happens_is_counted_by_route_and_outcome, the_page_stays_small_however_much_is_asked);

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
    let timed = r#"auspex_http_request_duration_seconds_count{route="/v1/objects/{object_id}/events"}"#;
    let analyzed = r#"auspex_analyses_total{source="async",outcome="ok"}"#;
    let judged = r#"auspex_analyses_total{source="sync",outcome="ok"}"#;
    let (hit, miss) =
        (r#"auspex_object_cache_total{outcome="hit"}"#, r#"auspex_object_cache_total{outcome="miss"}"#);
    let written = r#"auspex_store_transactions_total{name="record",outcome="ok"}"#;
    let took = r#"auspex_store_transaction_microseconds_total{name="record"}"#;
    let batches = "auspex_recorder_batch_requests_count";
    let moving = [recorded, timed, analyzed, judged, hit, miss, written, took, batches];
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
async fn waiting_work_is_reported_with_its_lag() {
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
        app.tear_down().await;
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
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_not_there_where_they_are_disabled() {
    for settings in [("AUSPEX_METRICS", "false"), ("AUSPEX_ENV", "production")] {
        let app = App::start(Backend::Sqlite, &[settings]).await;
        app.get("/metrics").await.refused(404, "not_found");
        app.tear_down().await;
    }
    let guarded = [("AUSPEX_ENV", "production"), ("AUSPEX_METRICS_TOKEN", "let-me-see-the-numbers")];
    let app = App::start(Backend::Sqlite, &guarded).await;
    app.get("/metrics").await.refused(401, "unauthorized");
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_shows_its_own() {
    let app = App::start(Backend::Sqlite, &[("AUSPEX_ROLE", "worker")]).await;
    assert!(scrape(&app).await.contains("auspex_queue_jobs"));
    app.tear_down().await;
}

/// Series of a process that has served every route. There are about 60 routes (7 series each for their times, one for
/// each status that was answered), 140 names of transactions (2 each), and 200 others.
const MAX_SERIES: usize = 1_300;
const MAX_PAGE_BYTES: usize = 110_000;

/// A process of its own: others of this suite would count, too.
async fn the_page_stays_small_however_much_is_asked(database: &TestDatabase) {
    let receiver = Receiver::start().await;
    let settings = [
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_DEBOUNCE_MS", "1"),
        ("AUSPEX_RATE_LIMIT_PER_MINUTE", "100000"),
    ];
    let process = Process::start(database.directory(), database.url(), &settings);
    let register = async |email: &str| {
        let account = json!({"tenant_name": "Acme", "email": email, "password": PASSWORD});
        let request = process.request(Method::POST, "/auth/console/register").json(&account);
        let registered = process.send(request).await;
        assert_eq!(registered.status, 201, "{}", registered.text);
        registered.json()["token"].as_str().unwrap().to_owned()
    };
    let call = async |token: &str, method: Method, path: &str, body: &Value| {
        let request = process.request(method, path).bearer_auth(token);
        process.send(if body.is_null() { request } else { request.json(body) }).await.status.as_u16()
    };

    let document = serde_json::to_value(auspex_server::openapi_document()).unwrap();
    // What is sent is each operation's example: one of them may end the session.
    let (ann, bob) = (register("ann@example.com").await, register("bob@example.com").await);
    let mut operations = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            let body = schema.as_str().and_then(|schema| document.pointer(schema.trim_start_matches('#')));
            let body = body.map_or(Value::Null, |schema| schema["examples"][0].clone());
            let path = filled_in(template, operation);
            call(&ann, method.clone(), &path, &body).await;
            process.send(process.request(method, &path)).await;
            operations += 1;
        }
    }
    assert!(operations > 60, "{operations}");
    let webhook = json!({"url": receiver.url()});
    assert_eq!(call(&bob, Method::POST, "/v1/webhooks", &webhook).await, 201);
    for number in 0..100 {
        let path = format!("/v1/objects/user_{number}/events");
        let event = json!({"events": [{"type": "message", "content": "Is it still for sale?"}]});
        assert_eq!(call(&bob, Method::POST, &path, &event).await, 202);
        assert_eq!(call(&bob, Method::GET, &format!("/v1/objects/user_{number}"), &Value::Null).await, 200);
        assert_eq!(call(&bob, Method::GET, &format!("/nowhere/{number}"), &Value::Null).await, 404);
    }
    until("the webhooks arrive", async || receiver.count() >= 100).await;

    let page = process.send(process.request(Method::GET, "/metrics")).await.text;
    let series = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
    assert!(page.contains("auspex_webhook_deliveries_total"), "{page}");
    assert!(
        series <= MAX_SERIES && page.len() <= MAX_PAGE_BYTES,
        "{series} series in {} bytes:\n{page}",
        page.len()
    );
    process.stop();
}
