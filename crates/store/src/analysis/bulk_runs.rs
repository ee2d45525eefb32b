//! Bulk runs over all objects of a tenant: one row with a cursor, whatever the number of objects.

use std::collections::HashSet;

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

/// What a bulk run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkRunKind {
    /// Every object is analyzed again, for all signals.
    Analyze,
    /// Every object without an answer to one signal is analyzed for it.
    Backfill,
    /// Every object is ranked again, because the enabled signals have changed.
    Rerank,
}

model::text_values!(BulkRunKind { Analyze = "analyze", Backfill = "backfill", Rerank = "rerank" });

/// Whether a bulk run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkRunStatus {
    /// It has not.
    Running,
    /// It has reached every object.
    Done,
}

model::text_values!(BulkRunStatus { Running = "running", Done = "done" });
model::sql_text!(BulkRunKind, BulkRunStatus);

/// A bulk run and its progress.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct BulkRun {
    /// Whose objects.
    pub tenant_id: TenantId,
    /// Its id, which is also the batch of its charges.
    pub bulk_run_id: Uuid,
    /// What it is for.
    pub kind: BulkRunKind,
    /// The signal of a backfill.
    pub signal_id: Option<Uuid>,
    /// Whether it has ended.
    pub status: BulkRunStatus,
    /// The last object that was reached; empty at the start.
    pub object_cursor: String,
    /// How many objects it was for when it started.
    pub total: i64,
    /// How many of them a backfill that has ended found an answer for.
    pub completed: Option<i64>,
    /// When it started.
    pub started_at: Timestamp,
}

impl BulkRun {
    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        self.status == BulkRunStatus::Running
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, bulk_run_id, kind, signal_id, status, object_cursor, total, completed, started_at FROM bulk_runs ",
            $rest
        )
    };
}

/// A bulk run to be started.
#[derive(Clone, Debug)]
pub struct NewBulkRun<'a> {
    /// Its id.
    pub id: Uuid,
    /// What it is for.
    pub kind: BulkRunKind,
    /// The signal of a backfill: its key and its id.
    pub signal: Option<(&'a str, Uuid)>,
    /// How many objects it is for.
    pub total: i64,
    /// When it starts.
    pub now: Timestamp,
}

/// Starts a bulk run.
pub async fn start(conn: &mut Conn, tenant: TenantId, new: &NewBulkRun<'_>) -> Result<BulkRun> {
    let (signal_key, signal_id) = new.signal.unzip();
    expect_one(execute!(
        conn,
        "INSERT INTO bulk_runs (tenant_id, bulk_run_id, kind, signal_key, signal_id, status, object_cursor, total, started_at)
         VALUES ($1, $2, $3, $4, $5, 'running', '', $6, $7)",
        tenant,
        new.id,
        new.kind,
        signal_key,
        signal_id,
        new.total,
        new.now
    )?)?;
    Ok(BulkRun {
        tenant_id: tenant,
        bulk_run_id: new.id,
        kind: new.kind,
        signal_id,
        status: BulkRunStatus::Running,
        object_cursor: String::new(),
        total: new.total,
        completed: None,
        started_at: new.now,
    })
}

/// Every running bulk run, tenant by tenant: first the analysis of everything, then backfills in order of their start.
pub async fn running(conn: &mut Conn) -> Result<Vec<BulkRun>> {
    fetch_all!(conn, select!("WHERE status = 'running' ORDER BY tenant_id, kind, started_at, bulk_run_id"))
}

/// A tenant's running bulk run of a kind, if there is one.
pub async fn running_of(conn: &mut Conn, tenant: TenantId, kind: BulkRunKind) -> Result<Option<BulkRun>> {
    fetch_optional!(
        conn,
        select!("WHERE tenant_id = $1 AND kind = $2 AND status = 'running' ORDER BY started_at LIMIT 1"),
        tenant,
        kind
    )
}

/// The latest backfill of a signal.
pub async fn latest_backfill(
    conn: &mut Conn,
    tenant: TenantId,
    signal_key: &str,
    signal_id: Uuid,
) -> Result<Option<BulkRun>> {
    fetch_optional!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND signal_key = $2 AND signal_id = $3 AND kind = 'backfill'
             ORDER BY started_at DESC, bulk_run_id DESC LIMIT 1"
        ),
        tenant,
        signal_key,
        signal_id
    )
}

