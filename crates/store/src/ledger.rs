//! Balances, the ledger whose sum they are, and the rollups of usage that are kept with it.

use model::{Date, TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::bulk::insert_many;
use crate::database::{execute, fetch_one, fetch_optional};
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

/// What a tenant has left, in micro-dollars.
pub async fn balance(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (balance,): (i64,) =
        fetch_one!(conn, "SELECT balance_micros FROM balances WHERE tenant_id = $1", tenant)?;
    Ok(balance)
}

/// What a tenant has left, locked until the transaction ends: nobody charges or credits it meanwhile.
pub async fn lock_balance(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    // On SQLite the write transaction is the lock; the update that changes nothing takes the row's on PostgreSQL.
    let (balance,): (i64,) = fetch_one!(
        conn,
        "UPDATE balances SET ledger_seq = ledger_seq WHERE tenant_id = $1 RETURNING balance_micros",
        tenant
    )?;
    Ok(balance)
}

/// Money that comes in, or an adjustment of either sign.
#[derive(Clone, Copy, Debug)]
pub struct Credit<'a> {
    /// The line's id.
    pub entry_id: Uuid,
    /// How much, in micro-dollars; an adjustment may take away.
    pub micros: i64,
    /// Why: `signup_credit`, `topup` or `adjustment`.
    pub reason: &'a str,
    /// The provider's session that paid it.
    pub payment_ref: Option<&'a str>,
    /// What the operator said about it.
    pub note: Option<&'a str>,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Posted {
    /// Its place in the tenant's ledger.
    #[sqlx(rename = "ledger_seq")]
    pub seq: i64,
    /// The balance after it.
    pub balance_micros: i64,
}

/// Adds an amount to the balance and writes its line, in the order that the balance's row gives.
pub async fn credit(
    conn: &mut Conn,
    tenant: TenantId,
    credit: &Credit<'_>,
    now: Timestamp,
) -> Result<Posted> {
    let posted = change_balance(conn, tenant, credit.micros).await?;
    expect_one(execute!(
        conn,
        "INSERT INTO ledger_entries
             (tenant_id, seq, entry_id, kind, reason, delta_micros, balance_after_micros, payment_ref, note, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        tenant,
        posted.seq,
        credit.entry_id,
        // A line is what its sign says: what an operator takes away is a charge.
        if credit.micros < 0 { "charge" } else { "credit" },
        credit.reason,
        credit.micros,
        posted.balance_micros,
        credit.payment_ref,
        credit.note,
        now
    )?)?;
    Ok(posted)
}

/// Notes that the tenant was told of its low balance. False when it was told before, or the balance is not below the mark.
pub async fn mark_low(conn: &mut Conn, tenant: TenantId, mark_micros: i64) -> Result<bool> {
    let marked = execute!(
        conn,
        "UPDATE balances SET low_mailed = TRUE
         WHERE tenant_id = $1 AND balance_micros < $2 AND low_mailed = FALSE",
        tenant,
        mark_micros
    )?;
    Ok(marked == 1)
}

/// Notes that the balance is not low any more, if it is not: the next time that it falls is told again.
pub async fn unmark_low(conn: &mut Conn, tenant: TenantId, mark_micros: i64) -> Result<()> {
    execute!(
        conn,
        "UPDATE balances SET low_mailed = FALSE
         WHERE tenant_id = $1 AND balance_micros >= $2 AND low_mailed = TRUE",
        tenant,
        mark_micros
    )?;
    Ok(())
}

/// An analysis that was done and is to be paid.
#[derive(Clone, Debug)]
pub struct AnalysisCharge<'a> {
    /// The line's id.
    pub entry_id: Uuid,
    /// What it is charged, in micro-dollars.
    pub micros: i64,
    /// What it cost, in decimal text.
    pub cost_usd: String,
    /// The margin, in decimal text.
    pub cost_margin: String,
    /// What answered.
    pub model: &'a str,
    /// About what; none for a playground.
    pub object_id: Option<&'a str>,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// The walk over all objects that it is part of.
    pub batch_id: Option<Uuid>,
    /// Whether a caller waited for it.
    pub is_sync: bool,
    /// The signals that were answered.
    pub signal_keys: &'a [&'a str],
}

