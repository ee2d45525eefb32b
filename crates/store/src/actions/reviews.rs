//! Reviews: objects that people are to look at, in queues.
//!
//! Whoever opens, resolves or reopens reviews of an object has locked the object, so that it has at most one open review in a
//! queue. A claim is a lease that ends by itself; the row of a claimed review is `open`.

use std::collections::HashSet;

use model::api::{Author, AuthorKind, ReviewOrder, ReviewReason, ReviewStatus};
use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::db::{Backend, Conn, Result, Rows, execute, expect_one, fetch_all, fetch_optional};

/// A review.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Review {
    /// Its id, which sorts by `created_at`.
    pub review_id: Uuid,
    /// The object.
    pub object_id: String,
    /// The queue.
    pub queue: String,
    /// The rule that opened it.
    pub rule_id: Option<Uuid>,
    /// Why it was opened.
    pub reason: ReviewReason,
    /// `open` or `resolved`; whether it is claimed depends on the time.
    pub status: ReviewStatus,
    /// JSON: the keys of the signals to be labelled.
    pub signals: String,
    /// How often rules have fired for it again.
    pub refirings: i64,
    /// In thousandths.
    pub priority: i64,
    claimer_kind: Option<AuthorKind>,
    claimer_id: Option<Uuid>,
    claimer_name: Option<String>,
    claimed_until: Option<Timestamp>,
    /// What was decided.
    pub decision: Option<String>,
    /// What else was said.
    pub note: Option<String>,
    resolver_kind: Option<AuthorKind>,
    resolver_id: Option<Uuid>,
    resolver_name: Option<String>,
    /// When it was resolved.
    pub resolved_at: Option<Timestamp>,
    /// JSON: what reopening has to undo.
    pub undo: Option<String>,
    /// When the object was drawn at random, if it was.
    pub audited_at: Option<Timestamp>,
    /// When it was opened.
    pub created_at: Timestamp,
}

/// A review to be opened.
#[derive(Clone, Debug)]
pub struct NewReview {
    /// Its id, made of `created_at` ([`model::recorded_answer::analysis_id`]).
    pub review_id: Uuid,
    /// The object.
    pub object_id: String,
    /// The queue.
    pub queue: String,
    /// The rule that opens it.
    pub rule_id: Option<Uuid>,
    /// Why it is opened.
    pub reason: ReviewReason,
    /// JSON: the keys of the signals to be labelled.
    pub signals: String,
    /// How often rules have fired for it again.
    pub refirings: i64,
    /// In thousandths.
    pub priority: i64,
    /// When the object was drawn at random, if it was.
    pub audited_at: Option<Timestamp>,
    /// When it is opened.
    pub created_at: Timestamp,
}

/// A decision about a review.
#[derive(Clone, Debug)]
pub struct Resolution<'a> {
    /// What was decided.
    pub decision: &'a str,
    /// What else was said.
    pub note: Option<&'a str>,
    /// Who decided.
    pub by: &'a Author,
    /// When.
    pub at: Timestamp,
    /// JSON: what reopening has to undo.
    pub undo: &'a str,
}

fn author(kind: Option<AuthorKind>, id: Option<Uuid>, name: Option<&String>) -> Option<Author> {
    Some(Author { kind: kind?, id: id?, name: name?.clone() })
}

impl Review {
    /// Who has claimed it and until when, if the claim has not run out.
    pub fn claim(&self, now: Timestamp) -> Option<(Author, Timestamp)> {
        let until = self.claimed_until.filter(|until| *until > now && self.status == ReviewStatus::Open)?;
        Some((author(self.claimer_kind, self.claimer_id, self.claimer_name.as_ref())?, until))
    }

    /// Who resolved it.
    pub fn resolved_by(&self) -> Option<Author> {
        author(self.resolver_kind, self.resolver_id, self.resolver_name.as_ref())
    }
}

