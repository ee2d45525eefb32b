//! The queue of webhook deliveries, as the courier works it: endpoints in turn, deliveries under a lease, results in groups.
//!
//! A row is narrow and has two indexes, since claiming a delivery and settling it change all of them. What is sent is stored
//! elsewhere ([`crate::actions::webhooks::deliveries`]) and is only read.

use std::collections::HashSet;
use std::ops::Range;

use model::api::DeliveryStatus;
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{
    Backend, Conn, Lease, Result, Rows, Sql, execute, expect_rows, fetch_all, fetch_one, fetch_optional,
    notify,
};

/// The status of a leased delivery. Statements over many rows get it with each of them: if it is a constant, PostgreSQL may
/// plan, while the table is empty, to read everything with this status, and keep that plan.
const LEASED: &str = DeliveryStatus::Delivering.as_str();

/// An endpoint with deliveries that are due.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct DueEndpoint {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// The endpoint.
    pub endpoint_id: Uuid,
    /// Where deliveries go, sealed.
    pub sealed_url: Vec<u8>,
    /// Its sealed secret.
    pub secret: Vec<u8>,
    /// The sealed secret that it had before, if it may still be in use.
    pub previous_secret: Option<Vec<u8>>,
    /// Until when that one is in use.
    pub previous_until: Option<Timestamp>,
    /// Failures since its last success.
    pub consecutive_failures: i64,
    /// The end of a rest, which has passed.
    pub resting_until: Option<Timestamp>,
    /// Its version, which every edit raises.
    pub version: i64,
}

/// A delivery that was claimed, with what decides whether it is sent now.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct LeasedDelivery {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The size of what is sent.
    pub payload_bytes: i64,
    /// Attempts that have ended.
    pub attempts: i64,
    /// Earlier claims since an attempt last ended: their senders have crashed.
    pub unfinished_claims: i64,
}

/// A claimed delivery and its place in the order of claims.
#[derive(sqlx::FromRow)]
struct ClaimedRow {
    #[sqlx(flatten)]
    delivery: LeasedDelivery,
    run_after: Timestamp,
}

/// What a delivery sends.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct DeliveryContent {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The type of the webhook event.
    pub event_type: String,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

/// A delivery and the token of the lease that it was claimed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryLease {
    /// Whose it is.
    pub tenant: TenantId,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The token of the lease.
    pub token: Uuid,
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The delivery is tried again later.
    Retry,
    /// The receiver has accepted it.
    Delivered,
    /// It is given up.
    Dead,
}

impl DeliveryOutcome {
    /// The status that the delivery then has.
    pub const fn status(self) -> DeliveryStatus {
        match self {
            Self::Retry => DeliveryStatus::Pending,
            Self::Delivered => DeliveryStatus::Delivered,
            Self::Dead => DeliveryStatus::Dead,
        }
    }
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptResult {
    /// The delivery and its lease.
    pub lease: DeliveryLease,
    /// What follows from it.
    pub outcome: DeliveryOutcome,
    /// Attempts that have ended, this one included.
    pub attempts: i64,
    /// When it is tried next, or was accepted or given up.
    pub at: Timestamp,
    /// The HTTP status of the response.
    pub status_code: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
    /// The start of the response.
    pub response: Option<String>,
}

/// Makes the first delivery of an endpoint due at once: it shows whether the receiver works again.
pub async fn make_first_due(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_queue SET run_after = $3
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = 'pending' AND run_after > $3 AND delivery_id = (
             SELECT delivery_id FROM webhook_queue WHERE endpoint_id = $2 AND attempts <> -1 ORDER BY due_at LIMIT 1)",
        tenant,
        endpoint,
        now
    )?;
    Ok(())
}

/// Notifies other processes, once the transaction is committed, that there is something to send.
pub async fn notify(conn: &mut Conn) -> Result<()> {
    notify::notify_deliveries(conn).await
}

