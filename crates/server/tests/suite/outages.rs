//! The service while its database stalls, is full or cannot be written to.

use std::cell::Cell;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use testkit::{Backend, Stage as _, TestDatabase, through_proxy};

use crate::app::{App, PASSWORD, Reply};
use crate::process::{self, Running};
use crate::scripted_analyzer::{Scripted, Settings, number, send_event, until};
use crate::signer::Signer;

/// Sends one event about an object, under a key of its own.
async fn send(app: &App, key: &Signer, object: &str) -> Reply {
    let path = format!("/v1/objects/{object}/events");
    let body = json!({"events": [{"type": "event", "name": "seen"}]});
    let token = key.sign(app.now(), &Method::POST, &path);
    let request = app.request(Method::POST, &path).bearer_auth(token).header("idempotency-key", object);
    app.send(request.json(&body)).await
}

/// Sends an event until it is acknowledged; until then it is refused as by an outage.
async fn send_until_acknowledged(app: &App, key: &Signer, object: &str) {
    until("it is acknowledged", async || {
        let reply = send(app, key, object).await;
        if reply.status != 202 {
            reply.refused(503, "not_ready");
        }
        reply.status == 202
    })
    .await;
}

/// Every connection stalls without a word, as behind a firewall that has forgotten them, while events come all the time.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_connections_stop_a_node_for_seconds_and_it_says_so() {
    let database = TestDatabase::create(Backend::Postgres).await;
    let (url, proxy) = through_proxy(&database).await;
    let app = App::start_on(database, &url, &[("AUSPEX_RATE_LIMIT_PER_MINUTE", "1000000")]).await;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let (is_over, sent) = (Cell::new(false), Cell::new(0));
    let client = async || {
        while !is_over.get() {
            sent.set(sent.get() + 1);
            send_until_acknowledged(&app, &key, &format!("user_{}", sent.get())).await;
        }
    };
    let watch = async {
        until("events are recorded", async || sent.get() > 20).await;
        until("it says that events wait", async || {
            proxy.stall();
            let stalled = Instant::now();
            // A stall is over in less; if none of the connections was in use, another follows.
            while stalled.elapsed() < Duration::from_secs(15) {
                let reply = app.get("/readyz").await;
                if reply.status == 503 && reply.refused(503, "not_ready").contains("have been waiting") {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            false
        })
        .await;
        let before = sent.get();
        until("events are recorded again", async || sent.get() > before + 20).await;
        until("it is ready again", async || app.get("/readyz").await.status == 200).await;
        is_over.set(true);
    };
    tokio::join!(client(), client(), client(), watch);
    app.advance(Duration::from_secs(3));
    app.settle().await;
    let store = app.service().store().clone();
    assert_eq!(number(&store, "SELECT count(*) FROM events").await, sent.get());
    assert_eq!(number(&store, "SELECT count(*) FROM objects WHERE event_count = 1").await, sent.get());
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_became_read_only_makes_a_node_unready_until_it_takes_writes() {
    let database = TestDatabase::create(Backend::Postgres).await;
    let (url, primary) = (database.url().to_owned(), database.share());
    let app = App::start_on(database, &url, &[]).await;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    assert_eq!(send(&app, &key, "before").await.status, 202);

    primary.set_read_only(true).await;
    until("it is noticed", async || {
        send(&app, &key, "meanwhile").await.refused(503, "not_ready");
        app.get("/readyz").await.status == 503
    })
    .await;
    app.get("/readyz").await.refused(503, "not_ready");
    assert_eq!(app.get("/healthz").await.status, 200);

    primary.set_read_only(false).await;
    until("it is ready again", async || app.get("/readyz").await.status == 200).await;
    send_until_acknowledged(&app, &key, "meanwhile").await;
    app.advance(Duration::from_secs(3));
    app.settle().await;
    let found = key.call(&app, Method::GET, "/v1/objects/meanwhile", &Value::Null).await.json();
    assert_eq!(found["event_count"], 1, "{found}");
    app.tear_down().await;
}

/// An analyzer may take as long as the outage that begins meanwhile: on a busy machine, beginning one takes seconds.
struct Patient;

impl Settings for Patient {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ANALYZER_TIMEOUT_MS", "600000")];
}

/// Asks for a number about the jobs, on a connection of its own: the outage ends all others.
async fn jobs(stage: &Scripted<Patient>, select: &str) -> i64 {
    let mut connection = PgConnection::connect(stage.app.database_url()).await.unwrap();
    let text = format!("{select}::bigint FROM jobs");
    let number = sqlx::query_scalar(sqlx::AssertSqlSafe(text)).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    number
}

/// The outage begins while the analyzer thinks, again and again, and more often than a job may fail.
#[test]
fn an_outage_uses_up_no_attempt_of_a_job() {
    testkit::run_on(Backend::Postgres, async |stage: &Scripted<Patient>| {
        const OUTAGES: usize = 6;
        let key = stage.account("ann@example.com").await;
        let database = stage.app.database();
        let gates: Vec<_> = (0..OUTAGES).map(|_| stage.analyzer.hold(0.5)).collect();
        send_event(stage, &key, "user_1", "seen").await;
        // Only until the job is claimed: a lease that runs out is another story.
        let advance = async || {
            if jobs(stage, "SELECT count(lease_token)").await == 0 {
                stage.advance(Duration::from_secs(1));
            }
        };
        for (round, gate) in gates.iter().enumerate() {
            until("the analyzer is asked", async || {
                advance().await;
                stage.analyzer.count() > round
            })
            .await;
            assert_eq!(jobs(stage, "SELECT sum(attempts)").await, 0, "in round {round}");
            database.set_read_only(true).await;
            gate.open();
            // What the analyzer said cannot be written, and neither can that it was in vain.
            until("it is noticed", async || stage.get("/readyz").await.status == 503).await;
            database.set_read_only(false).await;
            until("the job is put back", async || {
                // Whoever met the outage waits for a moment; the lease lasts for minutes.
                stage.advance(Duration::from_millis(10));
                // It may have been claimed again by now, for the next round.
                jobs(stage, "SELECT count(lease_token)").await == 0 || stage.analyzer.count() > round + 1
            })
            .await;
        }
        until("it is analyzed", async || {
            advance().await;
            stage.charges().await == 1
        })
        .await;
    });
}

/// One object is locked for longer than anybody waits for a lock; requests about others that wait beside it are recorded.
#[test]
fn a_locked_row_refuses_only_the_requests_about_it() {
    testkit::run_on(Backend::Postgres, async |app: &App| {
        let key = app.api_key(&app.register("ann@example.com").await).await;
        assert_eq!(send(app, &key, "locked").await.status, 202);
        let mut holder = PgConnection::connect(app.database_url()).await.unwrap();
        let mut holding = holder.begin().await.unwrap();
        let locked = sqlx::query("SELECT 1 FROM objects WHERE object_id = 'locked' FOR UPDATE");
        locked.execute(&mut *holding).await.unwrap();
        let post = async |object: &str, name: &str| {
            let path = format!("/v1/objects/{object}/events");
            key.call(app, Method::POST, &path, &json!({"events": [{"type": "event", "name": name}]})).await
        };
        let is_over = Cell::new(false);
        let blocked = async |name: &str| {
            while !is_over.get() {
                post("locked", name).await.refused(503, "not_ready");
            }
        };
        let free = async {
            // Each waits beside requests about the locked object, and is written in a group with them.
            for object in ["one", "two", "three"] {
                let reply = post(object, "free").await;
                assert_eq!(reply.status, 202, "{}", reply.text);
            }
            is_over.set(true);
        };
        tokio::join!(blocked("first"), blocked("second"), free);
        holding.rollback().await.unwrap();
        assert_eq!(post("locked", "fourth").await.status, 202);
        let found = key.call(app, Method::GET, "/v1/objects/locked", &Value::Null).await.json();
        assert_eq!(found["event_count"], 2, "what was refused is not recorded: {found}");
        app.advance(Duration::from_secs(3));
    });
}

/// More objects are locked than could be waited for one after the other; requests about others are recorded meanwhile, and
/// those about the locked objects as soon as they are free.
#[test]
fn many_locked_rows_keep_no_request_about_others_waiting() {
    const LOCKED: usize = 24;
    const FREE: usize = 24;
    testkit::run_on(Backend::Postgres, async |app: &App| {
        let key = app.api_key(&app.register("ann@example.com").await).await;
        let locked: Vec<String> = (0..LOCKED).map(|number| format!("locked_{number}")).collect();
        for object in &locked {
            assert_eq!(send(app, &key, object).await.status, 202);
        }
        let mut holder = PgConnection::connect(app.database_url()).await.unwrap();
        let mut holding = holder.begin().await.unwrap();
        let all =
            sqlx::query("SELECT 1 FROM objects WHERE object_id LIKE 'locked%' ORDER BY object_id FOR UPDATE");
        all.execute(&mut *holding).await.unwrap();
        let post = async |object: String| {
            let path = format!("/v1/objects/{object}/events");
            key.call(app, Method::POST, &path, &json!({"events": [{"type": "event", "name": "again"}]})).await
        };
        let blocked = join_all(locked.iter().map(|object| post(object.clone())));
        let free = async {
            let started = Instant::now();
            for round in 0..3 {
                let objects = (0..FREE).map(|number| post(format!("free_{round}_{number}")));
                for reply in join_all(objects).await {
                    assert_eq!(reply.status, 202, "{}", reply.text);
                }
            }
            let took = started.elapsed();
            assert_eq!(app.get("/readyz").await.status, 200, "others' locks are no stall");
            holding.rollback().await.unwrap();
            took
        };
        let (replies, took) = tokio::join!(blocked, free);
        println!("{} requests beside {LOCKED} locked objects took {took:?}", 3 * FREE);
        assert!(took < Duration::from_secs(8), "{took:?}");
        for reply in replies {
            assert_eq!(reply.status, 202, "{}", reply.text);
        }
        app.advance(Duration::from_secs(3));
    });
}

/// A file size limit is a full disk for one process.
struct FullDisk<'a>(&'a Running);

impl FullDisk<'_> {
    fn limit(&self, bytes: &str) {
        let process = self.0.id().to_string();
        let set =
            Command::new("prlimit").args(["--pid", &process, &format!("--fsize={bytes}:unlimited")]).status();
        assert!(set.unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_makes_a_process_unready_until_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("AUSPEX_ANALYZER", "words"), ("AUSPEX_DEBOUNCE_MS", "1")];
    let service = Running::start_ignoring_file_size(&directory, &settings);
    let client = process::client();
    let post = async |token: &str, path: &str, body: &Value| {
        let url = format!("http://{}{path}", service.address);
        let answer =
            client.post(url).bearer_auth(token).header("idempotency-key", path).json(body).send().await;
        let answer = answer.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap())
    };
    let ready = async || {
        let answer = client.get(format!("http://{}/readyz", service.address)).send().await.unwrap();
        answer.status().as_u16()
    };
    let account = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let (_, account) = post("", "/auth/console/register", &account).await;
    let token = account["token"].as_str().unwrap();
    let text = "a word and another ".repeat(200);
    let events = json!({"events": [{"type": "message", "content": text}]});
    let send = async |number: usize| post(token, &format!("/v1/objects/user_{number}/events"), &events).await;
    for number in 0..5 {
        assert_eq!(send(number).await.0, 202);
    }
    assert_eq!(ready().await, 200);

    let disk = FullDisk(&service);
    disk.limit("65536");
    let (mut acknowledged, mut refused) = (5, 0);
    until("it is full", async || ready().await == 503 || send(5).await.0 == 503).await;
    while refused < 10 {
        let (status, answer) = send(acknowledged).await;
        match status {
            202 => acknowledged += 1,
            503 => {
                assert_eq!(answer["error"]["code"], "not_ready", "{answer}");
                refused += 1;
            }
            other => panic!("{other}: {answer}"),
        }
    }
    assert_eq!(ready().await, 503);

    disk.limit("unlimited");
    until("it goes on", async || ready().await == 200).await;
    until("what was refused is taken", async || send(acknowledged).await.0 == 202).await;
    let object = format!("http://{}/v1/objects/user_", service.address);
    for number in 0..=acknowledged {
        let url = format!("{object}{number}");
        until("every event is there once and analyzed", async || {
            let found: Value =
                client.get(&url).bearer_auth(token).send().await.unwrap().json().await.unwrap();
            assert_eq!(found["event_count"], 1, "{found}");
            found["pending"] == json!([])
        })
        .await;
    }
    assert!(service.stop().0);
}
