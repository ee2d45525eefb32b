//! Recording: the events of many requests in one transaction, with their objects, jobs, idempotency keys and counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::api::EventRetention;
use model::{HistoryEvent, NewEvent, TenantId, Timestamp};

use crate::analysis::history::ObjectHistory;
use crate::analysis::jobs;
use crate::analysis::jobs::{BornLeased, Leasing, NewLiveJob};
use crate::analysis::storage::{self, StorageChanges};
use crate::analysis::tallies::{ObjectCounts, ObjectDays, ObjectTallies};
use crate::analysis::verdict_slots;
use crate::analysis::verdict_slots::VerdictSlot;
use crate::billing::balance;
use crate::db::{Batch, Conn, Result, Rows, bigint, execute, fetch_one};
use crate::objects::event_counters;
use crate::objects::grams;
use crate::objects::grams::SearchText;
use crate::objects::idempotency::{find_repeat, settle_keys, settle_within_batch};
use crate::objects::request::{IngestRequest, Recorded};
use crate::objects::time_spans::{hour_of, minute_of};

/// The type of an object whose request names none.
pub const DEFAULT_OBJECT_TYPE: &str = "object";
/// Rows that a hot counter is spread over: a writer picks one.
pub const SHARDS: u8 = 8;

/// Which balances refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Those of zero or less.
    Block,
    /// None.
    Grace,
}

/// What requests are checked against before they are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// Which balances refuse a request.
    pub enforcement: Enforcement,
    /// The bytes of contents and metadata that a tenant may store, if they are limited.
    pub storage_quota: Option<i64>,
}

impl Admission {
    /// Checks against the balance alone.
    pub fn by_balance(enforcement: Enforcement) -> Self {
        Self { enforcement, storage_quota: None }
    }
}

/// Records requests in order, all of them or none, and returns the outcome of each.
pub async fn record(
    conn: &mut Conn,
    requests: &[IngestRequest],
    admission: Admission,
    shard: i64,
) -> Result<Vec<Recorded>> {
    Ok(record_and_lease(conn, requests, admission, shard, None).await?.0)
}

/// Records requests as [`record`] does, and also returns the jobs that were born leased.
pub async fn record_and_lease(
    conn: &mut Conn,
    requests: &[IngestRequest],
    admission: Admission,
    shard: i64,
    leasing: Option<Leasing>,
) -> Result<(Vec<Recorded>, Vec<BornLeased>)> {
    let mut outcomes = refuse_unpaid(conn, requests, admission.enforcement).await?;
    if let Some(quota) = admission.storage_quota {
        refuse_beyond_quota(conn, requests, quota, &mut outcomes).await?;
    }
    settle_keys(conn, requests, &mut outcomes).await?;
    let accepted: Vec<(usize, &IngestRequest)> =
        requests.iter().enumerate().filter(|(index, _)| outcomes[*index].is_none()).collect();
    let fresh: Vec<&IngestRequest> = accepted.iter().map(|(_, request)| *request).collect();

    let requested: Vec<&VerdictSlot> =
        fresh.iter().filter_map(|request| request.verdict_slot.as_ref()).collect();
    verdict_slots::lock(conn, &requested).await?;
    let (touched, written) = upsert_objects(conn, &fresh).await?;
    let mut batch = conn.batch();
    count_objects(conn, &mut batch, &touched, &written, shard).await?;
    index_texts(&mut batch, &touched, &written);
    let in_flight = written.iter().map(|object| (object.tenant_id, object.in_flight)).collect();
    let slots = verdict_slots::take(&mut batch, &requested, in_flight);
    let last_seqs = insert_events(&mut batch, &fresh, &written);
    count_events(&mut batch, &fresh, shard);
    event_counters::count(&mut batch, &fresh, &last_seqs);
    let leased = schedule(&mut batch, &fresh, leasing);
    let mut storage = StorageChanges::default();
    for request in &fresh {
        storage.add(request.tenant, request.stored_bytes());
    }
    storage.write(&mut batch, shard);
    batch.run(conn).await?;

    let objects: HashMap<(TenantId, &str), &WrittenObject> =
        written.iter().map(|object| (object.key(), object)).collect();
    for ((index, request), last_seq) in accepted.into_iter().zip(last_seqs) {
        let has_slot = request.verdict_slot.as_ref().is_some_and(|slot| slots.contains(&slot.slot_id));
        let object = objects.get(&(request.tenant, request.object_id.as_str())).filter(|_| has_slot);
        let new_object = object.and_then(|object| object.history_of_new(request)).map(Box::new);
        outcomes[index] = Some(Recorded::New { last_seq, has_slot, new_object });
    }
    settle_within_batch(requests, &mut outcomes);
    Ok((outcomes.into_iter().map(|outcome| outcome.unwrap_or(Recorded::Conflict)).collect(), leased))
}

