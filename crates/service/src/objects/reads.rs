//! Objects, as a tenant reads them.

use std::sync::Arc;

use model::api::{Event, EventList, ObjectAnalysis, ObjectList, ObjectState, ObjectSummary};
use model::condition::{BoundCondition, Query};
use model::{AuditAction, TenantId, event};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::analysis::signals::Signal;
use store::analysis::{history, jobs};
use store::objects::conditions::{AnswerFilter, ConditionSearch, LONGEST_SCAN};
use store::objects::reads::{self, Cursor, ListedEvent, Object, Sort};
use store::objects::search::TextSearch;
use store::objects::{deletion, overview};
use store::{Conn, Store};

use crate::objects::answers::{enabled_signals, results, shape};
use crate::objects::cache::ObjectCache;
use crate::objects::page_cursor::PageCursor;
use crate::runtime::cursor::{self, CursorTime};
use crate::runtime::{Error, Kind, Random, Result, audit, internal};

/// The maximum number of events in a list.
const MAX_LISTED_EVENTS: i64 = 200;
/// Rows of a kind that one transaction deletes: few enough not to delay others.
const DELETED_AT_ONCE: i64 = 5_000;
/// The longest query, in bytes.
const MAX_QUERY: usize = 1_000;

/// A query of the list of objects.
#[derive(Clone, Debug)]
pub struct ObjectQuery {
    /// A part of an id or a name, or comparisons with signals.
    pub q: Option<String>,
    /// The order.
    pub sort: Sort,
    /// The page size.
    pub limit: i64,
    /// Rows to skip.
    pub offset: i64,
    /// Where the previous page ended.
    pub cursor: Option<String>,
    /// Whether comparisons that would be skipped are refused.
    pub strict: bool,
}

/// A query without the white space around it; none if it is empty.
pub(crate) fn checked_query(q: Option<&str>) -> Result<Option<&str>> {
    let q = q.map(str::trim).filter(|text| !text.is_empty());
    if q.is_some_and(|text| text.len() > MAX_QUERY) {
        return Err(Error::bad_request(format!("q: it must have at most {MAX_QUERY} bytes")));
    }
    Ok(q)
}

/// Where a page of events ended.
#[derive(Serialize, Deserialize)]
struct EventCursor {
    object_id: String,
    at: CursorTime,
    seq: i64,
}

/// Reads and deletes objects.
pub struct ObjectReads {
    pub(crate) store: Store,
    /// The same for lists. One object is not read from it: what is cached must be as new as the last change.
    pub(crate) lists: Store,
    pub(crate) random: Random,
    pub(crate) cache: Arc<ObjectCache>,
}

impl ObjectReads {
    /// An object with its answers, and whether it came from the cache.
    pub async fn get(&self, tenant: TenantId, object_id: &str) -> Result<(Arc<ObjectAnalysis>, bool)> {
        self.cache.read(tenant, object_id, async || self.load_object(tenant, object_id).await).await
    }

    async fn load_object(&self, tenant: TenantId, object_id: &str) -> Result<ObjectAnalysis> {
        self.store
            .read("object", async |conn: &mut Conn| {
                let object = reads::find(conn, tenant, object_id).await?.ok_or_else(no_such_object)?;
                let enabled = enabled_signals(conn, tenant).await?;
                let answers = reads::answers_of(conn, tenant, &[object_id]).await?;
                let (analysis, pending) =
                    results(&enabled, answers.get(object_id).map_or(&[], Vec::as_slice))?;
                Ok(ObjectAnalysis {
                    object_id: object.object_id,
                    object_type: object.object_type,
                    display_name: object.display_name,
                    event_count: object.event_count,
                    analysis,
                    pending,
                    labels: None,
                    timeline: None,
                })
            })
            .await
    }

