//! What a finished analysis writes: answers, tallies and ranks, together with those of other analyses.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use model::{SignalType, TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::analysis::history::{ObjectKey, Summary};
use crate::analysis::tallies::{CountedAnswer, HIGH, ObjectCounts, ObjectDays, ObjectTallies, SignalTallies};
use crate::db::{Backend, Batch, Conn, Result, Rows, Sql, bigint, execute, fetch_all};

/// How much the clocks of two processes may differ: each by two seconds from the database's.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(4);

/// Writes the summary, unless a newer one is there.
pub async fn put_summary(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    summary: &Summary,
) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO summaries (tenant_id, object_id, through_seq, through_time, folded_events, samples, state)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (tenant_id, object_id) DO UPDATE SET through_seq = excluded.through_seq,
             through_time = excluded.through_time, folded_events = excluded.folded_events,
             samples = excluded.samples, state = excluded.state
         WHERE summaries.through_seq < excluded.through_seq",
        tenant,
        object_id,
        summary.through_seq,
        summary.through_time,
        summary.state.total_events,
        bigint(summary.state.sample_messages.len()),
        Json(&summary.state)
    )?;
    Ok(())
}

/// An answer to be stored.
#[derive(Clone, Debug)]
pub struct NewAnswer {
    /// The question.
    pub signal_id: Uuid,
    /// The version of the signal that was asked, whatever it is now.
    pub version: i64,
    /// Whether it is a yes/no question, whose high answers are counted.
    pub is_noul: bool,
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
    /// What answered, if not the model of the analysis.
    pub model: Option<String>,
    /// JSON: what the first analyzer said, where the second one answered.
    pub first: Option<String>,
}

/// The answers of one analysis.
#[derive(Clone, Debug)]
pub struct NewAnswers<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The answers.
    pub answers: Vec<NewAnswer>,
    /// What answered.
    pub model: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
    /// When.
    pub now: Timestamp,
}

/// A signal of an object's tenant, and the object's current answer to it.
#[derive(sqlx::FromRow)]
struct SignalAnswer {
    signal_id: Uuid,
    #[sqlx(rename = "type")]
    kind: SignalType,
    enabled: bool,
    value: Option<f64>,
    choice: Option<String>,
    /// None without an answer.
    version: Option<i64>,
    /// None without an answer.
    read_seq: Option<i64>,
}

impl SignalAnswer {
    fn is_answered(&self) -> bool {
        self.read_seq.is_some()
    }

    fn counted(&self, tenant: TenantId, is_noul: bool) -> CountedAnswer<'_> {
        let Self { signal_id, version, value, choice, .. } = self;
        CountedAnswer {
            tenant,
            signal: *signal_id,
            version: version.unwrap_or_default(),
            value: *value,
            choice: choice.as_deref(),
            is_noul,
        }
    }
}

/// The values that objects are sorted by; -1 without an answer.
#[derive(Clone, Copy, PartialEq)]
struct Rank {
    /// The highest yes/no probability among the answers to enabled signals.
    risk: f64,
    /// The highest score among them.
    trust: f64,
}

impl Rank {
    fn of<'a>(answers: impl Iterator<Item = &'a SignalAnswer>) -> Self {
        let mut rank = Self { risk: -1.0, trust: -1.0 };
        for SignalAnswer { kind, enabled, value, .. } in answers {
            match (kind, value) {
                (SignalType::Noul, Some(value)) if *enabled => rank.risk = rank.risk.max(*value),
                (SignalType::Score, Some(value)) if *enabled => rank.trust = rank.trust.max(*value),
                _ => {}
            }
        }
        rank
    }
}

/// An object whose row is locked.
#[derive(sqlx::FromRow)]
struct LockedObject {
    tenant_id: TenantId,
    object_id: String,
    counted_type: String,
    risk: f64,
    first_seen: Timestamp,
    last_analyzed_at: Option<Timestamp>,
    event_count: i64,
    /// Whether its tenant has rules that are enabled.
    has_rules: bool,
    /// The share of analyzed objects of its tenant that is drawn for a review, in percent.
    audit_rate_pct: f64,
}

