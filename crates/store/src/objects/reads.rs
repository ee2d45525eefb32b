//! Objects as they are read: one, a page in each sort, their answers and their events.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::ParseFloatError;

use model::api::EventType;
use model::{TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::actions::webhooks::deliveries;
use crate::analysis::concluder;
use crate::db::connect::{execute, fetch_all, fetch_optional};
use crate::objects::grams;
use crate::{Conn, Result};

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

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct KeptAnswer {
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
    /// What answered.
    pub model: String,
    /// When.
    pub computed_at: Timestamp,
}

/// An event as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ListedEvent {
    #[sqlx(rename = "type")]
    kind: String,
    /// The event's name, or a message's subject.
    pub name: Option<String>,
    /// What was said.
    pub content: Option<String>,
    /// JSON.
    pub metadata: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
}

impl ListedEvent {
    /// What kind of thing it is.
    pub fn kind(&self) -> EventType {
        if self.kind == EventType::Message.as_str() { EventType::Message } else { EventType::Event }
    }
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

    /// What it sorts by first; the same for all objects where that is when they were seen.
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

/// Where a page ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The sort's value of the last object; nothing for `Recent`.
    pub value: f64,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// Its id.
    pub object_id: String,
}

impl Place {
    /// The place of an object.
    pub fn of(object: &Object, sort: Sort) -> Self {
        Self { value: sort.value(object), last_seen: object.last_seen, object_id: object.object_id.clone() }
    }

    /// Whether an object comes after this place.
    pub(crate) fn is_before(&self, object: &Object, sort: Sort) -> bool {
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
        Sort::Recent => select!("WHERE tenant_id = $1 ORDER BY last_seen DESC, object_id LIMIT $2 OFFSET $3"),
        Sort::Flagged => {
            select!("WHERE tenant_id = $1 ORDER BY risk DESC, last_seen DESC, object_id LIMIT $2 OFFSET $3")
        }
        Sort::Trust => {
            select!("WHERE tenant_id = $1 ORDER BY trust DESC, last_seen DESC, object_id LIMIT $2 OFFSET $3")
        }
    };
    fetch_all!(conn, text, tenant, limit, offset)
}

/// The page after a place. The rest of a sort is up to three ranges of its index, one after the other, so each is asked
/// only for what the ones before it have left.
pub async fn page_after(
    conn: &mut Conn,
    tenant: TenantId,
    sort: Sort,
    place: &Place,
    limit: i64,
) -> Result<Vec<Object>> {
    let left = |found: &Vec<Object>| limit - i64::try_from(found.len()).unwrap_or(limit);
    let (seen, id, value) = (place.last_seen, place.object_id.as_str(), place.value);
    let mut found: Vec<Object> = match sort {
        Sort::Recent => fetch_all!(
            conn,
            select!("WHERE tenant_id = $1 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"),
            tenant,
            seen,
            id,
            limit
        ),
        Sort::Flagged => fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND risk = $5 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"
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
                "WHERE tenant_id = $1 AND trust = $5 AND last_seen = $2 AND object_id > $3 ORDER BY object_id LIMIT $4"
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
                    "WHERE tenant_id = $1 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
                ),
                tenant,
                seen,
                rest
            ),
            Sort::Flagged => fetch_all!(
                conn,
                select!(
                    "WHERE tenant_id = $1 AND risk = $4 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
                ),
                tenant,
                seen,
                rest,
                value
            ),
            Sort::Trust => fetch_all!(
                conn,
                select!(
                    "WHERE tenant_id = $1 AND trust = $4 AND last_seen < $2 ORDER BY last_seen DESC, object_id LIMIT $3"
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
                "WHERE tenant_id = $1 AND risk < $2 ORDER BY risk DESC, last_seen DESC, object_id LIMIT $3"
            )
        } else {
            select!(
                "WHERE tenant_id = $1 AND trust < $2 ORDER BY trust DESC, last_seen DESC, object_id LIMIT $3"
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
    Ok(match conn {
        Conn::Sqlite(held) => {
            let text = select!("WHERE tenant_id = $1 AND object_id IN (SELECT value FROM json_each($2))");
            let ids = Json(object_ids);
            sqlx::query_as(text).bind(tenant).bind(ids).fetch_all(held.native().await?).await?
        }
        Conn::Postgres(held) => {
            let text = select!("WHERE tenant_id = $1 AND object_id = ANY($2)");
            sqlx::query_as(text).bind(tenant).bind(object_ids).fetch_all(held.native().await?).await?
        }
    })
}

/// The answers of some objects, each named once, by object.
pub async fn answers_of(
    conn: &mut Conn,
    tenant: TenantId,
    object_ids: &[&str],
) -> Result<BTreeMap<String, Vec<KeptAnswer>>> {
    // Each database has its own way to take a list.
    let rows: Vec<KeptAnswer> = match conn {
        Conn::Sqlite(held) => {
            let (Json(packed),): (Json<Vec<PackedAnswer>>,) = sqlx::query_as(PACKED_ANSWERS)
                .bind(tenant)
                .bind(Json(object_ids))
                .fetch_one(held.native().await?)
                .await?;
            packed.into_iter().map(|answer| answer.unpack(object_ids)).collect::<Result<_>>()?
        }
        Conn::Postgres(held) => {
            sqlx::query_as(
                "SELECT object_id, signal_id, value, choice, probabilities, confidence, model, computed_at FROM answers
                 WHERE tenant_id = $1 AND object_id = ANY($2)",
            )
            .bind(tenant)
            .bind(object_ids)
            .fetch_all(held.native().await?)
            .await?
        }
    };
    let mut by_object: BTreeMap<String, Vec<KeptAnswer>> = BTreeMap::new();
    for row in rows {
        by_object.entry(row.object_id.clone()).or_default().push(row);
    }
    Ok(by_object)
}

/// Answers out of SQLite as one value: on their way from its thread every column of every row would be memory of its own,
/// and a page has thousands. Numbers go as text of as many digits as tell any two of them apart: JSON as it is read here
/// may miss the last bit.
const PACKED_ANSWERS: &str =
    "SELECT json_group_array(json_array(asked.key, hex(signal_id), iif(answers.value IS NULL, NULL, format('%!.17g', answers.value)),
                                        choice, probabilities,
                                        iif(confidence IS NULL, NULL, format('%!.17g', confidence)), model, computed_at))
     FROM json_each($2) AS asked CROSS JOIN answers ON tenant_id = $1 AND object_id = asked.value";

