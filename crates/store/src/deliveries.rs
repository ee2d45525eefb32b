//! Webhook deliveries: queued with the change that they tell of, sent under a lease, kept for a while afterwards.

use model::{TenantId, Timestamp};
use sqlx::{AssertSqlSafe, QueryBuilder, Sqlite};
use uuid::Uuid;

use crate::bulk::{self, insert_many, with_rows};
use crate::database::{execute, fetch_all, fetch_one, fetch_optional};
use crate::{Backend, Conn, Result, wakeups};

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
            ("status", "text", |_row| "pending"),
            ("max_attempts", "bigint", |row| row.max_attempts),
            ("run_after", "timestamptz", |row| row.run_after),
            ("created_at", "timestamptz", |row| row.created_at),
            ("traceparent", "text", |row| row.traceparent.as_deref()),
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
    /// When it is tried next; of one that is dead, when it was given up.
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

/// What a worker holds deliveries by.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// Only this token settles them.
    pub token: Uuid,
    /// When it ends by itself.
    pub until: Timestamp,
}

/// An endpoint with deliveries that are due.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Turn {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// The endpoint.
    pub endpoint_id: Uuid,
    /// Where deliveries go.
    pub url: String,
    /// Its sealed secret.
    pub secret: Vec<u8>,
    /// Failures since its last success.
    pub consecutive_failures: i64,
    /// The end of a rest, which has passed.
    pub resting_until: Option<Timestamp>,
    /// When it was last edited.
    pub updated_at: Timestamp,
}

/// A delivery that a worker holds.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Claimed {
    /// Its id.
    pub delivery_id: Uuid,
    /// What it tells.
    pub event_type: String,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// Attempts that have ended.
    pub attempts: i64,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

/// A delivery and the lease that it was claimed under.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Whose it is.
    pub tenant: TenantId,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The lease.
    pub token: Uuid,
}

/// What became of an attempt.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Whose delivery it is.
    pub tenant: TenantId,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The lease that it was held by.
    pub token: Uuid,
    /// `pending`, `delivered` or `dead`.
    pub status: &'static str,
    /// When it is tried next, or was given up.
    pub run_after: Timestamp,
    /// The status of the answer.
    pub status_code: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
    /// The start of the answer.
    pub response: Option<String>,
    /// When the receiver took it.
    pub delivered_at: Option<Timestamp>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT delivery_id, endpoint_id, event_type, object_id, payload, status, attempts, max_attempts, \
             run_after, last_status_code, last_error, last_response, created_at, delivered_at FROM webhook_deliveries ",
            $rest
        )
    };
}

/// Deliveries of a tenant, newest first; those of an endpoint that is gone are out of sight.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Option<Uuid>,
    status: Option<&str>,
    limit: i64,
) -> Result<Vec<Delivery>> {
    let Some(endpoint) = endpoint else {
        return match status {
            None => {
                fetch_all!(
                    conn,
                    select!(
                        "WHERE tenant_id = $1 AND EXISTS (SELECT 1 FROM webhook_endpoints AS known \
                             WHERE known.tenant_id = $1 AND known.endpoint_id = webhook_deliveries.endpoint_id) \
                         ORDER BY delivery_id DESC LIMIT $2"
                    ),
                    tenant,
                    limit
                )
            }
            Some(status) => {
                fetch_all!(
                    conn,
                    select!(
                        "WHERE tenant_id = $1 AND status = $2 AND EXISTS (SELECT 1 FROM webhook_endpoints AS known \
                             WHERE known.tenant_id = $1 AND known.endpoint_id = webhook_deliveries.endpoint_id) \
                         ORDER BY delivery_id DESC LIMIT $3"
                    ),
                    tenant,
                    status,
                    limit
                )
            }
        };
    };
    // The index of an endpoint's deliveries is by status: four short reads, each in order, instead of one more index.
    let statuses = status.map_or_else(|| vec!["pending", "delivering", "delivered", "dead"], |one| vec![one]);
    let mut found: Vec<Delivery> = Vec::new();
    for status in statuses {
        let some: Vec<Delivery> = fetch_all!(
            conn,
            select!(
                "WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 ORDER BY delivery_id DESC LIMIT $4"
            ),
            tenant,
            endpoint,
            status,
            limit
        )?;
        found.extend(some);
    }
    found.sort_by_key(|delivery| std::cmp::Reverse(delivery.delivery_id));
    found.truncate(usize::try_from(limit).unwrap_or(0));
    Ok(found)
}