/// Refuses the requests of tenants without balance; a repeat of an earlier request is answered as before.
async fn refuse_unpaid(
    conn: &mut Conn,
    requests: &[IngestRequest],
    enforcement: Enforcement,
) -> Result<Vec<Option<Recorded>>> {
    let unpaid = match enforcement {
        Enforcement::Grace => HashSet::new(),
        Enforcement::Block => {
            let tenants = requests.iter().map(|request| request.tenant).collect();
            balance::empty_balances(conn, &tenants).await?
        }
    };
    let mut outcomes = Vec::with_capacity(requests.len());
    for request in requests {
        outcomes.push(if unpaid.contains(&request.tenant) {
            Some(find_repeat(conn, request).await?.unwrap_or(Recorded::PaymentRequired))
        } else {
            None
        });
    }
    Ok(outcomes)
}

/// Refuses requests that would store more than a tenant may; a repeat of an earlier request is answered as before.
async fn refuse_beyond_quota(
    conn: &mut Conn,
    requests: &[IngestRequest],
    quota: i64,
    outcomes: &mut [Option<Recorded>],
) -> Result<()> {
    let tenants = requests.iter().map(|request| request.tenant).collect();
    let mut stored = storage::stored_by(conn, &tenants).await?;
    let mut keys = HashSet::new();
    for (request, outcome) in requests.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_none()) {
        let key = request.idempotency.as_ref().map(|idempotency| (request.tenant, &idempotency.key));
        if key.is_some_and(|key| keys.contains(&key)) {
            // A repeat of one that fits stores nothing.
            continue;
        }
        let stored = stored.entry(request.tenant).or_default();
        let bytes = request.stored_bytes();
        if *stored + bytes <= quota {
            *stored += bytes;
            keys.extend(key);
        } else {
            *outcome = Some(find_repeat(conn, request).await?.unwrap_or(Recorded::QuotaExceeded));
        }
    }
    Ok(())
}

/// An object of a batch, with everything that the requests say about it.
struct TouchedObject<'a> {
    key: (TenantId, &'a str),
    object_type: Option<&'a str>,
    display_name: Option<&'a str>,
    events: i64,
    received_at: Timestamp,
}

/// Touched objects by key; the order of keys is the order in which rows are locked, to avoid deadlocks.
type TouchedObjects<'a> = BTreeMap<(TenantId, &'a str), TouchedObject<'a>>;

/// An object after the requests of the batch.
#[derive(sqlx::FromRow)]
struct WrittenObject {
    tenant_id: TenantId,
    object_id: String,
    object_type: String,
    counted_type: String,
    event_count: i64,
    renamed: bool,
    /// How many verdicts its tenant has in flight, if a request needs to know.
    in_flight: i64,
    /// How long its tenant keeps events, if a request needs to know.
    retention: Option<EventRetention>,
}

impl WrittenObject {
    fn key(&self) -> (TenantId, &str) {
        (self.tenant_id, &self.object_id)
    }

    /// All of its history, if this request created it.
    fn history_of_new(&self, request: &IngestRequest) -> Option<ObjectHistory> {
        let through = bigint(request.events.len());
        let retention = self.retention.filter(|_| self.event_count == through)?;
        let event = |(event, seq)| HistoryEvent::of(event, seq, request.received_at);
        Some(ObjectHistory {
            object_type: self.object_type.clone(),
            display_name: request.display_name.clone(),
            first_seen: request.received_at,
            retention,
            queued_version: None,
            queued_lease: None,
            summary: None,
            through,
            events: Some(request.events.iter().zip(1..).map(event).collect()),
        })
    }

