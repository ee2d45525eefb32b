//! The past of answers: one row for each concluded analysis.
//!
//! Rows are keyed by object, then by time, which is how they are read: a page of one object's history, or all of it object by
//! object for a replay. An index by age serves the sweep and reads of a time range.

use std::ops::Range;

use model::api::AnalysisSource;
use model::recorded_answer::first_id;
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Batch, Chosen, Conn, Result, Rows, execute, fetch_all, fetch_one, fetch_optional};

/// An analysis to be recorded.
#[derive(Clone, Debug)]
pub struct NewAnalysis<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// Its id, made of `at` ([`model::recorded_answer::analysis_id`]).
    pub analysis_id: Uuid,
    /// When it was concluded.
    pub at: Timestamp,
    /// What asked for it.
    pub source: AnalysisSource,
    /// What answered.
    pub model: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
    /// All answers, as [`model::recorded_answer::encode`] writes them.
    pub answers: String,
}

/// Records analyses, in the transaction that concludes them.
pub fn insert(batch: &mut Batch, analyses: &[NewAnalysis<'_>]) {
    batch.add(
        Rows::of(analyses)
            .column("tenant_id", |analysis| analysis.tenant)
            .column("object_id", |analysis| analysis.object_id)
            .column("analysis_id", |analysis| analysis.analysis_id)
            .column("at", |analysis| analysis.at)
            .column("source", |analysis| analysis.source.as_str())
            .column("model", |analysis| analysis.model)
            .column("read_seq", |analysis| analysis.read_seq)
            .column("answers", |analysis| analysis.answers.as_str())
            .insert("answer_history", ""),
    );
}

/// A recorded analysis.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Analysis {
    /// The object.
    pub object_id: String,
    /// Its id, which sorts by `at`.
    pub analysis_id: Uuid,
    /// When it was concluded.
    pub at: Timestamp,
    /// What asked for it.
    pub source: AnalysisSource,
    /// What answered.
    pub model: String,
    /// The newest event that was read.
    pub read_seq: i64,
    /// All answers; [`model::recorded_answer::parse`] reads them.
    pub answers: String,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT object_id, analysis_id, at, source, model, read_seq, answers FROM answer_history WHERE tenant_id = $1 AND ",
            $rest
        )
    };
}

/// One analysis of an object.
pub async fn find(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    analysis: Uuid,
) -> Result<Option<Analysis>> {
    fetch_optional!(conn, select!("object_id = $2 AND analysis_id = $3"), tenant, object_id, analysis)
}

/// Analyses of an object, newest first: all up to `limit`, or those before one of them.
pub async fn of_object(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Analysis>> {
    fetch_all!(
        conn,
        select!("object_id = $2 AND analysis_id < $3 ORDER BY analysis_id DESC LIMIT $4"),
        tenant,
        object_id,
        before.unwrap_or(Uuid::max()),
        limit
    )
}

/// The next analyses of a tenant, object by object and each object's oldest first. A replay begins with none and goes on after
/// the last one that it was given: it reads any number of rows in bounded memory, in the order of the key.
pub async fn page(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<(&str, Uuid)>,
    limit: i64,
) -> Result<Vec<Analysis>> {
    let (object_id, analysis_id) = after.unwrap_or(("", Uuid::nil()));
    fetch_all!(
        conn,
        select!("(object_id, analysis_id) > ($2, $3) ORDER BY object_id, analysis_id LIMIT $4"),
        tenant,
        object_id,
        analysis_id,
        limit
    )
}

/// The next analyses of a tenant within a time range, oldest first over all objects; `after` is as in [`page`].
pub async fn page_between(
    conn: &mut Conn,
    tenant: TenantId,
    range: Range<Timestamp>,
    after: Option<(Uuid, &str)>,
    limit: i64,
) -> Result<Vec<Analysis>> {
    // No object has the empty id, so that a row of the first instant comes after it.
    let (analysis_id, object_id) = after.unwrap_or((first_id(range.start), ""));
    fetch_all!(
        conn,
        select!(
            "(analysis_id, object_id) > ($2, $3) AND analysis_id < $4 AND read_seq <> -1
             ORDER BY analysis_id, object_id LIMIT $5"
        ),
        tenant,
        analysis_id,
        object_id,
        first_id(range.end),
        limit
    )
}

/// The number of analyses that are kept of a tenant, counted up to a bound.
pub async fn count_up_to(conn: &mut Conn, tenant: TenantId, most: i64) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (
             SELECT 1 AS one FROM answer_history WHERE tenant_id = $1 AND analysis_id > $2 AND read_seq <> -1
             ORDER BY analysis_id LIMIT $3
         ) AS counted",
        tenant,
        Uuid::nil(),
        most
    )?;
    Ok(count)
}

/// When the oldest analysis that is kept of a tenant was concluded.
pub async fn oldest(conn: &mut Conn, tenant: TenantId) -> Result<Option<Timestamp>> {
    let text = select!("analysis_id > $2 AND read_seq <> -1 ORDER BY analysis_id LIMIT 1");
    let found: Vec<Analysis> = fetch_all!(conn, text, tenant, Uuid::nil())?;
    Ok(found.first().map(|analysis| analysis.at))
}

/// Removes up to `limit` analyses of a tenant from before an instant, oldest first.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, before: Timestamp, limit: i64) -> Result<u64> {
    let range = conn.backend().range(&[("tenant_id", "$1")], "analysis_id", "< $2");
    let analyses = Chosen {
        table: "answer_history",
        key: &["tenant_id", "object_id", "analysis_id"],
        rows: &format!("WHERE {range} AND read_seq <> -1 ORDER BY tenant_id, analysis_id LIMIT $3"),
        is_of_tenant: true,
    };
    let statement = analyses.delete(conn);
    execute!(conn, AssertSqlSafe(statement), tenant, first_id(before), limit)
}
