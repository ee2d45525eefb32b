//! What rules do when they fire: mails, chat messages and deliveries, and what their firings say of them.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use store::Backend;
use testkit::Stage as _;

use super::chat::Chat;
use super::{change, firings, id, ingest_answered, mailing, make, patch, post};
use crate::admin::tenant_of;
use crate::app::App;
use crate::log_watch;
use crate::scripted_analyzer::{Scripted, ScriptedAnalyzer, Turn, until, with_analyzer};
use crate::signer::Signer;

testkit::on_both!(
    a_mail_says_what_happened,
    a_chat_message_says_what_happened,
    a_chat_that_is_busy_is_asked_again,
    a_chat_that_refuses_is_an_error_at_once,
    a_chat_that_stays_broken_is_given_up,
    a_chat_that_is_not_there_is_given_up,
    a_chat_that_never_answers_delays_no_other,
    messages_about_a_deleted_object_are_not_sent,
    a_delivery_says_what_happened_and_is_signed,
    an_endpoint_that_would_not_get_it_is_an_error,
);

const RISKY: &str = "is_scammer > 0.9";

fn chatting(when: &str, url: &str) -> Value {
    json!({"when": when, "action_type": "slack", "action_config": {"webhook_url": url}})
}

/// Status and detail of the newest firing.
async fn outcome(app: &App, key: &Signer) -> (String, Value) {
    let newest = firings(app, key, "?limit=1").await.remove(0);
    (newest["status"].as_str().unwrap().to_owned(), newest["detail"].clone())
}

async fn a_mail_says_what_happened(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let mut rule = mailing("is_scammer > 0.9 and buyer_intent = browsing");
    rule["name"] = json!("Grüße <b>");
    let rule = make(stage, &key, &rule).await;
    ingest_answered(stage, &key, "user%2F1%20%3Cx%3E", 0.95).await;
    change(
        stage,
        &key,
        &rule,
        &json!({"action_config": {"to": "bob@example.com", "subject": "Schau, ein Objekt"}}),
    )
    .await;
    ingest_answered(stage, &key, "user_2", 0.95).await;
    let mails = stage.mails().await;
    let [one, other] = ["alerts@example.com", "bob@example.com"]
        .map(|to| mails.iter().find(|mail| mail.to == to).expect("it was sent"));
    assert_eq!(one.subject, "Grüße <b>: user/1 <x>");
    assert_eq!(other.subject, "Schau, ein Objekt");
    let text = one.text.replace("\r\n", "\n");
    let expected = "The rule \"Grüße <b>\" fired\n\n\
        It fired for the object user/1 <x> on 2026-01-01 00:00 UTC.\n\n\
        Condition: is_scammer > 0.9 and buyer_intent = browsing\n\n\
        Values: is_scammer: 0.95, buyer_intent: browsing\n\n\
        See the object in the console:\n";
    assert!(text.starts_with(expected), "{text}");
    let (_, end) =
        text.split_once("/console/objects/user%2F1%20%3Cx%3E\n\n").unwrap_or_else(|| panic!("{text}"));
    assert!(end.starts_with("To get no more mails from this account's rules:\nhttp://127.0.0.1:"), "{text}");
    assert_eq!(outcome(stage, &key).await, ("dispatched".to_owned(), json!("the mail was sent")));
}

#[test]
fn a_mail_that_cannot_be_sent_is_an_error_in_the_end() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let analyzer = ScriptedAnalyzer::start().await;
            let url = analyzer.url();
            // Nobody listens there.
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let smtp = format!("smtp://{}?tls=none", socket.local_addr().unwrap());
            drop(socket);
            let settings = [&with_analyzer(&url)[..], &[("AUSPEX_SMTP_URL", smtp.as_str())]].concat();
            let app = App::start(backend, &settings).await;
            let token = app.register("ann@example.com").await;
            let body = mailing(RISKY);
            let reply = app.call(&token, Method::POST, "/v1/rules", &body).await;
            assert_eq!(reply.status, 201, "{}", reply.text);
            analyzer.then(Turn::Answer(0.95));
            let body = json!({"events": [{"type": "event", "name": "x"}], "wait": true});
            let verdict = app.call(&token, Method::POST, "/v1/objects/user_1/events", &body).await;
            assert_eq!(verdict.status, 200, "{}", verdict.text);
            let newest = async || {
                let reply = app.call(&token, Method::GET, "/v1/rule_firings", &Value::Null).await.json();
                reply["firings"][0].clone()
            };
            assert_eq!(newest().await["status"], "dispatched");
            until("it is given up", async || {
                app.advance(Duration::from_mins(10));
                newest().await["status"] == "error"
            })
            .await;
            let detail = newest().await["detail"].as_str().unwrap().to_owned();
            assert!(detail.starts_with("given up after 8 tries: "), "{detail}");
            // The mail that asks for a proof of the address ends the same way.
            let store = app.service().store().clone();
            until("every mail is given up", async || {
                app.advance(Duration::from_mins(10));
                store.pending().await.unwrap().messages == 0
            })
            .await;
            app.tear_down().await;
        });
    }
}

