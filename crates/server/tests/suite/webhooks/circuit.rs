//! Receivers that are down: they are left alone for a while, lose nothing, and delay nobody else.

use serde_json::json;
use store::Conn;
use store::actions::webhooks::queue;

use super::*;
use crate::receiver::Answer;

testkit::on_both!(
    ten_failures_in_a_row_give_a_receiver_a_rest_and_nothing_is_lost,
    an_edit_tries_a_resting_receiver_at_once,
    enabling_tries_a_resting_receiver_at_once,
    a_replay_tries_a_resting_receiver_at_once,
    one_success_starts_the_count_afresh,
    a_rest_outlives_the_process,
    a_silent_receiver_delays_no_other,
    an_edited_endpoint_does_not_wait_for_its_old_address,
    many_silent_receivers_delay_no_other,
);

/// Failures in a row that are tolerated.
const TOLERATED: u32 = 10;

/// The attempts that have ended, of all deliveries.
async fn attempts(app: &App, key: &Signer) -> u64 {
    let all = deliveries(app, key, "?limit=200").await;
    all.iter().map(|one| one["attempts"].as_u64().unwrap()).sum()
}

/// Has deliveries fail until the receiver rests, with `more` deliveries waiting. Returns how many attempts that took.
async fn into_rest(stage: &Scripted<Impatient>, key: &Signer, receiver: &Receiver, more: u32) -> u64 {
    receiver.always(Answer::Status(500));
    analyze(stage, key, 0..TOLERATED + more).await;
    until("the receiver rests", async || {
        stage.number("SELECT count(*) FROM webhook_endpoints WHERE resting_until IS NOT NULL").await == 1
    })
    .await;
    at_rest(stage, key).await;
    let attempted = attempts(stage, key).await;
    assert!(attempted >= u64::from(TOLERATED) && attempted < u64::from(TOLERATED + more), "{attempted}");
    assert_eq!(receiver.count() as u64, attempted);
    attempted
}

/// Waits until nothing is being sent.
async fn at_rest(stage: &Scripted<Impatient>, key: &Signer) {
    stage.at_rest().await;
    counted(stage, key, "delivering", 0).await;
}

/// Waits until no delivery is due and none is in hand: the clock would jump over its lease, and it would be sent again.
async fn nothing_under_way(stage: &Scripted<Impatient>, key: &Signer) {
    until("nothing is due", async || {
        let due = async |conn: &mut Conn| queue::next_due(conn).await;
        stage.store.read("next_due", due).await.unwrap().is_none_or(|due| due > stage.now())
    })
    .await;
    counted(stage, key, "delivering", 0).await;
}

async fn ten_failures_in_a_row_give_a_receiver_a_rest_and_nothing_is_lost(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    let mut attempted = into_rest(stage, &key, &receiver, 20).await;
    // Each rest is twice as long, up to fifteen minutes, and ends with a single attempt.
    for seconds in [30, 60, 120, 240, 480, 900, 900] {
        stage.advance(Duration::from_secs(seconds) - SECOND);
        stage.workers_have_polled().await;
        receiver.got(usize::try_from(attempted).unwrap()).await;
        assert_eq!(attempts(stage, &key).await, attempted, "it rests for {seconds} s");
        stage.advance(SECOND);
        receiver.got(usize::try_from(attempted).unwrap() + 1).await;
        until("the attempt is over", async || attempts(stage, &key).await == attempted + 1).await;
        at_rest(stage, &key).await;
        stage.workers_have_polled().await;
        attempted += 1;
        receiver.got(usize::try_from(attempted).unwrap()).await;
    }
    // It is back: everything arrives, each under its own id.
    receiver.always(Answer::Status(200));
    stage.advance(Duration::from_mins(15));
    counted(stage, &key, "delivered", TOLERATED as usize + 20).await;
    assert_eq!(stage.number("SELECT count(*) FROM webhook_endpoints WHERE resting_until IS NOT NULL OR consecutive_failures > 0 OR rests > 0").await, 0);
    let arrived = receiver.arrived();
    let delivered: std::collections::BTreeSet<&str> = arrived[usize::try_from(attempted).unwrap()..]
        .iter()
        .map(|one| one.header("x-webhook-delivery"))
        .collect();
    assert_eq!(delivered.len(), TOLERATED as usize + 20);
}

