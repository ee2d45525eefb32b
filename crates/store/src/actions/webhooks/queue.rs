//! The queue of webhook deliveries, as the courier works it: endpoints in turn, deliveries under a lease, outcomes in groups.
//!
//! A row is narrow and has two indexes, since taking a delivery in hand and settling it change all of them. What is sent
//! lies elsewhere ([`crate::actions::webhooks::deliveries`]) and is only read.

use std::collections::HashSet;

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::bulk::{after_given, with_rows};
use crate::db::connect::{execute, fetch_all, fetch_one, fetch_optional};
use crate::db::notify;
use crate::db::transaction::expect_rows;
use crate::{Backend, Conn, Result};

/// The status of what a worker holds. Statements over many rows get it with each of them: PostgreSQL takes what it is told
/// once for a reason to look at everything with this status, where the table was empty when it planned.
const IN_HAND: &str = "delivering";

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

/// A delivery that was due, as little of it as decides whether it is kept in hand. In the order of [`PACKED_DUE`].
#[derive(Clone, Debug, sqlx::FromRow, serde::Deserialize)]
pub struct Due {
    /// The delivery.
    pub delivery_id: Uuid,
    /// The size of what is sent.
    pub payload_bytes: i64,
    /// Attempts that have ended.
    pub attempts: i64,
    /// How often it was taken in hand since, not counting this time.
    pub begun: i64,
}

/// One of those out of PostgreSQL, which returns them in any order.
#[derive(sqlx::FromRow)]
struct DueRow {
    #[sqlx(flatten)]
    due: Due,
    run_after: Timestamp,
}

/// What a delivery says. In the order of [`PACKED_CONTENTS`].
#[derive(Clone, Debug, sqlx::FromRow, serde::Deserialize)]
pub struct Content {
    /// The delivery.
    pub delivery_id: Uuid,
    /// What it tells.
    pub event_type: String,
    /// The bytes that are signed and sent.
    pub payload: String,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

/// A delivery and the lease that it was claimed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Whose it is.
    pub tenant: TenantId,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The lease.
    pub token: Uuid,
}

/// What became of an attempt.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The delivery.
    pub held: Held,
    /// `pending`, `delivered` or `dead`.
    pub status: &'static str,
    /// Attempts that have ended, this one included.
    pub attempts: i64,
    /// When it is tried next, or was given up or taken.
    pub at: Timestamp,
    /// The status of the answer.
    pub status_code: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
    /// The start of the answer.
    pub response: Option<String>,
}

/// Makes the delivery of an endpoint that would be tried first due at once: it shows how the receiver is.
pub async fn hasten(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_queue SET run_after = $3
         WHERE tenant_id = $1 AND endpoint_id = $2 AND status = 'pending' AND run_after > $3 AND delivery_id IN (
             SELECT delivery_id FROM webhook_queue WHERE endpoint_id = $2 ORDER BY due_at LIMIT 1)",
        tenant,
        endpoint,
        now
    )?;
    Ok(())
}

/// Tells the workers of other processes, once the transaction is committed, that there is something to send.
pub async fn announce(conn: &mut Conn) -> Result<()> {
    notify::announce_deliveries(conn).await
}

/// The endpoints with something to send, each in one step however much it has.
macro_rules! turns {
    ($rest:literal) => {
        concat!(
            "WITH RECURSIVE turns (endpoint_id) AS ( \
                 SELECT (SELECT endpoint_id FROM webhook_queue WHERE endpoint_id > $1 ORDER BY endpoint_id LIMIT 1) \
                 UNION ALL \
                 SELECT (SELECT later.endpoint_id FROM webhook_queue AS later \
                         WHERE later.endpoint_id > turns.endpoint_id ORDER BY later.endpoint_id LIMIT 1) \
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
                     AND (SELECT due.due_at FROM webhook_queue AS due WHERE due.endpoint_id = turns.endpoint_id \
                          ORDER BY due.due_at LIMIT 1) <= $2 \
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
                        (SELECT min(due.due_at) FROM webhook_queue AS due \
                         WHERE due.endpoint_id = turns.endpoint_id) AS due_at \
                 FROM turns JOIN webhook_endpoints AS known ON known.endpoint_id = turns.endpoint_id \
                 WHERE known.enabled) AS waiting"
        ),
        Uuid::nil()
    )?;
    Ok(due)
}

