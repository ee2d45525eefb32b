//! Reading all objects and all events of a tenant, page by page, in an order that writes do not change.

use model::api::EventType;
use model::{TenantId, Timestamp};

use crate::db::{Conn, Result, fetch_all};

/// An object with everything that is exported of it but its answers.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct ExportedObject {
    pub object_id: String,
    pub object_type: String,
    pub display_name: Option<String>,
    pub event_count: i64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub last_analyzed_at: Option<Timestamp>,
}

/// The objects after one, by id: the time that an object was last seen changes while they are read, its id does not.
pub async fn objects_after(
    conn: &mut Conn,
    tenant: TenantId,
    after: &str,
    limit: i64,
) -> Result<Vec<ExportedObject>> {
    fetch_all!(
        conn,
        "SELECT object_id, object_type, display_name, event_count, first_seen, last_seen, last_analyzed_at FROM objects
         WHERE tenant_id = $1 AND object_id > $2 ORDER BY object_id LIMIT $3",
        tenant,
        after,
        limit
    )
}

/// An event with the object that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct ExportedEvent {
    pub object_id: String,
    /// The type that the object has now.
    pub object_type: Option<String>,
    pub seq: i64,
    #[sqlx(rename = "type")]
    pub kind: EventType,
    pub name: Option<String>,
    pub content: Option<String>,
    pub metadata: Option<String>,
    pub occurred_at: Timestamp,
    pub received_at: Timestamp,
}

/// The events after one that were received before an instant, in the order of receipt. Events of one instant, those of one
/// request as a rule, are sorted; nothing else is.
pub async fn events_after(
    conn: &mut Conn,
    tenant: TenantId,
    (received_at, object_id, seq): (Timestamp, &str, i64),
    before: Timestamp,
    limit: i64,
) -> Result<Vec<ExportedEvent>> {
    fetch_all!(
        conn,
        "SELECT object_id,
             (SELECT object_type FROM objects
              WHERE objects.tenant_id = events.tenant_id AND objects.object_id = events.object_id) AS object_type,
             seq, type, name, content, metadata, occurred_at, received_at
         FROM events
         WHERE tenant_id = $1 AND received_at >= $2 AND received_at < $5
           AND (received_at, object_id, seq) > ($2, $3, $4) AND type <> 'retained'
         ORDER BY received_at, object_id, seq LIMIT $6",
        tenant,
        received_at,
        object_id,
        seq,
        before,
        limit
    )
}
