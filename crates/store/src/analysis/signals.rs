//! Signals: the questions of a tenant.

use std::collections::{BTreeSet, HashMap};

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::bulk::with_rows;
use crate::db::connect::{execute, fetch_all, fetch_one, fetch_optional};
use crate::db::transaction::expect_one;
use crate::{Conn, Result};

/// A question of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Signal {
    /// What it is called.
    pub key: String,
    /// Names the question: another type is another question.
    pub signal_id: Uuid,
    /// `noul`, `score` or `choice`.
    #[sqlx(rename = "type")]
    pub kind: String,
    /// JSON, as it was sent.
    pub instructions: String,
    /// JSON, as it was sent.
    pub criteria: Option<String>,
    /// Whether it is asked.
    pub enabled: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, signal_id, type, instructions, criteria, enabled, created_at, updated_at FROM signals ",
            $rest
        )
    };
}

/// Every question of a tenant, by key.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Signal>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 ORDER BY key"), tenant)
}

/// Every question of each of these tenants, by key.
pub async fn of_tenants(
    conn: &mut Conn,
    tenants: &BTreeSet<TenantId>,
) -> Result<HashMap<TenantId, Vec<Signal>>> {
    #[derive(sqlx::FromRow)]
    struct Owned {
        tenant_id: TenantId,
        #[sqlx(flatten)]
        signal: Signal,
    }
    let tenants: Vec<&TenantId> = tenants.iter().collect();
    let rows = with_rows!(
        Owned;
        conn,
        &tenants,
        [("tenant_id", "uuid", |row| **row)],
        "SELECT tenant_id, key, signal_id, type, instructions, criteria, enabled, created_at, updated_at
         FROM given JOIN signals USING (tenant_id) ORDER BY tenant_id, key",
    );
    let mut signals: HashMap<TenantId, Vec<Signal>> = HashMap::new();
    for Owned { tenant_id, signal } in rows {
        signals.entry(tenant_id).or_default().push(signal);
    }
    Ok(signals)
}

/// A question of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<Option<Signal>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND key = $2"), tenant, key)
}

/// How many signals a tenant has.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM signals WHERE tenant_id = $1", tenant)?;
    Ok(count)
}

/// Makes a question, or replaces its definition.
pub async fn put(conn: &mut Conn, tenant: TenantId, signal: &Signal) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO signals (tenant_id, key, signal_id, type, instructions, criteria, enabled, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (tenant_id, key) DO UPDATE SET signal_id = excluded.signal_id, type = excluded.type,
             instructions = excluded.instructions, criteria = excluded.criteria, enabled = excluded.enabled,
             updated_at = excluded.updated_at",
        tenant,
        &signal.key,
        signal.signal_id,
        &signal.kind,
        &signal.instructions,
        &signal.criteria,
        signal.enabled,
        signal.created_at,
        signal.updated_at
    )?)
}

/// Removes the counts of a question that is no more.
pub async fn forget_tallies(conn: &mut Conn, tenant: TenantId, signal_id: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM signal_tallies WHERE tenant_id = $1 AND signal_id = $2", tenant, signal_id)?;
    Ok(())
}

/// Removes a question; says whether there was one.
pub async fn delete(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<bool> {
    let deleted = execute!(conn, "DELETE FROM signals WHERE tenant_id = $1 AND key = $2", tenant, key)?;
    Ok(deleted == 1)
}
