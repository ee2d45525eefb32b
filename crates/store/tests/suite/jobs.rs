//! Whose turn it is to be analyzed: tenants in one order, whatever a planner would rather do.

use std::time::Duration;

use model::api::EventType;
use model::{NewEvent, TenantId, Timestamp};
use store::analysis::jobs;
use store::analysis::jobs::{Leasing, Priority, Schedule};
use store::objects::recorder::{self, Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::{BACKSTOP_INTERVAL, Conn, Lease, Notification, Store};
use testkit::{Backend, TestDatabase, on_both, run_on};
use uuid::Uuid;

on_both!(tenants_come_in_turn, a_job_is_born_leased_unless_its_object_has_one);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

async fn tenants_come_in_turn(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("turns", async |conn: &mut Conn| {
            // In an order of their own: 7, 14, 21, … modulo 101.
            for number in (1..=100).map(|step| step * 7 % 101) {
                let due = if number % 10 == 5 { NOW + Duration::from_secs(1) } else { NOW };
                for object in ["user_1", "user_2", "user_3"] {
                    jobs::schedule_now(conn, TenantId(Uuid::from_u128(number)), object, due, None).await?;
                }
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();

    let walked = store.read("turns", async |conn: &mut Conn| walk(conn).await).await.unwrap();
    let expected: Vec<u128> = (1..=100).filter(|number| number % 10 != 5).collect();
    assert_eq!(walked, expected);
    store.close().await;
}

async fn walk(conn: &mut Conn) -> store::Result<Vec<u128>> {
    let mut walked = Vec::new();
    let mut after = None;
    while let Some(tenant) = jobs::next_tenant(conn, Priority::Live, after, NOW).await? {
        walked.push(tenant.0.as_u128());
        after = Some(tenant);
    }
    Ok(walked)
}

const TENANT: TenantId = TenantId(Uuid::from_u128(1));

fn request(object_id: &str, run_at: Timestamp) -> IngestRequest {
    IngestRequest {
        tenant: TENANT,
        object_id: object_id.to_owned(),
        object_type: None,
        display_name: None,
        events: vec![NewEvent {
            kind: EventType::Event,
            name: Some("made".to_owned()),
            content: None,
            metadata: None,
            occurred_at: NOW,
        }],
        idempotency: None,
        schedule: Some(Schedule { run_at, deadline_at: run_at }),
        verdict_slot: None,
        received_at: NOW,
        traceparent: None,
    }
}

async fn a_job_is_born_leased_unless_its_object_has_one(database: &TestDatabase) {
    let store = database.open().await;
    let lease = Lease { token: Uuid::from_u128(7), until: NOW + Duration::from_secs(30) };
    let leasing = Leasing { lease, due_by: NOW + Duration::from_millis(10), most: 2 };
    let record = async |requests: &[IngestRequest], leasing: Option<Leasing>| {
        let admission = Admission::by_balance(Enforcement::Grace);
        let write =
            async |conn: &mut Conn| recorder::record_and_lease(conn, requests, admission, 0, leasing).await;
        let (_, leased) = store.write("record", write).await.unwrap();
        leased.into_iter().map(|leased| leased.job.object_id).collect::<Vec<_>>()
    };
    let claim = async |now: Timestamp| {
        let lease = Lease { token: Uuid::from_u128(8), until: now + Duration::from_secs(30) };
        let write = async |conn: &mut Conn| jobs::claim(conn, TENANT, Priority::Live, now, lease, 100).await;
        let mut claimed = store.write("claim", write).await.unwrap();
        claimed.sort_by(|one, other| one.object_id.cmp(&other.object_id));
        claimed.into_iter().map(|job| (job.object_id, job.unfinished_claims)).collect::<Vec<_>>()
    };
    assert_eq!(record(&[request("known", NOW)], None).await, [""; 0]);
    // Two may be leased; the third, and one that is due later, wait to be claimed.
    let later = NOW + Duration::from_secs(3);
    let requests =
        [request("a_later", later), request("known", NOW), request("new_1", NOW), request("new_2", NOW)];
    assert_eq!(record(&requests, Some(leasing)).await, ["known", "new_1"]);
    let claimed = claim(NOW).await;
    assert_eq!(claimed, [("known".to_owned(), 0), ("new_2".to_owned(), 0)], "its job was there before");
    let expired = claim(lease.until).await;
    let expected = [("a_later", 0), ("known", 1), ("new_1", 1), ("new_2", 1)];
    assert_eq!(expired, expected.map(|(object, claims)| (object.to_owned(), claims)), "each was counted");
    store.close().await;
}

/// A commit that notifies waits for all others that do.
#[test]
fn only_jobs_due_before_the_backstop_finds_them_are_announced() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let store = database.open().await;
        let mut listener = store.listen().await.unwrap().expect("PostgreSQL notifies");
        let admission = Admission::by_balance(Enforcement::Grace);
        let record = async |requests: &[IngestRequest], leasing: Option<Leasing>| {
            let write = async |conn: &mut Conn| {
                recorder::record_and_lease(conn, requests, admission, 0, leasing).await
            };
            store.write("record", write).await.unwrap();
        };
        let (soon, later) = (NOW + Duration::from_millis(1_999), NOW + BACKSTOP_INTERVAL);
        record(&[request("later", later), request("much_later", NOW + Duration::from_mins(1))], None).await;
        let lease = Lease { token: Uuid::from_u128(7), until: NOW + Duration::from_secs(30) };
        // A worker of this process has the one; nobody else needs to know of it before its lease expires.
        let leasing = Leasing { lease, due_by: NOW, most: 1 };
        record(&[request("born_leased", NOW), request("after_it", later)], Some(leasing)).await;
        record(&[request("later_still", later), request("soon", soon)], None).await;
        // Notifications come in the order of their commits.
        let first = listener.receive().await.unwrap();
        assert_eq!(first, Notification::Jobs(Some(soon)), "nothing before it was announced");
        store.close().await;
    });
}