/// A locked object and one of the signals; none where its tenant has no signals.
#[derive(sqlx::FromRow)]
struct LockedRow {
    #[sqlx(flatten)]
    object: LockedObject,
    signal_id: Option<Uuid>,
    #[sqlx(rename = "type")]
    kind: Option<SignalType>,
    enabled: Option<bool>,
    value: Option<f64>,
    choice: Option<String>,
    version: Option<i64>,
    read_seq: Option<i64>,
}

/// Locks objects in key order, to avoid deadlocks: analyses of one object are written one after the other. On SQLite the
/// write transaction is the lock.
async fn lock(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<()> {
    if conn.backend() == Backend::Postgres {
        let ordered: BTreeSet<(TenantId, &str)> = objects.iter().copied().collect();
        let ordered: Vec<(TenantId, &str)> = ordered.into_iter().collect();
        Rows::of(&ordered)
            .column("tenant_id", |object| object.0)
            .column("object_id", |object| object.1)
            .with_given(
                "SELECT 1 FROM given CROSS JOIN objects
                 WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id
                 ORDER BY given.tenant_id, given.object_id FOR UPDATE OF objects",
            )
            .execute(conn)
            .await?;
    }
    Ok(())
}

/// Reads objects with the signals of their tenants and the answers to them.
macro_rules! read_locked {
    ($answers:literal) => {
        concat!(
            "SELECT objects.tenant_id, objects.object_id, counted_type, risk, first_seen, last_analyzed_at, event_count,
                    coalesce((SELECT TRUE FROM rules
                              WHERE rules.tenant_id = given.tenant_id AND rules.enabled LIMIT 1), FALSE) AS has_rules,
                    coalesce((SELECT audit_rate_pct FROM tenants WHERE tenants.tenant_id = given.tenant_id),
                             0.0) AS audit_rate_pct,
                    signals.signal_id, type, enabled, value, choice, answers.version, read_seq
             FROM given CROSS JOIN objects
             LEFT JOIN signals ON signals.tenant_id = given.tenant_id ",
            $answers,
            " WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id"
        )
    };
}
/// On PostgreSQL the offset is a fence: the answer to each signal is looked up by its whole key, instead of all answers of the
/// object being compared with each signal.
const READ_LOCKED: Sql<'static> = Sql {
    sqlite: read_locked!(
        "LEFT JOIN answers ON answers.tenant_id = given.tenant_id AND answers.object_id = given.object_id
                          AND answers.signal_id = signals.signal_id"
    ),
    postgres: read_locked!(
        "LEFT JOIN LATERAL (SELECT value, choice, version, read_seq FROM answers
                            WHERE answers.tenant_id = given.tenant_id AND answers.object_id = given.object_id
                              AND answers.signal_id = signals.signal_id OFFSET 0) AS answers ON TRUE"
    ),
};

/// Objects whose rows are locked, with the signals of their tenants and their current answers. A change of signals that
/// commits later ranks the objects again.
pub struct LockedObjects(HashMap<ObjectKey, (LockedObject, HashMap<Uuid, SignalAnswer>)>);

