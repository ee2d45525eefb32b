//! Recording: the events of many requests in one transaction, with their objects, jobs, keys and counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{DossierEvent, NewEvent, TenantId, Timestamp};

use crate::analysis::history::Told;
use crate::analysis::jobs;
use crate::analysis::jobs::Due;
use crate::analysis::verdict_slots;
use crate::analysis::verdict_slots::Place;
use crate::billing::balance;
use crate::db::bulk::insert_many;
use crate::db::connect::{execute, fetch_one};
use crate::db::notify as wakeups;
use crate::db::round::{Round, insert_later};
use crate::objects::grams;
use crate::objects::grams::Text;
use crate::objects::idempotency::{known_repeat, replay_within, settle_keys};
use crate::{Conn, Result};

/// The type of an object whose request names none.
pub const DEFAULT_OBJECT_TYPE: &str = "object";
/// Rows that a hot counter is spread over: a writer picks one.
pub const SHARDS: u8 = 8;

/// One request, ready to be recorded.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose it is.
    pub tenant: TenantId,
    /// What it is about.
    pub object_id: String,
    /// What the object is, when the request says so.
    pub object_type: Option<String>,
    /// What people call it, when the request says so.
    pub display_name: Option<String>,
    /// What happened.
    pub events: Vec<NewEvent>,
    /// The caller's idempotency key and how long it is remembered.
    pub idempotency: Option<Idempotency>,
    /// When to analyze; none when the caller waits for a verdict.
    pub schedule: Option<Schedule>,
    /// The place in flight that a caller who waits needs.
    pub place: Option<Place>,
    /// When it was received.
    pub received_at: Timestamp,
    /// The trace that its analysis belongs to.
    pub traceparent: Option<String>,
}

/// A caller's idempotency key.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The key.
    pub key: String,
    /// Whether the caller waits for a verdict.
    pub kind: IngestKind,
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

/// Whether the caller waits for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngestKind {
    /// The caller does not wait.
    Async,
    /// The caller does.
    Sync,
}

/// When an analysis is due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// After the object has been quiet.
    pub run_at: Timestamp,
    /// At the latest.
    pub deadline_at: Timestamp,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It was recorded; the object's newest event has this sequence number.
    New {
        /// The sequence number of the last event of the request.
        last_seq: i64,
        /// Whether it has the place in flight that it asked for.
        has_place: bool,
        /// The object, where it began with this request and the caller waits: there is nothing else to be read of it.
        begun: Option<Box<Told>>,
    },
    /// The key was seen before, for the same object and kind: nothing was recorded again.
    Replayed {
        /// How many events the first request recorded.
        accepted: i64,
    },
    /// The key belongs to a request that waited for a verdict, or waits now.
    Conflict,
    /// The key was used for another object.
    KeyReused,
    /// The tenant's balance is empty: nothing was recorded.
    PaymentRequired,
}

/// Which balances refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Those of zero or less.
    Block,
    /// None.
    Grace,
}

/// Records requests in order: all of them, or none if this fails. Says what became of each, and leaves a round that the
/// transaction ends with ([`Store::write_group`](crate::Store::write_group)).
pub async fn record(
    conn: &mut Conn,
    entries: &[Entry],
    enforcement: Enforcement,
    shard: i64,
) -> Result<(Vec<Recorded>, Round)> {
    let broke = empty_balances(conn, entries, enforcement).await?;
    let mut outcomes: Vec<Option<Recorded>> = Vec::with_capacity(entries.len());
    for entry in entries {
        outcomes.push(if broke.contains(&entry.tenant) {
            // What was recorded while there was money is told as before.
            Some(known_repeat(conn, entry).await?.unwrap_or(Recorded::PaymentRequired))
        } else {
            None
        });
    }
    settle_keys(conn, entries, &mut outcomes).await?;
    let fresh: Vec<usize> = (0..entries.len()).filter(|index| outcomes[*index].is_none()).collect();
    let mut round = conn.round();
    let waiting: Vec<&Place> = fresh.iter().filter_map(|index| entries[*index].place.as_ref()).collect();
    verdict_slots::lock(conn, &waiting).await?;
    let written = upsert_objects(conn, &mut round, entries, &fresh, shard).await?;
    let in_flight = written.iter().map(|object| (object.tenant_id, object.in_flight)).collect();
    let placed = verdict_slots::take(&mut round, &waiting, in_flight);
    let last_seqs = insert_events(&mut round, entries, &fresh, &written);
    let objects: HashMap<(TenantId, &str), &Written> =
        written.iter().map(|object| (object.key(), object)).collect();
    for (index, last_seq) in fresh.iter().zip(last_seqs) {
        let entry = &entries[*index];
        let has_place = entry.place.as_ref().is_some_and(|place| placed.contains(&place.lease));
        let object = objects.get(&(entry.tenant, entry.object_id.as_str())).filter(|_| has_place);
        let begun = object.and_then(|object| object.told(entry)).map(Box::new);
        outcomes[*index] = Some(Recorded::New { last_seq, has_place, begun });
    }
    count_events(&mut round, entries, &fresh, shard);
    schedule(&mut round, entries, &fresh);
    replay_within(entries, &mut outcomes);
    Ok((outcomes.into_iter().map(|outcome| outcome.unwrap_or(Recorded::Conflict)).collect(), round))
}

