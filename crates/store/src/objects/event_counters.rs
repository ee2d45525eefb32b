//! Counters of events by object, name and hour, and the facts that rules compare.
//!
//! A window of more than an hour is the sum of its hours' counters, so that it costs the same however many events there are.
//! Of its oldest hour only a part is inside the window: that part is counted from the events while all events of the hour are
//! still kept; afterwards the whole hour counts. Events that arrived after the analysis had read the object are left out: a
//! counter knows its newest event, so that only the events of hours in which one arrived later are looked at.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use model::condition::{EventWindow, Facts};
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;

use crate::db::{Batch, Chosen, Conn, Result, Rows, RowsStatement, Sql, bigint, execute};
use crate::objects::request::IngestRequest;
use crate::objects::time_spans::hour_of;

const HOUR: Duration = Duration::from_hours(1);
/// How long counters are kept: the answers of 90 days can be replayed with windows of 30 days.
pub const RETENTION: Duration = Duration::from_hours(121 * 24);
/// Windows up to this long are counted from the events.
const COUNTED_FROM_EVENTS: Duration = HOUR;

/// What is counted of an object, a name and an hour.
struct Total {
    events: i64,
    /// The numbers of the first and the last event to arrive.
    first_seq: i64,
    last_seq: i64,
}

/// Counts the events of requests, late ones included. Those that happened before counters are kept are only counted from the
/// events themselves. The objects are locked, so that the order of rows cannot cause deadlocks; it is that of their key anyway.
/// `last_seqs` are the numbers of the last event of each request.
pub(crate) fn count(batch: &mut Batch, fresh: &[&IngestRequest], last_seqs: &[i64]) {
    let mut totals: BTreeMap<(TenantId, &str, &str, Timestamp), Total> = BTreeMap::new();
    for (request, last_seq) in fresh.iter().zip(last_seqs) {
        let oldest = oldest_hour(request.received_at);
        let first_seq = last_seq - bigint(request.events.len()) + 1;
        for (event, seq) in request.events.iter().zip(first_seq..) {
            let hour = hour_of(event.occurred_at);
            if hour >= oldest {
                let name = event.name.as_deref().unwrap_or_default();
                let total = totals.entry((request.tenant, &request.object_id, name, hour));
                let total = total.or_insert(Total { events: 0, first_seq: seq, last_seq: seq });
                total.events += 1;
                total.last_seq = seq;
            }
        }
    }
    let totals: Vec<_> = totals.into_iter().collect();
    batch.add(
        Rows::of(&totals)
            .column("tenant_id", |row| row.0.0)
            .column("object_id", |row| row.0.1)
            .column("name", |row| row.0.2)
            .column("hour", |row| row.0.3)
            .column("total", |row| row.1.events)
            .column("first_seq", |row| row.1.first_seq)
            .column("last_seq", |row| row.1.last_seq)
            .insert(
                "event_counters",
                "ON CONFLICT (tenant_id, object_id, name, hour)
                 DO UPDATE SET total = event_counters.total + excluded.total,
                               last_seq = CASE WHEN excluded.last_seq > event_counters.last_seq
                                               THEN excluded.last_seq ELSE event_counters.last_seq END",
            ),
    );
}

/// The oldest hour that has a counter.
fn oldest_hour(now: Timestamp) -> Timestamp {
    hour_of(now - RETENTION)
}

/// Removes up to `limit` counters of a tenant that are no longer kept. They are a day older than any that is still written.
pub async fn sweep(conn: &mut Conn, tenant: TenantId, now: Timestamp, limit: i64) -> Result<u64> {
    let range = conn.backend().range(&[("tenant_id", "$1")], "hour", "< $2");
    let counters = Chosen {
        table: "event_counters",
        key: &["tenant_id", "object_id", "name", "hour"],
        rows: &format!("WHERE {range} AND by_age ORDER BY tenant_id, hour LIMIT $3"),
        is_of_tenant: true,
    };
    let statement = counters.delete(conn);
    execute!(conn, AssertSqlSafe(statement), tenant, oldest_hour(now) - Duration::from_hours(24), limit)
}

/// An object as an analysis has read it.
#[derive(Clone, Copy, Debug)]
pub struct FactRequest<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
}

/// What facts are about: an object, and when the newest event that was read happened. If none is kept any more, the time at
/// which the object's newest event was received stands for it.
#[derive(sqlx::FromRow)]
struct ReadObject {
    position: i64,
    object_type: String,
    first_seen: Timestamp,
    newest: Timestamp,
    event_count: i64,
}