/// The endpoints with queued deliveries after one ($1): one step of the index each, however many deliveries they have.
macro_rules! queued_endpoints {
    ($($rest:literal),+ $(,)?) => {
        concat!(
            "WITH RECURSIVE queued (endpoint_id) AS ( \
                 SELECT (SELECT endpoint_id FROM webhook_queue WHERE endpoint_id > $1 AND attempts <> -1 \
                         ORDER BY endpoint_id LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT later.endpoint_id FROM webhook_queue AS later \
                         WHERE later.endpoint_id > queued.endpoint_id AND later.attempts <> -1 \
                         ORDER BY later.endpoint_id LIMIT 1) \
                 FROM queued WHERE queued.endpoint_id IS NOT NULL \
             ) ",
            $($rest),+
        )
    };
}

macro_rules! due_endpoints {
    ($looked_up:literal) => {
        queued_endpoints!(
            "SELECT known.tenant_id, known.endpoint_id, known.sealed_url, known.secret, known.previous_secret, \
                    known.previous_until, known.consecutive_failures, \
                    known.resting_until, known.version \
             FROM (SELECT endpoint_id FROM queued \
                   WHERE (SELECT count(*) FROM webhook_endpoints AS ready WHERE ready.endpoint_id = queued.endpoint_id \
                            AND ready.enabled AND (ready.resting_until IS NULL OR ready.resting_until <= $2) \
                            AND (SELECT suspended_at FROM tenants \
                                 WHERE tenants.tenant_id = ready.tenant_id) IS NULL) = 1 \
                     AND (SELECT due.due_at FROM webhook_queue AS due WHERE due.endpoint_id = queued.endpoint_id \
                            AND due.attempts <> -1 ORDER BY due.due_at LIMIT 1) <= $2 \
                   LIMIT $3) AS chosen \
             CROSS JOIN webhook_endpoints AS known WHERE known.endpoint_id ",
            $looked_up,
            " ORDER BY chosen.endpoint_id"
        )
    };
}

/// The same of a database that is divided into shards, each of which has the endpoints and the deliveries of its tenants.
const DUE_ENDPOINTS_OF_SHARDS: &str = "
    SELECT known.tenant_id, known.endpoint_id, known.sealed_url, known.secret, known.previous_secret, known.previous_until,
           known.consecutive_failures, known.resting_until, known.version
    FROM webhook_endpoints AS known
    WHERE known.endpoint_id > $1 AND known.enabled AND (known.resting_until IS NULL OR known.resting_until <= $2)
      AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = known.tenant_id) IS NULL
      AND EXISTS (SELECT 1 FROM webhook_queue AS due WHERE due.tenant_id = known.tenant_id
                    AND due.endpoint_id = known.endpoint_id AND due.due_at <= $2 AND due.attempts <> -1)
    ORDER BY known.endpoint_id LIMIT $3";

/// The endpoints after one that are enabled, not resting, and have a delivery due: in order of their ids.
pub async fn due_endpoints(
    conn: &mut Conn,
    after: Uuid,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DueEndpoint>> {
    // Scalar subqueries, not joins, decide which endpoints are due: so no planner leaves the order of the endpoints, or reads
    // further than it has to.
    let text = match conn.backend() {
        Backend::Sqlite => due_endpoints!("= chosen.endpoint_id"),
        Backend::Postgres if conn.is_sharded() => DUE_ENDPOINTS_OF_SHARDS,
        Backend::Postgres => due_endpoints!("= ANY (ARRAY[chosen.endpoint_id])"),
    };
    fetch_all!(conn, text, after, now, limit)
}

macro_rules! next_due {
    ($looked_up:literal) => {
        queued_endpoints!(
            "SELECT min(CASE WHEN resting_until > due_at THEN resting_until ELSE due_at END) FROM ( \
                 SELECT known.resting_until AS resting_until, \
                        (SELECT min(due.due_at) FROM webhook_queue AS due \
                         WHERE due.endpoint_id = queued.endpoint_id AND due.attempts <> -1) AS due_at \
                 FROM queued CROSS JOIN webhook_endpoints AS known WHERE known.endpoint_id ",
            $looked_up,
            " AND known.enabled AND (SELECT suspended_at FROM tenants \
                                     WHERE tenants.tenant_id = known.tenant_id) IS NULL) AS waiting"
        )
    };
}

/// The same of a database that is divided into shards.
const NEXT_DUE_OF_SHARDS: &str = "
    SELECT min(CASE WHEN resting_until > due_at THEN resting_until ELSE due_at END) FROM (
        SELECT known.resting_until AS resting_until,
               (SELECT min(due.due_at) FROM webhook_queue AS due
                WHERE due.tenant_id = known.tenant_id AND due.endpoint_id = known.endpoint_id AND due.attempts <> -1) AS due_at
        FROM webhook_endpoints AS known WHERE known.endpoint_id > $1 AND known.enabled
          AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = known.tenant_id) IS NULL) AS waiting";

