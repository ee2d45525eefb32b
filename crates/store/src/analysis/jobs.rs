//! The queue of analyses: one row an object, debounced, leased, live before bulk, tenants in turn.

use std::collections::HashMap;

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::bulk::{insert_many, with_rows};
use crate::db::connect::{execute, fetch_all, fetch_one, fetch_optional};
use crate::db::leased_queue::Queue;
use crate::db::notify;
use crate::db::round::{Round, change_later, insert_later};
use crate::objects::recorder::Schedule;
use crate::{Conn, Result};

/// Which jobs go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Asked for by events and by people.
    Live,
    /// Part of a walk over all objects.
    Bulk,
}

impl Priority {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Live => 0,
            Self::Bulk => 1,
        }
    }
}

/// A job that a worker holds.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Claimed {
    /// Whose object it is.
    pub tenant_id: TenantId,
    /// The object.
    pub object_id: String,
    /// The signal ids asked for; none asks all.
    pub signals: Option<Json<Vec<Uuid>>>,
    /// The walk that it is part of.
    pub bulk_run_id: Option<Uuid>,
    /// The version that was claimed.
    pub version: i64,
    /// How often it was tried, this time included.
    pub attempts: i64,
    /// The traces of the requests that asked for it, newest first.
    pub traceparents: Option<String>,
}

/// What a worker holds a job by.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// Only this token releases it.
    pub token: Uuid,
    /// When it ends by itself.
    pub until: Timestamp,
}

/// Traces that a job remembers: the newest goes on with its analysis, which tells of the others.
const MAX_TRACEPARENTS: usize = 8;
/// The characters of that many, each with the space before the next.
const TRACEPARENTS_LENGTH: usize = MAX_TRACEPARENTS * 56 - 1;

/// An object that had events, and when it is to be analyzed.
pub(crate) struct Due<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) object_id: &'a str,
    pub(crate) schedule: Schedule,
    pub(crate) traceparents: Option<String>,
}

impl Due<'_> {
    /// Remembers the trace of a newer request.
    pub(crate) fn trace(&mut self, newer: Option<&str>) {
        let Some(newer) = newer else { return };
        let older = self.traceparents.take().map(|older| format!(" {older}")).unwrap_or_default();
        let mut all = format!("{newer}{older}");
        all.truncate(TRACEPARENTS_LENGTH);
        self.traceparents = Some(all);
    }
}

/// Schedules analyses for objects that had events: debounced, for all signals, at live priority.
pub(crate) fn schedule_live(round: &mut Round, rows: &[Due<'_>]) {
    insert_later!(
        round,
        rows,
        "jobs",
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("priority", "bigint", |_row| 0_i64),
            ("run_at", "timestamptz", |row| row.schedule.run_at),
            ("deadline_at", "timestamptz", |row| row.schedule.deadline_at),
            ("version", "bigint", |row| row.schedule.run_at.micros()),
            ("traceparents", "text", |row| row.traceparents.as_deref()),
        ],
        // A job that is claimed, or that was a bulk job, begins a new debounce; another keeps the deadline it has. One
        // that has reached it, or waits after a failure, is not moved any more. 447 is TRACEPARENTS_LENGTH.
        "ON CONFLICT (tenant_id, object_id) DO UPDATE SET
             priority = 0,
             signals = NULL,
             bulk_run_id = NULL,
             version = jobs.version + 1,
             traceparents = CASE WHEN excluded.traceparents IS NULL THEN jobs.traceparents
                            WHEN jobs.traceparents IS NULL OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                            THEN excluded.traceparents
                            ELSE substr(excluded.traceparents || ' ' || jobs.traceparents, 1, 447) END,
             deadline_at = CASE WHEN jobs.priority = 1 OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                           THEN excluded.deadline_at ELSE jobs.deadline_at END,
             run_at = CASE WHEN jobs.priority = 1 OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                           THEN excluded.run_at
                           WHEN jobs.run_at >= jobs.deadline_at THEN jobs.run_at
                           WHEN excluded.run_at < jobs.deadline_at THEN excluded.run_at
                           ELSE jobs.deadline_at END",
    );
}

