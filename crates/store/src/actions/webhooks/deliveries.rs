//! Webhook deliveries as their owner sees them: what is sent, how far it is, and how it ended.
//!
//! What is sent is written once. The state is a row of the queue ([`crate::actions::webhooks::queue`]) until the delivery has
//! ended, and a row of outcomes from then on; a replay moves it back.

use std::cmp::Reverse;
use std::time::Duration;

use model::api::DeliveryStatus;
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::actions::webhooks::endpoints;
use crate::db::{Conn, Lease, Result, Rows, Sql, bigint, execute, fetch_all, fetch_one, fetch_optional};

/// A delivery to be queued.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, made at `created_at`.
    pub delivery_id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// The type of the webhook event.
    pub event_type: &'static str,
    /// The object that it is about; it is deleted with the object.
    pub object_id: Option<String>,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// When it is sent at the earliest.
    pub run_after: Timestamp,
    /// When it was queued.
    pub created_at: Timestamp,
    /// The same, as [`endpoints::Endpoint::active_time`].
    pub active_since: Timestamp,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
    /// The lease that it is born with, if a courier of this process sends it at once.
    pub lease: Option<Lease>,
}

impl NewDelivery {
    fn status(&self) -> DeliveryStatus {
        if self.lease.is_some() { DeliveryStatus::Delivering } else { DeliveryStatus::Pending }
    }
}

/// Queues deliveries, in the transaction of the change that they report.
pub async fn queue(conn: &mut Conn, deliveries: &[NewDelivery]) -> Result<()> {
    let mut batch = conn.batch();
    batch.add(
        Rows::of(deliveries)
            .column("tenant_id", |delivery| delivery.tenant)
            .column("delivery_id", |delivery| delivery.delivery_id)
            .column("endpoint_id", |delivery| delivery.endpoint_id)
            .column("event_type", |delivery| delivery.event_type)
            .column("object_id", |delivery| delivery.object_id.as_deref())
            .column("payload", |delivery| delivery.payload.as_str())
            .column("max_attempts", |delivery| delivery.max_attempts)
            .column("created_at", |delivery| delivery.created_at)
            .column("traceparent", |delivery| delivery.traceparent.as_deref())
            .insert("webhook_deliveries", ""),
    );
    batch.add(
        Rows::of(deliveries)
            .column("tenant_id", |delivery| delivery.tenant)
            .column("endpoint_id", |delivery| delivery.endpoint_id)
            .column("status", |delivery| delivery.status().as_str())
            .column("delivery_id", |delivery| delivery.delivery_id)
            .column("payload_bytes", |delivery| bigint(delivery.payload.len()))
            .column("begun", |delivery| i64::from(delivery.lease.is_some()))
            .column("lease_token", |delivery| delivery.lease.map(|lease| lease.token))
            .column("lease_until", |delivery| delivery.lease.map(|lease| lease.until))
            .column("run_after", |delivery| delivery.run_after)
            .column("active_since", |delivery| delivery.active_since)
            .insert("webhook_queue", ""),
    );
    batch.run(conn).await
}

/// A delivery and its current state.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Delivery {
    /// Its id.
    pub delivery_id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// The type of the webhook event.
    pub event_type: String,
    /// The object that it is about.
    pub object_id: Option<String>,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// How far it is.
    pub status: DeliveryStatus,
    /// Attempts that have ended.
    pub attempts: i64,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// When it is tried next; of one that has ended, when that was.
    pub run_after: Timestamp,
    /// The HTTP status of the last response.
    pub last_status_code: Option<i64>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The start of the last response.
    pub last_response: Option<String>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the receiver accepted it.
    pub delivered_at: Option<Timestamp>,
}

/// Which deliveries of a tenant are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryFilter {
    /// Only those to this endpoint.
    pub endpoint: Option<Uuid>,
    /// Only those with this status.
    pub status: Option<DeliveryStatus>,
    /// Only those with smaller ids.
    pub before: Option<Uuid>,
}

/// Lists deliveries of a tenant, newest first; those of a deleted endpoint are hidden.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    filter: DeliveryFilter,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let before = filter.before.unwrap_or(Uuid::max());
    let mut ids = match (filter.endpoint, filter.status) {
        (None, None) => {
            let newest: Vec<(Uuid,)> = fetch_all!(
                conn,
                "SELECT delivery_id FROM webhook_deliveries
                 WHERE tenant_id = $1 AND delivery_id < $2 AND EXISTS (SELECT 1 FROM webhook_endpoints AS known
                     WHERE known.tenant_id = $1 AND known.endpoint_id = webhook_deliveries.endpoint_id)
                 ORDER BY delivery_id DESC LIMIT $3",
                tenant,
                before,
                limit
            )?;
            newest
        }
        _ => newest_by_endpoint(conn, tenant, filter, before, limit).await?,
    };
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.truncate(usize::try_from(limit).unwrap_or(0));
    load(conn, tenant, &ids).await
}

