//! Walks over all objects of a tenant: one row with a cursor, whatever the number of objects.

use std::collections::HashSet;

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::connect::{execute, fetch_all, fetch_optional};
use crate::db::transaction::expect_one;
use crate::{Conn, Result};

/// What a walk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every object is analyzed again, for all signals.
    Analyze,
    /// Every object without an answer to one signal is asked for it.
    Backfill,
    /// Every object is put in its place again, because the enabled signals are others.
    Rerank,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Analyze => "analyze",
            Self::Backfill => "backfill",
            Self::Rerank => "rerank",
        }
    }
}

/// A walk, as far as it has come.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct BulkRun {
    /// Whose objects.
    pub tenant_id: TenantId,
    /// Its id, which is also the batch of its charges.
    pub bulk_run_id: Uuid,
    kind: String,
    /// The signal of a backfill.
    pub signal_id: Option<Uuid>,
    status: String,
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
    /// What it is for.
    pub fn kind(&self) -> Kind {
        match self.kind.as_str() {
            "analyze" => Kind::Analyze,
            "backfill" => Kind::Backfill,
            _ => Kind::Rerank,
        }
    }

    /// Whether it is still under way.
    pub fn is_running(&self) -> bool {
        self.status == "running"
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

/// A walk about to start.
#[derive(Clone, Debug)]
pub struct NewRun<'a> {
    /// Its id.
    pub id: Uuid,
    /// What it is for.
    pub kind: Kind,
    /// The signal of a backfill: its key and its id.
    pub signal: Option<(&'a str, Uuid)>,
    /// How many objects it is for.
    pub total: i64,
    /// When it starts.
    pub now: Timestamp,
}

/// Starts a walk.
pub async fn start(conn: &mut Conn, tenant: TenantId, new: &NewRun<'_>) -> Result<BulkRun> {
    let (signal_key, signal_id) = new.signal.unzip();
    expect_one(execute!(
        conn,
        "INSERT INTO bulk_runs (tenant_id, bulk_run_id, kind, signal_key, signal_id, status, object_cursor, total, started_at)
         VALUES ($1, $2, $3, $4, $5, 'running', '', $6, $7)",
        tenant,
        new.id,
        new.kind.name(),
        signal_key,
        signal_id,
        new.total,
        new.now
    )?)?;
    Ok(BulkRun {
        tenant_id: tenant,
        bulk_run_id: new.id,
        kind: new.kind.name().to_owned(),
        signal_id,
        status: "running".to_owned(),
        object_cursor: String::new(),
        total: new.total,
        completed: None,
        started_at: new.now,
    })
}

/// Every walk under way, tenant by tenant: first the analysis of everything, then backfills in order of their start.
pub async fn running(conn: &mut Conn) -> Result<Vec<BulkRun>> {
    fetch_all!(conn, select!("WHERE status = 'running' ORDER BY tenant_id, kind, started_at, bulk_run_id"))
}

/// A tenant's walk of a kind that is under way, if there is one.
pub async fn running_of(conn: &mut Conn, tenant: TenantId, kind: Kind) -> Result<Option<BulkRun>> {
    fetch_optional!(
        conn,
        select!("WHERE tenant_id = $1 AND kind = $2 AND status = 'running' ORDER BY started_at LIMIT 1"),
        tenant,
        kind.name()
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

/// Moves a walk on from where it was seen; false when another node has done so meanwhile. Taken first in a step's
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

/// Lets a tenant's walk of a kind begin anew; false when none is under way.
pub async fn begin_anew(conn: &mut Conn, tenant: TenantId, kind: Kind) -> Result<bool> {
    let begun = execute!(
        conn,
        "UPDATE bulk_runs SET object_cursor = '' WHERE tenant_id = $1 AND kind = $2 AND status = 'running'",
        tenant,
        kind.name()
    )?;
    Ok(begun > 0)
}

/// Ends a walk where it was seen; false when it has been moved or ended meanwhile.
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