/// Selects when a delivery is due next, of the endpoints after one ($1).
pub(crate) fn select_next_due(conn: &Conn) -> &'static str {
    match conn.backend() {
        Backend::Sqlite => next_due!("= queued.endpoint_id"),
        Backend::Postgres if conn.is_sharded() => NEXT_DUE_OF_SHARDS,
        Backend::Postgres => next_due!("= ANY (ARRAY[queued.endpoint_id])"),
    }
}

/// When a delivery is due next, as far as can be told now.
pub async fn next_due(conn: &mut Conn) -> Result<Option<Timestamp>> {
    let text = select_next_due(conn);
    let (due,): (Option<Timestamp>,) = fetch_one!(conn, text, Uuid::nil())?;
    Ok(due)
}

/// Claims up to `limit` due deliveries of an endpoint, longest due first, and counts each claim before anything can happen to
/// its sender. Deliveries that another transaction is claiming are skipped.
pub async fn claim(
    conn: &mut Conn,
    endpoint: Uuid,
    now: Timestamp,
    limit: i64,
    lease: Lease,
) -> Result<Vec<LeasedDelivery>> {
    claim_where(conn, endpoint, now, limit, lease, "").await
}

/// Claims deliveries as [`claim`] does, of those that were claimed so often since an attempt last ended.
pub async fn claim_begun(
    conn: &mut Conn,
    endpoint: Uuid,
    now: Timestamp,
    limit: i64,
    lease: Lease,
    Range { start, end }: Range<i64>,
) -> Result<Vec<LeasedDelivery>> {
    let filter = format!(" AND begun >= {start} AND begun < {end}");
    claim_where(conn, endpoint, now, limit, lease, &filter).await
}

async fn claim_where(
    conn: &mut Conn,
    endpoint: Uuid,
    now: Timestamp,
    limit: i64,
    Lease { token, until }: Lease,
    filter: &str,
) -> Result<Vec<LeasedDelivery>> {
    match conn.backend() {
        Backend::Sqlite => {
            // Read before it is claimed, since the update changes its key. Both go by the whole key of the index, so that they
            // find the same.
            let due = format!(
                "FROM webhook_queue WHERE endpoint_id = $1 AND due_at <= $2 AND attempts <> -1{filter}
                 ORDER BY due_at, tenant_id, status, delivery_id LIMIT $3"
            );
            let read =
                format!("SELECT delivery_id, payload_bytes, attempts, begun AS unfinished_claims {due}");
            let claim = format!(
                "UPDATE webhook_queue SET status = 'delivering', lease_token = $4, lease_until = $5, begun = begun + 1
                 WHERE (tenant_id, endpoint_id, status, delivery_id) IN (
                     SELECT tenant_id, endpoint_id, status, delivery_id {due})"
            );
            let due: Vec<LeasedDelivery> = fetch_all!(conn, AssertSqlSafe(read), endpoint, now, limit)?;
            let claimed = execute!(conn, AssertSqlSafe(claim), endpoint, now, limit, token, until)?;
            expect_rows(due.len(), claimed)?;
            Ok(due)
        }
        Backend::Postgres => {
            // Others may be doing the same.
            let (mut in_shard, mut looked_up) = (String::new(), conn.backend().looked_up_by("due.tenant"));
            if conn.is_sharded() {
                let owner: Option<(TenantId,)> = fetch_optional!(
                    conn,
                    "SELECT tenant_id FROM webhook_queue WHERE endpoint_id = $1 AND attempts <> -1 LIMIT 1",
                    endpoint
                )?;
                let Some((TenantId(tenant),)) = owner else { return Ok(Vec::new()) };
                in_shard = format!(" AND tenant_id = '{tenant}'");
                looked_up = format!("= due.tenant AND webhook_queue.tenant_id = '{tenant}'");
            }
            let range = conn.backend().range(&[("endpoint_id", "$1")], "due_at", "<= $2");
            let claim = format!(
                "WITH due AS MATERIALIZED (
                     SELECT tenant_id AS tenant, endpoint_id AS endpoint, status AS status_before, delivery_id AS delivery
                     FROM webhook_queue
                     WHERE {range} AND attempts <> -1{filter}{in_shard}
                     ORDER BY endpoint_id, due_at LIMIT $3 FOR UPDATE SKIP LOCKED)
                 UPDATE webhook_queue SET status = 'delivering', lease_token = $4, lease_until = $5, begun = begun + 1
                 FROM due
                 WHERE webhook_queue.tenant_id {looked_up} AND webhook_queue.endpoint_id = due.endpoint
                   AND webhook_queue.status = due.status_before AND webhook_queue.delivery_id = due.delivery
                 RETURNING webhook_queue.delivery_id, webhook_queue.payload_bytes, webhook_queue.attempts,
                           webhook_queue.begun - 1 AS unfinished_claims, webhook_queue.run_after"
            );
            let mut claimed: Vec<ClaimedRow> =
                fetch_all!(conn, AssertSqlSafe(claim), endpoint, now, limit, token, until)?;
            claimed.sort_unstable_by_key(|row| (row.run_after, row.delivery.delivery_id));
            Ok(claimed.into_iter().map(|row| row.delivery).collect())
        }
    }
}

