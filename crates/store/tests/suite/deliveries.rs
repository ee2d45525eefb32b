//! Endpoints take turns in one order, whatever a planner would rather do, and each delivery has one lease.

use std::time::Duration;

use model::api::DeliveryStatus;
use model::{TenantId, Timestamp};
use sqlx::types::Json;
use store::actions::webhooks::deliveries;
use store::actions::webhooks::deliveries::{DeliveryFilter, NewDelivery};
use store::actions::webhooks::endpoints;
use store::actions::webhooks::endpoints::{Circuit, Endpoint};
use store::actions::webhooks::queue;
use store::actions::webhooks::queue::{AttemptResult, DeliveryLease, DeliveryOutcome, LeasedDelivery};
use store::runtime::created_by::CreatedBy;
use store::{Conn, Lease, Store};
use testkit::{Backend, TestDatabase, on_both};
use uuid::Uuid;

on_both!(
    endpoints_come_in_turn,
    a_settled_delivery_is_settled_once,
    what_was_heard_last_stays_on_record,
    taking_is_counted_until_an_attempt_ends,
    every_edit_raises_the_version,
    a_database_from_before_the_queue_loses_no_delivery,
);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn endpoint(number: u128, enabled: bool) -> Endpoint {
    Endpoint {
        // Tenants in another order than their endpoints.
        tenant_id: TenantId(Uuid::from_u128(1_000 - number)),
        endpoint_id: Uuid::from_u128(number),
        sealed_url: b"https://example.com/".to_vec(),
        description: String::new(),
        enabled,
        disabled_reason: None,
        signal_keys: Json(Vec::new()),
        events: Json(Vec::new()),
        created_at: NOW,
        updated_at: NOW,
        version: 1,
        disabled_us: 0,
        disabled_at: None,
        is_ready: true,
    }
}

fn delivery(endpoint: &Endpoint, number: u128, run_after: Timestamp) -> NewDelivery {
    NewDelivery {
        tenant: endpoint.tenant_id,
        delivery_id: Uuid::from_u128(number),
        endpoint_id: endpoint.endpoint_id,
        event_type: "analysis.completed",
        object_id: None,
        payload: "{}".to_owned(),
        max_attempts: 6,
        run_after,
        created_at: NOW,
        active_since: NOW,
        traceparent: None,
        lease: None,
    }
}

