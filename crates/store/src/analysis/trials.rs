//! Trials of another wording of a signal: the trial, and each object that it is put to.

use model::api::TrialStatus;
use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{
    Backend, Conn, Lease, Result, Rows, execute, expect_one, fetch_all, fetch_one, fetch_optional,
};

/// A trial.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Trial {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id, which sorts by `created_at`.
    pub trial_id: Uuid,
    /// The question.
    pub signal_id: Uuid,
    /// The version that the proposed wording is compared with.
    pub version: i64,
    /// JSON: the proposed wording.
    pub instructions: String,
    /// JSON.
    pub criteria: Option<String>,
    /// JSON: which objects it is put to.
    pub over_objects: String,
    /// Whether it has ended.
    pub status: TrialStatus,
    /// How many objects it is put to.
    pub total: i64,
    /// How many labelled objects it is not put to, because what stood then cannot be read any more.
    pub left_out: i64,
    /// What it has cost so far.
    pub cost_micros: i64,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// An object that a trial is put to.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct TrialObject {
    /// The object.
    pub object_id: String,
    /// The newest event to read; all if none.
    pub through: Option<i64>,
    /// JSON: what people say is true.
    pub label: Option<String>,
    /// When they said it.
    pub labelled_at: Option<Timestamp>,
    /// Whether the object was drawn at random.
    pub audit: bool,
    /// JSON: the answer to the present wording.
    pub present: Option<String>,
    /// JSON: the answer to the proposed wording.
    pub proposed: Option<String>,
    /// Failed attempts, and those that ended with their process or are in flight: each is counted when it is claimed.
    pub attempts: i64,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, trial_id, signal_id, version, instructions, criteria, over_objects, status, total, left_out, \
             cost_micros, created_at, ended_at FROM trials ",
            $rest
        )
    };
}

/// Starts a trial of these objects, each named once.
pub async fn insert(conn: &mut Conn, trial: &Trial, objects: &[TrialObject]) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO trials (tenant_id, trial_id, signal_id, version, instructions, criteria, over_objects, status, total,
             left_out, cost_micros, created_at, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        trial.tenant_id,
        trial.trial_id,
        trial.signal_id,
        trial.version,
        &trial.instructions,
        &trial.criteria,
        &trial.over_objects,
        trial.status,
        trial.total,
        trial.left_out,
        trial.cost_micros,
        trial.created_at,
        trial.ended_at
    )?)?;
    Rows::of(objects)
        .column("tenant_id", |_| trial.tenant_id)
        .column("trial_id", |_| trial.trial_id)
        .column("object_id", |object| object.object_id.as_str())
        .column("through", |object| object.through)
        .column("label", |object| object.label.as_deref())
        .column("labelled_at", |object| object.labelled_at)
        .column("audit", |object| object.audit)
        .column("attempts", |_| 0_i64)
        .column("has_ended", |_| false)
        .insert("trial_objects", "")
        .execute(conn)
        .await?;
    Ok(())
}

/// A trial of a question.
pub async fn find(conn: &mut Conn, tenant: TenantId, signal: Uuid, trial: Uuid) -> Result<Option<Trial>> {
    fetch_optional!(
        conn,
        select!("WHERE tenant_id = $1 AND trial_id = $3 AND signal_id = $2"),
        tenant,
        signal,
        trial
    )
}

/// The newest trials of a question: all up to `limit`, or those before one of them.
pub async fn newest(
    conn: &mut Conn,
    tenant: TenantId,
    signal: Uuid,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Trial>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND signal_id = $2 AND trial_id < $3 ORDER BY trial_id DESC LIMIT $4"),
        tenant,
        signal,
        before.unwrap_or(Uuid::max()),
        limit
    )
}

/// How many trials of a tenant are running.
pub async fn count_running(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) =
        fetch_one!(conn, "SELECT count(*) FROM trials WHERE tenant_id = $1 AND status = 'running'", tenant)?;
    Ok(count)
}

/// How many objects of a trial are done, with or without answers.
pub async fn count_ended(conn: &mut Conn, tenant: TenantId, trial: Uuid) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM trial_objects WHERE tenant_id = $1 AND trial_id = $2 AND has_ended",
        tenant,
        trial
    )?;
    Ok(count)
}