/// Deliveries about an object, newest first: all up to `limit`, or those before a time and an id. Those of a deleted endpoint
/// are hidden.
pub async fn of_object(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    before: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let (created_at, delivery_id) = before.unwrap_or((Timestamp::MAX, Uuid::max()));
    let ids: Vec<(Uuid,)> = fetch_all!(
        conn,
        "SELECT delivery_id FROM webhook_deliveries
         WHERE tenant_id = $1 AND object_id = $2 AND (created_at, delivery_id) < ($3, $4)
           AND EXISTS (SELECT 1 FROM webhook_endpoints AS known
               WHERE known.tenant_id = $1 AND known.endpoint_id = webhook_deliveries.endpoint_id)
         ORDER BY created_at DESC, delivery_id DESC LIMIT $5",
        tenant,
        object_id,
        created_at,
        delivery_id,
        limit
    )?;
    let mut found = load(conn, tenant, &ids).await?;
    found.sort_unstable_by_key(|delivery| Reverse((delivery.created_at, delivery.delivery_id)));
    Ok(found)
}

/// The newest ids of each endpoint and status. A tenant has few endpoints: some short reads by the primary key instead of one
/// more index that every attempt would have to maintain.
async fn newest_by_endpoint(
    conn: &mut Conn,
    tenant: TenantId,
    filter: DeliveryFilter,
    before: Uuid,
    limit: i64,
) -> Result<Vec<(Uuid,)>> {
    let known = endpoints::of_tenant(conn, tenant).await?;
    let endpoints =
        known.iter().map(|known| known.endpoint_id).filter(|id| filter.endpoint.is_none_or(|one| one == *id));
    let statuses: Vec<DeliveryStatus> = DeliveryStatus::ALL
        .into_iter()
        .filter(|known| filter.status.is_none_or(|one| one == *known))
        .collect();
    let mut ids = Vec::new();
    for endpoint in endpoints {
        for status in &statuses {
            let text = match status {
                DeliveryStatus::Pending | DeliveryStatus::Delivering => {
                    "SELECT delivery_id FROM webhook_queue
                     WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 AND delivery_id < $4
                     ORDER BY delivery_id DESC LIMIT $5"
                }
                DeliveryStatus::Delivered | DeliveryStatus::Dead => {
                    "SELECT delivery_id FROM webhook_outcomes
                     WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 AND delivery_id < $4
                     ORDER BY delivery_id DESC LIMIT $5"
                }
            };
            let some: Vec<(Uuid,)> = fetch_all!(conn, text, tenant, endpoint, *status, before, limit)?;
            ids.extend(some);
        }
    }
    Ok(ids)
}

/// Reads deliveries by their ids, newest first.
async fn load(conn: &mut Conn, tenant: TenantId, ids: &[(Uuid,)]) -> Result<Vec<Delivery>> {
    let mut found = Rows::of(ids)
        .column("tenant", |_| tenant)
        .column("delivery", |id| id.0)
        .with_given(
            "SELECT sent.delivery_id, sent.endpoint_id, sent.event_type, sent.object_id, sent.payload,
                    coalesce(queued.status, ended.status) AS status,
                    coalesce(queued.attempts, ended.attempts) AS attempts, sent.max_attempts,
                    coalesce(queued.run_after, ended.ended_at) AS run_after,
                    coalesce(queued.last_status_code, ended.last_status_code) AS last_status_code,
                    coalesce(queued.last_error, ended.last_error) AS last_error,
                    coalesce(queued.last_response, ended.last_response) AS last_response, sent.created_at,
                    CASE WHEN ended.status = 'delivered' THEN ended.ended_at END AS delivered_at
             FROM given CROSS JOIN webhook_deliveries AS sent
             LEFT JOIN webhook_queue AS queued ON queued.tenant_id = sent.tenant_id
               AND queued.endpoint_id = sent.endpoint_id AND queued.status IN ('pending', 'delivering')
               AND queued.delivery_id = sent.delivery_id
             LEFT JOIN webhook_outcomes AS ended ON ended.tenant_id = sent.tenant_id
               AND ended.endpoint_id = sent.endpoint_id AND ended.status IN ('delivered', 'dead')
               AND ended.delivery_id = sent.delivery_id
             WHERE sent.tenant_id = given.tenant AND sent.delivery_id = given.delivery",
        )
        .fetch::<Delivery>(conn)
        .await?;
    found.sort_unstable_by_key(|delivery| Reverse(delivery.delivery_id));
    Ok(found)
}