/// Takes up to `limit` due deliveries of an endpoint in hand, longest due first, and counts that before anything can happen to
/// whoever does. Those that another transaction is taking are passed over.
pub async fn take(
    conn: &mut Conn,
    endpoint: Uuid,
    now: Timestamp,
    limit: i64,
    lease: Lease,
) -> Result<Vec<Due>> {
    match conn {
        Conn::Sqlite(held) => {
            let packed = sqlx::query_as(PACKED_DUE).bind(endpoint).bind(now).bind(limit);
            let (Json(due),): (Json<Vec<Due>>,) = packed.fetch_one(held.native().await?).await?;
            let taken = execute!(
                conn,
                AssertSqlSafe(after_given(TAKE)),
                endpoint,
                now,
                limit,
                lease.token,
                lease.until
            )?;
            expect_rows(due.len(), taken)?;
            Ok(due)
        }
        Conn::Postgres(held) => {
            let taking = sqlx::query_as(TAKE_UNLOCKED).bind(endpoint).bind(now).bind(limit);
            let mut taken: Vec<DueRow> =
                taking.bind(lease.token).bind(lease.until).fetch_all(held.native().await?).await?;
            taken.sort_unstable_by_key(|row| (row.run_after, row.due.delivery_id));
            Ok(taken.into_iter().map(|row| row.due).collect())
        }
    }
}

/// What is due, out of SQLite as one value: on their way from its thread every column of every row would be memory of its own,
/// which the two threads then contend for. Like [`TAKE`] it goes by the whole key of the index, so that both find the same.
pub const PACKED_DUE: &str =
    "SELECT json_group_array(json_array(hex(delivery_id), payload_bytes, attempts, begun) ORDER BY run_after, delivery_id)
     FROM (SELECT delivery_id, payload_bytes, attempts, begun, run_after FROM webhook_queue
           WHERE endpoint_id = $1 AND due_at <= $2 ORDER BY due_at, tenant_id, status, delivery_id LIMIT $3)";

macro_rules! take {
    ($first:literal, $returning:literal) => {
        concat!(
            "WITH given AS MATERIALIZED ( \
                 SELECT tenant_id AS tenant, status AS status_before, delivery_id AS delivery FROM webhook_queue \
                 WHERE endpoint_id = $1 AND due_at <= $2 ORDER BY ",
            $first,
            ") \
             UPDATE webhook_queue \
             SET status = 'delivering', lease_token = $4, lease_until = $5, begun = begun + 1 \
             FROM given \
             WHERE webhook_queue.tenant_id = given.tenant AND webhook_queue.endpoint_id = $1 \
               AND webhook_queue.status = given.status_before AND webhook_queue.delivery_id = given.delivery ",
            $returning
        )
    };
}

/// Takes what is due in hand, on SQLite. Public for the test that looks at its plan, like the texts around it.
pub const TAKE: &str = take!("due_at, tenant_id, status, delivery_id LIMIT $3", "");
/// And on PostgreSQL, where others may be doing the same.
const TAKE_UNLOCKED: &str = take!(
    "due_at LIMIT $3 FOR UPDATE SKIP LOCKED",
    "RETURNING webhook_queue.delivery_id, webhook_queue.payload_bytes, webhook_queue.attempts, \
               webhook_queue.begun - 1 AS begun, webhook_queue.run_after"
);

/// What deliveries say. Those whose object was deleted meanwhile are missing.
pub async fn contents(conn: &mut Conn, taken: &[(TenantId, Uuid)]) -> Result<Vec<Content>> {
    if conn.backend() == Backend::Sqlite {
        let packed = with_rows!(
            (Json<Vec<Content>>,);
            conn,
            taken,
            [("tenant", "uuid", |row| row.0), ("delivery", "uuid", |row| row.1)],
            PACKED_CONTENTS,
        );
        return Ok(packed.into_iter().flat_map(|(Json(contents),)| contents).collect());
    }
    Ok(with_rows!(
        Content;
        conn,
        taken,
        [("tenant", "uuid", |row| row.0), ("delivery", "uuid", |row| row.1)],
        "SELECT sent.delivery_id, sent.event_type, sent.payload, sent.max_attempts, sent.traceparent
         FROM given JOIN webhook_deliveries AS sent
           ON sent.tenant_id = given.tenant AND sent.delivery_id = given.delivery",
    ))
}