/// The running trials that no process runs, oldest first. Those of suspended accounts wait.
pub async fn unleased(conn: &mut Conn, now: Timestamp, limit: i64) -> Result<Vec<Trial>> {
    fetch_all!(
        conn,
        select!(
            "WHERE status = 'running' AND (lease_until IS NULL OR lease_until <= $1)
                   AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = trials.tenant_id) IS NULL
             ORDER BY created_at, trial_id LIMIT $2"
        ),
        now,
        limit
    )
}

/// Leases a running trial that no process runs; false if another one was faster.
pub async fn claim(conn: &mut Conn, trial: &Trial, lease: Lease, now: Timestamp) -> Result<bool> {
    let claimed = execute!(
        conn,
        "UPDATE trials SET lease_token = $3, lease_until = $4
         WHERE tenant_id = $1 AND trial_id = $2 AND status = 'running' AND (lease_until IS NULL OR lease_until <= $5)",
        trial.tenant_id,
        trial.trial_id,
        lease.token,
        lease.until,
        now
    )?;
    Ok(claimed == 1)
}

/// Leaves a running trial that no process runs alone for a while: no token, but an end.
pub async fn put_off(conn: &mut Conn, trial: &Trial, until: Timestamp, now: Timestamp) -> Result<()> {
    execute!(
        conn,
        "UPDATE trials SET lease_token = NULL, lease_until = $3
         WHERE tenant_id = $1 AND trial_id = $2 AND status = 'running' AND (lease_until IS NULL OR lease_until <= $4)",
        trial.tenant_id,
        trial.trial_id,
        until,
        now
    )?;
    Ok(())
}

/// Lets the trials of a tenant that were put off go on.
pub async fn resume(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    execute!(
        conn,
        "UPDATE trials SET lease_until = NULL
         WHERE tenant_id = $1 AND status = 'running' AND lease_token IS NULL AND lease_until IS NOT NULL",
        tenant
    )?;
    Ok(())
}

/// Ends a lease, so that any process goes on with the trial. The claims of these objects count no longer: nothing has become
/// of them.
pub async fn release(conn: &mut Conn, trial: &Trial, token: Uuid, unasked: &[TrialObject]) -> Result<()> {
    let released = execute!(
        conn,
        "UPDATE trials SET lease_token = NULL, lease_until = NULL
         WHERE tenant_id = $1 AND trial_id = $2 AND lease_token = $3",
        trial.tenant_id,
        trial.trial_id,
        token
    )?;
    if released == 1 {
        count(conn, trial, unasked, -1).await?;
    }
    Ok(())
}

macro_rules! select_objects {
    ($rest:literal) => {
        concat!(
            "SELECT object_id, through, label, labelled_at, audit, present, proposed, attempts FROM trial_objects \
             WHERE tenant_id = $1 AND trial_id = $2 ",
            $rest
        )
    };
}

/// The next objects of a trial that are not done.
pub async fn open_objects(
    conn: &mut Conn,
    tenant: TenantId,
    trial: Uuid,
    limit: i64,
) -> Result<Vec<TrialObject>> {
    fetch_all!(conn, select_objects!("AND NOT has_ended ORDER BY object_id LIMIT $3"), tenant, trial, limit)
}

/// Counts a claim of objects that are not done, before anything can happen to the process.
pub async fn begin(conn: &mut Conn, trial: &Trial, objects: &[TrialObject]) -> Result<()> {
    count(conn, trial, objects, 1).await
}

async fn count(conn: &mut Conn, trial: &Trial, objects: &[TrialObject], claims: i64) -> Result<()> {
    for object in objects {
        execute!(
            conn,
            "UPDATE trial_objects SET attempts = attempts + $4
             WHERE tenant_id = $1 AND trial_id = $2 AND object_id = $3 AND NOT has_ended",
            trial.tenant_id,
            trial.trial_id,
            &object.object_id,
            claims
        )?;
    }
    Ok(())
}

/// Leaves the objects without an answer that were claimed this often; returns how many.
pub async fn give_up(conn: &mut Conn, trial: &Trial, max_claims: i64) -> Result<u64> {
    execute!(
        conn,
        "UPDATE trial_objects SET has_ended = TRUE
         WHERE tenant_id = $1 AND trial_id = $2 AND attempts >= $3 AND NOT has_ended",
        trial.tenant_id,
        trial.trial_id,
        max_claims
    )
}