/// Reads what deliveries send. Those whose object was deleted meanwhile are missing.
pub async fn contents(conn: &mut Conn, deliveries: &[(TenantId, Uuid)]) -> Result<Vec<DeliveryContent>> {
    Rows::of(deliveries)
        .column("tenant", |delivery| delivery.0)
        .column("delivery", |delivery| delivery.1)
        .with_given(
            "SELECT delivery_id, event_type, payload, max_attempts, traceparent
             FROM given CROSS JOIN webhook_deliveries
             WHERE tenant_id = given.tenant AND delivery_id = given.delivery",
        )
        .fetch(conn)
        .await
}

/// Whether a delivery is still to be sent as it was claimed: it exists under its lease, and its endpoint is enabled and was not
/// edited since.
pub async fn is_current(conn: &mut Conn, lease: DeliveryLease, endpoint_version: i64) -> Result<bool> {
    let found: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT CAST(1 AS bigint) FROM webhook_queue AS queued
         JOIN webhook_endpoints AS known
           ON known.tenant_id = queued.tenant_id AND known.endpoint_id = queued.endpoint_id
         WHERE queued.tenant_id = $1 AND queued.endpoint_id = $2 AND queued.status = 'delivering'
           AND queued.delivery_id = $3 AND queued.lease_token = $4 AND known.enabled AND known.version = $5",
        lease.tenant,
        lease.endpoint_id,
        lease.delivery_id,
        lease.token,
        endpoint_version
    )?;
    Ok(found.is_some())
}

/// Stores the results of attempts; returns the deliveries whose lease was still valid. Rows are locked in key order, to avoid
/// deadlocks.
pub async fn settle(conn: &mut Conn, mut results: Vec<AttemptResult>) -> Result<HashSet<Uuid>> {
    results.sort_unstable_by_key(|result| result.lease);
    let (retried, ended): (Vec<AttemptResult>, Vec<AttemptResult>) =
        results.into_iter().partition(|result| result.outcome == DeliveryOutcome::Retry);
    let mut settled: HashSet<Uuid> = put_back(conn, &retried).await?.into_iter().collect();
    settled.extend(end(conn, &ended).await?);
    Ok(settled)
}

