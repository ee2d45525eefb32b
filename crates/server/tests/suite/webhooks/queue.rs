//! What the queue of deliveries keeps and forgets: leases, restarts, deletions, age.

use model::Timestamp;
use serde_json::{Value, json};
use store::actions::webhooks::queue;
use store::{Conn, Lease, Store};
use testkit::Stage as _;

use super::*;
use crate::receiver::Answer;

testkit::on_both!(
    an_abandoned_lease_expires,
    a_restart_sends_what_the_earlier_process_had_claimed,
    a_delivery_that_crashes_its_senders_is_given_up_and_others_are_not,
    a_deleted_object_s_deliveries_are_dropped,
    a_delivery_that_says_nothing_any_more_is_dropped,
    a_removed_endpoint_s_deliveries_are_dropped,
    what_is_over_is_kept_for_a_while,
);

/// How long a delivery is held: the receiver's deadline and twenty seconds.
const LEASE: Duration = Duration::from_secs(22);

/// Takes every due delivery like a worker that then dies.
async fn claim_all(store: &Store, now: Timestamp) -> usize {
    let lease = Lease { token: Uuid::from_u128(13), until: now + LEASE };
    let taken = store.write("claim_all", async |conn: &mut Conn| {
        let mut taken = 0;
        for due in queue::due_endpoints(conn, Uuid::nil(), now, 100).await? {
            taken += queue::claim(conn, due.endpoint_id, now, 100, lease).await?.len();
        }
        Ok::<_, store::Error>(taken)
    });
    taken.await.unwrap()
}

/// Queues a delivery while its endpoint is disabled, and enables it behind the worker's back.
async fn queued(stage: &Scripted<Impatient>, key: &Signer, receiver: &Receiver) -> String {
    let endpoint = subscribe(stage, key, receiver).await;
    receiver.then(Answer::Status(500));
    analyze(stage, key, 1..2).await;
    newest(stage, key, "pending", 1).await;
    endpoint
}

async fn an_abandoned_lease_expires(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    queued(stage, &key, &receiver).await;
    // Taken from the future: the worker here must not be quicker.
    let due = stage.now() + Duration::from_mins(1);
    assert_eq!(claim_all(&stage.store, due).await, 1);
    newest(stage, &key, "delivering", 1).await;
    stage.advance(Duration::from_mins(1) + LEASE - SECOND);
    stage.workers_have_polled().await;
    receiver.got(1).await;
    stage.advance(SECOND);
    newest(stage, &key, "delivered", 2).await;
}

async fn a_restart_sends_what_the_earlier_process_had_claimed(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    queued(stage, &key, &receiver).await;
    let due = stage.now() + Duration::from_mins(1);
    assert_eq!(claim_all(&stage.store, due).await, 1);
    stage.advance(Duration::from_mins(1));
    let other = stage.second_node(Impatient::SETTINGS).await;
    if stage.store.backend() == store::Backend::Sqlite {
        // Whoever held it is gone: there is one process at a time.
        newest(stage, &key, "delivered", 2).await;
    } else {
        other.workers_have_polled().await;
        receiver.got(1).await;
        stage.advance(LEASE);
        newest(stage, &key, "delivered", 2).await;
    }
    other.stop().await;
}

/// Takes it like a worker that then dies, again and again: it is counted before anything is sent.
async fn a_delivery_that_crashes_its_senders_is_given_up_and_others_are_not(stage: &Scripted<Impatient>) {
    const DEATHS: usize = 5;
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    receiver.then(Answer::Status(500));
    receiver.then(Answer::Status(500));
    analyze(stage, &key, 1..3).await;
    until("both wait", async || {
        deliveries(stage, &key, "?status=pending").await.iter().filter(|one| one["attempts"] == 1).count()
            == 2
    })
    .await;
    receiver.got(2).await;
    let at = |number: usize| stage.now() + Duration::from_mins(2) + LEASE * u32::try_from(number).unwrap();
    for number in 0..DEATHS {
        // One of the two is lucky: others deal with the process that holds it.
        if number == 2 {
            release_one(&stage.store, &key, stage).await;
        }
        let taken = claim_all(&stage.store, at(number)).await;
        assert_eq!(taken, 2, "{number}");
    }
    release_one(&stage.store, &key, stage).await;
    stage.advance(Duration::from_mins(2) + LEASE * u32::try_from(DEATHS).unwrap());
    counted(stage, &key, "delivered", 1).await;
    counted(stage, &key, "dead", 1).await;
    let dead = deliveries(stage, &key, "?status=dead").await.remove(0);
    assert!(dead["last_error"].as_str().unwrap().starts_with("abandoned: the sender crashed"), "{dead}");
    assert_eq!((&dead["attempts"], &dead["last_status_code"]), (&json!(1), &json!(500)), "{dead}");
    receiver.got(3).await;
    // It says nothing about the receiver, which goes on.
    assert_eq!(
        stage.number("SELECT count(*) FROM webhook_endpoints WHERE consecutive_failures > 0").await,
        0
    );
    // A replay is a new beginning.
    assert_eq!(replay(stage, &key, &dead).await.status, 202);
    counted(stage, &key, "delivered", 2).await;
    remove(stage, &key, &endpoint).await;
    stage.settle().await;
}

/// Gives the older delivery back unsent, like a worker that stops in good order.
async fn release_one(store: &Store, key: &Signer, app: &App) {
    let older = deliveries(app, key, "").await.pop().unwrap();
    let id = |field: &str| older[field].as_str().unwrap().parse::<Uuid>().unwrap();
    let tenant = get(app, key, "/v1/me").await.json()["tenant_id"].as_str().unwrap().parse().unwrap();
    let held = queue::DeliveryLease {
        tenant: model::TenantId(tenant),
        endpoint_id: id("endpoint_id"),
        delivery_id: id("id"),
        token: Uuid::from_u128(13),
    };
    store.write("release", async |conn: &mut Conn| queue::release(conn, vec![held]).await).await.unwrap();
}

