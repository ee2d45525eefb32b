//! What operators see of the whole install, and that nobody else sees it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Backend, Stage};

use crate::app::{App, Reply};
use crate::members::join;
use crate::receiver::{Answer, Receiver};
use crate::scripted_analyzer::until;

testkit::on_both!(
    only_operators_who_proved_their_address_are_let_in,
    a_fresh_install_is_well,
    what_is_wrong_is_said_with_what_to_do,
    what_waits_for_an_endpoint_that_is_switched_off_is_not_late,
    accounts_are_listed_page_by_page_without_content,
    nonsense_lists_nothing,
);

const HEALTH: &str = "/v1/operator/health";
const TENANTS: &str = "/v1/operator/tenants";
const PARTS: [&str; 8] = ["queues", "lag", "analyzer", "deliveries", "mail", "database", "nodes", "disk"];

/// The service of two operators.
pub(crate) struct Operated(App);

impl Stage for Operated {
    async fn set_up(backend: Backend) -> Self {
        Self(App::start(backend, &[("AUSPEX_OPERATORS", "Ops@Example.com, second@example.com")]).await)
    }

    async fn tear_down(self) {
        self.0.tear_down().await;
    }
}

async fn get(app: &App, token: &str, path: &str) -> Reply {
    app.call(token, Method::GET, path, &Value::Null).await
}

async fn me(app: &App, token: &str) -> Value {
    get(app, token, "/v1/me").await.json()
}

/// Registers an operator, who proves the address by the link that was mailed.
async fn operator(app: &App) -> String {
    let token = app.register("ops@example.com").await;
    app.verify(&token, "ops@example.com").await;
    token
}

async fn health(app: &App, token: &str) -> Value {
    let reply = get(app, token, HEALTH).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let health = reply.json();
    let names: Vec<&String> = health.as_object().unwrap().keys().collect();
    assert_eq!(names, PARTS);
    for (name, part) in health.as_object().unwrap() {
        let advice = part["advice"].as_str().unwrap();
        assert!(advice.ends_with('.') && advice.len() > 10, "{name}: {advice}");
    }
    health
}

async fn only_operators_who_proved_their_address_are_let_in(stage: &Operated) {
    let app = &stage.0;
    let token = app.register("ops@example.com").await;
    assert_eq!(me(app, &token).await["operator"], false, "the address is not proved");
    for path in [HEALTH, TENANTS] {
        let message = get(app, &token, path).await.refused(403, "forbidden");
        assert!(message.contains("proved"), "{message}");
    }
    app.verify(&token, "ops@example.com").await;
    assert_eq!(me(app, &token).await["operator"], true);
    // The role in the account does not matter, and makes nobody an operator.
    let second = join(app, &token, "second@example.com", "viewer").await;
    let owner = join(app, &token, "owner@example.com", "owner").await;
    let key = app.api_key(&token).await;
    assert_eq!(me(app, &owner).await["operator"], false);
    for path in [HEALTH, TENANTS] {
        for token in [&token, &second] {
            assert_eq!(get(app, token, path).await.status, 200, "{path}");
            assert_eq!(app.send(app.request(Method::HEAD, path).bearer_auth(token)).await.status, 200);
        }
        get(app, &owner, path).await.refused(403, "forbidden");
        key.call(app, Method::GET, path, &Value::Null).await.refused(403, "forbidden");
        app.get(path).await.refused(401, "unauthorized");
    }
    assert!(me(app, &token).await["operator"].is_boolean());
    assert_eq!(key.call(app, Method::GET, "/v1/me", &Value::Null).await.json()["operator"], Value::Null);
}

async fn a_fresh_install_is_well(stage: &Operated) {
    let health = health(&stage.0, &operator(&stage.0).await).await;
    for part in ["queues", "lag", "analyzer", "deliveries", "nodes"] {
        assert_eq!(health[part]["state"], "good", "{part}: {}", health[part]["advice"]);
    }
    assert_eq!(health["mail"]["state"], "worry", "tests write mail to files");
    assert!(health["mail"]["advice"].as_str().unwrap().contains("AUSPEX_SMTP_URL"));
    assert!(health["disk"]["advice"].as_str().unwrap().contains("MiB free"));
}