/// A delivery that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct EndedDelivery {
    /// Its id.
    pub delivery_id: Uuid,
    /// How it ended.
    pub status: DeliveryStatus,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

impl EndedDelivery {
    /// From being queued to its end.
    pub fn duration(&self) -> Duration {
        self.ended_at.since(self.created_at)
    }
}

/// The newest deliveries to an endpoint that have ended, newest first.
pub async fn newest_ended(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Uuid,
    limit: i64,
) -> Result<Vec<EndedDelivery>> {
    let mut found = Vec::new();
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Dead] {
        let some: Vec<EndedDelivery> = fetch_all!(
            conn,
            "WITH newest AS MATERIALIZED (
                 SELECT delivery_id AS newest_id, status, ended_at FROM webhook_outcomes
                 WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3
                 ORDER BY delivery_id DESC LIMIT $4
             )
             SELECT delivery_id, status, created_at, ended_at
             FROM newest CROSS JOIN webhook_deliveries WHERE tenant_id = $1 AND delivery_id = newest_id",
            tenant,
            endpoint,
            status,
            limit
        )?;
        found.extend(some);
    }
    found.sort_unstable_by_key(|ended| Reverse(ended.delivery_id));
    found.truncate(usize::try_from(limit).unwrap_or(0));
    Ok(found)
}

/// The number of deliveries to an endpoint that wait or are being sent, counted up to `limit`.
pub async fn count_waiting(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, limit: i64) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (
             SELECT 1 FROM webhook_queue WHERE tenant_id = $1 AND endpoint_id = $2 LIMIT $3
         ) AS waiting",
        tenant,
        endpoint,
        limit
    )?;
    Ok(count)
}

/// A delivery of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, delivery: Uuid) -> Result<Option<Delivery>> {
    Ok(load(conn, tenant, &[(delivery,)]).await?.pop())
}

/// Queues a delivery that has ended once more, with all of its attempts; nothing happens to one that has not ended.
pub async fn replay(conn: &mut Conn, tenant: TenantId, delivery: Uuid, now: Timestamp) -> Result<()> {
    // Locked, so that its object is not deleted while it moves back to the queue.
    let statement = format!(
        "SELECT endpoint_id, CAST(octet_length(payload) AS bigint) FROM webhook_deliveries
         WHERE tenant_id = $1 AND delivery_id = $2 {}",
        conn.backend().for_update()
    );
    let locked: Option<(Uuid, i64)> = fetch_optional!(conn, AssertSqlSafe(statement), tenant, delivery)?;
    let Some((endpoint, payload_bytes)) = locked else { return Ok(()) };
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
    let known = endpoints::find(conn, tenant, endpoint).await?;
    let active_since = known.map_or(now, |known| known.active_time(now));
    execute!(
        conn,
        "INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, run_after,
                                    last_status_code, last_error, last_response, active_since)
         VALUES ($1, $2, 'pending', $3, $4, $5, $6, $7, $8, $9)",
        tenant,
        endpoint,
        delivery,
        payload_bytes,
        now,
        last_status_code,
        last_error,
        last_response,
        active_since
    )?;
    Ok(())
}

/// A delivery and the endpoint that it goes to.
pub type DeliveryKey = (Uuid, Uuid);

/// Where the state of a delivery may be, in the order in which it moves: a statement that waited for a row that was moved
/// finds it in the next.
const LOCATIONS: [(&str, DeliveryStatus); 4] = [
    ("webhook_queue", DeliveryStatus::Pending),
    ("webhook_queue", DeliveryStatus::Delivering),
    ("webhook_outcomes", DeliveryStatus::Delivered),
    ("webhook_outcomes", DeliveryStatus::Dead),
];
/// A delivery that is put back moves against that order, so all locations are searched again while one is missing.
const SEARCHES: usize = 3;

/// Removes the state of deliveries, but not what they send.
pub async fn drop_state(conn: &mut Conn, tenant: TenantId, deliveries: &[DeliveryKey]) -> Result<()> {
    let mut dropped = 0;
    for (table, status) in [LOCATIONS; SEARCHES].concat() {
        if dropped >= deliveries.len() {
            break;
        }
        // The whole key stands in each given row: without one of its middle columns PostgreSQL would read everything that an
        // endpoint has for each of them.
        let sqlite = format!(
            "DELETE FROM {table} WHERE (tenant_id, endpoint_id, status, delivery_id) IN
                 (SELECT tenant, endpoint, status, delivery FROM given)
             RETURNING delivery_id"
        );
        let postgres = format!(
            "DELETE FROM {table} USING given
             WHERE {table}.tenant_id = given.tenant AND {table}.endpoint_id = given.endpoint
               AND {table}.status = given.status AND {table}.delivery_id = given.delivery
             RETURNING {table}.delivery_id"
        );
        let found = Rows::of(deliveries)
            .column("tenant", |_| tenant)
            .column("endpoint", |key| key.1)
            .column("status", |_| status.as_str())
            .column("delivery", |key| key.0)
            .with_given(Sql { sqlite: &sqlite, postgres: &postgres })
            .fetch::<(Uuid,)>(conn)
            .await?;
        dropped += found.len();
    }
    Ok(())
}