async fn empty_balances(
    conn: &mut Conn,
    entries: &[Entry],
    enforcement: Enforcement,
) -> Result<HashSet<TenantId>> {
    if enforcement == Enforcement::Grace {
        return Ok(HashSet::new());
    }
    balance::broke(conn, &entries.iter().map(|entry| entry.tenant).collect()).await
}

/// An object of a batch, with all that its requests say of it.
struct Touched<'a> {
    key: (TenantId, &'a str),
    object_type: Option<&'a str>,
    display_name: Option<&'a str>,
    events: i64,
    received_at: Timestamp,
}

/// An object as it is after that.
#[derive(sqlx::FromRow)]
struct Written {
    tenant_id: TenantId,
    object_id: String,
    object_type: String,
    counted_type: String,
    event_count: i64,
    renamed: bool,
    /// How many verdicts its tenant has in flight, where somebody wants to know.
    in_flight: i64,
    /// How long its tenant keeps events, where somebody wants to know.
    retention: Option<String>,
}

impl Written {
    fn key(&self) -> (TenantId, &str) {
        (self.tenant_id, &self.object_id)
    }

    /// All of its history, if it began with this request.
    fn told(&self, entry: &Entry) -> Option<Told> {
        let through = count(entry.events.len());
        let retention = self.retention.clone().filter(|_| self.event_count == through)?;
        let event = |(event, seq)| DossierEvent::of(event, seq, entry.received_at);
        Some(Told {
            object_type: self.object_type.clone(),
            display_name: entry.display_name.clone(),
            first_seen: entry.received_at,
            retention,
            queued: None,
            summary: None,
            through,
            events: Some(entry.events.iter().zip(1..).map(event).collect()),
        })
    }

    /// Whether it has no other events than those of this batch.
    fn is_new(&self, touched: &HashMap<(TenantId, &str), &Touched<'_>>) -> bool {
        touched.get(&self.key()).is_some_and(|row| row.events == self.event_count)
    }
}

/// What the objects of requests are like once they are made or updated. Verdicts need to know how many are in flight and how
/// long events are kept: asking for that by itself would cost another way to the database.
macro_rules! upsert {
    ($in_flight:literal, $retention:literal) => {
        concat!(
            "ON CONFLICT (tenant_id, object_id) DO UPDATE SET
             event_count = objects.event_count + excluded.event_count,
             last_seen = CASE WHEN excluded.last_seen > objects.last_seen THEN excluded.last_seen ELSE objects.last_seen END,
             display_name = coalesce(excluded.display_name, objects.display_name),
             renamed = excluded.display_name IS NOT NULL AND excluded.display_name IS DISTINCT FROM objects.display_name,
             object_type = CASE WHEN excluded.object_type = 'object' THEN objects.object_type ELSE excluded.object_type END
         RETURNING tenant_id, object_id, object_type, counted_type, event_count, renamed, ",
            $in_flight,
            " AS in_flight, ",
            $retention,
            " AS retention"
        )
    };
}
const UPSERT: &str = upsert!("CAST(0 AS bigint)", "CAST(NULL AS text)");
const UPSERT_AWAITED: &str = upsert!(
    "(SELECT count(*) FROM sync_leases AS taken
      WHERE taken.tenant_id = objects.tenant_id AND taken.expires_at > objects.last_seen)",
    "(SELECT event_retention FROM tenants WHERE tenants.tenant_id = objects.tenant_id)"
);