/// A window of one object, up to the newest event read.
struct Span<'a> {
    /// Its index among the spans.
    position: i64,
    /// The index of the request.
    object: usize,
    request: FactRequest<'a>,
    window: &'a EventWindow,
    /// The start, which is not in the window.
    after: Timestamp,
    /// Events before this hour are counted themselves, later ones by their counters.
    boundary: Timestamp,
    /// The end of the hour of the newest event read.
    end: Timestamp,
    has_unread: bool,
}

impl<'a> Span<'a> {
    fn new(
        (position, object): (usize, usize),
        request: FactRequest<'a>,
        window: &'a EventWindow,
        read: &ReadObject,
        now: Timestamp,
    ) -> Self {
        let after = read.newest - window.window;
        let end = hour_of(read.newest) + HOUR;
        let boundary = if window.window <= COUNTED_FROM_EVENTS {
            end
        } else {
            (hour_of(after) + HOUR).max(oldest_hour(now) + HOUR).min(end)
        };
        let has_unread = read.event_count > request.read_seq;
        Self { position: bigint(position), object, request, window, after, boundary, end, has_unread }
    }
}

/// The events of a span: up to the boundary, and after it.
#[derive(sqlx::FromRow)]
struct SpanCounts {
    position: i64,
    /// By the counters of the hours from the one of the start to the boundary.
    counted_before: i64,
    /// The events of those hours that are still kept.
    kept_before: i64,
    /// Those of them that are in the window and were read.
    inside_before: i64,
    counted_after: i64,
    unread_after: i64,
}

impl SpanCounts {
    fn total(&self) -> i64 {
        let before =
            if self.kept_before >= self.counted_before { self.inside_before } else { self.counted_before };
        before + self.counted_after - self.unread_after
    }
}