async fn a_deleted_object_s_deliveries_are_dropped(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    queued(stage, &key, &receiver).await;
    analyze(stage, &key, 2..3).await;
    counted(stage, &key, "delivered", 1).await;
    let gate = receiver.hold();
    analyze(stage, &key, 1..2).await;
    counted(stage, &key, "delivering", 1).await;
    let deleted = key.call(stage, Method::DELETE, "/v1/objects/user_1", &Value::Null).await;
    assert_eq!(deleted.status, 204);
    let left = deliveries(stage, &key, "").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["object_id"], "user_2");
    // The one under way ends without a trace.
    gate.add_permits(9);
    stage.advance(Duration::from_hours(1));
    stage.settle().await;
    stage.workers_have_polled().await;
    receiver.got(3).await;
    assert_eq!(deliveries(stage, &key, "").await, left);
}

/// What is put back at the moment in which its object is deleted may stay in the queue.
async fn a_delivery_that_says_nothing_any_more_is_dropped(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    queued(stage, &key, &receiver).await;
    crate::books::execute(&stage.store, "DELETE FROM webhook_deliveries").await;
    assert_eq!(stage.number("SELECT count(*) FROM webhook_queue").await, 1);
    stage.advance(Duration::from_mins(1));
    until("it is gone", async || stage.number("SELECT count(*) FROM webhook_queue").await == 0).await;
    receiver.got(1).await;
}

async fn a_removed_endpoint_s_deliveries_are_dropped(stage: &Scripted<Impatient>) {
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let endpoint = queued(stage, &key, &receiver).await;
    let other = subscribe(stage, &key, &receiver).await;
    analyze(stage, &key, 2..3).await;
    counted(stage, &key, "delivered", 2).await;
    let gone = deliveries(stage, &key, &format!("?endpoint_id={endpoint}")).await;
    assert_eq!(gone.len(), 2);
    remove(stage, &key, &endpoint).await;
    assert!(deliveries(stage, &key, &format!("?endpoint_id={endpoint}")).await.is_empty());
    let left = deliveries(stage, &key, "").await;
    assert!(left.len() == 1 && left[0]["endpoint_id"] == other.as_str(), "{left:?}");
    replay(stage, &key, &gone[0]).await.refused(404, "not_found");
    until("the rows are gone", async || stage.number("SELECT count(*) FROM webhook_deliveries").await == 1)
        .await;
}

async fn what_is_over_is_kept_for_a_while(stage: &Scripted<Impatient>) {
    const DAY: Duration = Duration::from_hours(24);
    let email = "ann@example.com";
    let key = stage.account(email).await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(stage, &key, &receiver).await;
    receiver.then(Answer::Status(400));
    analyze(stage, &key, 1..2).await;
    counted(stage, &key, "dead", 1).await;
    analyze(stage, &key, 2..3).await;
    counted(stage, &key, "delivered", 1).await;
    let rows = async || stage.number("SELECT count(*) FROM webhook_deliveries").await;
    let swept = async |left: i64| {
        until(&format!("{left} deliveries are left"), async || {
            // The sweep comes every ten minutes.
            stage.advance(Duration::from_mins(10));
            rows().await == left
        })
        .await;
    };
    stage.advance(DAY * 29);
    stage.sweeper_has_swept().await;
    assert_eq!(rows().await, 2);
    stage.advance(DAY);
    swept(1).await;
    stage.advance(DAY * 59);
    stage.sweeper_has_swept().await;
    assert_eq!(rows().await, 1, "the dead one can be replayed for longer");
    stage.advance(DAY);
    swept(0).await;
    // What a removal left behind when its process died is swept too.
    analyze(stage, &key, 3..4).await;
    until("it is delivered", async || receiver.count() == 3).await;
    stage.settle().await;
    let endpoint: Uuid = endpoint.parse().unwrap();
    stage
        .store
        .write("orphan", async |conn: &mut Conn| {
            for tenant in store::accounts::tenants::all(conn).await? {
                store::actions::webhooks::endpoints::delete(conn, tenant.tenant_id, endpoint).await?;
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    swept(0).await;
}

/// A deployment is a strict one from some day on: what was registered before is not called any more.
async fn an_address_that_is_refused_later(backend: store::Backend) {
    let mut app = App::start(backend, &[]).await;
    let token = app.register("ann@example.com").await;
    let key = app.api_key(&token).await;
    let receiver = Receiver::start().await;
    let endpoint = subscribe(&app, &key, &receiver).await;
    receiver.then(Answer::Status(500));
    analyze(&app, &key, 1..2).await;
    let waiting = newest(&app, &key, "pending", 1).await;
    app.restart(&[("AUSPEX_ALLOW_PRIVATE_TARGETS", "false")]).await;
    advance_to(&app, &waiting);
    let dead = newest(&app, &key, "dead", 2).await;
    assert_eq!(dead["last_error"], "127.0.0.1 is loopback, which is not allowed");
    assert_eq!(dead["last_status_code"], 500, "the last that was received: {dead}");
    receiver.got(1).await;
    // A replay comes to the same end.
    assert_eq!(replay(&app, &key, &dead).await.status, 202);
    newest(&app, &key, "dead", 1).await;
    receiver.got(1).await;
    remove(&app, &key, &endpoint).await;
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_refused_later_is_given_up_on_sqlite() {
    an_address_that_is_refused_later(store::Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_refused_later_is_given_up_on_postgres() {
    an_address_that_is_refused_later(store::Backend::Postgres).await;
}
