//! Signals: the questions of a tenant.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::database::execute;
use crate::transaction::expect_one;
use crate::{Conn, Result};

/// A question about to be added.
#[derive(Debug)]
pub struct NewSignal<'a> {
    /// What it is called.
    pub key: &'a str,
    /// Names the question over its changes.
    pub signal_id: Uuid,
    /// `noul`, `score` or `choice`.
    pub kind: &'a str,
    /// JSON, as it is passed on.
    pub instructions: &'a str,
    /// JSON, as it is passed on.
    pub criteria: Option<&'a str>,
}

/// Adds a question, enabled.
pub async fn insert(conn: &mut Conn, tenant: TenantId, signal: &NewSignal<'_>, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO signals (tenant_id, key, signal_id, type, instructions, criteria, enabled, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, TRUE, $7, $7)",
        tenant,
        signal.key,
        signal.signal_id,
        signal.kind,
        signal.instructions,
        signal.criteria,
        now
    )?)
}
