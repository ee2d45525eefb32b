//! Balances, the ledger whose sum they are, and the rollups of usage that are kept with it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use model::{Date, TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::bulk::{insert_many, with_rows};
use crate::db::connect::{execute, fetch_one};
use crate::db::round::{Round, change_later, insert_later};
use crate::db::transaction::expect_one;
use crate::{Backend, Conn, Result};

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

/// Those of the tenants who have nothing left.
pub async fn broke(conn: &mut Conn, tenants: &BTreeSet<TenantId>) -> Result<HashSet<TenantId>> {
    let tenants: Vec<&TenantId> = tenants.iter().collect();
    let rows = with_rows!(
        (TenantId,);
        conn,
        &tenants,
        [("tenant_id", "uuid", |row| **row)],
        "SELECT tenant_id FROM given LEFT JOIN balances USING (tenant_id) WHERE coalesce(balance_micros, 0) <= 0",
    );
    Ok(rows.into_iter().map(|(tenant,)| tenant).collect())
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
    /// Who pays.
    pub tenant: TenantId,
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
    pub signal_keys: Vec<&'a str>,
}

/// What became of a tenant's balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Charged {
    /// Whose it is.
    #[sqlx(rename = "tenant_id")]
    pub tenant: TenantId,
    /// The balance after, in micro-dollars.
    #[sqlx(rename = "balance_micros")]
    pub after_micros: i64,
    /// Whether its owner was told that it is low.
    pub low_mailed: bool,
    /// The place of the last line.
    ledger_seq: i64,
}

/// A line, seen from the tenant's last one of the same transaction.
struct Line<'a> {
    charge: &'a AnalysisCharge<'a>,
    /// How many lines follow it, and what they charge.
    later: Owed,
}

/// What somebody has to pay.
#[derive(Clone, Copy, Default)]
struct Owed {
    micros: i64,
    lines: i64,
}