/// The objects of a trial that have both answers.
pub async fn answered_objects(conn: &mut Conn, tenant: TenantId, trial: Uuid) -> Result<Vec<TrialObject>> {
    fetch_all!(
        conn,
        select_objects!("AND present IS NOT NULL AND proposed IS NOT NULL ORDER BY object_id"),
        tenant,
        trial
    )
}

macro_rules! running {
    ($rest:literal) => {
        concat!(
            "SELECT trial_id FROM trials WHERE tenant_id = $1 AND trial_id = $2 AND status = 'running'",
            $rest
        )
    };
}

/// Whether a trial is running.
pub async fn is_running(conn: &mut Conn, trial: &Trial) -> Result<bool> {
    let running: Option<(Uuid,)> = fetch_optional!(conn, running!(""), trial.tenant_id, trial.trial_id)?;
    Ok(running.is_some())
}

/// The same, and keeps it from ending until the transaction ends.
async fn lock_running(conn: &mut Conn, trial: &Trial) -> Result<bool> {
    let statement = match conn.backend() {
        Backend::Sqlite => running!(""),
        Backend::Postgres => running!(" FOR UPDATE"),
    };
    let running: Option<(Uuid,)> = fetch_optional!(conn, statement, trial.tenant_id, trial.trial_id)?;
    Ok(running.is_some())
}

/// Records both answers about an object of a running trial, and what they cost; false if that was done already, the trial has
/// ended, or the object or the trial is gone.
pub async fn record(
    conn: &mut Conn,
    trial: &Trial,
    object_id: &str,
    answers: (Option<&str>, Option<&str>),
    cost_micros: i64,
) -> Result<bool> {
    if !lock_running(conn, trial).await? {
        return Ok(false);
    }
    let recorded = execute!(
        conn,
        "UPDATE trial_objects SET present = $4, proposed = $5, has_ended = TRUE
         WHERE tenant_id = $1 AND trial_id = $2 AND object_id = $3 AND NOT has_ended",
        trial.tenant_id,
        trial.trial_id,
        object_id,
        answers.0,
        answers.1
    )?;
    if recorded == 1 {
        execute!(
            conn,
            "UPDATE trials SET cost_micros = cost_micros + $3 WHERE tenant_id = $1 AND trial_id = $2",
            trial.tenant_id,
            trial.trial_id,
            cost_micros
        )?;
    }
    Ok(recorded == 1)
}

/// Ends a failed attempt, which its claim has counted; after `max_attempts` the object has no answer.
pub async fn fail(conn: &mut Conn, trial: &Trial, object_id: &str, max_attempts: i64) -> Result<()> {
    execute!(
        conn,
        "UPDATE trial_objects SET has_ended = (attempts >= $4)
         WHERE tenant_id = $1 AND trial_id = $2 AND object_id = $3 AND NOT has_ended",
        trial.tenant_id,
        trial.trial_id,
        object_id,
        max_attempts
    )?;
    Ok(())
}

/// Ends a running trial; false if it has ended.
pub async fn end(
    conn: &mut Conn,
    tenant: TenantId,
    trial: Uuid,
    status: TrialStatus,
    now: Timestamp,
) -> Result<bool> {
    let ended = execute!(
        conn,
        "UPDATE trials SET status = $3, ended_at = $4, lease_token = NULL, lease_until = NULL
         WHERE tenant_id = $1 AND trial_id = $2 AND status = 'running'",
        tenant,
        trial,
        status,
        now
    )?;
    Ok(ended == 1)
}

/// The trials of questions that are gone, or too old to be kept.
pub async fn superfluous(
    conn: &mut Conn,
    tenant: TenantId,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Uuid>> {
    let found: Vec<(Uuid,)> = fetch_all!(
        conn,
        "SELECT trial_id FROM trials WHERE tenant_id = $1
           AND ((ended_at IS NOT NULL AND ended_at < $2)
                OR signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1))
         ORDER BY trial_id LIMIT $3",
        tenant,
        before,
        limit
    )?;
    Ok(found.into_iter().map(|(trial,)| trial).collect())
}

/// Removes a trial with its objects, of which there are at most a thousand.
pub async fn delete(conn: &mut Conn, tenant: TenantId, trial: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM trial_objects WHERE tenant_id = $1 AND trial_id = $2", tenant, trial)?;
    execute!(conn, "DELETE FROM trials WHERE tenant_id = $1 AND trial_id = $2", tenant, trial)?;
    Ok(())
}
