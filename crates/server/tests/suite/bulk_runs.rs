//! Walks over all objects: analyzing everything again, backfills, and what follows a change of signals.

use std::time::Duration;

use model::api::EventType;
use model::{NewEvent, TenantId};
use reqwest::Method;
use serde_json::{Value, json};
use store::objects::recorder;
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::{Backend, Conn, Store};
use testkit::{PATIENCE, Stage as _};
use uuid::Uuid;

use crate::admin::tenant_of;
use crate::app::App;
use crate::registration::rows;

testkit::on_both!(
    a_backfill_asks_one_signal_about_the_objects_without_an_answer,
    a_backfill_is_refused_without_a_signal_to_ask,
    a_new_signal_is_backfilled_where_the_account_wants_it,
    a_change_of_signals_puts_objects_in_their_place,
);

/// Makes each story a test on both databases: one that starts and stops the service by itself.
macro_rules! with_restarts {
    ($($story:ident),* $(,)?) => {$(
        mod $story {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$story(testkit::Backend::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$story(testkit::Backend::Postgres).await;
            }
        }
    )*};
}

with_restarts!(
    everything_is_analyzed_again_in_steps_and_behind_live_work,
    accounts_take_turns,
    a_backfill_survives_a_restart,
    a_live_event_takes_a_queued_job_over,
    one_analysis_serves_several_backfills,
);

/// A process that takes requests and leaves all work to others: what is queued stays queued.
const NO_WORKER: &[(&str, &str)] = &[("AUSPEX_ROLE", "api")];
/// A process that does few analyses at a time, so that their order shows.
const FEW_WORKERS: &[(&str, &str)] = &[("AUSPEX_WORKERS", "2")];
/// More bulk jobs than this are never queued: one step on top of what calls for the next.
const MOST_QUEUED: i64 = 384;

/// Opens an account and returns its console token.
async fn account(app: &App, email: &str) -> String {
    app.register(email).await
}

/// Records one event each about so many objects, without scheduling an analysis.
async fn seed(app: &App, token: &str, prefix: &str, objects: usize) {
    let tenant = TenantId(Uuid::parse_str(&tenant_of(app, token).await).unwrap());
    let now = app.now();
    let request = |number| IngestRequest {
        tenant,
        object_id: format!("{prefix}_{number:04}"),
        object_type: None,
        display_name: None,
        events: vec![NewEvent {
            kind: EventType::Message,
            name: None,
            content: Some("Pay me outside of the platform.".to_owned()),
            metadata: None,
            occurred_at: now,
        }],
        idempotency: None,
        schedule: None,
        verdict_slot: None,
        received_at: now,
        traceparent: None,
    };
    let requests: Vec<IngestRequest> = (0..objects).map(request).collect();
    let store = Store::open(app.database_url()).await.unwrap();
    store
        .write("seed", async |conn: &mut Conn| {
            recorder::record(conn, &requests, Admission::by_balance(Enforcement::Grace), 0).await
        })
        .await
        .unwrap();
    store.close().await;
}