async fn an_edit_tries_a_resting_receiver_at_once(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let (broken, mended) = (Receiver::start().await, Receiver::start().await);
    let endpoint = subscribe(stage, &key, &broken).await;
    let attempted = into_rest(stage, &key, &broken, 5).await;
    // One that does not help: a single attempt, and a rest like the first.
    assert_eq!(patch(stage, &key, &endpoint, &json!({"description": "broken"})).await.status, 200);
    broken.got(usize::try_from(attempted).unwrap() + 1).await;
    until("the attempt is over", async || attempts(stage, &key).await == attempted + 1).await;
    at_rest(stage, &key).await;
    stage.advance(Duration::from_secs(30));
    broken.got(usize::try_from(attempted).unwrap() + 2).await;
    until("the attempt is over", async || attempts(stage, &key).await == attempted + 2).await;
    at_rest(stage, &key).await;
    // One that does.
    assert_eq!(patch(stage, &key, &endpoint, &json!({"url": mended.url()})).await.status, 200);
    until("somebody is there", async || mended.count() > 0).await;
    nothing_under_way(stage, &key).await;
    // What waits for its next attempt waits for it.
    stage.advance(Duration::from_mins(20));
    counted(stage, &key, "delivered", TOLERATED as usize + 5).await;
    assert_eq!(mended.count(), TOLERATED as usize + 5);
}

async fn enabling_tries_a_resting_receiver_at_once(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    let attempted = usize::try_from(into_rest(stage, &key, &receiver, 5).await).unwrap();
    assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": false})).await.status, 200);
    stage.workers_have_polled().await;
    receiver.got(attempted).await;
    receiver.always(Answer::Status(200));
    assert_eq!(patch(stage, &key, &endpoint, &json!({"enabled": true})).await.status, 200);
    until("it is tried", async || receiver.count() > attempted).await;
    stage.advance(Duration::from_mins(20));
    counted(stage, &key, "delivered", TOLERATED as usize + 5).await;
}

async fn a_replay_tries_a_resting_receiver_at_once(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    receiver.then(Answer::Status(404));
    analyze(stage, &key, 100..101).await;
    counted(stage, &key, "dead", 1).await;
    let dead = deliveries(stage, &key, "?status=dead").await.remove(0);
    let attempted = usize::try_from(into_rest(stage, &key, &receiver, 5).await).unwrap();
    receiver.always(Answer::Status(200));
    // Without a replay, everything waits for the rest to end.
    stage.workers_have_polled().await;
    receiver.got(attempted).await;
    assert_eq!(replay(stage, &key, &dead).await.status, 202);
    until("it is tried", async || receiver.count() > attempted).await;
    nothing_under_way(stage, &key).await;
    stage.advance(Duration::from_mins(20));
    counted(stage, &key, "delivered", TOLERATED as usize + 5 + 1).await;
}

async fn one_success_starts_the_count_afresh(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    subscribe(stage, &key, &receiver).await;
    for round in 0..2 {
        receiver.always(Answer::Status(400));
        for number in 1..TOLERATED {
            analyze(stage, &key, 100 * round + number..100 * round + number + 1).await;
            counted(stage, &key, "dead", (round * (TOLERATED - 1) + number) as usize).await;
        }
        receiver.always(Answer::Status(200));
        analyze(stage, &key, 100 * round..100 * round + 1).await;
        counted(stage, &key, "delivered", round as usize + 1).await;
    }
    stage.settle().await;
    assert_eq!(stage.number("SELECT count(*) FROM webhook_endpoints WHERE resting_until IS NOT NULL OR consecutive_failures > 0").await, 0);
}

async fn a_rest_outlives_the_process(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    let attempted = usize::try_from(into_rest(stage, &key, &receiver, 5).await).unwrap();
    // Another process on the same database, such as after a restart.
    let other = stage.second_node(Impatient::SETTINGS).await;
    other.workers_have_polled().await;
    receiver.got(attempted).await;
    other.stop().await;
    remove(stage, &key, &endpoint).await;
    stage.settle().await;
}

