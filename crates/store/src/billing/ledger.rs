//! The ledger as it is read: newest first, by keyset, also with one line for each bulk run.

use model::{TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::connect::fetch_all;
use crate::{Conn, Result};

/// Whether a line brings money or takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It brings some.
    Credit,
    /// It takes some.
    Charge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Charge => "charge",
        }
    }
}

/// A line.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct Entry {
    pub seq: i64,
    pub entry_id: Uuid,
    pub reason: String,
    pub delta_micros: i64,
    pub balance_after_micros: i64,
    pub model: Option<String>,
    pub object_id: Option<String>,
    pub cost_usd: Option<String>,
    pub cost_margin: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub batch_id: Option<Uuid>,
    pub payment_ref: Option<String>,
    pub note: Option<String>,
    pub created_at: Timestamp,
}

/// A bulk run's charges as one line, which stands where the newest of them stands.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct Batch {
    pub batch_id: Uuid,
    pub last_seq: i64,
    pub entries: i64,
    pub delta_micros: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub models: Json<Vec<String>>,
    pub first_at: Timestamp,
    pub entry_id: Uuid,
    pub balance_after_micros: i64,
    pub created_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT seq, entry_id, reason, delta_micros, balance_after_micros, model, object_id, cost_usd, cost_margin,
                 input_tokens, output_tokens, batch_id, payment_ref, note, created_at FROM ledger_entries ",
            $rest
        )
    };
}

/// Lines before a place, newest first.
pub async fn entries(conn: &mut Conn, tenant: TenantId, before: i64, limit: i64) -> Result<Vec<Entry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"),
        tenant,
        before,
        limit
    )
}

/// Lines of one kind before a place, newest first.
pub async fn entries_of_kind(
    conn: &mut Conn,
    tenant: TenantId,
    kind: Kind,
    before: i64,
    limit: i64,
) -> Result<Vec<Entry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND kind = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"),
        tenant,
        kind.name(),
        before,
        limit
    )
}

/// Charges of a bulk run before a place, newest first.
pub async fn entries_of_batch(
    conn: &mut Conn,
    tenant: TenantId,
    batch_id: Uuid,
    before: i64,
    limit: i64,
) -> Result<Vec<Entry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND batch_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"),
        tenant,
        batch_id,
        before,
        limit
    )
}

/// Charges outside of any bulk run before a place, newest first. Credits are never part of one.
pub async fn single_charges(
    conn: &mut Conn,
    tenant: TenantId,
    before: i64,
    limit: i64,
) -> Result<Vec<Entry>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND kind = 'charge' AND batch_id IS NULL AND seq < $2 ORDER BY seq DESC LIMIT $3"
        ),
        tenant,
        before,
        limit
    )
}

/// Bulk runs that stand before a place, newest first.
pub async fn batches(conn: &mut Conn, tenant: TenantId, before: i64, limit: i64) -> Result<Vec<Batch>> {
    fetch_all!(
        conn,
        // Not a join: there the planner is free to walk the whole ledger beside the batches.
        "SELECT batch_id, last_seq, entries, delta_micros, input_tokens, output_tokens, models, first_at,
             (SELECT entry_id FROM ledger_entries WHERE tenant_id = $1 AND seq = last_seq) AS entry_id,
             (SELECT balance_after_micros FROM ledger_entries WHERE tenant_id = $1 AND seq = last_seq)
                 AS balance_after_micros,
             (SELECT created_at FROM ledger_entries WHERE tenant_id = $1 AND seq = last_seq) AS created_at
         FROM ledger_batches WHERE tenant_id = $1 AND last_seq < $2 ORDER BY last_seq DESC LIMIT $3",
        tenant,
        before,
        limit
    )
}
