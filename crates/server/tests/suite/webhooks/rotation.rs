//! A new secret for an endpoint: receivers change over when they like, and both secrets verify meanwhile.

use serde_json::json;
use testkit::{Backend, Stage as _, verify_webhooks};

use super::*;
use crate::app::PASSWORD;
use crate::receiver::Arrived;

testkit::on_both!(a_secret_is_rotated_within_limits, a_rotation_without_overlap_ends_the_secret_at_once);

const HOUR: Duration = Duration::from_hours(1);

async fn rotate(app: &App, key: &Signer, endpoint: &str, body: &Value) -> Reply {
    key.call(app, Method::POST, &format!("{PATH}/{endpoint}/rotate_secret"), body).await
}

/// What the library for receivers says about a delivery with each of these secrets.
fn verified(arrived: &Arrived, secrets: &[&Value]) -> Vec<bool> {
    let asked: Vec<Value> = secrets
        .iter()
        .map(|secret| json!({"secret": secret, "headers": arrived.headers, "body": arrived.body}))
        .collect();
    verify_webhooks(&asked).iter().map(|said| said == "verified").collect()
}

/// `X-Webhook-Signature` is keyed with this secret.
fn is_signed_with(arrived: &Arrived, secret: &Value) -> bool {
    let at = Timestamp::from_seconds(arrived.header("x-webhook-timestamp").parse().unwrap());
    let id = arrived.header("webhook-id").parse().unwrap();
    let signed = model::webhook::SigningKey::new(secret.as_str().unwrap()).sign(id, at, &arrived.body);
    arrived.header("x-webhook-signature") == signed.hex
}

/// The library goes by the real time, so this story does too: it rotates with an overlap and without.
#[tokio::test(flavor = "multi_thread")]
async fn both_secrets_verify_in_the_overlap_and_one_after_it() {
    let app = App::start_at(Backend::Sqlite, &[], service::Clock::system().now()).await;
    let body = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let token = app.post("/auth/console/register", &body).await.json()["token"].as_str().unwrap().to_owned();
    let key = app.api_key(&token).await;
    let receiver = Receiver::start().await;
    let made = register(&app, &key, &json!({"url": receiver.url()})).await;
    let endpoint = made["endpoint"]["id"].as_str().unwrap();
    let reply = rotate(&app, &key, endpoint, &json!({"overlap_hours": 1})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let rotated = reply.json();
    assert_ne!(rotated["secret"], made["secret"]);
    send_event(&app, &key, "o1", "seen").await;
    app.advance(QUIET);
    let arrived = receiver.got(1).await;
    app.settle().await;
    assert_eq!(verified(&arrived, &[&rotated["secret"], &made["secret"]]), [true, true]);
    assert!(is_signed_with(&arrived, &made["secret"]), "receivers of one signature know the previous secret");
    let signatures: Vec<&str> = arrived.header("webhook-signature").split(' ').collect();
    assert!(signatures.len() == 2 && signatures.iter().all(|one| one.starts_with("v1,")), "{signatures:?}");

    let last = rotate(&app, &key, endpoint, &json!({"overlap_hours": 0})).await.json();
    send_event(&app, &key, "o2", "seen").await;
    app.advance(QUIET);
    let arrived = receiver.got(2).await;
    app.settle().await;
    let secrets = [&last["secret"], &rotated["secret"], &made["secret"]];
    assert_eq!(verified(&arrived, &secrets), [true, false, false]);
    app.tear_down().await;
}

async fn a_secret_is_rotated_within_limits(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let made = register(stage, &key, &json!({"url": receiver.url()})).await;
    let endpoint = made["endpoint"]["id"].as_str().unwrap();
    for hours in [json!(-1), json!(169), json!("1"), json!(1.5)] {
        let message = rotate(stage, &key, endpoint, &json!({"overlap_hours": hours})).await;
        assert!(message.refused(400, "bad_request").starts_with("overlap_hours: "), "{}", message.text);
    }
    rotate(stage, &key, &Uuid::from_u128(7).to_string(), &json!({})).await.refused(404, "not_found");
    let other = stage.account("bob@example.com").await;
    rotate(stage, &other, endpoint, &json!({})).await.refused(404, "not_found");

    let rotated = rotate(stage, &key, endpoint, &Value::Null).await.json();
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"), "{rotated}");
    assert_eq!(rotated["endpoint"]["url"], made["endpoint"]["url"]);
    stage.advance(24 * HOUR - 2 * QUIET);
    analyze(stage, &key, 1..2).await;
    let arrived = receiver.got(1).await;
    assert!(is_signed_with(&arrived, &made["secret"]), "for a day");
    stage.advance(2 * QUIET);
    analyze(stage, &key, 2..3).await;
    let arrived = receiver.got(2).await;
    assert!(is_signed_with(&arrived, &rotated["secret"]), "and not longer");
    assert!(!arrived.header("webhook-signature").contains(' '));
    stage.settle().await;
}

async fn a_rotation_without_overlap_ends_the_secret_at_once(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let made = register(stage, &key, &json!({"url": receiver.url()})).await;
    let endpoint = made["endpoint"]["id"].as_str().unwrap();
    let rotated = rotate(stage, &key, endpoint, &json!({"overlap_hours": 0})).await.json();
    analyze(stage, &key, 1..2).await;
    let arrived = receiver.got(1).await;
    assert!(is_signed_with(&arrived, &rotated["secret"]) && !is_signed_with(&arrived, &made["secret"]));
    stage.settle().await;
}
