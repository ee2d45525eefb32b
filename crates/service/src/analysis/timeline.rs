//! An object's timeline: everything that happened about it, in one list.
//!
//! Each kind of item is a list of its own in the database, in the order of its time and a key. A page takes the next items of
//! every kind and merges them. A new kind is a value of [`TimelineKind`] and an arm of [`next_items`].

use std::cmp::Reverse;
use std::collections::HashMap;

use model::api::{self, TimelineItem, TimelineKind};
use model::{TenantId, Timestamp, event, recorded_answer};
use serde::{Deserialize, Serialize};
use store::actions::firings::{self, FiringFilter};
use store::actions::reviews;
use store::actions::webhooks::deliveries;
use store::analysis::{answer_history, signals};
use store::objects::reads;
use store::quality::labels::LabelFilter;
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::{delivery_record, firing_record, review_record};
use crate::objects::answer_history::record as analysis_record;
use crate::objects::reads::{event_record, no_such_object};
use crate::quality::label_page;
use crate::runtime::cursor::{self, CursorTime};
use crate::runtime::{Clock, Error, Result};

/// The usual page size.
const USUAL_LIMIT: i64 = 50;

/// Which part of a timeline is read.
#[derive(Clone, Debug, Default)]
pub struct TimelineQuery {
    /// The kinds, separated by commas; all if none is named.
    pub kinds: Option<String>,
    /// The page size.
    pub limit: Option<i64>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// An item's position in the order of a timeline.
///
/// Items are sorted by time; at one time by kind; of one kind by a key that no two of them share. So every item has a position
/// of its own, and a page that starts after one neither skips nor repeats anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    at: CursorTime,
    kind: TimelineKind,
    key: Uuid,
}

impl Position {
    /// What it is sorted by, ascending.
    fn rank(&self) -> (Reverse<CursorTime>, TimelineKind, Reverse<Uuid>) {
        (Reverse(self.at), self.kind, Reverse(self.key))
    }

    /// The time and key that items of a kind must be below in order to come after this position.
    fn bound(&self, kind: TimelineKind) -> (Timestamp, Uuid) {
        let key = match kind.cmp(&self.kind) {
            // At the same time, kinds before this one are over, and those after it still to come.
            std::cmp::Ordering::Less => Uuid::nil(),
            std::cmp::Ordering::Equal => self.key,
            std::cmp::Ordering::Greater => Uuid::max(),
        };
        (self.at.0, key)
    }
}

/// Where a page ended.
#[derive(Serialize, Deserialize)]
struct TimelineCursor {
    object_id: String,
    kinds: Vec<TimelineKind>,
    after: Position,
}

/// Reads timelines.
pub struct Timeline {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

impl Timeline {
    /// A page of what happened about an object, newest first.
    pub async fn list(
        &self,
        tenant: TenantId,
        object_id: &str,
        query: &TimelineQuery,
    ) -> Result<api::Timeline> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        let kinds = kinds(query.kinds.as_deref())?;
        let limit = query.limit.unwrap_or(USUAL_LIMIT);
        cursor::check_page_size(limit, cursor::MAX_PAGE)?;
        let is_of_list = |cursor: &TimelineCursor| cursor.object_id == object_id && cursor.kinds == kinds;
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let after = cursor.map(|cursor| cursor.after);
        let now = self.clock.now();
        // A snapshot, so that nothing that one list has follows from what another one lacks.
        let mut found = self
            .store
            .snapshot("timeline", async |conn: &mut Conn| {
                reads::find(conn, tenant, object_id).await?.ok_or_else(no_such_object)?;
                let mut found = Vec::new();
                for kind in &kinds {
                    let before = after.map(|after| after.bound(*kind));
                    // One more than the page shows whether there is a next one.
                    let page = Page { before, limit: limit + 1, now };
                    found.extend(next_items(conn, tenant, object_id, *kind, page).await?);
                }
                Ok::<_, Error>(found)
            })
            .await?;
        found.sort_by_key(|(position, _)| position.rank());
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_next = found.len() > page;
        found.truncate(page);
        let next_cursor = found.last().filter(|_| has_next).map(|(after, _)| {
            cursor::encode(&TimelineCursor { object_id: object_id.to_owned(), kinds, after: *after })
        });
        Ok(api::Timeline { items: found.into_iter().map(|(_, item)| item).collect(), next_cursor })
    }
}

/// The kinds that a list names, each once and in the order of the timeline.
fn kinds(list: Option<&str>) -> Result<Vec<TimelineKind>> {
    let Some(list) = list.filter(|list| !list.trim().is_empty()) else {
        return Ok(TimelineKind::ALL.to_vec());
    };
    let mut kinds = Vec::new();
    for name in list.split(',').map(str::trim) {
        let known = TimelineKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        kinds.push(known.ok_or_else(|| {
            let names = TimelineKind::ALL.map(TimelineKind::as_str).join(", ");
            Error::bad_request(format!("kinds: each must be one of {names}"))
        })?);
    }
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
}

/// Which items of a kind are read, at what time.
#[derive(Clone, Copy)]
struct Page {
    before: Option<(Timestamp, Uuid)>,
    limit: i64,
    now: Timestamp,
}

