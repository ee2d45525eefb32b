//! Labels: what people say is true about a signal of an object.
//!
//! Of the labels of all authors about one signal of one object, the latest counts; `counts` marks it, so that reading what
//! is true needs no comparison. Everything that writes labels has locked their objects ([`lock_objects`]).

use std::collections::HashSet;

use model::api::{Author, AuthorKind, LabelSource};
use model::{TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Backend, Conn, Result, Rows, Sql, execute, fetch_all, fetch_one, fetch_optional};

/// A label. It is serialized where what it replaces may have to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
pub struct Label {
    /// Its id, which sorts by time.
    pub label_id: Uuid,
    /// The object.
    pub object_id: String,
    /// The question.
    pub signal_id: Uuid,
    /// The version of the signal then.
    pub version: i64,
    /// JSON.
    pub value: String,
    /// What else the author said.
    pub note: Option<String>,
    /// How it was given.
    pub source: LabelSource,
    /// How the author acted.
    pub author_kind: AuthorKind,
    /// The author.
    pub author_id: Uuid,
    /// The author's name then.
    pub author_name: String,
    /// Whether the object was drawn at random.
    pub audit: bool,
    /// JSON: what the service said then.
    pub answer: Option<String>,
    /// When it was given.
    pub created_at: Timestamp,
}

impl Label {
    /// Who gave it.
    pub fn author(&self) -> Author {
        Author { kind: self.author_kind, id: self.author_id, name: self.author_name.clone() }
    }
}

macro_rules! columns {
    () => {
        "label_id, object_id, signal_id, version, value, note, source, author_kind, author_id, author_name, audit, answer, \
         created_at"
    };
}

/// Locks objects in key order, to avoid deadlocks, and returns those that exist. On SQLite the write transaction is the lock.
pub async fn lock_objects(conn: &mut Conn, tenant: TenantId, object_ids: &[&str]) -> Result<HashSet<String>> {
    let mut ordered = object_ids.to_vec();
    ordered.sort_unstable();
    ordered.dedup();
    let statement = match conn.backend() {
        Backend::Sqlite => {
            "SELECT objects.object_id FROM given CROSS JOIN objects
             WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id"
        }
        Backend::Postgres => {
            "SELECT objects.object_id FROM given CROSS JOIN objects
             WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id
             ORDER BY given.tenant_id, given.object_id FOR UPDATE OF objects"
        }
    };
    let found = Rows::of(&ordered)
        .column("tenant_id", |_| tenant)
        .column("object_id", |object_id| *object_id)
        .with_given(statement)
        .fetch::<(String,)>(conn)
        .await?;
    Ok(found.into_iter().map(|(object_id,)| object_id).collect())
}

/// What the service says about a signal of an object.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct PresentAnswer {
    /// The object.
    pub object_id: String,
    /// The question.
    pub signal_id: Uuid,
    /// The version that was asked.
    pub version: i64,
    /// The probability of yes, or the position on the scale.
    pub value: Option<f64>,
    /// The likeliest option.
    pub choice: Option<String>,
    /// JSON.
    pub probabilities: Option<String>,
    /// How sure it is.
    pub confidence: Option<f64>,
    /// JSON: the analyzer's own answer, where a calibration is on.
    pub raw: Option<String>,
    /// Where the first analyzer was unsure: whether the second one answered.
    pub escalated: Option<bool>,
    /// JSON: what the first analyzer said, where the second one answered.
    pub first: Option<String>,
    /// What answered.
    pub model: String,
    /// The newest event that was read.
    pub read_seq: i64,
}

/// The present answers to signals of objects, each named once.
pub async fn present_answers(
    conn: &mut Conn,
    tenant: TenantId,
    asked: &[(&str, Uuid)],
) -> Result<Vec<PresentAnswer>> {
    Rows::of(asked)
        .column("tenant_id", |_| tenant)
        .column("object_id", |row| row.0)
        .column("signal_id", |row| row.1)
        .with_given(
            "SELECT answers.object_id, answers.signal_id, version, value, choice, probabilities, confidence, raw,
                    escalated, first, model, read_seq
             FROM given CROSS JOIN answers
             WHERE answers.tenant_id = given.tenant_id AND answers.object_id = given.object_id
               AND answers.signal_id = given.signal_id",
        )
        .fetch(conn)
        .await
}

/// Of these pairs of an object and a question, those with a label of an object that was drawn at random.
pub async fn audited(
    conn: &mut Conn,
    tenant: TenantId,
    asked: &[(&str, Uuid)],
) -> Result<HashSet<(String, Uuid)>> {
    let found = Rows::of(asked)
        .column("tenant", |_| tenant)
        .column("object", |row| row.0)
        .column("signal", |row| row.1)
        .with_given(
            "SELECT object_id, signal_id FROM given CROSS JOIN labels
             WHERE tenant_id = given.tenant AND object_id = object AND signal_id = signal AND audit",
        )
        .fetch::<(String, Uuid)>(conn)
        .await?;
    Ok(found.into_iter().collect())
}

