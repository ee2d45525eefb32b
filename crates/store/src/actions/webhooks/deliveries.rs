//! Webhook deliveries as their owner sees them: what is sent, where it stands, and how it ended.
//!
//! What is sent is written once. Where it stands is a row of the queue ([`crate::actions::webhooks::queue`]) until it has ended, and a
//! row of outcomes from then on; a replay takes it back.

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::actions::webhooks::endpoints;
use crate::db::bulk::{insert_many, with_rows};
use crate::db::connect::{execute, fetch_all, fetch_optional};
use crate::{Backend, Conn, Result};

/// A delivery to be queued.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, made at `created_at`.
    pub delivery_id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// What it tells.
    pub event_type: &'static str,
    /// The object that it is about; it goes with the object.
    pub object_id: Option<String>,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// How often it is tried.
    pub max_attempts: i64,
    /// When it is sent at the earliest.
    pub run_after: Timestamp,
    /// When it was queued.
    pub created_at: Timestamp,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

/// Queues deliveries, in the transaction of the change that they tell of.
pub async fn queue(conn: &mut Conn, deliveries: &[NewDelivery]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        deliveries,
        "webhook_deliveries",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("delivery_id", "uuid", |row| row.delivery_id),
            ("endpoint_id", "uuid", |row| row.endpoint_id),
            ("event_type", "text", |row| row.event_type),
            ("object_id", "text", |row| row.object_id.as_deref()),
            ("payload", "text", |row| row.payload.as_str()),
            ("max_attempts", "bigint", |row| row.max_attempts),
            ("created_at", "timestamptz", |row| row.created_at),
            ("traceparent", "text", |row| row.traceparent.as_deref()),
        ],
        "",
    );
    insert_many!(
        (i64,);
        conn,
        deliveries,
        "webhook_queue",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("endpoint_id", "uuid", |row| row.endpoint_id),
            ("status", "text", |_row| "pending"),
            ("delivery_id", "uuid", |row| row.delivery_id),
            ("payload_bytes", "bigint", |row| i64::try_from(row.payload.len()).unwrap_or(i64::MAX)),
            ("run_after", "timestamptz", |row| row.run_after),
        ],
        "",
    );
    Ok(())
}

/// A delivery as it stands.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Delivery {
    /// Its id.
    pub delivery_id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// What it tells.
    pub event_type: String,
    /// The object that it is about.
    pub object_id: Option<String>,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// `pending`, `delivering`, `delivered` or `dead`.
    pub status: String,
    /// Attempts that have ended.
    pub attempts: i64,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// When it is tried next; of one that has ended, when that was.
    pub run_after: Timestamp,
    /// The status of the last answer.
    pub last_status_code: Option<i64>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The start of the last answer.
    pub last_response: Option<String>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the receiver took it.
    pub delivered_at: Option<Timestamp>,
}

/// Every status, of which a delivery has one.
const STATUSES: [&str; 4] = ["pending", "delivering", "delivered", "dead"];

/// Deliveries of a tenant, newest first; those of an endpoint that is gone are out of sight.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Option<Uuid>,
    status: Option<&str>,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let mut ids = match (endpoint, status) {
        (None, None) => {
            let newest: Vec<(Uuid,)> = fetch_all!(
                conn,
                "SELECT delivery_id FROM webhook_deliveries
                 WHERE tenant_id = $1 AND EXISTS (SELECT 1 FROM webhook_endpoints AS known
                     WHERE known.tenant_id = $1 AND known.endpoint_id = webhook_deliveries.endpoint_id)
                 ORDER BY delivery_id DESC LIMIT $2",
                tenant,
                limit
            )?;
            newest
        }
        _ => newest_by_endpoint(conn, tenant, endpoint, status, limit).await?,
    };
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.truncate(usize::try_from(limit).unwrap_or(0));
    load(conn, tenant, &ids).await
}

/// The newest ids of each endpoint and status. A tenant has few endpoints: some short reads in order, each by the primary key,
/// instead of one more index that every attempt would have to keep.
async fn newest_by_endpoint(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Option<Uuid>,
    status: Option<&str>,
    limit: i64,
) -> Result<Vec<(Uuid,)>> {
    let known = endpoints::of_tenant(conn, tenant).await?;
    let endpoints =
        known.iter().map(|known| known.endpoint_id).filter(|id| endpoint.is_none_or(|one| one == *id));
    let statuses = STATUSES.into_iter().filter(|known| status.is_none_or(|one| one == *known));
    let statuses: Vec<&str> = statuses.collect();
    let mut ids = Vec::new();
    for endpoint in endpoints {
        for status in &statuses {
            let text = if is_queued(status) {
                "SELECT delivery_id FROM webhook_queue
                 WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 ORDER BY delivery_id DESC LIMIT $4"
            } else {
                "SELECT delivery_id FROM webhook_outcomes
                 WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 ORDER BY delivery_id DESC LIMIT $4"
            };
            let some: Vec<(Uuid,)> = fetch_all!(conn, text, tenant, endpoint, *status, limit)?;
            ids.extend(some);
        }
    }
    Ok(ids)
}

