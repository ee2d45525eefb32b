//! What recording returns about a new object.

use std::time::Duration;

use model::api::{EventRetention, EventType};
use model::{NewEvent, TenantId, Timestamp};
use store::analysis::history;
use store::analysis::history::{HistoryRequest, ObjectHistory};
use store::analysis::storage;
use store::analysis::verdict_slots::VerdictSlot;
use store::objects::recorder;
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::{IdempotencyKey, IngestKind, IngestRequest, Recorded};
use store::{Conn, Store};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(
    a_new_object_is_returned_as_it_is_read,
    the_bytes_of_an_older_database_are_counted,
    a_repeat_in_the_same_batch_needs_no_room,
);

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

/// The histories of new objects that recording returns for requests of one batch.
async fn record(store: &Store, requests: &[IngestRequest]) -> Vec<Option<ObjectHistory>> {
    let recorded = store.write("record", async |conn: &mut Conn| {
        recorder::record(conn, requests, Admission::by_balance(Enforcement::Grace), 0).await
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

/// A database of the version that did not count them yet.
async fn the_bytes_of_an_older_database_are_counted(database: &TestDatabase) {
    let other = TenantId(Uuid::from_u128(2));
    let old = Store::open_at(database.url(), 12).await.unwrap();
    old.write("fill", async |conn: &mut Conn| {
        for (tenant, seq, content, metadata) in
            [(TENANT, 1_i64, Some("grün"), Some("{}")), (TENANT, 2, None, Some("{\"ü\":1}")), (other, 1, None, None)]
        {
            execute!(
                conn,
                "INSERT INTO events (tenant_id, object_id, seq, type, content, metadata, occurred_at, received_at)
                 VALUES ($1, 'one', $2, 'message', $3, $4, $5, $5)",
                tenant,
                seq,
                content,
                metadata,
                NOW
            )?;
        }
        Ok::<_, store::Error>(())
    })
    .await
    .unwrap();
    old.close().await;
    let store = database.open().await;
    for (tenant, expected) in [(TENANT, 5 + 2 + 8), (other, 0)] {
        let counted = store.read("storage", async |conn: &mut Conn| {
            Ok::<_, store::Error>((
                storage::stored(conn, tenant).await?,
                storage::measured(conn, tenant).await?,
            ))
        });
        assert_eq!(counted.await.unwrap(), (expected, expected));
    }
    store.close().await;
}

async fn a_repeat_in_the_same_batch_needs_no_room(database: &TestDatabase) {
    let store = database.open().await;
    let request = |key: &str| IngestRequest {
        idempotency: Some(IdempotencyKey {
            key: key.to_owned(),
            kind: IngestKind::Async,
            expires_at: NOW + Duration::from_hours(24),
        }),
        verdict_slot: None,
        ..awaited("user_1", 1)
    };
    let requests = [request("first"), request("first"), request("second")];
    let admission =
        Admission { enforcement: Enforcement::Grace, storage_quota: Some(requests[0].stored_bytes()) };
    let recorded = store
        .write("record", async |conn: &mut Conn| recorder::record(conn, &requests, admission, 0).await)
        .await
        .unwrap();
    assert!(matches!(recorded[0], Recorded::New { .. }), "{recorded:?}");
    assert!(matches!(recorded[1], Recorded::Replayed { accepted: 2 }), "{recorded:?}");
    assert!(matches!(recorded[2], Recorded::QuotaExceeded), "{recorded:?}");
    store.close().await;
}
