//! Events in a window are counted as a plain count would, whenever they arrive, and counters go with what they count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use model::api::EventType;
use model::condition::EventWindow;
use model::{NewEvent, TenantId, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use sqlx::{Connection as _, PgConnection};
use store::objects::event_counters::{self, FactRequest, RETENTION};
use store::objects::recorder::{Admission, Enforcement};
use store::objects::request::{IdempotencyKey, IngestKind, IngestRequest};
use store::objects::{deletion, events, recorder};
use store::{Backend, Conn, Store};
use testkit::{TestDatabase, on_both};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use uuid::Uuid;

on_both!(
    a_window_counts_what_a_plain_count_does,
    a_request_that_is_repeated_counts_once,
    counters_go_with_their_object_and_with_age,
    counting_is_flat_in_the_number_of_events,
);

const TENANT: TenantId = TenantId(Uuid::from_u128(1));
/// Twenty minutes past an hour.
const NOW: Timestamp = Timestamp::from_seconds(1_800_001_200);
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// Something that happened some seconds ago.
#[derive(Clone, Debug)]
struct Happened {
    ago: u64,
    name: Option<&'static str>,
}

impl Happened {
    fn at(&self) -> Timestamp {
        NOW - Duration::from_secs(self.ago)
    }
}

fn request(object_id: &str, events: &[Happened], key: Option<&str>) -> IngestRequest {
    let event = |happened: &Happened| NewEvent {
        kind: EventType::Event,
        name: happened.name.map(str::to_owned),
        content: None,
        metadata: None,
        occurred_at: happened.at(),
    };
    IngestRequest {
        tenant: TENANT,
        object_id: object_id.to_owned(),
        object_type: None,
        display_name: None,
        events: events.iter().map(event).collect(),
        idempotency: key.map(|key| IdempotencyKey {
            key: key.to_owned(),
            kind: IngestKind::Async,
            expires_at: NOW + Duration::from_hours(1),
        }),
        schedule: None,
        verdict_slot: None,
        received_at: NOW,
        traceparent: None,
    }
}

async fn record(store: &Store, requests: &[IngestRequest]) {
    let admission = Admission::by_balance(Enforcement::Grace);
    let record = async |conn: &mut Conn| recorder::record(conn, requests, admission, 0).await;
    store.write("record", record).await.unwrap();
}

/// The number of events in each window, as the analysis that read so many events counts them.
async fn counted(store: &Store, object_id: &str, read_seq: i64, windows: &[EventWindow]) -> Vec<i64> {
    let request = FactRequest { tenant: TENANT, object_id, read_seq };
    let windows: Vec<&EventWindow> = windows.iter().collect();
    let read = async |conn: &mut Conn| event_counters::facts(conn, &[request], &windows, NOW).await;
    let facts = store.read("facts", read).await.unwrap().pop().unwrap().unwrap();
    windows.iter().map(|window| facts.events[*window]).collect()
}

/// The events in a window among those that were read, and in the hours that the window touches.
fn plain_count(read: &[Happened], window: &EventWindow) -> (i64, i64) {
    let newest = read.iter().map(Happened::at).max().unwrap();
    let named = |happened: &&Happened| window.name.is_none() || window.name.as_deref() == happened.name;
    let start = newest - window.window;
    let first_hour = Timestamp::from_seconds(start.seconds() - start.seconds().rem_euclid(3_600));
    let inside = read.iter().filter(named).filter(|happened| happened.at() > start).count();
    let touched = read.iter().filter(named).filter(|happened| happened.at() >= first_hour).count();
    (i64::try_from(inside).unwrap(), i64::try_from(touched).unwrap())
}

fn any_events() -> impl Strategy<Value = Vec<Happened>> {
    // Around the edges of hours and windows, over months, and some that will happen.
    let near =
        (select(vec![0, 1_200, HOUR, 4_800, DAY, 7 * DAY, 30 * DAY, 121 * DAY, 125 * DAY]), -2_i64..=2)
            .prop_map(|(ago, distance): (u64, i64)| ago.saturating_add_signed(distance));
    let ago = prop_oneof![near, 0..2 * HOUR, 0..3 * DAY, 0..130 * DAY];
    let name = select(vec![Some("reported"), Some("Reported"), Some("é"), None]);
    vec((ago, name).prop_map(|(ago, name)| Happened { ago, name }), 1..40)
}

fn windows() -> Vec<EventWindow> {
    let seconds = [1, 90, 1_200, HOUR, HOUR + 1, 2 * HOUR, DAY, 7 * DAY, 30 * DAY];
    let names = [Some("reported"), Some("é"), Some("nothing"), None];
    let window = |(name, seconds): (Option<&str>, u64)| EventWindow {
        name: name.map(str::to_owned),
        window: Duration::from_secs(seconds),
    };
    names.into_iter().flat_map(|name| seconds.map(|seconds| (name, seconds))).map(window).collect()
}

async fn a_window_counts_what_a_plain_count_does(database: &TestDatabase) {
    let store = database.open().await;
    let windows = windows();
    let number = AtomicUsize::new(0);
    let trial = async |events: Vec<Happened>, cut: usize, read: usize, dropped: usize| {
        let object = format!("object-{}", number.fetch_add(1, Ordering::Relaxed));
        let (first, second) = events.split_at(cut % events.len());
        let requests: Vec<IngestRequest> = [first, second]
            .into_iter()
            .filter(|events| !events.is_empty())
            .map(|events| request(&object, events, None))
            .chain([request("neighbour", &events, None)])
            .collect();
        record(&store, &requests).await;
        let read = 1 + read % events.len();
        let read_seq = i64::try_from(read).unwrap();
        for (window, count) in windows.iter().zip(counted(&store, &object, read_seq, &windows).await) {
            let (inside, _) = plain_count(&events[..read], window);
            assert_eq!(count, inside, "{window} of {:?}", &events[..read]);
        }
        // Without the events, the whole of the oldest hour counts. The newest event stays, to count up to it.
        let newest =
            events.iter().zip(1_i64..).max_by_key(|(happened, seq)| (happened.at(), *seq)).unwrap().1;
        let through = i64::try_from(dropped % (events.len() + 1)).unwrap().min(newest - 1);
        let drop = async |conn: &mut Conn| events::drop_through(conn, TENANT, &object, through).await;
        store.write("drop", drop).await.unwrap();
        let all = i64::try_from(events.len()).unwrap();
        for (window, count) in windows.iter().zip(counted(&store, &object, all, &windows).await) {
            let (inside, touched) = plain_count(&events, window);
            let is_old = events[..usize::try_from(through).unwrap()].iter().any(|old| old.ago > 120 * DAY);
            assert!(count <= touched, "{window}: {count} of at most {touched}");
            assert!(count >= inside || is_old, "{window}: {count} of at least {inside}");
        }
    };
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let cases = (any_events(), 0_usize..40, 0_usize..40, 0_usize..40);
    let outcome = runner.run(&cases, |(events, cut, read, dropped)| {
        block_in_place(|| Handle::current().block_on(trial(events, cut, read, dropped)));
        Ok(())
    });
    outcome.unwrap();
}

/// All counters of an object: name, hours ago, total.
async fn counters(store: &Store, object_id: &str) -> BTreeMap<(String, u64), i64> {
    let read = async |conn: &mut Conn| {
        let rows: store::Result<Vec<(String, Timestamp, i64)>> = fetch_all!(
            conn,
            "SELECT name, hour, total FROM event_counters WHERE tenant_id = $1 AND object_id = $2",
            TENANT,
            object_id
        );
        rows
    };
    let rows = store.read("counters", read).await.unwrap();
    rows.into_iter().map(|(name, hour, total)| ((name, NOW.since(hour).as_secs() / HOUR), total)).collect()
}

async fn a_request_that_is_repeated_counts_once(database: &TestDatabase) {
    let store = database.open().await;
    let events = [Happened { ago: 0, name: Some("reported") }, Happened { ago: 60, name: None }];
    let once = request("object", &events, Some("key"));
    record(&store, &[once.clone(), once.clone()]).await;
    record(&store, std::slice::from_ref(&once)).await;
    let expected = BTreeMap::from([((String::new(), 0), 1), (("reported".to_owned(), 0), 1)]);
    assert_eq!(counters(&store, "object").await, expected);
    record(&store, &[request("object", &events[..1], None)]).await;
    assert_eq!(counters(&store, "object").await[&("reported".to_owned(), 0)], 2);
}

async fn counters_go_with_their_object_and_with_age(database: &TestDatabase) {
    let store = database.open().await;
    let events = [0, 5 * HOUR, 40 * DAY, 200 * DAY].map(|ago| Happened { ago, name: Some("seen") });
    record(&store, &[request("object", &events, None), request("other", &events, None)]).await;
    assert_eq!(counters(&store, "object").await.len(), 3, "none is written that would be swept at once");

    let in_a_while = NOW + RETENTION - Duration::from_secs(30 * DAY);
    let sweep = async |conn: &mut Conn| event_counters::sweep(conn, TENANT, in_a_while, 1).await;
    assert_eq!(store.write("sweep", sweep).await.unwrap(), 1);
    assert_eq!(store.write("sweep", sweep).await.unwrap(), 1);
    assert_eq!(store.write("sweep", sweep).await.unwrap(), 0);
    assert_eq!(counters(&store, "object").await.len(), 2);

    let delete = async |conn: &mut Conn| deletion::delete(conn, TENANT, "object", 0).await;
    assert!(store.write("delete", delete).await.unwrap());
    assert!(counters(&store, "object").await.is_empty());
    assert_eq!(counters(&store, "other").await.len(), 2);
}

/// What counting windows up to the newest of so many events costs: steps of SQLite's machine, or pages of PostgreSQL. All events
/// are in the same hours, but for a few in the oldest and in the newest one, and the object has many events that come after those
/// that are read.
async fn cost(store: &Store, object_id: &str, events: usize, read_seq: i64) -> u64 {
    let windows: Vec<EventWindow> = [Some("reported"), None]
        .into_iter()
        .flat_map(|name| {
            [DAY, 7 * DAY].map(|seconds| (name.map(str::to_owned), Duration::from_secs(seconds)))
        })
        .map(|(name, window)| EventWindow { name, window })
        .collect();
    let expected = counted(store, object_id, read_seq, &windows).await;
    assert!(expected[1] > i64::try_from(events).unwrap(), "{expected:?} of {events}");
    let request = FactRequest { tenant: TENANT, object_id, read_seq };
    let windows: Vec<&EventWindow> = windows.iter().collect();
    let read = async |conn: &mut Conn| {
        let meter = Meter::start(conn).await;
        event_counters::facts(conn, &[request], &windows, NOW).await?;
        Ok::<_, store::Error>(meter.stop(conn).await)
    };
    store.snapshot("metered", read).await.unwrap()
}

/// Counts what statements cost on a connection.
enum Meter {
    Steps(Arc<AtomicU64>),
    Pages(i64),
}

impl Meter {
    async fn start(conn: &mut Conn) -> Self {
        match conn {
            Conn::Sqlite(lent) => {
                let steps = Arc::new(AtomicU64::new(0));
                let counter = Arc::clone(&steps);
                let count = move || {
                    counter.fetch_add(1, Ordering::Relaxed);
                    true
                };
                lent.native().lock_handle().await.unwrap().set_progress_handler(1, count);
                Self::Steps(steps)
            }
            Conn::Postgres(_) => Self::Pages(pages(conn).await),
        }
    }

    async fn stop(self, conn: &mut Conn) -> u64 {
        match (self, conn) {
            (Self::Steps(steps), Conn::Sqlite(lent)) => {
                lent.native().lock_handle().await.unwrap().remove_progress_handler();
                steps.load(Ordering::Relaxed)
            }
            (Self::Pages(before), conn) => u64::try_from(pages(conn).await - before).unwrap(),
            _ => unreachable!("the same connection"),
        }
    }
}

/// The pages of events and counters that the present transaction has read on PostgreSQL.
async fn pages(conn: &mut Conn) -> i64 {
    let read: store::Result<Vec<(i64,)>> = fetch_all!(
        conn,
        "SELECT CAST(sum(pg_stat_get_xact_blocks_fetched(oid)) AS bigint) FROM pg_class
         WHERE relname IN ('events', 'events_pkey', 'events_listed', 'event_counters', 'event_counters_pkey')"
    );
    read.unwrap()[0].0
}

/// Packs rows that were changed often, and lie in a page each then: how many pages they are in says nothing of how many are read.
async fn pack(database: &TestDatabase) {
    if database.backend() == Backend::Postgres {
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        sqlx::raw_sql("VACUUM FULL events, event_counters").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }
}

async fn counting_is_flat_in_the_number_of_events(database: &TestDatabase) {
    let store = database.open().await;
    let mut costs = Vec::new();
    for (object_id, events) in [("small", 1_000), ("large", 20_000)] {
        // Four days of events in the middle of a week, in order, in the same hours however many they are, none of which is the hour
        // that a window begins in: that one's events are counted.
        let newest = 2 * HOUR + 60;
        let middle = (0..events).map(|number| {
            let hours_ago = 6 * 24 - number * 96 / events;
            Happened { ago: HOUR * u64::try_from(hours_ago).unwrap(), name: Some("reported") }
        });
        let few = |ago: u64| [Happened { ago, name: Some("reported") }, Happened { ago, name: None }];
        let oldest = few(newest + 7 * DAY - 60);
        let read: Vec<Happened> = oldest.into_iter().chain(middle).chain(few(newest)).collect();
        // The same number again, which a replay of this analysis must not read: they happened later.
        let later: Vec<Happened> = (0..events).map(|_| Happened { ago: 0, name: Some("reported") }).collect();
        for part in read.chunks(500).chain(later.chunks(500)) {
            record(&store, &[request(object_id, part, None)]).await;
        }
        pack(database).await;
        costs.push(cost(&store, object_id, events, i64::try_from(read.len()).unwrap()).await);
    }
    // An index of twenty times as many entries is a level deeper, and each lookup reads one page more.
    let factor = if database.backend() == Backend::Postgres { 3 } else { 2 };
    assert!(
        costs[1] <= factor * costs[0],
        "counting costs {} for 1,000 events and {} for 20,000",
        costs[0],
        costs[1]
    );
}
