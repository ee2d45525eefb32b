//! Reading objects: one of them, a page in each sort, their answers and their events.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use model::api::EventType;
use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, bigint, fetch_all, fetch_optional};

/// An object as lists show it.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct Object {
    /// The caller's id.
    pub object_id: String,
    /// What it is.
    pub object_type: String,
    /// What people call it.
    pub display_name: Option<String>,
    /// Events ever recorded.
    pub event_count: i64,
    /// When its last event was received.
    pub last_seen: Timestamp,
    /// When it was last analyzed.
    pub last_analyzed_at: Option<Timestamp>,
    /// Its highest yes/no probability, or -1.
    pub risk: f64,
    /// Its highest score, or -1.
    pub trust: f64,
}

/// A stored answer.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct StoredAnswer {
    /// The object.
    pub object_id: String,
    /// The question.
    pub signal_id: Uuid,
    /// The probability of yes, or the position on the scale.
    pub value: Option<f64>,
    /// The likeliest option.
    pub choice: Option<String>,
    /// JSON.
    pub probabilities: Option<String>,
    /// How sure it is.
    pub confidence: Option<f64>,
    /// JSON: the analyzer's own answer, where a calibration is on.
    pub raw: Option<String>,
    /// Where the first analyzer was unsure: whether the second one answered.
    pub escalated: Option<bool>,
    /// What answered.
    pub model: String,
    /// When.
    pub computed_at: Timestamp,
}

/// An event as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ListedEvent {
    /// Its number, in order of arrival.
    pub seq: i64,
    /// What kind of thing it is.
    #[sqlx(rename = "type")]
    pub kind: EventType,
    /// The event's name, or a message's subject.
    pub name: Option<String>,
    /// What was said.
    pub content: Option<String>,
    /// JSON.
    pub metadata: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Last seen first.
    Recent,
    /// Highest yes/no probability first.
    Flagged,
    /// Highest score first.
    Trust,
}

impl Sort {
    /// The order of a page.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Recent => "last_seen DESC, object_id",
            Self::Flagged => "risk DESC, last_seen DESC, object_id",
            Self::Trust => "trust DESC, last_seen DESC, object_id",
        }
    }

    /// The condition of the index in this order: it always holds, and only states which index serves (ADR 10).
    pub(crate) fn indexed(self) -> &'static str {
        match self {
            Self::Recent => "event_count <> -1",
            Self::Flagged => "event_count <> -2",
            Self::Trust => "event_count <> -3",
        }
    }

    /// What it sorts by first; the same for all objects where that is the time they were last seen.
    fn value(self, object: &Object) -> f64 {
        match self {
            Self::Recent => 0.0,
            Self::Flagged => object.risk,
            Self::Trust => object.trust,
        }
    }

    /// Which of two objects comes first.
    pub(crate) fn compare(self, a: &Object, b: &Object) -> Ordering {
        let by_value = self.value(b).total_cmp(&self.value(a));
        by_value.then(b.last_seen.cmp(&a.last_seen)).then_with(|| a.object_id.cmp(&b.object_id))
    }
}

/// The columns of an [`Object`].
pub(crate) const COLUMNS: &str =
    "object_id, object_type, display_name, event_count, last_seen, last_analyzed_at, risk, trust";

/// The position of a page's last object in a sort.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The sort's value of the last object; nothing for `Recent`.
    pub value: f64,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// Its id.
    pub object_id: String,
}

impl Cursor {
    /// The position of an object.
    pub fn of(object: &Object, sort: Sort) -> Self {
        Self { value: sort.value(object), last_seen: object.last_seen, object_id: object.object_id.clone() }
    }

    /// Whether an object comes after this position.
    pub(crate) fn precedes(&self, object: &Object, sort: Sort) -> bool {
        let by_value = self.value.total_cmp(&sort.value(object));
        let by_time = self.last_seen.cmp(&object.last_seen);
        let order = by_value.then(by_time).then_with(|| object.object_id.cmp(&self.object_id));
        order == Ordering::Greater
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT object_id, object_type, display_name, event_count, last_seen, last_analyzed_at, risk, trust FROM objects ",
            $rest
        )
    };
}

/// An object of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Object>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND object_id = $2"), tenant, object_id)
}

/// The first page of a sort, or one so many rows further on.
pub async fn page(
    conn: &mut Conn,
    tenant: TenantId,
    sort: Sort,
    limit: i64,
    offset: i64,
) -> Result<Vec<Object>> {
    let text = match sort {
        Sort::Recent => select!(
            "WHERE tenant_id = $1 AND event_count <> -1 ORDER BY last_seen DESC, object_id LIMIT $2 OFFSET $3"
        ),
        Sort::Flagged => {
            select!(
                "WHERE tenant_id = $1 AND event_count <> -2 ORDER BY risk DESC, last_seen DESC, object_id LIMIT $2 OFFSET $3"
            )
        }
        Sort::Trust => {
            select!(
                "WHERE tenant_id = $1 AND event_count <> -3 ORDER BY trust DESC, last_seen DESC, object_id LIMIT $2 OFFSET $3"
            )
        }
    };
    fetch_all!(conn, text, tenant, limit, offset)
}