/// Schedules an analysis of one object for all signals, at once and at live priority. It belongs to the trace of who asks.
pub async fn schedule_now(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    now: Timestamp,
    traceparent: Option<&str>,
) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO jobs (tenant_id, object_id, priority, run_at, deadline_at, version, traceparents)
         VALUES ($1, $2, 0, $3, $3, $4, $5)
         ON CONFLICT (tenant_id, object_id) DO UPDATE SET priority = 0, signals = NULL, bulk_run_id = NULL,
             version = jobs.version + 1, run_at = excluded.run_at, deadline_at = excluded.deadline_at,
             traceparents = coalesce(excluded.traceparents, jobs.traceparents)",
        tenant,
        object_id,
        now,
        now.micros(),
        traceparent
    )?;
    notify::announce(conn).await
}

/// An object that a walk asks about.
#[derive(Clone, Debug)]
pub struct BulkAsk {
    /// The object.
    pub object_id: String,
    /// The signal ids asked for; none asks all.
    pub signals: Option<Vec<Uuid>>,
}

/// Schedules analyses of a walk, at bulk priority.
///
/// A live job that waits does all that is asked here and stays, at another version: a verdict that began earlier does not
/// make it needless. One in a worker's hands may have begun before the walk did, so it is done once more. Two walks of a tenant meet only where one of them asks for everything: they
/// feed one after the other.
pub async fn schedule_bulk(
    conn: &mut Conn,
    tenant: TenantId,
    bulk_run_id: Uuid,
    asks: &[BulkAsk],
    now: Timestamp,
) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        asks,
        "jobs",
        [
            ("tenant_id", "uuid", |_row| tenant),
            ("object_id", "text", |row| row.object_id.as_str()),
            ("priority", "bigint", |_row| 1_i64),
            ("run_at", "timestamptz", |_row| now),
            ("deadline_at", "timestamptz", |_row| now),
            ("signals", "jsonb", |row| row.signals.as_ref().map(Json)),
            ("bulk_run_id", "uuid", |_row| bulk_run_id),
            ("version", "bigint", |_row| now.micros()),
        ],
        "ON CONFLICT (tenant_id, object_id) DO UPDATE SET
             signals = NULL,
             bulk_run_id = CASE WHEN jobs.priority = 1 THEN excluded.bulk_run_id END,
             version = jobs.version + 1",
    );
    notify::announce(conn).await
}

/// How many bulk jobs a tenant has, counted up to `limit`.
pub async fn queued_bulk(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<i64> {
    let (queued,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE priority = 1 AND tenant_id = $1 LIMIT $2) AS queued",
        tenant,
        limit
    )?;
    Ok(queued)
}

const QUEUE: Queue = Queue { table: "jobs", line: "priority", row: "object_id" };

/// The tenant with due jobs of this priority whose turn comes after another's.
pub async fn next_tenant(
    conn: &mut Conn,
    priority: Priority,
    after: Option<TenantId>,
    now: Timestamp,
) -> Result<Option<TenantId>> {
    let after = after.unwrap_or(TenantId(Uuid::nil()));
    let next: Option<(TenantId,)> =
        fetch_optional!(conn, AssertSqlSafe(QUEUE.next_tenant()), priority.number(), after, now)?;
    Ok(next.map(|(tenant,)| tenant))
}

/// Takes up to `limit` due jobs of a tenant, longest due first.
pub async fn claim(
    conn: &mut Conn,
    tenant: TenantId,
    priority: Priority,
    now: Timestamp,
    lease: Lease,
    limit: i64,
) -> Result<Vec<Claimed>> {
    let statement = QUEUE.claim(
        conn.backend(),
        "",
        ", claimed_version = version",
        "tenant_id, object_id, signals, bulk_run_id, version, attempts, traceparents",
    );
    fetch_all!(
        conn,
        AssertSqlSafe(statement),
        priority.number(),
        tenant,
        now,
        limit,
        lease.token,
        lease.until
    )
}

/// When the next job is due, or the next lease ends.
pub async fn next_due(conn: &mut Conn) -> Result<Option<Timestamp>> {
    let (due,): (Option<Timestamp>,) = fetch_one!(conn, "SELECT min(due_at) FROM jobs")?;
    Ok(due)
}

/// A job in the hands of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// What the worker holds it by.
    pub token: Uuid,
    /// The version that it claimed.
    pub version: i64,
}

