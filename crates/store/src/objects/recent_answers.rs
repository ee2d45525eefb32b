//! Samples of objects and of their answers to one signal.

use model::TenantId;
use uuid::Uuid;

use crate::db::{Conn, Result, Rows, fetch_all};

/// The objects that were analyzed most recently, out of those seen last: bounded however many there are, and no index that
/// every analysis would have to maintain. A condition that always holds states which index serves (ADR 10).
pub async fn recently_analyzed(
    conn: &mut Conn,
    tenant: TenantId,
    pool: i64,
    limit: i64,
) -> Result<Vec<String>> {
    let found: Vec<(String,)> = fetch_all!(
        conn,
        "SELECT object_id FROM (
             SELECT object_id, last_analyzed_at FROM objects WHERE tenant_id = $1 AND event_count <> -1
             ORDER BY last_seen DESC, object_id LIMIT $2
         ) AS pool WHERE last_analyzed_at IS NOT NULL ORDER BY last_analyzed_at DESC, object_id LIMIT $3",
        tenant,
        pool,
        limit
    )?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

/// The part of an answer that is counted.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct SampledAnswer {
    /// The probability of yes, or the position on the scale.
    pub value: Option<f64>,
    /// The likeliest option.
    pub choice: Option<String>,
}

/// The answers of some objects, each named once, to a signal.
pub async fn answers(
    conn: &mut Conn,
    tenant: TenantId,
    signal_id: Uuid,
    object_ids: &[String],
) -> Result<Vec<SampledAnswer>> {
    Rows::of(object_ids)
        .column("tenant", |_| tenant)
        .column("id", String::as_str)
        .column("signal", |_| signal_id)
        .with_given(
            "SELECT value, choice FROM given CROSS JOIN answers
             WHERE answers.tenant_id = given.tenant AND answers.object_id = id AND answers.signal_id = signal",
        )
        .fetch(conn)
        .await
}