/// The page after a cursor. The rest of a sort is up to three ranges of its index, one after the other, so each is read
/// only as far as the ones before it leave the page unfilled.
pub async fn page_after(
    conn: &mut Conn,
    tenant: TenantId,
    sort: Sort,
    cursor: &Cursor,
    limit: i64,
) -> Result<Vec<Object>> {
    let left = |found: &Vec<Object>| limit - bigint(found.len());
    let (seen, id, value) = (cursor.last_seen, cursor.object_id.as_str(), cursor.value);
    let mut found: Vec<Object> = match sort {
        Sort::Recent => fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND event_count <> -1 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"
            ),
            tenant,
            seen,
            id,
            limit
        ),
        Sort::Flagged => fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND event_count <> -2 AND risk = $5 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"
            ),
            tenant,
            seen,
            id,
            limit,
            value
        ),
        Sort::Trust => fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND event_count <> -3 AND trust = $5 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"
            ),
            tenant,
            seen,
            id,
            limit,
            value
        ),
    }?;
    if left(&found) > 0 {
        let rest = left(&found);
        let earlier: Vec<Object> = match sort {
            Sort::Recent => fetch_all!(
                conn,
                select!(
                    "WHERE tenant_id = $1 AND event_count <> -1 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
                ),
                tenant,
                seen,
                rest
            ),
            Sort::Flagged => fetch_all!(
                conn,
                select!(
                    "WHERE tenant_id = $1 AND event_count <> -2 AND risk = $4 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
                ),
                tenant,
                seen,
                rest,
                value
            ),
            Sort::Trust => fetch_all!(
                conn,
                select!(
                    "WHERE tenant_id = $1 AND event_count <> -3 AND trust = $4 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
                ),
                tenant,
                seen,
                rest,
                value
            ),
        }?;
        found.extend(earlier);
    }
    if left(&found) > 0 && sort != Sort::Recent {
        let rest = left(&found);
        let text = if sort == Sort::Flagged {
            select!(
                "WHERE tenant_id = $1 AND event_count <> -2 AND risk < $2 ORDER BY risk DESC, last_seen DESC, object_id LIMIT $3"
            )
        } else {
            select!(
                "WHERE tenant_id = $1 AND event_count <> -3 AND trust < $2 ORDER BY trust DESC, last_seen DESC, object_id LIMIT $3"
            )
        };
        let lower: Vec<Object> = fetch_all!(conn, text, tenant, value, rest)?;
        found.extend(lower);
    }
    Ok(found)
}

/// Those of some objects that exist, in no order.
pub(crate) async fn with_ids(
    conn: &mut Conn,
    tenant: TenantId,
    object_ids: &[String],
) -> Result<Vec<Object>> {
    Rows::of(object_ids)
        .column("tenant", |_| tenant)
        .column("id", String::as_str)
        .with_given(
            "SELECT object_id, object_type, display_name, event_count, last_seen, last_analyzed_at, risk, trust
             FROM given CROSS JOIN objects WHERE tenant_id = given.tenant AND object_id = id",
        )
        .fetch(conn)
        .await
}

/// The answers of some objects, each named once, by object.
pub async fn answers_of(
    conn: &mut Conn,
    tenant: TenantId,
    object_ids: &[&str],
) -> Result<BTreeMap<String, Vec<StoredAnswer>>> {
    let answers = Rows::of(object_ids)
        .column("tenant", |_| tenant)
        .column("id", |id| *id)
        .with_given(
            "SELECT object_id, signal_id, value, choice, probabilities, confidence, raw, escalated, model, computed_at
             FROM given CROSS JOIN answers WHERE tenant_id = given.tenant AND object_id = id",
        )
        .fetch::<StoredAnswer>(conn)
        .await?;
    let mut by_object: BTreeMap<String, Vec<StoredAnswer>> = BTreeMap::new();
    for answer in answers {
        by_object.entry(answer.object_id.clone()).or_default().push(answer);
    }
    Ok(by_object)
}

/// The newest events of an object: all up to `limit`, or those before a time and a number.
pub async fn events(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    before: Option<(Timestamp, i64)>,
    limit: i64,
) -> Result<Vec<ListedEvent>> {
    let (occurred_at, seq) = before.unwrap_or((Timestamp::MAX, i64::MAX));
    fetch_all!(
        conn,
        "SELECT seq, type, name, content, metadata, occurred_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND (occurred_at, seq) < ($3, $4) AND type <> 'listed'
         ORDER BY occurred_at DESC, seq DESC LIMIT $5",
        tenant,
        object_id,
        occurred_at,
        seq,
        limit
    )
}
