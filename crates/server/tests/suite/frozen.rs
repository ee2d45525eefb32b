//! Three real processes on one PostgreSQL, of which one freezes in the middle of its transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::{Conn, Store};
use testkit::{Backend, Stage as _, TestDatabase};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::PASSWORD;
use crate::process::{self, Running};
use crate::scripted_analyzer::{number, until};

const NODES: usize = 3;
const FREEZES: usize = 4;
/// How soon the others work again. A machine that is busy with other tests may need as long again in one round.
const PROMISED: Duration = Duration::from_secs(10);
/// Requests that each node works on at a time.
const CLIENTS: usize = 4;

/// What was sent, and what became of it.
#[derive(Default)]
struct Journal {
    /// When the request was sent whose answer came last, by node and kind of request.
    acknowledged: BTreeMap<(usize, bool), Instant>,
    sent: BTreeSet<String>,
    unanswered: BTreeSet<String>,
}

struct Load {
    http: reqwest::Client,
    token: String,
    addresses: Vec<String>,
    journal: Mutex<Journal>,
    stop: CancellationToken,
}

impl Load {
    /// Sends an event about a new object, and says whether it was acknowledged: that it is recorded, whatever came of the verdict.
    async fn send(&self, node: usize, object: &str, is_verdict: bool) -> bool {
        let url = format!("http://{}/v1/objects/{object}/events", self.addresses[node]);
        let body = json!({"events": [{"type": "event", "name": "seen"}], "wait": is_verdict});
        let request =
            self.http.post(url).bearer_auth(&self.token).header("idempotency-key", object).json(&body);
        let answer = request.send().await;
        let status = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
        let is_recorded =
            answer.as_ref().is_ok_and(|answer| answer.headers().contains_key("events-recorded"));
        assert!(
            // A verdict that was recorded is refused when it is sent again.
            matches!(status, 0 | 200 | 202 | 409 | 429 | 503),
            "{status}: {}",
            answer.unwrap().text().await.unwrap()
        );
        is_recorded || matches!(status, 200 | 202 | 409)
    }

    async fn run(&self, node: usize, client: usize) {
        for turn in 0_usize.. {
            if self.stop.is_cancelled() {
                return;
            }
            let (object, is_verdict) = (format!("user_{node}_{client}_{turn}"), turn % 2 == 1);
            {
                let mut journal = self.journal.lock().unwrap();
                journal.sent.insert(object.clone());
                journal.unanswered.insert(object.clone());
            }
            let sent = Instant::now();
            if self.send(node, &object, is_verdict).await {
                let mut journal = self.journal.lock().unwrap();
                journal.unanswered.remove(&object);
                let last = journal.acknowledged.entry((node, is_verdict)).or_insert(sent);
                *last = sent.max(*last);
            }
        }
    }

    /// Waits until a node has acknowledged an event and a verdict that were sent after an instant.
    async fn works_again(&self, node: usize, since: Instant) {
        until(&format!("node {node} works"), async || {
            let journal = self.journal.lock().unwrap();
            [false, true]
                .iter()
                .all(|kind| journal.acknowledged.get(&(node, *kind)).is_some_and(|at| *at > since))
        })
        .await;
    }
}

/// Stops a process at a moment when it holds a transaction open.
async fn freeze(process: &Running, store: &Store) {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '300 ms'";
    until("a transaction is caught", async || {
        process.signal("-STOP");
        tokio::time::sleep(Duration::from_millis(400)).await;
        let is_caught = number(store, OPEN).await > 0;
        if !is_caught {
            process.signal("-CONT");
        }
        is_caught
    })
    .await;
}

async fn counts(store: &Store) -> BTreeMap<String, i64> {
    let read = store.read("events", async |conn: &mut Conn| {
        let Conn::Postgres(lent) = conn else { panic!("not PostgreSQL") };
        let text = "SELECT object_id, count(*) FROM events GROUP BY object_id";
        Ok::<_, store::Error>(sqlx::query_as(text).fetch_all(lent.native()).await?)
    });
    let rows: Vec<(String, i64)> = read.await.unwrap();
    rows.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_process_stops_no_other_and_loses_nothing() {
    let database = TestDatabase::create(Backend::Postgres).await;
    let directories: Vec<_> = (0..NODES).map(|_| tempfile::tempdir().unwrap()).collect();
    let settings = [
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_DEBOUNCE_MS", "1"),
        ("AUSPEX_RATE_LIMIT_PER_MINUTE", "1000000"),
        ("AUSPEX_SYNC_LIMIT", "1000"),
        ("AUSPEX_DATABASE_URL", database.url()),
        ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ];
    let nodes: Vec<_> = directories.iter().map(|directory| Running::start(directory, &settings)).collect();
    let store = database.open().await;
    let http = process::client();
    let account = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let register = format!("http://{}/auth/console/register", nodes[0].address);
    let account: Value = http.post(register).json(&account).send().await.unwrap().json().await.unwrap();
    let load = Arc::new(Load {
        http,
        token: account["token"].as_str().unwrap().to_owned(),
        addresses: nodes.iter().map(|node| node.address.clone()).collect(),
        journal: Mutex::default(),
        stop: CancellationToken::new(),
    });
    let clients = TaskTracker::new();
    for (node, client) in (0..NODES).flat_map(|node| (0..CLIENTS).map(move |client| (node, client))) {
        let load = Arc::clone(&load);
        clients.spawn(async move { load.run(node, client).await });
    }
    let mut took = Vec::new();
    for round in 0..FREEZES {
        let victim = round % NODES;
        for node in 0..NODES {
            load.works_again(node, Instant::now()).await;
        }
        freeze(&nodes[victim], &store).await;
        let frozen = Instant::now();
        for node in (0..NODES).filter(|node| *node != victim) {
            load.works_again(node, frozen).await;
        }
        took.push(frozen.elapsed());
        println!("round {round}: the others worked {:?} after node {victim} was frozen", took[round]);
        nodes[victim].signal("-CONT");
        load.works_again(victim, Instant::now()).await;
    }
    let in_time = took.iter().filter(|one| **one < PROMISED).count();
    assert!(in_time >= FREEZES - 1 && took.iter().all(|one| *one < 2 * PROMISED), "{took:?}");
    load.stop.cancel();
    clients.close();
    clients.wait().await;

    // Whatever was not answered is sent again under the same key.
    let unanswered = load.journal.lock().unwrap().unanswered.clone();
    for object in &unanswered {
        until("it is acknowledged", async || load.send(0, object, false).await).await;
    }
    until("every analysis ends", async || number(&store, "SELECT count(*) FROM jobs").await == 0).await;
    let expected: BTreeMap<String, i64> =
        load.journal.lock().unwrap().sent.iter().map(|object| (object.clone(), 1)).collect();
    println!("{} events, {} of them sent again", expected.len(), unanswered.len());
    assert_eq!(counts(&store).await, expected, "each event is there once");
    let audit = process::run(&directories[0], &["admin", "audit"], &settings);
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    for node in nodes {
        assert!(node.stop().0);
    }
    store.close().await;
    database.tear_down().await;
}
