//! The queue of analyses: one row an object, debounced, leased, live before bulk, tenants in turn.

use std::collections::HashSet;

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::bulk::{insert_many, with_rows};
use crate::database::{execute, fetch_all, fetch_one, fetch_optional};
use crate::recording::Schedule;
use crate::{Conn, Result, wakeups};

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
pub(crate) async fn schedule_live(conn: &mut Conn, rows: &[Due<'_>]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
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
    Ok(())
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
    wakeups::announce(conn).await
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
    wakeups::announce(conn).await
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

/// The tenant with due jobs of this priority whose turn comes after another's. Tenants whose jobs all wait are passed
/// over in one step each, however many those are.
pub async fn next_tenant(
    conn: &mut Conn,
    priority: Priority,
    after: Option<TenantId>,
    now: Timestamp,
) -> Result<Option<TenantId>> {
    let after = after.unwrap_or(TenantId(Uuid::nil()));
    let next: Option<(TenantId,)> = fetch_optional!(
        conn,
        "WITH RECURSIVE turns (tenant_id) AS (
             SELECT tenant_id FROM (SELECT tenant_id FROM jobs WHERE priority = $1 AND tenant_id > $2
                                    ORDER BY tenant_id LIMIT 1) AS first
             UNION ALL
             SELECT (SELECT jobs.tenant_id FROM jobs WHERE priority = $1 AND jobs.tenant_id > turns.tenant_id
                     ORDER BY jobs.tenant_id LIMIT 1)
             FROM turns WHERE turns.tenant_id IS NOT NULL
         )
         SELECT tenant_id FROM turns
         WHERE EXISTS (SELECT 1 FROM jobs WHERE priority = $1 AND jobs.tenant_id = turns.tenant_id AND due_at <= $3)
         LIMIT 1",
        priority.number(),
        after,
        now
    )?;
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
    // Materialized: run again for each row, the inner query would lock and claim more than its limit.
    let statement = format!(
        "WITH due AS MATERIALIZED (
             SELECT object_id AS due_object FROM jobs
             WHERE priority = $1 AND tenant_id = $2 AND due_at <= $3 ORDER BY due_at LIMIT $4 {}
         )
         UPDATE jobs SET lease_token = $5, lease_until = $6, claimed_version = version, attempts = attempts + 1
         FROM due WHERE tenant_id = $2 AND object_id = due_object
         RETURNING tenant_id, object_id, signals, bulk_run_id, version, attempts, traceparents",
        conn.backend().skip_locked()
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

/// Which of the jobs are still held by these tokens, in the order given; those that are cannot be taken away any more
/// before this transaction ends.
pub async fn still_held(conn: &mut Conn, jobs: &[Held<'_>]) -> Result<Vec<bool>> {
    let mut ordered: Vec<&Held<'_>> = jobs.iter().collect();
    ordered.sort_by_key(|job| (job.tenant, job.object_id));
    let lock = conn.backend().for_update();
    let held = with_rows!(
        (TenantId, String, Uuid);
        conn,
        &ordered,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("lease_token", "uuid", |row| row.token),
        ],
        format!(
            "SELECT tenant_id, object_id, lease_token FROM given JOIN jobs USING (tenant_id, object_id, lease_token)
             ORDER BY jobs.tenant_id, jobs.object_id {lock}"
        ),
    );
    let held: HashSet<(TenantId, String, Uuid)> = held.into_iter().collect();
    Ok(jobs.iter().map(|job| held.contains(&(job.tenant, job.object_id.to_owned(), job.token))).collect())
}

/// Removes jobs that are done, each at the version that was claimed; where events came since, only the lease ends.
/// Nothing happens to a job whose lease was lost.
pub async fn finish(conn: &mut Conn, jobs: &[Held<'_>]) -> Result<()> {
    with_rows!(
        (i64,);
        conn,
        jobs,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("lease_token", "uuid", |row| row.token),
            ("version", "bigint", |row| row.version),
        ],
        "DELETE FROM jobs WHERE (tenant_id, object_id, lease_token, version) IN
             (SELECT tenant_id, object_id, lease_token, version FROM given)",
    );
    with_rows!(
        (i64,);
        conn,
        jobs,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("lease_token", "uuid", |row| row.token),
        ],
        "UPDATE jobs SET lease_token = NULL, lease_until = NULL, attempts = 0
         WHERE (tenant_id, object_id, lease_token) IN (SELECT tenant_id, object_id, lease_token FROM given)",
    );
    Ok(())
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

/// The version of an object's job, if it has one.
pub async fn version(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<i64>> {
    let job: Option<(i64,)> = fetch_optional!(
        conn,
        "SELECT version FROM jobs WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )?;
    Ok(job.map(|(version,)| version))
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
pub async fn clear_covered(conn: &mut Conn, jobs: &[Covered<'_>]) -> Result<()> {
    with_rows!(
        (i64,);
        conn,
        jobs,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("version", "bigint", |row| row.version),
        ],
        "DELETE FROM jobs WHERE lease_token IS NULL
           AND (tenant_id, object_id, version) IN (SELECT tenant_id, object_id, version FROM given)",
    );
    Ok(())
}
