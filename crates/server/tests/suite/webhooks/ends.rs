//! How deliveries end: accepted, refused, out of attempts, or expired; and what crashes do not hold up.

use serde_json::json;
use testkit::Backend;

use super::*;
use crate::receiver::Answer;

testkit::on_both!(
    a_receiver_that_is_down_for_days_is_reported_and_its_deliveries_expire,
    time_while_an_endpoint_is_disabled_does_not_count,
    a_refusal_is_final_and_gives_no_rest,
    a_refusal_ends_a_rest,
    after_crashes_silent_receivers_delay_no_other,
);

const HOUR: Duration = Duration::from_hours(1);

/// The subjects of mails about webhooks, oldest first.
async fn webhook_mails(stage: &Scripted<Impatient>) -> Vec<String> {
    until("all mails are sent", async || stage.number("SELECT count(*) FROM outbox").await == 0).await;
    let directory = stage.data_directory().join("mail");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
    paths.sort();
    let mails = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let subject = |mail: String| {
        let line = mail.lines().find_map(|line| line.strip_prefix("Subject: ")).map(str::to_owned);
        line.filter(|subject| subject.contains("webhook"))
    };
    mails.filter_map(subject).collect()
}

async fn a_receiver_that_is_down_for_days_is_reported_and_its_deliveries_expire(stage: &Scripted<Impatient>) {
    const DELIVERIES: usize = 60;
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Status(500));
    analyze(stage, &key, 0..60).await;
    until("the receiver rests", async || {
        stage.number("SELECT count(*) FROM webhook_endpoints WHERE resting_until IS NOT NULL").await == 1
    })
    .await;
    counted(stage, &key, "delivering", 0).await;
    let resting = ["A webhook does not respond"];
    assert_eq!(webhook_mails(stage).await, resting, "although no delivery is given up");
    assert!(receiver.count() < 20, "{}", receiver.count());

    stage.advance(71 * HOUR);
    stage.sweeper_has_swept().await;
    assert!(deliveries(stage, &key, "?status=dead").await.is_empty());
    stage.advance(2 * HOUR);
    until("all have expired", async || {
        stage.sweeper_has_swept().await;
        deliveries(stage, &key, "?limit=200&status=dead").await.len() == DELIVERIES
    })
    .await;
    let dead = deliveries(stage, &key, "?limit=200&status=dead").await;
    assert!(dead.iter().all(|one| one["last_error"] == "expired"), "{dead:?}");
    assert!(dead.iter().any(|one| one["attempts"] == 0), "most were never tried");
    let tried = dead.iter().find(|one| one["attempts"] != 0).unwrap();
    assert_eq!(tried["last_status_code"], 500, "what was heard last stays on record");
    let mails = webhook_mails(stage).await;
    assert_eq!(mails, [resting[0], "A webhook delivery was given up"], "one about all of them");

    // A replay is a new beginning.
    receiver.always(Answer::Status(200));
    assert_eq!(replay(stage, &key, tried).await.status, 202);
    counted(stage, &key, "delivered", 1).await;
}

async fn time_while_an_endpoint_is_disabled_does_not_count(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Status(500));
    analyze(stage, &key, 1..2).await;
    newest(stage, &key, "pending", 1).await;
    for attempts in 2..4 {
        assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": false})).await.status, 200);
        stage.advance(24 * 30 * HOUR);
        stage.sweeper_has_swept().await;
        newest(stage, &key, "pending", attempts - 1).await;
        assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": true})).await.status, 200);
        newest(stage, &key, "pending", attempts).await;
        stage.sweeper_has_swept().await;
        newest(stage, &key, "pending", attempts).await;
    }
    stage.advance(71 * HOUR);
    newest(stage, &key, "pending", 4).await;
    stage.sweeper_has_swept().await;
    newest(stage, &key, "pending", 4).await;
    stage.advance(2 * HOUR);
    until("it has expired", async || {
        stage.sweeper_has_swept().await;
        deliveries(stage, &key, "").await[0]["last_error"] == "expired"
    })
    .await;
}