/// Removes up to `limit` deliveries of a deleted endpoint. Those that another transaction has locked stay for the next time.
pub async fn drop_of_endpoint(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, limit: i64) -> Result<u64> {
    for table in ["webhook_queue", "webhook_outcomes"] {
        let statement = format!(
            "SELECT delivery_id, endpoint_id FROM {table}
             WHERE tenant_id = $1 AND endpoint_id = $2 ORDER BY status, delivery_id LIMIT $3 {}",
            conn.backend().skip_locked()
        );
        let deliveries: Vec<DeliveryKey> =
            fetch_all!(conn, AssertSqlSafe(statement), tenant, endpoint, limit)?;
        if !deliveries.is_empty() {
            return drop_records(conn, tenant, &deliveries).await;
        }
    }
    Ok(0)
}

/// Whether a deleted endpoint still has deliveries.
pub async fn are_left(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<bool> {
    for table in ["webhook_queue", "webhook_outcomes"] {
        let statement = format!(
            "SELECT CAST(1 AS bigint) FROM {table} WHERE tenant_id = $1 AND endpoint_id = $2 ORDER BY status LIMIT 1"
        );
        let found: Option<(i64,)> = fetch_optional!(conn, AssertSqlSafe(statement), tenant, endpoint)?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes deliveries with their state; returns how many.
pub(crate) async fn drop_records(
    conn: &mut Conn,
    tenant: TenantId,
    deliveries: &[DeliveryKey],
) -> Result<u64> {
    Rows::of(deliveries)
        .column("tenant_id", |_| tenant)
        .column("delivery_id", |key| key.0)
        .delete("webhook_deliveries", "")
        .execute(conn)
        .await?;
    drop_state(conn, tenant, deliveries).await?;
    Ok(deliveries.len() as u64)
}

/// Removes the newest deliveries about an object that has more than `limit` of them; false when it has not.
pub async fn drop_some_of_object(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    limit: i64,
) -> Result<bool> {
    let mut deliveries: Vec<DeliveryKey> = fetch_all!(
        conn,
        "SELECT delivery_id, endpoint_id FROM webhook_deliveries WHERE tenant_id = $1 AND object_id = $2
         ORDER BY created_at DESC, delivery_id DESC LIMIT $3",
        tenant,
        object_id,
        limit + 1
    )?;
    if i64::try_from(deliveries.len()).is_ok_and(|found| found <= limit) {
        return Ok(false);
    }
    // In key order, as results are settled, to avoid deadlocks.
    deliveries.sort_unstable_by_key(|(delivery, endpoint)| (*endpoint, *delivery));
    drop_records(conn, tenant, &deliveries).await?;
    Ok(true)
}

/// Removes the deliveries about an object.
pub async fn drop_of_object(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    let mut deliveries: Vec<DeliveryKey> = fetch_all!(
        conn,
        "DELETE FROM webhook_deliveries WHERE tenant_id = $1 AND object_id = $2 RETURNING delivery_id, endpoint_id",
        tenant,
        object_id
    )?;
    // In key order, as results are settled, to avoid deadlocks.
    deliveries.sort_unstable_by_key(|(delivery, endpoint)| (*endpoint, *delivery));
    drop_state(conn, tenant, &deliveries).await
}

/// Deleted endpoints of a tenant that still have deliveries. Each endpoint is one step, however many deliveries it has.
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

/// Removes up to `limit` deliveries to an endpoint that ended before an instant, oldest first. `made_before` is the smallest
/// id of that instant: a delivery that was created later cannot have ended earlier.
pub async fn drop_ended(
    conn: &mut Conn,
    (tenant, endpoint): (TenantId, Uuid),
    status: DeliveryStatus,
    made_before: Uuid,
    before: Timestamp,
    limit: i64,
) -> Result<u64> {
    let statement = format!(
        "SELECT delivery_id, endpoint_id FROM webhook_outcomes
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 AND delivery_id < $4 AND ended_at < $5
         ORDER BY delivery_id LIMIT $6 {}",
        conn.backend().skip_locked()
    );
    let deliveries: Vec<DeliveryKey> =
        fetch_all!(conn, AssertSqlSafe(statement), tenant, endpoint, status, made_before, before, limit)?;
    drop_records(conn, tenant, &deliveries).await
}
