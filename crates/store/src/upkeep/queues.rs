//! The queues as an operator sees them: what waits, what is stuck, and moving it on in small steps.
//!
//! These statements may read much of a queue; they are for operators, not for a hot path.

use model::{TenantId, Timestamp};
use serde::Serialize;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::actions::firings;
use crate::actions::webhooks::deliveries;
use crate::analysis::jobs::Priority;
use crate::db::{Conn, Result, execute, fetch_all, fetch_one};
use crate::outbox::messages::Channel;
use crate::upkeep::gauges::COUNT_LIMIT;

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct QueueState {
    /// How much is in it, counted up to [`COUNT_LIMIT`]; the other numbers are of those.
    pub waiting: i64,
    /// How much of that is due and nobody works on it.
    pub due: i64,
    /// Since when the oldest of these is due.
    pub oldest_due: Option<Timestamp>,
    /// How much somebody works on now.
    pub leased: i64,
    /// How much was tried before and failed.
    pub retried: i64,
    /// How much was begun by a process that never ended it.
    pub suspect: i64,
    /// How much waits until its account has money, or is no longer suspended.
    pub parked: i64,
}

/// The sums of a queue: the expression says whether a row is parked, the rest which rows are in the queue.
macro_rules! sums {
    ($parked:literal, $rows:literal) => {
        concat!(
            "SELECT count(*) AS waiting, \
                    CAST(coalesce(sum(CASE WHEN due_at <= $1 THEN 1 ELSE 0 END), 0) AS bigint) AS due, \
                    min(CASE WHEN due_at <= $1 THEN due_at END) AS oldest_due, \
                    CAST(coalesce(sum(CASE WHEN lease_until > $1 THEN 1 ELSE 0 END), 0) AS bigint) AS leased, \
                    CAST(coalesce(sum(CASE WHEN retried THEN 1 ELSE 0 END), 0) AS bigint) AS retried, \
                    CAST(coalesce(sum(CASE WHEN suspect THEN 1 ELSE 0 END), 0) AS bigint) AS suspect, \
                    CAST(coalesce(sum(CASE WHEN parked THEN 1 ELSE 0 END), 0) AS bigint) AS parked FROM (\
                 SELECT due_at, lease_until, attempts > 0 AS retried, \
                        begun > 0 AND (lease_until IS NULL OR lease_until <= $1) AS suspect, ",
            $parked,
            " AS parked FROM ",
            $rows,
            " LIMIT $2) AS queued"
        )
    };
}

/// The analyses of one priority that wait.
pub async fn jobs(conn: &mut Conn, priority: Priority, now: Timestamp) -> Result<QueueState> {
    fetch_one!(
        conn,
        sums!("unpaid", "jobs WHERE priority = $3 AND attempts <> -1"),
        now,
        COUNT_LIMIT,
        priority
    )
}

/// The webhook deliveries that wait.
pub async fn pending_deliveries(conn: &mut Conn, now: Timestamp) -> Result<QueueState> {
    fetch_one!(
        conn,
        sums!("FALSE", "webhook_queue WHERE endpoint_id >= $3 AND attempts <> -1"),
        now,
        COUNT_LIMIT,
        Uuid::nil()
    )
}

/// The messages of one channel that wait.
pub async fn messages(conn: &mut Conn, channel: Channel, now: Timestamp) -> Result<QueueState> {
    fetch_one!(
        conn,
        sums!("FALSE", "outbox WHERE channel = $3 AND attempts <> -1"),
        now,
        COUNT_LIMIT,
        channel
    )
}

/// Dead letters of all endpoints, and bulk runs that have not ended.
pub async fn ended_and_running(conn: &mut Conn) -> Result<(i64, i64)> {
    if conn.is_sharded() {
        return fetch_one!(
            conn,
            "SELECT (SELECT count(*) FROM webhook_outcomes WHERE status = 'dead'),
                    (SELECT count(*) FROM bulk_runs WHERE status = 'running')"
        );
    }
    fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum((SELECT count(*) FROM webhook_outcomes AS ended
                                   WHERE ended.tenant_id = known.tenant_id AND ended.endpoint_id = known.endpoint_id
                                     AND ended.status = 'dead')), 0) AS bigint),
                (SELECT count(*) FROM bulk_runs WHERE status = 'running')
         FROM webhook_endpoints AS known"
    )
}