async fn what_waits_for_an_endpoint_that_is_switched_off_is_not_late(stage: &Operated) {
    let app = &stage.0;
    let token = operator(app).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    let made = app.call(&token, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await.json();
    let endpoint = format!("/v1/webhooks/{}", made["endpoint"]["id"].as_str().unwrap());
    assert_eq!(app.call(&token, Method::POST, &format!("{endpoint}/test"), &Value::Null).await.status, 202);
    let is_failing = async || {
        let health = get(app, &token, &format!("{endpoint}/health")).await.json();
        health["state"] == "failing" && health["waiting"] == 1
    };
    until("it was tried", is_failing).await;
    let off = app.call(&token, Method::PATCH, &endpoint, &json!({"enabled": false})).await;
    assert_eq!(off.status, 200, "{}", off.text);
    app.advance(Duration::from_hours(1));
    let found = health(app, &token).await;
    assert_eq!(found["deliveries"]["state"], "good", "{}", found["deliveries"]);
    assert_eq!(found["queues"]["state"], "good", "{}", found["queues"]);
    assert_eq!(app.call(&token, Method::DELETE, &endpoint, &Value::Null).await.status, 204);
}

async fn what_is_wrong_is_said_with_what_to_do(stage: &Operated) {
    let app = &stage.0;
    let token = operator(app).await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Status(503));
    // Three accounts whose receivers fail at once.
    for number in 0..3 {
        let ann = app.register(&format!("ann-{number}@example.com")).await;
        let key = app.api_key(&ann).await;
        let made = key.call(app, Method::POST, "/v1/webhooks", &json!({"url": receiver.url()})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        for object in 0..11 {
            let body = json!({"events": [{"type": "message", "content": "hello"}]});
            let path = format!("/v1/objects/user_{object}/events");
            assert_eq!(key.call(app, Method::POST, &path, &body).await.status, 202);
        }
    }
    app.advance(Duration::from_secs(3));
    until("endpoints rest", async || {
        let health = health(app, &token).await;
        health["deliveries"]["advice"].as_str().unwrap().contains("Endpoints of 3 accounts fail at once")
    })
    .await;
    receiver.always(Answer::Status(200));
    app.advance(Duration::from_mins(30));
    until("it is well again", async || {
        app.advance(Duration::from_mins(1));
        health(app, &token).await["deliveries"]["advice"] == "Everything is delivered."
    })
    .await;
}

async fn accounts_are_listed_page_by_page_without_content(stage: &Operated) {
    let app = &stage.0;
    let token = operator(app).await;
    // Accounts of the same millisecond have no order.
    app.advance(Duration::from_millis(1));
    let ann = app.register("ann@example.com").await;
    let key = app.api_key(&ann).await;
    let body = json!({"events": [{"type": "message", "content": "a secret of Ann's"}]});
    assert_eq!(key.call(app, Method::POST, "/v1/objects/user_1/events", &body).await.status, 202);
    app.advance(Duration::from_secs(3));
    app.settle().await;

    let first = get(app, &token, &format!("{TENANTS}?limit=1")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(app, &token, &format!("{TENANTS}?limit=1&cursor={cursor}")).await;
    assert_eq!(second.json()["next_cursor"], Value::Null);
    let account = second.json()["tenants"][0].clone();
    let usage = get(app, &ann, "/v1/usage").await.json();
    let owner = me(app, &ann).await;
    assert_eq!(account["tenant_id"], owner["tenant_id"]);
    assert_eq!(account["name"], owner["tenant_name"]);
    assert_eq!(account["members"], 1);
    assert_eq!(account["balance_cents"], usage["balance_cents"]);
    assert_eq!(account["storage_bytes"], usage["storage_bytes"]);
    assert!(account["storage_bytes"].as_i64().unwrap() > 0);
    let mut fields: Vec<&String> = account.as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(fields, ["balance_cents", "created_at", "members", "name", "storage_bytes", "tenant_id"]);
    for content in ["secret", "user_1", "ann@"] {
        assert!(!second.text.contains(content), "{content} in {}", second.text);
    }
}

async fn nonsense_lists_nothing(stage: &Operated) {
    let token = operator(&stage.0).await;
    for query in ["limit=0", "limit=201", "limit=x", "cursor=x", "cursor=e30"] {
        let reply = get(&stage.0, &token, &format!("{TENANTS}?{query}")).await;
        reply.refused(400, "bad_request");
    }
}