macro_rules! columns {
    () => {
        "review_id, object_id, queue, rule_id, reason, status, signals, refirings, priority, claimer_kind, claimer_id, \
         claimer_name, claimed_until, decision, note, resolver_kind, resolver_id, resolver_name, resolved_at, undo, \
         audited_at, created_at"
    };
}

/// The open reviews of objects, each with its queue; the objects are locked.
pub async fn open_of(conn: &mut Conn, tenant: TenantId, wanted: &[(&str, &str)]) -> Result<Vec<Review>> {
    Rows::of(wanted)
        .column("tenant", |_| tenant)
        .column("object", |row| row.0)
        .column("name", |row| row.1)
        .with_given(concat!(
            "SELECT ",
            columns!(),
            " FROM given CROSS JOIN reviews
             WHERE tenant_id = given.tenant AND object_id = object AND queue = name AND status = 'open'"
        ))
        .fetch(conn)
        .await
}

/// Opens reviews of objects that have none in these queues; the objects are locked.
pub async fn insert(conn: &mut Conn, tenant: TenantId, reviews: &[NewReview]) -> Result<()> {
    Rows::of(reviews)
        .column("tenant_id", |_| tenant)
        .column("review_id", |review| review.review_id)
        .column("object_id", |review| review.object_id.as_str())
        .column("queue", |review| review.queue.as_str())
        .column("rule_id", |review| review.rule_id)
        .column("reason", |review| review.reason.as_str())
        .column("status", |_| ReviewStatus::Open.as_str())
        .column("signals", |review| review.signals.as_str())
        .column("refirings", |review| review.refirings)
        .column("priority", |review| review.priority)
        .column("audited_at", |review| review.audited_at)
        .column("created_at", |review| review.created_at)
        .insert("reviews", "")
        .execute(conn)
        .await?;
    Ok(())
}

/// Raises the priority of an open review, asks about more signals, and marks it as an audit.
pub async fn raise(conn: &mut Conn, tenant: TenantId, review: &Review) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE reviews SET signals = $3, refirings = $4, priority = $5, audited_at = $6
         WHERE tenant_id = $1 AND review_id = $2",
        tenant,
        review.review_id,
        &review.signals,
        review.refirings,
        review.priority,
        review.audited_at
    )?)
}

/// A review.
pub async fn find(conn: &mut Conn, tenant: TenantId, review: Uuid) -> Result<Option<Review>> {
    fetch_optional!(
        conn,
        concat!("SELECT ", columns!(), " FROM reviews WHERE tenant_id = $1 AND review_id = $2"),
        tenant,
        review
    )
}

/// A review, locked until the transaction ends.
pub async fn lock(conn: &mut Conn, tenant: TenantId, review: Uuid) -> Result<Option<Review>> {
    let text = match conn.backend() {
        Backend::Sqlite => {
            concat!("SELECT ", columns!(), " FROM reviews WHERE tenant_id = $1 AND review_id = $2")
        }
        Backend::Postgres => {
            concat!("SELECT ", columns!(), " FROM reviews WHERE tenant_id = $1 AND review_id = $2 FOR UPDATE")
        }
    };
    fetch_optional!(conn, text, tenant, review)
}

/// Which reviews are listed.
#[derive(Clone, Copy, Debug)]
pub struct ReviewFilter<'a> {
    /// Only those in this queue.
    pub queue: Option<&'a str>,
    /// `open`, including claimed ones, or `resolved`.
    pub status: ReviewStatus,
    /// Of the open ones, only those that are claimed at this time (true), or those that are not.
    pub claimed: Option<(bool, Timestamp)>,
    /// The order.
    pub order: ReviewOrder,
    /// Only those after this priority and id, in that order.
    pub after: Option<(i64, Uuid)>,
    /// At most so many.
    pub limit: i64,
}