/// An endpoint whose receiver fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct FailingEndpoint {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// The endpoint.
    pub endpoint_id: Uuid,
    /// Failures since its last success.
    pub consecutive_failures: i64,
    /// Until when it rests.
    pub resting_until: Option<Timestamp>,
    /// Deliveries that wait for it.
    pub waiting: i64,
    /// Its dead letters.
    pub dead: i64,
}

/// The endpoints with the most failures in a row.
pub async fn failing_endpoints(conn: &mut Conn, limit: i64) -> Result<Vec<FailingEndpoint>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, endpoint_id, consecutive_failures, resting_until,
                (SELECT count(*) FROM webhook_queue AS queued
                 WHERE queued.tenant_id = known.tenant_id AND queued.endpoint_id = known.endpoint_id
                   AND queued.status IN ('pending', 'delivering')) AS waiting,
                (SELECT count(*) FROM webhook_outcomes AS ended
                 WHERE ended.tenant_id = known.tenant_id AND ended.endpoint_id = known.endpoint_id
                   AND ended.status = 'dead') AS dead
         FROM webhook_endpoints AS known WHERE consecutive_failures > 0
         ORDER BY consecutive_failures DESC, endpoint_id LIMIT $1",
        limit
    )
}

/// Which rows of a queue are meant: those between two keys, both included.
#[derive(Clone, Debug)]
pub struct Selection {
    tenants: (TenantId, TenantId),
    ids: (Uuid, Uuid),
    objects: (String, String),
}

impl Selection {
    /// Everything in the queue.
    pub fn all() -> Self {
        Self {
            tenants: (TenantId(Uuid::nil()), TenantId(Uuid::max())),
            ids: (Uuid::nil(), Uuid::max()),
            // The greatest code point, oftener than an object id may have characters.
            objects: (String::new(), "\u{10FFFF}".repeat(512)),
        }
    }

    /// What a tenant has in the queue.
    pub fn of_tenant(tenant: TenantId) -> Self {
        Self { tenants: (tenant, tenant), ..Self::all() }
    }

    /// The same, in parts that go to one shard each, tenant by tenant: where the database is divided, rows of several tenants
    /// cannot be locked by one statement.
    async fn by_shard(&self, conn: &mut Conn, table: &str, after: TenantId) -> Result<Vec<Self>> {
        if !conn.is_sharded() {
            return Ok(vec![self.clone()]);
        }
        let statement = format!(
            "SELECT DISTINCT tenant_id FROM {table} WHERE tenant_id >= $1 AND tenant_id <= $2 AND tenant_id >= $3
             ORDER BY tenant_id"
        );
        let tenants: Vec<(TenantId,)> =
            fetch_all!(conn, AssertSqlSafe(statement), self.tenants.0, self.tenants.1, after)?;
        let part = |(tenant,)| Self { tenants: (tenant, tenant), ..self.clone() };
        Ok(tenants.into_iter().map(part).collect())
    }

    /// One delivery or message of a tenant.
    #[must_use]
    pub fn with_id(self, id: Uuid) -> Self {
        Self { ids: (id, id), ..self }
    }

    /// The analysis of one object of a tenant.
    #[must_use]
    pub fn with_object(self, object_id: &str) -> Self {
        Self { objects: (object_id.to_owned(), object_id.to_owned()), ..self }
    }
}

/// The key of a job: whose it is, and its object.
pub type JobKey = (TenantId, String);
/// The key of a delivery that waits or was given up: whose it is, its endpoint and itself.
pub type DeliveryKey = (TenantId, Uuid, Uuid);
/// The key of a message: whose it is, and itself.
pub type MessageKey = (TenantId, Uuid);

// Each of the following moves up to `limit` rows in the order of their keys, from the one after `after`, and returns their
// keys. So a walk through a queue ends, even if what it has moved fails again meanwhile. Rows that a worker is claiming are
// skipped.

/// What both parts of a statement say besides, so that they go to the same shard.
fn in_shard(conn: &Conn) -> &'static str {
    if conn.is_sharded() { " AND tenant_id = $1" } else { "" }
}

