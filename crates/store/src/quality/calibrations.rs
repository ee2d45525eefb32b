//! Calibrations that were fitted to the labels of a question.

use std::collections::HashMap;

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, execute, expect_one, fetch_optional};

/// How many calibrations of a question are kept beside those that a version uses; the oldest go first.
const KEPT: i64 = 100;

/// A calibration.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Calibration {
    /// Its id.
    pub calibration_id: Uuid,
    /// The question.
    pub signal_id: Uuid,
    /// The version whose wording it was fitted to.
    pub version: i64,
    /// JSON.
    pub calibrator: String,
    /// How many labels it was fitted to.
    pub labels: i64,
    /// When it was fitted.
    pub created_at: Timestamp,
}

/// Adds a calibration, and drops old ones that no version uses.
pub async fn insert(conn: &mut Conn, tenant: TenantId, key: &str, calibration: &Calibration) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO calibrations (tenant_id, calibration_id, signal_id, version, calibrator, labels, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        tenant,
        calibration.calibration_id,
        calibration.signal_id,
        calibration.version,
        &calibration.calibrator,
        calibration.labels,
        calibration.created_at
    )?)?;
    execute!(
        conn,
        "DELETE FROM calibrations WHERE tenant_id = $1 AND signal_id = $2
           AND calibration_id NOT IN (
               SELECT calibration_id FROM calibrations WHERE tenant_id = $1 AND signal_id = $2
               ORDER BY calibration_id DESC LIMIT $3)
           AND calibration_id NOT IN (
               SELECT calibration_id FROM signal_versions
               WHERE tenant_id = $1 AND key = $4 AND calibration_id IS NOT NULL)",
        tenant,
        calibration.signal_id,
        KEPT,
        key
    )?;
    Ok(())
}

/// A calibration of a question.
pub async fn find(
    conn: &mut Conn,
    tenant: TenantId,
    signal: Uuid,
    calibration: Uuid,
) -> Result<Option<Calibration>> {
    fetch_optional!(
        conn,
        "SELECT calibration_id, signal_id, version, calibrator, labels, created_at FROM calibrations
         WHERE tenant_id = $1 AND calibration_id = $3 AND signal_id = $2",
        tenant,
        signal,
        calibration
    )
}

/// The JSON of calibrations of tenants, by id.
pub async fn calibrators(
    conn: &mut Conn,
    calibrations: &[(TenantId, Uuid)],
) -> Result<HashMap<Uuid, String>> {
    let found = Rows::of(calibrations)
        .column("tenant_id", |row| row.0)
        .column("calibration_id", |row| row.1)
        .with_given(
            "SELECT calibrations.calibration_id, calibrator FROM given CROSS JOIN calibrations
             WHERE calibrations.tenant_id = given.tenant_id AND calibrations.calibration_id = given.calibration_id",
        )
        .fetch::<(Uuid, String)>(conn)
        .await?;
    Ok(found.into_iter().collect())
}

/// Removes the calibrations of questions that are gone.
pub async fn drop_of_deleted(conn: &mut Conn, tenant: TenantId) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM calibrations WHERE tenant_id = $1
           AND signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1)",
        tenant
    )
}