    /// A page of objects.
    pub async fn list(&self, tenant: TenantId, query: &ObjectQuery) -> Result<ObjectList> {
        cursor::check_page_size(query.limit, cursor::MAX_PAGE)?;
        if query.offset < 0 {
            return Err(Error::bad_request("offset: it must not be negative"));
        }
        let place = query.cursor.as_deref().map(|cursor| read_cursor(cursor, query)).transpose()?;
        let q = checked_query(query.q.as_deref())?;
        self.lists
            .read("objects", async |conn: &mut Conn| {
                let enabled = enabled_signals(conn, tenant).await?;
                // One more than requested shows whether there is a next page.
                let more = query.limit + 1;
                let parsed = q.map(|text| Query::parse_with_skipped(text, |key| shape(&enabled, key)));
                let (parsed, skipped) = parsed.unzip();
                let mut warnings: Vec<String> =
                    skipped.unwrap_or_default().iter().map(ToString::to_string).collect();
                if query.strict && !warnings.is_empty() {
                    return Err(Error::bad_request(format!("q: {}", warnings.join("; "))));
                }
                let (found, next) = match (&parsed, &place) {
                    (Some(Query::Signals(condition)), _) => {
                        let (found, ended_early) = matching(conn, tenant, condition, &enabled, query).await?;
                        warnings.extend(ended_early.then(scan_warning));
                        (found, None)
                    }
                    (Some(Query::Text(text)), place) => {
                        let (sort, limit, offset) = (query.sort, query.limit, query.offset);
                        let search = TextSearch { tenant, text, sort, limit, offset, after: place.as_ref() };
                        let page = search.run(conn).await?;
                        (page.objects, page.next)
                    }
                    (None, Some(place)) => {
                        cut(reads::page_after(conn, tenant, query.sort, place, more).await?, query)
                    }
                    (None, None) => {
                        cut(reads::page(conn, tenant, query.sort, more, query.offset).await?, query)
                    }
                };
                let next_cursor = next.map(|place| write_cursor(place, query));
                let objects = summaries(conn, tenant, &enabled, found).await?;
                let offset = if place.is_some() { 0 } else { query.offset };
                Ok(ObjectList { objects, limit: query.limit, offset, next_cursor, warnings })
            })
            .await
    }

    /// A page of the events of an object, newest first; empty if it does not exist.
    pub async fn events(&self, tenant: TenantId, object_id: &str, cursor: Option<&str>) -> Result<EventList> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        let is_of_list = |cursor: &EventCursor| cursor.object_id == object_id;
        let cursor = cursor.map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let before = cursor.map(|cursor| (cursor.at.0, cursor.seq));
        let events = self
            .lists
            .read("events", async |conn| {
                reads::events(conn, tenant, object_id, before, MAX_LISTED_EVENTS + 1).await
            })
            .await?;
        let (events, last) = cursor::cut(events, MAX_LISTED_EVENTS);
        let next_cursor = last.map(|last| {
            let (object_id, at) = (object_id.to_owned(), CursorTime(last.occurred_at));
            cursor::encode(&EventCursor { object_id, at, seq: last.seq })
        });
        Ok(EventList { events: events.into_iter().map(event_record).collect::<Result<_>>()?, next_cursor })
    }

    /// The summary of an object; empty if it does not exist.
    pub async fn state(&self, tenant: TenantId, object_id: &str) -> Result<ObjectState> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        self.store
            .read("object_state", async |conn: &mut Conn| {
                let object = reads::find(conn, tenant, object_id).await?;
                let summary = history::summary(conn, tenant, object_id).await?;
                Ok(ObjectState {
                    object_id: object_id.to_owned(),
                    compacted_events: summary.as_ref().map_or(0, |summary| summary.state.total_events),
                    compacted_through: summary.as_ref().map(|summary| summary.through_time),
                    compacted_state: summary.map(|summary| summary.state),
                    analysis_scheduled: jobs::is_scheduled(conn, tenant, object_id).await?,
                    last_analyzed_at: object.and_then(|object| object.last_analyzed_at),
                })
            })
            .await
    }

    /// Deletes an object and everything about it except its ledger entries. If it has very many events, analyses, counters or
    /// deliveries, these go first, in steps: a deletion that was interrupted is continued by calling this again.
    pub async fn delete(&self, tenant: TenantId, object_id: &str) -> Result<()> {
        let shard = self.random.shard();
        let mut is_begun = false;
        while self.delete_some(tenant, object_id, shard, is_begun).await? {
            is_begun = true;
        }
        let name = if is_begun { "delete_rest_of_object" } else { "delete_object" };
        let deleted = self
            .store
            // However many firings and deliveries there are.
            .for_maintenance()
            .write(name, async |conn: &mut Conn| {
                if !is_begun {
                    let before = what_is_deleted(conn, tenant, object_id).await?;
                    audit::note(tenant, object_id, Some(&before), audit::NONE);
                }
                let is_deleted = deletion::delete(conn, tenant, object_id, shard).await?;
                if is_deleted { Ok(()) } else { Err(no_such_object()) }
            })
            .await;
        self.cache.invalidate(tenant, object_id);
        deleted
    }

    /// A step before the last one. The first says so in the audit log: the deletion may be interrupted after it.
    async fn delete_some(
        &self,
        tenant: TenantId,
        object_id: &str,
        shard: i64,
        is_begun: bool,
    ) -> Result<bool> {
        self.store
            .write("delete_some_of_object", async |conn: &mut Conn| {
                let more = deletion::drop_some(conn, tenant, object_id, DELETED_AT_ONCE, shard).await?;
                if more && !is_begun {
                    let before = what_is_deleted(conn, tenant, object_id).await?;
                    let what = (tenant, AuditAction::ObjectDeleted);
                    audit::also(conn, what, object_id, Some(&before), audit::NONE).await?;
                }
                Ok(more)
            })
            .await
    }
}