/// Moves the cursor of a bulk run; false when another node has done so meanwhile. As the first statement of a step's
/// transaction, it keeps every other node out of the step until the commit.
pub async fn advance(conn: &mut Conn, run: &BulkRun, cursor: &str) -> Result<bool> {
    let moved = execute!(
        conn,
        "UPDATE bulk_runs SET object_cursor = $4
         WHERE tenant_id = $1 AND bulk_run_id = $2 AND status = 'running' AND object_cursor = $3",
        run.tenant_id,
        run.bulk_run_id,
        &run.object_cursor,
        cursor
    )?;
    Ok(moved == 1)
}

/// Restarts a tenant's running bulk run of a kind; false when there is none.
pub async fn restart(conn: &mut Conn, tenant: TenantId, kind: BulkRunKind) -> Result<bool> {
    let restarted = execute!(
        conn,
        "UPDATE bulk_runs SET object_cursor = '' WHERE tenant_id = $1 AND kind = $2 AND status = 'running'",
        tenant,
        kind
    )?;
    Ok(restarted > 0)
}

/// Ends a bulk run; false when it has been moved or ended meanwhile.
pub async fn finish(conn: &mut Conn, run: &BulkRun, completed: Option<i64>, now: Timestamp) -> Result<bool> {
    let ended = execute!(
        conn,
        "UPDATE bulk_runs SET status = 'done', finished_at = $4, completed = $5
         WHERE tenant_id = $1 AND bulk_run_id = $2 AND status = 'running' AND object_cursor = $3",
        run.tenant_id,
        run.bulk_run_id,
        &run.object_cursor,
        now,
        completed
    )?;
    Ok(ended == 1)
}

/// Removes the backfills of a signal that have ended: another one is about to start, and only that can be asked for. So there
/// is one at a time, and which was the last is not a question of clocks.
pub async fn drop_ended_backfills(conn: &mut Conn, tenant: TenantId, signal_key: &str) -> Result<()> {
    execute!(
        conn,
        "DELETE FROM bulk_runs
         WHERE tenant_id = $1 AND signal_key = $2 AND kind = 'backfill' AND status = 'done'",
        tenant,
        signal_key
    )?;
    Ok(())
}

/// Removes bulk runs that ended before an instant and that nobody can ask for: all but the last backfill of each signal.
pub async fn drop_ended(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM bulk_runs
         WHERE tenant_id = $1 AND status = 'done' AND finished_at < $2
           AND (kind <> 'backfill'
                OR NOT EXISTS (SELECT 1 FROM signals WHERE signals.tenant_id = $1
                       AND signals.key = bulk_runs.signal_key AND signals.signal_id = bulk_runs.signal_id)
                OR EXISTS (SELECT 1 FROM bulk_runs AS later WHERE later.tenant_id = $1 AND later.kind = 'backfill'
                       AND later.signal_key = bulk_runs.signal_key AND later.started_at > bulk_runs.started_at))",
        tenant,
        before
    )
}

/// The next objects after one, in the order of their ids.
pub async fn objects_after(
    conn: &mut Conn,
    tenant: TenantId,
    cursor: &str,
    limit: i64,
) -> Result<Vec<String>> {
    let ids: Vec<(String,)> = fetch_all!(
        conn,
        "SELECT object_id FROM objects WHERE tenant_id = $1 AND object_id > $2 ORDER BY object_id LIMIT $3",
        tenant,
        cursor,
        limit
    )?;
    Ok(ids.into_iter().map(|(id,)| id).collect())
}

/// Which questions have an answer, for the objects after one up to another.
pub async fn answered_between(
    conn: &mut Conn,
    tenant: TenantId,
    after: &str,
    through: &str,
) -> Result<HashSet<(String, Uuid)>> {
    let answered: Vec<(String, Uuid)> = fetch_all!(
        conn,
        "SELECT object_id, signal_id FROM answers WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3",
        tenant,
        after,
        through
    )?;
    Ok(answered.into_iter().collect())
}
