//! What an audit compares: sums over the whole ledger of a tenant, and the totals stored beside it.
//!
//! Reads every entry: for operators and tests, not for a hot path.

use model::{Date, TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::{Backend, Conn, Result, fetch_all, fetch_one};

/// The sum of the ledger, beside the stored balance.
#[derive(Clone, Debug, sqlx::FromRow)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Totals {
    pub entries: i64,
    pub last_seq: i64,
    pub sum_micros: i64,
    pub ledger_seq: i64,
    pub balance_micros: i64,
}

/// Sums up the ledger of a tenant and reads its stored balance.
pub async fn totals(conn: &mut Conn, tenant: TenantId) -> Result<Totals> {
    fetch_one!(
        conn,
        "SELECT entries, last_seq, sum_micros, ledger_seq, balance_micros FROM balances,
             (SELECT count(*) AS entries, coalesce(max(seq), 0) AS last_seq,
                     CAST(coalesce(sum(delta_micros), 0) AS bigint) AS sum_micros
              FROM ledger_entries WHERE tenant_id = $1) AS ledger
         WHERE tenant_id = $1",
        tenant
    )
}

/// The first entries that do not continue the one before: position, balance after the previous entry, and the balance before
/// this one by its own account.
pub async fn breaks(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<Vec<(i64, i64, i64)>> {
    fetch_all!(
        conn,
        "SELECT seq, previous, claimed FROM (
             SELECT seq, balance_after_micros - delta_micros AS claimed,
                    coalesce(lag(balance_after_micros) OVER (ORDER BY seq), 0) AS previous
             FROM ledger_entries WHERE tenant_id = $1) AS lines
         WHERE claimed <> previous ORDER BY seq LIMIT $2",
        tenant,
        limit
    )
}