impl LockedObjects {
    /// Locks objects and reads them; one that does not exist is left out.
    pub async fn lock(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<Self> {
        // A statement of its own: what the next one reads must be no older than the locks.
        lock(conn, objects).await?;
        let rows = Rows::of(objects)
            .column("tenant_id", |object| object.0)
            .column("object_id", |object| object.1)
            .with_given(READ_LOCKED)
            .fetch::<LockedRow>(conn)
            .await?;
        let mut locked: HashMap<ObjectKey, (LockedObject, HashMap<Uuid, SignalAnswer>)> = HashMap::new();
        for row in rows {
            let LockedRow { object, value, choice, version, read_seq, .. } = row;
            let key = (object.tenant_id, object.object_id.clone());
            let (_, answers) = locked.entry(key).or_insert_with(|| (object, HashMap::new()));
            if let (Some(signal_id), Some(kind), Some(enabled)) = (row.signal_id, row.kind, row.enabled) {
                let answer = SignalAnswer { signal_id, kind, enabled, value, choice, version, read_seq };
                answers.insert(signal_id, answer);
            }
        }
        Ok(Self(locked))
    }

    /// Whether the object that was read still exists: one that was created later, or has fewer events than were read, is
    /// another object with the same id.
    pub fn still_exists(
        &self,
        tenant: TenantId,
        object_id: &str,
        first_seen: Timestamp,
        read_seq: i64,
    ) -> bool {
        self.object(tenant, object_id)
            .is_some_and(|object| object.first_seen == first_seen && object.event_count >= read_seq)
    }

    /// The newest event of an object.
    pub fn newest_seq(&self, tenant: TenantId, object_id: &str) -> Option<i64> {
        self.object(tenant, object_id).map(|object| object.event_count)
    }

    /// The time of an analysis that is written now: after that of the one before, although two may be written within a
    /// microsecond, or by processes whose clocks differ as much as they may. Who reads the past of an object reads it in the order
    /// in which it happened.
    pub fn time_of_next(&self, tenant: TenantId, object_id: &str, now: Timestamp) -> Timestamp {
        let before = self.object(tenant, object_id).and_then(|object| object.last_analyzed_at);
        match before {
            Some(before) if before >= now && before <= now + CLOCK_DIFFERENCE => {
                before + Duration::from_micros(1)
            }
            _ => now,
        }
    }

    /// Whether the tenant of an object has enabled rules: if not, none of them can fire.
    pub fn has_rules(&self, tenant: TenantId, object_id: &str) -> bool {
        self.object(tenant, object_id).is_some_and(|object| object.has_rules)
    }

    /// The share of analyzed objects of an object's tenant that is drawn for a review, from 0 to 1.
    pub fn audit_rate(&self, tenant: TenantId, object_id: &str) -> f64 {
        self.object(tenant, object_id).map_or(0.0, |object| object.audit_rate_pct / 100.0)
    }

    /// Whether `is_answered` holds for every enabled signal of an object's tenant.
    pub fn all_signals(
        &self,
        tenant: TenantId,
        object_id: &str,
        mut is_answered: impl FnMut(Uuid) -> bool,
    ) -> bool {
        let locked = self.0.get(&(tenant, object_id.to_owned()));
        locked.is_none_or(|(_, answers)| {
            answers.values().all(|answer| !answer.enabled || is_answered(answer.signal_id))
        })
    }

    fn object(&self, tenant: TenantId, object_id: &str) -> Option<&LockedObject> {
        self.0.get(&(tenant, object_id.to_owned())).map(|(object, _)| object)
    }
}

/// Stores the answers that are not older than the current ones, with every count that follows. The objects are locked, and
/// each is there once. Answers to signals that were deleted meanwhile are not stored.
pub fn put_answers(batch: &mut Batch, mut locked: LockedObjects, analyses: &[NewAnswers<'_>], shard: i64) {
    let mut newer: Vec<(&NewAnswers<'_>, &NewAnswer)> = Vec::new();
    let mut tallies = SignalTallies::default();
    let mut ranked: Vec<RankedObject<'_>> = Vec::new();
    for analysis in analyses {
        let found = locked.0.remove(&(analysis.tenant, analysis.object_id.to_owned()));
        let Some((object, mut current)) = found else { continue };
        for answer in &analysis.answers {
            let Some(stored) = current.get_mut(&answer.signal_id) else { continue };
            if stored.read_seq.is_some_and(|read_seq| read_seq > analysis.read_seq) {
                continue;
            }
            if stored.is_answered() {
                tallies.remove(stored.counted(analysis.tenant, answer.is_noul));
            }
            stored.value = answer.value;
            stored.choice.clone_from(&answer.choice);
            stored.version = Some(answer.version);
            stored.read_seq = Some(analysis.read_seq);
            tallies.add(stored.counted(analysis.tenant, answer.is_noul));
            newer.push((analysis, answer));
        }
        let mut answered = current.values().filter(|answer| answer.is_answered()).peekable();
        // Without any answer, an object does not count as analyzed.
        if answered.peek().is_some() {
            let rank = Rank::of(answered);
            ranked.push(RankedObject { analysis, object, rank });
        }
    }
    upsert_answers(batch, &newer);
    tallies.write(batch, shard);
    rank_objects(batch, &ranked, shard);
}

/// An analyzed object and its new rank.
struct RankedObject<'a> {
    analysis: &'a NewAnswers<'a>,
    /// The object as it was before.
    object: LockedObject,
    rank: Rank,
}

fn upsert_answers(batch: &mut Batch, newer: &[(&NewAnswers<'_>, &NewAnswer)]) {
    batch.add(
        Rows::of(newer)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .column("signal_id", |row| row.1.signal_id)
            .column("version", |row| row.1.version)
            .column("value", |row| row.1.value)
            .column("choice", |row| row.1.choice.as_deref())
            .column("probabilities", |row| row.1.probabilities.as_deref())
            .column("confidence", |row| row.1.confidence)
            .column("raw", |row| row.1.raw.as_deref())
            .column("escalated", |row| row.1.escalated)
            .column("first", |row| row.1.first.as_deref())
            .column("model", |row| row.1.model.as_deref().unwrap_or(row.0.model))
            .column("read_seq", |row| row.0.read_seq)
            .column("computed_at", |row| row.0.now)
            .insert(
                "answers",
                "ON CONFLICT (tenant_id, object_id, signal_id) DO UPDATE SET version = excluded.version, value = excluded.value,
                     choice = excluded.choice, probabilities = excluded.probabilities,
                     confidence = excluded.confidence, raw = excluded.raw, escalated = excluded.escalated,
                     first = excluded.first, model = excluded.model, read_seq = excluded.read_seq,
                     computed_at = excluded.computed_at",
            ),
    );
}

/// Stores the ranks of objects, and counts them as analyzed and flagged.
fn rank_objects(batch: &mut Batch, ranked: &[RankedObject<'_>], shard: i64) {
    batch.add(
        Rows::of(ranked)
            .column("tenant_id", |row| row.analysis.tenant)
            .column("object_id", |row| row.analysis.object_id)
            .column("last_analyzed_at", |row| row.analysis.now)
            .column("risk", |row| row.rank.risk)
            .column("trust", |row| row.rank.trust)
            .with_given(
                "UPDATE objects SET last_analyzed_at = given.last_analyzed_at, risk = given.risk, trust = given.trust
                 FROM given WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id",
            ),
    );
    let (mut tallies, mut days) = (ObjectTallies::default(), ObjectDays::default());
    for RankedObject { analysis, object, rank } in ranked {
        let change = ObjectCounts {
            objects: 0,
            analyzed: i64::from(object.last_analyzed_at.is_none()),
            flagged: i64::from(rank.risk >= HIGH) - i64::from(object.risk >= HIGH),
        };
        if change.flagged > 0 {
            days.add_flagged(analysis.tenant, analysis.now.date());
        }
        tallies.add(analysis.tenant, &object.counted_type, change);
    }
    tallies.write(batch, shard);
    days.write(batch, shard);
}

#[derive(sqlx::FromRow)]
struct AnswerOfObject {
    object_id: String,
    #[sqlx(flatten)]
    answer: SignalAnswer,
}

#[derive(sqlx::FromRow)]
struct StoredRank {
    object_id: String,
    counted_type: String,
    risk: f64,
    trust: f64,
    last_analyzed_at: Option<Timestamp>,
}

/// Ranks the objects after one up to another again, by the signals as they are now, and removes their answers to deleted
/// signals. An object that is left without any answer counts as never analyzed.
pub async fn rerank(conn: &mut Conn, tenant: TenantId, after: &str, through: &str, shard: i64) -> Result<()> {
    let statement = format!(
        "SELECT object_id, counted_type, risk, trust, last_analyzed_at FROM objects
         WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3 ORDER BY object_id {}",
        conn.backend().for_update()
    );
    let objects: Vec<StoredRank> = fetch_all!(conn, AssertSqlSafe(statement), tenant, after, through)?;
    let mut answers = current_answers(conn, tenant, after, through).await?;
    let mut tallies = ObjectTallies::default();
    for object in objects {
        let answers = answers.remove(&object.object_id).unwrap_or_default();
        let analyzed_at = object.last_analyzed_at.filter(|_| !answers.is_empty());
        let (before, rank) = (Rank { risk: object.risk, trust: object.trust }, Rank::of(answers.iter()));
        if (rank, analyzed_at) == (before, object.last_analyzed_at) {
            continue;
        }
        execute!(
            conn,
            "UPDATE objects SET risk = $3, trust = $4, last_analyzed_at = $5 WHERE tenant_id = $1 AND object_id = $2",
            tenant,
            &object.object_id,
            rank.risk,
            rank.trust,
            analyzed_at
        )?;
        let change = ObjectCounts {
            objects: 0,
            analyzed: -i64::from(analyzed_at != object.last_analyzed_at),
            flagged: i64::from(rank.risk >= HIGH) - i64::from(before.risk >= HIGH),
        };
        tallies.add(tenant, &object.counted_type, change);
    }
    let mut batch = conn.batch();
    tallies.write(&mut batch, shard);
    batch.run(conn).await
}

/// Removes the answers of a range of objects to deleted signals, and returns the others by object.
async fn current_answers(
    conn: &mut Conn,
    tenant: TenantId,
    after: &str,
    through: &str,
) -> Result<HashMap<String, Vec<SignalAnswer>>> {
    execute!(
        conn,
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3
           AND signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1)",
        tenant,
        after,
        through
    )?;
    let rows: Vec<AnswerOfObject> = fetch_all!(
        conn,
        "SELECT object_id, answers.signal_id, type, enabled, value, choice, answers.version, read_seq
         FROM answers JOIN signals ON signals.tenant_id = answers.tenant_id AND signals.signal_id = answers.signal_id
         WHERE answers.tenant_id = $1 AND object_id > $2 AND object_id <= $3",
        tenant,
        after,
        through
    )?;
    let mut answers: HashMap<String, Vec<SignalAnswer>> = HashMap::new();
    for AnswerOfObject { object_id, answer } in rows {
        answers.entry(object_id).or_default().push(answer);
    }
    Ok(answers)
}

/// Takes an object that is about to be deleted out of every count; false when there is none.
pub(crate) async fn remove_from_tallies(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    shard: i64,
) -> Result<bool> {
    let locked = LockedObjects::lock(conn, &[(tenant, object_id)]).await?;
    let Some((object, answers)) = locked.0.into_values().next() else { return Ok(false) };
    // Answers to deleted signals are not in any count that is read.
    let mut signal_tallies = SignalTallies::default();
    for answer in answers.values().filter(|answer| answer.is_answered()) {
        signal_tallies.remove(answer.counted(tenant, answer.kind == SignalType::Noul));
    }
    let change = ObjectCounts {
        objects: -1,
        analyzed: -i64::from(object.last_analyzed_at.is_some()),
        flagged: -i64::from(object.risk >= HIGH),
    };
    let mut object_tallies = ObjectTallies::default();
    object_tallies.add(tenant, &object.counted_type, change);
    // Tallies in the order in which analyses lock them.
    let mut batch = conn.batch();
    signal_tallies.write(&mut batch, shard);
    object_tallies.write(&mut batch, shard);
    batch.run(conn).await?;
    Ok(true)
}
