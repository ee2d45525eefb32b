//! What is read for an analysis: an object, its rolling summary, and the events since.

use std::collections::HashMap;

use model::api::{EventRetention, EventType};
use model::{CompactedState, HistoryEvent, TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, Sql, fetch_all, fetch_optional};

/// A tenant's object.
pub type ObjectKey = (TenantId, String);

/// An object whose history is to be read.
#[derive(Clone, Copy, Debug)]
pub struct HistoryRequest<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The newest event to be read; none reads all.
    pub through: Option<i64>,
}

/// An object as an analysis reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHistory {
    /// What it is.
    pub object_type: String,
    /// What people call it.
    pub display_name: Option<String>,
    /// When it was created, which tells it from a later object of the same id.
    pub first_seen: Timestamp,
    /// How long its tenant keeps events.
    pub retention: EventRetention,
    /// The version of the job that is queued for it.
    pub queued_version: Option<i64>,
    /// The token of that job's lease.
    pub queued_lease: Option<Uuid>,
    /// The rolling summary, once it has one.
    pub summary: Option<Summary>,
    /// The newest event that was to be read.
    pub through: i64,
    /// The events after those in the summary, in order of arrival; none if they are too many.
    pub events: Option<Vec<HistoryEvent>>,
}

/// The rolling summary of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The newest event in it.
    pub through_seq: i64,
    /// When that was received.
    pub through_time: Timestamp,
    /// What is left of the events.
    pub state: CompactedState,
}

/// Events of an object after one and up to another.
#[derive(Clone, Copy, Debug)]
pub struct EventRange<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The last event before the range.
    pub after: i64,
    /// The last event of the range.
    pub through: i64,
}

/// Either the row about an object or one about an event of it: each leaves the other's columns empty.
#[derive(sqlx::FromRow)]
struct HistoryRow {
    tenant_id: TenantId,
    object_id: String,
    /// 0 in the row about the object.
    seq: i64,
    object_type: Option<String>,
    event_type: Option<EventType>,
    /// The display name of the object, or the name of the event.
    name: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    /// When the object was first seen, or when the event happened.
    occurred_at: Timestamp,
    received_at: Timestamp,
    last_seq: Option<i64>,
    retention: Option<EventRetention>,
    queued_version: Option<i64>,
    queued_lease: Option<Uuid>,
    through_seq: Option<i64>,
    through_time: Option<Timestamp>,
    state: Option<Json<CompactedState>>,
}

/// Reads objects, their summaries and queued jobs, and the events that are not in the summaries.
macro_rules! read {
    ($events:literal, $of_object:literal) => {
        concat!(
            "SELECT objects.tenant_id, objects.object_id, 0 AS seq, object_type, NULL AS event_type,
                    display_name AS name, NULL AS content, NULL AS metadata, first_seen AS occurred_at,
                    last_seen AS received_at,
                    CASE WHEN wanted_seq < event_count THEN wanted_seq ELSE event_count END AS last_seq,
                    event_retention AS retention, version AS queued_version, lease_token AS queued_lease, through_seq,
                    through_time, state
             FROM given CROSS JOIN objects CROSS JOIN tenants
             LEFT JOIN summaries
               ON summaries.tenant_id = given.tenant_id AND summaries.object_id = given.object_id
             LEFT JOIN jobs ON jobs.tenant_id = given.tenant_id AND jobs.object_id = given.object_id
             WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id
               AND tenants.tenant_id = given.tenant_id
             UNION ALL
             SELECT events.tenant_id, events.object_id, seq, NULL, events.type, events.name, content, metadata,
                    occurred_at, received_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL
             FROM given CROSS JOIN objects
             LEFT JOIN summaries
               ON summaries.tenant_id = given.tenant_id AND summaries.object_id = given.object_id
             CROSS JOIN ",
            $events,
            " WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id
               AND CASE WHEN wanted_seq < event_count THEN wanted_seq ELSE event_count END - coalesce(through_seq, 0)
                   <= most",
            $of_object,
            " ORDER BY 1, 2, 3"
        )
    };
}
/// On PostgreSQL the offset is a fence: the events are found by the object and their numbers, never by their numbers alone.
const READ: Sql<'static> = Sql {
    sqlite: read!(
        "events",
        " AND events.tenant_id = given.tenant_id AND events.object_id = given.object_id
          AND seq > coalesce(through_seq, 0) AND seq <= wanted_seq"
    ),
    postgres: read!(
        "LATERAL (SELECT * FROM events
                  WHERE events.tenant_id = given.tenant_id AND events.object_id = given.object_id
                    AND seq > coalesce(through_seq, 0) AND seq <= wanted_seq OFFSET 0) AS events",
        ""
    ),
};