async fn get(app: &App, token: &str, path: &str) -> Value {
    let reply = app.call(token, Method::GET, path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn post(app: &App, token: &str, path: &str) -> Value {
    let reply = app.call(token, Method::POST, path, &Value::Null).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    reply.json()
}

async fn put_signal(app: &App, token: &str, key: &str, kind: &str, enabled: bool) -> Value {
    let criteria = if kind == "score" { json!(["low", "high"]) } else { Value::Null };
    let body = json!({"type": kind, "instructions": "Does the user ask for money?", "criteria": criteria, "enabled": enabled});
    let reply = app.call(token, Method::PUT, &format!("/v1/signals/{key}"), &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn number(app: &App, query: &'static str) -> i64 {
    rows(app, query).await[0].parse().unwrap()
}

/// Waits until a query's number is at least this.
async fn until(app: &App, query: &'static str, least: i64) {
    let reached = async {
        while number(app, query).await < least {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .unwrap_or_else(|_| panic!("{least} is not reached: {query}"));
}

const CHARGES: &str = "SELECT CAST(count(*) AS text) FROM ledger_entries WHERE reason = 'analysis'";
const DONE: &str =
    "SELECT CAST(count(*) AS text) FROM bulk_runs WHERE status = 'done' AND finished_at IS NOT NULL";
const QUEUED: &str = "SELECT CAST(count(*) AS text) FROM jobs WHERE priority = 1";
/// Charged objects, one after the other, with whether the charge belongs to a batch.
const CHARGED: &str = "SELECT object_id || CASE WHEN batch_id IS NULL THEN ' alone' ELSE ' in a batch' END
    FROM ledger_entries WHERE reason = 'analysis' ORDER BY tenant_id, seq";

async fn everything_is_analyzed_again_in_steps_and_behind_live_work(backend: Backend) {
    let mut app = App::start(backend, NO_WORKER).await;
    let token = account(&app, "ann@example.com").await;
    assert_eq!(post(&app, &token, "/v1/analyze").await["scheduled"], 0, "there is nothing yet");
    seed(&app, &token, "user", 700).await;
    let scheduled = json!({"scheduled": 700, "analysis_status": "scheduled"});
    assert_eq!(post(&app, &token, "/v1/analyze").await, scheduled);
    assert_eq!(post(&app, &token, "/v1/analyze").await, scheduled, "no second run");
    assert_eq!(number(&app, QUEUED).await, 0, "the request queues nothing by itself");

    app.restart(FEW_WORKERS).await;
    until(&app, CHARGES, 20).await;
    let event = json!({"events": [{"type": "event", "name": "signup"}]});
    let reply = app.call(&token, Method::POST, "/v1/objects/live/events", &event).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    app.advance(Duration::from_secs(3));
    let mut most_queued = 0;
    let done = async {
        while number(&app, DONE).await == 0 {
            most_queued = most_queued.max(number(&app, QUEUED).await);
        }
    };
    tokio::time::timeout(PATIENCE, done).await.expect("the run comes to its end");
    assert!(most_queued > 1 && most_queued <= MOST_QUEUED, "{most_queued} were queued");
    until(&app, CHARGES, 701).await;

    let charged = rows(&app, CHARGED).await;
    assert_eq!(charged.len(), 701, "each once");
    let place = charged.iter().position(|line| line == "live alone").expect("the live one is in no batch");
    assert!((20..690).contains(&place), "live goes before the rest of the run, and came as number {place}");
    assert!(charged.iter().enumerate().all(|(at, line)| at == place || line.ends_with(" in a batch")));
    let batch = "SELECT CAST(entries AS text) FROM ledger_batches WHERE entries = 700
          AND delta_micros = (SELECT sum(delta_micros) FROM ledger_entries WHERE batch_id IS NOT NULL)
          AND input_tokens = (SELECT sum(input_tokens) FROM ledger_entries WHERE batch_id IS NOT NULL)
          AND last_seq = (SELECT max(seq) FROM ledger_entries WHERE batch_id IS NOT NULL)
          AND CAST(models AS text) = '[\"auspex-words\"]'";
    assert_eq!(rows(&app, batch).await, ["700"], "the batch is the sum of its lines");
    assert_eq!(get(&app, &token, "/v1/overview").await["analyzed_pct"], 1.0);
    app.tear_down().await;
}

async fn accounts_take_turns(backend: Backend) {
    let mut app = App::start(backend, NO_WORKER).await;
    let many = account(&app, "ann@example.com").await;
    let few = account(&app, "bob@example.com").await;
    seed(&app, &many, "many", 600).await;
    seed(&app, &few, "few", 20).await;
    post(&app, &many, "/v1/analyze").await;
    post(&app, &few, "/v1/analyze").await;
    app.restart(FEW_WORKERS).await;
    until(&app, DONE, 1).await;
    let of_many = "SELECT CAST(count(*) AS text) FROM ledger_entries WHERE reason = 'analysis' AND object_id LIKE 'many%'";
    let of_few = "SELECT CAST(count(*) AS text) FROM ledger_entries WHERE reason = 'analysis' AND object_id LIKE 'few%'";
    let (before, all) = (number(&app, of_many).await, number(&app, of_few).await);
    assert_eq!(all, 20, "the one with few objects is done first");
    assert!(before < 500, "and did not wait for {before} of the other's");
    until(&app, DONE, 2).await;
    assert_eq!(number(&app, of_many).await, 600);
    app.tear_down().await;
}

async fn a_backfill_asks_one_signal_about_the_objects_without_an_answer(app: &App) {
    let token = account(app, "ann@example.com").await;
    seed(app, &token, "user", 3).await;
    let status = get(app, &token, "/v1/signals/is_scammer/backfill").await;
    assert_eq!(status["estimate"], json!({"objects": 3, "estimated_cost_micros": 0}), "nothing was paid yet");
    assert_eq!(status["backfill"], Value::Null);

    let waits = json!({"events": [{"type": "event", "name": "signup"}], "wait": true});
    let reply = app.call(&token, Method::POST, "/v1/objects/answered/events", &waits).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let status = get(app, &token, "/v1/signals/is_scammer/backfill").await;
    assert_eq!(status["estimate"]["objects"], 3);
    let mean = number(app, "SELECT CAST(sum(spend_micros) AS text) FROM usage_days").await;
    assert!(mean > 0);
    assert_eq!(status["estimate"]["estimated_cost_micros"], 3 * mean);

    let started = post(app, &token, "/v1/signals/is_scammer/backfill").await;
    assert_eq!((&started["signal_key"], &started["status"]), (&json!("is_scammer"), &json!("running")));
    assert_eq!(
        (&started["total"], &started["completed"], &started["pending"]),
        (&json!(3), &json!(0), &json!(3))
    );
    app.settle().await;
    let status = get(app, &token, "/v1/signals/is_scammer/backfill").await;
    let done = json!({"signal_key": "is_scammer", "status": "done", "total": 3, "completed": 3, "pending": 0,
        "started_at": started["started_at"]});
    assert_eq!(status["backfill"], done);
    assert_eq!(status["estimate"]["objects"], 0);
    let object = get(app, &token, "/v1/objects/user_0001").await;
    assert_eq!(object["pending"], json!(["buyer_intent", "trust_score"]), "the others were not asked");
    let batches = "SELECT CAST(entries AS text) FROM ledger_batches";
    assert_eq!(rows(app, batches).await, ["3"]);

    // What comes later does not change what the ended backfill has done.
    seed(app, &token, "late", 2).await;
    let status = get(app, &token, "/v1/signals/is_scammer/backfill").await;
    assert_eq!(status["backfill"], done);
    assert_eq!(status["estimate"]["objects"], 2);
}

async fn a_backfill_is_refused_without_a_signal_to_ask(app: &App) {
    let token = account(app, "ann@example.com").await;
    put_signal(app, &token, "asks", "noul", false).await;
    let other = account(app, "bob@example.com").await;
    for (who, key) in [(&token, "unknown"), (&other, "asks")] {
        for method in [Method::GET, Method::POST] {
            let path = format!("/v1/signals/{key}/backfill");
            app.call(who, method, &path, &Value::Null).await.refused(404, "not_found");
        }
    }
    let path = "/v1/signals/asks/backfill";
    app.call(&token, Method::POST, path, &Value::Null).await.refused(409, "conflict");
    assert_eq!(get(app, &token, path).await["backfill"], Value::Null);
}

async fn a_new_signal_is_backfilled_where_the_account_wants_it(app: &App) {
    let token = account(app, "ann@example.com").await;
    seed(app, &token, "user", 2).await;
    assert_eq!(put_signal(app, &token, "first", "noul", true).await.get("backfill"), None);
    let on = json!({"auto_backfill_signals": true});
    assert_eq!(app.call(&token, Method::PATCH, "/v1/settings", &on).await.status, 200);
    assert_eq!(put_signal(app, &token, "first", "noul", true).await.get("backfill"), None, "it is not new");
    assert_eq!(put_signal(app, &token, "off", "noul", false).await.get("backfill"), None, "it is not asked");
    let second = put_signal(app, &token, "second", "noul", true).await;
    assert_eq!((&second["backfill"]["status"], &second["backfill"]["total"]), (&json!("running"), &json!(2)));
    app.settle().await;
    let object = get(app, &token, "/v1/objects/user_0000").await;
    assert_eq!(object["analysis"].as_array().unwrap().len(), 1);
    assert_eq!(object["analysis"][0]["key"], "second");

    let retyped = put_signal(app, &token, "second", "score", true).await;
    assert_eq!(retyped["backfill"]["total"], 2, "another type is another question");
    app.settle().await;
    let object = get(app, &token, "/v1/objects/user_0000").await;
    assert_eq!(
        (&object["analysis"][0]["key"], &object["analysis"][0]["type"]),
        (&json!("second"), &json!("score"))
    );
    let kept = number(app, "SELECT CAST(count(*) AS text) FROM answers").await;
    assert_eq!(kept, 2, "the old answers are swept");
    assert!(get(app, &token, "/v1/signals").await["signals"][0].get("backfill").is_none());
}

async fn a_change_of_signals_puts_objects_in_their_place(app: &App) {
    let token = account(app, "ann@example.com").await;
    seed(app, &token, "user", 5).await;
    for _ in 0..2 {
        assert_eq!(post(app, &token, "/v1/analyze").await["scheduled"], 5);
        app.settle().await;
    }
    assert_eq!(number(app, CHARGES).await, 10, "when one run is done, another may start");
    let places = "SELECT count(*) || ' flagged ' || sum(CASE WHEN risk >= 0 THEN 1 ELSE 0 END)
        || ' trusted ' || sum(CASE WHEN trust >= 0 THEN 1 ELSE 0 END) FROM objects";
    assert_eq!(rows(app, places).await, ["5 flagged 5 trusted 5"]);

    put_signal(app, &token, "is_scammer", "noul", false).await;
    app.settle().await;
    assert_eq!(rows(app, places).await, ["5 flagged 0 trusted 5"], "a disabled signal counts nowhere");
    assert_eq!(get(app, &token, "/v1/overview").await["top_risk"], json!([]));
    put_signal(app, &token, "is_scammer", "noul", true).await;
    app.settle().await;
    assert_eq!(rows(app, places).await, ["5 flagged 5 trusted 5"], "its answers were kept");
    assert_eq!(get(app, &token, "/v1/overview").await["top_risk"].as_array().unwrap().len(), 5);

    let answers = "SELECT CAST(count(*) AS text) FROM answers";
    assert_eq!(number(app, answers).await, 15);
    let reply = app.call(&token, Method::DELETE, "/v1/signals/trust_score", &Value::Null).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
    app.settle().await;
    assert_eq!(rows(app, places).await, ["5 flagged 5 trusted 0"]);
    assert_eq!(number(app, answers).await, 10, "a deleted signal's answers are swept");
    assert_eq!(number(app, "SELECT CAST(count(DISTINCT signal_id) AS text) FROM signal_tallies").await, 2);
    assert_eq!(get(app, &token, "/v1/overview").await["analyzed_pct"], 1.0, "there are other answers");

    for key in ["is_scammer", "buyer_intent"] {
        let path = format!("/v1/signals/{key}");
        assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    }
    app.settle().await;
    assert_eq!(get(app, &token, "/v1/overview").await["analyzed_pct"], 0.0, "no object has an answer");
    put_signal(app, &token, "is_scammer", "noul", true).await;
    post(app, &token, "/v1/analyze").await;
    app.settle().await;
    assert_eq!(get(app, &token, "/v1/overview").await["analyzed_pct"], 1.0, "all have one again");
}

async fn a_backfill_survives_a_restart(backend: Backend) {
    let mut app = App::start(backend, NO_WORKER).await;
    let token = account(&app, "ann@example.com").await;
    seed(&app, &token, "user", 500).await;
    let path = "/v1/signals/trust_score/backfill";
    let started = post(&app, &token, path).await;
    app.advance(Duration::from_secs(10));
    assert_eq!(post(&app, &token, path).await, started, "the one under way is returned");
    app.restart(FEW_WORKERS).await;
    until(&app, CHARGES, 30).await;
    app.restart(NO_WORKER).await;
    let status = get(&app, &token, path).await["backfill"].clone();
    let (completed, pending) = (status["completed"].as_i64().unwrap(), status["pending"].as_i64().unwrap());
    assert_eq!((&status["status"], completed + pending), (&json!("running"), 500));
    assert_eq!(completed, number(&app, CHARGES).await, "progress counts answers");
    assert!((30..500).contains(&completed), "{completed} were done before the restart");
    app.restart(&[]).await;
    until(&app, DONE, 1).await;
    let status = get(&app, &token, path).await["backfill"].clone();
    assert_eq!((&status["completed"], &status["status"]), (&json!(500), &json!("done")));
    assert_eq!(number(&app, CHARGES).await, 500, "each object was asked about once");
    app.tear_down().await;
}

async fn a_live_event_takes_a_queued_job_over(backend: Backend) {
    // Nothing can be paid, so what is fed stays queued.
    let mut app = App::start(backend, NO_WORKER).await;
    let token = account(&app, "ann@example.com").await;
    seed(&app, &token, "user", 2).await;
    post(&app, &token, "/v1/signals/is_scammer/backfill").await;
    app.empty_balances().await;
    app.restart(&[]).await;
    let asked = "SELECT object_id || ' ' || CAST(priority AS text) || CASE WHEN signals IS NULL THEN ' all' ELSE ' some' END
          || CASE WHEN bulk_run_id IS NULL THEN '' ELSE ' in a run' END
        FROM jobs WHERE lease_token IS NULL ORDER BY object_id";
    let waiting = "SELECT CAST(count(*) AS text) FROM jobs WHERE unpaid";
    until(&app, waiting, 2).await;
    assert_eq!(rows(&app, asked).await, ["user_0000 1 some in a run", "user_0001 1 some in a run"]);

    app.restart(NO_WORKER).await;
    app.credit_everybody(1_000).await;
    let event = json!({"events": [{"type": "event", "name": "signup"}]});
    let reply = app.call(&token, Method::POST, "/v1/objects/user_0001/events", &event).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    assert_eq!(rows(&app, asked).await, ["user_0000 1 some in a run", "user_0001 0 all"]);
    app.restart(&[]).await;
    app.advance(Duration::from_mins(5));
    until(&app, CHARGES, 2).await;
    app.advance(Duration::from_secs(1));
    until(&app, DONE, 1).await;
    let asked_one = get(&app, &token, "/v1/objects/user_0000").await;
    assert_eq!(asked_one["analysis"].as_array().unwrap().len(), 1);
    let asked_all = get(&app, &token, "/v1/objects/user_0001").await;
    assert_eq!(asked_all["pending"], json!([]));
    let mut charged = rows(&app, CHARGED).await;
    charged.sort();
    assert_eq!(charged, ["user_0000 in a batch", "user_0001 alone"]);
    app.tear_down().await;
}

async fn one_analysis_serves_several_backfills(backend: Backend) {
    let mut app = App::start(backend, NO_WORKER).await;
    let token = account(&app, "ann@example.com").await;
    seed(&app, &token, "user", 10).await;
    for key in ["is_scammer", "trust_score"] {
        post(&app, &token, &format!("/v1/signals/{key}/backfill")).await;
    }
    app.restart(&[]).await;
    until(&app, DONE, 2).await;
    assert_eq!(number(&app, CHARGES).await, 10, "each object was paid for once");
    for key in ["is_scammer", "trust_score"] {
        let status = get(&app, &token, &format!("/v1/signals/{key}/backfill")).await;
        assert_eq!(status["backfill"]["completed"], 10, "{key}");
    }
    assert_eq!(get(&app, &token, "/v1/objects/user_0003").await["pending"], json!(["buyer_intent"]));
    app.tear_down().await;
}
