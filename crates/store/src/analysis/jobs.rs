//! The job queue: one row for each object to be analyzed, debounced, leased, live before bulk, tenants in turn.

use std::collections::HashMap;

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::claim_statements::ClaimStatements;
use crate::db::{
    BACKSTOP_INTERVAL, Backend, Batch, Conn, Lease, Result, Rows, Sql, execute, fetch_all, fetch_one,
    fetch_optional, notify,
};

/// Which jobs go first; the database stores the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, sqlx::Type)]
#[repr(i64)]
pub enum Priority {
    /// Requested by events and by people.
    Live = 0,
    /// Part of a bulk run.
    Bulk = 1,
}

/// When an analysis is due.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// After the object has had no events for a while.
    pub run_at: Timestamp,
    /// At the latest.
    pub deadline_at: Timestamp,
}

/// A job that a worker has claimed.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct LeasedJob {
    /// Whose object it is.
    pub tenant_id: TenantId,
    /// The object.
    pub object_id: String,
    /// The signal ids to be answered; none: all.
    pub signals: Option<Json<Vec<Uuid>>>,
    /// The bulk run that it is part of.
    pub bulk_run_id: Option<Uuid>,
    /// The version that was claimed.
    pub version: i64,
    /// How often it was tried, this time included.
    pub attempts: i64,
    /// Earlier claims since an attempt last ended: their processes have ended during it.
    pub unfinished_claims: i64,
    /// The traces of the requests that scheduled it, newest first.
    pub traceparents: Option<String>,
}

/// Traces that a job keeps: its analysis continues the newest and links to the others.
const MAX_TRACEPARENTS: usize = 8;
/// The characters of that many, each but the last followed by a space.
const TRACEPARENTS_LENGTH: usize = MAX_TRACEPARENTS * 56 - 1;

/// An analysis of an object that had events.
pub(crate) struct NewLiveJob<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) object_id: &'a str,
    pub(crate) schedule: Schedule,
    pub(crate) traceparents: Option<String>,
    /// The lease that it is born with, unless the object has a job already.
    pub(crate) lease: Option<Lease>,
}

/// Which new jobs are born leased: a worker of this process runs them without claiming them.
#[derive(Clone, Copy, Debug)]
pub struct Leasing {
    /// The lease of all of them.
    pub lease: Lease,
    /// Only those that are due by then: others may still be moved by later events.
    pub due_by: Timestamp,
    /// The maximum number.
    pub most: usize,
}

impl NewLiveJob<'_> {
    /// The version that it begins with.
    fn version(&self) -> i64 {
        self.schedule.run_at.micros()
    }

    /// The job as the worker that it is born leased to gets it.
    pub(crate) fn born_leased(&self) -> BornLeased {
        BornLeased {
            run_at: self.schedule.run_at,
            job: LeasedJob {
                tenant_id: self.tenant,
                object_id: self.object_id.to_owned(),
                signals: None,
                bulk_run_id: None,
                version: self.version(),
                attempts: 1,
                unfinished_claims: 0,
                traceparents: self.traceparents.clone(),
            },
        }
    }

    /// Adds the trace of a newer request.
    pub(crate) fn add_trace(&mut self, newer: Option<&str>) {
        let Some(newer) = newer else { return };
        let older = self.traceparents.take().map(|older| format!(" {older}")).unwrap_or_default();
        let mut all = format!("{newer}{older}");
        all.truncate(TRACEPARENTS_LENGTH);
        self.traceparents = Some(all);
    }
}

/// A job that was written with its lease. If its object had a job already, it was merged into that one, and nobody has this
/// lease.
#[derive(Clone, Debug)]
pub struct BornLeased {
    /// The job.
    pub job: LeasedJob,
    /// When it is due.
    pub run_at: Timestamp,
}

