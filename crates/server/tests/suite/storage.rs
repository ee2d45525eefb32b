//! How many bytes of events an account may send and keep. The audit at the end of every story compares what is kept with
//! the events themselves.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, PATIENCE, Stage as _};

use crate::app::{App, PASSWORD, Reply};

const DAY: Duration = Duration::from_hours(24);

testkit::on_both!(
    storage_follows_every_event_that_comes_and_goes,
    an_audit_finds_what_was_counted_wrong,
    an_object_with_many_events_is_deleted_in_steps,
);

/// Plays a story on both databases with a limit of one mebibyte.
macro_rules! on_both_limited {
    ($($story:ident: $setting:literal),* $(,)?) => {$(
        mod $story {
            #[test]
            fn sqlite() {
                super::run_limited(testkit::Backend::Sqlite, $setting, super::$story);
            }

            #[test]
            fn postgres() {
                super::run_limited(testkit::Backend::Postgres, $setting, super::$story);
            }
        }
    )*};
}

on_both_limited!(
    bytes_a_minute_are_limited: "AUSPEX_INGEST_MIB_PER_MINUTE",
    stored_bytes_are_limited: "AUSPEX_STORAGE_QUOTA_MIB",
);

fn run_limited(backend: Backend, setting: &str, story: impl AsyncFnOnce(&App)) {
    testkit::in_runtime(async {
        let app = App::start(backend, &[(setting, "1")]).await;
        story(&app).await;
        app.tear_down().await;
    });
}

async fn stored(app: &App, token: &str) -> i64 {
    app.call(token, Method::GET, "/v1/usage", &Value::Null).await.json()["storage_bytes"].as_i64().unwrap()
}

async fn send(app: &App, token: &str, object: &str, events: Value, key: Option<&str>) -> Reply {
    let path = format!("/v1/objects/{object}/events");
    let request = app.request(Method::POST, &path).bearer_auth(token).json(&json!({"events": events}));
    app.send(if let Some(key) = key { request.header("idempotency-key", key) } else { request }).await
}

/// A session lasts for a day.
async fn sign_in(app: &App) -> String {
    let body = json!({"email": "ann@example.com", "password": PASSWORD});
    app.post("/auth/console/login", &body).await.json()["token"].as_str().unwrap().to_owned()
}

/// Events of 600 KiB together.
fn large() -> Value {
    json!(vec![json!({"type": "message", "content": "x".repeat(30 * 1024)}); 20])
}

async fn settings(app: &App, token: &str, settings: Value) {
    assert_eq!(app.call(token, Method::PATCH, "/v1/settings", &settings).await.status, 200);
}

async fn storage_follows_every_event_that_comes_and_goes(app: &App) {
    let token = app.register("ann@example.com").await;
    assert_eq!(stored(app, &token).await, 0);
    let events = json!([
        {"type": "message", "content": "grün", "metadata": {"a": "ü"}},
        {"type": "event", "name": "a name is not counted"},
    ]);
    let bytes = i64::try_from("grün".len() + r#"{"a":"ü"}"#.len()).unwrap();
    for object in ["one", "two"] {
        assert_eq!(send(app, &token, object, events.clone(), Some(object)).await.status, 202);
        // Again: nothing is recorded.
        assert_eq!(send(app, &token, object, events.clone(), Some(object)).await.status, 202);
    }
    assert_eq!(stored(app, &token).await, 2 * bytes);
    assert_eq!(app.call(&token, Method::DELETE, "/v1/objects/one", &Value::Null).await.status, 204);
    assert_eq!(stored(app, &token).await, bytes);

    app.advance(Duration::from_secs(3));
    app.settle().await;
    assert_eq!(stored(app, &token).await, bytes, "an analysis keeps them");
    settings(app, &token, json!({"event_retention": "after_analysis"})).await;
    assert_eq!(send(app, &token, "three", events.clone(), None).await.status, 202);
    assert_eq!(stored(app, &token).await, 2 * bytes);
    app.advance(Duration::from_secs(3));
    app.settle().await;
    assert_eq!(stored(app, &token).await, bytes, "those that were read are gone");

    settings(app, &token, json!({"event_retention": "days", "event_retention_days": 2})).await;
    app.advance(DAY);
    let token = sign_in(app).await;
    assert_eq!(
        send(app, &token, "two", json!([{"type": "message", "content": "four"}]), None).await.status,
        202
    );
    app.advance(DAY + Duration::from_secs(1));
    let token = sign_in(app).await;
    let swept = tokio::time::timeout(PATIENCE, async {
        while stored(app, &token).await != 4 {
            app.advance(Duration::from_mins(10));
        }
    });
    swept.await.expect("old events are not counted");
}

async fn an_audit_finds_what_was_counted_wrong(app: &App) {
    let token = app.register("ann@example.com").await;
    let events = json!([{"type": "message", "content": "seven b"}]);
    assert_eq!(send(app, &token, "one", events, None).await.status, 202);
    app.audit().await;
    let miscount = async |bytes: i64| {
        let service = app.service();
        let tenant = service.accounts.operators.tenants().await.unwrap()[0].tenant_id;
        let change =
            async |conn: &mut store::Conn| store::analysis::storage::remove(conn, tenant, bytes, 3).await;
        service.store().write("miscount", change).await.unwrap();
        service.billing.audit.run().await.unwrap().drifts
    };
    let drifts = miscount(2).await;
    assert_eq!(drifts.len(), 1, "{drifts:?}");
    assert_eq!((drifts[0].expected.as_str(), drifts[0].found.as_str()), ("7", "5"));
    assert!(miscount(-2).await.is_empty());
    app.advance(Duration::from_secs(3));
}

async fn bytes_a_minute_are_limited(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    assert_eq!(send(app, &ann, "one", large(), None).await.status, 202);
    let refused = send(app, &ann, "two", large(), None).await;
    assert!(refused.refused(429, "rate_limited").contains("bytes"), "{}", refused.text);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(refused.header("events-recorded"), "");
    let verdict = json!({"wait": true, "events": large()});
    let refused = app.call(&ann, Method::POST, "/v1/objects/two/events", &verdict).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("events-recorded"), "", "a caller who waits is told the same");
    let read = app.call(&ann, Method::GET, "/v1/objects/two", &Value::Null).await;
    assert_eq!(read.status, 404, "nothing was recorded");
    assert_eq!(send(app, &bob, "two", large(), None).await.status, 202, "another account is not affected");
    let little = json!([{"type": "event", "name": "signup"}]);
    assert_eq!(send(app, &ann, "two", little, None).await.status, 202, "what fits is recorded");
    app.advance(Duration::from_secs(wait));
    assert_eq!(send(app, &ann, "two", large(), None).await.status, 202);
    app.advance(Duration::from_secs(30));
}