/// How many rows of a limit are left.
fn left<T>(limit: i64, moved: &[T]) -> i64 {
    limit.saturating_sub(i64::try_from(moved.len()).unwrap_or(i64::MAX))
}

/// Makes analyses due now that were tried before.
pub async fn requeue_jobs(
    conn: &mut Conn,
    chosen: &Selection,
    after: &JobKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<JobKey>> {
    let statement = format!(
        "{} UPDATE jobs SET run_at = $5, deadline_at = $5, attempts = 0, begun = 0, lease_token = NULL, lease_until = NULL
         WHERE (tenant_id, object_id) IN (SELECT chosen_tenant, chosen_object FROM chosen){}
         RETURNING tenant_id, object_id",
        chosen_jobs(conn),
        in_shard(conn)
    );
    move_jobs(conn, statement, chosen, after, now, limit).await
}

/// Removes analyses that were tried before and that nobody works on. Nothing was charged for them.
pub async fn drop_jobs(
    conn: &mut Conn,
    chosen: &Selection,
    after: &JobKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<JobKey>> {
    let statement = format!(
        "{} DELETE FROM jobs WHERE (tenant_id, object_id) IN (SELECT chosen_tenant, chosen_object FROM chosen){}
         RETURNING tenant_id, object_id",
        chosen_jobs(conn),
        in_shard(conn)
    );
    move_jobs(conn, statement, chosen, after, now, limit).await
}

fn chosen_jobs(conn: &Conn) -> String {
    format!(
        "WITH chosen AS MATERIALIZED (
             SELECT tenant_id AS chosen_tenant, object_id AS chosen_object FROM jobs
             WHERE tenant_id >= $1 AND tenant_id <= $2 AND object_id >= $3 AND object_id <= $4
               AND (attempts > 0 OR begun > 0) AND (lease_until IS NULL OR lease_until <= $5)
               AND (tenant_id, object_id) > ($7, $8){}
             ORDER BY tenant_id, object_id LIMIT $6 {})",
        in_shard(conn),
        conn.backend().skip_locked()
    )
}

async fn move_jobs(
    conn: &mut Conn,
    statement: String,
    chosen: &Selection,
    (tenant, object_id): &JobKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<JobKey>> {
    let mut moved: Vec<JobKey> = Vec::new();
    for part in chosen.by_shard(conn, "jobs", *tenant).await? {
        let some: Vec<JobKey> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            part.tenants.0,
            part.tenants.1,
            &part.objects.0,
            &part.objects.1,
            now,
            left(limit, &moved),
            *tenant,
            object_id
        )?;
        moved.extend(some);
    }
    moved.sort_unstable();
    Ok(moved)
}

/// Makes deliveries due now that wait for a later attempt.
pub async fn requeue_deliveries(
    conn: &mut Conn,
    chosen: &Selection,
    after: &DeliveryKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DeliveryKey>> {
    let in_shard = in_shard(conn);
    let statement = format!(
        "WITH chosen AS MATERIALIZED (
             SELECT tenant_id AS chosen_tenant, endpoint_id AS chosen_endpoint, delivery_id AS chosen_delivery
             FROM webhook_queue
             WHERE tenant_id >= $1 AND tenant_id <= $2 AND delivery_id >= $3 AND delivery_id <= $4
               AND status = 'pending' AND (run_after > $5 OR begun > 0)
               AND (tenant_id, endpoint_id, delivery_id) > ($7, $8, $9){in_shard}
             ORDER BY tenant_id, endpoint_id, delivery_id LIMIT $6 {})
         UPDATE webhook_queue SET run_after = $5, begun = 0
         WHERE status = 'pending' AND (tenant_id, endpoint_id, delivery_id) IN (
             SELECT chosen_tenant, chosen_endpoint, chosen_delivery FROM chosen){in_shard}
         RETURNING tenant_id, endpoint_id, delivery_id",
        conn.backend().skip_locked()
    );
    let mut moved: Vec<DeliveryKey> = Vec::new();
    for part in chosen.by_shard(conn, "webhook_queue", after.0).await? {
        let some: Vec<DeliveryKey> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            part.tenants.0,
            part.tenants.1,
            part.ids.0,
            part.ids.1,
            now,
            left(limit, &moved),
            after.0,
            after.1,
            after.2
        )?;
        moved.extend(some);
    }
    moved.sort_unstable();
    Ok(moved)
}