    /// Whether it has no other events than those of this batch.
    fn is_new(&self, touched: &TouchedObjects<'_>) -> bool {
        touched.get(&self.key()).is_some_and(|object| object.events == self.event_count)
    }
}

/// How an object is merged into the one that is there, and what is returned. Callers who wait need the number of verdicts
/// in flight and the retention: reading them separately would cost another round trip.
macro_rules! upsert {
    ($in_flight:literal, $retention:literal) => {
        concat!(
            "ON CONFLICT (tenant_id, object_id) DO UPDATE SET
                 event_count = objects.event_count + excluded.event_count,
                 last_seen = CASE WHEN excluded.last_seen > objects.last_seen THEN excluded.last_seen
                                  ELSE objects.last_seen END,
                 display_name = coalesce(excluded.display_name, objects.display_name),
                 renamed = excluded.display_name IS NOT NULL
                       AND excluded.display_name IS DISTINCT FROM objects.display_name,
                 object_type = CASE WHEN excluded.object_type = 'object' THEN objects.object_type
                                    ELSE excluded.object_type END
             RETURNING tenant_id, object_id, object_type, counted_type, event_count, renamed, ",
            $in_flight,
            " AS in_flight, ",
            $retention,
            " AS retention"
        )
    };
}
const UPSERT: &str = upsert!("CAST(0 AS bigint)", "CAST(NULL AS text)");
const UPSERT_FOR_VERDICTS: &str = upsert!(
    "(SELECT count(*) FROM sync_leases AS slots
      WHERE slots.tenant_id = objects.tenant_id AND slots.expires_at > objects.last_seen)",
    "(SELECT event_retention FROM tenants WHERE tenants.tenant_id = objects.tenant_id)"
);

/// Creates or updates the objects of requests; returns what the requests say about them, and what they are now.
async fn upsert_objects<'a>(
    conn: &mut Conn,
    fresh: &[&'a IngestRequest],
) -> Result<(TouchedObjects<'a>, Vec<WrittenObject>)> {
    let touched = touched_objects(fresh);
    let rows: Vec<&TouchedObject<'_>> = touched.values().collect();
    let has_verdicts = fresh.iter().any(|request| request.verdict_slot.is_some());
    let upsert = if has_verdicts && !conn.is_sharded() { UPSERT_FOR_VERDICTS } else { UPSERT };
    let mut written = Rows::of(&rows)
        .column("tenant_id", |row| row.key.0)
        .column("object_id", |row| row.key.1)
        .column("object_type", |row| row.object_type.unwrap_or(DEFAULT_OBJECT_TYPE))
        .column("counted_type", |row| row.object_type.unwrap_or(DEFAULT_OBJECT_TYPE))
        .column("display_name", |row| row.display_name)
        .column("event_count", |row| row.events)
        .column("first_seen", |row| row.received_at)
        .column("last_seen", |row| row.received_at)
        .insert("objects", upsert)
        .fetch::<WrittenObject>(conn)
        .await?;
    if has_verdicts && conn.is_sharded() {
        add_verdicts_in_flight(conn, &mut written).await?;
    }
    for (row, given) in rows.iter().filter_map(|row| Some((row, row.object_type?))) {
        // The one type that the statement above cannot tell from a type that was left out.
        if given == DEFAULT_OBJECT_TYPE {
            execute!(
                conn,
                "UPDATE objects SET object_type = $3 WHERE tenant_id = $1 AND object_id = $2",
                row.key.0,
                row.key.1,
                given
            )?;
            for object in &mut written {
                if object.key() == row.key {
                    given.clone_into(&mut object.object_type);
                }
            }
        }
    }
    Ok((touched, written))
}