async fn a_refusal_is_final_and_gives_no_rest(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Status(302));
    analyze(stage, &key, 0..60).await;
    counted(stage, &key, "dead", 60).await;
    assert_eq!(receiver.count(), 60, "each was tried once");
    assert_eq!(webhook_mails(stage).await, ["A webhook delivery was given up"]);
}

async fn a_refusal_ends_a_rest(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.always(Answer::Status(500));
    analyze(stage, &key, 0..40).await;
    until("the receiver rests", async || {
        stage.number("SELECT count(*) FROM webhook_endpoints WHERE resting_until IS NOT NULL").await == 1
    })
    .await;
    counted(stage, &key, "delivering", 0).await;
    receiver.always(Answer::Status(410));
    stage.advance(Duration::from_mins(1));
    counted(stage, &key, "dead", 40).await;
}

/// Nobody gives up on the silent ones: whoever waited for one attempt of them would wait for longer than the story does.
async fn after_crashes_silent_receivers_delay_no_other(stage: &Scripted<Patient>) {
    const EACH: usize = 4;
    let key = stage.account("ann@example.com").await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    for receiver in [&silent, &silent, &silent, &well] {
        subscribe(stage, &key, receiver).await;
    }
    for receiver in [&silent, &well] {
        receiver.always(Answer::Status(500));
    }
    analyze(stage, &key, 0..4).await;
    until("all wait", async || {
        let waiting = deliveries(stage, &key, "?limit=200&status=pending").await;
        waiting.len() == 4 * EACH && waiting.iter().all(|one| one["attempts"] == 1)
    })
    .await;
    // As if two processes had crashed while they sent them.
    crate::books::execute(&stage.store, "UPDATE webhook_queue SET begun = 2").await;
    silent.always(Answer::Silence);
    well.always(Answer::Status(200));
    stage.advance(Duration::from_mins(1));
    counted(stage, &key, "delivered", EACH).await;
    until("each silent one is tried", async || silent.count() == 3 * EACH + 3).await;
    stage.app.workers_have_polled_with(|| 3).await;
    assert_eq!(silent.count(), 3 * EACH + 3, "of each endpoint, one suspect at a time");
    for endpoint in get(stage, &key, PATH).await.json()["webhooks"].as_array().unwrap() {
        remove(stage, &key, endpoint["id"].as_str().unwrap()).await;
    }
    stage.settle().await;
}

/// The outage begins while the receiver thinks, again and again, and more often than a sender may end during a delivery.
#[test]
fn an_outage_uses_up_no_attempt_of_a_delivery() {
    testkit::run_on(Backend::Postgres, async |stage: &Scripted<Patient>| {
        let key = stage.account("ann@example.com").await;
        let receiver = Receiver::start().await;
        let gates = [503, 503, 503, 503, 503, 200].map(|status| receiver.hold_one(status));
        subscribe(stage, &key, &receiver).await;
        let database = stage.app.database();
        analyze(stage, &key, 1..2).await;
        for (gate, sent) in gates.iter().zip(1..) {
            receiver.got(sent).await;
            database.set_read_only(true).await;
            gate.add_permits(1);
            // What the receiver answered cannot be written, and is not forgotten.
            until("it is noticed", async || stage.get("/readyz").await.status == 503).await;
            database.set_read_only(false).await;
            until("it is written", async || {
                let reply = get(stage, &key, "/v1/webhook_deliveries").await;
                reply.status == 200 && reply.json()["deliveries"][0]["attempts"] == sent
            })
            .await;
            let status = if sent == gates.len() { "delivered" } else { "pending" };
            let all = deliveries(stage, &key, "").await;
            assert_eq!((all.len(), &all[0]["status"]), (1, &json!(status)), "{all:?}");
            if status == "pending" {
                advance_to(stage, &all[0]);
            }
        }
        assert_eq!(receiver.count(), gates.len(), "each attempt was made once");
    });
}