async fn stored_bytes_are_limited(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    assert_eq!(send(app, &ann, "one", large(), Some("first")).await.status, 202);
    let refused = send(app, &ann, "two", large(), Some("second")).await;
    assert!(refused.refused(403, "storage_quota_exceeded").contains("quota"), "{}", refused.text);
    assert_eq!(refused.header("events-recorded"), "");
    let verdict = json!({"wait": true, "events": large()});
    app.call(&ann, Method::POST, "/v1/objects/two/events", &verdict)
        .await
        .refused(403, "storage_quota_exceeded");
    let read = app.call(&ann, Method::GET, "/v1/objects/two", &Value::Null).await;
    assert_eq!(read.status, 404, "nothing was recorded");
    assert_eq!(stored(app, &ann).await, 600 * 1024);
    let repeated = send(app, &ann, "one", large(), Some("first")).await;
    assert_eq!((repeated.status.as_u16(), repeated.header("idempotent-replayed")), (202, "true"));
    assert_eq!(send(app, &bob, "two", large(), None).await.status, 202, "another account is not affected");
    assert_eq!(app.call(&ann, Method::DELETE, "/v1/objects/one", &Value::Null).await.status, 204);
    assert_eq!(send(app, &ann, "two", large(), Some("second")).await.status, 202, "there is room again");
    app.advance(Duration::from_secs(30));
}

async fn an_object_with_many_events_is_deleted_in_steps(app: &App) {
    let token = app.register("ann@example.com").await;
    let events: Vec<Value> =
        (0..500).map(|number| json!({"type": "message", "content": number.to_string()})).collect();
    for _ in 0..21 {
        assert_eq!(send(app, &token, "one", json!(events), None).await.status, 202);
    }
    assert_eq!(
        send(app, &token, "other", json!([{"type": "message", "content": "12345"}]), None).await.status,
        202
    );
    assert_eq!(app.call(&token, Method::DELETE, "/v1/objects/one", &Value::Null).await.status, 204);
    assert_eq!(app.call(&token, Method::GET, "/v1/objects/one", &Value::Null).await.status, 404);
    assert_eq!(stored(app, &token).await, 5);
    app.call(&token, Method::DELETE, "/v1/objects/one", &Value::Null).await.refused(404, "not_found");
    // It may come back, as a new one.
    assert_eq!(send(app, &token, "one", json!([{"type": "event", "name": "back"}]), None).await.status, 202);
    let found = app.call(&token, Method::GET, "/v1/objects/one", &Value::Null).await.json();
    assert_eq!(found["event_count"], 1, "{found}");
    app.advance(Duration::from_secs(30));
}