fn is_queued(status: &str) -> bool {
    matches!(status, "pending" | "delivering")
}

/// Deliveries by their ids, newest first.
async fn load(conn: &mut Conn, tenant: TenantId, ids: &[(Uuid,)]) -> Result<Vec<Delivery>> {
    let mut found = with_rows!(
        Delivery;
        conn,
        ids,
        [("tenant", "uuid", |_row| tenant), ("delivery", "uuid", |row| row.0)],
        "SELECT sent.delivery_id, sent.endpoint_id, sent.event_type, sent.object_id, sent.payload,
                coalesce(queued.status, ended.status) AS status,
                coalesce(queued.attempts, ended.attempts) AS attempts, sent.max_attempts,
                coalesce(queued.run_after, ended.ended_at) AS run_after,
                coalesce(queued.last_status_code, ended.last_status_code) AS last_status_code,
                coalesce(queued.last_error, ended.last_error) AS last_error,
                coalesce(queued.last_response, ended.last_response) AS last_response, sent.created_at,
                CASE WHEN ended.status = 'delivered' THEN ended.ended_at END AS delivered_at
         FROM given JOIN webhook_deliveries AS sent
           ON sent.tenant_id = given.tenant AND sent.delivery_id = given.delivery
         LEFT JOIN webhook_queue AS queued ON queued.tenant_id = sent.tenant_id
           AND queued.endpoint_id = sent.endpoint_id AND queued.status IN ('pending', 'delivering')
           AND queued.delivery_id = sent.delivery_id
         LEFT JOIN webhook_outcomes AS ended ON ended.tenant_id = sent.tenant_id
           AND ended.endpoint_id = sent.endpoint_id AND ended.status IN ('delivered', 'dead')
           AND ended.delivery_id = sent.delivery_id",
    );
    found.sort_unstable_by_key(|delivery| std::cmp::Reverse(delivery.delivery_id));
    Ok(found)
}

/// A delivery of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, delivery: Uuid) -> Result<Option<Delivery>> {
    Ok(load(conn, tenant, &[(delivery,)]).await?.pop())
}

/// Queues a delivery that has ended once more, with all of its attempts; leaves one that has not as it is.
pub async fn replay(conn: &mut Conn, tenant: TenantId, delivery: Uuid, now: Timestamp) -> Result<()> {
    // Held, so that its object is not deleted while it changes places.
    let held = format!(
        "SELECT endpoint_id, CAST(octet_length(payload) AS bigint) FROM webhook_deliveries
         WHERE tenant_id = $1 AND delivery_id = $2 {}",
        conn.backend().for_update()
    );
    let held: Option<(Uuid, i64)> = fetch_optional!(conn, AssertSqlSafe(held), tenant, delivery)?;
    let Some((endpoint, payload_bytes)) = held else { return Ok(()) };
    let ended: Option<(Option<i64>, Option<String>, Option<String>)> = fetch_optional!(
        conn,
        "DELETE FROM webhook_outcomes
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status IN ('delivered', 'dead') AND delivery_id = $3
         RETURNING last_status_code, last_error, last_response",
        tenant,
        endpoint,
        delivery
    )?;
    let Some((last_status_code, last_error, last_response)) = ended else { return Ok(()) };
    execute!(
        conn,
        "INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, run_after,
                                    last_status_code, last_error, last_response)
         VALUES ($1, $2, 'pending', $3, $4, $5, $6, $7, $8)",
        tenant,
        endpoint,
        delivery,
        payload_bytes,
        now,
        last_status_code,
        last_error,
        last_response
    )?;
    Ok(())
}

/// A delivery and the endpoint that it goes to.
pub type Place = (Uuid, Uuid);

/// Where a delivery may be, in the order in which it moves: whoever waited for one that was moved finds it in the next.
const STANDS: [(&str, &str); 4] = [
    ("webhook_queue", "pending"),
    ("webhook_queue", "delivering"),
    ("webhook_outcomes", "delivered"),
    ("webhook_outcomes", "dead"),
];
/// One that is put back moves against that order, so all are looked for again, so often, while one is missing.
const LOOKS: usize = 3;

/// Removes what is known of deliveries besides what they say: each of them is in one of [`STANDS`].
pub async fn drop_all(conn: &mut Conn, tenant: TenantId, places: &[Place]) -> Result<()> {
    let mut dropped = 0;
    for (table, status) in [STANDS; LOOKS].concat() {
        if dropped >= places.len() {
            break;
        }
        let statement = drop_text(conn.backend(), table);
        let found = with_rows!(
            (Uuid,);
            conn,
            places,
            [
                ("tenant", "uuid", |_row| tenant),
                ("endpoint", "uuid", |row| row.1),
                ("status", "text", |_row| status),
                ("delivery", "uuid", |row| row.0),
            ],
            statement,
        );
        dropped += found.len();
    }
    Ok(())
}

