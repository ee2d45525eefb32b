//! Whose turn it is: endpoints in one order, whatever a planner would rather do, and each delivery in one hand.

use std::time::Duration;

use model::{TenantId, Timestamp};
use sqlx::types::Json;
use store::actions::webhooks::deliveries;
use store::actions::webhooks::deliveries::NewDelivery;
use store::actions::webhooks::endpoints;
use store::actions::webhooks::endpoints::{Circuit, Endpoint};
use store::actions::webhooks::queue;
use store::actions::webhooks::queue::{Due, Held, Lease, Settled};
use store::{Conn, Database, Store};
use testkit::{Backend, TestDatabase, on_both, play};
use uuid::Uuid;

use crate::migrated;

on_both!(
    endpoints_come_in_turn,
    a_settled_delivery_is_settled_once,
    what_was_heard_last_stays_on_record,
    taking_is_counted_until_an_attempt_ends,
    a_database_from_before_the_queue_loses_no_delivery,
);

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
                endpoints::insert(conn, &endpoint, b"sealed").await?;
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
                let turns = queue::turns(conn, Uuid::from_u128(after), now, limit).await?;
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

fn ids(endpoint: &Endpoint, taken: &[Due]) -> Vec<(TenantId, Uuid)> {
    taken.iter().map(|due| (endpoint.tenant_id, due.delivery_id)).collect()
}

fn held(endpoint: &Endpoint, number: u128, token: Uuid) -> Held {
    let (tenant, endpoint_id) = (endpoint.tenant_id, endpoint.endpoint_id);
    Held { tenant, endpoint_id, delivery_id: Uuid::from_u128(number), token }
}

