//! How an endpoint is doing, and tests of it.

use serde_json::json;

use super::*;
use crate::receiver::Answer;

testkit::on_both!(
    a_test_is_signed_and_sent_whatever_the_endpoint_asks_for,
    health_says_what_was_accepted_and_how_fast,
    a_resting_endpoint_says_so_and_a_test_tries_it_at_once,
    what_is_not_there_cannot_be_tested,
);

async fn test(app: &App, key: &Signer, endpoint: &str) -> Reply {
    key.call(app, Method::POST, &format!("{PATH}/{endpoint}/test"), &Value::Null).await
}

async fn health(app: &App, key: &Signer, endpoint: &str) -> Value {
    let reply = get(app, key, &format!("{PATH}/{endpoint}/health")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn a_test_is_signed_and_sent_whatever_the_endpoint_asks_for(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let made = register(stage, &key, &json!({"url": receiver.url(), "events": ["review.opened"]})).await;
    let endpoint = made["endpoint"]["id"].as_str().unwrap();
    let queued = test(stage, &key, endpoint).await;
    assert_eq!(queued.status, 202, "{}", queued.text);
    let queued = queued.json();
    assert_eq!((&queued["event_type"], &queued["status"]), (&json!("endpoint.test"), &json!("pending")));
    let arrived = receiver.got(1).await;
    assert_eq!(arrived.header("x-webhook-event"), "endpoint.test");
    assert_eq!(arrived.header("webhook-id"), queued["id"].as_str().unwrap());
    let body: Value = serde_json::from_str(&arrived.body).unwrap();
    assert_eq!((&body["event"], &body["endpoint_id"]), (&json!("endpoint.test"), &json!(endpoint)));
    let at = Timestamp::from_seconds(arrived.header("x-webhook-timestamp").parse().unwrap());
    let secret = model::webhook::SigningKey::new(made["secret"].as_str().unwrap());
    let signed = secret.sign(arrived.header("webhook-id").parse().unwrap(), at, &arrived.body);
    assert_eq!(arrived.header("x-webhook-signature"), signed.hex);
    counted(stage, &key, "delivered", 1).await;
    // Nobody can ask for tests as events.
    patch(stage, &key, endpoint, &json!({"events": ["endpoint.test"]})).await.refused(400, "bad_request");
}

async fn health_says_what_was_accepted_and_how_fast(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    let new = json!({"state": "good", "consecutive_failures": 0, "waiting": 0, "delivered": 0, "dead": 0});
    assert_eq!(health(stage, &key, &endpoint).await, new);
    let listed = get(stage, &key, &format!("{PATH}?include=health")).await.json();
    assert_eq!(listed["webhooks"][0]["health"], new, "the list says the same, if it is asked to");
    assert!(get(stage, &key, PATH).await.json()["webhooks"][0].get("health").is_none());
    get(stage, &key, &format!("{PATH}?include=secrets")).await.refused(400, "bad_request");
    let first = stage.now();
    for count in 1..=3 {
        test(stage, &key, &endpoint).await;
        counted(stage, &key, "delivered", count).await;
    }
    receiver.always(Answer::Status(400));
    stage.advance(Duration::from_millis(1));
    test(stage, &key, &endpoint).await;
    counted(stage, &key, "dead", 1).await;
    let found = health(stage, &key, &endpoint).await;
    assert_eq!((&found["delivered"], &found["dead"]), (&json!(3), &json!(1)));
    assert_eq!(found["success_share"], 0.75);
    assert_eq!((&found["state"], &found["consecutive_failures"]), (&json!("failing"), &json!(0)), "refused");
    assert_eq!((found["p50_ms"].as_i64(), found["p95_ms"].as_i64()), (Some(0), Some(0)), "the clock is held");
    assert_eq!(found["since"], json!(first));
    // One that waits is counted, and how long it took is known once it is accepted.
    receiver.always(Answer::Status(500));
    test(stage, &key, &endpoint).await;
    until("it has failed", async || {
        health(stage, &key, &endpoint).await["consecutive_failures"].as_i64() > Some(0)
    })
    .await;
    let failing = health(stage, &key, &endpoint).await;
    assert_eq!((&failing["waiting"], &failing["state"]), (&json!(1), &json!("failing")));
    receiver.always(Answer::Status(200));
    until("it is sent again", async || {
        stage.advance(SECOND);
        health(stage, &key, &endpoint).await["delivered"] == 4
    })
    .await;
    let found = health(stage, &key, &endpoint).await;
    assert_eq!((&found["state"], &found["waiting"]), (&json!("good"), &json!(0)));
    assert!(found["p95_ms"].as_i64().unwrap() >= 1_000, "{found}");
    patch(stage, &key, &endpoint, &json!({"enabled": false})).await;
    assert_eq!(health(stage, &key, &endpoint).await["state"], "disabled");
}

async fn a_resting_endpoint_says_so_and_a_test_tries_it_at_once(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Status(500));
    for _ in 0..12 {
        test(stage, &key, &endpoint).await;
    }
    until("it rests", async || health(stage, &key, &endpoint).await["state"] == "resting").await;
    let resting = health(stage, &key, &endpoint).await;
    assert!(resting["resting_until"].as_str().unwrap() > json!(stage.now()).as_str().unwrap(), "{resting}");
    receiver.always(Answer::Status(200));
    counted(stage, &key, "delivering", 0).await;
    let sent = test(stage, &key, &endpoint).await.json();
    until("the receiver is tried at once", async || {
        let state = health(stage, &key, &endpoint).await;
        state["state"] == "good" && state["delivered"].as_i64() > Some(0)
    })
    .await;
    assert_eq!(sent["event_type"], "endpoint.test");
    // The others wait for their next attempts.
    remove(stage, &key, &endpoint).await;
}

async fn what_is_not_there_cannot_be_tested(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    let stranger = stage.account("eve@example.com").await;
    test(stage, &stranger, &endpoint).await.refused(404, "not_found");
    get(stage, &stranger, &format!("{PATH}/{endpoint}/health")).await.refused(404, "not_found");
    test(stage, &key, "nothing").await.refused(400, "bad_request");
    patch(stage, &key, &endpoint, &json!({"enabled": false})).await;
    test(stage, &key, &endpoint).await.refused(409, "conflict");
    assert_eq!(receiver.count(), 0);
}
