//! Balances, charges and credits, each with its ledger entry, and the daily usage counted with them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use model::{Date, TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::billing::ledger::{LedgerKind, LedgerReason};
use crate::billing::usage::UsageSource;
use crate::db::{Backend, Batch, Conn, Result, Rows, execute, expect_one, fetch_one};

/// Creates a tenant's balance of zero.
pub async fn open(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO balances (tenant_id, balance_micros, ledger_seq) VALUES ($1, 0, 0)",
        tenant
    )?)
}

/// The balance of a tenant, in micro-dollars.
pub async fn balance(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (balance,): (i64,) =
        fetch_one!(conn, "SELECT balance_micros FROM balances WHERE tenant_id = $1", tenant)?;
    Ok(balance)
}

/// Those of the tenants whose balance is zero or less.
pub async fn empty_balances(conn: &mut Conn, tenants: &BTreeSet<TenantId>) -> Result<HashSet<TenantId>> {
    let tenants: Vec<TenantId> = tenants.iter().copied().collect();
    let rows = Rows::of(&tenants)
        .column("tenant_id", |tenant| *tenant)
        .with_given(
            "SELECT given.tenant_id FROM given LEFT JOIN balances ON balances.tenant_id = given.tenant_id
             WHERE coalesce(balance_micros, 0) <= 0",
        )
        .fetch::<(TenantId,)>(conn)
        .await?;
    Ok(rows.into_iter().map(|(tenant,)| tenant).collect())
}

/// Locks the balance of a tenant until the transaction ends, and returns it.
pub async fn lock_balance(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    // On SQLite the write transaction is the lock; on PostgreSQL an update that changes nothing locks the row.
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
    /// The id of its ledger entry.
    pub entry_id: Uuid,
    /// How much, in micro-dollars; an adjustment may be negative.
    pub micros: i64,
    /// Why.
    pub reason: LedgerReason,
    /// The provider's session that paid it.
    pub payment_ref: Option<&'a str>,
    /// What the operator said about it.
    pub note: Option<&'a str>,
}

/// An entry that was written to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PostedEntry {
    /// Its position in the tenant's ledger.
    #[sqlx(rename = "ledger_seq")]
    pub seq: i64,
    /// The balance after it.
    pub balance_micros: i64,
}

/// Adds an amount to the balance and writes its ledger entry, at the position that the balance's row gives.
pub async fn credit(
    conn: &mut Conn,
    tenant: TenantId,
    credit: &Credit<'_>,
    now: Timestamp,
) -> Result<PostedEntry> {
    let posted = change_balance(conn, tenant, credit.micros).await?;
    expect_one(execute!(
        conn,
        "INSERT INTO ledger_entries
             (tenant_id, seq, entry_id, kind, reason, delta_micros, balance_after_micros, payment_ref, note, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        tenant,
        posted.seq,
        credit.entry_id,
        // The kind follows the sign: what an operator takes away is a charge.
        if credit.micros < 0 { LedgerKind::Charge } else { LedgerKind::Credit },
        credit.reason,
        credit.micros,
        posted.balance_micros,
        credit.payment_ref,
        credit.note,
        now
    )?)?;
    Ok(posted)
}

/// Records that the tenant was warned of a low balance; false when it was warned before, or the balance is not below the mark.
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

/// Records that the balance is no longer low, if so: the tenant is warned again the next time that it falls.
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

/// An analysis to be charged.
#[derive(Clone, Debug)]
pub struct AnalysisCharge<'a> {
    /// Who pays.
    pub tenant: TenantId,
    /// The id of its ledger entry.
    pub entry_id: Uuid,
    /// What it is charged, in micro-dollars.
    pub micros: i64,
    /// What it cost, in decimal text.
    pub cost_usd: String,
    /// The margin, in decimal text.
    pub cost_margin: String,
    /// What answered.
    pub model: &'a str,
    /// The object; none for a playground.
    pub object_id: Option<&'a str>,
    /// Tokens read.
    pub input_tokens: i64,
    /// Tokens written.
    pub output_tokens: i64,
    /// The bulk run that it is part of.
    pub batch_id: Option<Uuid>,
    /// Whether a caller waited for it.
    pub source: UsageSource,
    /// Whether it is the second stage of an analysis, which has a charge for its first one too.
    pub is_second_stage: bool,
    /// The signals that were answered.
    pub signal_keys: Vec<&'a str>,
}

