//! Signals: the questions of a tenant.

use std::collections::{BTreeSet, HashMap};

use model::{SignalType, TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, execute, expect_one, fetch_all, fetch_one, fetch_optional};

/// A question of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Signal {
    /// Its key.
    pub key: String,
    /// Identifies the question: another type is another question.
    pub signal_id: Uuid,
    /// What kind of answer it has.
    #[sqlx(rename = "type")]
    pub kind: SignalType,
    /// JSON, as it was sent.
    pub instructions: String,
    /// JSON, as it was sent.
    pub criteria: Option<String>,
    /// The number of this definition, from 1.
    pub version: i64,
    /// The calibration that is switched on.
    pub calibration_id: Option<Uuid>,
    /// JSON: which answers go to the second analyzer.
    pub escalation: Option<String>,
    /// Whether it is asked.
    pub enabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, signal_id, type, instructions, criteria, version, calibration_id, escalation, enabled, created_at, \
             updated_at FROM signals ",
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
    let tenants: Vec<TenantId> = tenants.iter().copied().collect();
    let rows = Rows::of(&tenants)
        .column("tenant_id", |tenant| *tenant)
        .with_given(
            "SELECT signals.tenant_id, key, signal_id, type, instructions, criteria, version, calibration_id, escalation,
                    enabled,                    created_at, updated_at
             FROM given CROSS JOIN signals WHERE signals.tenant_id = given.tenant_id
             ORDER BY given.tenant_id, key",
        )
        .fetch::<Owned>(conn)
        .await?;
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

/// Counts the signals of a tenant.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(conn, "SELECT count(*) FROM signals WHERE tenant_id = $1", tenant)?;
    Ok(count)
}

/// Creates a question, or replaces its definition. A definition that is new is also recorded as a version
/// ([`crate::analysis::signal_versions`]), in the same transaction.
pub async fn put(conn: &mut Conn, tenant: TenantId, signal: &Signal) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO signals (tenant_id, key, signal_id, type, instructions, criteria, enabled, created_at, updated_at,
                              version, calibration_id, escalation)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (tenant_id, key) DO UPDATE SET signal_id = excluded.signal_id, type = excluded.type,
             instructions = excluded.instructions, criteria = excluded.criteria, enabled = excluded.enabled,
             updated_at = excluded.updated_at, version = excluded.version, calibration_id = excluded.calibration_id,
             escalation = excluded.escalation",
        tenant,
        &signal.key,
        signal.signal_id,
        signal.kind,
        &signal.instructions,
        &signal.criteria,
        signal.enabled,
        signal.created_at,
        signal.updated_at,
        signal.version,
        signal.calibration_id,
        &signal.escalation
    )?)
}

/// Sets which answers to a question go to the second analyzer. This is no new version.
pub async fn set_escalation(
    conn: &mut Conn,
    tenant: TenantId,
    key: &str,
    escalation: Option<&str>,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE signals SET escalation = $3 WHERE tenant_id = $1 AND key = $2",
        tenant,
        key,
        escalation
    )?)
}

/// Removes the counts of a question that was deleted.
pub async fn delete_tallies(conn: &mut Conn, tenant: TenantId, signal_id: Uuid) -> Result<()> {
    execute!(conn, "DELETE FROM signal_tallies WHERE tenant_id = $1 AND signal_id = $2", tenant, signal_id)?;
    Ok(())
}

/// Removes a question; false when there is none.
pub async fn delete(conn: &mut Conn, tenant: TenantId, key: &str) -> Result<bool> {
    let deleted = execute!(conn, "DELETE FROM signals WHERE tenant_id = $1 AND key = $2", tenant, key)?;
    Ok(deleted == 1)
}