/// A delivery of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, delivery: Uuid) -> Result<Option<Delivery>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND delivery_id = $2"), tenant, delivery)
}

/// Queues a delivery that has ended once more, with all of its attempts; leaves one that has not as it is.
pub async fn replay(conn: &mut Conn, tenant: TenantId, delivery: Uuid, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_deliveries SET status = 'pending', attempts = 0, run_after = $3, delivered_at = NULL
         WHERE tenant_id = $1 AND delivery_id = $2 AND status IN ('delivered', 'dead')",
        tenant,
        delivery,
        now
    )?;
    Ok(())
}

/// Makes the delivery of an endpoint that would be tried first due at once: it shows how the receiver is.
pub async fn hasten(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_deliveries SET run_after = $3
         WHERE tenant_id = $1 AND status = 'pending' AND run_after > $3 AND delivery_id IN (
             SELECT delivery_id FROM webhook_deliveries
             WHERE endpoint_id = $2 AND status IN ('pending', 'delivering') ORDER BY due_at LIMIT 1)",
        tenant,
        endpoint,
        now
    )?;
    Ok(())
}

/// Tells the workers of other processes, once the transaction is committed, that there is something to send.
pub async fn announce(conn: &mut Conn) -> Result<()> {
    wakeups::announce_deliveries(conn).await
}

/// The endpoints with something to send, each in one step however much it has.
macro_rules! turns {
    ($rest:literal) => {
        concat!(
            "WITH RECURSIVE turns (endpoint_id) AS ( \
                 SELECT (SELECT endpoint_id FROM webhook_deliveries \
                         WHERE status IN ('pending', 'delivering') AND endpoint_id > $1 ORDER BY endpoint_id LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT later.endpoint_id FROM webhook_deliveries AS later \
                         WHERE later.status IN ('pending', 'delivering') AND later.endpoint_id > turns.endpoint_id \
                         ORDER BY later.endpoint_id LIMIT 1) \
                 FROM turns WHERE turns.endpoint_id IS NOT NULL \
             ) ",
            $rest
        )
    };
}

/// The endpoints whose turn comes after another's: enabled, not resting, and with something due.
pub async fn turns(conn: &mut Conn, after: Uuid, now: Timestamp, limit: i64) -> Result<Vec<Turn>> {
    // Single values, not joins, decide whose turn it is: so no planner leaves the order of the walk, or goes further
    // than it has to.
    fetch_all!(
        conn,
        turns!(
            "SELECT known.tenant_id, known.endpoint_id, known.url, known.secret, known.consecutive_failures, \
                    known.resting_until, known.updated_at \
             FROM (SELECT endpoint_id FROM turns \
                   WHERE (SELECT count(*) FROM webhook_endpoints AS ready WHERE ready.endpoint_id = turns.endpoint_id \
                            AND ready.enabled AND (ready.resting_until IS NULL OR ready.resting_until <= $2)) = 1 \
                     AND (SELECT due.due_at FROM webhook_deliveries AS due WHERE due.endpoint_id = turns.endpoint_id \
                            AND due.status IN ('pending', 'delivering') ORDER BY due.due_at LIMIT 1) <= $2 \
                   LIMIT $3) AS chosen \
             JOIN webhook_endpoints AS known ON known.endpoint_id = chosen.endpoint_id ORDER BY known.endpoint_id"
        ),
        after,
        now,
        limit
    )
}