/// Makes or updates the objects, and returns what they are now.
async fn upsert_objects(
    conn: &mut Conn,
    round: &mut Round,
    entries: &[Entry],
    fresh: &[usize],
    shard: i64,
) -> Result<Vec<Written>> {
    // In order of key, so that two nodes that record for the same objects never wait for each other in a ring.
    let mut touched: BTreeMap<(TenantId, &str), Touched<'_>> = BTreeMap::new();
    for entry in fresh.iter().map(|index| &entries[*index]) {
        let key = (entry.tenant, entry.object_id.as_str());
        let object = touched.entry(key).or_insert(Touched {
            key,
            object_type: None,
            display_name: None,
            events: 0,
            received_at: entry.received_at,
        });
        object.object_type = entry.object_type.as_deref().or(object.object_type);
        object.display_name = entry.display_name.as_deref().or(object.display_name);
        object.events += count(entry.events.len());
        object.received_at = object.received_at.max(entry.received_at);
    }
    let rows: Vec<Touched<'_>> = touched.into_values().collect();
    let awaits = fresh.iter().any(|index| entries[*index].place.is_some());
    let text = if awaits { UPSERT_AWAITED } else { UPSERT };
    let mut written = insert_many!(
        Written;
        conn,
        &rows,
        "objects",
        [
            ("tenant_id", "uuid", |row| row.key.0),
            ("object_id", "text", |row| row.key.1),
            ("object_type", "text", |row| row.object_type.unwrap_or(DEFAULT_OBJECT_TYPE)),
            ("counted_type", "text", |row| row.object_type.unwrap_or(DEFAULT_OBJECT_TYPE)),
            ("display_name", "text", |row| row.display_name),
            ("event_count", "bigint", |row| row.events),
            ("first_seen", "timestamptz", |row| row.received_at),
            ("last_seen", "timestamptz", |row| row.received_at),
        ],
        text,
    );
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
    let touched: HashMap<(TenantId, &str), &Touched<'_>> = rows.iter().map(|row| (row.key, row)).collect();
    count_objects(conn, round, &touched, &written, shard).await?;
    list_grams(round, &touched, &written);
    Ok(written)
}

/// Has new objects found by their id and name, and renamed ones by their new name.
fn list_grams(round: &mut Round, touched: &HashMap<(TenantId, &str), &Touched<'_>>, written: &[Written]) {
    let texts: Vec<Text<'_>> = written
        .iter()
        .filter(|object| object.renamed)
        .map(|object| Text {
            tenant: object.tenant_id,
            object_id: &object.object_id,
            // The name that it has now: a new object's, or the one that it was renamed to.
            display_name: touched.get(&object.key()).and_then(|row| row.display_name),
            is_new: object.is_new(touched),
        })
        .collect();
    grams::put(round, &texts);
}

/// Counts new objects, and moves those whose type has changed, together with what else is counted of them.
async fn count_objects(
    conn: &mut Conn,
    round: &mut Round,
    touched: &HashMap<(TenantId, &str), &Touched<'_>>,
    written: &[Written],
    shard: i64,
) -> Result<()> {
    let mut tallies: BTreeMap<(TenantId, String), (i64, i64, i64)> = BTreeMap::new();
    for object in written {
        let Written { tenant_id: tenant, object_id, object_type, counted_type, .. } = object;
        if object.is_new(touched) {
            tallies.entry((*tenant, object_type.clone())).or_default().0 += 1;
        } else if object_type != counted_type {
            let (analyzed, flagged): (bool, bool) = fetch_one!(
                conn,
                "UPDATE objects SET counted_type = object_type WHERE tenant_id = $1 AND object_id = $2
                 RETURNING last_analyzed_at IS NOT NULL, risk >= 0.8",
                *tenant,
                object_id
            )?;
            let moved = (1, i64::from(analyzed), i64::from(flagged));
            let to = tallies.entry((*tenant, object_type.clone())).or_default();
            *to = (to.0 + moved.0, to.1 + moved.1, to.2 + moved.2);
            let from = tallies.entry((*tenant, counted_type.clone())).or_default();
            *from = (from.0 - moved.0, from.1 - moved.1, from.2 - moved.2);
        }
    }
    add_object_tallies(round, &tallies, shard);
    Ok(())
}

/// Adds to the counts of objects, of analyzed and of flagged ones, by tenant and type.
pub(crate) fn add_object_tallies(
    round: &mut Round,
    tallies: &BTreeMap<(TenantId, String), (i64, i64, i64)>,
    shard: i64,
) {
    let rows: Vec<_> = tallies.iter().filter(|(_, change)| **change != (0, 0, 0)).collect();
    insert_later!(
        round,
        &rows,
        "object_tallies",
        [
            ("tenant_id", "uuid", |row| row.0.0),
            ("object_type", "text", |row| row.0.1.as_str()),
            ("shard", "bigint", |_row| shard),
            ("objects", "bigint", |row| row.1.0),
            ("analyzed", "bigint", |row| row.1.1),
            ("flagged", "bigint", |row| row.1.2),
        ],
        "ON CONFLICT (tenant_id, object_type, shard) DO UPDATE SET objects = object_tallies.objects + excluded.objects,
             analyzed = object_tallies.analyzed + excluded.analyzed, flagged = object_tallies.flagged + excluded.flagged",
    );
}

