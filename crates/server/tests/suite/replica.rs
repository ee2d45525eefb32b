//! Lists that come from a replica of the database.

use std::time::Duration;

use auspex_server::config::Config;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, PostgresServer, Stage as _, TestDatabase};

use crate::app::App;
use crate::metrics::{scrape, value};
use crate::scripted_analyzer::until;

/// What may come from the replica about an account with one object.
const LISTS: [(&str, &str); 7] = [
    ("/v1/objects", "user_1"),
    ("/v1/objects?q=user", "user_1"),
    ("/v1/objects/user_1/events", "Is it still for sale?"),
    ("/v1/objects/user_1/timeline", "Is it still for sale?"),
    ("/v1/object_count", r#""count":1"#),
    ("/v1/overview", r#""objects":1"#),
    ("/v1/export?what=events", "Is it still for sale?"),
];

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_from_a_replica_and_show_what_their_caller_has_just_written() {
    let primary = PostgresServer::start().await;
    let replica = primary.copy().await;
    let database = TestDatabase::create(Backend::Postgres).await;
    let app = App::start_on(
        database,
        &primary.url(),
        &[("AUSPEX_DATABASE_READ_URL", &replica.url()), ("AUSPEX_RATE_LIMIT_PER_MINUTE", "1000000")],
    )
    .await;
    let ann = app.register("ann@example.com").await;
    let key = app.api_key(&ann).await;
    let from_replica =
        async || value(&scrape(&app).await, r#"auspex_replica_reads_total{outcome="replica"}"#);
    let get = async |path: &str| {
        let reply = key.call(&app, Method::GET, path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.text
    };
    until("lists come from the replica", async || {
        get("/v1/objects").await;
        from_replica().await > 0.0
    })
    .await;

    replica.pause().await;
    let before = from_replica().await;
    let event = json!({"events": [{"type": "message", "content": "Is it still for sale?"}]});
    let recorded = key.call(&app, Method::POST, "/v1/objects/user_1/events", &event).await;
    assert_eq!(recorded.status, 202, "{}", recorded.text);
    for (path, expected) in LISTS {
        let listed = get(path).await;
        assert!(listed.contains(expected), "{path}: {listed}");
    }
    assert!((from_replica().await - before).abs() < 0.5, "the replica does not have it yet");

    replica.resume().await;
    for (path, expected) in LISTS {
        let before = from_replica().await;
        until(path, async || {
            let listed = get(path).await;
            assert!(listed.contains(expected), "{path}: {listed}");
            from_replica().await > before
        })
        .await;
    }
    app.advance(Duration::from_secs(3));
    app.settle().await;

    replica.kill();
    for (path, expected) in LISTS {
        assert!(get(path).await.contains(expected), "the primary answers: {path}");
    }
    replica.restart().await;
    let before = from_replica().await;
    until("lists come from the replica again", async || {
        get("/v1/objects").await;
        from_replica().await > before
    })
    .await;
    app.tear_down().await;
}

#[test]
fn sqlite_has_no_replicas() {
    let settings = [("AUSPEX_DATABASE_READ_URL", "postgres://auspex@replica/auspex")];
    let refused = |more: &[(&str, &str)]| {
        let variables =
            settings.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_environment(variables).unwrap_err().to_string()
    };
    for more in [&[][..], &[("AUSPEX_DATABASE_URL", "sqlite:auspex.db")]] {
        let message = refused(more);
        assert!(message.contains("AUSPEX_DATABASE_READ_URL"), "{message}");
        assert!(message.contains("SQLite has no replicas"), "{message}");
    }
}
