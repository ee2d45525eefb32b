//! What arrives at a receiver, and what becomes of a delivery by what the receiver answers.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;

use super::*;
use crate::receiver::{Answer, Arrived};
use crate::scripted_analyzer::ingest_and_wait;

testkit::on_both!(
    an_analysis_arrives_signed_and_as_it_is_stored,
    an_endpoint_gets_what_it_asked_for_and_nothing_else,
    failures_that_may_pass_are_tried_again_ever_more_rarely,
    a_delivery_is_given_up_after_its_last_attempt_and_can_be_replayed,
    other_refusals_are_final,
    a_receiver_can_ask_for_more_time,
    neither_silence_nor_a_drip_holds_a_delivery,
    mail_about_a_dead_endpoint_comes_once_a_day,
    a_disabled_endpoint_s_deliveries_wait,
    a_replay_is_the_same_bytes_under_the_same_id,
    a_replay_leaves_what_is_under_way_as_it_is,
);

/// What `X-Webhook-Signature` must be, worked out from what arrived.
fn signature(secret: &str, arrived: &Arrived) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{}.{}", arrived.header("x-webhook-timestamp"), arrived.body).as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

async fn an_analysis_arrives_signed_and_as_it_is_stored(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    receiver.always(Answer::Say(201, ("x-none", String::new()), format!("thanks\0{}", "é".repeat(2_000))));
    let made = register(stage, &key, &json!({"url": receiver.url() + "?from=auspex"})).await;
    analyze(stage, &key, 1..2).await;
    let arrived = receiver.got(1).await;
    let delivery = newest(stage, &key, "delivered", 1).await;

    assert_eq!(arrived.path, "/hook?from=auspex");
    let id = delivery["id"].as_str().unwrap();
    let seconds = stage.now().seconds().to_string();
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-webhook-event", "analysis.completed"),
        ("x-webhook-delivery", id),
        ("x-webhook-timestamp", &seconds),
        ("x-webhook-signature", &signature(made["secret"].as_str().unwrap(), &arrived)),
        ("webhook-id", id),
        ("webhook-timestamp", &seconds),
    ] {
        assert_eq!(arrived.header(name), value, "{name}");
    }
    assert!(arrived.header("webhook-signature").starts_with("v1,"));
    assert!(arrived.header("user-agent").starts_with("auspex/"));

    let me = get(stage, &key, "/v1/me").await.json();
    let payload = arrived.json();
    let fields: Vec<&String> = payload.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["event", "object_id", "tenant_id", "model", "occurred_at", "answers"]);
    assert_eq!(payload["event"], "analysis.completed");
    assert_eq!(payload["object_id"], "user_1");
    assert_eq!(payload["tenant_id"], me["tenant_id"]);
    assert_eq!(payload["model"], "scripted");
    assert_eq!(payload["occurred_at"], stage.now().to_string());
    let verdict = ingest_and_wait(stage, &key, "user_2", "seen").await.json();
    assert_eq!(payload["answers"], verdict["answers"], "the shape is that of a verdict");

    let shown = get(stage, &key, "/v1/webhook_deliveries").await.text;
    assert!(shown.contains(&format!("\"payload\":{}", arrived.body)), "to the byte: {shown}");
    let now = stage.now().to_string();
    let response = delivery["last_response"].as_str().unwrap();
    assert!(response.starts_with("thanks\u{fffd}é") && response.len() <= 1_024, "{response}");
    let expected = json!({
        "id": id,
        "endpoint_id": made["endpoint"]["id"],
        "event_type": "analysis.completed",
        "status": "delivered",
        "object_id": "user_1",
        "attempts": 1,
        "max_attempts": 6,
        "last_status_code": 201,
        "run_after": now,
        "created_at": now,
        "delivered_at": now,
        "payload": payload,
        "last_response": response,
    });
    assert_eq!(delivery, expected);
}