/// The facts about objects as analyses have read them, in the order of the requests; none for an object that is gone.
pub async fn facts(
    conn: &mut Conn,
    requests: &[FactRequest<'_>],
    windows: &[&EventWindow],
    now: Timestamp,
) -> Result<Vec<Option<Facts>>> {
    let mut facts: Vec<Option<Facts>> = vec![None; requests.len()];
    let mut spans: Vec<Span<'_>> = Vec::new();
    for read in read_objects(conn, requests).await? {
        let Ok(object) = usize::try_from(read.position) else { continue };
        for window in windows {
            spans.push(Span::new((spans.len(), object), requests[object], window, &read, now));
        }
        facts[object] = Some(Facts {
            age: read.newest.since(read.first_seen),
            object_type: read.object_type,
            events: HashMap::with_capacity(windows.len()),
        });
    }
    let (named, any): (Vec<&Span<'_>>, Vec<&Span<'_>>) =
        spans.iter().partition(|span| span.window.name.is_some());
    let mut counts = count_spans(&named, COUNT_NAMED).fetch::<SpanCounts>(conn).await?;
    counts.extend(count_spans(&any, COUNT_ANY).fetch::<SpanCounts>(conn).await?);
    for counted in counts {
        let span = usize::try_from(counted.position).ok().and_then(|position| spans.get(position));
        let Some(span) = span else { continue };
        if let Some(facts) = &mut facts[span.object] {
            facts.events.insert(span.window.clone(), counted.total());
        }
    }
    Ok(facts)
}

/// Reads objects with the time of the newest event that was read; events by an index of their times. If others have arrived since,
/// which happened later as a rule, it is in the newest hour of which an event had arrived: those after that hour are passed over.
macro_rules! newest {
    ($indexed:literal, $newest_hour:literal, $next_hour:literal, $never:literal) => {
        concat!(
            "SELECT position, object_type, first_seen, event_count,
                    coalesce((SELECT occurred_at FROM events
                              WHERE events.tenant_id = tenant AND events.object_id = id AND +seq <= read_seq",
            $indexed,
            " AND occurred_at < CASE WHEN event_count > read_seq THEN coalesce(
                                  (SELECT ",
            $newest_hour,
            " FROM event_counters
                                   WHERE event_counters.tenant_id = tenant AND event_counters.object_id = id
                                     AND first_seq <= read_seq) + ",
            $next_hour,
            ", ",
            $never,
            ") ELSE ",
            $never,
            " END
                              ORDER BY occurred_at DESC, seq DESC LIMIT 1), last_seen) AS newest
             FROM given CROSS JOIN objects WHERE objects.tenant_id = given.tenant AND objects.object_id = id"
        )
    };
}

async fn read_objects(conn: &mut Conn, requests: &[FactRequest<'_>]) -> Result<Vec<ReadObject>> {
    let numbered: Vec<(i64, FactRequest<'_>)> = (0..).zip(requests.iter().copied()).collect();
    Rows::of(&numbered)
        .column("position", |row| row.0)
        .column("tenant", |row| row.1.tenant)
        .column("id", |row| row.1.object_id)
        .column("read_seq", |row| row.1.read_seq)
        .with_given(Sql {
            sqlite: newest!("", "max(+hour)", "3600000000", "9223372036854775807"),
            postgres: newest!(
                " AND type <> 'listed'",
                "max(hour)",
                "INTERVAL '1 hour'",
                "CAST('infinity' AS timestamptz)"
            ),
        })
        .fetch(conn)
        .await
}

/// Counts the events of spans, of which all or none have a name. The plus signs are fences: events are found by their time, of
/// which at most an hour is read at once, and never by their numbers, of which a replay has as many before it as there are.
macro_rules! count {
    ($name_of_counter:literal, $hour:literal, $events:literal, $next_hour:literal) => {
        concat!(
            "SELECT position,
                    (SELECT CAST(coalesce(sum(total), 0) AS bigint) FROM event_counters
                     WHERE tenant_id = tenant AND object_id = id",
            $name_of_counter,
            " AND ",
            $hour,
            " >= first_hour AND ",
            $hour,
            " < boundary) AS counted_before,
                    (SELECT count(*) FROM events WHERE tenant_id = tenant AND object_id = id",
            $events,
            " AND occurred_at >= first_hour AND occurred_at < boundary) AS kept_before,
                    (SELECT count(*) FROM events WHERE tenant_id = tenant AND object_id = id",
            $events,
            " AND occurred_at > after_time AND occurred_at < boundary AND +seq <= read_seq) AS inside_before,
                    (SELECT CAST(coalesce(sum(total), 0) AS bigint) FROM event_counters
                     WHERE tenant_id = tenant AND object_id = id",
            $name_of_counter,
            " AND ",
            $hour,
            " >= boundary AND ",
            $hour,
            " < end_time) AS counted_after,
                    CASE WHEN has_unread THEN
                        (SELECT CAST(coalesce(sum((
                             SELECT count(*) FROM events WHERE events.tenant_id = tenant AND events.object_id = id",
            $events,
            " AND coalesce(events.name, '') = event_counters.name
                               AND occurred_at >= hour AND occurred_at < hour + ",
            $next_hour,
            " AND +seq > read_seq)), 0) AS bigint) FROM event_counters
                         WHERE tenant_id = tenant AND object_id = id",
            $name_of_counter,
            " AND ",
            $hour,
            " >= boundary AND ",
            $hour,
            " < end_time AND last_seq > read_seq)
                    ELSE 0 END AS unread_after
             FROM given"
        )
    };
}
const COUNT_NAMED: Sql<'static> = Sql {
    sqlite: count!(" AND event_counters.name = wanted", "hour", " AND events.name = wanted", "3600000000"),
    postgres: count!(
        " AND event_counters.name = wanted",
        "hour",
        " AND events.name = wanted AND type <> 'listed'",
        "INTERVAL '1 hour'"
    ),
};
/// Without a name, SQLite would find the hours of all objects of the tenant by their age.
const COUNT_ANY: Sql<'static> = Sql {
    sqlite: count!("", "+hour", "", "3600000000"),
    postgres: count!("", "hour", " AND type <> 'listed'", "INTERVAL '1 hour'"),
};

fn count_spans<'a>(spans: &'a [&Span<'_>], statement: Sql<'static>) -> RowsStatement<'a> {
    Rows::of(spans)
        .column("position", |span| span.position)
        .column("tenant", |span| span.request.tenant)
        .column("id", |span| span.request.object_id)
        .column("wanted", |span| span.window.name.as_deref())
        .column("after_time", |span| span.after)
        .column("first_hour", |span| hour_of(span.after))
        .column("boundary", |span| span.boundary)
        .column("end_time", |span| span.end)
        .column("read_seq", |span| span.request.read_seq)
        .column("has_unread", |span| span.has_unread)
        .with_given(statement)
}
