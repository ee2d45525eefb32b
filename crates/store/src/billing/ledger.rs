//! Reading the ledger: newest first, page by page, also with one entry for each bulk run. `balance` writes its entries.

use model::{TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::billing::decimal::Decimal;
use crate::db::{Conn, Result, fetch_all};

/// Whether an entry adds money or takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// It adds money.
    Credit,
    /// It takes money.
    Charge,
}

model::text_values!(LedgerKind { Credit = "credit", Charge = "charge" });

/// Why an entry was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerReason {
    /// A new account got it.
    SignupCredit,
    /// Somebody paid.
    Topup,
    /// An analysis was done.
    Analysis,
    /// An operator adjusted the balance.
    Adjustment,
}

model::text_values!(LedgerReason {
    SignupCredit = "signup_credit",
    Topup = "topup",
    Analysis = "analysis",
    Adjustment = "adjustment",
});
model::sql_text!(LedgerKind, LedgerReason);

/// An entry of the ledger.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct LedgerEntry {
    pub seq: i64,
    pub entry_id: Uuid,
    pub reason: LedgerReason,
    pub delta_micros: i64,
    pub balance_after_micros: i64,
    pub model: Option<String>,
    pub object_id: Option<String>,
    pub cost_usd: Option<Decimal>,
    pub cost_margin: Option<Decimal>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub batch_id: Option<Uuid>,
    pub payment_ref: Option<String>,
    pub note: Option<String>,
    pub created_at: Timestamp,
}

/// The charges of a bulk run summed up, at the position of the newest of them.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema, which explains them")]
pub struct LedgerBatch {
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

/// Entries before a position, newest first.
pub async fn entries(conn: &mut Conn, tenant: TenantId, before: i64, limit: i64) -> Result<Vec<LedgerEntry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"),
        tenant,
        before,
        limit
    )
}

/// Entries after a position, oldest first.
pub async fn entries_after(
    conn: &mut Conn,
    tenant: TenantId,
    after: i64,
    limit: i64,
) -> Result<Vec<LedgerEntry>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"), tenant, after, limit)
}

/// Entries of one kind before a position, newest first.
pub async fn entries_of_kind(
    conn: &mut Conn,
    tenant: TenantId,
    kind: LedgerKind,
    before: i64,
    limit: i64,
) -> Result<Vec<LedgerEntry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND kind = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"),
        tenant,
        kind,
        before,
        limit
    )
}

/// Charges of a bulk run before a position, newest first.
pub async fn entries_of_batch(
    conn: &mut Conn,
    tenant: TenantId,
    batch_id: Uuid,
    before: i64,
    limit: i64,
) -> Result<Vec<LedgerEntry>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND batch_id = $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"),
        tenant,
        batch_id,
        before,
        limit
    )
}

/// Charges outside of any bulk run before a position, newest first. Credits are never part of one.
pub async fn single_charges(
    conn: &mut Conn,
    tenant: TenantId,
    before: i64,
    limit: i64,
) -> Result<Vec<LedgerEntry>> {
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

/// Bulk runs before a position, newest first.
pub async fn batches(conn: &mut Conn, tenant: TenantId, before: i64, limit: i64) -> Result<Vec<LedgerBatch>> {
    fetch_all!(
        conn,
        // Not a join: the planner would be free to read the whole ledger beside the batches.
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
