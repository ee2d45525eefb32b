//! Sweeps: one account that cannot be swept does not keep the others, and what nobody can ask for any more goes.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use store::Store;
use testkit::{Backend, Stage as _};

use crate::app::App;
use crate::books::execute;
use crate::metrics::{scrape, value};
use crate::scripted_analyzer::{number, until};

testkit::on_both!(
    one_account_that_cannot_be_swept_does_not_keep_the_others,
    bulk_runs_that_nobody_can_ask_for_go,
    counts_of_nothing_go,
);

const DAY: Duration = Duration::from_hours(24);

/// Makes every attempt to delete events of the first account fail.
async fn break_first_account(store: &Store) {
    match store.backend() {
        Backend::Sqlite => {
            execute(
                store,
                "CREATE TRIGGER broken BEFORE DELETE ON events
                 WHEN OLD.tenant_id = (SELECT min(tenant_id) FROM tenants)
                 BEGIN SELECT RAISE(ABORT, 'broken'); END",
            )
            .await;
        }
        Backend::Postgres => {
            execute(
                store,
                "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF OLD.tenant_id = (SELECT tenant_id FROM tenants ORDER BY tenant_id LIMIT 1) THEN
                         RAISE 'broken';
                     END IF;
                     RETURN OLD;
                 END $$",
            )
            .await;
            execute(
                store,
                "CREATE TRIGGER broken BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION broken()",
            )
            .await;
        }
    }
}

async fn repair_first_account(store: &Store) {
    match store.backend() {
        Backend::Sqlite => execute(store, "DROP TRIGGER broken").await,
        Backend::Postgres => execute(store, "DROP FUNCTION broken CASCADE").await,
    }
}

async fn events(app: &App, token: &str) -> usize {
    let listed = app.call(token, Method::GET, "/v1/objects/user_1/events", &Value::Null).await.json();
    listed["events"].as_array().unwrap().len()
}