async fn an_endpoint_gets_what_it_asked_for_and_nothing_else(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let wanting = [
        (json!({}), true),
        (json!({"signal_keys": ["is_scammer"]}), true),
        (json!({"signal_keys": ["nothing", "is_scammer"]}), true),
        (json!({"signal_keys": ["nothing"]}), false),
        (json!({"events": ["analysis.completed"]}), true),
        (json!({"events": ["rule.triggered"]}), false),
        (json!({"enabled": false}), false),
    ];
    let mut receivers = Vec::new();
    for (filter, _) in &wanting {
        let receiver = Receiver::start().await;
        let mut body = filter.clone();
        body["url"] = json!(receiver.url());
        register(stage, &key, &body).await;
        receivers.push(receiver);
    }
    analyze(stage, &key, 1..2).await;
    stage.settle().await;
    // A verdict is told to its caller, and to nobody else.
    assert_eq!(ingest_and_wait(stage, &key, "user_2", "seen").await.status, 200);
    stage.settle().await;
    for ((filter, wants), receiver) in wanting.iter().zip(&receivers) {
        assert_eq!(receiver.count(), usize::from(*wants), "{filter}");
    }
    assert_eq!(deliveries(stage, &key, "").await.len(), 4);

    // Only what an analysis answered counts, not what is known of the object.
    let signal = json!({"type": "noul", "instructions": "Is it?", "enabled": false});
    let put = key.call(stage, Method::PUT, "/v1/signals/is_scammer", &signal).await;
    assert_eq!(put.status, 200, "{}", put.text);
    analyze(stage, &key, 1..2).await;
    stage.settle().await;
    let counts: Vec<usize> = receivers.iter().map(Receiver::count).collect();
    assert_eq!(counts, [2, 1, 1, 0, 2, 0, 0]);
}

async fn failures_that_may_pass_are_tried_again_ever_more_rarely(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    let failures = [
        (
            Answer::Say(500, ("x-none", String::new()), "oops".to_owned()),
            json!(500),
            "the receiver answered 500",
        ),
        (Answer::Status(503), json!(503), "the receiver answered 503"),
        (Answer::Status(429), json!(429), "the receiver answered 429"),
        // The last answer that was received stays on record.
        (Answer::HangUp, json!(429), "the connection broke: "),
        (Answer::Silence, json!(429), "the request timed out"),
    ];
    for (answer, ..) in &failures {
        receiver.then(answer.clone());
    }
    analyze(stage, &key, 1..2).await;
    for (attempt, (_, code, error)) in (1..).zip(&failures) {
        let waiting = newest(stage, &key, "pending", attempt).await;
        assert_eq!(waiting["last_status_code"], *code, "{waiting}");
        assert!(waiting["last_error"].as_str().unwrap().starts_with(error), "{waiting}");
        assert_eq!(waiting["last_response"], if attempt == 1 { "oops" } else { "" });
        assert!(waiting.get("delivered_at").is_none());
        let wait = time(&waiting["run_after"]).since(stage.now()).as_secs_f64();
        let usual = 30.0 * f64::from(1_u32 << (attempt - 1));
        assert!((usual * 0.9..=usual * 1.1).contains(&wait), "attempt {attempt}: {wait}");
        // Not a moment earlier.
        stage.advance(time(&waiting["run_after"]).since(stage.now()) - Duration::from_micros(1));
        stage.workers_have_polled().await;
        receiver.got(usize::try_from(attempt).unwrap()).await;
        stage.advance(Duration::from_micros(1));
    }
    let delivered = newest(stage, &key, "delivered", 6).await;
    assert_eq!(delivered["last_status_code"], 200);
    assert!(delivered.get("last_error").is_none(), "{delivered}");
    let arrived = receiver.arrived();
    assert_eq!(arrived.len(), 6);
    for (one, next) in arrived.iter().zip(&arrived[1..]) {
        assert_eq!(one.body, next.body);
        assert_eq!(one.header("x-webhook-delivery"), next.header("x-webhook-delivery"));
        assert_ne!(one.header("x-webhook-timestamp"), next.header("x-webhook-timestamp"));
        assert_ne!(one.header("x-webhook-signature"), next.header("x-webhook-signature"));
    }
}

