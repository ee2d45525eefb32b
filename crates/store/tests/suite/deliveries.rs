//! Whose turn it is: endpoints in one order, whatever a planner would rather do, and each delivery in one hand.

use std::time::Duration;

use model::{TenantId, Timestamp};
use sqlx::types::Json;
use store::deliveries::{self, Lease, NewDelivery};
use store::webhooks::{self, Circuit, Endpoint};
use store::{Conn, Database, Store};
use testkit::{Backend, TestDatabase, on_both, play};
use uuid::Uuid;

use crate::migrated;

on_both!(endpoints_come_in_turn, a_settled_delivery_is_settled_once);

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn endpoint(number: u128, enabled: bool) -> Endpoint {
    Endpoint {
        // Tenants in another order than their endpoints.
        tenant_id: TenantId(Uuid::from_u128(1_000 - number)),
        endpoint_id: Uuid::from_u128(number),
        url: "https://example.com/".to_owned(),
        description: String::new(),
        enabled,
        signal_keys: Json(Vec::new()),
        events: Json(Vec::new()),
        created_at: NOW,
        updated_at: NOW,
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
        traceparent: None,
    }
}

async fn endpoints_come_in_turn(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("turns", async |conn: &mut Conn| {
            // Registered in an order of their own: 7, 14, 21, … modulo 101.
            for step in 1..=100 {
                let endpoint = endpoint(step * 7 % 101, step * 7 % 101 % 10 != 3);
                webhooks::insert(conn, &endpoint, b"sealed").await?;
                // Those that end in 5 have nothing due, and those that end in 7 rest.
                let number = endpoint.endpoint_id.as_u128();
                let due = if number % 10 == 5 { NOW + SECOND } else { NOW };
                let queued: Vec<_> = (0..3).map(|one| delivery(&endpoint, number * 10 + one, due)).collect();
                deliveries::queue(conn, &queued).await?;
                if number % 10 == 7 {
                    let resting_until = Some(NOW + SECOND);
                    let circuit = Circuit { consecutive_failures: 10, rests: 1, resting_until };
                    webhooks::set_circuit(conn, endpoint.tenant_id, endpoint.endpoint_id, circuit).await?;
                }
            }
            let numbers = async |conn: &mut Conn, after: u128, now, limit| {
                let turns = deliveries::turns(conn, Uuid::from_u128(after), now, limit).await?;
                Ok::<_, store::Error>(turns.iter().map(|turn| turn.endpoint_id.as_u128()).collect::<Vec<_>>())
            };
            let ready: Vec<u128> = (1..=100).filter(|number| ![3, 5, 7].contains(&(number % 10))).collect();
            assert_eq!(numbers(conn, 0, NOW, 1_000).await?, ready);
            assert_eq!(numbers(conn, 0, NOW, 5).await?, [1, 2, 4, 6, 8]);
            assert_eq!(numbers(conn, 42, NOW, 4).await?, [44, 46, 48, 49]);
            assert_eq!(numbers(conn, 100, NOW, 4).await?, [0_u128; 0]);
            assert_eq!(deliveries::next_due(conn).await?, Some(NOW));
            // A second later rests are over and the others are due.
            let later: Vec<u128> = (1..=100).filter(|number| number % 10 != 3).collect();
            assert_eq!(numbers(conn, 0, NOW + SECOND, 1_000).await?, later);
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

async fn a_settled_delivery_is_settled_once(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("settle", async |conn: &mut Conn| {
            let endpoint = endpoint(1, true);
            webhooks::insert(conn, &endpoint, b"sealed").await?;
            let queued: Vec<_> = (0..300).map(|number| delivery(&endpoint, number, NOW)).collect();
            deliveries::queue(conn, &queued).await?;
            let turn = deliveries::turns(conn, Uuid::nil(), NOW, 1).await?.remove(0);
            let token = Uuid::from_u128(7);
            let lease = Lease { token, until: NOW + SECOND };
            let claimed = deliveries::claim(conn, &turn, NOW, lease, 299).await?;
            assert_eq!(claimed.len(), 299);
            assert_eq!(deliveries::claim(conn, &turn, NOW, lease, 299).await?.len(), 1, "the rest");
            assert!(deliveries::claim(conn, &turn, NOW, lease, 299).await?.is_empty());
            let row = |number: u128, token| deliveries::Settled {
                tenant: endpoint.tenant_id,
                delivery_id: Uuid::from_u128(number),
                token,
                status: if number.is_multiple_of(2) { "delivered" } else { "pending" },
                run_after: NOW + SECOND,
                status_code: (number.is_multiple_of(3)).then_some(200),
                error: (number % 2 == 1).then(|| "it's \"broken\"".to_owned()),
                response: Some(format!("answer {number}")),
                delivered_at: (number.is_multiple_of(2)).then_some(NOW),
            };
            let mut rows: Vec<_> = (0..290).map(|number| row(number, token)).collect();
            // Another's lease settles nothing.
            rows.extend((290..300).map(|number| row(number, Uuid::from_u128(8))));
            let mut held = deliveries::settle(conn, &rows).await?;
            held.sort_unstable();
            assert_eq!(held, (0..290).map(Uuid::from_u128).collect::<Vec<_>>());
            assert!(deliveries::settle(conn, &rows).await?.is_empty(), "the leases have ended");
            for number in [0, 1, 2, 289, 290] {
                let kept =
                    deliveries::find(conn, endpoint.tenant_id, Uuid::from_u128(number)).await?.unwrap();
                let settled = row(number, token);
                if number == 290 {
                    assert_eq!((kept.status.as_str(), kept.attempts), ("delivering", 0));
                    continue;
                }
                assert_eq!((kept.status.as_str(), kept.attempts), (settled.status, 1));
                assert_eq!(kept.last_status_code, settled.status_code);
                assert_eq!(kept.last_error, settled.error);
                assert_eq!(kept.last_response, settled.response);
                assert_eq!(kept.delivered_at, settled.delivered_at);
                assert_eq!(kept.run_after, settled.run_after);
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}
/// SQLite is free to read all deliveries and look each of them up among the values; with a long backlog that is fatal.
#[test]
fn settling_many_does_not_read_all() {
    play(Backend::Sqlite, async |database: &TestDatabase| {
        let Database::Sqlite { readers, .. } = migrated(database).await else { panic!("not SQLite") };
        let text = deliveries::settle_text(Backend::Sqlite);
        for rows in [1, 4, 16, 64, 256] {
            let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
            let columns =
                "tenant, delivery, token, status, run_after, status_code, error, response, delivered_at";
            let explain = format!("EXPLAIN QUERY PLAN WITH settled ({columns}) AS (VALUES {values}) {text}");
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(explain)).fetch_all(&readers).await.unwrap();
            let steps: Vec<&str> = plan.iter().map(|step| step.3.as_str()).collect();
            assert!(
                steps.iter().any(|step| step.starts_with("SEARCH webhook_deliveries")),
                "{rows}: {steps:?}"
            );
        }
    });
}
