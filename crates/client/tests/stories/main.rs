//! The stories of clients/stories.md, told by this client against the real binary. clients/testing/world.py starts what they
//! need; `make test-clients` runs them in it, and `make test` skips them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auspex_client::api::{
    ActionType, EventInput, EventRetention, ExportKind, RegisterRequest, RuleCreate, SettingsUpdate,
    SignalInput, WebhookEndpointCreate,
};
use auspex_client::{
    Client, ClientBuilder, Error, ExportQuery, Ingest, IngesterOptions, LedgerQuery, ObjectsQuery,
    SignalType, Timestamp, webhook,
};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// An id in which everything needs escaping.
const OBJECT: &str = "käufer/1 %2F?#&+ü😀";

/// The URL of a service or proxy of the world.
#[expect(
    clippy::disallowed_methods,
    reason = "the world is described by a variable, and is no setting of the service"
)]
fn place(name: &str) -> String {
    let world = std::env::var("AUSPEX_TEST_WORLD").unwrap();
    let world: BTreeMap<String, String> = serde_json::from_str(&world).unwrap();
    world[name].clone()
}

/// A client of a new account on a service, which is then called by another URL.
async fn account(service: &str, by: &str) -> ClientBuilder {
    let nobody = Client::builder(place(service)).build().unwrap();
    let register = RegisterRequest {
        tenant_name: "Stories".to_owned(),
        email: format!("story-{}@example.com", Uuid::new_v4().simple()),
        password: "seven lamps along the quay".to_owned(),
    };
    let token = nobody.register(&register).await.unwrap().token;
    let person = Client::builder(place(service)).token(token).build().unwrap();
    let made = person.create_key(Some("stories")).await.unwrap();
    Client::builder(place(by)).key(made.key, made.secret)
}

async fn connect() -> Client {
    account("service", "service").await.build().unwrap()
}

