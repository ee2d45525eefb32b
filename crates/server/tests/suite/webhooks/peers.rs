//! Deliveries in the eyes of the library that receivers use.

use serde_json::json;
use testkit::{Backend, Stage as _, verify_webhooks};

use super::*;
use crate::app::PASSWORD;

/// The library goes by the real time, so this story does too.
#[tokio::test(flavor = "multi_thread")]
async fn the_library_for_receivers_verifies_what_we_send() {
    let app = App::start_at(Backend::Sqlite, &[], service::Clock::system().now()).await;
    let body = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let token = app.post("/auth/console/register", &body).await.json()["token"].as_str().unwrap().to_owned();
    let key = app.api_key(&token).await;
    let receiver = Receiver::start().await;
    let made = register(&app, &key, &json!({"url": receiver.url()})).await;
    send_event(&app, &key, "caf%C3%A9%20%F0%9F%8E%89", "seen").await;
    app.advance(QUIET);
    let arrived = receiver.got(1).await;
    app.settle().await;
    assert_eq!(arrived.json()["object_id"], "café 🎉");
    let genuine = json!({"secret": made["secret"], "headers": arrived.headers, "body": arrived.body});
    let mut forged = genuine.clone();
    forged["body"] = json!(arrived.body.replace("café", "cafe"));
    let mut foreign = genuine.clone();
    foreign["secret"] = json!("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let said = verify_webhooks(&[genuine, forged, foreign]);
    assert_eq!(said, ["verified", "No matching signature found", "No matching signature found"]);
    app.tear_down().await;
}