/// When something is due next, as far as can be told now.
pub async fn next_due(conn: &mut Conn) -> Result<Option<Timestamp>> {
    let (due,): (Option<Timestamp>,) = fetch_one!(
        conn,
        turns!(
            "SELECT min(CASE WHEN resting_until > due_at THEN resting_until ELSE due_at END) FROM ( \
                 SELECT known.resting_until AS resting_until, \
                        (SELECT min(due.due_at) FROM webhook_deliveries AS due \
                         WHERE due.endpoint_id = turns.endpoint_id AND due.status IN ('pending', 'delivering')) AS due_at \
                 FROM turns JOIN webhook_endpoints AS known ON known.endpoint_id = turns.endpoint_id \
                 WHERE known.enabled) AS waiting"
        ),
        Uuid::nil()
    )?;
    Ok(due)
}

/// Takes up to `limit` due deliveries of an endpoint, longest due first.
pub async fn claim(
    conn: &mut Conn,
    turn: &Turn,
    now: Timestamp,
    lease: Lease,
    limit: i64,
) -> Result<Vec<Claimed>> {
    // Materialized: run again for each row, the inner query would lock and claim more than its limit.
    let statement = format!(
        "WITH due AS MATERIALIZED (
             SELECT delivery_id AS due_delivery FROM webhook_deliveries
             WHERE endpoint_id = $1 AND status IN ('pending', 'delivering') AND due_at <= $2
             ORDER BY due_at LIMIT $3 {}
         )
         UPDATE webhook_deliveries SET status = 'delivering', lease_token = $4, lease_until = $5
         FROM due WHERE tenant_id = $6 AND delivery_id = due_delivery
         RETURNING delivery_id, event_type, payload, attempts, max_attempts, traceparent",
        conn.backend().skip_locked()
    );
    fetch_all!(
        conn,
        AssertSqlSafe(statement),
        turn.endpoint_id,
        now,
        limit,
        lease.token,
        lease.until,
        turn.tenant_id
    )
}

/// Whether a delivery is still to be sent as it was claimed: it is there and held by its lease, and its endpoint is
/// enabled and was not edited since.
pub async fn is_current(conn: &mut Conn, held: Held, endpoint_updated_at: Timestamp) -> Result<bool> {
    let found: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT CAST(1 AS bigint) FROM webhook_deliveries AS delivery
         JOIN webhook_endpoints AS known
           ON known.tenant_id = delivery.tenant_id AND known.endpoint_id = delivery.endpoint_id
         WHERE delivery.tenant_id = $1 AND delivery.delivery_id = $2 AND delivery.lease_token = $3
           AND known.enabled AND known.updated_at = $4",
        held.tenant,
        held.delivery_id,
        held.token,
        endpoint_updated_at
    )?;
    Ok(found.is_some())
}

/// Locks deliveries until the transaction ends, in one order everywhere, so that no two processes wait for each other's.
/// SQLite has one writer at a time.
pub async fn lock(conn: &mut Conn, deliveries: &[Held]) -> Result<()> {
    if matches!(conn, Conn::Sqlite(_)) {
        return Ok(());
    }
    with_rows!(
        (Uuid,);
        conn,
        deliveries,
        [("tenant", "uuid", |row| row.tenant), ("delivery", "uuid", |row| row.delivery_id)],
        "SELECT delivery_id FROM webhook_deliveries
         JOIN given ON webhook_deliveries.tenant_id = given.tenant AND webhook_deliveries.delivery_id = given.delivery
         ORDER BY webhook_deliveries.tenant_id, webhook_deliveries.delivery_id FOR UPDATE OF webhook_deliveries",
    );
    Ok(())
}