async fn a_settled_delivery_is_settled_once(database: &TestDatabase) {
    let store = Store::open(database.url()).await.unwrap();
    store
        .write("settle", async |conn: &mut Conn| {
            let endpoint = endpoint(1, true);
            endpoints::insert(conn, &endpoint, b"sealed").await?;
            let queued: Vec<_> = (0..300).map(|number| delivery(&endpoint, number, NOW)).collect();
            deliveries::queue(conn, &queued).await?;
            let token = Uuid::from_u128(7);
            let lease = Lease { token, until: NOW + SECOND };
            let taken = queue::take(conn, endpoint.endpoint_id, NOW, 299, lease).await?;
            assert_eq!(taken.len(), 299);
            assert_eq!(queue::contents(conn, &ids(&endpoint, &taken)).await?.len(), 299);
            assert_eq!(queue::take(conn, endpoint.endpoint_id, NOW, 299, lease).await?.len(), 1, "the rest");
            assert!(queue::take(conn, endpoint.endpoint_id, NOW, 299, lease).await?.is_empty());
            let row = |number: u128, token| Settled {
                held: held(&endpoint, number, token),
                status: ["delivered", "pending", "dead"][usize::try_from(number % 3).unwrap()],
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
                    assert_eq!((kept.status.as_str(), kept.attempts), ("delivering", 0));
                    continue;
                }
                assert_eq!((kept.status.as_str(), kept.attempts), (settled.status, 1));
                assert_eq!(kept.last_status_code, settled.status_code);
                assert_eq!(kept.last_error, settled.error);
                assert_eq!(kept.last_response, settled.response);
                assert_eq!(kept.delivered_at, (settled.status == "delivered").then_some(NOW + SECOND));
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
            endpoints::insert(conn, &endpoint, b"sealed").await?;
            deliveries::queue(conn, &[delivery(&endpoint, 1, NOW)]).await?;
            let token = Uuid::from_u128(7);
            let lease = Lease { token, until: NOW + SECOND };
            let (tenant, id) = (endpoint.tenant_id, Uuid::from_u128(1));
            let heard = Settled {
                held: held(&endpoint, 1, token),
                status: "pending",
                attempts: 1,
                at: NOW,
                status_code: Some(503),
                error: Some("busy".to_owned()),
                response: Some("later".to_owned()),
            };
            let silent = Settled {
                attempts: 2,
                status_code: None,
                error: Some("silent".to_owned()),
                response: None,
                ..heard.clone()
            };
            for (settled, attempts) in
                [(heard, 1), (silent.clone(), 2), (Settled { status: "dead", attempts: 3, ..silent }, 3)]
            {
                assert_eq!(queue::take(conn, endpoint.endpoint_id, NOW, 9, lease).await?.len(), 1);
                let (status, error) = (settled.status, settled.error.clone());
                queue::settle(conn, vec![settled]).await?;
                let kept = deliveries::find(conn, tenant, id).await?.unwrap();
                assert_eq!((kept.status.as_str(), kept.attempts, kept.last_error), (status, attempts, error));
                assert_eq!(
                    (kept.last_status_code, kept.last_response.as_deref()),
                    (Some(503), Some("later"))
                );
            }
            // A replay keeps it too.
            deliveries::replay(conn, tenant, id, NOW + SECOND).await?;
            let kept = deliveries::find(conn, tenant, id).await?.unwrap();
            assert_eq!((kept.status.as_str(), kept.attempts, kept.run_after), ("pending", 0, NOW + SECOND));
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
            endpoints::insert(conn, &endpoint, b"sealed").await?;
            deliveries::queue(conn, &[delivery(&endpoint, 1, NOW)]).await?;
            let token = Uuid::from_u128(7);
            for begun in 0..3 {
                // Nobody settles it: the lease ends, and it is due again.
                let lease = Lease { token, until: NOW };
                assert_eq!(queue::take(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].begun, begun);
            }
            queue::release(conn, vec![held(&endpoint, 1, token)]).await?;
            let lease = Lease { token, until: NOW };
            assert_eq!(
                queue::take(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].begun,
                2,
                "it was not sent"
            );
            assert_eq!(queue::void_leases(conn).await?, 1);
            assert_eq!(
                queue::take(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].begun,
                3,
                "a restart forgets nothing"
            );
            let settled = Settled {
                held: held(&endpoint, 1, token),
                status: "pending",
                attempts: 1,
                at: NOW,
                status_code: None,
                error: None,
                response: None,
            };
            queue::settle(conn, vec![settled]).await?;
            assert_eq!(queue::take(conn, endpoint.endpoint_id, NOW, 9, lease).await?[0].begun, 0);
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
    let statuses = ["pending", "delivering", "delivered", "dead"];
    old.write("fill", async |conn: &mut Conn| {
        endpoints::insert(conn, &endpoint, b"sealed").await?;
        for (number, status) in (0_i64..).zip(statuses) {
            let lease = (status == "delivering").then_some((token, NOW + SECOND));
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
                (status == "dead").then_some("no"),
                (number > 0).then_some("said"),
                NOW - SECOND * 2,
                (status == "delivered").then_some(NOW)
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
            let all = deliveries::list(conn, endpoint.tenant_id, None, None, 10).await?;
            assert_eq!(all.len(), statuses.len());
            for (number, status) in (0_i64..).zip(statuses) {
                let id = Uuid::from_u128(number.unsigned_abs().into());
                let expected = deliveries::Delivery {
                    delivery_id: id,
                    endpoint_id: endpoint.endpoint_id,
                    event_type: "analysis.completed".to_owned(),
                    object_id: Some(format!("user_{number}")),
                    payload: "{\"é\": 1}".to_owned(),
                    status: status.to_owned(),
                    attempts: number,
                    max_attempts: 6,
                    run_after: if status == "delivered" { NOW } else { NOW - SECOND },
                    last_status_code: (number > 0).then_some(500 + number),
                    last_error: (status == "dead").then(|| "no".to_owned()),
                    last_response: (number > 0).then(|| "said".to_owned()),
                    created_at: NOW - SECOND * 2,
                    delivered_at: (status == "delivered").then_some(NOW),
                };
                assert_eq!(deliveries::find(conn, endpoint.tenant_id, id).await?, Some(expected.clone()));
                let listed = deliveries::list(conn, endpoint.tenant_id, None, Some(status), 10).await?;
                assert_eq!(listed, [expected]);
            }
            // What waited is due, what was under way is held by the same lease, and both are sent.
            let lease = Lease { token, until: NOW + SECOND };
            let due = queue::take(conn, endpoint.endpoint_id, NOW, 10, lease).await?;
            assert_eq!(
                due.iter().map(|due| (due.delivery_id.as_u128(), due.payload_bytes)).collect::<Vec<_>>(),
                [(0, 9)]
            );
            assert!(queue::is_current(conn, held(&endpoint, 1, token), NOW).await?);
            let due = queue::take(conn, endpoint.endpoint_id, NOW + SECOND, 10, lease).await?;
            assert_eq!(due.len(), 2);
            assert_eq!(queue::contents(conn, &ids(&endpoint, &due)).await?.len(), 2);
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;
}

/// SQLite is free to read all of the queue and look each row up among the values; with a long backlog that is fatal.
#[test]
fn taking_and_settling_many_does_not_read_all() {
    const BY_KEY: &str = "SEARCH webhook_queue USING PRIMARY KEY (tenant_id=? AND endpoint_id=? AND status=? AND delivery_id=?)";
    const BY_TIME: &str = "SEARCH webhook_queue USING INDEX webhook_queue_due (endpoint_id=? AND due_at<?)";
    play(Backend::Sqlite, async |database: &TestDatabase| {
        let Database::Sqlite { readers, .. } = migrated(database).await else { panic!("not SQLite") };
        let steps = async |text: String| {
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}")))
                    .fetch_all(&readers)
                    .await
                    .unwrap();
            plan.into_iter().map(|step| step.3).collect::<Vec<_>>()
        };
        let taking = steps(queue::TAKE.replace(" = given.", " = +given.")).await;
        for searched in [BY_KEY, BY_TIME] {
            assert!(taking.iter().any(|step| step.starts_with(searched)), "{taking:?}");
        }
        // What is due is found in the order of the index by both, and so it is the same.
        let finding = steps(queue::PACKED_DUE.to_owned()).await;
        assert!(finding.iter().any(|step| step.starts_with(BY_TIME)), "{finding:?}");
        assert!(!taking.iter().any(|step| step.contains("TEMP B-TREE")), "{taking:?}");
        let dropping = deliveries::drop_text(Backend::Sqlite, "webhook_queue");
        let texts = [
            ("tenant, endpoint, status, delivery", dropping.as_str()),
            ("tenant, endpoint, in_hand, delivery, token", queue::RELEASE),
            ("tenant, endpoint, delivery, token", queue::REMOVE),
            (
                "tenant, endpoint, outcome, in_hand, delivery, token, tried, ended_at, status_code, error, response",
                queue::end_text(Backend::Sqlite),
            ),
            (
                "tenant, endpoint, in_hand, delivery, token, attempts, run_after, status_code, error, response",
                queue::PUT_BACK,
            ),
        ];
        for (columns, text) in texts {
            for rows in [1, 4, 16, 64, 256, 512] {
                let width = columns.split(',').count();
                let values = vec![format!("({})", vec!["?"; width].join(", ")); rows].join(", ");
                let text = text.replace("given JOIN", "given CROSS JOIN").replace(" = given.", " = +given.");
                let settling = steps(format!("WITH given ({columns}) AS (VALUES {values}) {text}")).await;
                assert!(settling.iter().any(|step| step.starts_with(BY_KEY)), "{rows}: {settling:?}");
            }
        }
    });
}

/// PostgreSQL keeps the plan that it made while the queue was empty; it must not be one that looks at all that is in hand.
#[test]
fn postgres_settles_many_by_their_keys_from_the_start() {
    play(Backend::Postgres, async |database: &TestDatabase| {
        let Database::Postgres(pool) = migrated(database).await else { panic!("not PostgreSQL") };
        let key = "tenant, endpoint, in_hand, delivery, token";
        let dropping = deliveries::drop_text(Backend::Postgres, "webhook_queue");
        let texts = [
            ("tenant, endpoint, status, delivery".to_owned(), "uuid, uuid, text, uuid", dropping.as_str()),
            (key.to_owned(), "uuid, uuid, text, uuid, uuid", queue::RELEASE),
            (
                format!("{key}, attempts, run_after, status_code, error, response"),
                "uuid, uuid, text, uuid, uuid, bigint, timestamptz, bigint, text, text",
                queue::PUT_BACK,
            ),
            (
                format!("{key}, outcome, tried, ended_at, status_code, error, response"),
                "uuid, uuid, text, uuid, uuid, text, bigint, timestamptz, bigint, text, text",
                queue::end_text(Backend::Postgres),
            ),
        ];
        for (columns, kinds, text) in texts {
            let arrays: Vec<String> =
                kinds.split(", ").map(|kind| format!("array_fill(NULL::{kind}, ARRAY[10])")).collect();
            let given = format!("WITH given ({columns}) AS (SELECT * FROM UNNEST({}))", arrays.join(", "));
            let plan: Vec<(String,)> = sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN {given} {text}")))
                .fetch_all(&pool)
                .await
                .unwrap();
            let plan: Vec<String> = plan.into_iter().map(|line| line.0).collect();
            let is_by_key = |line: &String| {
                let columns = ["tenant_id", "endpoint_id", "status", "delivery_id"];
                line.contains("Index Cond") && columns.iter().all(|column| line.contains(column))
            };
            assert!(plan.iter().any(is_by_key), "{plan:#?}");
        }
    });
}