async fn one_account_that_cannot_be_swept_does_not_keep_the_others(app: &App) {
    let store = Store::open(app.database_url()).await.unwrap();
    let series = r#"auspex_sweep_failures_total{step="events"}"#;
    let mut tokens = Vec::new();
    for email in ["ann@example.com", "bob@example.com"] {
        let token = app.register(email).await;
        let settings = json!({"event_retention": "days", "event_retention_days": 1});
        assert_eq!(app.call(&token, Method::PATCH, "/v1/settings", &settings).await.status, 200);
        let sent = json!({"events": [{"type": "event", "name": "old"}], "wait": true});
        assert_eq!(app.call(&token, Method::POST, "/v1/objects/user_1/events", &sent).await.status, 200);
        let me = app.call(&token, Method::GET, "/v1/me", &Value::Null).await.json();
        tokens.push((me["tenant_id"].as_str().unwrap().to_owned(), token));
    }
    // In the order in which they are swept.
    tokens.sort();
    let tokens: Vec<String> = tokens.into_iter().map(|(_, token)| token).collect();
    break_first_account(&store).await;
    // The console tokens last as long as the events do.
    app.advance(DAY - Duration::from_secs(1));
    let keys = [app.api_key(&tokens[0]).await, app.api_key(&tokens[1]).await];
    let left = async |number: usize| {
        let path = "/v1/objects/user_1/events";
        keys[number].call(app, Method::GET, path, &Value::Null).await.json()["events"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((events(app, &tokens[0]).await, events(app, &tokens[1]).await), (1, 1));
    app.advance(Duration::from_secs(2));
    app.sweeper_has_swept().await;
    assert_eq!((left(0).await, left(1).await), (1, 0));
    assert!(value(&scrape(app).await, series) >= 1.0);
    repair_first_account(&store).await;
    app.sweeper_has_swept().await;
    assert_eq!((left(0).await, left(1).await), (0, 0));
    store.close().await;
}

async fn bulk_runs_that_nobody_can_ask_for_go(app: &App) {
    const RUNS: &str = "SELECT count(*) FROM bulk_runs";
    let store = Store::open(app.database_url()).await.unwrap();
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let sent = json!({"events": [{"type": "event", "name": "seen"}], "wait": true});
    assert_eq!(key.call(app, Method::POST, "/v1/objects/user_1/events", &sent).await.status, 200);
    let backfill = "/v1/signals/is_scammer/backfill";
    for _ in 0..2 {
        assert_eq!(key.call(app, Method::POST, "/v1/analyze", &Value::Null).await.status, 202);
        app.settle().await;
        assert_eq!(key.call(app, Method::POST, backfill, &Value::Null).await.status, 202);
        app.settle().await;
    }
    assert_eq!(number(&store, RUNS).await, 3, "a signal has one backfill, the last");
    app.advance(DAY + Duration::from_secs(1));
    until("the runs are gone", async || {
        app.sweeper_has_swept().await;
        number(&store, RUNS).await == 1
    })
    .await;
    let shown = key.call(app, Method::GET, backfill, &Value::Null).await.json();
    assert_eq!(shown["backfill"]["status"], "done", "it can be asked for");
    assert_eq!(key.call(app, Method::DELETE, "/v1/signals/is_scammer", &Value::Null).await.status, 204);
    app.settle().await;
    app.advance(DAY + Duration::from_secs(1));
    until("with its signal it goes", async || {
        app.sweeper_has_swept().await;
        number(&store, RUNS).await == 0
    })
    .await;
    store.close().await;
}

async fn counts_of_nothing_go(app: &App) {
    let store = Store::open(app.database_url()).await.unwrap();
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    for (object, kind) in [("user_1", "rare"), ("user_2", "usual")] {
        let sent = json!({"object_type": kind, "events": [{"type": "event", "name": "seen"}], "wait": true});
        let reply = key.call(app, Method::POST, &format!("/v1/objects/{object}/events"), &sent).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(key.call(app, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    // A clock that nobody has watched yet is not believed.
    app.advance(DAY);
    until("the empty count is gone", async || {
        app.sweeper_has_swept().await;
        number(&store, "SELECT count(DISTINCT object_type) FROM object_tallies").await == 1
    })
    .await;
    let overview = key.call(app, Method::GET, "/v1/overview", &Value::Null).await.json();
    assert_eq!(overview["categories"], json!([{"name": "usual", "count": 1}]));
    assert_eq!(overview["objects"], 1);
    assert_eq!(
        number(
            &store,
            "SELECT count(*) FROM (SELECT 1 AS one FROM signal_tallies GROUP BY signal_id, choice
                HAVING sum(answers) = 0 AND sum(high) = 0 AND sum(value_micros) = 0) AS empty"
        )
        .await,
        0
    );
    store.close().await;
}

/// More accounts than a process claims at a time, each with something to be swept.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_come_and_go_sweep_every_account() {
    const OLD: &str = "SELECT count(*) FROM event_tallies";
    let one = App::start(Backend::Postgres, &[]).await;
    let other = one.second_node(&[]).await;
    let store = Store::open(one.database_url()).await.unwrap();
    for _ in 0..70 {
        one.service().accounts.operators.create_tenant("Acme").await.unwrap();
    }
    let make_old = async || {
        let statement = "INSERT INTO event_tallies (tenant_id, minute, shard, events)
                         SELECT tenant_id, '2020-01-01', 0, 1 FROM tenants";
        execute(&store, statement).await;
        assert_eq!(number(&store, OLD).await, 70);
    };
    make_old().await;
    until("both have swept", async || {
        one.advance(Duration::from_mins(1));
        one.heart_has_beaten().await;
        other.heart_has_beaten().await;
        number(&store, OLD).await == 0
    })
    .await;
    make_old().await;
    other.stop().await;
    until("the one that is left has swept", async || {
        one.advance(Duration::from_mins(1));
        one.heart_has_beaten().await;
        number(&store, OLD).await == 0
    })
    .await;
    store.close().await;
    one.tear_down().await;
}