/// Writes down what became of attempts; says which of them were still held by their lease.
pub async fn settle(conn: &mut Conn, settled: &[Settled]) -> Result<Vec<Uuid>> {
    // Each database has its own way to take a table of values; see `bulk`.
    const COLUMNS: &str =
        "(tenant, delivery, token, status, run_after, status_code, error, response, delivered_at)";
    let text = settle_text(conn.backend());
    let mut held: Vec<(Uuid,)> = Vec::new();
    match conn {
        Conn::Sqlite(connection) => {
            for chunk in bulk::chunks(settled) {
                let mut query = QueryBuilder::<Sqlite>::new(format!("WITH settled {COLUMNS} AS ("));
                query.push_values(chunk, |mut values, row| {
                    values.push_bind(row.tenant).push_bind(row.delivery_id).push_bind(row.token);
                    values.push_bind(row.status).push_bind(row.run_after).push_bind(row.status_code);
                    values.push_bind(row.error.as_deref()).push_bind(row.response.as_deref());
                    values.push_bind(row.delivered_at);
                });
                query.push(") ").push(&text);
                held.extend(query.build_query_as::<(Uuid,)>().fetch_all(connection.native()).await?);
            }
        }
        Conn::Postgres(connection) if !settled.is_empty() => {
            let text = format!(
                "WITH settled {COLUMNS} AS (SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::uuid[], $4::text[],
                     $5::timestamptz[], $6::bigint[], $7::text[], $8::text[], $9::timestamptz[])) {text}"
            );
            held = sqlx::query_as(AssertSqlSafe(text))
                .bind(settled.iter().map(|row| row.tenant).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.delivery_id).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.token).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.status).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.run_after).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.status_code).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.response.as_deref()).collect::<Vec<_>>())
                .bind(settled.iter().map(|row| row.delivered_at).collect::<Vec<_>>())
                .fetch_all(connection.native())
                .await?;
        }
        Conn::Postgres(_) => {}
    }
    Ok(held.into_iter().map(|(delivery,)| delivery).collect())
}

/// Updates deliveries out of a table of values called `settled`. Public for the test that looks at its plan.
pub fn settle_text(backend: Backend) -> String {
    // A plus keeps SQLite from making an index of the values and reading every delivery there is, which it thinks best
    // from some number of values on.
    let plus = match backend {
        Backend::Sqlite => "+",
        Backend::Postgres => "",
    };
    format!(
        "UPDATE webhook_deliveries SET status = settled.status, attempts = attempts + 1,
             run_after = settled.run_after, last_error = settled.error,
             last_status_code = coalesce(settled.status_code, last_status_code),
             last_response = coalesce(settled.response, last_response), delivered_at = settled.delivered_at,
             lease_token = NULL, lease_until = NULL
         FROM settled
         WHERE webhook_deliveries.tenant_id = {plus}settled.tenant AND webhook_deliveries.delivery_id = {plus}settled.delivery
           AND webhook_deliveries.lease_token = {plus}settled.token
         RETURNING webhook_deliveries.delivery_id"
    )
}

/// Puts deliveries back that were claimed and not sent; that uses up no attempt.
pub async fn release(conn: &mut Conn, unsent: &[Held]) -> Result<()> {
    with_rows!(
        (Uuid,);
        conn,
        unsent,
        [
            ("tenant", "uuid", |row| row.tenant),
            ("delivery", "uuid", |row| row.delivery_id),
            ("token", "uuid", |row| row.token),
        ],
        "UPDATE webhook_deliveries SET status = 'pending', lease_token = NULL, lease_until = NULL
         FROM given
         WHERE webhook_deliveries.tenant_id = given.tenant AND webhook_deliveries.delivery_id = given.delivery
           AND webhook_deliveries.lease_token = given.token",
    );
    Ok(())
}