async fn a_delivery_is_given_up_after_its_last_attempt_and_can_be_replayed(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Say(502, ("x-none", String::new()), "bad gateway".to_owned()));
    analyze(stage, &key, 1..2).await;
    for attempt in 1..6 {
        let waiting = newest(stage, &key, "pending", attempt).await;
        advance_to(stage, &waiting);
    }
    let dead = newest(stage, &key, "dead", 6).await;
    assert_eq!(dead["last_status_code"], 502);
    assert_eq!(dead["last_response"], "bad gateway");
    assert_eq!(dead["run_after"], stage.now().to_string(), "when it was given up");
    assert_eq!(dead["payload"], receiver.arrived()[0].json());
    assert_eq!(deliveries(stage, &key, "?status=dead").await, std::slice::from_ref(&dead));
    stage.advance(Duration::from_hours(10));
    stage.workers_have_polled().await;
    receiver.got(6).await;

    receiver.always(Answer::Status(200));
    receiver.then(Answer::Status(500));
    let reply = replay(stage, &key, &dead).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    let replayed = reply.json();
    assert_eq!(replayed["id"], dead["id"]);
    assert_eq!((&replayed["status"], &replayed["attempts"]), (&json!("pending"), &json!(0)));
    assert_eq!(replayed["run_after"], stage.now().to_string());
    // It has all of its attempts again, with the waits of the first ones.
    let waiting = newest(stage, &key, "pending", 1).await;
    assert!(time(&waiting["run_after"]).since(stage.now()) <= Duration::from_secs(33));
    // Replaying what still waits changes nothing.
    let again = replay(stage, &key, &waiting).await;
    assert_eq!(again.status, 202);
    assert_eq!(again.json(), waiting);
    stage.workers_have_polled().await;
    receiver.got(7).await;
    advance_to(stage, &waiting);
    newest(stage, &key, "delivered", 2).await;
    stage.settle().await;
}

async fn other_refusals_are_final(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let (receiver, elsewhere) = (Receiver::start().await, Receiver::start().await);
    subscribe(stage, &key, &receiver).await;
    for (number, status) in (1..).zip([400, 401, 403, 404, 408, 410, 422]) {
        receiver.then(Answer::Say(status, ("retry-after", "1".to_owned()), "no".to_owned()));
        analyze(stage, &key, number..number + 1).await;
        counted(stage, &key, "dead", number as usize).await;
        let dead = newest(stage, &key, "dead", 1).await;
        assert_eq!(dead["last_status_code"], status);
        assert_eq!(dead["last_error"], format!("the receiver answered {status}"));
        assert_eq!(dead["last_response"], "no");
    }
    // Nor is anybody sent elsewhere.
    receiver.then(Answer::Say(307, ("location", elsewhere.url()), String::new()));
    analyze(stage, &key, 20..21).await;
    counted(stage, &key, "dead", 8).await;
    let dead = newest(stage, &key, "dead", 1).await;
    assert_eq!(dead["last_error"], "the receiver answered 307: redirects are not followed");
    assert_eq!(elsewhere.count(), 0);
    stage.settle().await;
}

async fn a_receiver_can_ask_for_more_time(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    let busy =
        |status, seconds: &str| Answer::Say(status, ("retry-after", seconds.to_owned()), String::new());
    receiver.then(busy(429, "90"));
    receiver.then(busy(503, "86400000"));
    receiver.then(busy(503, "1"));
    analyze(stage, &key, 1..2).await;
    let wait = async |attempt| {
        let waiting = newest(stage, &key, "pending", attempt).await;
        let wait = time(&waiting["run_after"]).since(stage.now());
        advance_to(stage, &waiting);
        wait.as_secs()
    };
    assert_eq!(wait(1).await, 90);
    assert_eq!(wait(2).await, 3_600, "an hour at the most");
    assert!((108..=132).contains(&wait(3).await), "no less than usual");
    newest(stage, &key, "delivered", 4).await;
}

async fn neither_silence_nor_a_drip_holds_a_delivery(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.then(Answer::Silence);
    receiver.then(Answer::Drip);
    analyze(stage, &key, 1..2).await;
    for attempt in 1..=2 {
        let waiting = newest(stage, &key, "pending", attempt).await;
        assert_eq!(waiting["last_error"], "the request timed out");
        assert!(waiting.get("last_status_code").is_none());
        advance_to(stage, &waiting);
    }
    newest(stage, &key, "delivered", 3).await;
}