/// Adds what [`UPSERT_FOR_VERDICTS`] returns beside each object: no statement inserts over several shards and reads another table
/// for what it returns.
async fn add_verdicts_in_flight(conn: &mut Conn, written: &mut [WrittenObject]) -> Result<()> {
    for object in written {
        let (in_flight, retention): (i64, EventRetention) = fetch_one!(
            conn,
            "SELECT (SELECT count(*) FROM sync_leases AS slots
                     WHERE slots.tenant_id = $1 AND slots.expires_at > objects.last_seen), event_retention
             FROM objects JOIN tenants ON tenants.tenant_id = objects.tenant_id
             WHERE objects.tenant_id = $1 AND object_id = $2",
            object.tenant_id,
            &object.object_id
        )?;
        object.in_flight = in_flight;
        object.retention = Some(retention);
    }
    Ok(())
}

fn touched_objects<'a>(fresh: &[&'a IngestRequest]) -> TouchedObjects<'a> {
    let mut touched: TouchedObjects<'_> = BTreeMap::new();
    for request in fresh {
        let key = (request.tenant, request.object_id.as_str());
        let object = touched.entry(key).or_insert(TouchedObject {
            key,
            object_type: None,
            display_name: None,
            events: 0,
            received_at: request.received_at,
        });
        object.object_type = request.object_type.as_deref().or(object.object_type);
        object.display_name = request.display_name.as_deref().or(object.display_name);
        object.events += bigint(request.events.len());
        object.received_at = object.received_at.max(request.received_at);
    }
    touched
}

/// Makes new objects searchable by id and name, and renamed ones by their new name.
fn index_texts(batch: &mut Batch, touched: &TouchedObjects<'_>, written: &[WrittenObject]) {
    let texts: Vec<SearchText<'_>> = written
        .iter()
        // The column is true by default, so this includes new objects.
        .filter(|object| object.renamed)
        .map(|object| SearchText {
            tenant: object.tenant_id,
            object_id: &object.object_id,
            // The name of a new object, or the one that it was renamed to.
            display_name: touched.get(&object.key()).and_then(|row| row.display_name),
            is_new: object.is_new(touched),
        })
        .collect();
    grams::index(batch, &texts);
}

/// Counts new objects, and moves objects whose type has changed from one count to the other.
async fn count_objects(
    conn: &mut Conn,
    batch: &mut Batch,
    touched: &TouchedObjects<'_>,
    written: &[WrittenObject],
    shard: i64,
) -> Result<()> {
    let (mut tallies, mut days) = (ObjectTallies::default(), ObjectDays::default());
    for object in written {
        let WrittenObject { tenant_id: tenant, object_id, object_type, counted_type, .. } = object;
        if let Some(new) = touched.get(&object.key()).filter(|_| object.is_new(touched)) {
            days.add_new(*tenant, new.received_at.date());
            tallies.add(*tenant, object_type, ObjectCounts { objects: 1, analyzed: 0, flagged: 0 });
        } else if object_type != counted_type {
            let (is_analyzed, is_flagged): (bool, bool) = fetch_one!(
                conn,
                "UPDATE objects SET counted_type = object_type WHERE tenant_id = $1 AND object_id = $2
                 RETURNING last_analyzed_at IS NOT NULL, risk >= 0.8",
                *tenant,
                object_id
            )?;
            let (analyzed, flagged) = (i64::from(is_analyzed), i64::from(is_flagged));
            tallies.add(*tenant, object_type, ObjectCounts { objects: 1, analyzed, flagged });
            let removed = ObjectCounts { objects: -1, analyzed: -analyzed, flagged: -flagged };
            tallies.add(*tenant, counted_type, removed);
        }
    }
    tallies.write(batch, shard);
    days.write(batch, shard);
    Ok(())
}