/// Ends every lease: on SQLite those of an earlier process are void at the start.
pub async fn void_leases(conn: &mut Conn) -> Result<u64> {
    // The condition on the endpoint keeps to the index of what is still to be sent.
    execute!(
        conn,
        "UPDATE webhook_deliveries SET status = 'pending', lease_token = NULL, lease_until = NULL
         WHERE status IN ('pending', 'delivering') AND endpoint_id >= $1 AND lease_token IS NOT NULL",
        Uuid::nil()
    )
}

/// Removes up to `most` deliveries of an endpoint that is gone. Those that somebody else holds at the moment stay for
/// the next time.
pub async fn drop_of_endpoint(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, most: i64) -> Result<u64> {
    let statement = format!(
        "WITH dropped AS MATERIALIZED (
             SELECT delivery_id AS dropped_delivery FROM webhook_deliveries
             WHERE tenant_id = $1 AND endpoint_id = $2 ORDER BY status, delivery_id LIMIT $3 {}
         )
         DELETE FROM webhook_deliveries
         WHERE tenant_id = $1 AND delivery_id IN (SELECT dropped_delivery FROM dropped)",
        conn.backend().skip_locked()
    );
    execute!(conn, AssertSqlSafe(statement), tenant, endpoint, most)
}

/// Removes the deliveries about an object.
pub async fn drop_of_object(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    // Locked in the order of `lock` first.
    let statement = format!(
        "WITH dropped AS MATERIALIZED (
             SELECT delivery_id AS dropped_delivery FROM webhook_deliveries
             WHERE tenant_id = $1 AND object_id = $2 ORDER BY delivery_id {}
         )
         DELETE FROM webhook_deliveries
         WHERE tenant_id = $1 AND delivery_id IN (SELECT dropped_delivery FROM dropped)",
        conn.backend().for_update()
    );
    execute!(conn, AssertSqlSafe(statement), tenant, object_id)?;
    Ok(())
}

/// Endpoints of a tenant that are gone and still have deliveries. Each endpoint is one step, however much it has.
pub async fn orphaned(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Uuid>> {
    let found: Vec<(Uuid,)> = fetch_all!(
        conn,
        "WITH RECURSIVE owners (endpoint_id) AS (
             SELECT (SELECT endpoint_id FROM webhook_deliveries WHERE tenant_id = $1 ORDER BY endpoint_id LIMIT 1)
             UNION ALL
             SELECT (SELECT later.endpoint_id FROM webhook_deliveries AS later
                     WHERE later.tenant_id = $1 AND later.endpoint_id > owners.endpoint_id
                     ORDER BY later.endpoint_id LIMIT 1)
             FROM owners WHERE owners.endpoint_id IS NOT NULL
         )
         SELECT endpoint_id FROM owners WHERE endpoint_id IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS known
                           WHERE known.tenant_id = $1 AND known.endpoint_id = owners.endpoint_id)",
        tenant
    )?;
    Ok(found.into_iter().map(|(endpoint,)| endpoint).collect())
}

/// Removes up to `most` deliveries of a tenant that ended before an instant, oldest first. `made_before` is the smallest
/// id of that instant: nothing that was made later can have ended earlier.
pub async fn drop_ended(
    conn: &mut Conn,
    tenant: TenantId,
    status: &str,
    made_before: Uuid,
    before: Timestamp,
    most: i64,
) -> Result<u64> {
    let statement = format!(
        "WITH dropped AS MATERIALIZED (
             SELECT delivery_id AS dropped_delivery FROM webhook_deliveries
             WHERE tenant_id = $1 AND status = $2 AND delivery_id < $3 AND coalesce(delivered_at, run_after) < $4
             ORDER BY delivery_id LIMIT $5 {}
         )
         DELETE FROM webhook_deliveries
         WHERE tenant_id = $1 AND delivery_id IN (SELECT dropped_delivery FROM dropped)",
        conn.backend().skip_locked()
    );
    execute!(conn, AssertSqlSafe(statement), tenant, status, made_before, before, most)
}
