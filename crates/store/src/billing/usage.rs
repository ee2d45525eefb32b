//! Usage: counted by day with every analysis, so that reading a range costs by its days and not by its analyses.

use model::{Date, TenantId};

use crate::db::{Conn, Result, fetch_all};

/// Whether a caller waited for an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageSource {
    /// Nobody waited.
    Async,
    /// A caller waited for the verdict.
    Sync,
}

model::text_values!(UsageSource { Async = "async", Sync = "sync" });
model::sql_text!(UsageSource);

/// What was used on a day, from one source, with one model.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
#[expect(missing_docs, reason = "named as in the schema")]
pub struct DailyUsage {
    pub day: Date,
    pub source: UsageSource,
    pub model: String,
    pub analyses: i64,
    /// How many of them are the second stage of another one.
    pub second_stages: i64,
    pub spend_micros: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// Usage from one day to another, both included.
pub async fn by_day(conn: &mut Conn, tenant: TenantId, from: Date, to: Date) -> Result<Vec<DailyUsage>> {
    fetch_all!(
        conn,
        "SELECT day, source, model, CAST(sum(analyses) AS bigint) AS analyses,
             CAST(sum(second_stages) AS bigint) AS second_stages,
             CAST(sum(spend_micros) AS bigint) AS spend_micros, CAST(sum(input_tokens) AS bigint) AS input_tokens,
             CAST(sum(output_tokens) AS bigint) AS output_tokens
         FROM usage_days WHERE tenant_id = $1 AND day BETWEEN $2 AND $3
         GROUP BY day, source, model ORDER BY day, source, model",
        tenant,
        from,
        to
    )
}

/// How often each signal was answered on each day of a range.
pub async fn signals_by_day(
    conn: &mut Conn,
    tenant: TenantId,
    from: Date,
    to: Date,
) -> Result<Vec<(Date, String, i64)>> {
    fetch_all!(
        conn,
        "SELECT day, signal_key, CAST(sum(analyses) AS bigint) FROM usage_signal_days
         WHERE tenant_id = $1 AND day BETWEEN $2 AND $3 GROUP BY day, signal_key ORDER BY day, signal_key",
        tenant,
        from,
        to
    )
}