/// The next items of one kind, newest first: from the start, or those below a time and a key.
async fn next_items(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    kind: TimelineKind,
    Page { before, limit, now }: Page,
) -> Result<Vec<(Position, TimelineItem)>> {
    let at = |at: Timestamp, key: Uuid| Position { at: CursorTime(at), kind, key };
    let mut items = Vec::new();
    match kind {
        TimelineKind::Event => {
            let before = before.map(|(at, key)| (at, seq_of(key)));
            for event in reads::events(conn, tenant, object_id, before, limit).await? {
                let position = at(event.occurred_at, key_of(event.seq));
                let item = TimelineItem::new(kind, event.occurred_at, None);
                items.push((position, TimelineItem { event: Some(event_record(event)?), ..item }));
            }
        }
        TimelineKind::Analysis => {
            let before = before.map(|(at, key)| analysis_bound(at, key));
            for row in answer_history::of_object(conn, tenant, object_id, before, limit).await? {
                let item = TimelineItem::new(kind, row.at, Some(row.analysis_id));
                let analysis = Some(analysis_record(&row, None)?);
                items.push((at(row.at, row.analysis_id), TimelineItem { analysis, ..item }));
            }
        }
        TimelineKind::Firing => {
            let filter = FiringFilter { object_id: Some(object_id), before, ..FiringFilter::default() };
            for firing in firings::newest(conn, tenant, filter, limit).await? {
                let position = at(firing.fired_at, firing.firing_id);
                let item = TimelineItem::new(kind, firing.fired_at, Some(firing.firing_id));
                items.push((position, TimelineItem { firing: Some(firing_record(firing)?), ..item }));
            }
        }
        TimelineKind::Label => {
            let signals = signals::of_tenant(conn, tenant).await?;
            let keys: HashMap<Uuid, &str> =
                signals.iter().map(|signal| (signal.signal_id, signal.key.as_str())).collect();
            // Ids of labels sort by their time, as those of analyses do.
            let before = before.map(|(at, key)| analysis_bound(at, key));
            let object_id = Some(object_id);
            let filter = LabelFilter { signal: None, object_id, source: None, before, limit };
            for label in label_page(conn, tenant, filter, &keys).await?.0 {
                let item = TimelineItem::new(kind, label.created_at, Some(label.id));
                items.push((at(label.created_at, label.id), TimelineItem { label: Some(label), ..item }));
            }
        }
        TimelineKind::Review => {
            for review in reviews::of_object(conn, tenant, object_id, before, limit).await? {
                let position = at(review.created_at, review.review_id);
                let item = TimelineItem::new(kind, review.created_at, Some(review.review_id));
                items.push((position, TimelineItem { review: Some(review_record(&review, now)?), ..item }));
            }
        }
        TimelineKind::Delivery => {
            for delivery in deliveries::of_object(conn, tenant, object_id, before, limit).await? {
                let position = at(delivery.created_at, delivery.delivery_id);
                let item = TimelineItem::new(kind, delivery.created_at, Some(delivery.delivery_id));
                items.push((position, TimelineItem { delivery: Some(delivery_record(delivery)?), ..item }));
            }
        }
    }
    Ok(items)
}

/// The number of an event as a key.
fn key_of(seq: i64) -> Uuid {
    Uuid::from_u128(u128::try_from(seq).unwrap_or(0))
}

fn seq_of(key: Uuid) -> i64 {
    i64::try_from(key.as_u128()).unwrap_or(i64::MAX)
}

/// The id that analyses below a time and a key are below. Ids of analyses sort by their time.
fn analysis_bound(at: Timestamp, key: Uuid) -> Uuid {
    let (first, last) = (recorded_answer::first_id(at), recorded_answer::analysis_id(at, [0xff; 8]));
    key.clamp(first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_or_all() {
        assert_eq!(kinds(None).unwrap(), TimelineKind::ALL);
        assert_eq!(kinds(Some(" ")).unwrap(), TimelineKind::ALL);
        let named = kinds(Some("event, firing,event")).unwrap();
        assert_eq!(named, [TimelineKind::Firing, TimelineKind::Event]);
        for wrong in ["no", "event,", "Event", "event;firing"] {
            let message = "kinds: each must be one of label, delivery, review, firing, analysis, event";
            assert_eq!(kinds(Some(wrong)).unwrap_err().to_string(), message, "{wrong}");
        }
    }

    #[test]
    fn kinds_at_the_same_time_are_before_or_after_a_position() {
        let at = CursorTime(Timestamp::from_seconds(1_800_000_000));
        let key = recorded_answer::analysis_id(at.0, [7; 8]);
        let position = Position { at, kind: TimelineKind::Analysis, key };
        assert_eq!(position.bound(TimelineKind::Firing), (at.0, Uuid::nil()), "they came before it");
        assert_eq!(position.bound(TimelineKind::Analysis), (at.0, key));
        assert_eq!(seq_of(position.bound(TimelineKind::Event).1), i64::MAX, "they come after it");
        assert_eq!(analysis_bound(at.0, Uuid::nil()), recorded_answer::first_id(at.0));
        assert_eq!(analysis_bound(at.0, key), key);
    }
}