/// Takes the charge out of the balance, writes its line and counts the usage; `metered` is false where nothing is
/// billed, and then only usage is counted. Returns the balance after it, where it was billed.
pub async fn charge(
    conn: &mut Conn,
    tenant: TenantId,
    charge: &AnalysisCharge<'_>,
    metered: bool,
    now: Timestamp,
    shard: i64,
) -> Result<Option<i64>> {
    let micros = if metered { charge.micros } else { 0 };
    let mut balance_after = None;
    if metered {
        let Posted { seq, balance_micros } = change_balance(conn, tenant, -micros).await?;
        balance_after = Some(balance_micros);
        expect_one(execute!(
            conn,
            "INSERT INTO ledger_entries
                 (tenant_id, seq, entry_id, kind, reason, delta_micros, balance_after_micros, model, object_id, cost_usd,
                  cost_margin, input_tokens, output_tokens, batch_id, created_at)
             VALUES ($1, $2, $3, 'charge', 'analysis', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            tenant,
            seq,
            charge.entry_id,
            -micros,
            balance_micros,
            charge.model,
            charge.object_id,
            &charge.cost_usd,
            &charge.cost_margin,
            charge.input_tokens,
            charge.output_tokens,
            charge.batch_id,
            now
        )?)?;
        if let Some(batch) = charge.batch_id {
            add_to_batch(conn, tenant, batch, charge, seq, now).await?;
        }
    }
    count_usage(conn, tenant, charge, micros, now.date(), shard).await?;
    Ok(balance_after)
}

/// Adds a charge to the line of its batch. The balance's row is locked, so nobody else of the tenant is here.
async fn add_to_batch(
    conn: &mut Conn,
    tenant: TenantId,
    batch: Uuid,
    charge: &AnalysisCharge<'_>,
    seq: i64,
    now: Timestamp,
) -> Result<()> {
    let known: Option<(Json<Vec<String>>,)> = fetch_optional!(
        conn,
        "SELECT models FROM ledger_batches WHERE tenant_id = $1 AND batch_id = $2",
        tenant,
        batch
    )?;
    let mut models = known.map_or_else(Vec::new, |(Json(models),)| models);
    if !models.iter().any(|model| model == charge.model) {
        models.push(charge.model.to_owned());
    }
    expect_one(execute!(
        conn,
        "INSERT INTO ledger_batches
             (tenant_id, batch_id, last_seq, entries, delta_micros, input_tokens, output_tokens, models, first_at)
         VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8)
         ON CONFLICT (tenant_id, batch_id) DO UPDATE SET last_seq = excluded.last_seq,
             entries = ledger_batches.entries + 1,
             delta_micros = ledger_batches.delta_micros + excluded.delta_micros,
             input_tokens = ledger_batches.input_tokens + excluded.input_tokens,
             output_tokens = ledger_batches.output_tokens + excluded.output_tokens,
             models = excluded.models",
        tenant,
        batch,
        seq,
        -charge.micros,
        charge.input_tokens,
        charge.output_tokens,
        Json(models),
        now
    )?)
}

/// What a tenant has spent on analyses so far, in micro-dollars, and how many they were.
pub async fn spent(conn: &mut Conn, tenant: TenantId) -> Result<(i64, i64)> {
    fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(spend_micros), 0) AS bigint), CAST(coalesce(sum(analyses), 0) AS bigint)
         FROM usage_days WHERE tenant_id = $1",
        tenant
    )
}

async fn change_balance(conn: &mut Conn, tenant: TenantId, micros: i64) -> Result<Posted> {
    fetch_one!(
        conn,
        "UPDATE balances SET balance_micros = balance_micros + $2, ledger_seq = ledger_seq + 1
         WHERE tenant_id = $1 RETURNING ledger_seq, balance_micros",
        tenant,
        micros
    )
}

async fn count_usage(
    conn: &mut Conn,
    tenant: TenantId,
    charge: &AnalysisCharge<'_>,
    micros: i64,
    day: Date,
    shard: i64,
) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO usage_days
             (tenant_id, day, source, model, shard, analyses, spend_micros, input_tokens, output_tokens)
         VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8)
         ON CONFLICT (tenant_id, day, source, model, shard) DO UPDATE SET analyses = usage_days.analyses + 1,
             spend_micros = usage_days.spend_micros + excluded.spend_micros,
             input_tokens = usage_days.input_tokens + excluded.input_tokens,
             output_tokens = usage_days.output_tokens + excluded.output_tokens",
        tenant,
        day,
        if charge.is_sync { "sync" } else { "async" },
        charge.model,
        shard,
        micros,
        charge.input_tokens,
        charge.output_tokens
    )?;
    insert_many!(
        (i64,);
        conn,
        charge.signal_keys,
        "usage_signal_days",
        [
            ("tenant_id", "uuid", |_row| tenant),
            ("day", "date", |_row| day),
            ("signal_key", "text", |row| *row),
            ("shard", "bigint", |_row| shard),
            ("analyses", "bigint", |_row| 1_i64),
        ],
        "ON CONFLICT (tenant_id, day, signal_key, shard) DO UPDATE SET
             analyses = usage_signal_days.analyses + excluded.analyses",
    );
    Ok(())
}
