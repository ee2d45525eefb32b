//! What recording says of an object, and how the rows of a single object are found.

use std::time::Duration;

use model::api::{EventRetention, EventType};
use model::{NewEvent, TenantId, Timestamp};
use store::analysis::concluder::LockedObjects;
use store::analysis::history;
use store::analysis::history::{HistoryRequest, ObjectHistory};
use store::analysis::verdict_slots;
use store::analysis::verdict_slots::VerdictSlot;
use store::objects::recorder;
use store::objects::recorder::Enforcement;
use store::objects::request::{IngestRequest, Recorded};
use store::{Conn, Database, Store};
use testkit::{Backend, TestDatabase, on_both, run_on};
use uuid::Uuid;

use crate::migrated;

on_both!(a_new_object_is_returned_as_it_is_read);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const NOW: Timestamp = Timestamp::from_micros(1_784_000_000_123_456);

fn event(kind: EventType, name: Option<&str>, content: Option<&str>, metadata: Option<&str>) -> NewEvent {
    NewEvent {
        kind,
        name: name.map(str::to_owned),
        content: content.map(str::to_owned),
        metadata: metadata.map(str::to_owned),
        occurred_at: NOW,
    }
}

/// A request of a caller who waits.
fn awaited(object_id: &str, slot: u128) -> IngestRequest {
    IngestRequest {
        tenant: TENANT,
        object_id: object_id.to_owned(),
        object_type: Some("listing".to_owned()),
        display_name: Some("Blue bicycle".to_owned()),
        events: vec![
            event(EventType::Event, Some("made"), None, Some(r#"{"price": 7,  "a": [1]}"#)),
            event(EventType::Message, None, Some("Is it still for sale? ü"), None),
        ],
        idempotency: None,
        schedule: None,
        verdict_slot: Some(VerdictSlot {
            tenant: TENANT,
            slot_id: Uuid::from_u128(slot),
            now: NOW,
            until: NOW + Duration::from_secs(30),
            limit: 8,
        }),
        received_at: NOW,
        traceparent: None,
    }
}

/// What is known of the object after each of the requests, which are recorded together.
async fn record(store: &Store, requests: &[IngestRequest]) -> Vec<Option<ObjectHistory>> {
    let recorded = store.write("record", async |conn: &mut Conn| {
        recorder::record(conn, requests, Enforcement::Grace, 0).await
    });
    let histories = recorded.await.unwrap().into_iter().map(|recorded| match recorded {
        Recorded::New { new_object, has_slot: true, .. } => new_object.map(|history| *history),
        other => panic!("{other:?}"),
    });
    histories.collect()
}

async fn read(store: &Store, object_id: &str) -> ObjectHistory {
    let requests = [HistoryRequest { tenant: TENANT, object_id, through: Some(2) }];
    let read = store.read("history", async |conn: &mut Conn| history::read(conn, &requests, 100).await);
    read.await.unwrap().remove(&(TENANT, object_id.to_owned())).unwrap()
}

async fn a_new_object_is_returned_as_it_is_read(database: &TestDatabase) {
    let store = database.open().await;
    for retention in [EventRetention::Forever, EventRetention::AfterAnalysis] {
        let (one, two) = (format!("one {}", retention.as_str()), format!("two {}", retention.as_str()));
        let tenant = store.write("tenant", async |conn: &mut Conn| {
            execute!(conn, "DELETE FROM tenants WHERE tenant_id = $1", TENANT)?;
            execute!(
                conn,
                "INSERT INTO tenants (tenant_id, name, event_retention, created_at) VALUES ($1, 'Test', $2, $3)",
                TENANT,
                retention,
                NOW
            )
        });
        tenant.await.unwrap();
        let lease = if retention == EventRetention::Forever { 10 } else { 20 };
        let begun = record(&store, &[awaited(&one, lease)]).await;
        assert_eq!(begun, [Some(read(&store, &one).await)], "{retention:?}");
        assert_eq!(begun[0].as_ref().unwrap().retention, retention);
        // It has begun before, or with another request beside.
        assert_eq!(record(&store, &[awaited(&one, lease + 1)]).await, [None]);
        assert_eq!(record(&store, &[awaited(&two, lease + 2), awaited(&two, lease + 3)]).await, [None, None]);
    }
    store.close().await;
}

/// PostgreSQL keeps the plan that it made while tables were empty: that of a statement over one object must lead to its rows
/// by their keys, however many come to lie beside them.
#[test]
fn postgres_finds_one_object_by_its_key_from_the_start() {
    run_on(Backend::Postgres, async |database: &TestDatabase| {
        let Database::Postgres(pool) = migrated(database).await else { panic!("not PostgreSQL") };
        pool.close().await;
        let store = database.open().await;
        let plans = store.write("plans", async |conn: &mut Conn| {
            history::read(conn, &[HistoryRequest { tenant: TENANT, object_id: "one", through: None }], 100)
                .await?;
            LockedObjects::lock(conn, &[(TENANT, "one")]).await?;
            let mut batch = conn.batch();
            verdict_slots::release_all(&mut batch, &[(TENANT, Uuid::nil())]);
            batch.run(conn).await?;
            let statements: Vec<(String, i32)> = fetch_all!(
                conn,
                "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements
                 WHERE statement LIKE '%WITH given % NOT MATERIALIZED%'
                   AND statement NOT LIKE '%pg_prepared_statements%'"
            )?;
            execute!(conn, "SET LOCAL plan_cache_mode = force_generic_plan")?;
            let mut plans = Vec::new();
            for (name, parameters) in statements {
                let values = vec!["NULL"; usize::try_from(parameters).unwrap()].join(", ");
                let explain = sqlx::AssertSqlSafe(format!("EXPLAIN (COSTS OFF) EXECUTE {name} ({values})"));
                let Conn::Postgres(lent) = &mut *conn else { panic!("not PostgreSQL") };
                let plan: Vec<(String,)> = sqlx::query_as(explain).fetch_all(lent.native()).await?;
                plans.push(plan.into_iter().map(|(line,)| line).collect::<Vec<_>>().join("\n"));
            }
            Ok::<_, store::Error>(plans)
        });
        let plans = plans.await.unwrap();
        assert_eq!(plans.len(), 4, "{plans:?}");
        for plan in plans {
            assert!(plan.contains("Index Cond: ((tenant_id = $1) AND ("), "{plan}");
            let is_read_and_thrown_away = |line: &&str| {
                line.contains("Filter:") && (line.contains("object_id") || line.contains("lease_id"))
            };
            assert_eq!(plan.lines().find(is_read_and_thrown_away), None, "{plan}");
            assert!(!plan.contains("Seq Scan"), "{plan}");
        }
        store.close().await;
    });
}