/// Moves deliveries that have ended out of the queue; returns those whose lease was still valid.
async fn end(conn: &mut Conn, ended: &[AttemptResult]) -> Result<Vec<Uuid>> {
    let settled = Rows::of(ended)
        .column("tenant", |result| result.lease.tenant)
        .column("endpoint", |result| result.lease.endpoint_id)
        .column("outcome", |result| result.outcome.status().as_str())
        .column("leased", |_| LEASED)
        .column("delivery", |result| result.lease.delivery_id)
        .column("token", |result| result.lease.token)
        .column("tried", |result| result.attempts)
        .column("ended", |result| result.at)
        .column("status_code", |result| result.status_code)
        .column("error", |result| result.error.as_deref())
        .column("response", |result| result.response.as_deref())
        .with_given(END)
        .fetch::<(Uuid,)>(conn)
        .await?;
    if conn.backend() == Backend::Sqlite {
        Rows::of(ended)
            .column("tenant", |result| result.lease.tenant)
            .column("endpoint", |result| result.lease.endpoint_id)
            .column("delivery", |result| result.lease.delivery_id)
            .column("token", |result| result.lease.token)
            .with_given(
                "DELETE FROM webhook_queue
                 WHERE (tenant_id, endpoint_id, status, delivery_id, lease_token) IN
                       (SELECT tenant, endpoint, 'delivering', delivery, token FROM given)",
            )
            .execute(conn)
            .await?;
    }
    Ok(settled.into_iter().map(|(delivery,)| delivery).collect())
}

/// Stores the outcomes of leased deliveries. PostgreSQL removes them from the queue with the same statement, and hands the
/// removed rows on: joining them again would compare each with each. An earlier response stays on record where this attempt
/// had none.
const END: Sql<'static> = Sql {
    sqlite: "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at,
                                           last_status_code, last_error, last_response)
             SELECT tenant, endpoint, outcome, delivery, tried, ended, coalesce(status_code, last_status_code),
                    error, coalesce(response, last_response)
             FROM given CROSS JOIN webhook_queue
             WHERE tenant_id = given.tenant AND endpoint_id = given.endpoint AND status = given.leased
               AND delivery_id = given.delivery AND lease_token = given.token
             RETURNING delivery_id",
    postgres: ", removed AS (
                   DELETE FROM webhook_queue USING given
                   WHERE tenant_id = given.tenant AND endpoint_id = given.endpoint AND status = given.leased
                     AND delivery_id = given.delivery AND lease_token = given.token
                   RETURNING given.tenant, given.endpoint, given.outcome, given.delivery, given.tried, given.ended,
                             coalesce(given.status_code, last_status_code) AS status_code, given.error,
                             coalesce(given.response, last_response) AS response)
               INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at,
                                             last_status_code, last_error, last_response)
               SELECT tenant, endpoint, outcome, delivery, tried, ended, status_code, error, response FROM removed
               RETURNING delivery_id",
};

/// Puts deliveries back that are tried again later; returns those whose lease was still valid.
async fn put_back(conn: &mut Conn, retried: &[AttemptResult]) -> Result<Vec<Uuid>> {
    let settled = Rows::of(retried)
        .column("tenant", |result| result.lease.tenant)
        .column("endpoint", |result| result.lease.endpoint_id)
        .column("leased", |_| LEASED)
        .column("delivery", |result| result.lease.delivery_id)
        .column("token", |result| result.lease.token)
        .column("attempts", |result| result.attempts)
        .column("run_after", |result| result.at)
        .column("status_code", |result| result.status_code)
        .column("error", |result| result.error.as_deref())
        .column("response", |result| result.response.as_deref())
        .with_given(
            "UPDATE webhook_queue
             SET status = 'pending', attempts = given.attempts, begun = 0, run_after = given.run_after,
                 lease_token = NULL, lease_until = NULL, last_error = given.error,
                 last_status_code = coalesce(given.status_code, last_status_code),
                 last_response = coalesce(given.response, last_response)
             FROM given
             WHERE webhook_queue.tenant_id = given.tenant AND webhook_queue.endpoint_id = given.endpoint
               AND webhook_queue.status = given.leased AND webhook_queue.delivery_id = given.delivery
               AND webhook_queue.lease_token = given.token
             RETURNING webhook_queue.delivery_id",
        )
        .fetch::<(Uuid,)>(conn)
        .await?;
    Ok(settled.into_iter().map(|(delivery,)| delivery).collect())
}