/// What the audit log says of an object that is deleted.
async fn what_is_deleted(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Value> {
    let object = reads::find(conn, tenant, object_id).await?.ok_or_else(no_such_object)?;
    let records = deletion::records_about(conn, tenant, object_id).await?;
    Ok(json!({
        "object_type": object.object_type, "display_name": object.display_name, "events": object.event_count,
        "labels": records.labels, "reviews": records.reviews, "firings": records.firings,
    }))
}

/// An event as the API shows it.
pub(crate) fn event_record(event: ListedEvent) -> Result<Event> {
    Ok(Event {
        kind: event.kind,
        metadata: event.metadata.map(RawValue::from_string).transpose().map_err(internal)?,
        name: event.name,
        content: event.content,
        occurred_at: event.occurred_at,
    })
}

/// That others may match than those that were found.
fn scan_warning() -> String {
    format!(
        "the search ended after {LONGEST_SCAN} objects in this order; a narrower condition finds the others"
    )
}

/// A page of the objects whose answers match a condition, and whether the search ended before all were looked at.
async fn matching(
    conn: &mut Conn,
    tenant: TenantId,
    condition: &BoundCondition,
    enabled: &[Signal],
    query: &ObjectQuery,
) -> Result<(Vec<Object>, bool)> {
    let signal_id = |key: &str| Some(enabled.iter().find(|signal| signal.key == key)?.signal_id);
    let Some(filter) = AnswerFilter::new(condition, signal_id) else { return Ok((Vec::new(), false)) };
    let search = ConditionSearch {
        tenant,
        filter: &filter,
        sort: query.sort,
        limit: query.limit,
        offset: query.offset,
    };
    let (found, strategy) = search.run_with_strategy(conn).await?;
    let ended_early = strategy.ended_early(found.len(), query.limit, i64::MAX)
        && strategy.ended_early(found.len(), query.limit, overview::objects(conn, tenant).await?);
    Ok((found, ended_early))
}

/// Cuts a list that was read with one extra object to the page, and returns where the next page starts.
fn cut(mut found: Vec<Object>, query: &ObjectQuery) -> (Vec<Object>, Option<Cursor>) {
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_next = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_next).map(|last| Cursor::of(last, query.sort));
    (found, next)
}

async fn summaries(
    conn: &mut Conn,
    tenant: TenantId,
    enabled: &[Signal],
    found: Vec<Object>,
) -> Result<Vec<ObjectSummary>> {
    let ids: Vec<&str> = found.iter().map(|object| object.object_id.as_str()).collect();
    let answers = reads::answers_of(conn, tenant, &ids).await?;
    let summary = |object: &Object| {
        let (analysis, pending) =
            results(enabled, answers.get(&object.object_id).map_or(&[], Vec::as_slice))?;
        Ok(ObjectSummary {
            object_id: object.object_id.clone(),
            object_type: object.object_type.clone(),
            display_name: object.display_name.clone(),
            event_count: object.event_count,
            last_seen: object.last_seen,
            analysis,
            pending,
        })
    };
    found.iter().map(summary).collect()
}

fn write_cursor(place: Cursor, query: &ObjectQuery) -> String {
    let cursor = PageCursor {
        q: query.q.clone(),
        sort: query.sort as u8,
        value: place.value,
        seen: place.last_seen.micros(),
        id: place.object_id,
    };
    cursor.encode()
}

fn read_cursor(cursor: &str, query: &ObjectQuery) -> Result<Cursor> {
    let cursor = PageCursor::decode(cursor)
        .filter(|cursor| cursor.q == query.q && cursor.sort == query.sort as u8)
        .ok_or_else(|| Error::bad_request("cursor: does not belong to this list"))?;
    Ok(Cursor {
        value: cursor.value,
        last_seen: model::Timestamp::from_micros(cursor.seen),
        object_id: cursor.id,
    })
}

pub(crate) fn no_such_object() -> Error {
    Error::new(Kind::NotFound, "there is no such object")
}