/// Turns deliveries that nobody is sending into dead letters.
pub async fn drop_deliveries(
    conn: &mut Conn,
    chosen: &Selection,
    after: &DeliveryKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DeliveryKey>> {
    #[derive(sqlx::FromRow)]
    struct Dropped {
        tenant_id: TenantId,
        endpoint_id: Uuid,
        delivery_id: Uuid,
        attempts: i64,
        last_status_code: Option<i64>,
        last_response: Option<String>,
    }
    let in_shard = in_shard(conn);
    let statement = format!(
        "WITH chosen AS MATERIALIZED (
             SELECT tenant_id AS chosen_tenant, endpoint_id AS chosen_endpoint, status AS chosen_status,
                    delivery_id AS chosen_delivery
             FROM webhook_queue
             WHERE tenant_id >= $1 AND tenant_id <= $2 AND delivery_id >= $3 AND delivery_id <= $4
               AND (lease_until IS NULL OR lease_until <= $5)
               AND (tenant_id, endpoint_id, delivery_id) > ($7, $8, $9){in_shard}
             ORDER BY tenant_id, endpoint_id, delivery_id LIMIT $6 {})
         DELETE FROM webhook_queue WHERE (tenant_id, endpoint_id, status, delivery_id) IN (
             SELECT chosen_tenant, chosen_endpoint, chosen_status, chosen_delivery FROM chosen){in_shard}
         RETURNING tenant_id, endpoint_id, delivery_id, attempts, last_status_code, last_response",
        conn.backend().skip_locked()
    );
    let mut dropped: Vec<Dropped> = Vec::new();
    for part in chosen.by_shard(conn, "webhook_queue", after.0).await? {
        let some: Vec<Dropped> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            part.tenants.0,
            part.tenants.1,
            part.ids.0,
            part.ids.1,
            now,
            left(limit, &dropped),
            after.0,
            after.1,
            after.2
        )?;
        dropped.extend(some);
    }
    for delivery in &dropped {
        execute!(
            conn,
            "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at,
                                           last_status_code, last_error, last_response)
             VALUES ($1, $2, 'dead', $3, $4, $5, $6, $7, $8)",
            delivery.tenant_id,
            delivery.endpoint_id,
            delivery.delivery_id,
            delivery.attempts,
            now,
            delivery.last_status_code,
            DROPPED,
            delivery.last_response.as_deref()
        )?;
    }
    let mut keys: Vec<DeliveryKey> =
        dropped.iter().map(|row| (row.tenant_id, row.endpoint_id, row.delivery_id)).collect();
    keys.sort_unstable();
    Ok(keys)
}

/// What a delivery or a firing says of itself that the operator dropped.
const DROPPED: &str = "dropped by the operator";

/// Dead letters.
async fn dead_letters(
    conn: &mut Conn,
    chosen: &Selection,
    after: &DeliveryKey,
    limit: i64,
) -> Result<Vec<DeliveryKey>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, endpoint_id, delivery_id FROM webhook_outcomes
         WHERE tenant_id >= $1 AND tenant_id <= $2 AND delivery_id >= $3 AND delivery_id <= $4
           AND status = 'dead' AND (tenant_id, endpoint_id, delivery_id) > ($5, $6, $7)
         ORDER BY tenant_id, endpoint_id, delivery_id LIMIT $8",
        chosen.tenants.0,
        chosen.tenants.1,
        chosen.ids.0,
        chosen.ids.1,
        after.0,
        after.1,
        after.2,
        limit
    )
}