/// Writes labels, which count from now on, and returns those of the same authors that they replace. At most one for a
/// signal of an object; the objects are locked.
pub async fn put(conn: &mut Conn, tenant: TenantId, labels: &[Label]) -> Result<Vec<Label>> {
    let replaced = Rows::of(labels)
        .column("tenant", |_| tenant)
        .column("object", |label| label.object_id.as_str())
        .column("signal", |label| label.signal_id)
        .column("kind", |label| label.author_kind.as_str())
        .column("author", |label| label.author_id)
        .with_given(Sql {
            sqlite: concat!(
                "DELETE FROM labels WHERE (tenant_id, label_id) IN (
                     SELECT labels.tenant_id, labels.label_id FROM given CROSS JOIN labels
                     WHERE tenant_id = given.tenant AND object_id = object AND signal_id = signal
                       AND author_kind = kind AND author_id = author)
                 RETURNING ",
                columns!()
            ),
            postgres: concat!(
                "DELETE FROM labels USING given
                 WHERE tenant_id = given.tenant AND object_id = object AND signal_id = signal
                   AND author_kind = kind AND author_id = author
                 RETURNING ",
                columns!()
            ),
        })
        .fetch(conn)
        .await?;
    Rows::of(labels)
        .column("tenant", |_| tenant)
        .column("object", |label| label.object_id.as_str())
        .column("signal", |label| label.signal_id)
        .with_given(
            "UPDATE labels SET counts = FALSE FROM given
             WHERE tenant_id = given.tenant AND object_id = object AND signal_id = signal AND counts",
        )
        .execute(conn)
        .await?;
    insert(conn, tenant, labels, true).await?;
    Ok(replaced)
}

async fn insert(conn: &mut Conn, tenant: TenantId, labels: &[Label], counts: bool) -> Result<()> {
    Rows::of(labels)
        .column("tenant_id", |_| tenant)
        .column("label_id", |label| label.label_id)
        .column("object_id", |label| label.object_id.as_str())
        .column("signal_id", |label| label.signal_id)
        .column("version", |label| label.version)
        .column("value", |label| label.value.as_str())
        .column("note", |label| label.note.as_deref())
        .column("source", |label| label.source.as_str())
        .column("author_kind", |label| label.author_kind.as_str())
        .column("author_id", |label| label.author_id)
        .column("author_name", |label| label.author_name.as_str())
        .column("audit", |label| label.audit)
        .column("answer", |label| label.answer.as_deref())
        .column("counts", |_| counts)
        .column("created_at", |label| label.created_at)
        .insert("labels", "ON CONFLICT DO NOTHING")
        .execute(conn)
        .await?;
    Ok(())
}

/// Removes a label, and lets the latest one that is left count; returns it, or none if there is none. Its object is locked.
pub async fn withdraw(conn: &mut Conn, tenant: TenantId, label: Uuid) -> Result<Option<Label>> {
    let removed: Option<Label> = fetch_optional!(
        conn,
        concat!("DELETE FROM labels WHERE tenant_id = $1 AND label_id = $2 RETURNING ", columns!()),
        tenant,
        label
    )?;
    if let Some(removed) = &removed {
        count_latest(conn, tenant, &removed.object_id, removed.signal_id).await?;
    }
    Ok(removed)
}

/// Puts back labels that [`put`] replaced, with their ids and times, unless their authors have given others since. Their
/// objects are locked.
pub async fn reinstate(conn: &mut Conn, tenant: TenantId, labels: &[Label]) -> Result<()> {
    insert(conn, tenant, labels, false).await?;
    for label in labels {
        count_latest(conn, tenant, &label.object_id, label.signal_id).await?;
    }
    Ok(())
}

/// Lets the latest label about a signal of an object count, and no other.
async fn count_latest(conn: &mut Conn, tenant: TenantId, object_id: &str, signal: Uuid) -> Result<()> {
    execute!(
        conn,
        "UPDATE labels SET counts = (label_id = (
             SELECT latest.label_id FROM labels AS latest
             WHERE latest.tenant_id = $1 AND latest.object_id = $2 AND latest.signal_id = $3
             ORDER BY latest.label_id DESC LIMIT 1))
         WHERE tenant_id = $1 AND object_id = $2 AND signal_id = $3",
        tenant,
        object_id,
        signal
    )?;
    Ok(())
}

/// A label of a tenant, also if its question is gone.
pub async fn find(conn: &mut Conn, tenant: TenantId, label: Uuid) -> Result<Option<Label>> {
    fetch_optional!(
        conn,
        concat!("SELECT ", columns!(), " FROM labels WHERE tenant_id = $1 AND label_id = $2"),
        tenant,
        label
    )
}

/// Which labels are listed.
#[derive(Clone, Copy, Debug)]
pub struct LabelFilter<'a> {
    /// Only those about this question.
    pub signal: Option<Uuid>,
    /// Only those about this object.
    pub object_id: Option<&'a str>,
    /// Only those that were given like this.
    pub source: Option<LabelSource>,
    /// Only those before this one.
    pub before: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// The newest labels of a tenant that pass a filter, also those of questions that are gone and not yet swept.