async fn a_chat_message_says_what_happened(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    let mut rule = chatting("is_scammer > 0.9 and buyer_intent = browsing", &chat.url("a-very-secret-token"));
    log_watch::remember("a-very-secret-token");
    rule["name"] = json!("Scam & <!channel>");
    make(stage, &key, &rule).await;
    ingest_answered(stage, &key, "user%2F1", 0.95).await;
    stage.settle().await;
    let posted = chat.posted(1).await.remove(0);
    assert_eq!(posted.headers["content-type"], "application/json");
    let message: Value = serde_json::from_str(&posted.body).unwrap();
    assert_eq!(message["text"], "Scam &amp; &lt;!channel&gt;: user/1");
    let link = stage.url("/console/objects/user%2F1");
    let expected = format!("*Scam &amp; &lt;!channel&gt;*\nThe rule fired for <{link}|user/1>");
    assert_eq!(message["blocks"][0]["text"]["text"], expected);
    assert_eq!(
        message["blocks"][1]["text"]["text"],
        "*Condition*\n```is_scammer &gt; 0.9 and buyer_intent = browsing```"
    );
    assert_eq!(
        message["blocks"][2]["text"]["text"],
        "*Values*\n```is_scammer: 0.95\nbuyer_intent: browsing```"
    );
    assert_eq!(
        outcome(stage, &key).await,
        ("dispatched".to_owned(), json!("the message was posted to Slack"))
    );
}

/// Waits until the one message in the queue waits for its next attempt, and says how long.
async fn wait_of_next(stage: &Scripted, attempts: i64) -> Duration {
    until("the message is put back", async || {
        stage.number("SELECT coalesce(max(attempts), 0) FROM outbox WHERE lease_token IS NULL").await
            == attempts
    })
    .await;
    let channel = store::outbox::messages::Channel::Slack;
    let due = stage
        .store
        .read("due", async |conn: &mut store::Conn| store::outbox::messages::next_due(conn, channel).await)
        .await;
    due.unwrap().unwrap().since(stage.now())
}

async fn a_chat_that_is_busy_is_asked_again(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    make(stage, &key, &chatting(RISKY, &chat.url("x"))).await;
    stage.settle().await;
    chat.then(429, "rate_limited", Some("300"));
    chat.then(503, "", None);
    ingest_answered(stage, &key, "user_1", 0.95).await;
    chat.posted(1).await;
    assert_eq!(wait_of_next(stage, 1).await, Duration::from_mins(5), "as long as it was asked to");
    assert_eq!(outcome(stage, &key).await, ("dispatched".to_owned(), Value::Null), "still on its way");
    stage.advance(Duration::from_mins(5));
    chat.posted(2).await;
    let wait = wait_of_next(stage, 2).await;
    assert!((54..=66).contains(&wait.as_secs()), "{wait:?}");
    stage.advance(wait);
    stage.settle().await;
    let bodies: Vec<String> = chat.posted(3).await.into_iter().map(|posted| posted.body).collect();
    assert!(bodies[0] == bodies[1] && bodies[1] == bodies[2], "the same message each time");
    assert_eq!(
        outcome(stage, &key).await,
        ("dispatched".to_owned(), json!("the message was posted to Slack"))
    );
}

async fn a_chat_that_refuses_is_an_error_at_once(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    make(stage, &key, &chatting(RISKY, &chat.url("x"))).await;
    for (status, said) in
        [(404, "no_service"), (410, "channel_is_archived"), (400, "invalid_blocks"), (302, "")]
    {
        chat.then(status, said, None);
        ingest_answered(stage, &key, "user_1", 0.1).await;
        stage.advance(Duration::from_secs(1));
        ingest_answered(stage, &key, "user_1", 0.95).await;
        stage.settle().await;
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        let detail = json!(format!("given up after 1 try: Slack answered {status}{said}"));
        assert_eq!(outcome(stage, &key).await, ("error".to_owned(), detail));
    }
    chat.posted(4).await;
}