/// Queues dead letters once more, with all of their attempts. One whose content is gone is removed.
pub async fn requeue_dead_letters(
    conn: &mut Conn,
    chosen: &Selection,
    after: &DeliveryKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DeliveryKey>> {
    let dead = dead_letters(conn, chosen, after, limit).await?;
    for (tenant, endpoint, delivery) in &dead {
        deliveries::replay(conn, *tenant, *delivery, now).await?;
        execute!(
            conn,
            "DELETE FROM webhook_outcomes
             WHERE tenant_id = $1 AND endpoint_id = $2 AND status = 'dead' AND delivery_id = $3",
            *tenant,
            *endpoint,
            *delivery
        )?;
    }
    Ok(dead)
}

/// Removes dead letters.
pub async fn drop_dead_letters(
    conn: &mut Conn,
    chosen: &Selection,
    after: &DeliveryKey,
    limit: i64,
) -> Result<Vec<DeliveryKey>> {
    let dead = dead_letters(conn, chosen, after, limit).await?;
    for of_one in dead.chunk_by(|one, other| one.0 == other.0) {
        let keys: Vec<deliveries::DeliveryKey> =
            of_one.iter().map(|(_, endpoint, delivery)| (*delivery, *endpoint)).collect();
        deliveries::drop_records(conn, of_one[0].0, &keys).await?;
    }
    Ok(dead)
}

/// Makes messages due now that wait for a later attempt.
pub async fn requeue_messages(
    conn: &mut Conn,
    channel: Channel,
    chosen: &Selection,
    after: &MessageKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<MessageKey>> {
    let in_shard = in_shard(conn);
    let statement = format!(
        "WITH chosen AS MATERIALIZED (
             SELECT tenant_id AS chosen_tenant, message_id AS chosen_message FROM outbox
             WHERE channel = $7 AND tenant_id >= $1 AND tenant_id <= $2 AND message_id >= $3 AND message_id <= $4
               AND (run_after > $5 OR attempts > 0 OR begun > 0) AND (lease_until IS NULL OR lease_until <= $5)
               AND (tenant_id, message_id) > ($8, $9){in_shard}
             ORDER BY tenant_id, message_id LIMIT $6 {})
         UPDATE outbox SET run_after = $5, attempts = 0, begun = 0, lease_token = NULL, lease_until = NULL
         WHERE (tenant_id, message_id) IN (SELECT chosen_tenant, chosen_message FROM chosen){in_shard}
         RETURNING tenant_id, message_id",
        conn.backend().skip_locked()
    );
    let mut moved: Vec<MessageKey> = Vec::new();
    for part in chosen.by_shard(conn, "outbox", after.0).await? {
        let some: Vec<MessageKey> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            part.tenants.0,
            part.tenants.1,
            part.ids.0,
            part.ids.1,
            now,
            left(limit, &moved),
            channel,
            after.0,
            after.1
        )?;
        moved.extend(some);
    }
    moved.sort_unstable();
    Ok(moved)
}

/// Removes messages that nobody is sending, and turns the firings that they report into errors.
pub async fn drop_messages(
    conn: &mut Conn,
    channel: Channel,
    chosen: &Selection,
    after: &MessageKey,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<MessageKey>> {
    let in_shard = in_shard(conn);
    let statement = format!(
        "WITH chosen AS MATERIALIZED (
             SELECT tenant_id AS chosen_tenant, message_id AS chosen_message FROM outbox
             WHERE channel = $7 AND tenant_id >= $1 AND tenant_id <= $2 AND message_id >= $3 AND message_id <= $4
               AND (lease_until IS NULL OR lease_until <= $5) AND (tenant_id, message_id) > ($8, $9){in_shard}
             ORDER BY tenant_id, message_id LIMIT $6 {})
         DELETE FROM outbox
         WHERE (tenant_id, message_id) IN (SELECT chosen_tenant, chosen_message FROM chosen){in_shard}
         RETURNING tenant_id, message_id, firing_id",
        conn.backend().skip_locked()
    );
    let mut dropped: Vec<(TenantId, Uuid, Option<Uuid>)> = Vec::new();
    for part in chosen.by_shard(conn, "outbox", after.0).await? {
        let some: Vec<(TenantId, Uuid, Option<Uuid>)> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            part.tenants.0,
            part.tenants.1,
            part.ids.0,
            part.ids.1,
            now,
            left(limit, &dropped),
            channel,
            after.0,
            after.1
        )?;
        dropped.extend(some);
    }
    dropped.sort_unstable();
    for (tenant, _, firing) in &dropped {
        if let Some(firing) = firing {
            firings::settle(conn, *tenant, *firing, model::api::FiringStatus::Error, DROPPED).await?;
        }
    }
    Ok(dropped.into_iter().map(|(tenant, message, _)| (tenant, message)).collect())
}