/// The version that each of the jobs has now, in the order given; none where its lease was lost. Those that are still held
/// cannot be taken away any more before this transaction ends.
pub async fn still_held(conn: &mut Conn, jobs: &[Held<'_>]) -> Result<Vec<Option<i64>>> {
    let mut ordered: Vec<&Held<'_>> = jobs.iter().collect();
    ordered.sort_by_key(|job| (job.tenant, job.object_id));
    let lock = conn.backend().for_update();
    let held = with_rows!(
        (TenantId, String, Uuid, i64);
        conn,
        &ordered,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("lease_token", "uuid", |row| row.token),
        ],
        format!(
            "SELECT tenant_id, object_id, lease_token, version
             FROM given JOIN jobs USING (tenant_id, object_id, lease_token)
             ORDER BY jobs.tenant_id, jobs.object_id {lock}"
        ),
    );
    let held: HashMap<(TenantId, String, Uuid), i64> = held
        .into_iter()
        .map(|(tenant, object_id, token, version)| ((tenant, object_id, token), version))
        .collect();
    let version = |job: &Held<'_>| held.get(&(job.tenant, job.object_id.to_owned(), job.token)).copied();
    Ok(jobs.iter().map(version).collect())
}

/// Removes jobs that are done, each at the version that was claimed; where events came since, only the lease ends. Each
/// comes with the version that [`still_held`] found in this transaction.
pub fn finish(round: &mut Round, jobs: &[(Held<'_>, i64)]) {
    let (done, changed): (Vec<&(Held<'_>, i64)>, Vec<_>) =
        jobs.iter().partition(|(job, version)| job.version == *version);
    change_later!(
        round,
        &done,
        [("tenant_id", "uuid", |row| row.0.tenant), ("object_id", "text", |row| row.0.object_id)],
        "DELETE FROM jobs WHERE (tenant_id, object_id) IN (SELECT tenant_id, object_id FROM given)",
    );
    change_later!(
        round,
        &changed,
        [("tenant_id", "uuid", |row| row.0.tenant), ("object_id", "text", |row| row.0.object_id)],
        "UPDATE jobs SET lease_token = NULL, lease_until = NULL, attempts = 0
         WHERE (tenant_id, object_id) IN (SELECT tenant_id, object_id FROM given)",
    );
}

/// Removes a job for which there is nothing to do, as [`finish`] does. Nothing happens where its lease was lost.
pub async fn put_away(conn: &mut Conn, job: Held<'_>) -> Result<()> {
    let Some(version) = still_held(conn, &[job]).await?.pop().flatten() else { return Ok(()) };
    let mut round = conn.round();
    finish(&mut round, &[(job, version)]);
    round.run(conn).await
}

/// Puts a job back until `run_at` at the earliest, whatever events come; `uses_up_a_try` is false when nobody is to blame.
/// False when the lease was lost.
pub async fn retry(
    conn: &mut Conn,
    job: &Claimed,
    token: Uuid,
    run_at: Timestamp,
    uses_up_a_try: bool,
) -> Result<bool> {
    let put_back = execute!(
        conn,
        "UPDATE jobs SET run_at = CASE WHEN run_at < $4 THEN $4 ELSE run_at END,
             deadline_at = CASE WHEN run_at < $4 THEN $4 ELSE deadline_at END,
             lease_token = NULL, lease_until = NULL, attempts = attempts - $5
         WHERE tenant_id = $1 AND object_id = $2 AND lease_token = $3",
        job.tenant_id,
        &job.object_id,
        token,
        run_at,
        i64::from(!uses_up_a_try)
    )?;
    Ok(put_back == 1)
}

/// Ends every lease: on SQLite those of an earlier process are void at the start.
pub async fn void_leases(conn: &mut Conn) -> Result<u64> {
    execute!(conn, "UPDATE jobs SET lease_token = NULL, lease_until = NULL WHERE lease_token IS NOT NULL")
}

/// A queued job that a verdict covers.
#[derive(Clone, Copy, Debug)]
pub struct Covered<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The version that the job had before the verdict read anything.
    pub version: i64,
}

/// Removes queued jobs that verdicts over the whole history and all signals cover. Whoever calls has seen that no event
/// came since, and holds the object.
pub fn clear_covered(round: &mut Round, jobs: &[Covered<'_>]) {
    change_later!(
        round,
        jobs,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("version", "bigint", |row| row.version),
        ],
        "DELETE FROM jobs WHERE lease_token IS NULL
           AND (tenant_id, object_id, version) IN (SELECT tenant_id, object_id, version FROM given)",
    );
}