/// Schedules analyses for objects that had events: debounced, for all signals, at live priority. Other processes are
/// notified of those that are to be claimed before the backstop finds them, once the transaction is committed.
pub(crate) fn schedule_live(batch: &mut Batch, jobs: &[NewLiveJob<'_>], now: Timestamp) {
    batch.add(
        Rows::of(jobs)
            .column("tenant_id", |job| job.tenant)
            .column("object_id", |job| job.object_id)
            .column("priority", |_| Priority::Live as i64)
            .column("run_at", |job| job.schedule.run_at)
            .column("deadline_at", |job| job.schedule.deadline_at)
            .column("version", NewLiveJob::version)
            .column("traceparents", |job| job.traceparents.as_deref())
            .column("claimed_version", |job| job.lease.map_or(0, |_| job.version()))
            .column("lease_token", |job| job.lease.map(|lease| lease.token))
            .column("lease_until", |job| job.lease.map(|lease| lease.until))
            .column("begun", |job| i64::from(job.lease.is_some()))
            .insert("jobs", MERGE_LIVE),
    );
    let to_be_claimed = jobs.iter().filter(|job| job.lease.is_none());
    let soonest = to_be_claimed.map(|job| job.schedule.run_at).min();
    if let Some(soonest) = soonest.filter(|soonest| *soonest < now + BACKSTOP_INTERVAL) {
        batch.notify(notify::JOBS, soonest.micros().to_string());
    }
}

/// How a live job is merged into the one that is there. A leased job, or a bulk job, starts a new debounce; another keeps
/// its deadline. One that has reached its deadline, or waits after a failure, is not moved any more. 447 is
/// [`TRACEPARENTS_LENGTH`].
const MERGE_LIVE: &str = "
    ON CONFLICT (tenant_id, object_id) DO UPDATE SET
        priority = 0,
        signals = NULL,
        bulk_run_id = NULL,
        version = jobs.version + 1,
        traceparents = CASE WHEN excluded.traceparents IS NULL THEN jobs.traceparents
                            WHEN jobs.traceparents IS NULL
                              OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                            THEN excluded.traceparents
                            ELSE substr(excluded.traceparents || ' ' || jobs.traceparents, 1, 447) END,
        deadline_at = CASE WHEN jobs.priority = 1
                             OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                           THEN excluded.deadline_at ELSE jobs.deadline_at END,
        run_at = CASE WHEN jobs.priority = 1
                        OR (jobs.lease_token IS NOT NULL AND jobs.version = jobs.claimed_version)
                      THEN excluded.run_at
                      WHEN jobs.run_at >= jobs.deadline_at THEN jobs.run_at
                      WHEN excluded.run_at < jobs.deadline_at THEN excluded.run_at
                      ELSE jobs.deadline_at END";

/// Schedules an analysis of one object for all signals, at once and at live priority, as part of the caller's trace.
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
    notify::notify_jobs(conn).await
}

/// An analysis that a bulk run schedules.
#[derive(Clone, Debug)]
pub struct NewBulkJob {
    /// The object.
    pub object_id: String,
    /// The signal ids to be answered; none: all.
    pub signals: Option<Vec<Uuid>>,
}

/// Schedules analyses of a bulk run, at bulk priority.
///
/// A live job that waits covers what is scheduled here and stays, at a new version: a verdict that began earlier does not
/// make it redundant. A leased one may have begun before the bulk run did, so it runs once more. Two bulk runs of a tenant
/// meet only where one of them is for all signals: they feed jobs one after the other.
pub async fn schedule_bulk(
    conn: &mut Conn,
    tenant: TenantId,
    bulk_run_id: Uuid,
    jobs: &[NewBulkJob],
    now: Timestamp,
) -> Result<()> {
    let ids = |signals: &Vec<Uuid>| Json(signals.iter().map(Uuid::to_string).collect::<serde_json::Value>());
    Rows::of(jobs)
        .column("tenant_id", |_| tenant)
        .column("object_id", |job| job.object_id.as_str())
        .column("priority", |_| Priority::Bulk as i64)
        .column("run_at", |_| now)
        .column("deadline_at", |_| now)
        .column("signals", |job| job.signals.as_ref().map(ids))
        .column("bulk_run_id", |_| bulk_run_id)
        .column("version", |_| now.micros())
        .insert(
            "jobs",
            "ON CONFLICT (tenant_id, object_id) DO UPDATE SET
                 signals = NULL,
                 bulk_run_id = CASE WHEN jobs.priority = 1 THEN excluded.bulk_run_id END,
                 version = jobs.version + 1",
        )
        .execute(conn)
        .await?;
    notify::notify_jobs(conn).await
}