/// An answer in the order of [`PACKED_ANSWERS`].
#[derive(serde::Deserialize)]
struct PackedAnswer(usize, Uuid, Option<String>, Option<String>, Option<String>, Option<String>, String, i64);

impl PackedAnswer {
    fn unpack(self, object_ids: &[&str]) -> Result<KeptAnswer> {
        let Self(asked, signal_id, value, choice, probabilities, confidence, model, computed_at) = self;
        let number = |text: Option<String>| text.map(|text| text.parse()).transpose();
        let (value, confidence) = number(value)
            .and_then(|value| Ok((value, number(confidence)?)))
            .map_err(|error: ParseFloatError| sqlx::Error::Decode(error.into()))?;
        Ok(KeptAnswer {
            object_id: object_ids[asked].to_owned(),
            signal_id,
            value,
            choice,
            probabilities,
            confidence,
            model,
            computed_at: Timestamp::from_micros(computed_at),
        })
    }
}

/// The newest events of an object.
pub async fn events(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    limit: i64,
) -> Result<Vec<ListedEvent>> {
    fetch_all!(
        conn,
        "SELECT type, name, content, metadata, occurred_at FROM events WHERE tenant_id = $1 AND object_id = $2
         ORDER BY occurred_at DESC, seq DESC LIMIT $3",
        tenant,
        object_id,
        limit
    )
}

/// Removes an object and everything about it, but not what was paid; says whether there was one.
pub async fn delete(conn: &mut Conn, tenant: TenantId, object_id: &str, shard: i64) -> Result<bool> {
    if !concluder::uncount(conn, tenant, object_id, shard).await? {
        return Ok(false);
    }
    for text in [
        "DELETE FROM objects WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM events WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM summaries WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM jobs WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_states WHERE tenant_id = $1 AND object_id = $2",
        // Messages before the firings that they report: whoever sends them takes the rows in this order.
        "DELETE FROM outbox WHERE tenant_id = $1 AND object_id = $2",
        "DELETE FROM rule_firings WHERE tenant_id = $1 AND object_id = $2",
    ] {
        execute!(conn, text, tenant, object_id)?;
    }
    deliveries::drop_of_object(conn, tenant, object_id).await?;
    grams::remove(conn, tenant, object_id).await?;
    Ok(true)
}