/// Reviews that pass a filter, in its order.
pub async fn list(conn: &mut Conn, tenant: TenantId, filter: ReviewFilter<'_>) -> Result<Vec<Review>> {
    // A text of its own for every combination, so that each has its own plan. What is not filtered by is bound all the same.
    let mut text =
        String::from(concat!("SELECT ", columns!(), " FROM reviews WHERE tenant_id = $1 AND status = $2"));
    text.push_str(if filter.queue.is_some() { " AND queue = $3" } else { " AND $3 = ''" });
    text.push_str(match filter.claimed {
        Some((true, _)) => " AND claimed_until > $4",
        Some((false, _)) => " AND (claimed_until IS NULL OR claimed_until <= $4)",
        None => " AND $4 = $4",
    });
    // By priority: descending, and at one priority the oldest first.
    text.push_str(match filter.order {
        ReviewOrder::Value => {
            " AND priority <= $5 AND (priority < $5 OR review_id > $6) ORDER BY priority DESC, review_id LIMIT $7"
        }
        ReviewOrder::Oldest => " AND $5 = $5 AND review_id > $6 ORDER BY review_id LIMIT $7",
    });
    let (priority, review) = filter.after.unwrap_or((i64::MAX, Uuid::nil()));
    let now = filter.claimed.map_or(Timestamp::MAX, |(_, now)| now);
    fetch_all!(
        conn,
        AssertSqlSafe(text),
        tenant,
        filter.status,
        filter.queue.unwrap_or_default(),
        now,
        priority,
        review,
        filter.limit
    )
}

/// The next review of a queue that nobody has claimed, locked: one that was opened before an instant if there is one, the
/// oldest first; otherwise the one of the highest priority. Those that others are claiming are skipped.
pub async fn next(
    conn: &mut Conn,
    tenant: TenantId,
    queue: &str,
    now: Timestamp,
    waited_since: Timestamp,
) -> Result<Option<Review>> {
    let locked = conn.backend().skip_locked();
    let select = |rest: &str| {
        let columns = columns!();
        AssertSqlSafe(format!(
            "SELECT {columns} FROM reviews
             WHERE tenant_id = $1 AND queue = $2 AND status = 'open' AND (claimed_until IS NULL OR claimed_until <= $3)
             {rest} LIMIT 1 {locked}"
        ))
    };
    let waiting: Option<Review> = fetch_optional!(
        conn,
        select("AND review_id < $4 ORDER BY review_id"),
        tenant,
        queue,
        now,
        model::recorded_answer::first_id(waited_since)
    )?;
    match waiting {
        Some(waiting) => Ok(Some(waiting)),
        None => fetch_optional!(conn, select("ORDER BY priority DESC, review_id"), tenant, queue, now),
    }
}

/// Gives a locked review to a claimer until an instant, or back to its queue.
pub async fn set_claim(
    conn: &mut Conn,
    tenant: TenantId,
    review: Uuid,
    claim: Option<(&Author, Timestamp)>,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE reviews SET claimer_kind = $3, claimer_id = $4, claimer_name = $5, claimed_until = $6
         WHERE tenant_id = $1 AND review_id = $2 AND status = 'open'",
        tenant,
        review,
        claim.map(|(by, _)| by.kind),
        claim.map(|(by, _)| by.id),
        claim.map(|(by, _)| by.name.as_str()),
        claim.map(|(_, until)| until)
    )?)
}

/// Gives everything back that a member or a key has claimed.
pub async fn release_all_of(conn: &mut Conn, tenant: TenantId, claimer: Uuid) -> Result<u64> {
    execute!(
        conn,
        "UPDATE reviews SET claimer_kind = NULL, claimer_id = NULL, claimer_name = NULL, claimed_until = NULL
         WHERE tenant_id = $1 AND claimer_id = $2 AND claimer_id IS NOT NULL",
        tenant,
        claimer
    )
}

/// Resolves a locked review.
pub async fn resolve(
    conn: &mut Conn,
    tenant: TenantId,
    review: Uuid,
    resolution: &Resolution<'_>,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE reviews SET status = 'resolved', decision = $3, note = $4, resolver_kind = $5, resolver_id = $6,
             resolver_name = $7, resolved_at = $8, undo = $9,
             claimer_kind = NULL, claimer_id = NULL, claimer_name = NULL, claimed_until = NULL
         WHERE tenant_id = $1 AND review_id = $2 AND status = 'open'",
        tenant,
        review,
        resolution.decision,
        resolution.note,
        resolution.by.kind,
        resolution.by.id,
        &resolution.by.name,
        resolution.at,
        resolution.undo
    )?)
}