/// What deliveries say, out of SQLite as one value.
const PACKED_CONTENTS: &str =
    "SELECT json_group_array(json_array(hex(sent.delivery_id), sent.event_type, sent.payload, sent.max_attempts,
                                        sent.traceparent))
     FROM given JOIN webhook_deliveries AS sent
       ON sent.tenant_id = given.tenant AND sent.delivery_id = given.delivery";

/// Whether a delivery is still to be sent as it was claimed: it is there and held by its lease, and its endpoint is
/// enabled and was not edited since.
pub async fn is_current(conn: &mut Conn, held: Held, endpoint_updated_at: Timestamp) -> Result<bool> {
    let found: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT CAST(1 AS bigint) FROM webhook_queue AS queued
         JOIN webhook_endpoints AS known
           ON known.tenant_id = queued.tenant_id AND known.endpoint_id = queued.endpoint_id
         WHERE queued.tenant_id = $1 AND queued.endpoint_id = $2 AND queued.status = 'delivering'
           AND queued.delivery_id = $3 AND queued.lease_token = $4 AND known.enabled AND known.updated_at = $5",
        held.tenant,
        held.endpoint_id,
        held.delivery_id,
        held.token,
        endpoint_updated_at
    )?;
    Ok(found.is_some())
}

/// Writes down what became of attempts; says which of them were still held by their lease. They are settled in one order
/// everywhere, so that nobody waits for somebody who waits for him.
pub async fn settle(conn: &mut Conn, mut settled: Vec<Settled>) -> Result<HashSet<Uuid>> {
    settled.sort_unstable_by_key(|row| row.held);
    let (waiting, ended): (Vec<Settled>, Vec<Settled>) =
        settled.into_iter().partition(|row| row.status == "pending");
    let mut held = put_back(conn, &waiting).await?;
    held.extend(end(conn, &ended).await?);
    Ok(held)
}

/// Moves deliveries that have ended out of the queue.
async fn end(conn: &mut Conn, ended: &[Settled]) -> Result<Vec<Uuid>> {
    let text = end_text(conn.backend());
    let held = with_rows!(
        (Uuid,);
        conn,
        ended,
        [
            ("tenant", "uuid", |row| row.held.tenant),
            ("endpoint", "uuid", |row| row.held.endpoint_id),
            ("outcome", "text", |row| row.status),
            ("in_hand", "text", |_row| IN_HAND),
            ("delivery", "uuid", |row| row.held.delivery_id),
            ("token", "uuid", |row| row.held.token),
            ("tried", "bigint", |row| row.attempts),
            ("ended_at", "timestamptz", |row| row.at),
            ("status_code", "bigint", |row| row.status_code),
            ("error", "text", |row| row.error.as_deref()),
            ("response", "text", |row| row.response.as_deref()),
        ],
        text,
    );
    if conn.backend() == Backend::Sqlite {
        with_rows!(
            (Uuid,);
            conn,
            ended,
            [
                ("tenant", "uuid", |row| row.held.tenant),
                ("endpoint", "uuid", |row| row.held.endpoint_id),
                ("delivery", "uuid", |row| row.held.delivery_id),
                ("token", "uuid", |row| row.held.token),
            ],
            REMOVE,
        );
    }
    Ok(held.into_iter().map(|(delivery,)| delivery).collect())
}

/// The outcomes of deliveries that are held, each database in its own way: PostgreSQL takes them out of the queue with the
/// same statement. What was heard last stays on record, also where this time nothing was.
pub fn end_text(backend: Backend) -> &'static str {
    match backend {
        Backend::Sqlite => {
            "INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at,
                                           last_status_code, last_error, last_response)
             SELECT tenant, endpoint, outcome, delivery, tried, ended_at,
                    coalesce(status_code, last_status_code), error, coalesce(response, last_response)
             FROM given JOIN webhook_queue
               ON tenant_id = given.tenant AND endpoint_id = given.endpoint AND status = given.in_hand
              AND delivery_id = given.delivery AND lease_token = given.token
             RETURNING delivery_id"
        }
        // The rows of one part of a statement are handed to the next: joining them again would compare each with each.
        Backend::Postgres => {
            ", removed AS (
                 DELETE FROM webhook_queue USING given
                 WHERE tenant_id = given.tenant AND endpoint_id = given.endpoint AND status = given.in_hand
                   AND delivery_id = given.delivery AND lease_token = given.token
                 RETURNING given.tenant, given.endpoint, given.outcome, given.delivery, given.tried, given.ended_at,
                           coalesce(given.status_code, last_status_code) AS status_code, given.error,
                           coalesce(given.response, last_response) AS response)
             INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at,
                                           last_status_code, last_error, last_response)
             SELECT tenant, endpoint, outcome, delivery, tried, ended_at, status_code, error, response FROM removed
             RETURNING delivery_id"
        }
    }
}