/// Counts the bulk jobs of a tenant, up to `limit`.
pub async fn count_bulk(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<i64> {
    let (queued,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE priority = 1 AND tenant_id = $1 AND attempts <> -1 LIMIT $2) AS queued",
        tenant,
        limit
    )?;
    Ok(queued)
}

const QUEUE: ClaimStatements = ClaimStatements {
    table: "jobs",
    queue_column: "priority",
    row_column: "object_id",
    has_lanes: false,
    indexed: " AND attempts <> -1",
    claimed_by: " AND attempts <> -1",
    waits_while_suspended: true,
};

/// The next tenant after another with due jobs of this priority.
pub async fn next_tenant(
    conn: &mut Conn,
    priority: Priority,
    after: Option<TenantId>,
    now: Timestamp,
) -> Result<Option<TenantId>> {
    let after = after.unwrap_or(TenantId(Uuid::nil()));
    let statement = QUEUE.next_tenant(conn);
    let next: Option<(TenantId,)> = fetch_optional!(conn, AssertSqlSafe(statement), priority, after, now)?;
    Ok(next.map(|(tenant,)| tenant))
}

/// Claims up to `limit` due jobs of a tenant, longest due first; the SQL is in `db/claim_statements.rs`.
pub async fn claim(
    conn: &mut Conn,
    tenant: TenantId,
    priority: Priority,
    now: Timestamp,
    lease: Lease,
    limit: i64,
) -> Result<Vec<LeasedJob>> {
    let statement = QUEUE.claim(
        conn,
        ", claimed_version = version",
        "tenant_id, object_id, signals, bulk_run_id, version, attempts + 1 AS attempts, begun - 1 AS unfinished_claims,
         traceparents",
    );
    fetch_all!(conn, AssertSqlSafe(statement), priority, tenant, now, limit, lease.token, lease.until)
}

/// When the next job is due, or the next lease expires.
pub async fn next_due(conn: &mut Conn) -> Result<Option<Timestamp>> {
    let (due,): (Option<Timestamp>,) = fetch_one!(conn, "SELECT min(due_at) FROM jobs WHERE attempts <> -2")?;
    Ok(due)
}

/// Whether an analysis of an object waits or runs.
pub async fn is_scheduled(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<bool> {
    let (jobs,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM jobs WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )?;
    Ok(jobs > 0)
}

/// The lease of a job, as far as ending the job needs it.
#[derive(Clone, Copy, Debug)]
pub struct JobLease<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The token of the lease.
    pub token: Uuid,
    /// The version that was claimed.
    pub version: i64,
}