/// Opens a locked review again.
pub async fn reopen(conn: &mut Conn, tenant: TenantId, review: Uuid) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE reviews SET status = 'open', decision = NULL, note = NULL, resolver_kind = NULL, resolver_id = NULL,
             resolver_name = NULL, resolved_at = NULL, undo = NULL
         WHERE tenant_id = $1 AND review_id = $2 AND status = 'resolved'",
        tenant,
        review
    )?)
}

/// How a queue stands.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct QueueCounts {
    /// Its name.
    pub queue: String,
    /// Reviews that are not resolved.
    pub open: i64,
    /// Those of them that are claimed.
    pub claimed: i64,
    /// When the oldest of them was opened.
    pub oldest_at: Option<Timestamp>,
}

/// The queues that have open reviews, by name.
pub async fn queues(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<Vec<QueueCounts>> {
    fetch_all!(
        conn,
        "SELECT queue, count(*) AS open, count(CASE WHEN claimed_until > $2 THEN 1 END) AS claimed,
                min(created_at) AS oldest_at
         FROM reviews WHERE tenant_id = $1 AND status = 'open' GROUP BY queue ORDER BY queue",
        tenant,
        now
    )
}

/// How many reviews of each queue were resolved since an instant, by name.
pub async fn resolved_since(
    conn: &mut Conn,
    tenant: TenantId,
    since: Timestamp,
) -> Result<Vec<(String, i64)>> {
    fetch_all!(
        conn,
        "SELECT queue, count(*) FROM reviews WHERE tenant_id = $1 AND status = 'resolved' AND resolved_at >= $2
         GROUP BY queue ORDER BY queue",
        tenant,
        since
    )
}

/// The newest reviews of an object: all up to `limit`, or those before a time and an id.
pub async fn of_object(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    before: Option<(Timestamp, Uuid)>,
    limit: i64,
) -> Result<Vec<Review>> {
    let (at, review) = before.unwrap_or((Timestamp::MAX, Uuid::max()));
    fetch_all!(
        conn,
        concat!(
            "SELECT ",
            columns!(),
            " FROM reviews WHERE tenant_id = $1 AND object_id = $2 AND (created_at, review_id) < ($3, $4)
             ORDER BY created_at DESC, review_id DESC LIMIT $5"
        ),
        tenant,
        object_id,
        at,
        review,
        limit
    )
}

/// Which of these objects were drawn at random since an instant, or before and are not resolved yet.
pub async fn audited_since(
    conn: &mut Conn,
    tenant: TenantId,
    object_ids: &[&str],
    since: Timestamp,
) -> Result<HashSet<String>> {
    let found = Rows::of(object_ids)
        .column("tenant", |_| tenant)
        .column("object", |object_id| *object_id)
        .column("since", |_| since)
        .with_given(
            "SELECT object_id FROM given CROSS JOIN reviews
             WHERE tenant_id = given.tenant AND object_id = object AND audited_at IS NOT NULL
               AND (audited_at >= since OR status = 'open')",
        )
        .fetch::<(String,)>(conn)
        .await?;
    Ok(found.into_iter().map(|(object_id,)| object_id).collect())
}

/// Forgets what reopening would have to undo, of up to `limit` reviews that were resolved before an instant; returns of how many.
pub async fn forget_undo(conn: &mut Conn, tenant: TenantId, before: Timestamp, limit: i64) -> Result<u64> {
    execute!(
        conn,
        "UPDATE reviews SET undo = NULL WHERE (tenant_id, review_id) IN (
             SELECT tenant_id, review_id FROM reviews
             WHERE tenant_id = $1 AND resolved_at < $2 AND undo IS NOT NULL ORDER BY resolved_at LIMIT $3)",
        tenant,
        before,
        limit
    )
}