/// Puts claimed deliveries back that were not sent; this counts as no attempt.
pub async fn release(conn: &mut Conn, mut unsent: Vec<DeliveryLease>) -> Result<()> {
    unsent.sort_unstable();
    Rows::of(&unsent)
        .column("tenant", |lease| lease.tenant)
        .column("endpoint", |lease| lease.endpoint_id)
        .column("leased", |_| LEASED)
        .column("delivery", |lease| lease.delivery_id)
        .column("token", |lease| lease.token)
        .with_given(
            "UPDATE webhook_queue
             SET status = 'pending', begun = begun - 1, lease_token = NULL, lease_until = NULL
             FROM given
             WHERE webhook_queue.tenant_id = given.tenant AND webhook_queue.endpoint_id = given.endpoint
               AND webhook_queue.status = given.leased AND webhook_queue.delivery_id = given.delivery
               AND webhook_queue.lease_token = given.token",
        )
        .execute(conn)
        .await?;
    Ok(())
}

/// A delivery that has waited for too long, claimed to be given up.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ExpiredDelivery {
    /// The delivery.
    pub delivery_id: Uuid,
    /// Attempts that have ended.
    pub attempts: i64,
}

/// Claims up to `limit` deliveries of an endpoint that have waited for too long and that nobody sends now: those queued before
/// `active_before`, on the clock that stands still while the endpoint is disabled. `made_before` is the smallest id that a
/// delivery can have which was queued later.
pub async fn claim_expired(
    conn: &mut Conn,
    (tenant, endpoint): (TenantId, Uuid),
    made_before: Uuid,
    active_before: Timestamp,
    limit: i64,
    lease: Lease,
) -> Result<Vec<ExpiredDelivery>> {
    let statement = format!(
        "WITH expired AS MATERIALIZED (
             SELECT tenant_id AS tenant, endpoint_id AS endpoint, status AS status_before, delivery_id AS delivery
             FROM webhook_queue
             WHERE tenant_id = $1 AND endpoint_id = $2 AND status = $3 AND delivery_id < $4 AND active_since < $5
               AND (lease_until IS NULL OR lease_until <= $6)
             ORDER BY delivery_id LIMIT $7 {})
         UPDATE webhook_queue SET status = 'delivering', lease_token = $8, lease_until = $6 FROM expired
         WHERE webhook_queue.tenant_id {} AND webhook_queue.endpoint_id = expired.endpoint
           AND webhook_queue.status = expired.status_before AND webhook_queue.delivery_id = expired.delivery
         RETURNING webhook_queue.delivery_id, webhook_queue.attempts",
        conn.backend().skip_locked(),
        conn.looked_up_in_shard("expired.tenant", "webhook_queue.tenant_id = $1")
    );
    let mut claimed = Vec::new();
    // Pending ones last: they become `delivering`, and must not be claimed twice.
    for status in [DeliveryStatus::Delivering, DeliveryStatus::Pending] {
        let Lease { token, until } = lease;
        let some: Vec<ExpiredDelivery> = fetch_all!(
            conn,
            AssertSqlSafe(statement.clone()),
            tenant,
            endpoint,
            status,
            made_before,
            active_before,
            until,
            limit,
            token
        )?;
        claimed.extend(some);
    }
    Ok(claimed)
}

/// Ends the leases of an earlier process, at the start of this one; returns how many.
///
/// Only one process uses a SQLite file, so any lease there is a dead process's. On PostgreSQL the leases may be those of
/// other processes: nothing happens, and leases of a dead one expire.
pub async fn void_stale_leases(conn: &mut Conn) -> Result<u64> {
    match conn.backend() {
        // Endpoint by endpoint, so that deliveries without a lease are not read.
        Backend::Sqlite => execute!(
            conn,
            "UPDATE webhook_queue SET status = 'pending', lease_token = NULL, lease_until = NULL
             WHERE status = 'delivering'
               AND (tenant_id, endpoint_id) IN (SELECT tenant_id, endpoint_id FROM webhook_endpoints)"
        ),
        Backend::Postgres => Ok(0),
    }
}
