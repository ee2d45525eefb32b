//! The versions of signals: every definition that a key has had, and who made it.

use model::api::{Author, AuthorKind};
use model::{SignalType, TenantId, Timestamp};
use uuid::Uuid;

use crate::analysis::signals::Signal;
use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};

/// How many versions of a key are kept; the oldest go first.
pub const KEPT_VERSIONS: i64 = 100;

/// A definition that a key has or had.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SignalVersion {
    /// Its number, from 1.
    pub version: i64,
    /// What kind of answer it has.
    #[sqlx(rename = "type")]
    pub kind: SignalType,
    /// JSON, as it was sent.
    pub instructions: String,
    /// JSON, as it was sent.
    pub criteria: Option<String>,
    /// The calibration that was switched on.
    pub calibration_id: Option<Uuid>,
    /// When it was made.
    pub created_at: Timestamp,
    author_kind: Option<AuthorKind>,
    author_id: Option<Uuid>,
    author_name: Option<String>,
}

impl SignalVersion {
    /// Who made it; none of the service itself, and of what was there before authors were recorded.
    pub fn author(&self) -> Option<Author> {
        Some(Author { kind: self.author_kind?, id: self.author_id?, name: self.author_name.clone()? })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT version, type, instructions, criteria, calibration_id, created_at, author_kind, author_id, \
             author_name FROM signal_versions ",
            $rest
        )
    };
}

/// The number that the next definition of a key gets. The caller has locked the tenant.
pub async fn next(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<i64> {
    let (newest,): (i64,) = fetch_one!(
        conn,
        "SELECT coalesce(max(version), 0) FROM signal_versions WHERE tenant_id = $1 AND key = $2",
        tenant,
        key
    )?;
    Ok(newest + 1)
}

/// Records the definition of a signal as its version, and drops the oldest one that is too many.
pub async fn record(conn: &mut Conn, tenant: TenantId, signal: &Signal, by: Option<&Author>) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO signal_versions (tenant_id, key, version, type, instructions, criteria, calibration_id, created_at,
                                      author_kind, author_id, author_name)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        tenant,
        &signal.key,
        signal.version,
        signal.kind,
        &signal.instructions,
        &signal.criteria,
        signal.calibration_id,
        signal.updated_at,
        by.map(|author| author.kind),
        by.map(|author| author.id),
        by.map(|author| author.name.as_str())
    )?)?;
    execute!(
        conn,
        "DELETE FROM signal_versions WHERE tenant_id = $1 AND key = $2 AND version <= $3",
        tenant,
        &signal.key,
        signal.version - KEPT_VERSIONS
    )?;
    Ok(())
}

/// The versions of a key that are kept, newest first.
pub async fn of_key(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<Vec<SignalVersion>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 AND key = $2 ORDER BY version DESC"), tenant, key)
}

/// A version of a key.
pub async fn find(
    conn: &mut Conn,
    tenant: TenantId,
    key: &str,
    version: i64,
) -> Result<Option<SignalVersion>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND key = $2 AND version = $3"), tenant, key, version)
}

/// Forgets the calibrations of all versions of a key: they go with its question, also if another one takes its key.
pub async fn forget_calibrations(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<()> {
    execute!(
        conn,
        "UPDATE signal_versions SET calibration_id = NULL
         WHERE tenant_id = $1 AND key = $2 AND calibration_id IS NOT NULL",
        tenant,
        key
    )?;
    Ok(())
}

/// How many objects have an answer of each version of a signal.
pub async fn objects_by_version(
    conn: &mut Conn,
    tenant: TenantId,
    signal_id: Uuid,
) -> Result<Vec<(i64, i64)>> {
    fetch_all!(
        conn,
        "SELECT version, CAST(sum(answers) AS bigint) FROM signal_tallies
         WHERE tenant_id = $1 AND signal_id = $2 GROUP BY version",
        tenant,
        signal_id
    )
}
