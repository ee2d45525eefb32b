//! Tests of the actions of rules: what is sent says that it is one, and the answer says what came of it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use model::TenantId;
use reqwest::Method;
use serde_json::{Value, json};
use store::Backend;
use store::Conn;
use store::actions::firings::{self as tallies, MessageCounts};
use testkit::Stage as _;

use super::chat::Chat;
use super::recipients::{Confirming, STRANGER, confirm, mails_to, proved_account, token_after, withdraw};
use super::{Guarded, firings};
use crate::app::{App, Reply};
use crate::log_watch;
use crate::receiver::{Answer, Receiver};
use crate::scripted_analyzer::Scripted;
use crate::signer::Signer;

testkit::on_both!(
    a_mail_says_that_it_is_a_test,
    a_chat_message_says_that_it_is_a_test,
    a_chat_s_refusal_is_the_answer,
    a_delivery_is_a_test_and_its_first_attempt_the_answer,
    nobody_gets_a_test_who_has_not_agreed,
    whoever_has_withdrawn_gets_no_test,
    tests_count_like_the_messages_of_rules,
    an_account_has_few_tests,
    an_action_that_could_not_be_saved_is_not_tried,
    no_test_leads_into_private_networks,
);

const PATH: &str = "/v1/rules/test";
const HOUR: Duration = Duration::from_hours(1);

async fn attempt(app: &App, key: &Signer, action: &str, config: Value) -> Reply {
    let body = json!({"name": "Scam <wave>", "action_type": action, "action_config": config});
    key.call(app, Method::POST, PATH, &body).await
}

