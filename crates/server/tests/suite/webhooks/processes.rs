//! Deliveries when processes die or share their work.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::{Backend, Stage as _, TestDatabase};

use super::*;
use crate::app::PASSWORD;
use crate::process::Running;
use crate::receiver::Answer;
use crate::scripted_analyzer::number;

/// Whoever talks to a service in another process.
pub(crate) struct Client {
    http: reqwest::Client,
    token: String,
}

impl Client {
    pub(crate) async fn register(service: &Running) -> Self {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let body = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
        let url = format!("http://{}/auth/console/register", service.address);
        let answer: Value = http.post(url).json(&body).send().await.unwrap().json().await.unwrap();
        Self { http, token: answer["token"].as_str().unwrap().to_owned() }
    }

    pub(crate) async fn post(&self, service: &Running, path: &str, body: &Value) {
        let url = format!("http://{}{path}", service.address);
        let sent = self.http.post(url).bearer_auth(&self.token).json(body).send().await.unwrap();
        assert!(sent.status().is_success(), "{path}: {}", sent.text().await.unwrap());
    }

    pub(crate) async fn text(&self, service: &Running, path: &str) -> String {
        let url = format!("http://{}{path}", service.address);
        let answer = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        answer.text().await.unwrap()
    }

    async fn count(&self, service: &Running, status: &str) -> usize {
        let url = format!("http://{}/v1/webhook_deliveries?limit=200&status={status}", service.address);
        let answer = self.http.get(url).bearer_auth(&self.token).send().await.unwrap();
        let listed: Value = answer.json().await.unwrap();
        listed["deliveries"].as_array().unwrap().len()
    }
}

/// Deliveries that are leased, by the database.
async fn count_leased(url: &str) -> i64 {
    let store = store::Store::open(url).await.unwrap();
    let held = number(&store, "SELECT count(*) FROM webhook_queue WHERE status = 'delivering'").await;
    store.close().await;
    held
}