async fn mail_about_a_dead_endpoint_comes_once_a_day(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    let mails = async || {
        let mails = stage.mails().await;
        mails.into_iter().filter(|mail| mail.subject == "A webhook delivery was given up").collect::<Vec<_>>()
    };
    receiver.always(Answer::Status(410));
    for (number, (pause, expected)) in
        (1..).zip([(Duration::ZERO, 1), (Duration::from_hours(23), 1), (Duration::from_hours(1), 2)])
    {
        stage.advance(pause);
        analyze(stage, &key, number..number + 1).await;
        counted(stage, &key, "dead", number as usize).await;
        let mails = mails().await;
        assert_eq!(mails.len(), expected, "after {number}");
        assert!(mails[0].to.contains("ann@example.com"));
        assert!(mails[0].text.contains("the receiver answered 410"), "{}", mails[0].text);
        let origin = receiver.url().replace("/hook", "/...");
        assert!(mails[0].text.contains(&origin), "{}", mails[0].text);
    }
    // Another endpoint has a mail of its own.
    subscribe(stage, &key, &receiver).await;
    analyze(stage, &key, 9..10).await;
    counted(stage, &key, "dead", 5).await;
    assert_eq!(mails().await.len(), 3);
}

async fn a_disabled_endpoint_s_deliveries_wait(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    receiver.then(Answer::Status(500));
    analyze(stage, &key, 1..2).await;
    let waiting = newest(stage, &key, "pending", 1).await;
    assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": false})).await.status, 200);
    // Long past its time it still waits, and new ones are not made.
    stage.advance(Duration::from_hours(5));
    analyze(stage, &key, 2..3).await;
    stage.at_rest().await;
    stage.workers_have_polled().await;
    receiver.got(1).await;
    assert_eq!(deliveries(stage, &key, "").await, std::slice::from_ref(&waiting));
    // A replay does not change that.
    assert_eq!(replay(stage, &key, &waiting).await.json(), waiting);
    stage.workers_have_polled().await;
    receiver.got(1).await;
    assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": true})).await.status, 200);
    newest(stage, &key, "delivered", 2).await;
    receiver.got(2).await;
}

async fn a_replay_leaves_what_is_under_way_as_it_is(stage: &Scripted<Patient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    let gate = receiver.hold();
    analyze(stage, &key, 1..2).await;
    receiver.got(1).await;
    let under_way = newest(stage, &key, "delivering", 0).await;
    assert_eq!(under_way["run_after"], stage.now().to_string());
    let reply = replay(stage, &key, &under_way).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (202, under_way));
    gate.add_permits(1);
    newest(stage, &key, "delivered", 1).await;
    stage.settle().await;
    receiver.got(1).await;
}

async fn a_replay_is_the_same_bytes_under_the_same_id(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let made = register(stage, &key, &json!({"url": receiver.url()})).await;
    send_event(stage, &key, "a%2Fb%20%F0%9F%8E%89%22%5C", "seen").await;
    stage.advance(QUIET);
    let first = receiver.got(1).await;
    let delivered = newest(stage, &key, "delivered", 1).await;
    assert_eq!(delivered["object_id"], "a/b 🎉\"\\");
    stage.advance(SECOND);
    let replayed = replay(stage, &key, &delivered).await.json();
    assert!(replayed.get("delivered_at").is_none(), "{replayed}");
    let second = receiver.got(2).await;
    assert_eq!(second.body, first.body);
    assert_eq!(second.header("x-webhook-delivery"), first.header("x-webhook-delivery"));
    let secret = made["secret"].as_str().unwrap();
    for arrived in [&first, &second] {
        assert_eq!(arrived.header("x-webhook-signature"), signature(secret, arrived));
    }
    let again = newest(stage, &key, "delivered", 1).await;
    assert_eq!(again["delivered_at"], stage.now().to_string());
    assert_eq!(again["created_at"], delivered["created_at"]);
}