/// What came of a test.
async fn outcome(app: &App, key: &Signer, action: &str, config: Value) -> Value {
    let reply = attempt(app, key, action, config).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn a_mail_says_that_it_is_a_test(stage: &Scripted) {
    let key = stage.account("ann@example.com").await;
    let config = json!({"to": "alerts@example.com", "subject": "Look at this"});
    let sent = outcome(stage, &key, "email", config).await;
    assert_eq!(sent["outcome"], "sent");
    let detail = "written to a file, because this service has no mail server";
    assert_eq!(sent, json!({"outcome": "sent", "detail": detail}));
    let mail = mails_to(stage, "alerts@example.com").await.remove(0);
    assert_eq!(mail.subject, "[Test] Look at this");
    assert!(mail.text.starts_with("Test of the rule \"Scam <wave>\""), "{}", mail.text);
    assert!(mail.text.contains("It has not fired"), "{}", mail.text);
    assert!(firings(stage, &key, "").await.is_empty(), "nothing has fired");
    // Whoever does not want it says so as in any mail of a rule.
    assert_eq!(withdraw(stage, &mail).await.status, 204);
    let refused = outcome(stage, &key, "email", json!({"to": "alerts@example.com"})).await;
    assert_eq!(refused["outcome"], "unconfirmed");
    let bodies = [json!({"action_type": "email", "action_config": {"to": "bob@example.com"}})];
    for body in bodies {
        assert_eq!(key.call(stage, Method::POST, PATH, &body).await.status, 200);
    }
    let unnamed = mails_to(stage, "bob@example.com").await.remove(0);
    assert_eq!(unnamed.subject, "[Test] a rule without a name");
}

/// The server `tests/peers/smtp.py`. It ends when its input does.
struct MailServer {
    process: Child,
    _input: ChildStdin,
    /// It says here what it receives: little enough that nobody needs to read it.
    _output: BufReader<ChildStdout>,
    port: u64,
}

impl MailServer {
    fn start(arguments: &[&str]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut process = Command::new(root.join("target/peers/bin/python"))
            .arg(root.join("tests/peers/smtp.py"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test peers are there: scripts/test-peers");
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let greeting: Value = serde_json::from_str(&line).unwrap();
        let port = greeting["port"].as_u64().unwrap();
        Self { _input: process.stdin.take().unwrap(), _output: output, process, port }
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What comes of a test mail where mails go to this port.
async fn outcome_at(backend: Backend, port: u64) -> Value {
    let url = format!("smtp://127.0.0.1:{port}?tls=none");
    let app = App::start(backend, &[("AUSPEX_SMTP_URL", url.as_str())]).await;
    let token = app.register("ann@example.com").await;
    let body = json!({"action_type": "email", "action_config": {"to": "bob@example.com"}});
    let reply = app.call(&token, Method::POST, PATH, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let store = app.service().store().clone();
    // The mail about the new account takes its own time.
    crate::scripted_analyzer::until("every mail has ended", async || {
        app.advance(Duration::from_mins(10));
        store.pending().await.unwrap().messages == 0
    })
    .await;
    app.tear_down().await;
    reply.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_mail_server_says_is_the_answer() {
    for backend in [Backend::Sqlite, Backend::Postgres] {
        let taking = MailServer::start(&[]);
        let sent = outcome_at(backend, taking.port).await;
        assert_eq!(sent, json!({"outcome": "sent", "detail": "the mail server took the mail"}));
        let refusing = MailServer::start(&["--refuse"]);
        let refused = outcome_at(backend, refusing.port).await;
        let detail = "the server answered 550";
        assert_eq!(refused, json!({"outcome": "refused", "status_code": 550, "detail": detail}));
        // Nobody listens there any more.
        let port = refusing.port;
        drop(refusing);
        assert_eq!(outcome_at(backend, port).await["outcome"], "unreachable");
    }
}

async fn a_chat_message_says_that_it_is_a_test(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    log_watch::remember("a-very-secret-token");
    let config = json!({"webhook_url": chat.url("a-very-secret-token")});
    let sent = outcome(stage, &key, "slack", config).await;
    assert_eq!(sent, json!({"outcome": "sent", "detail": "the message was posted to Slack"}));
    let posted = chat.posted(1).await.remove(0);
    let message: Value = serde_json::from_str(&posted.body).unwrap();
    assert_eq!(message["text"], "Test of Scam &lt;wave&gt;");
    let text = message["blocks"][0]["text"]["text"].as_str().unwrap();
    assert!(text.contains("has not fired"), "{text}");
}

async fn a_chat_s_refusal_is_the_answer(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    for (status, said) in [(404, "no_service"), (503, "")] {
        chat.then(status, said, Some("300"));
        let refused = outcome(stage, &key, "slack", json!({"webhook_url": chat.url("x")})).await;
        assert_eq!((&refused["outcome"], &refused["status_code"]), (&json!("refused"), &json!(status)));
        assert!(refused["detail"].as_str().unwrap().contains(said), "{refused}");
    }
    stage.workers_have_polled().await;
    chat.posted(2).await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/x", socket.local_addr().unwrap());
    drop(socket);
    let gone = outcome(stage, &key, "slack", json!({"webhook_url": url})).await;
    assert_eq!(gone["outcome"], "unreachable");
    assert!(gone["detail"].as_str().unwrap().starts_with("cannot connect: "), "{gone}");
    // It takes connections and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/services/x", silent.local_addr().unwrap());
    let waited = outcome(stage, &key, "slack", json!({"webhook_url": url})).await;
    assert_eq!(waited, json!({"outcome": "timed_out", "detail": "the request timed out"}));
}

async fn register(app: &App, key: &Signer, url: &str, events: &Value) -> String {
    let reply = key.call(app, Method::POST, "/v1/webhooks", &json!({"url": url, "events": events})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()["endpoint"]["id"].as_str().unwrap().to_owned()
}

async fn a_delivery_is_a_test_and_its_first_attempt_the_answer(stage: &Scripted) {
    let (receiver, key) = (Receiver::start().await, stage.account("ann@example.com").await);
    let endpoint = register(stage, &key, &receiver.url(), &json!(["rule.triggered"])).await;
    let config = json!({"endpoint_id": endpoint});
    let sent = outcome(stage, &key, "webhook", config.clone()).await;
    assert_eq!((&sent["outcome"], &sent["status_code"]), (&json!("sent"), &json!(200)));
    let arrived = receiver.got(1).await;
    assert_eq!(arrived.header("x-webhook-event"), "endpoint.test");
    assert_eq!(arrived.header("webhook-id"), sent["delivery_id"].as_str().unwrap());
    receiver.then(Answer::Status(410));
    let refused = outcome(stage, &key, "webhook", config.clone()).await;
    assert_eq!((&refused["outcome"], &refused["status_code"]), (&json!("refused"), &json!(410)));
    assert_eq!(refused["detail"], "the receiver answered 410");
    // One that waits for its next attempt has an answer, too.
    receiver.then(Answer::Status(500));
    let refused = outcome(stage, &key, "webhook", config.clone()).await;
    assert_eq!((&refused["outcome"], &refused["status_code"]), (&json!("refused"), &json!(500)));
    receiver.then(Answer::HangUp);
    assert_eq!(outcome(stage, &key, "webhook", config.clone()).await["outcome"], "unreachable");
    let path = format!("/v1/webhooks/{endpoint}");
    assert_eq!(key.call(stage, Method::PATCH, &path, &json!({"enabled": false})).await.status, 200);
    attempt(stage, &key, "webhook", config).await.refused(409, "conflict");
    assert_eq!(key.call(stage, Method::DELETE, &path, &Value::Null).await.status, 204);
}

async fn nobody_gets_a_test_who_has_not_agreed(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    let config = json!({"to": STRANGER, "subject": "Buy now at http://evil.example"});
    for _ in 0..3 {
        let refused = outcome(stage, &key, "email", config.clone()).await;
        assert_eq!(refused["outcome"], "unconfirmed");
        assert!(refused["detail"].as_str().unwrap().contains("not confirmed"), "{refused}");
    }
    let mails = mails_to(stage, STRANGER).await;
    assert_eq!(mails.len(), 1, "one question for three tests: {mails:?}");
    assert!(!mails[0].text.contains("evil.example"), "{}", mails[0].text);
    let token = token_after(&mails[0], "/console/confirm?token=");
    assert_eq!(confirm(stage, &token).await.status, 204);
    assert_eq!(outcome(stage, &key, "email", config).await["outcome"], "sent");
    assert_eq!(mails_to(stage, STRANGER).await.len(), 2);
    // A member who has proved the address need not confirm, and another account has to ask for itself.
    let own = outcome(stage, &key, "email", json!({"to": "ann@example.com"})).await;
    assert_eq!(own["outcome"], "sent");
    let other = proved_account(stage, "bob@example.com").await;
    assert_eq!(outcome(stage, &other, "email", json!({"to": STRANGER})).await["outcome"], "unconfirmed");
    let unproved = stage.account("eve@example.com").await;
    let refused = outcome(stage, &unproved, "email", json!({"to": "eve@example.com"})).await;
    assert_eq!(refused["outcome"], "unconfirmed", "nobody has proved an address of this account");
}

async fn whoever_has_withdrawn_gets_no_test(stage: &Scripted<Confirming>) {
    let key = proved_account(stage, "ann@example.com").await;
    let config = json!({"to": "ann@example.com"});
    assert_eq!(outcome(stage, &key, "email", config.clone()).await["outcome"], "sent");
    let mails = mails_to(stage, "ann@example.com").await;
    let test = mails.iter().find(|mail| mail.subject.starts_with("[Test]")).unwrap();
    assert_eq!(withdraw(stage, test).await.status, 204);
    let refused = outcome(stage, &key, "email", config).await;
    assert_eq!(refused["outcome"], "unconfirmed");
    assert!(refused["detail"].as_str().unwrap().contains("does not want"), "{refused}");
    assert_eq!(mails_to(stage, "ann@example.com").await.len(), mails.len());
}

async fn tests_count_like_the_messages_of_rules(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    let tenant = key.call(stage, Method::GET, "/v1/me", &Value::Null).await.json()["tenant_id"].clone();
    let tenant = TenantId(tenant.as_str().unwrap().parse().unwrap());
    let (today, counts) = (stage.now().date(), MessageCounts { mails: 999, chats: 999 });
    let counted = stage.store.write("count_messages", async |conn: &mut Conn| {
        tallies::count_messages(conn, tenant, today, counts).await
    });
    counted.await.unwrap();
    let mail = json!({"to": "bob@example.com"});
    let message = json!({"webhook_url": chat.url("x")});
    assert_eq!(outcome(stage, &key, "email", mail.clone()).await["outcome"], "sent");
    assert_eq!(outcome(stage, &key, "slack", message.clone()).await["outcome"], "sent");
    attempt(stage, &key, "email", mail).await.refused(429, "rate_limited");
    attempt(stage, &key, "slack", message).await.refused(429, "rate_limited");
    assert_eq!(mails_to(stage, "bob@example.com").await.len(), 1);
    chat.posted(1).await;
}

async fn an_account_has_few_tests(stage: &Scripted) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    let config = json!({"webhook_url": chat.url("x")});
    for _ in 0..20 {
        assert_eq!(outcome(stage, &key, "slack", config.clone()).await["outcome"], "sent");
    }
    let refused = attempt(stage, &key, "slack", config.clone()).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "3600");
    let other = stage.account("bob@example.com").await;
    assert_eq!(outcome(stage, &other, "slack", config.clone()).await["outcome"], "sent");
    stage.advance(HOUR);
    assert_eq!(outcome(stage, &key, "slack", config).await["outcome"], "sent");
    chat.posted(22).await;
}

async fn an_action_that_could_not_be_saved_is_not_tried(stage: &Scripted) {
    let (receiver, key) = (Receiver::start().await, stage.account("ann@example.com").await);
    let deaf = register(stage, &key, &receiver.url(), &json!(["review.opened"])).await;
    for (action, config, begins) in [
        ("email", json!({}), "action_config.to"),
        ("email", json!({"to": "nobody"}), "action_config.to"),
        ("email", json!({"to": "a@b.c", "subject": "a\nb"}), "action_config.subject"),
        ("slack", json!({"webhook_url": "ftp://x.example"}), "action_config.webhook_url"),
        ("webhook", json!({"endpoint_id": "nothing"}), "action_config.endpoint_id"),
        ("webhook", json!({"endpoint_id": TenantId(uuid::Uuid::nil())}), "action_config.endpoint_id"),
        ("webhook", json!({"endpoint_id": deaf}), "action_config.endpoint_id"),
        ("review", json!({"queue": "fraud"}), "action_type"),
    ] {
        let message = attempt(stage, &key, action, config).await.refused(400, "bad_request");
        assert!(message.starts_with(begins), "{message}");
    }
    let long = json!({"name": "x".repeat(201), "action_type": "email", "action_config": {"to": "a@b.c"}});
    key.call(stage, Method::POST, PATH, &long).await.refused(400, "bad_request");
    let stranger = stage.account("eve@example.com").await;
    let endpoint = register(stage, &key, &receiver.url(), &json!(["rule.triggered"])).await;
    let reply = attempt(stage, &stranger, "webhook", json!({"endpoint_id": endpoint})).await;
    assert!(reply.refused(400, "bad_request").contains("no such"), "of another account");
    assert_eq!(receiver.count(), 0);
}

async fn no_test_leads_into_private_networks(stage: &Scripted<Guarded>) {
    let (chat, key) = (Chat::start().await, stage.account("ann@example.com").await);
    attempt(stage, &key, "slack", json!({"webhook_url": chat.url("x")})).await.refused(400, "bad_request");
    chat.posted(0).await;
}
