//! What is read for an analysis: an object, its rolling summary, and the events since.

use std::collections::HashMap;

use model::api::EventType;
use model::{CompactedState, DossierEvent, TenantId, Timestamp};
use sqlx::types::Json;

use crate::db::bulk::with_rows;
use crate::db::connect::{fetch_all, fetch_optional};
use crate::{Conn, Result};

/// A tenant's object.
pub type ObjectKey = (TenantId, String);

/// An object whose history is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The newest event to be read; none reads all.
    pub through: Option<i64>,
}

/// An object as an analysis finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it is.
    pub object_type: String,
    /// What people call it.
    pub display_name: Option<String>,
    /// When it began, which tells it from another that has the same name after it.
    pub first_seen: Timestamp,
    /// How long its tenant keeps events: `forever`, `days` or `after_analysis`.
    pub retention: String,
    /// The version of the job that is queued for it.
    pub queued: Option<i64>,
    /// The rolling summary, once it has one.
    pub summary: Option<Summary>,
    /// The newest event that was to be read.
    pub through: i64,
    /// The events after those in the summary, in order of arrival; none where they were too many.
    pub events: Option<Vec<DossierEvent>>,
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

/// Events of an object after one and up to another, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The last event that is not wanted.
    pub after: i64,
    /// The last one that is.
    pub through: i64,
}

/// A row about an object, or about an event of it.
#[derive(sqlx::FromRow)]
struct Row {
    tenant_id: TenantId,
    object_id: String,
    /// 0 in the row about the object.
    seq: i64,
    #[sqlx(rename = "type")]
    kind: String,
    name: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
    last_seq: Option<i64>,
    retention: Option<String>,
    queued: Option<i64>,
    through_seq: Option<i64>,
    through_time: Option<Timestamp>,
    state: Option<Json<CompactedState>>,
}

/// Those of the objects that exist, with the events that are not in their summaries: of each at most `most`. One
/// statement, so all of it is of one moment.
pub async fn read(conn: &mut Conn, wanted: &[Wanted<'_>], most: i64) -> Result<HashMap<ObjectKey, Told>> {
    let rows = with_rows!(
        Row;
        conn,
        wanted,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("wanted_seq", "bigint", |row| row.through.unwrap_or(i64::MAX)),
            ("most", "bigint", |_row| most),
        ],
        "SELECT tenant_id, object_id, 0 AS seq, object_type AS type, display_name AS name, NULL AS content,
                NULL AS metadata, first_seen AS occurred_at, last_seen AS received_at,
                CASE WHEN wanted_seq < event_count THEN wanted_seq ELSE event_count END AS last_seq,
                event_retention AS retention, version AS queued, through_seq, through_time, state
         FROM given JOIN objects USING (tenant_id, object_id)
         JOIN tenants USING (tenant_id)
         LEFT JOIN summaries USING (tenant_id, object_id)
         LEFT JOIN jobs USING (tenant_id, object_id)
         UNION ALL
         SELECT tenant_id, object_id, seq, events.type, events.name, content, metadata, occurred_at, received_at,
                NULL, NULL, NULL, NULL, NULL, NULL
         FROM given JOIN objects USING (tenant_id, object_id)
         LEFT JOIN summaries USING (tenant_id, object_id)
         JOIN events USING (tenant_id, object_id)
         WHERE seq > coalesce(through_seq, 0) AND seq <= wanted_seq
           AND CASE WHEN wanted_seq < event_count THEN wanted_seq ELSE event_count END - coalesce(through_seq, 0) <= most
         ORDER BY tenant_id, object_id, seq",
    );
    let mut told: HashMap<ObjectKey, Told> = HashMap::with_capacity(wanted.len());
    let mut last: Option<&mut Told> = None;
    for row in rows {
        if row.seq == 0 {
            let key = (row.tenant_id, row.object_id.clone());
            last = Some(told.entry(key).insert_entry(Told::of(row, most)).into_mut());
        } else if let Some(events) = last.as_mut().and_then(|told| told.events.as_mut()) {
            events.push(row.into());
        }
    }
    Ok(told)
}

impl Told {
    fn of(row: Row, most: i64) -> Self {
        let summary = match (row.through_seq, row.through_time, row.state) {
            (Some(through_seq), Some(through_time), Some(Json(state))) => {
                Some(Summary { through_seq, through_time, state })
            }
            _ => None,
        };
        let through = row.last_seq.unwrap_or_default();
        let unread = through - row.through_seq.unwrap_or_default();
        Self {
            object_type: row.kind,
            display_name: row.name,
            first_seen: row.occurred_at,
            retention: row.retention.unwrap_or_default(),
            queued: row.queued,
            summary,
            through,
            events: (unread <= most).then(Vec::new),
        }
    }
}

impl From<Row> for DossierEvent {
    fn from(row: Row) -> Self {
        EventRow {
            seq: row.seq,
            kind: row.kind,
            name: row.name,
            content: row.content,
            metadata: row.metadata,
            occurred_at: row.occurred_at,
            received_at: row.received_at,
        }
        .into()
    }
}

#[derive(sqlx::FromRow)]
struct EventRow {
    seq: i64,
    #[sqlx(rename = "type")]
    kind: String,
    name: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
}

impl From<EventRow> for DossierEvent {
    fn from(row: EventRow) -> Self {
        let is_message = row.kind == "message";
        Self {
            seq: row.seq,
            kind: if is_message { EventType::Message } else { EventType::Event },
            name: row.name,
            content: row.content,
            metadata: row.metadata,
            occurred_at: row.occurred_at,
            received_at: row.received_at,
        }
    }
}

/// Events of an object, in order of arrival, at most `limit` of them.
pub async fn events_between(conn: &mut Conn, stretch: Stretch<'_>, limit: i64) -> Result<Vec<DossierEvent>> {
    let rows: Vec<EventRow> = fetch_all!(
        conn,
        "SELECT seq, type, name, content, metadata, occurred_at, received_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5",
        stretch.tenant,
        stretch.object_id,
        stretch.after,
        stretch.through,
        limit
    )?;
    Ok(rows.into_iter().map(DossierEvent::from).collect())
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