fn sale() -> Ingest {
    Ingest::new([EventInput::event("sale")])
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (u16, String) {
    let error = outcome.unwrap_err();
    (error.status().unwrap(), error.code().unwrap().to_owned())
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn signs_any_object_id() {
    let client = connect().await;
    let sent = client.send(OBJECT, sale().object_type("buyer")).await.unwrap();
    assert_eq!((sent.accepted.object_id.as_str(), sent.accepted.accepted), (OBJECT, 1));
    let found = client.object(OBJECT).await.unwrap();
    assert_eq!((found.object_type.as_str(), found.event_count), ("buyer", 1));
    let query = ObjectsQuery { q: Some("käufer/1 %2F?#&+".to_owned()), ..ObjectsQuery::default() };
    assert_eq!(client.objects(&query).await.unwrap().objects.len(), 1);
    client.delete_object(OBJECT).await.unwrap();
    assert_eq!(refused(client.object(OBJECT).await), (404, "not_found".to_owned()));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn refuses_a_wrong_secret() {
    let client = account("service", "service").await.key("ak_none", "sk_wrong_and_secret").build().unwrap();
    let error = client.me().await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(401), Some("unauthorized")));
    assert!(error.refusal().unwrap().request_id.is_some());
    assert!(!format!("{error} {error:?} {client:?}").contains("sk_wrong_and_secret"));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn names_what_is_wrong() {
    let client = connect().await;
    let long = EventInput::event("x".repeat(256));
    let error = client.send("a", Ingest::new([EventInput::event("sale"), long])).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!((refusal.status, refusal.code.as_str()), (400, "bad_request"));
    assert!(refusal.message.contains("events[1].name"), "{error}");
    assert_eq!(refused(client.rule(Uuid::new_v4()).await).0, 404);
    client.send("a", sale().idempotency_key("used")).await.unwrap();
    let reused = client.send("b", sale().idempotency_key("used")).await;
    assert_eq!(refused(reused), (422, "idempotency_key_reused".to_owned()));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn records_events_once() {
    let client = connect().await;
    let first = client.send("a", sale().idempotency_key("order-17")).await.unwrap();
    let again = client.send("a", sale().idempotency_key("order-17")).await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(client.object("a").await.unwrap().event_count, 1);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn survives_a_lost_response() {
    let client = account("service", "lossy").await.build().unwrap();
    let name = format!("lost/{}", Uuid::new_v4());
    let sent = client.send(&name, sale()).await.unwrap();
    assert!(sent.replayed, "the first response was lost");
    assert_eq!(client.object(&name).await.unwrap().event_count, 1);
    client.delete_object(&name).await.unwrap();
    assert_eq!(refused(client.object(&name).await).0, 404);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn never_resends_recorded_events() {
    let client = account("without_analyzer", "without_analyzer").await.build().unwrap();
    let error = client.verdict("a", sale()).await.unwrap_err();
    assert!(error.refusal().unwrap().events_recorded, "{error}");
    assert_eq!(client.object("a").await.unwrap().event_count, 1);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn reports_a_rate_limit() {
    let client = account("rate_limited", "rate_limited").await.max_retries(0).build().unwrap();
    let mut error = None;
    for _ in 0..20 {
        if let Err(refusal) = client.me().await {
            error = Some(refusal);
            break;
        }
    }
    let error = error.unwrap();
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.status, 429);
    assert!(refusal.retry_after.unwrap() <= Duration::from_mins(1) && !refusal.events_recorded);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn gives_up_at_the_deadline() {
    let builder = account("service", "silent").await.timeout(Duration::from_millis(100)).max_retries(2);
    let (client, started) = (builder.build().unwrap(), Instant::now());
    assert!(matches!(client.me().await.unwrap_err(), Error::Transport(_)));
    assert!(started.elapsed() >= Duration::from_millis(300) && started.elapsed() < Duration::from_secs(10));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn fails_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(gone).key("ak_1", "sk_1").max_retries(1).build().unwrap();
    let error = client.create_key(None).await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)), "{error}");
    assert_eq!(error.status(), None);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn waits_for_answers() {
    let client = connect().await;
    client.send("a", Ingest::new([EventInput::message("gift cards only")])).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let found = loop {
        let found = client.object("a").await.unwrap();
        if found.pending.is_empty() || Instant::now() > deadline {
            break found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((found.pending.len(), found.analysis.len()), (0, 3));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn returns_a_verdict() {
    let client = connect().await;
    let verdict = client.verdict("a", sale().signals(["trust_score"])).await.unwrap();
    assert!(verdict.analyzed);
    assert_eq!((verdict.answers.len(), verdict.answers[0].value.kind), (1, SignalType::Score));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn pages_through_everything() {
    let client = connect().await;
    for number in 0..7 {
        client.verdict(&format!("seller/{number}"), sale()).await.unwrap();
    }
    let mut query = ObjectsQuery { limit: Some(2), ..ObjectsQuery::default() };
    let (mut by_cursor, mut pages) = (BTreeSet::new(), 0);
    loop {
        let page = client.objects(&query).await.unwrap();
        by_cursor.extend(page.objects.into_iter().map(|object| object.object_id));
        pages += 1;
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!((by_cursor.len(), pages), (7, 4));
    let mut by_offset = BTreeSet::new();
    for offset in [0, 2, 4, 6] {
        let q = Some("is_scammer >= 0".to_owned());
        let query = ObjectsQuery { q, limit: Some(2), offset: Some(offset), ..ObjectsQuery::default() };
        let page = client.objects(&query).await.unwrap();
        by_offset.extend(page.objects.into_iter().map(|object| object.object_id));
    }
    assert_eq!(by_offset, by_cursor);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn asks_a_new_question() {
    let client = connect().await;
    let question = |text: &str| -> SignalInput {
        let question = json!({"type": "score", "instructions": text, "criteria": ["not", "very"]});
        serde_json::from_value(question).unwrap()
    };
    assert!(client.put_signal("kind", &question("How kind?")).await.unwrap().enabled);
    let changed = client.put_signal("kind", &question("How?")).await.unwrap();
    assert_eq!(changed.instructions.get(), "\"How?\"");
    assert!(client.signals().await.unwrap().iter().any(|signal| signal.key == "kind"));
    client.delete_signal("kind").await.unwrap();
    assert_eq!(refused(client.delete_signal("kind").await).0, 404);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn verifies_a_webhook() {
    let client = connect().await;
    let (sender, mut arrived) = mpsc::unbounded_channel();
    let receive = move |headers: HeaderMap, body: Bytes| {
        let sent = sender.send((headers, body));
        async move { if sent.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::GONE } }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let routes = Router::new().route("/hook", post(receive));
    #[expect(clippy::disallowed_methods, reason = "it ends with the handle")]
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let _serving = AbortOnDropHandle::new(serving);

    let events = Some(vec!["rule.triggered".to_owned()]);
    let create = WebhookEndpointCreate { url, description: None, signal_keys: None, events, enabled: None };
    let made = client.create_webhook(&create).await.unwrap();
    let Value::Object(action_config) = json!({"endpoint_id": made.endpoint.id}) else { panic!("no object") };
    let rule = RuleCreate {
        name: None,
        when: "is_scammer >= 0".to_owned(),
        action_type: ActionType::Webhook,
        action_config,
        enabled: None,
        mode: None,
        cooldown_seconds: None,
    };
    let rule = client.create_rule(&rule).await.unwrap();
    client.verdict("a", sale()).await.unwrap();
    let (headers, body) =
        tokio::time::timeout(Duration::from_secs(30), arrived.recv()).await.unwrap().unwrap();
    let verify = |secret: &str, body: &[u8], at: Timestamp| {
        webhook::verify(secret, &headers, body, at, webhook::TOLERANCE)
    };
    assert_eq!(verify(&made.secret, &body, now()), Ok(()));
    let webhook::Payload::RuleTriggered(payload) = webhook::parse(&body).unwrap() else { panic!("another") };
    assert_eq!((payload.rule_id, payload.object_id.as_str()), (rule.id, "a"));
    let other = format!("whsec_{}=", "A".repeat(43));
    let both = [other.as_str(), &made.secret];
    assert_eq!(webhook::verify_any(&both, &headers, &body, now(), webhook::TOLERANCE), Ok(()));
    assert_eq!(verify(&other, &body, now()), Err(webhook::Unverified::Forged));
    let changed = [body.as_ref(), b" "].concat();
    assert_eq!(verify(&made.secret, &changed, now()), Err(webhook::Unverified::Forged));
    let later = now() + Duration::from_mins(10);
    assert_eq!(verify(&made.secret, &body, later), Err(webhook::Unverified::Stale));
}

#[expect(clippy::disallowed_methods, reason = "a receiver has no service::Clock")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_seconds(since_epoch.as_secs().try_into().unwrap())
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn looks_after_keys() {
    let client = connect().await;
    let made = client.create_key(Some("second")).await.unwrap();
    let second = Client::builder(place("service")).key(&made.key, &made.secret).build().unwrap();
    assert_eq!(second.me().await.unwrap().tenant_name, "Stories");
    client.revoke_key(made.api_key.id).await.unwrap();
    assert_eq!(refused(second.me().await), (401, "unauthorized".to_owned()));
    assert_eq!(client.keys().await.unwrap().len(), 1);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn reads_money_and_settings() {
    let client = connect().await;
    client.verdict("a", sale()).await.unwrap();
    assert_eq!(client.balance().await.unwrap().currency, "usd");
    let entries = client.ledger(&LedgerQuery::default()).await.unwrap().entries;
    let reasons: BTreeSet<String> = entries.into_iter().map(|entry| entry.reason).collect();
    assert_eq!(reasons, ["analysis", "signup_credit"].map(str::to_owned).into());
    assert_eq!(client.usage(None, None).await.unwrap().totals.analyses, 1);
    let change = SettingsUpdate {
        event_retention: Some(EventRetention::Days),
        event_retention_days: Some(Some(30)),
        ..SettingsUpdate::default()
    };
    assert_eq!(client.update_settings(&change).await.unwrap().event_retention_days, Some(30));
    assert_eq!(client.settings().await.unwrap().event_retention, EventRetention::Days);
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn exports_everything() {
    let client = account("service", "lossy").await.build().unwrap();
    let mut expected = BTreeSet::new();
    for part in 0..3 {
        let contents: Vec<String> = (0..100).map(|number| format!("{part} {number}\u{2028}\n")).collect();
        let events = contents.iter().map(|content| EventInput::message(content.as_str()));
        client.send(&format!("seller/{part}"), Ingest::new(events)).await.unwrap();
        expected.extend(contents);
    }
    let mut export = client.export(ExportQuery::new(ExportKind::Events));
    let mut bytes = Vec::new();
    while let Some(rows) = export.next().await.unwrap() {
        bytes.extend(rows);
    }
    let rows: Vec<Value> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|row| serde_json::from_slice(row).unwrap())
        .collect();
    assert_eq!((rows.len(), export.rows()), (300, 300));
    assert_eq!(export.cursor(), rows[299]["cursor"].as_str());
    let contents: BTreeSet<String> =
        rows.iter().map(|row| row["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(contents, expected);

    let cursor = rows[199]["cursor"].as_str().map(str::to_owned);
    let mut rest = client.export(ExportQuery { cursor, ..ExportQuery::new(ExportKind::Events) });
    let mut left = Vec::new();
    while let Some(rows) = rest.next().await.unwrap() {
        left.extend(rows);
    }
    assert!(bytes.ends_with(&left), "it goes on after the row");
    assert_eq!(rest.rows(), 100);
    let cursor = Some("nonsense".to_owned());
    let mut wrong = client.export(ExportQuery { cursor, ..ExportQuery::new(ExportKind::Events) });
    assert_eq!(wrong.next().await.unwrap_err().status(), Some(400));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn closes_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(gone).key("ak_1", "sk_1").build().unwrap();
    let options = IngesterOptions {
        max_delay: Duration::from_millis(10),
        close_timeout: Duration::from_millis(500),
        ..IngesterOptions::default()
    };
    let ingester = client.ingester(options).unwrap();
    for number in 0..20 {
        let event = EventInput::event("sale").with_metadata(&json!({"number": number}));
        ingester.send(&format!("seller/{}", number % 10), Some("seller"), event).await.unwrap();
    }
    let closed = tokio::time::timeout(Duration::from_secs(10), ingester.close()).await;
    let failed = closed.expect("closing ends in time").unwrap_err();
    assert_eq!(failed.events, 20);
    let unsent = failed.batches.iter().flat_map(|batch| &batch.events);
    let unsent: BTreeSet<&str> = unsent.map(|event| event.metadata.as_ref().unwrap().get()).collect();
    assert_eq!(unsent.len(), 20, "{unsent:?}");
    assert!(failed.batches.iter().all(|batch| batch.object_type.as_deref() == Some("seller")));
}

#[ignore = "make test-clients runs it"]
#[tokio::test]
async fn sends_many_events() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let builder = account("service", "service").await;
    // Each request is signed by a time of its own.
    let client = builder.clock(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        now()
    });
    let client = client.build().unwrap();
    let options = IngesterOptions {
        max_delay: Duration::from_millis(50),
        max_pending_events: 200,
        ..IngesterOptions::default()
    };
    let ingester = client.ingester(options).unwrap();
    for number in 0..1_000 {
        let event = EventInput::event("sale").with_metadata(&json!({"number": number}));
        ingester.send(&format!("seller/{}", number % 20), Some("seller"), event).await.unwrap();
        assert!(ingester.pending_events() <= 200);
    }
    ingester.close().await.unwrap();
    let spent = requests.load(Ordering::Relaxed);
    assert!(spent < 300, "{spent} requests");
    for seller in 0..20 {
        let events = client.events(&format!("seller/{seller}")).await.unwrap();
        let numbers: Vec<String> =
            events.iter().map(|event| event.metadata.as_ref().unwrap().get().to_owned()).collect();
        let expected = (0..50).rev().map(|turn| format!("{{\"number\":{}}}", turn * 20 + seller));
        assert_eq!(numbers, expected.collect::<Vec<String>>());
    }
}
