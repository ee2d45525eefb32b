//! An object with much about it goes in steps, and with little about it at once.

use std::time::Duration;

use model::api::{AnalysisSource, EventType};
use model::recorded_answer::analysis_id;
use model::{NewEvent, TenantId, Timestamp};
use store::actions::webhooks::deliveries::{self, NewDelivery};
use store::analysis::answer_history::{self, NewAnalysis};
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::objects::{deletion, recorder};
use store::{Conn, Store};
use testkit::{TestDatabase, on_both};
use uuid::Uuid;

on_both!(much_goes_in_steps_and_little_at_once,);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const ENDPOINT: Uuid = Uuid::from_u128(7);
const TABLES: [&str; 5] =
    ["events", "answer_history", "event_counters", "webhook_deliveries", "webhook_queue"];

/// Events in different hours, as many analyses, and as many deliveries, with ids from `first` on.
async fn fill(store: &Store, object_id: &'static str, number: u64, first: u64) {
    let hours_ago = |hours: u64| NOW - Duration::from_hours(hours);
    let event = |hours: u64| NewEvent {
        kind: EventType::Event,
        name: Some("seen".to_owned()),
        content: None,
        metadata: None,
        occurred_at: hours_ago(hours),
    };
    let request = IngestRequest {
        tenant: TENANT,
        object_id: object_id.to_owned(),
        object_type: None,
        display_name: None,
        events: (0..number).map(event).collect(),
        idempotency: None,
        schedule: None,
        verdict_slot: None,
        received_at: NOW,
        traceparent: None,
    };
    let analysis = |hours: u64| NewAnalysis {
        tenant: TENANT,
        object_id,
        analysis_id: analysis_id(hours_ago(hours), hours.to_be_bytes()),
        at: hours_ago(hours),
        source: AnalysisSource::Async,
        model: "model",
        read_seq: 1,
        answers: "[]".to_owned(),
    };
    let delivery = |hours: u64| NewDelivery {
        tenant: TENANT,
        delivery_id: Uuid::from_u128(u128::from(first + hours)),
        endpoint_id: ENDPOINT,
        event_type: "analysis.completed",
        object_id: Some(object_id.to_owned()),
        payload: "{}".to_owned(),
        max_attempts: 6,
        run_after: NOW,
        created_at: hours_ago(hours),
        active_since: NOW,
        traceparent: None,
        lease: None,
    };
    let analyses: Vec<NewAnalysis<'_>> = (0..number).map(analysis).collect();
    let queued: Vec<NewDelivery> = (0..number).map(delivery).collect();
    let requests = [request];
    let fill = async |conn: &mut Conn| {
        recorder::record(conn, &requests, Admission::by_balance(Enforcement::Grace), 0).await?;
        let mut batch = conn.batch();
        answer_history::insert(&mut batch, &analyses);
        batch.run(conn).await?;
        deliveries::queue(conn, &queued).await
    };
    store.write("fill", fill).await.unwrap();
}

/// The number of rows in each of the tables, of all objects.
async fn rows(store: &Store) -> [i64; TABLES.len()] {
    let mut numbers = [0; TABLES.len()];
    for (number, table) in numbers.iter_mut().zip(TABLES) {
        let count = async |conn: &mut Conn| {
            let statement = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
            let counted: Vec<(i64,)> = fetch_all!(conn, statement)?;
            Ok::<_, store::Error>(counted[0].0)
        };
        *number = store.read("rows", count).await.unwrap();
    }
    numbers
}

async fn much_goes_in_steps_and_little_at_once(database: &TestDatabase) {
    const AT_ONCE: i64 = 4;
    let store = database.open().await;
    fill(&store, "much", 11, 100).await;
    fill(&store, "little", 4, 200).await;
    let step = async |object_id: &str| {
        let step = async |conn: &mut Conn| deletion::drop_some(conn, TENANT, object_id, AT_ONCE, 0).await;
        store.write("step", step).await.unwrap()
    };
    let mut before = rows(&store).await;
    assert_eq!(before, [15; TABLES.len()]);
    assert!(!step("little").await, "one transaction is enough");
    assert_eq!(rows(&store).await, before, "which has not begun");
    let mut steps = 0;
    while step("much").await {
        steps += 1;
        let after = rows(&store).await;
        let removed = before.iter().zip(after).map(|(before, after)| before - after);
        assert!(removed.clone().all(|removed| removed <= AT_ONCE + 1), "{before:?} to {after:?}");
        assert!(removed.sum::<i64>() > 0, "each step removes something");
        before = after;
    }
    assert_eq!(steps, 8, "two of each kind");
    assert!(before.iter().all(|left| *left <= 4 + AT_ONCE), "the rest fits into one: {before:?}");
    for object_id in ["much", "little"] {
        let delete = async |conn: &mut Conn| deletion::delete(conn, TENANT, object_id, 0).await;
        assert!(store.write("delete", delete).await.unwrap());
    }
    assert_eq!(rows(&store).await, [0; TABLES.len()]);
    assert!(!step("much").await, "of an object that is gone there is nothing to remove");
    store.close().await;
}