/// See [`drop_all`]. The whole key stands in each given row: without one of its middle columns PostgreSQL would look at all
/// that an endpoint has for each of them.
pub fn drop_text(backend: Backend, table: &str) -> String {
    match backend {
        Backend::Postgres => format!(
            "DELETE FROM {table} USING given
             WHERE {table}.tenant_id = given.tenant AND {table}.endpoint_id = given.endpoint
               AND {table}.status = given.status AND {table}.delivery_id = given.delivery
             RETURNING {table}.delivery_id"
        ),
        Backend::Sqlite => format!(
            "DELETE FROM {table} WHERE (tenant_id, endpoint_id, status, delivery_id) IN
                 (SELECT tenant, endpoint, status, delivery FROM given)
             RETURNING delivery_id"
        ),
    }
}

/// Removes up to `most` deliveries of an endpoint that is gone. Those that somebody else holds at the moment stay for
/// the next time.
pub async fn drop_of_endpoint(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, most: i64) -> Result<u64> {
    for table in ["webhook_queue", "webhook_outcomes"] {
        let statement = format!(
            "SELECT delivery_id, endpoint_id FROM {table}
             WHERE tenant_id = $1 AND endpoint_id = $2 ORDER BY status, delivery_id LIMIT $3 {}",
            conn.backend().skip_locked()
        );
        let places: Vec<Place> = fetch_all!(conn, AssertSqlSafe(statement), tenant, endpoint, most)?;
        if !places.is_empty() {
            return drop_records(conn, tenant, &places).await;
        }
    }
    Ok(0)
}

/// Removes deliveries and all that is known of them; says how many.
async fn drop_records(conn: &mut Conn, tenant: TenantId, places: &[Place]) -> Result<u64> {
    let statement = match conn.backend() {
        Backend::Postgres => {
            "DELETE FROM webhook_deliveries USING given
             WHERE webhook_deliveries.tenant_id = given.tenant AND webhook_deliveries.delivery_id = given.delivery"
        }
        Backend::Sqlite => {
            "DELETE FROM webhook_deliveries
             WHERE (tenant_id, delivery_id) IN (SELECT tenant, delivery FROM given)"
        }
    };
    with_rows!(
        (i64,);
        conn,
        places,
        [("tenant", "uuid", |_row| tenant), ("delivery", "uuid", |row| row.0)],
        statement,
    );
    drop_all(conn, tenant, places).await?;
    Ok(places.len() as u64)
}

/// Removes the deliveries about an object.
pub async fn drop_of_object(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    let mut places: Vec<Place> = fetch_all!(
        conn,
        "DELETE FROM webhook_deliveries WHERE tenant_id = $1 AND object_id = $2 RETURNING delivery_id, endpoint_id",
        tenant,
        object_id
    )?;
    // In the order of a settlement.
    places.sort_unstable_by_key(|(delivery, endpoint)| (*endpoint, *delivery));
    drop_all(conn, tenant, &places).await
}

/// Endpoints of a tenant that are gone and still have deliveries. Each endpoint is one step, however much it has.
pub async fn orphaned(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Uuid>> {
    let mut orphaned = Vec::new();
    for table in ["webhook_queue", "webhook_outcomes"] {
        let statement = format!(
            "WITH RECURSIVE owners (endpoint_id) AS (
                 SELECT (SELECT endpoint_id FROM {table} WHERE tenant_id = $1 ORDER BY endpoint_id LIMIT 1)
                 UNION ALL
                 SELECT (SELECT later.endpoint_id FROM {table} AS later
                         WHERE later.tenant_id = $1 AND later.endpoint_id > owners.endpoint_id
                         ORDER BY later.endpoint_id LIMIT 1)
                 FROM owners WHERE owners.endpoint_id IS NOT NULL
             )
             SELECT endpoint_id FROM owners WHERE endpoint_id IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS known
                               WHERE known.tenant_id = $1 AND known.endpoint_id = owners.endpoint_id)"
        );
        let found: Vec<(Uuid,)> = fetch_all!(conn, AssertSqlSafe(statement), tenant)?;
        orphaned.extend(found.into_iter().map(|(endpoint,)| endpoint));
    }
    orphaned.sort_unstable();
    orphaned.dedup();
    Ok(orphaned)
}

/// Removes up to `most` deliveries to an endpoint that ended before an instant, oldest first. `made_before` is the
/// smallest id of that instant: nothing that was made later can have ended earlier.
pub async fn drop_ended(
    conn: &mut Conn,
    (tenant, endpoint): (TenantId, Uuid),
    status: &str,
    made_before: Uuid,
    before: Timestamp,
    most: i64,
) -> Result<u64> {
    let statement = format!(
        "SELECT delivery_id, endpoint_id FROM webhook_outcomes
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 AND delivery_id < $4 AND ended_at < $5
         ORDER BY delivery_id LIMIT $6 {}",
        conn.backend().skip_locked()
    );
    let places: Vec<Place> =
        fetch_all!(conn, AssertSqlSafe(statement), tenant, endpoint, status, made_before, before, most)?;
    drop_records(conn, tenant, &places).await
}