/// Whatever the clocks of those who edit say.
async fn every_edit_raises_the_version(database: &TestDatabase) {
    let store = database.open().await;
    let one = endpoint(1, true);
    store
        .write("edit", async |conn: &mut Conn| {
            endpoints::insert(conn, &one, b"sealed", &CreatedBy::OPERATOR).await?;
            for (version, updated_at) in [(2, NOW), (3, NOW - SECOND * 2), (4, NOW + SECOND)] {
                // What the editor has read may be outdated by now.
                let one = Endpoint { updated_at, version: 1, ..one.clone() };
                assert_eq!(endpoints::update(conn, &one).await?, version);
                let found = endpoints::find(conn, one.tenant_id, one.endpoint_id).await?.unwrap();
                assert_eq!((found.version, found.updated_at), (version, updated_at));
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

async fn endpoints_come_in_turn(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("turns", async |conn: &mut Conn| {
            // Registered in an order of their own: 7, 14, 21, … modulo 101.
            for step in 1..=100 {
                let endpoint = endpoint(step * 7 % 101, step * 7 % 101 % 10 != 3);
                endpoints::insert(conn, &endpoint, b"sealed", &CreatedBy::OPERATOR).await?;
                // Those that end in 5 have nothing due, and those that end in 7 rest.
                let number = endpoint.endpoint_id.as_u128();
                let due = if number % 10 == 5 { NOW + SECOND } else { NOW };
                let queued: Vec<_> = (0..3).map(|one| delivery(&endpoint, number * 10 + one, due)).collect();
                deliveries::queue(conn, &queued).await?;
                if number % 10 == 7 {
                    let resting_until = Some(NOW + SECOND);
                    let circuit = Circuit { consecutive_failures: 10, rests: 1, resting_until };
                    endpoints::set_circuit(conn, endpoint.tenant_id, endpoint.endpoint_id, circuit).await?;
                }
            }
            let numbers = async |conn: &mut Conn, after: u128, now, limit| {
                let turns = queue::due_endpoints(conn, Uuid::from_u128(after), now, limit).await?;
                Ok::<_, store::Error>(turns.iter().map(|turn| turn.endpoint_id.as_u128()).collect::<Vec<_>>())
            };
            let ready: Vec<u128> = (1..=100).filter(|number| ![3, 5, 7].contains(&(number % 10))).collect();
            assert_eq!(numbers(conn, 0, NOW, 1_000).await?, ready);
            assert_eq!(numbers(conn, 0, NOW, 5).await?, [1, 2, 4, 6, 8]);
            assert_eq!(numbers(conn, 42, NOW, 4).await?, [44, 46, 48, 49]);
            assert_eq!(numbers(conn, 100, NOW, 4).await?, [0_u128; 0]);
            assert_eq!(queue::next_due(conn).await?, Some(NOW));
            // A second later rests are over and the others are due.
            let later: Vec<u128> = (1..=100).filter(|number| number % 10 != 3).collect();
            assert_eq!(numbers(conn, 0, NOW + SECOND, 1_000).await?, later);
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

fn ids(endpoint: &Endpoint, claimed: &[LeasedDelivery]) -> Vec<(TenantId, Uuid)> {
    claimed.iter().map(|due| (endpoint.tenant_id, due.delivery_id)).collect()
}

fn leased(endpoint: &Endpoint, number: u128, token: Uuid) -> DeliveryLease {
    let (tenant, endpoint_id) = (endpoint.tenant_id, endpoint.endpoint_id);
    DeliveryLease { tenant, endpoint_id, delivery_id: Uuid::from_u128(number), token }
}

async fn a_settled_delivery_is_settled_once(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("settle", async |conn: &mut Conn| {
            let endpoint = endpoint(1, true);
            endpoints::insert(conn, &endpoint, b"sealed", &CreatedBy::OPERATOR).await?;
            let queued: Vec<_> = (0..300).map(|number| delivery(&endpoint, number, NOW)).collect();
            deliveries::queue(conn, &queued).await?;
            let token = Uuid::from_u128(7);
            let lease = Lease { token, until: NOW + SECOND };
            let taken = queue::claim(conn, endpoint.endpoint_id, NOW, 299, lease).await?;
            assert_eq!(taken.len(), 299);
            assert_eq!(queue::contents(conn, &ids(&endpoint, &taken)).await?.len(), 299);
            assert_eq!(queue::claim(conn, endpoint.endpoint_id, NOW, 299, lease).await?.len(), 1, "the rest");
            assert!(queue::claim(conn, endpoint.endpoint_id, NOW, 299, lease).await?.is_empty());
            let row = |number: u128, token| AttemptResult {
                lease: leased(&endpoint, number, token),
                outcome: [DeliveryOutcome::Delivered, DeliveryOutcome::Retry, DeliveryOutcome::Dead]
                    [usize::try_from(number % 3).unwrap()],
                attempts: 1,
                at: NOW + SECOND,
                status_code: (number.is_multiple_of(3)).then_some(200),
                error: (!number.is_multiple_of(3)).then(|| "it's \"broken\"".to_owned()),
                response: Some(format!("answer {number}")),
            };
            let mut rows: Vec<_> = (0..290).map(|number| row(number, token)).collect();
            // Another's lease settles nothing.
            rows.extend((290..300).map(|number| row(number, Uuid::from_u128(8))));
            let mut settled: Vec<Uuid> = queue::settle(conn, rows.clone()).await?.into_iter().collect();
            settled.sort_unstable();
            assert_eq!(settled, (0..290).map(Uuid::from_u128).collect::<Vec<_>>());
            assert!(queue::settle(conn, rows).await?.is_empty(), "the leases have ended");
            for number in [0, 1, 2, 288, 289, 290] {
                let kept =
                    deliveries::find(conn, endpoint.tenant_id, Uuid::from_u128(number)).await?.unwrap();
                let settled = row(number, token);
                if number == 290 {
                    assert_eq!((kept.status, kept.attempts), (DeliveryStatus::Delivering, 0));
                    continue;
                }
                assert_eq!((kept.status, kept.attempts), (settled.outcome.status(), 1));
                assert_eq!(kept.last_status_code, settled.status_code);
                assert_eq!(kept.last_error, settled.error);
                assert_eq!(kept.last_response, settled.response);
                assert_eq!(
                    kept.delivered_at,
                    (settled.outcome == DeliveryOutcome::Delivered).then_some(NOW + SECOND)
                );
                assert_eq!(kept.run_after, settled.at);
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

async fn what_was_heard_last_stays_on_record(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("settle", async |conn: &mut Conn| {
            let endpoint = endpoint(1, true);
            endpoints::insert(conn, &endpoint, b"sealed", &CreatedBy::OPERATOR).await?;
            deliveries::queue(conn, &[delivery(&endpoint, 1, NOW)]).await?;
            let token = Uuid::from_u128(7);
            let lease = Lease { token, until: NOW + SECOND };
            let (tenant, id) = (endpoint.tenant_id, Uuid::from_u128(1));
            let heard = AttemptResult {
                lease: leased(&endpoint, 1, token),
                outcome: DeliveryOutcome::Retry,
                attempts: 1,
                at: NOW,
                status_code: Some(503),
                error: Some("busy".to_owned()),
                response: Some("later".to_owned()),
            };
            let silent = AttemptResult {
                attempts: 2,
                status_code: None,
                error: Some("silent".to_owned()),
                response: None,
                ..heard.clone()
            };
            for (settled, attempts) in [
                (heard, 1),
                (silent.clone(), 2),
                (AttemptResult { outcome: DeliveryOutcome::Dead, attempts: 3, ..silent }, 3),
            ] {
                assert_eq!(queue::claim(conn, endpoint.endpoint_id, NOW, 9, lease).await?.len(), 1);
                let (status, error) = (settled.outcome.status(), settled.error.clone());
                queue::settle(conn, vec![settled]).await?;
                let kept = deliveries::find(conn, tenant, id).await?.unwrap();
                assert_eq!((kept.status, kept.attempts, kept.last_error), (status, attempts, error));
                assert_eq!(
                    (kept.last_status_code, kept.last_response.as_deref()),
                    (Some(503), Some("later"))
                );
            }
            // A replay keeps it too.
            deliveries::replay(conn, tenant, id, NOW + SECOND).await?;
            let kept = deliveries::find(conn, tenant, id).await?.unwrap();
            assert_eq!(
                (kept.status, kept.attempts, kept.run_after),
                (DeliveryStatus::Pending, 0, NOW + SECOND)
            );
            assert_eq!((kept.last_status_code, kept.last_response.as_deref()), (Some(503), Some("later")));
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

async fn taking_is_counted_until_an_attempt_ends(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("begin", async |conn: &mut Conn| {
            let endpoint = endpoint(1, true);
            endpoints::insert(conn, &endpoint, b"sealed", &CreatedBy::OPERATOR).await?;
            deliveries::queue(conn, &[delivery(&endpoint, 1, NOW)]).await?;
            let token = Uuid::from_u128(7);
            for begun in 0..3 {
                // Nobody settles it: the lease ends, and it is due again.
                let lease = Lease { token, until: NOW };
                assert_eq!(
                    queue::claim(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].unfinished_claims,
                    begun
                );
            }
            queue::release(conn, vec![leased(&endpoint, 1, token)]).await?;
            let lease = Lease { token, until: NOW };
            assert_eq!(
                queue::claim(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].unfinished_claims,
                2,
                "it was not sent"
            );
            // Leases on PostgreSQL may be those of other processes.
            let voided = u64::from(database.backend() == Backend::Sqlite);
            assert_eq!(queue::void_stale_leases(conn).await?, voided);
            assert_eq!(
                queue::claim(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].unfinished_claims,
                3,
                "a restart forgets nothing"
            );
            let settled = AttemptResult {
                lease: leased(&endpoint, 1, token),
                outcome: DeliveryOutcome::Retry,
                attempts: 1,
                at: NOW,
                status_code: None,
                error: None,
                response: None,
            };
            queue::settle(conn, vec![settled]).await?;
            assert_eq!(
                queue::claim(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].unfinished_claims,
                0
            );
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

/// The last version kept a delivery in one row. Each of its states, with all that was known of it, is there afterwards.
async fn a_database_from_before_the_queue_loses_no_delivery(database: &TestDatabase) {
    let old = Store::open_at(database.url(), 7).await.unwrap();
    let endpoint = endpoint(1, true);
    let token = Uuid::from_u128(7);
    let statuses = DeliveryStatus::ALL;
    old.write("fill", async |conn: &mut Conn| {
        execute!(
            conn,
            "INSERT INTO webhook_endpoints (tenant_id, endpoint_id, url, description, enabled, signal_keys, events, secret,
                 created_at, updated_at)
             VALUES ($1, $2, 'https://example.com/', '', TRUE, '[]', '[]', $3, $4, $4)",
            endpoint.tenant_id,
            endpoint.endpoint_id,
            b"sealed".as_slice(),
            NOW
        )?;
        for (number, status) in (0_i64..).zip(statuses) {
            let lease = (status == DeliveryStatus::Delivering).then_some((token, NOW + SECOND));
            execute!(
                conn,
                "INSERT INTO webhook_deliveries (tenant_id, delivery_id, endpoint_id, event_type, object_id, payload, status,
                     attempts, max_attempts, run_after, lease_token, lease_until, last_status_code, last_error,
                     last_response, created_at, delivered_at)
                 VALUES ($1, $2, $3, 'analysis.completed', $4, $5, $6, $7, 6, $8, $9, $10, $11, $12, $13, $14, $15)",
                endpoint.tenant_id,
                Uuid::from_u128(number.unsigned_abs().into()),
                endpoint.endpoint_id,
                format!("user_{number}"),
                "{\"é\": 1}",
                status,
                number,
                NOW - SECOND,
                lease.map(|lease| lease.0),
                lease.map(|lease| lease.1),
                (number > 0).then_some(500 + number),
                (status == DeliveryStatus::Dead).then_some("no"),
                (number > 0).then_some("said"),
                NOW - SECOND * 2,
                (status == DeliveryStatus::Delivered).then_some(NOW)
            )?;
        }
        Ok::<_, store::Error>(())
    })
    .await
    .unwrap();
    old.close().await;

    let store = Store::open(database.url()).await.unwrap();
    store
        .write("look", async |conn: &mut Conn| {
            // As the service does when it starts.
            let plain = endpoints::with_plain_url(conn, 10).await?;
            let url = "https://example.com/".to_owned();
            assert_eq!(plain, [(endpoint.tenant_id, endpoint.endpoint_id, url)]);
            endpoints::seal_url(conn, endpoint.tenant_id, endpoint.endpoint_id, b"sealed").await?;
            assert_eq!(endpoints::with_plain_url(conn, 10).await?, []);
            let all = deliveries::list(conn, endpoint.tenant_id, DeliveryFilter::default(), 10).await?;
            assert_eq!(all.len(), statuses.len());
            for (number, status) in (0_i64..).zip(statuses) {
                let id = Uuid::from_u128(number.unsigned_abs().into());
                let expected = deliveries::Delivery {
                    delivery_id: id,
                    endpoint_id: endpoint.endpoint_id,
                    event_type: "analysis.completed".to_owned(),
                    object_id: Some(format!("user_{number}")),
                    payload: "{\"é\": 1}".to_owned(),
                    status,
                    attempts: number,
                    max_attempts: 6,
                    run_after: if status == DeliveryStatus::Delivered { NOW } else { NOW - SECOND },
                    last_status_code: (number > 0).then_some(500 + number),
                    last_error: (status == DeliveryStatus::Dead).then(|| "no".to_owned()),
                    last_response: (number > 0).then(|| "said".to_owned()),
                    created_at: NOW - SECOND * 2,
                    delivered_at: (status == DeliveryStatus::Delivered).then_some(NOW),
                };
                assert_eq!(deliveries::find(conn, endpoint.tenant_id, id).await?, Some(expected.clone()));
                let filter = DeliveryFilter { status: Some(status), ..DeliveryFilter::default() };
                let listed = deliveries::list(conn, endpoint.tenant_id, filter, 10).await?;
                assert_eq!(listed, [expected]);
            }
            // What waited is due, what was being sent keeps its lease, and both are sent.
            let lease = Lease { token, until: NOW + SECOND };
            let due = queue::claim(conn, endpoint.endpoint_id, NOW, 10, lease).await?;
            assert_eq!(
                due.iter().map(|due| (due.delivery_id.as_u128(), due.payload_bytes)).collect::<Vec<_>>(),
                [(0, 9)]
            );
            assert!(queue::is_current(conn, leased(&endpoint, 1, token), 1).await?);
            let due = queue::claim(conn, endpoint.endpoint_id, NOW + SECOND, 10, lease).await?;
            assert_eq!(due.len(), 2);
            assert_eq!(queue::contents(conn, &ids(&endpoint, &due)).await?.len(), 2);
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}
