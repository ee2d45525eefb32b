//! Webhooks as their owner sees them: registered, read, edited, removed, and refused with the place that is wrong.

mod addresses;
mod circuit;
mod delivery;
mod ends;
mod health;
mod peers;
pub(crate) mod processes;
mod queue;
mod rotation;

use std::time::Duration;

use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{App, Reply};
use crate::receiver::Receiver;
use crate::registration::refuses_nonsense;
use crate::scripted_analyzer::{Scripted, Settings, get, send_event, until};
use crate::signer::Signer;

testkit::on_both!(
    an_endpoint_is_registered_read_edited_and_removed,
    a_secret_is_shown_once_and_kept_sealed,
    a_refusal_says_where,
    endpoints_and_deliveries_are_one_account_s,
    an_account_has_at_most_fifty_endpoints,
    deliveries_are_listed_within_limits,
    addresses_in_private_networks_are_refused,
    no_input_breaks_anything,
);

const PATH: &str = "/v1/webhooks";
/// How long an object must be quiet before it is analyzed.
pub(crate) const QUIET: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);

/// Receivers must be quick here, so that stories of silence are; and slow enough for a machine with other things to do.
pub(crate) struct Impatient;

impl Settings for Impatient {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_WEBHOOK_TIMEOUT_MS", "2000")];
}

/// Nobody gives up on a receiver before the story is over.
pub(crate) struct Patient;

impl Settings for Patient {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_WEBHOOK_TIMEOUT_MS", "600000")];
}

/// A deployment like one in production: nothing leads into private networks.
struct Guarded;

impl Settings for Guarded {
    const SETTINGS: &'static [(&'static str, &'static str)] = &[("AUSPEX_ALLOW_PRIVATE_TARGETS", "false")];
}