/// Reads those of the objects that exist, with the events that are not in their summaries: of each object at most `limit`.
/// It is one statement, so all of it is of one moment.
pub async fn read(
    conn: &mut Conn,
    requests: &[HistoryRequest<'_>],
    limit: i64,
) -> Result<HashMap<ObjectKey, ObjectHistory>> {
    let rows = Rows::of(requests)
        .column("tenant_id", |request| request.tenant)
        .column("object_id", |request| request.object_id)
        .column("wanted_seq", |request| request.through.unwrap_or(i64::MAX))
        .column("most", |_| limit)
        .with_given(READ)
        .fetch::<HistoryRow>(conn)
        .await?;
    let mut histories: HashMap<ObjectKey, ObjectHistory> = HashMap::with_capacity(requests.len());
    let mut last: Option<&mut ObjectHistory> = None;
    for row in rows {
        if row.seq == 0 {
            let key = (row.tenant_id, row.object_id.clone());
            last = Some(histories.entry(key).insert_entry(row.into_history(limit)).into_mut());
        } else if let Some(events) = last.as_mut().and_then(|history| history.events.as_mut()) {
            events.extend(row.into_event());
        }
    }
    Ok(histories)
}

impl HistoryRow {
    /// The object of the row about it, with no events yet.
    fn into_history(self, limit: i64) -> ObjectHistory {
        let summary = match (self.through_seq, self.through_time, self.state) {
            (Some(through_seq), Some(through_time), Some(Json(state))) => {
                Some(Summary { through_seq, through_time, state })
            }
            _ => None,
        };
        let through = self.last_seq.unwrap_or_default();
        let unread = through - self.through_seq.unwrap_or_default();
        ObjectHistory {
            object_type: self.object_type.unwrap_or_default(),
            display_name: self.name,
            first_seen: self.occurred_at,
            retention: self.retention.unwrap_or(EventRetention::Forever),
            queued_version: self.queued_version,
            queued_lease: self.queued_lease,
            summary,
            through,
            events: (unread <= limit).then(Vec::new),
        }
    }

    fn into_event(self) -> Option<HistoryEvent> {
        Some(HistoryEvent {
            seq: self.seq,
            kind: self.event_type?,
            name: self.name,
            content: self.content,
            metadata: self.metadata,
            occurred_at: self.occurred_at,
            received_at: self.received_at,
        })
    }
}

#[derive(sqlx::FromRow)]
struct EventRow {
    seq: i64,
    #[sqlx(rename = "type")]
    kind: EventType,
    name: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
}

impl From<EventRow> for HistoryEvent {
    fn from(row: EventRow) -> Self {
        let EventRow { seq, kind, name, content, metadata, occurred_at, received_at } = row;
        Self { seq, kind, name, content, metadata, occurred_at, received_at }
    }
}

/// Reads events of an object in order of arrival, at most `limit` of them.
pub async fn events_between(conn: &mut Conn, range: EventRange<'_>, limit: i64) -> Result<Vec<HistoryEvent>> {
    let rows: Vec<EventRow> = fetch_all!(
        conn,
        "SELECT seq, type, name, content, metadata, occurred_at, received_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5",
        range.tenant,
        range.object_id,
        range.after,
        range.through,
        limit
    )?;
    Ok(rows.into_iter().map(HistoryEvent::from).collect())
}

/// An object whose summary has passed the newest event that is to be read.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PassedObject {
    /// The object.
    pub object_id: String,
    /// Whether its history can be made again: all events up to that one are still kept, and they are not too many.
    pub can_be_made_again: bool,
}

/// Those of a tenant's objects whose summaries have passed the events that are to be read: `(object, newest event)`. Of at most
/// `max_events` events a history is made again.
pub async fn passed(
    conn: &mut Conn,
    tenant: TenantId,
    wanted: &[(&str, i64)],
    max_events: i64,
) -> Result<Vec<PassedObject>> {
    Rows::of(wanted)
        .column("tenant", |_| tenant)
        .column("object", |row| row.0)
        .column("wanted_seq", |row| row.1)
        .column("max_events", |_| max_events)
        .with_given(
            "SELECT object_id,
                    CASE WHEN wanted_seq <= max_events
                        THEN (SELECT count(*) FROM events
                              WHERE events.tenant_id = tenant AND events.object_id = object AND seq <= wanted_seq)
                            = wanted_seq
                        ELSE false END AS can_be_made_again
             FROM given CROSS JOIN summaries
             WHERE summaries.tenant_id = tenant AND summaries.object_id = object AND through_seq > wanted_seq",
        )
        .fetch(conn)
        .await
}

/// The summary of an object, once it has one.
pub async fn summary(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Summary>> {
    let row: Option<(i64, Timestamp, Json<CompactedState>)> = fetch_optional!(
        conn,
        "SELECT through_seq, through_time, state FROM summaries WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )?;
    Ok(row.map(|(through_seq, through_time, Json(state))| Summary { through_seq, through_time, state }))
}