/// Writes the events down, and returns the sequence number of each request's last one.
fn insert_events(round: &mut Round, entries: &[Entry], fresh: &[usize], written: &[Written]) -> Vec<i64> {
    // What an object had before this batch, from what it has now.
    let mut next: HashMap<(TenantId, &str), i64> =
        written.iter().map(|object| (object.key(), object.event_count)).collect();
    for entry in fresh.iter().map(|index| &entries[*index]) {
        if let Some(seq) = next.get_mut(&(entry.tenant, entry.object_id.as_str())) {
            *seq -= count(entry.events.len());
        }
    }
    let mut rows: Vec<(&Entry, &NewEvent, i64)> = Vec::new();
    let mut last_seqs = Vec::with_capacity(fresh.len());
    for entry in fresh.iter().map(|index| &entries[*index]) {
        let seq = next.entry((entry.tenant, entry.object_id.as_str())).or_default();
        for event in &entry.events {
            *seq += 1;
            rows.push((entry, event, *seq));
        }
        last_seqs.push(*seq);
    }
    insert_later!(
        round,
        &rows,
        "events",
        [
            ("tenant_id", "uuid", |row| row.0.tenant),
            ("object_id", "text", |row| row.0.object_id.as_str()),
            ("seq", "bigint", |row| row.2),
            ("type", "text", |row| row.1.kind.as_str()),
            ("name", "text", |row| row.1.name.as_deref()),
            ("content", "text", |row| row.1.content.as_deref()),
            ("metadata", "text", |row| row.1.metadata.as_deref()),
            ("occurred_at", "timestamptz", |row| row.1.occurred_at),
            ("received_at", "timestamptz", |row| row.0.received_at),
        ],
        "",
    );
    last_seqs
}

fn count_events(round: &mut Round, entries: &[Entry], fresh: &[usize], shard: i64) {
    let sums = |span: fn(Timestamp) -> Timestamp| {
        let mut sums: BTreeMap<(TenantId, Timestamp), i64> = BTreeMap::new();
        for entry in fresh.iter().map(|index| &entries[*index]) {
            *sums.entry((entry.tenant, span(entry.received_at))).or_default() += count(entry.events.len());
        }
        sums.into_iter().collect::<Vec<_>>()
    };
    insert_later!(
        round,
        &sums(minute_of),
        "event_tallies",
        [
            ("tenant_id", "uuid", |row| row.0.0),
            ("minute", "timestamptz", |row| row.0.1),
            ("shard", "bigint", |_row| shard),
            ("events", "bigint", |row| row.1),
        ],
        "ON CONFLICT (tenant_id, minute, shard) DO UPDATE SET events = event_tallies.events + excluded.events",
    );
    insert_later!(
        round,
        &sums(hour_of),
        "hourly_event_tallies",
        [
            ("tenant_id", "uuid", |row| row.0.0),
            ("hour", "timestamptz", |row| row.0.1),
            ("shard", "bigint", |_row| shard),
            ("events", "bigint", |row| row.1),
        ],
        "ON CONFLICT (tenant_id, hour, shard) DO UPDATE SET events = hourly_event_tallies.events + excluded.events",
    );
}

/// The minute that an instant falls into.
pub fn minute_of(instant: Timestamp) -> Timestamp {
    start_of(instant, 60)
}

/// The hour that an instant falls into.
pub fn hour_of(instant: Timestamp) -> Timestamp {
    start_of(instant, 3_600)
}

fn start_of(instant: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_seconds(instant.seconds() - instant.seconds().rem_euclid(seconds))
}

fn schedule(round: &mut Round, entries: &[Entry], fresh: &[usize]) {
    let mut due: BTreeMap<(TenantId, &str), Due<'_>> = BTreeMap::new();
    for entry in fresh.iter().map(|index| &entries[*index]) {
        if let Some(schedule) = entry.schedule {
            let (tenant, object_id) = (entry.tenant, entry.object_id.as_str());
            let new = || Due { tenant, object_id, schedule, traceparents: None };
            let merged = due.entry((tenant, object_id)).or_insert_with(new);
            merged.schedule.run_at =
                merged.schedule.run_at.max(schedule.run_at).min(merged.schedule.deadline_at);
            merged.trace(entry.traceparent.as_deref());
        }
    }
    if !due.is_empty() {
        let rows: Vec<_> = due.into_values().collect();
        jobs::schedule_live(round, &rows);
        let soonest = rows.iter().map(|row| row.schedule.run_at.micros()).min();
        round.say(wakeups::JOBS, soonest.map(|due| due.to_string()).unwrap_or_default());
    }
}

impl IngestKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }
}

pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