/// Expires the leases of processes that are dead. On SQLite the next process does so by itself.
async fn expire_leases(url: &str) {
    let store = store::Store::open(url).await.unwrap();
    store
        .write("expire_leases", async |conn: &mut store::Conn| {
            let text = "UPDATE webhook_queue SET lease_until = run_after WHERE status = 'delivering'";
            if let store::Conn::Postgres(held) = conn {
                sqlx::query(text).execute(held.native()).await?;
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

/// The real binary, killed in the middle of its deliveries, twice. Each must arrive; some may do so twice.
async fn killed_during_deliveries(database: &TestDatabase) {
    const OBJECTS: usize = 150;
    let directory = tempfile::tempdir().unwrap();
    let url = database.url();
    // Deliveries are looked at here, not answers: the model would take its time in a test build.
    let settings = [
        ("AUSPEX_DEBOUNCE_MS", "1"),
        ("AUSPEX_WORKERS", "64"),
        ("AUSPEX_ANALYZER", "words"),
        ("AUSPEX_DATABASE_URL", url),
        ("AUSPEX_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ];
    let receiver = Receiver::start().await;
    let service = Running::start(&directory, &settings);
    let client = Client::register(&service).await;
    client.post(&service, "/v1/webhooks", &json!({"url": receiver.url()})).await;
    // A few are under way and the rest is queued when the end comes.
    let gate = receiver.hold();
    for number in 0..OBJECTS {
        let path = format!("/v1/objects/user_{number}/events");
        client.post(&service, &path, &json!({"events": [{"type": "event", "name": "seen"}]})).await;
    }
    gate.add_permits(20);
    until("deliveries are under way", async || receiver.count() > 20).await;
    service.signal("-KILL");
    drop(service);
    assert!(count_leased(url).await > 0, "some were under way");

    // The second time they wait for an answer that does not come before the end.
    let seen = receiver.count();
    expire_leases(url).await;
    let service = Running::start(&directory, &settings);
    until("deliveries go on", async || receiver.count() > seen).await;
    service.signal("-KILL");
    drop(service);
    assert!(count_leased(url).await > 0, "some were under way");

    receiver.always(Answer::Status(200));
    expire_leases(url).await;
    let service = Running::start(&directory, &settings);
    until("everything is delivered", async || client.count(&service, "delivered").await == OBJECTS).await;
    for status in ["pending", "delivering", "dead"] {
        assert_eq!(client.count(&service, status).await, 0, "{status}");
    }
    assert!(service.stop().0);
    let objects: BTreeSet<String> =
        receiver.arrived().iter().map(|one| one.json()["object_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(objects.len(), OBJECTS);
    // What arrived twice did so under one id.
    let ids: BTreeSet<String> =
        receiver.arrived().iter().map(|one| one.header("x-webhook-delivery").to_owned()).collect();
    assert_eq!(ids.len(), OBJECTS);
}

testkit::on_both!(killed_during_deliveries);

/// The clock stands still, so that no lease runs out: nothing but a race could send a delivery twice.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_share_a_database_share_the_deliveries() {
    let one = App::start(Backend::Postgres, &[("AUSPEX_DEBOUNCE_MS", "1")]).await;
    let other = one.second_node(&[("AUSPEX_DEBOUNCE_MS", "1")]).await;
    let token = one.register("ann@example.com").await;
    let key = one.api_key(&token).await;
    let (receiver, second) = (Receiver::start().await, Receiver::start().await);
    subscribe(&one, &key, &receiver).await;
    subscribe(&one, &key, &second).await;
    for number in 0..100 {
        let node = if number % 2 == 0 { &one } else { &other };
        send_event(node, &key, &format!("user_{number}"), "seen").await;
    }
    one.advance(QUIET);
    one.settle().await;
    for receiver in [&receiver, &second] {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for arrived in receiver.arrived() {
            *times.entry(arrived.header("x-webhook-delivery").to_owned()).or_default() += 1;
        }
        assert_eq!(times.len(), 100);
        assert!(times.values().all(|count| *count == 1), "{times:?}");
    }
    other.stop().await;
    one.tear_down().await;
}

/// Which of two edits came last is not a question of clocks.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_clocks_differ_edit_one_endpoint() {
    let settings = [("AUSPEX_DEBOUNCE_MS", "1")];
    let ahead = App::start_at(Backend::Postgres, &settings, crate::app::START + 2 * SECOND).await;
    let behind = ahead.second_node_at(&[("AUSPEX_ROLE", "api")], crate::app::START).await;
    let token = ahead.register("ann@example.com").await;
    let key = ahead.api_key(&token).await;
    let receivers = [Receiver::start().await, Receiver::start().await, Receiver::start().await];
    let endpoint = subscribe(&ahead, &key, &receivers[0]).await;
    for (number, node) in [(1, &ahead), (2, &behind)] {
        let url = json!({"url": receivers[number].url()});
        assert_eq!(patch(node, &key, &endpoint, &url).await.status, 200);
        send_event(&ahead, &key, &format!("user_{number}"), "seen").await;
        ahead.advance(SECOND);
        newest(&ahead, &key, "delivered", 1).await;
        receivers[number].got(1).await;
    }
    ahead.settle().await;
    behind.stop().await;
    ahead.tear_down().await;
}

/// The worker's clock stands still, so that its poll never comes: only the word of the other process can wake it.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_through_one_process_wakes_the_courier_of_another() {
    let api = App::start(Backend::Postgres, &[("AUSPEX_ROLE", "api"), ("AUSPEX_DEBOUNCE_MS", "1")]).await;
    let worker = api.second_node(&[("AUSPEX_ROLE", "worker")]).await;
    let token = api.register("ann@example.com").await;
    let key = api.api_key(&token).await;
    let receiver = Receiver::start().await;
    subscribe(&api, &key, &receiver).await;
    send_event(&api, &key, "user_1", "seen").await;
    api.advance(SECOND);
    let delivered = newest(&api, &key, "delivered", 1).await;
    assert_eq!(replay(&api, &key, &delivered).await.status, 202);
    receiver.got(2).await;
    // Mail has time: the worker finds it when it next looks.
    api.advance(Duration::from_secs(3));
    api.settle().await;
    worker.stop().await;
    api.tear_down().await;
}