pub async fn newest(conn: &mut Conn, tenant: TenantId, filter: LabelFilter<'_>) -> Result<Vec<Label>> {
    let mut text =
        String::from(concat!("SELECT ", columns!(), " FROM labels WHERE tenant_id = $1 AND label_id < $2"));
    // A text of its own for every combination, so that each has its own plan. What is not filtered by is bound all the same.
    text.push_str(if filter.object_id.is_some() { " AND object_id = $4" } else { " AND $4 = ''" });
    text.push_str(if filter.source.is_some() { " AND source = $5" } else { " AND $5 = ''" });
    if filter.signal.is_some() {
        text.push_str(" AND signal_id = $6");
    }
    text.push_str(" ORDER BY label_id DESC LIMIT $3");
    let (before, object_id) = (filter.before.unwrap_or(Uuid::max()), filter.object_id.unwrap_or_default());
    let source = filter.source.map_or("", LabelSource::as_str);
    match filter.signal {
        Some(signal) => {
            fetch_all!(conn, AssertSqlSafe(text), tenant, before, filter.limit, object_id, source, signal)
        }
        None => fetch_all!(conn, AssertSqlSafe(text), tenant, before, filter.limit, object_id, source),
    }
}

/// The labels of a tenant after one and before another, oldest first, also those of questions that are gone and not yet swept.
pub async fn between(
    conn: &mut Conn,
    tenant: TenantId,
    (after, before): (Uuid, Uuid),
    limit: i64,
) -> Result<Vec<Label>> {
    fetch_all!(
        conn,
        concat!(
            "SELECT ",
            columns!(),
            " FROM labels WHERE tenant_id = $1 AND label_id > $2 AND label_id < $3 ORDER BY label_id LIMIT $4"
        ),
        tenant,
        after,
        before,
        limit
    )
}

/// A label that counts, with the answer that stood when it was given.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct AnsweredLabel {
    /// JSON.
    pub value: String,
    /// JSON.
    pub answer: String,
    /// Whether the object was drawn at random.
    pub audit: bool,
    /// When it was given.
    pub created_at: Timestamp,
}

/// The newest labels that count about a question, with the answers that stood then.
pub async fn answered(
    conn: &mut Conn,
    tenant: TenantId,
    signal: Uuid,
    limit: i64,
) -> Result<Vec<AnsweredLabel>> {
    fetch_all!(
        conn,
        "SELECT value, answer, audit, created_at FROM labels
         WHERE tenant_id = $1 AND signal_id = $2 AND counts AND answer IS NOT NULL
         ORDER BY label_id DESC LIMIT $3",
        tenant,
        signal,
        limit
    )
}

/// The newest labels that count about a question.
pub async fn newest_counting(
    conn: &mut Conn,
    tenant: TenantId,
    signal: Uuid,
    limit: i64,
) -> Result<Vec<Label>> {
    fetch_all!(
        conn,
        concat!(
            "SELECT ",
            columns!(),
            " FROM labels WHERE tenant_id = $1 AND signal_id = $2 AND counts ORDER BY label_id DESC LIMIT $3"
        ),
        tenant,
        signal,
        limit
    )
}

/// The objects of the newest labels that count about a question, with the JSON of their values.
pub async fn counting(
    conn: &mut Conn,
    tenant: TenantId,
    signal: Uuid,
    limit: i64,
) -> Result<Vec<(String, String)>> {
    fetch_all!(
        conn,
        "SELECT object_id, value FROM labels WHERE tenant_id = $1 AND signal_id = $2 AND counts
         ORDER BY label_id DESC LIMIT $3",
        tenant,
        signal,
        limit
    )
}

/// Counts the labels about a question, up to a limit.
pub async fn count(conn: &mut Conn, tenant: TenantId, signal: Uuid, limit: i64) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM (SELECT label_id FROM labels WHERE tenant_id = $1 AND signal_id = $2 LIMIT $3) AS counted",
        tenant,
        signal,
        limit
    )?;
    Ok(count)
}

/// The next question after this one that a tenant has labels about.
pub async fn next_question(conn: &mut Conn, tenant: TenantId, after: Uuid) -> Result<Option<Uuid>> {
    let next: Option<(Uuid,)> = fetch_optional!(
        conn,
        "SELECT signal_id FROM labels WHERE tenant_id = $1 AND signal_id > $2 ORDER BY signal_id LIMIT 1",
        tenant,
        after
    )?;
    Ok(next.map(|(signal,)| signal))
}

/// Removes up to `limit` labels about a question; returns how many.
pub async fn drop_some(conn: &mut Conn, tenant: TenantId, signal: Uuid, limit: i64) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM labels WHERE tenant_id = $1 AND signal_id = $2 AND label_id < coalesce((
             SELECT label_id FROM labels WHERE tenant_id = $1 AND signal_id = $2 ORDER BY label_id LIMIT 1 OFFSET $3), $4)",
        tenant,
        signal,
        limit,
        Uuid::max()
    )
}