/// A balance after a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ChargedBalance {
    /// Whose it is.
    #[sqlx(rename = "tenant_id")]
    pub tenant: TenantId,
    /// The balance after, in micro-dollars.
    #[sqlx(rename = "balance_micros")]
    pub after_micros: i64,
    /// Whether its owner was warned that it is low.
    pub low_mailed: bool,
    /// The position of the last entry.
    ledger_seq: i64,
}

/// A ledger entry of a charge, by its distance from the tenant's last entry of the same transaction.
struct NewEntry<'a> {
    charge: &'a AnalysisCharge<'a>,
    /// The charges of the same tenant after this one.
    later: ChargeSum,
}

/// Charges of one tenant summed up.
#[derive(Clone, Copy, Default)]
struct ChargeSum {
    micros: i64,
    entries: i64,
}

/// Takes charges from the balances and writes their ledger entries. Returns the balances that changed.
///
/// Every transaction locks balances after everything else, so this is the last thing that it writes.
pub async fn charge(
    conn: &mut Conn,
    charges: &[AnalysisCharge<'_>],
    now: Timestamp,
) -> Result<Vec<ChargedBalance>> {
    let mut sums: BTreeMap<TenantId, ChargeSum> = BTreeMap::new();
    let mut entries = Vec::with_capacity(charges.len());
    for charge in charges.iter().rev() {
        let sum = sums.entry(charge.tenant).or_default();
        entries.push(NewEntry { charge, later: *sum });
        *sum = ChargeSum { micros: sum.micros + charge.micros, entries: sum.entries + 1 };
    }
    entries.reverse();
    let sums: Vec<(TenantId, ChargeSum)> = sums.into_iter().collect();
    lock_balances(conn, &sums).await?;
    let charged = write_entries(conn, &sums, &entries, now).await?;
    if charged.len() < sums.len() {
        return Err(sqlx::Error::RowNotFound.into());
    }
    let last_seqs: HashMap<TenantId, i64> =
        charged.iter().map(|charged| (charged.tenant, charged.ledger_seq)).collect();
    add_to_ledger_batches(conn, &entries, &last_seqs, now).await?;
    Ok(charged)
}

/// Locks the balances of several tenants in key order, to avoid deadlocks. The balance of a single tenant is locked as it
/// changes, and on SQLite the write transaction is the lock.
async fn lock_balances(conn: &mut Conn, sums: &[(TenantId, ChargeSum)]) -> Result<()> {
    if sums.len() > 1 && conn.backend() == Backend::Postgres {
        Rows::of(sums)
            .column("tenant_id", |sum| sum.0)
            .with_given(
                "SELECT 1 FROM given CROSS JOIN balances WHERE balances.tenant_id = given.tenant_id
                 ORDER BY given.tenant_id FOR UPDATE OF balances",
            )
            .execute(conn)
            .await?;
    }
    Ok(())
}

/// Takes charges out of the balances and writes the ledger entries, at the positions that the balances' rows give.
async fn write_entries(
    conn: &mut Conn,
    sums: &[(TenantId, ChargeSum)],
    entries: &[NewEntry<'_>],
    now: Timestamp,
) -> Result<Vec<ChargedBalance>> {
    let update = Rows::of(sums)
        .column("tenant_id", |sum| sum.0)
        .column("charged_micros", |sum| sum.1.micros)
        .column("entries", |sum| sum.1.entries)
        .with_given(
            "UPDATE balances SET balance_micros = balance_micros - charged_micros, ledger_seq = ledger_seq + entries
             FROM given WHERE balances.tenant_id = given.tenant_id
             RETURNING balances.tenant_id, balance_micros, low_mailed, ledger_seq",
        );
    let mut batch = conn.batch();
    let balances = batch.add_returning("balances", update);
    let insert = format!(
        "INSERT INTO ledger_entries
             (tenant_id, seq, balance_after_micros, kind, reason, entry_id, delta_micros, model, object_id, cost_usd,
              cost_margin, input_tokens, output_tokens, batch_id, created_at)
         SELECT payer, charged.ledger_seq - later_entries, charged.balance_micros + later_micros, 'charge', 'analysis',
                entry_id, delta_micros, model, object_id, cost_usd, cost_margin, input_tokens, output_tokens, batch_id,
                created_at
         FROM given CROSS JOIN {} AS charged WHERE charged.tenant_id = given.payer",
        balances.name()
    );
    batch.add(
        Rows::of(entries)
            .column("payer", |entry| entry.charge.tenant)
            .column("later_entries", |entry| entry.later.entries)
            .column("later_micros", |entry| entry.later.micros)
            .column("entry_id", |entry| entry.charge.entry_id)
            .column("delta_micros", |entry| -entry.charge.micros)
            .column("model", |entry| entry.charge.model)
            .column("object_id", |entry| entry.charge.object_id)
            .column("cost_usd", |entry| entry.charge.cost_usd.as_str())
            .column("cost_margin", |entry| entry.charge.cost_margin.as_str())
            .column("input_tokens", |entry| entry.charge.input_tokens)
            .column("output_tokens", |entry| entry.charge.output_tokens)
            .column("batch_id", |entry| entry.charge.batch_id)
            .column("created_at", |_| now)
            .with_given(insert.as_str()),
    );
    batch.fetch(conn, &balances).await
}

/// What charges add to the sum of their bulk run.
struct Addition {
    key: (TenantId, Uuid),
    last_seq: i64,
    entries: i64,
    delta_micros: i64,
    input_tokens: i64,
    output_tokens: i64,
    models: Vec<String>,
}

/// Adds charges to the sums of their bulk runs. The balances are locked, so no other transaction of these tenants is here.
async fn add_to_ledger_batches(
    conn: &mut Conn,
    entries: &[NewEntry<'_>],
    last_seqs: &HashMap<TenantId, i64>,
    now: Timestamp,
) -> Result<()> {
    let mut additions = additions(entries, last_seqs);
    let known = Rows::of(&additions)
        .column("tenant_id", |row| row.key.0)
        .column("batch_id", |row| row.key.1)
        .with_given(
            "SELECT known.tenant_id, known.batch_id, models FROM given CROSS JOIN ledger_batches AS known
             WHERE known.tenant_id = given.tenant_id AND known.batch_id = given.batch_id",
        )
        .fetch::<(TenantId, Uuid, Json<Vec<String>>)>(conn)
        .await?;
    for (tenant, batch, Json(mut models)) in known {
        if let Some(addition) = additions.iter_mut().find(|addition| addition.key == (tenant, batch)) {
            for model in &addition.models {
                add_model(&mut models, model);
            }
            addition.models = models;
        }
    }
    Rows::of(&additions)
        .column("tenant_id", |row| row.key.0)
        .column("batch_id", |row| row.key.1)
        .column("last_seq", |row| row.last_seq)
        .column("entries", |row| row.entries)
        .column("delta_micros", |row| row.delta_micros)
        .column("input_tokens", |row| row.input_tokens)
        .column("output_tokens", |row| row.output_tokens)
        .column("models", |row| Json(row.models.iter().map(String::as_str).collect::<serde_json::Value>()))
        .column("first_at", |_| now)
        .insert(
            "ledger_batches",
            "ON CONFLICT (tenant_id, batch_id) DO UPDATE SET last_seq = excluded.last_seq,
                 entries = ledger_batches.entries + excluded.entries,
                 delta_micros = ledger_batches.delta_micros + excluded.delta_micros,
                 input_tokens = ledger_batches.input_tokens + excluded.input_tokens,
                 output_tokens = ledger_batches.output_tokens + excluded.output_tokens,
                 models = excluded.models",
        )
        .execute(conn)
        .await?;
    Ok(())
}

/// Sums charges up by bulk run.
fn additions(entries: &[NewEntry<'_>], last_seqs: &HashMap<TenantId, i64>) -> Vec<Addition> {
    let mut additions: BTreeMap<(TenantId, Uuid), Addition> = BTreeMap::new();
    for entry in entries {
        let Some(batch) = entry.charge.batch_id else { continue };
        let key = (entry.charge.tenant, batch);
        let addition = additions.entry(key).or_insert_with(|| Addition {
            key,
            last_seq: 0,
            entries: 0,
            delta_micros: 0,
            input_tokens: 0,
            output_tokens: 0,
            models: Vec::new(),
        });
        let last_seq = last_seqs.get(&entry.charge.tenant).copied().unwrap_or_default();
        addition.last_seq = last_seq - entry.later.entries;
        addition.entries += 1;
        addition.delta_micros -= entry.charge.micros;
        addition.input_tokens += entry.charge.input_tokens;
        addition.output_tokens += entry.charge.output_tokens;
        add_model(&mut addition.models, entry.charge.model);
    }
    additions.into_values().collect()
}

fn add_model(models: &mut Vec<String>, model: &str) {
    if !models.iter().any(|known| known == model) {
        models.push(model.to_owned());
    }
}

/// What a tenant has spent on analyses so far, in micro-dollars, and how many they were: one of two stages is one.
pub async fn spent(conn: &mut Conn, tenant: TenantId) -> Result<(i64, i64)> {
    fetch_one!(
        conn,
        "SELECT CAST(coalesce(sum(spend_micros), 0) AS bigint), CAST(coalesce(sum(analyses - second_stages), 0) AS bigint)
         FROM usage_days WHERE tenant_id = $1",
        tenant
    )
}

async fn change_balance(conn: &mut Conn, tenant: TenantId, micros: i64) -> Result<PostedEntry> {
    fetch_one!(
        conn,
        "UPDATE balances SET balance_micros = balance_micros + $2, ledger_seq = ledger_seq + 1
         WHERE tenant_id = $1 RETURNING ledger_seq, balance_micros",
        tenant,
        micros
    )
}

/// Usage of one source and model.
#[derive(Default)]
struct UsageSum {
    analyses: i64,
    second_stages: i64,
    unbilled: i64,
    spend_micros: i64,
    input_tokens: i64,
    output_tokens: i64,
}

/// Adds analyses to the usage of a day; `metered` is false where nothing is billed.
pub fn count_usage(batch: &mut Batch, charges: &[AnalysisCharge<'_>], metered: bool, day: Date, shard: i64) {
    let mut used: BTreeMap<(TenantId, UsageSource, &str), UsageSum> = BTreeMap::new();
    let mut answered: BTreeMap<(TenantId, &str), i64> = BTreeMap::new();
    for charge in charges {
        let used = used.entry((charge.tenant, charge.source, charge.model)).or_default();
        used.analyses += 1;
        used.second_stages += i64::from(charge.is_second_stage);
        used.unbilled += i64::from(!metered);
        used.spend_micros += if metered { charge.micros } else { 0 };
        used.input_tokens += charge.input_tokens;
        used.output_tokens += charge.output_tokens;
        for key in &charge.signal_keys {
            *answered.entry((charge.tenant, key)).or_default() += 1;
        }
    }
    let used: Vec<((TenantId, UsageSource, &str), UsageSum)> = used.into_iter().collect();
    batch.add(
        Rows::of(&used)
            .column("tenant_id", |row| row.0.0)
            .column("day", |_| day)
            .column("source", |row| row.0.1.as_str())
            .column("model", |row| row.0.2)
            .column("shard", |_| shard)
            .column("analyses", |row| row.1.analyses)
            .column("second_stages", |row| row.1.second_stages)
            .column("unbilled", |row| row.1.unbilled)
            .column("spend_micros", |row| row.1.spend_micros)
            .column("input_tokens", |row| row.1.input_tokens)
            .column("output_tokens", |row| row.1.output_tokens)
            .insert(
                "usage_days",
                "ON CONFLICT (tenant_id, day, source, model, shard) DO UPDATE SET
                     analyses = usage_days.analyses + excluded.analyses,
                     second_stages = usage_days.second_stages + excluded.second_stages,
                     unbilled = usage_days.unbilled + excluded.unbilled,
                     spend_micros = usage_days.spend_micros + excluded.spend_micros,
                     input_tokens = usage_days.input_tokens + excluded.input_tokens,
                     output_tokens = usage_days.output_tokens + excluded.output_tokens",
            ),
    );
    let answered: Vec<((TenantId, &str), i64)> = answered.into_iter().collect();
    batch.add(
        Rows::of(&answered)
            .column("tenant_id", |row| row.0.0)
            .column("day", |_| day)
            .column("signal_key", |row| row.0.1)
            .column("shard", |_| shard)
            .column("analyses", |row| row.1)
            .insert(
                "usage_signal_days",
                "ON CONFLICT (tenant_id, day, signal_key, shard) DO UPDATE SET
                     analyses = usage_signal_days.analyses + excluded.analyses",
            ),
    );
}