/// Locks jobs in key order and returns the current version of each, in the order given; none where the lease was lost.
/// Nobody else can claim the others before this transaction ends.
pub async fn lock_leased(conn: &mut Conn, jobs: &[JobLease<'_>]) -> Result<Vec<Option<i64>>> {
    let mut ordered: Vec<&JobLease<'_>> = jobs.iter().collect();
    ordered.sort_by_key(|job| (job.tenant, job.object_id));
    let leased = Rows::of(&ordered)
        .column("tenant_id", |job| job.tenant)
        .column("object_id", |job| job.object_id)
        .column("token", |job| job.token)
        .with_given(Sql {
            sqlite: "SELECT jobs.tenant_id, jobs.object_id, lease_token, version FROM given CROSS JOIN jobs
                     WHERE jobs.tenant_id = given.tenant_id AND jobs.object_id = given.object_id
                       AND lease_token = token",
            postgres: "SELECT jobs.tenant_id, jobs.object_id, lease_token, version FROM given CROSS JOIN jobs
                       WHERE jobs.tenant_id = given.tenant_id AND jobs.object_id = given.object_id
                         AND lease_token = token
                       ORDER BY given.tenant_id, given.object_id FOR UPDATE OF jobs",
        })
        .fetch::<(TenantId, String, Uuid, i64)>(conn)
        .await?;
    let versions: HashMap<(TenantId, String, Uuid), i64> = leased
        .into_iter()
        .map(|(tenant, object_id, token, version)| ((tenant, object_id, token), version))
        .collect();
    let version =
        |job: &JobLease<'_>| versions.get(&(job.tenant, job.object_id.to_owned(), job.token)).copied();
    Ok(jobs.iter().map(version).collect())
}

/// Removes jobs that are done, each at the version that was claimed; if events came since, only the lease ends. Each comes
/// with the version that [`lock_leased`] found in this transaction.
pub fn finish(batch: &mut Batch, jobs: &[(JobLease<'_>, i64)]) {
    let (done, changed): (Vec<&(JobLease<'_>, i64)>, Vec<_>) =
        jobs.iter().partition(|(job, version)| job.version == *version);
    batch.add(
        Rows::of(&done)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .delete("jobs", ""),
    );
    batch.add(
        Rows::of(&changed)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .with_given(
                "UPDATE jobs SET lease_token = NULL, lease_until = NULL, attempts = 0, begun = 0
                 FROM given WHERE jobs.tenant_id = given.tenant_id AND jobs.object_id = given.object_id",
            ),
    );
}

/// Removes a job that needs no analysis, as [`finish`] does. Nothing happens if its lease was lost.
pub async fn discard(conn: &mut Conn, job: JobLease<'_>) -> Result<()> {
    let Some(version) = lock_leased(conn, &[job]).await?.pop().flatten() else { return Ok(()) };
    let mut batch = conn.batch();
    finish(&mut batch, &[(job, version)]);
    batch.run(conn).await
}

/// Puts a job back until `run_at` at the earliest, whatever events come; `counts_as_attempt` is false when the failure says
/// nothing about the job. Returns false when the lease was lost.
pub async fn retry(
    conn: &mut Conn,
    job: &LeasedJob,
    token: Uuid,
    run_at: Timestamp,
    counts_as_attempt: bool,
) -> Result<bool> {
    let put_back = execute!(
        conn,
        "UPDATE jobs SET run_at = CASE WHEN run_at < $4 THEN $4 ELSE run_at END,
             deadline_at = CASE WHEN run_at < $4 THEN $4 ELSE deadline_at END,
             lease_token = NULL, lease_until = NULL, attempts = attempts + $5, begun = 0
         WHERE tenant_id = $1 AND object_id = $2 AND lease_token = $3",
        job.tenant_id,
        &job.object_id,
        token,
        run_at,
        i64::from(counts_as_attempt)
    )?;
    Ok(put_back == 1)
}

/// Puts claimed jobs back that were not begun, until `run_at` at the earliest.
pub async fn put_off(conn: &mut Conn, jobs: &[LeasedJob], token: Uuid, run_at: Timestamp) -> Result<()> {
    for job in jobs {
        execute!(
            conn,
            "UPDATE jobs SET run_at = CASE WHEN run_at < $4 THEN $4 ELSE run_at END,
                 deadline_at = CASE WHEN run_at < $4 THEN $4 ELSE deadline_at END,
                 lease_token = NULL, lease_until = NULL, begun = begun - 1
             WHERE tenant_id = $1 AND object_id = $2 AND lease_token = $3",
            job.tenant_id,
            &job.object_id,
            token,
            run_at
        )?;
    }
    Ok(())
}

/// Ends the leases of an earlier process, at the start of this one; returns how many.
///
/// Only one process uses a SQLite file, so any lease there is a dead process's. On PostgreSQL the leases may be those of
/// other processes: nothing happens, and leases of a dead one expire.
pub async fn void_stale_leases(conn: &mut Conn) -> Result<u64> {
    match conn.backend() {
        Backend::Sqlite => execute!(
            conn,
            "UPDATE jobs SET lease_token = NULL, lease_until = NULL WHERE lease_token IS NOT NULL"
        ),
        Backend::Postgres => Ok(0),
    }
}

/// A queued job that a verdict makes redundant.
#[derive(Clone, Copy, Debug)]
pub struct CoveredJob<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The version that the job had before the verdict read anything.
    pub version: i64,
}

/// Removes queued jobs that verdicts over the whole history and all signals make redundant. The caller has locked the
/// objects and seen that no event came since.
pub fn remove_covered(batch: &mut Batch, jobs: &[CoveredJob<'_>]) {
    batch.add(
        Rows::of(jobs)
            .column("tenant_id", |job| job.tenant)
            .column("object_id", |job| job.object_id)
            .column("version", |job| job.version)
            .delete("jobs", "AND lease_token IS NULL"),
    );
}
