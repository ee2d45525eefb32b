//! Balances and the ledger whose sum they are.

use model::{TenantId, Timestamp};
use uuid::Uuid;

use crate::database::{execute, fetch_one};
use crate::transaction::expect_one;
use crate::{Conn, Result};

/// Opens a tenant's account at zero.
pub async fn open(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO balances (tenant_id, balance_micros, ledger_seq) VALUES ($1, 0, 0)",
        tenant
    )?)
}

/// Adds an amount to the balance and writes its line, in the order that the balance's row gives.
pub async fn credit(
    conn: &mut Conn,
    tenant: TenantId,
    entry_id: Uuid,
    micros: i64,
    reason: &str,
    now: Timestamp,
) -> Result<()> {
    let (seq, balance): (i64, i64) = fetch_one!(
        conn,
        "UPDATE balances SET balance_micros = balance_micros + $2, ledger_seq = ledger_seq + 1
         WHERE tenant_id = $1 RETURNING ledger_seq, balance_micros",
        tenant,
        micros
    )?;
    expect_one(execute!(
        conn,
        "INSERT INTO ledger_entries
             (tenant_id, seq, entry_id, kind, reason, delta_micros, balance_after_micros, created_at)
         VALUES ($1, $2, $3, 'credit', $4, $5, $6, $7)",
        tenant,
        seq,
        entry_id,
        reason,
        micros,
        balance,
        now
    )?)
}
