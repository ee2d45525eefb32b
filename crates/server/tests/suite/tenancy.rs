//! Nobody reaches what belongs to another account: every route is asked for the things of another.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::PATIENCE;
use uuid::Uuid;

use crate::app::App;
use crate::receiver::Receiver;
use crate::refusals::operations;
use crate::signer::Signer;

testkit::on_both!(no_route_leads_to_another_account);

/// In everything that ann owns and can word: whoever reads this has read something of hers.
const CANARY: &str = "canaryofann";

/// What ann owns, by the name of the parameter that a path has for it.
struct Owned {
    object: String,
    signal: String,
    rule: Uuid,
    endpoint: Uuid,
    delivery: Uuid,
    key: Uuid,
    label: Uuid,
    review: Uuid,
}

impl Owned {
    /// The path of a route to one of her things; none for a route without an owner in it.
    fn path(&self, template: &str) -> Option<String> {
        let mut path = template.to_owned();
        let (start, end) = (path.find('{')?, path.find('}')?);
        let name = path[start + 1..end].to_owned();
        let value = match name.as_str() {
            "object_id" => self.object.clone(),
            "key" => self.signal.clone(),
            "rule_id" => self.rule.to_string(),
            "endpoint_id" => self.endpoint.to_string(),
            "delivery_id" => self.delivery.to_string(),
            "key_id" => self.key.to_string(),
            "label_id" => self.label.to_string(),
            "review_id" => self.review.to_string(),
            // Checkouts and sign-ins have stories of their own: `payments.rs`, `sessions.rs`, `identities.rs`.
            "session_id" => Uuid::from_u128(7).to_string(),
            // Of replays in the background `rules/replay.rs` tells.
            "replay_id" => Uuid::from_u128(8).to_string(),
            // Of members and invitations `members.rs` tells.
            "user_id" | "invitation_id" => Uuid::from_u128(9).to_string(),
            // Of passkeys `passkeys.rs` tells.
            "passkey_id" => Uuid::from_u128(10).to_string(),
            "provider" => "google".to_owned(),
            other => panic!("{template}: say what {{{other}}} is, and whose"),
        };
        path.replace_range(start..=end, &value);
        Some(path)
    }
}

async fn made(app: &App, key: &Signer, method: Method, path: &str, body: &Value) -> Value {
    let reply = key.call(app, method, path, body).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.text);
    reply.json()
}

fn id(value: &Value) -> Uuid {
    value.as_str().unwrap().parse().unwrap()
}

/// Gives ann one of everything.
async fn belongings(app: &App, key: &Signer, receiver: &Receiver) -> Owned {
    let signal = format!("{CANARY}_signal");
    let question = json!({"type": "noul", "instructions": format!("Is it {CANARY}?")});
    made(app, key, Method::PUT, &format!("/v1/signals/{signal}"), &question).await;
    let endpoint = json!({"url": receiver.url(), "description": CANARY});
    let endpoint = made(app, key, Method::POST, "/v1/webhooks", &endpoint).await;
    let rule = json!({"name": CANARY, "when": format!("{signal} >= 0"), "action_type": "webhook",
        "action_config": {"endpoint_id": endpoint["endpoint"]["id"]}});
    let rule = made(app, key, Method::POST, "/v1/rules", &rule).await;
    let own_key = made(app, key, Method::POST, "/v1/api_keys", &json!({"name": CANARY})).await;
    let object = format!("{CANARY}_object");
    let events = json!({"wait": true, "events": [
        {"type": "message", "content": CANARY, "metadata": {"name": CANARY}}]});
    made(app, key, Method::POST, &format!("/v1/objects/{object}/events"), &events).await;
    let label = json!({"value": true, "note": CANARY});
    let label = made(app, key, Method::PUT, &format!("/v1/objects/{object}/labels/{signal}"), &label).await;
    let review =
        made(app, key, Method::POST, "/v1/reviews", &json!({"object_id": object, "queue": CANARY})).await;
    tokio::time::timeout(PATIENCE, receiver.got(1)).await.unwrap();
    app.settle().await;
    let deliveries = made(app, key, Method::GET, "/v1/webhook_deliveries", &Value::Null).await;
    Owned {
        object,
        signal,
        rule: id(&rule["id"]),
        endpoint: id(&endpoint["endpoint"]["id"]),
        delivery: id(&deliveries["deliveries"][0]["id"]),
        key: id(&own_key["api_key"]["id"]),
        label: id(&label["id"]),
        review: id(&review["id"]),
    }
}

/// All that ann can read, but for when her key was used.
async fn everything(app: &App, key: &Signer, owned: &Owned) -> Vec<Value> {
    let object = format!("/v1/objects/{}", owned.object);
    let mut read = Vec::new();
    for path in [
        object.as_str(),
        &format!("{object}/events"),
        &format!("{object}/state"),
        "/v1/objects",
        "/v1/signals",
        "/v1/rules",
        "/v1/rule_firings",
        "/v1/labels",
        "/v1/reviews",
        "/v1/webhooks",
        "/v1/webhook_deliveries",
        "/v1/api_keys",
        "/v1/settings",
        "/v1/billing/ledger",
    ] {
        let mut found = made(app, key, Method::GET, path, &Value::Null).await;
        for made in found["api_keys"].as_array_mut().into_iter().flatten() {
            made["last_used_at"] = Value::Null;
        }
        assert!(found.to_string().contains(CANARY) || path == "/v1/settings", "{path}: {found}");
        read.push(found);
    }
    read
}

async fn no_route_leads_to_another_account(app: &App) {
    let receiver = Receiver::start().await;
    let ann = app.api_key(&app.register("ann@example.com").await).await;
    let owned = belongings(app, &ann, &receiver).await;
    let bobs_token = app.register("bob@example.com").await;
    let bob = app.api_key(&bobs_token).await;
    let before = everything(app, &ann, &owned).await;
    let change = json!({"enabled": false, "name": "taken", "description": "taken", "status": "inactive", "wait": false,
        "type": "noul", "instructions": "Taken?", "events": [{"type": "event", "name": "taken"}],
        "decision": "taken"});
    let mut asked = 0;
    for operation in operations() {
        let path = owned.path(&operation.template);
        for body in [Value::Null, json!({}), change.clone()] {
            if operation.method == Method::GET && !body.is_null() {
                continue;
            }
            let path = path.as_deref().unwrap_or(&operation.path);
            let reply = if operation.console_only() {
                app.call(&bobs_token, operation.method.clone(), path, &body).await
            } else {
                bob.call(app, operation.method.clone(), path, &body).await
            };
            let (method, template, status) = (&operation.method, &operation.template, reply.status);
            asked += 1;
            // Bob may have an object and a signal of that name himself; what he is told then is his own.
            let is_name = template.contains("{object_id}") || template.contains("{key}");
            assert!(is_name || !reply.text.contains(CANARY), "{method} {template}: {}", reply.text);
            assert!(!status.is_server_error() || status == 503, "{method} {template}: {}", reply.text);
            if !is_name && (template.ends_with("_id}") || template.contains("_id}/")) {
                assert!(!status.is_success(), "{method} {template}: {}", reply.text);
                let is_unread = reply.text.contains("the body is empty");
                if body != json!({}) && !is_unread && operation.method != Method::PATCH && status != 503 {
                    assert_eq!(status, 404, "{method} {template}: {}", reply.text);
                }
            }
        }
    }
    assert!(asked > 60, "{asked}");
    assert_eq!(everything(app, &ann, &owned).await, before, "nothing of hers has changed");
    app.advance(std::time::Duration::from_secs(3));
    app.settle().await;
}