async fn a_chat_that_stays_broken_is_given_up(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    make(stage, &key, &chatting(RISKY, &chat.url("x"))).await;
    stage.settle().await;
    for _ in 0..8 {
        chat.then(500, "internal_error", None);
    }
    ingest_answered(stage, &key, "user_1", 0.95).await;
    for attempt in 1..8 {
        chat.posted(attempt).await;
        let wait = wait_of_next(stage, i64::try_from(attempt).unwrap()).await;
        assert_eq!(outcome(stage, &key).await, ("dispatched".to_owned(), Value::Null));
        stage.advance(wait);
    }
    stage.settle().await;
    chat.posted(8).await;
    let detail = json!("given up after 8 tries: Slack answered 500: internal_error");
    assert_eq!(outcome(stage, &key).await, ("error".to_owned(), detail));
}

async fn a_chat_that_is_not_there_is_given_up(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/x", socket.local_addr().unwrap());
    drop(socket);
    make(stage, &key, &chatting(RISKY, &url)).await;
    ingest_answered(stage, &key, "user_1", 0.95).await;
    for attempt in 1..8 {
        let wait = wait_of_next(stage, attempt).await;
        stage.advance(wait);
    }
    stage.settle().await;
    let (_, detail) = outcome(stage, &key).await;
    assert!(detail.as_str().unwrap().starts_with("given up after 8 tries: cannot connect: "), "{detail}");
}

/// The dead address takes connections and never says a word: each message to it holds a place for ten seconds.
async fn a_chat_that_never_answers_delays_no_other(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead_url = format!("http://{}/services/dead", dead.local_addr().unwrap());
    let rule = make(stage, &key, &chatting(RISKY, &dead_url)).await;
    for number in 0..40 {
        ingest_answered(stage, &key, &format!("dead_{number}"), 0.95).await;
    }
    change(stage, &key, &rule, &json!({"enabled": false})).await;
    until("the dead one is tried", async || {
        stage.number("SELECT count(*) FROM outbox WHERE lease_token IS NOT NULL").await > 0
    })
    .await;
    make(stage, &key, &chatting("is_scammer > 0.8", &chat.url("well"))).await;
    for number in 0..10 {
        ingest_answered(stage, &key, &format!("well_{number}"), 0.95).await;
    }
    chat.posted(10).await;
    let left = stage.number("SELECT count(*) FROM outbox").await;
    assert!(left >= 40, "all to the dead one still wait");
    let tried = stage.number("SELECT count(*) FROM outbox WHERE attempts > 0").await;
    assert!(tried < 20, "and few of them have taken anybody's time: {tried}");
    for number in 0..40 {
        let path = format!("/v1/objects/dead_{number}");
        assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204);
    }
    drop(dead);
}

async fn messages_about_a_deleted_object_are_not_sent(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    make(stage, &key, &chatting(RISKY, &chat.url("x"))).await;
    stage.settle().await;
    chat.then(503, "", None);
    ingest_answered(stage, &key, "user_1", 0.95).await;
    wait_of_next(stage, 1).await;
    assert_eq!(key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await.status, 204);
    assert_eq!(stage.number("SELECT count(*) FROM outbox").await, 0);
    stage.advance(Duration::from_hours(1));
    stage.workers_have_polled().await;
    chat.posted(1).await;
    assert!(firings(stage, &key, "").await.is_empty());
}

fn hooking(endpoint: &str) -> Value {
    let when = "is_scammer > 0.9 and buyer_intent = browsing";
    json!({"name": "Hook", "when": when, "action_type": "webhook", "action_config": {"endpoint_id": endpoint}})
}