/// Inserts the events, and returns the sequence number of each request's last one.
fn insert_events(batch: &mut Batch, fresh: &[&IngestRequest], written: &[WrittenObject]) -> Vec<i64> {
    // How many events an object had before this batch, from how many it has now.
    let mut next: HashMap<(TenantId, &str), i64> =
        written.iter().map(|object| (object.key(), object.event_count)).collect();
    for request in fresh {
        if let Some(seq) = next.get_mut(&(request.tenant, request.object_id.as_str())) {
            *seq -= bigint(request.events.len());
        }
    }
    let mut rows: Vec<(&IngestRequest, &NewEvent, i64)> = Vec::new();
    let mut last_seqs = Vec::with_capacity(fresh.len());
    for request in fresh {
        let seq = next.entry((request.tenant, request.object_id.as_str())).or_default();
        for event in &request.events {
            *seq += 1;
            rows.push((request, event, *seq));
        }
        last_seqs.push(*seq);
    }
    batch.add(
        Rows::of(&rows)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id.as_str())
            .column("seq", |row| row.2)
            .column("type", |row| row.1.kind.as_str())
            .column("name", |row| row.1.name.as_deref())
            .column("content", |row| row.1.content.as_deref())
            .column("metadata", |row| row.1.metadata.as_deref())
            .column("occurred_at", |row| row.1.occurred_at)
            .column("received_at", |row| row.0.received_at)
            .insert("events", ""),
    );
    last_seqs
}

fn count_events(batch: &mut Batch, fresh: &[&IngestRequest], shard: i64) {
    let sums = |span: fn(Timestamp) -> Timestamp| {
        let mut sums: BTreeMap<(TenantId, Timestamp), i64> = BTreeMap::new();
        for request in fresh {
            *sums.entry((request.tenant, span(request.received_at))).or_default() +=
                bigint(request.events.len());
        }
        sums.into_iter().collect::<Vec<_>>()
    };
    batch.add(
        Rows::of(&sums(minute_of))
            .column("tenant_id", |row| row.0.0)
            .column("minute", |row| row.0.1)
            .column("shard", |_| shard)
            .column("events", |row| row.1)
            .insert(
                "event_tallies",
                "ON CONFLICT (tenant_id, minute, shard) DO UPDATE SET events = event_tallies.events + excluded.events",
            ),
    );
    batch.add(
        Rows::of(&sums(hour_of))
            .column("tenant_id", |row| row.0.0)
            .column("hour", |row| row.0.1)
            .column("shard", |_| shard)
            .column("events", |row| row.1)
            .insert(
                "hourly_event_tallies",
                "ON CONFLICT (tenant_id, hour, shard)
                 DO UPDATE SET events = hourly_event_tallies.events + excluded.events",
            ),
    );
}

/// Schedules an analysis of every object whose request asks for one.
fn schedule(batch: &mut Batch, fresh: &[&IngestRequest], leasing: Option<Leasing>) -> Vec<BornLeased> {
    let mut due: BTreeMap<(TenantId, &str), NewLiveJob<'_>> = BTreeMap::new();
    for request in fresh {
        if let Some(schedule) = request.schedule {
            let (tenant, object_id) = (request.tenant, request.object_id.as_str());
            let new = || NewLiveJob { tenant, object_id, schedule, traceparents: None, lease: None };
            let merged = due.entry((tenant, object_id)).or_insert_with(new);
            merged.schedule.run_at =
                merged.schedule.run_at.max(schedule.run_at).min(merged.schedule.deadline_at);
            merged.add_trace(request.traceparent.as_deref());
        }
    }
    let mut due: Vec<NewLiveJob<'_>> = due.into_values().collect();
    let mut leased = Vec::new();
    if let Some(Leasing { lease, due_by, most }) = leasing {
        // Tenants take turns: first one job of each, then a second one.
        let mut jobs_of: HashMap<TenantId, usize> = HashMap::new();
        let mut at_once: Vec<(usize, &mut NewLiveJob<'_>)> = Vec::new();
        for job in due.iter_mut().filter(|job| job.schedule.run_at <= due_by) {
            let turn = jobs_of.entry(job.tenant).or_default();
            at_once.push((*turn, job));
            *turn += 1;
        }
        at_once.sort_by_key(|(turn, _)| *turn);
        for (_, job) in at_once.into_iter().take(most) {
            job.lease = Some(lease);
            leased.push(job.born_leased());
        }
    }
    // The newest request of the group has just come.
    if let Some(now) = fresh.iter().map(|request| request.received_at).max() {
        jobs::schedule_live(batch, &due, now);
    }
    leased
}