/// Runs a round, and with it takes charges out of the balances and writes their lines. Returns the balances that changed.
pub async fn charge(
    conn: &mut Conn,
    round: Round,
    charges: &[AnalysisCharge<'_>],
    now: Timestamp,
) -> Result<Vec<Charged>> {
    let mut owed: BTreeMap<TenantId, Owed> = BTreeMap::new();
    let mut lines = Vec::with_capacity(charges.len());
    for charge in charges.iter().rev() {
        let owed = owed.entry(charge.tenant).or_default();
        lines.push(Line { charge, later: *owed });
        *owed = Owed { micros: owed.micros + charge.micros, lines: owed.lines + 1 };
    }
    lines.reverse();
    let owed: Vec<(TenantId, Owed)> = owed.into_iter().collect();
    lock_balances(conn, &owed).await?;
    let charged = write_lines(conn, round, &owed, &lines, now).await?;
    if charged.len() < owed.len() {
        return Err(sqlx::Error::RowNotFound.into());
    }
    let last_seqs: HashMap<TenantId, i64> =
        charged.iter().map(|charged| (charged.tenant, charged.ledger_seq)).collect();
    add_to_batches(conn, &lines, &last_seqs, now).await?;
    Ok(charged)
}

/// Locks the balances of several who pay, in order, so that nobody waits in a ring. One alone is locked as it changes.
async fn lock_balances(conn: &mut Conn, owed: &[(TenantId, Owed)]) -> Result<()> {
    if owed.len() > 1 && conn.backend() == Backend::Postgres {
        with_rows!(
            (TenantId,);
            conn,
            owed,
            [("tenant_id", "uuid", |row| row.0)],
            "SELECT tenant_id FROM given JOIN balances USING (tenant_id) ORDER BY tenant_id FOR UPDATE OF balances",
        );
    }
    Ok(())
}

/// Takes what is owed out of the balances and writes the lines, in the order that the balances' rows give.
async fn write_lines(
    conn: &mut Conn,
    mut round: Round,
    owed: &[(TenantId, Owed)],
    lines: &[Line<'_>],
    now: Timestamp,
) -> Result<Vec<Charged>> {
    change_later!(
        &mut round,
        owed,
        [
            ("tenant_id", "uuid", |row| row.0),
            ("owed_micros", "bigint", |row| row.1.micros),
            ("lines", "bigint", |row| row.1.lines),
        ],
        "UPDATE balances SET balance_micros = balance_micros - owed_micros, ledger_seq = ledger_seq + lines
         FROM given WHERE balances.tenant_id = given.tenant_id
         RETURNING balances.tenant_id, balance_micros, low_mailed, ledger_seq",
    );
    let balances = round.changed("balances");
    change_later!(
        &mut round,
        lines,
        [
            ("payer", "uuid", |row| row.charge.tenant),
            ("later_lines", "bigint", |row| row.later.lines),
            ("later_micros", "bigint", |row| row.later.micros),
            ("entry_id", "uuid", |row| row.charge.entry_id),
            ("delta_micros", "bigint", |row| -row.charge.micros),
            ("model", "text", |row| row.charge.model),
            ("object_id", "text", |row| row.charge.object_id),
            ("cost_usd", "text", |row| row.charge.cost_usd.as_str()),
            ("cost_margin", "text", |row| row.charge.cost_margin.as_str()),
            ("input_tokens", "bigint", |row| row.charge.input_tokens),
            ("output_tokens", "bigint", |row| row.charge.output_tokens),
            ("batch_id", "uuid", |row| row.charge.batch_id),
            ("created_at", "timestamptz", |_row| now),
        ],
        format!(
            "INSERT INTO ledger_entries
                 (tenant_id, seq, balance_after_micros, kind, reason, entry_id, delta_micros, model, object_id, cost_usd,
                  cost_margin, input_tokens, output_tokens, batch_id, created_at)
             SELECT payer, changed.ledger_seq - later_lines, changed.balance_micros + later_micros, 'charge', 'analysis',
                    entry_id, delta_micros, model, object_id, cost_usd, cost_margin, input_tokens, output_tokens, batch_id,
                    created_at
             FROM given JOIN {balances} AS changed ON changed.tenant_id = given.payer"
        ),
    );
    round.fetch(conn, &balances).await
}

/// What charges add to the line of their batch.
struct Addition {
    key: (TenantId, Uuid),
    last_seq: i64,
    entries: i64,
    delta_micros: i64,
    input_tokens: i64,
    output_tokens: i64,
    models: Vec<String>,
}

/// Adds charges to the lines of their batches. The balances are locked, so nobody else of these tenants is here.
async fn add_to_batches(
    conn: &mut Conn,
    lines: &[Line<'_>],
    last_seqs: &HashMap<TenantId, i64>,
    now: Timestamp,
) -> Result<()> {
    let mut additions: BTreeMap<(TenantId, Uuid), Addition> = BTreeMap::new();
    for line in lines {
        let Some(batch) = line.charge.batch_id else { continue };
        let key = (line.charge.tenant, batch);
        let addition = additions.entry(key).or_insert_with(|| Addition {
            key,
            last_seq: 0,
            entries: 0,
            delta_micros: 0,
            input_tokens: 0,
            output_tokens: 0,
            models: Vec::new(),
        });
        let last_seq = last_seqs.get(&line.charge.tenant).copied().unwrap_or_default();
        addition.last_seq = last_seq - line.later.lines;
        addition.entries += 1;
        addition.delta_micros -= line.charge.micros;
        addition.input_tokens += line.charge.input_tokens;
        addition.output_tokens += line.charge.output_tokens;
        add_model(&mut addition.models, line.charge.model);
    }
    let mut additions: Vec<Addition> = additions.into_values().collect();
    let known = with_rows!(
        (TenantId, Uuid, Json<Vec<String>>);
        conn,
        &additions,
        [("tenant_id", "uuid", |row| row.key.0), ("batch_id", "uuid", |row| row.key.1)],
        "SELECT tenant_id, batch_id, models FROM given JOIN ledger_batches USING (tenant_id, batch_id)",
    );
    for (tenant, batch, Json(mut models)) in known {
        if let Some(addition) = additions.iter_mut().find(|addition| addition.key == (tenant, batch)) {
            for model in &addition.models {
                add_model(&mut models, model);
            }
            addition.models = models;
        }
    }
    insert_many!(
        (i64,);
        conn,
        &additions,
        "ledger_batches",
        [
            ("tenant_id", "uuid", |row| row.key.0),
            ("batch_id", "uuid", |row| row.key.1),
            ("last_seq", "bigint", |row| row.last_seq),
            ("entries", "bigint", |row| row.entries),
            ("delta_micros", "bigint", |row| row.delta_micros),
            ("input_tokens", "bigint", |row| row.input_tokens),
            ("output_tokens", "bigint", |row| row.output_tokens),
            ("models", "jsonb", |row| Json(&row.models)),
            ("first_at", "timestamptz", |_row| now),
        ],
        "ON CONFLICT (tenant_id, batch_id) DO UPDATE SET last_seq = excluded.last_seq,
             entries = ledger_batches.entries + excluded.entries,
             delta_micros = ledger_batches.delta_micros + excluded.delta_micros,
             input_tokens = ledger_batches.input_tokens + excluded.input_tokens,
             output_tokens = ledger_batches.output_tokens + excluded.output_tokens,
             models = excluded.models",
    );
    Ok(())
}

fn add_model(models: &mut Vec<String>, model: &str) {
    if !models.iter().any(|known| known == model) {
        models.push(model.to_owned());
    }
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

/// Usage of one kind.
#[derive(Default)]
struct Used {
    analyses: i64,
    unbilled: i64,
    spend_micros: i64,
    input_tokens: i64,
    output_tokens: i64,
}

/// Counts usage with the round; `metered` is false where nothing is billed.
pub fn count_usage(round: &mut Round, charges: &[AnalysisCharge<'_>], metered: bool, day: Date, shard: i64) {
    let mut used: BTreeMap<(TenantId, &str, &str), Used> = BTreeMap::new();
    let mut answered: BTreeMap<(TenantId, &str), i64> = BTreeMap::new();
    for charge in charges {
        let source = if charge.is_sync { "sync" } else { "async" };
        let used = used.entry((charge.tenant, source, charge.model)).or_default();
        used.analyses += 1;
        used.unbilled += i64::from(!metered);
        used.spend_micros += if metered { charge.micros } else { 0 };
        used.input_tokens += charge.input_tokens;
        used.output_tokens += charge.output_tokens;
        for key in &charge.signal_keys {
            *answered.entry((charge.tenant, key)).or_default() += 1;
        }
    }
    let used: Vec<((TenantId, &str, &str), Used)> = used.into_iter().collect();
    insert_later!(
        round,
        &used,
        "usage_days",
        [
            ("tenant_id", "uuid", |row| row.0.0),
            ("day", "date", |_row| day),
            ("source", "text", |row| row.0.1),
            ("model", "text", |row| row.0.2),
            ("shard", "bigint", |_row| shard),
            ("analyses", "bigint", |row| row.1.analyses),
            ("unbilled", "bigint", |row| row.1.unbilled),
            ("spend_micros", "bigint", |row| row.1.spend_micros),
            ("input_tokens", "bigint", |row| row.1.input_tokens),
            ("output_tokens", "bigint", |row| row.1.output_tokens),
        ],
        "ON CONFLICT (tenant_id, day, source, model, shard) DO UPDATE SET
             analyses = usage_days.analyses + excluded.analyses,
             unbilled = usage_days.unbilled + excluded.unbilled,
             spend_micros = usage_days.spend_micros + excluded.spend_micros,
             input_tokens = usage_days.input_tokens + excluded.input_tokens,
             output_tokens = usage_days.output_tokens + excluded.output_tokens",
    );
    let answered: Vec<((TenantId, &str), i64)> = answered.into_iter().collect();
    insert_later!(
        round,
        &answered,
        "usage_signal_days",
        [
            ("tenant_id", "uuid", |row| row.0.0),
            ("day", "date", |_row| day),
            ("signal_key", "text", |row| row.0.1),
            ("shard", "bigint", |_row| shard),
            ("analyses", "bigint", |row| row.1),
        ],
        "ON CONFLICT (tenant_id, day, signal_key, shard) DO UPDATE SET
             analyses = usage_signal_days.analyses + excluded.analyses",
    );
}