/// Registers an endpoint for these events; its id and its secret.
async fn register_endpoint(app: &App, key: &Signer, url: &str, events: &Value) -> (String, String) {
    let reply = key.call(app, Method::POST, "/v1/webhooks", &json!({"url": url, "events": events})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    (made["endpoint"]["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
}

async fn edit_endpoint(app: &App, key: &Signer, endpoint: &str, edit: &Value) {
    let reply = key.call(app, Method::PATCH, &format!("/v1/webhooks/{endpoint}"), edit).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn a_delivery_says_what_happened_and_is_signed(stage: &Scripted) {
    let token = stage.register("ann@example.com").await;
    let (chat, key) = (Chat::start().await, stage.api_key(&token).await);
    let (endpoint, secret) =
        register_endpoint(stage, &key, &chat.url("hook"), &json!(["rule.triggered"])).await;
    let rule = make(stage, &key, &hooking(&endpoint)).await;
    assert_eq!(rule["action_config"], json!({"endpoint_id": endpoint}));
    stage.advance(Duration::from_secs(1));
    ingest_answered(stage, &key, "user_1", 0.95).await;
    stage.settle().await;
    let posted = chat.posted(1).await.remove(0);
    let header = |name: &str| posted.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-webhook-event"), "rule.triggered");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{}.{}", header("x-webhook-timestamp"), posted.body).as_bytes());
    let hex: Vec<String> = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(header("x-webhook-signature"), format!("sha256={}", hex.concat()));
    let payload: Value = serde_json::from_str(&posted.body).unwrap();
    let expected = json!({
        "event": "rule.triggered",
        "rule_id": id(&rule),
        "rule_name": "Hook",
        "tenant_id": tenant_of(stage, &token).await,
        "object_id": "user_1",
        "matched_when": "is_scammer > 0.9 and buyer_intent = browsing",
        "model": "scripted",
        "occurred_at": "2026-01-01T00:00:01.000000Z",
        "values": [
            {"signal": "is_scammer", "type": "noul", "noul": 0.95},
            {"signal": "buyer_intent", "type": "choice", "choice": "browsing",
             "probabilities": payload["values"][1]["probabilities"], "confidence": payload["values"][1]["confidence"]},
        ],
    });
    assert_eq!(payload, expected);
    assert_eq!(payload["values"][1]["probabilities"]["browsing"], 0.95);
    let detail = json!(format!("queued as delivery {}", header("x-webhook-delivery")));
    assert_eq!(outcome(stage, &key).await, ("dispatched".to_owned(), detail));
}

async fn an_endpoint_that_would_not_get_it_is_an_error(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    let analyses = json!(["analysis.completed"]);
    let rules = json!(["rule.triggered"]);
    let (deaf, _) = register_endpoint(stage, &key, &chat.url("deaf"), &analyses).await;
    let unsubscribed = "action_config.endpoint_id: the webhook endpoint is not subscribed to rule.triggered";
    assert_eq!(post(stage, &key, &hooking(&deaf)).await.refused(400, "bad_request"), unsubscribed);
    let stranger = stage.account("bob@example.com").await;
    let unknown = "action_config.endpoint_id: there is no such webhook endpoint";
    let (endpoint, _) = register_endpoint(stage, &key, &chat.url("hook"), &rules).await;
    assert_eq!(post(stage, &stranger, &hooking(&endpoint)).await.refused(400, "bad_request"), unknown);
    let rule = make(stage, &key, &hooking(&endpoint)).await;
    let turn = async || {
        ingest_answered(stage, &key, "user_1", 0.1).await;
        stage.advance(Duration::from_secs(1));
        ingest_answered(stage, &key, "user_1", 0.95).await;
        stage.settle().await;
        outcome(stage, &key).await
    };
    let failed = |reason: &str| ("error".to_owned(), json!(format!("the webhook endpoint is {reason}")));
    edit_endpoint(stage, &key, &endpoint, &json!({"enabled": false})).await;
    assert_eq!(turn().await, failed("disabled"));
    edit_endpoint(stage, &key, &endpoint, &json!({"enabled": true, "events": analyses})).await;
    assert_eq!(turn().await, failed("not subscribed to rule.triggered"));
    let edit = json!({"name": "x"});
    assert_eq!(patch(stage, &key, &rule, &edit).await.refused(400, "bad_request"), unsubscribed);
    assert_eq!(stage.number("SELECT count(*) FROM webhook_deliveries").await, 0, "nothing was queued");
    edit_endpoint(stage, &key, &endpoint, &json!({"events": rules})).await;
    assert_eq!(turn().await.0, "dispatched");
    chat.posted(1).await;
    let path = format!("/v1/webhooks/{endpoint}");
    assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(turn().await, failed("gone"));
    assert_eq!(patch(stage, &key, &rule, &edit).await.refused(400, "bad_request"), unknown);
    let path = format!("/v1/rules/{}", id(&rule));
    assert_eq!(key.call(stage, Method::GET, &path, &Value::Null).await.json(), rule, "the rule stays");
    chat.posted(1).await;
}