/// Registers an endpoint; the answer with its secret.
async fn register(app: &App, key: &Signer, body: &Value) -> Value {
    let reply = key.call(app, Method::POST, PATH, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// Registers a receiver for everything; the endpoint's id.
async fn subscribe(app: &App, key: &Signer, receiver: &Receiver) -> String {
    let made = register(app, key, &json!({"url": receiver.url()})).await;
    made["endpoint"]["id"].as_str().unwrap().to_owned()
}

async fn patch(app: &App, key: &Signer, endpoint: &str, body: &Value) -> Reply {
    key.call(app, Method::PATCH, &format!("{PATH}/{endpoint}"), body).await
}

async fn remove(app: &App, key: &Signer, endpoint: &str) {
    let reply = key.call(app, Method::DELETE, &format!("{PATH}/{endpoint}"), &Value::Null).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
}

async fn replay(app: &App, key: &Signer, delivery: &Value) -> Reply {
    let path = format!("/v1/webhook_deliveries/{}/replay", delivery["id"].as_str().unwrap());
    key.call(app, Method::POST, &path, &Value::Null).await
}

/// The deliveries, newest first.
async fn deliveries(app: &App, key: &Signer, query: &str) -> Vec<Value> {
    let reply = get(app, key, &format!("/v1/webhook_deliveries{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["deliveries"].as_array().unwrap().clone()
}

/// Waits until the newest delivery is this far; returns it.
async fn newest(app: &App, key: &Signer, status: &str, attempts: u64) -> Value {
    until(&format!("the newest delivery is {status} after {attempts} attempts"), async || {
        let all = deliveries(app, key, "?limit=1").await;
        all.first().is_some_and(|one| one["status"] == status && one["attempts"] == attempts)
    })
    .await;
    deliveries(app, key, "?limit=1").await.remove(0)
}

/// Waits until this many deliveries are so far.
async fn counted(app: &App, key: &Signer, status: &str, count: usize) {
    until(&format!("{count} deliveries are {status}"), async || {
        deliveries(app, key, &format!("?limit=200&status={status}")).await.len() == count
    })
    .await;
}

/// Has objects analyzed, named by their number.
async fn analyze(app: &App, key: &Signer, numbers: std::ops::Range<u32>) {
    for number in numbers {
        send_event(app, key, &format!("user_{number}"), "seen").await;
    }
    app.advance(QUIET);
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// Moves the clock to where a delivery is due.
fn advance_to(app: &App, delivery: &Value) {
    app.advance(time(&delivery["run_after"]).since(app.now()));
}

async fn an_endpoint_is_registered_read_edited_and_removed(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    assert_eq!(get(app, &key, PATH).await.json(), json!({"webhooks": []}));
    let made = register(app, &key, &json!({"url": "https://example.com/hook?a=1#b", "unknown": 1})).await;
    let (id, now) = (made["endpoint"]["id"].as_str().unwrap().to_owned(), app.now().to_string());
    let mut expected = json!({
        "id": id,
        "url": "https://example.com/hook?a=1#b",
        "description": "",
        "enabled": true,
        "signal_keys": [],
        "events": ["analysis.completed", "rule.triggered"],
        "created_at": now,
        "updated_at": now,
    });
    assert_eq!(made["endpoint"], expected);
    assert!(made["note"].as_str().is_some_and(|note| !note.is_empty()));
    assert_eq!(made.as_object().unwrap().len(), 3);
    let path = format!("{PATH}/{id}");
    assert_eq!(get(app, &key, &path).await.json(), expected);

    app.advance(SECOND);
    let change = json!({
        "url": "http://example.com/other",
        "description": "Orders 📦",
        "enabled": false,
        // A signal that does not exist yet, and each only once.
        "signal_keys": ["later", "is_scammer", "later"],
        "events": ["rule.triggered", "rule.triggered"],
    });
    let reply = patch(app, &key, &id, &change).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    for (field, value) in [
        ("url", json!("http://example.com/other")),
        ("description", json!("Orders 📦")),
        ("enabled", json!(false)),
        ("signal_keys", json!(["later", "is_scammer"])),
        ("events", json!(["rule.triggered"])),
        ("updated_at", json!(app.now().to_string())),
    ] {
        expected[field] = value;
    }
    assert_eq!(reply.json(), expected);
    // What is left out stays.
    app.advance(SECOND);
    expected["updated_at"] = json!(app.now().to_string());
    assert_eq!(patch(app, &key, &id, &json!({})).await.json(), expected);

    let other = register(
        app,
        &key,
        &json!({"url": "https://example.com/2", "events": ["analysis.completed"],
        "enabled": false, "description": "two", "signal_keys": ["is_scammer"]}),
    )
    .await;
    assert_eq!(other["endpoint"]["events"], json!(["analysis.completed"]));
    let listed = get(app, &key, PATH).await.json();
    assert_eq!(listed, json!({"webhooks": [expected, other["endpoint"]]}), "oldest first");

    remove(app, &key, &id).await;
    get(app, &key, &path).await.refused(404, "not_found");
    patch(app, &key, &id, &json!({})).await.refused(404, "not_found");
    key.call(app, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    assert_eq!(get(app, &key, PATH).await.json()["webhooks"].as_array().unwrap().len(), 1);
}

async fn a_secret_is_shown_once_and_kept_sealed(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let made = register(stage, &key, &json!({"url": "https://example.com/"})).await;
    let secret = made["secret"].as_str().unwrap();
    let encoded = secret.strip_prefix("whsec_").unwrap();
    assert_eq!(encoded.len(), 44, "32 bytes in base64");
    let id = made["endpoint"]["id"].as_str().unwrap();
    for reply in [
        get(stage, &key, PATH).await,
        get(stage, &key, &format!("{PATH}/{id}")).await,
        patch(stage, &key, id, &json!({})).await,
    ] {
        assert!(!reply.text.contains(encoded), "{}", reply.text);
    }
    let other = register(stage, &key, &json!({"url": "https://example.com/"})).await;
    assert_ne!(other["secret"], made["secret"]);
    let plain = match stage.store.backend() {
        store::Backend::Sqlite => {
            "SELECT count(*) FROM webhook_endpoints WHERE instr(secret, CAST('whsec_' AS BLOB)) > 0"
        }
        store::Backend::Postgres => {
            "SELECT count(*) FROM webhook_endpoints WHERE position('whsec_'::bytea IN secret) > 0"
        }
    };
    assert_eq!(stage.number(plain).await, 0);
}

async fn a_refusal_says_where(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let made = register(app, &key, &json!({"url": "https://example.com/"})).await;
    let id = made["endpoint"]["id"].as_str().unwrap();
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let many: Vec<String> = (0..1_001).map(|number| format!("key_{number}")).collect();
    for (field, value) in [
        ("url", json!("")),
        ("url", json!("example.com")),
        ("url", json!("ftp://example.com/")),
        ("url", json!("http://")),
        ("url", json!("https://ann:secret@example.com/")),
        ("url", json!(long)),
        ("url", json!(7)),
        ("description", json!("x".repeat(1_001))),
        ("description", json!(["x"])),
        ("enabled", json!("yes")),
        ("signal_keys", json!(["fine", "not fine"])),
        ("signal_keys", json!(["1-st"])),
        ("signal_keys", json!(["and"])),
        ("signal_keys", json!([""])),
        ("signal_keys", json!("is_scammer")),
        ("signal_keys", json!(many)),
        ("events", json!([])),
        ("events", json!(["analysis.completed", "object.created"])),
        ("events", json!("analysis.completed")),
    ] {
        let mut body = json!({"url": "https://example.com/"});
        body[field] = value.clone();
        let message = key.call(app, Method::POST, PATH, &body).await.refused(400, "bad_request");
        assert!(message.starts_with(field), "{value}: {message}");
        let message = patch(app, &key, id, &json!({ field: value })).await.refused(400, "bad_request");
        assert!(message.starts_with(field), "{message}");
    }
    key.call(app, Method::POST, PATH, &json!({})).await.refused(400, "bad_request");
    key.call(app, Method::POST, PATH, &json!({"url": null})).await.refused(400, "bad_request");
    for (method, path) in [
        (Method::GET, "/v1/webhooks/seven"),
        (Method::PATCH, "/v1/webhooks/seven"),
        (Method::DELETE, "/v1/webhooks/seven"),
        (Method::POST, "/v1/webhook_deliveries/seven/replay"),
    ] {
        key.call(app, method, path, &json!({})).await.refused(400, "bad_request");
    }
    let nobody = Uuid::from_u128(7);
    get(app, &key, &format!("{PATH}/{nobody}")).await.refused(404, "not_found");
    replay(app, &key, &json!({"id": nobody})).await.refused(404, "not_found");
    assert_eq!(get(app, &key, PATH).await.json()["webhooks"], json!([made["endpoint"]]), "nothing was made");
}

async fn endpoints_and_deliveries_are_one_account_s(app: &App) {
    let receiver = Receiver::start().await;
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    let (ann, bob) = (app.api_key(&ann).await, app.api_key(&bob).await);
    let endpoint = subscribe(app, &ann, &receiver).await;
    analyze(app, &ann, 0..1).await;
    let delivery = newest(app, &ann, "delivered", 1).await;
    let path = format!("{PATH}/{endpoint}");
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        bob.call(app, method, &path, &json!({})).await.refused(404, "not_found");
    }
    replay(app, &bob, &delivery).await.refused(404, "not_found");
    assert!(deliveries(app, &bob, "").await.is_empty());
    assert!(deliveries(app, &bob, &format!("?endpoint_id={endpoint}")).await.is_empty());
    assert_eq!(get(app, &bob, PATH).await.json(), json!({"webhooks": []}));
    // Nor does his analysis reach her receiver.
    analyze(app, &bob, 0..1).await;
    app.settle().await;
    assert_eq!(receiver.count(), 1);
}

async fn an_account_has_at_most_fifty_endpoints(app: &App) {
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let body = json!({"url": "https://example.com/"});
    for _ in 0..48 {
        register(app, &key, &body).await;
    }
    // Two at once do not share the last places with a third.
    let racers = [(); 4].map(|()| key.call(app, Method::POST, PATH, &body));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(racers).await.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 409, 409]);
    let message = key.call(app, Method::POST, PATH, &body).await.refused(409, "conflict");
    assert!(message.contains("50"), "{message}");
    let listed = get(app, &key, PATH).await.json();
    let listed = listed["webhooks"].as_array().unwrap();
    assert_eq!(listed.len(), 50);
    remove(app, &key, listed[7]["id"].as_str().unwrap()).await;
    register(app, &key, &body).await;
}

async fn deliveries_are_listed_within_limits(app: &App) {
    let (receiver, other) = (Receiver::start().await, Receiver::start().await);
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    for query in [
        "limit=0",
        "limit=201",
        "limit=-1",
        "limit=ten",
        "limit=1.5",
        "status=sent",
        "status=Dead",
        "endpoint_id=seven",
    ] {
        get(app, &key, &format!("/v1/webhook_deliveries?{query}")).await.refused(400, "bad_request");
    }
    let endpoint = subscribe(app, &key, &receiver).await;
    for number in 0..60 {
        analyze(app, &key, number..number + 1).await;
        receiver.got(number as usize + 1).await;
    }
    let second = subscribe(app, &key, &other).await;
    other.always(crate::receiver::Answer::Status(400));
    analyze(app, &key, 60..61).await;
    counted(app, &key, "dead", 1).await;
    app.settle().await;
    let all = deliveries(app, &key, "?limit=200").await;
    assert_eq!(all.len(), 62);
    let ids: Vec<&str> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(ids, sorted, "newest first");
    assert!(all.windows(2).all(|pair| time(&pair[0]["created_at"]) >= time(&pair[1]["created_at"])));
    assert_eq!(deliveries(app, &key, "").await, all[..50], "fifty unless told");
    assert_eq!(deliveries(app, &key, "?limit=3").await, all[..3]);
    let of = |id: &str| all.iter().filter(|one| one["endpoint_id"] == id).cloned().collect::<Vec<_>>();
    let query = format!("?limit=200&endpoint_id={endpoint}");
    assert_eq!(deliveries(app, &key, &query).await, of(&endpoint));
    assert_eq!(deliveries(app, &key, &format!("?limit=5&endpoint_id={endpoint}")).await, of(&endpoint)[..5]);
    assert_eq!(deliveries(app, &key, "?status=dead").await, of(&second));
    assert_eq!(deliveries(app, &key, "?status=delivered&limit=200").await, of(&endpoint));
    assert_eq!(deliveries(app, &key, &format!("?status=dead&endpoint_id={second}")).await, of(&second));
    for nothing in [format!("?status=dead&endpoint_id={endpoint}"), "?status=pending".to_owned()] {
        assert!(deliveries(app, &key, &nothing).await.is_empty(), "{nothing}");
    }
}

async fn addresses_in_private_networks_are_refused(stage: &Scripted<Guarded>) {
    let key = stage.account("ann@example.com").await;
    // A host that does not resolve is fine: it may do so later.
    let made = register(stage, &key, &json!({"url": "https://hooks.invalid/"})).await;
    let id = made["endpoint"]["id"].as_str().unwrap();
    for host in [
        "127.0.0.1:9",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "localhost",
        "localhost.",
        "[::]",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.8",
        "172.16.3.4",
        "192.168.1.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::1]",
        "224.0.0.1",
    ] {
        let body = json!({"url": format!("http://{host}/")});
        let message = key.call(stage, Method::POST, PATH, &body).await.refused(400, "bad_request");
        assert!(message.starts_with("url: ") && message.ends_with(", which is not allowed"), "{message}");
        patch(stage, &key, id, &body).await.refused(400, "bad_request");
    }
}

async fn no_input_breaks_anything(app: &App) {
    let good = json!({"url": "https://example.com/", "description": "x", "signal_keys": ["is_scammer"],
        "events": ["rule.triggered"], "enabled": true});
    let token = app.register("ann@example.com").await;
    refuses_nonsense(app, Some(&token), Method::POST, PATH, &good).await;
    let bob = app.register("bob@example.com").await;
    let reply = app.call(&bob, Method::POST, PATH, &good).await;
    let path = format!("{PATH}/{}", reply.json()["endpoint"]["id"].as_str().unwrap());
    refuses_nonsense(app, Some(&bob), Method::PATCH, &path, &good).await;
}