/// The positions of entries whose kind does not match their sign.
pub async fn missigned(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<Vec<(i64,)>> {
    fetch_all!(
        conn,
        "SELECT seq FROM ledger_entries
         WHERE tenant_id = $1 AND ((kind = 'credit' AND delta_micros < 0) OR (kind = 'charge' AND delta_micros > 0))
         ORDER BY seq LIMIT $2",
        tenant,
        limit
    )
}

/// The sum of a bulk run's charges.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema")]
pub struct BatchTotals {
    pub batch_id: Uuid,
    pub last_seq: i64,
    pub entries: i64,
    pub delta_micros: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub first_at: Timestamp,
}

/// The sums of every bulk run's charges, from the ledger.
pub async fn batches_of_ledger(conn: &mut Conn, tenant: TenantId) -> Result<Vec<BatchTotals>> {
    fetch_all!(
        conn,
        "SELECT batch_id, max(seq) AS last_seq, count(*) AS entries, CAST(sum(delta_micros) AS bigint) AS delta_micros,
             CAST(sum(input_tokens) AS bigint) AS input_tokens, CAST(sum(output_tokens) AS bigint) AS output_tokens,
             min(created_at) AS first_at
         FROM ledger_entries WHERE tenant_id = $1 AND batch_id IS NOT NULL GROUP BY batch_id ORDER BY batch_id",
        tenant
    )
}

/// The sums of every bulk run's charges, as stored.
pub async fn stored_batches(conn: &mut Conn, tenant: TenantId) -> Result<Vec<BatchTotals>> {
    fetch_all!(
        conn,
        "SELECT batch_id, last_seq, entries, delta_micros, input_tokens, output_tokens, first_at
         FROM ledger_batches WHERE tenant_id = $1 ORDER BY batch_id",
        tenant
    )
}

/// The models of every bulk run, from the ledger.
pub async fn batch_models_of_ledger(conn: &mut Conn, tenant: TenantId) -> Result<Vec<(Uuid, String)>> {
    fetch_all!(
        conn,
        "SELECT DISTINCT batch_id, model FROM ledger_entries
         WHERE tenant_id = $1 AND batch_id IS NOT NULL AND model IS NOT NULL ORDER BY batch_id, model",
        tenant
    )
}

/// The models of every bulk run, as stored.
pub async fn stored_batch_models(
    conn: &mut Conn,
    tenant: TenantId,
) -> Result<Vec<(Uuid, Json<Vec<String>>)>> {
    fetch_all!(
        conn,
        "SELECT batch_id, models FROM ledger_batches WHERE tenant_id = $1 ORDER BY batch_id",
        tenant
    )
}

/// Usage of a day with one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema")]
pub struct DayTotals {
    pub analyses: i64,
    /// Those without an entry in the ledger; none where they were not counted.
    pub unbilled: Option<i64>,
    pub spend_micros: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
}

type DayRow<D> = (D, String, i64, Option<i64>, i64, i64, i64);

fn day_totals<D>(rows: Vec<DayRow<D>>, date: impl Fn(D) -> Date) -> Vec<((Date, String), DayTotals)> {
    let totals = rows.into_iter().map(|row| {
        let (day, model, analyses, unbilled, spend_micros, input_tokens, output_tokens) = row;
        let totals = DayTotals { analyses, unbilled, spend_micros, input_tokens, output_tokens };
        ((date(day), model), totals)
    });
    totals.collect()
}

/// Charges of each day and model, from the ledger.
pub async fn days_of_ledger(conn: &mut Conn, tenant: TenantId) -> Result<Vec<((Date, String), DayTotals)>> {
    // The only statement that needs the day of an instant from the database.
    let day = match conn.backend() {
        Backend::Sqlite => "created_at / 86400000000",
        Backend::Postgres => "CAST(floor(extract(epoch FROM created_at) / 86400) AS bigint)",
    };
    let statement = format!(
        "SELECT {day}, model, count(*), CAST(0 AS bigint), CAST(-sum(delta_micros) AS bigint), CAST(sum(input_tokens) AS bigint),
             CAST(sum(output_tokens) AS bigint)
         FROM ledger_entries WHERE tenant_id = $1 AND reason = 'analysis' GROUP BY 1, 2"
    );
    Ok(day_totals(fetch_all!(conn, AssertSqlSafe(statement), tenant)?, Date::from_days))
}

/// Usage of each day and model, as stored.
pub async fn stored_days(conn: &mut Conn, tenant: TenantId) -> Result<Vec<((Date, String), DayTotals)>> {
    let rows: Vec<DayRow<Date>> = fetch_all!(
        conn,
        "SELECT day, model, CAST(sum(analyses) AS bigint),
             CASE WHEN count(*) = count(unbilled) THEN CAST(sum(unbilled) AS bigint) END,
             CAST(sum(spend_micros) AS bigint),
             CAST(sum(input_tokens) AS bigint), CAST(sum(output_tokens) AS bigint)
         FROM usage_days WHERE tenant_id = $1 GROUP BY day, model",
        tenant
    )?;
    Ok(day_totals(rows, |day| day))
}

/// Days on which a signal was answered more often than anything was analyzed: day, signal, answered, analyzed.
pub async fn overcounted_signals(
    conn: &mut Conn,
    tenant: TenantId,
    limit: i64,
) -> Result<Vec<(Date, String, i64, i64)>> {
    fetch_all!(
        conn,
        "SELECT signals.day, signal_key, answered, coalesce(analyzed, 0) FROM
             (SELECT day, signal_key, CAST(sum(analyses) AS bigint) AS answered
              FROM usage_signal_days WHERE tenant_id = $1 GROUP BY day, signal_key) AS signals
             LEFT JOIN (SELECT day, CAST(sum(analyses - second_stages) AS bigint) AS analyzed
                        FROM usage_days WHERE tenant_id = $1 GROUP BY day) AS days ON days.day = signals.day
         WHERE answered > coalesce(analyzed, 0) ORDER BY signals.day, signal_key LIMIT $2",
        tenant,
        limit
    )
}

/// Credited checkouts beside their ledger entries: id, amount in cents, and what the entry credits, if there is one.
pub async fn credited_checkouts(
    conn: &mut Conn,
    tenant: TenantId,
) -> Result<Vec<(Uuid, i64, Option<i64>, Option<String>)>> {
    fetch_all!(
        conn,
        "SELECT checkout_id, amount_cents, delta_micros, payment_ref FROM checkouts AS checkout
         LEFT JOIN ledger_entries AS line
             ON line.tenant_id = checkout.tenant_id AND line.seq = checkout.ledger_seq AND line.reason = 'topup'
                AND line.payment_ref = checkout.provider_session_id
         WHERE checkout.tenant_id = $1 AND status = 'credited' ORDER BY checkout_id",
        tenant
    )
}

/// Counts the entries that credit a top-up.
pub async fn topups(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (topups,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM ledger_entries WHERE tenant_id = $1 AND reason = 'topup'",
        tenant
    )?;
    Ok(topups)
}
