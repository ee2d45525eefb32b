//! A service with nothing to do: it writes nothing but its heartbeat, and still finds what nobody has told it of.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::Random;
use store::Conn;
use store::analysis::bulk_runs::{self, BulkRunKind, NewBulkRun};
use store::analysis::jobs;
use testkit::{PATIENCE, TestDatabase};

use crate::admin::{auspex, finish};
use crate::app::{App, PASSWORD};
use crate::scripted_analyzer::until;
use crate::secrets_in_logs::Process;

testkit::on_both!(
    an_idle_service_writes_nothing_but_its_heartbeat,
    work_that_nobody_announces_is_found_within_two_seconds,
);

/// Heartbeats, five seconds apart, after which every worker has had its turn: the slowest has one every ten seconds.
const HEARTBEATS: u64 = 3;
/// What an idle service reads, by the names of the reads.
const READS: [&str; 6] = ["clock", "next_due", "queue_gauges", "suspended", "sweep_round", "unpaid_tenants"];
/// How late unannounced work may start.
const BACKSTOP: Duration = Duration::from_secs(2);
/// Longer than the debounce.
const QUIET: Duration = Duration::from_secs(3);

/// How many transactions and reads of each name there were.
fn transactions(page: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in page.lines() {
        let Some(rest) = line.strip_prefix("auspex_store_transactions_total{name=\"") else { continue };
        let (name, rest) = rest.split_once('"').unwrap();
        let (_, count) = rest.rsplit_once(' ').unwrap();
        *counts.entry(name.to_owned()).or_default() += count.parse::<u64>().unwrap();
    }
    counts
}

/// A process of its own, whose metrics no other test adds to. One of its accounts is suspended.
async fn an_idle_service_writes_nothing_but_its_heartbeat(database: &TestDatabase) {
    let process = Process::start(database.directory(), database.url(), &[("AUSPEX_ANALYZER", "words")]);
    let account = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let registered = process.request(Method::POST, "/auth/console/register").json(&account);
    let token = process.send(registered).await.json()["token"].as_str().unwrap().to_owned();
    let me = process.send(process.request(Method::GET, "/v1/me").bearer_auth(&token)).await.json();
    let suspend = ["admin", "tenant", "suspend", me["tenant_id"].as_str().unwrap()];
    assert!(finish(auspex(database.directory(), database.url(), &suspend), b"").status.success());
    let counts = async || transactions(&process.send(process.request(Method::GET, "/metrics")).await.text);
    // The mail of the registration is the last that is written.
    until("its mail is sent", async || counts().await.contains_key("close_message")).await;

    let heartbeats = |counts: &BTreeMap<String, u64>| counts.get("heartbeat").copied().unwrap_or_default();
    let watched = async || {
        let before = counts().await;
        loop {
            let now = counts().await;
            if heartbeats(&now) >= heartbeats(&before) + HEARTBEATS {
                return (before, now);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, async {
        let (before, after) = watched().await;
        // A round of sweeps, of which there is one in ten minutes, came in between.
        if before.get("claim_sweep") == after.get("claim_sweep") { (before, after) } else { watched().await }
    });
    let (before, after) = waited.await.expect("its heart beats");
    let more = after.iter().filter(|(name, count)| before.get(*name) != Some(*count));
    let written: Vec<&String> =
        more.map(|(name, _)| name).filter(|name| !READS.contains(&name.as_str())).collect();
    assert_eq!(written, ["heartbeat"]);
    let looked = after["next_due"] - before.get("next_due").copied().unwrap_or_default();
    assert!(looked <= 5 * HEARTBEATS, "{looked} looks at the queues in {HEARTBEATS} heartbeats");
    process.stop();
}

async fn work_that_nobody_announces_is_found_within_two_seconds(app: &App) {
    let key = app.api_key(&app.register("ann@example.com").await).await;
    let signal = json!({"type": "noul", "instructions": "Is it fraud?"});
    assert_eq!(key.call(app, Method::PUT, "/v1/signals/fraud", &signal).await.status, 200);
    let event = json!({"events": [{"type": "message", "content": "Is it still for sale?"}]});
    assert_eq!(key.call(app, Method::POST, "/v1/objects/user_1/events", &event).await.status, 202);
    app.advance(QUIET);
    app.settle().await;
    let service = app.service();
    let tenant = service.accounts.operators.tenants().await.unwrap().remove(0).tenant_id;
    let analyses = async || {
        let path = "/v1/objects/user_1/answers";
        let history = key.call(app, Method::GET, path, &Value::Null).await;
        assert_eq!(history.status, 200, "{}", history.text);
        history.json()["analyses"].as_array().unwrap().len()
    };
    let before = analyses().await;

    let queue = async |conn: &mut Conn| {
        jobs::schedule_now(conn, tenant, "user_1", app.now(), None).await?;
        Ok::<_, store::Error>(())
    };
    service.store().write("test", queue).await.unwrap();
    app.advance(BACKSTOP);
    until("it is analyzed", async || analyses().await == before + 1).await;

    let now: Timestamp = app.now();
    let id = Random::seeded(7).id(now);
    let run = NewBulkRun { id, kind: BulkRunKind::Analyze, signal: None, total: 1, now };
    let start = async |conn: &mut Conn| bulk_runs::start(conn, tenant, &run).await;
    service.store().write("test", start).await.unwrap();
    app.advance(BACKSTOP);
    until("all objects are analyzed", async || analyses().await == before + 2).await;
}