/// Takes deliveries that have ended out of SQLite's queue.
pub const REMOVE: &str = "DELETE FROM webhook_queue
     WHERE (tenant_id, endpoint_id, status, delivery_id, lease_token) IN
           (SELECT tenant, endpoint, 'delivering', delivery, token FROM given)";

/// Puts deliveries back that are tried again later.
async fn put_back(conn: &mut Conn, waiting: &[Settled]) -> Result<HashSet<Uuid>> {
    let held = with_rows!(
        (Uuid,);
        conn,
        waiting,
        [
            ("tenant", "uuid", |row| row.held.tenant),
            ("endpoint", "uuid", |row| row.held.endpoint_id),
            ("in_hand", "text", |_row| IN_HAND),
            ("delivery", "uuid", |row| row.held.delivery_id),
            ("token", "uuid", |row| row.held.token),
            ("attempts", "bigint", |row| row.attempts),
            ("run_after", "timestamptz", |row| row.at),
            ("status_code", "bigint", |row| row.status_code),
            ("error", "text", |row| row.error.as_deref()),
            ("response", "text", |row| row.response.as_deref()),
        ],
        PUT_BACK,
    );
    Ok(held.into_iter().map(|(delivery,)| delivery).collect())
}

/// See [`put_back`].
pub const PUT_BACK: &str = "UPDATE webhook_queue
     SET status = 'pending', attempts = given.attempts, begun = 0, run_after = given.run_after, lease_token = NULL,
         lease_until = NULL, last_error = given.error,
         last_status_code = coalesce(given.status_code, last_status_code),
         last_response = coalesce(given.response, last_response)
     FROM given
     WHERE webhook_queue.tenant_id = given.tenant AND webhook_queue.endpoint_id = given.endpoint
       AND webhook_queue.status = given.in_hand AND webhook_queue.delivery_id = given.delivery
       AND webhook_queue.lease_token = given.token
     RETURNING webhook_queue.delivery_id";

/// Puts deliveries back that were claimed and not sent; that uses up no attempt.
pub async fn release(conn: &mut Conn, mut unsent: Vec<Held>) -> Result<()> {
    unsent.sort_unstable();
    with_rows!(
        (i64,);
        conn,
        &unsent,
        [
            ("tenant", "uuid", |row| row.tenant),
            ("endpoint", "uuid", |row| row.endpoint_id),
            ("in_hand", "text", |_row| IN_HAND),
            ("delivery", "uuid", |row| row.delivery_id),
            ("token", "uuid", |row| row.token),
        ],
        RELEASE,
    );
    Ok(())
}

/// See [`release`].
pub const RELEASE: &str = "UPDATE webhook_queue
     SET status = 'pending', begun = begun - 1, lease_token = NULL, lease_until = NULL
     FROM given
     WHERE webhook_queue.tenant_id = given.tenant AND webhook_queue.endpoint_id = given.endpoint
       AND webhook_queue.status = given.in_hand AND webhook_queue.delivery_id = given.delivery
       AND webhook_queue.lease_token = given.token";

/// Ends every lease: on SQLite those of an earlier process are void at the start.
pub async fn void_leases(conn: &mut Conn) -> Result<u64> {
    // Endpoint by endpoint, so that what only waits is not read.
    execute!(
        conn,
        "UPDATE webhook_queue SET status = 'pending', lease_token = NULL, lease_until = NULL
         WHERE status = 'delivering' AND (tenant_id, endpoint_id) IN (SELECT tenant_id, endpoint_id FROM webhook_endpoints)"
    )
}