/// Nobody gives up on the silent one: whoever waited for one attempt of it would wait for longer than the story does.
async fn a_silent_receiver_delays_no_other(stage: &Scripted<Patient>) {
    let key = stage.account("ann@example.com").await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    silent.always(Answer::Silence);
    let endpoint = subscribe(stage, &key, &silent).await;
    subscribe(stage, &key, &well).await;
    analyze(stage, &key, 0..40).await;
    until("the other has everything", async || well.count() == 40).await;
    until("it is tried", async || silent.count() >= 1).await;
    assert!(silent.busiest() <= 8, "{}", silent.busiest());
    let tried = deliveries(stage, &key, &format!("?limit=200&endpoint_id={endpoint}")).await;
    assert!(tried.len() == 40 && tried.iter().all(|one| one["attempts"] == 0), "no attempt has ended");
    remove(stage, &key, &endpoint).await;
    stage.settle().await;
}

/// The old address never answers; what is under way there stays there.
async fn an_edited_endpoint_does_not_wait_for_its_old_address(stage: &Scripted<Patient>) {
    let key = stage.account("ann@example.com").await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    let endpoint = subscribe(stage, &key, &silent).await;
    // Well at first, so that it gets all the places that a receiver can have.
    analyze(stage, &key, 0..30).await;
    counted(stage, &key, "delivered", 30).await;
    silent.always(Answer::Silence);
    analyze(stage, &key, 100..130).await;
    until("it has as many as it can", async || silent.count() >= 38).await;
    stage.advance(SECOND);
    assert_eq!(patch(stage, &key, &endpoint, &json!({"url": well.url()})).await.status, 200);
    // All that was not under way goes to the new address, and so does what comes later.
    analyze(stage, &key, 200..210).await;
    let under_way = silent.count() - 30;
    counted(stage, &key, "delivered", 30 + 40 - under_way).await;
    assert_eq!(well.count(), 40 - under_way);
    counted(stage, &key, "delivering", under_way).await;
    // Failures of the old address say nothing about the new one.
    drop(silent);
    until("they have failed", async || {
        deliveries(stage, &key, "?limit=200&status=pending")
            .await
            .iter()
            .filter(|one| one["attempts"] == 1)
            .count()
            == under_way
    })
    .await;
    assert_eq!(stage.number("SELECT count(*) FROM webhook_endpoints WHERE consecutive_failures > 0 OR resting_until IS NOT NULL").await, 0);
    stage.advance(Duration::from_mins(1));
    counted(stage, &key, "delivered", 70).await;
    assert_eq!(well.count(), 40);
}

/// More endpoints that never answer than are served in one round, and more than there are places for all of them.
async fn many_silent_receivers_delay_no_other(stage: &Scripted<Patient>) {
    let bob = stage.account("bob@example.com").await;
    let (silent, well) = (Receiver::start().await, Receiver::start().await);
    subscribe(stage, &bob, &well).await;
    analyze(stage, &bob, 100..101).await;
    well.got(1).await;
    silent.always(Answer::Silence);
    let mut others = Vec::new();
    for number in 0..5 {
        let key = stage.account(&format!("ann{number}@example.com")).await;
        for _ in 0..49 {
            subscribe(stage, &key, &silent).await;
        }
        send_event(stage, &key, "user_1", "seen").await;
        others.push(key);
    }
    stage.advance(QUIET);
    until("they are tried", async || silent.count() >= 150).await;
    analyze(stage, &bob, 0..20).await;
    until("the other has everything", async || well.count() == 21).await;
    for key in &others {
        let tried = deliveries(stage, key, "?limit=200").await;
        assert!(tried.len() == 49 && tried.iter().all(|one| one["attempts"] == 0), "no attempt has ended");
    }
    for key in &others {
        let endpoints = get(stage, key, PATH).await.json();
        for endpoint in endpoints["webhooks"].as_array().unwrap() {
            remove(stage, key, endpoint["id"].as_str().unwrap()).await;
        }
    }
    stage.settle().await;
}
