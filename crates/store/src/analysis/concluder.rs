//! Everything that follows from an analysis, written together with what follows from others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::analysis::history::{ObjectKey, Summary};
use crate::db::bulk::with_rows;
use crate::db::connect::{execute, fetch_all};
use crate::db::round::{Round, change_later, insert_later};
use crate::objects::recorder::add_object_tallies;
use crate::{Backend, Conn, Result};

/// From which probability on an object counts as flagged, and an answer as high.
pub const HIGH: f64 = 0.8;

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
        i64::try_from(summary.state.sample_messages.len()).unwrap_or(i64::MAX),
        Json(&summary.state)
    )?;
    Ok(())
}

/// Removes the raw events up to a sequence number: they are folded.
pub async fn drop_events(conn: &mut Conn, tenant: TenantId, object_id: &str, through: i64) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM events WHERE tenant_id = $1 AND object_id = $2 AND seq <= $3",
        tenant,
        object_id,
        through
    )
}

/// An answer to be kept.
#[derive(Clone, Debug)]
pub struct NewAnswer {
    /// The question.
    pub signal_id: Uuid,
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
}

/// The answers of one analysis.
#[derive(Clone, Debug)]
pub struct NewAnswers<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// What was found.
    pub answers: Vec<NewAnswer>,
    /// What answered.
    pub model: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
    /// When.
    pub now: Timestamp,
}

/// A question of an object's tenant as it is now, and the answer that the object has to it.
#[derive(sqlx::FromRow)]
struct Kept {
    signal_id: Uuid,
    #[sqlx(rename = "type")]
    kind: String,
    enabled: bool,
    value: Option<f64>,
    choice: Option<String>,
    /// None without an answer.
    read_seq: Option<i64>,
}

/// The highest yes/no probability and the highest score among answers to enabled questions; -1 without one.
fn place<'a>(answers: impl Iterator<Item = &'a Kept>) -> (f64, f64) {
    let (mut risk, mut trust) = (-1.0_f64, -1.0_f64);
    for Kept { kind, enabled, value, .. } in answers {
        match (kind.as_str(), value) {
            ("noul", Some(value)) if *enabled => risk = risk.max(*value),
            ("score", Some(value)) if *enabled => trust = trust.max(*value),
            _ => {}
        }
    }
    (risk, trust)
}

/// An object whose row is locked.
#[derive(sqlx::FromRow)]
struct Standing {
    tenant_id: TenantId,
    object_id: String,
    counted_type: String,
    risk: f64,
    first_seen: Timestamp,
    last_analyzed_at: Option<Timestamp>,
    event_count: i64,
    /// Whether its tenant has rules that are enabled.
    has_rules: bool,
}

/// A standing, and one of the questions; none where nothing is asked.
#[derive(sqlx::FromRow)]
struct Asked {
    #[sqlx(flatten)]
    standing: Standing,
    signal_id: Option<Uuid>,
    #[sqlx(rename = "type")]
    kind: Option<String>,
    enabled: Option<bool>,
    value: Option<f64>,
    choice: Option<String>,
    read_seq: Option<i64>,
}

/// Locks objects in order of their key, so that analyses of one object are written one after the other, and nobody waits
/// in a ring. On SQLite the write transaction is the lock.
async fn lock(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<()> {
    if conn.backend() == Backend::Postgres {
        let ordered: BTreeSet<(TenantId, &str)> = objects.iter().copied().collect();
        let ordered: Vec<(TenantId, &str)> = ordered.into_iter().collect();
        with_rows!(
            (i32,);
            conn,
            &ordered,
            [("tenant_id", "uuid", |row| row.0), ("object_id", "text", |row| row.1)],
            "SELECT 1 FROM given JOIN objects USING (tenant_id, object_id)
             ORDER BY objects.tenant_id, objects.object_id FOR UPDATE OF objects",
        );
    }
    Ok(())
}

/// Objects whose rows are locked, as they stand, with what is asked about them now and the answers that they have. A change
/// of signals that comes later puts the objects in their place again.
pub struct Standings(HashMap<ObjectKey, (Standing, HashMap<Uuid, Kept>)>);

impl Standings {
    /// Locks objects and reads how they stand.
    pub async fn lock(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<Self> {
        // A statement of its own: what the next one reads must be no older than the locks.
        lock(conn, objects).await?;
        let rows = with_rows!(
            Asked;
            conn,
            objects,
            [("tenant_id", "uuid", |row| row.0), ("object_id", "text", |row| row.1)],
            "SELECT given.tenant_id, given.object_id, counted_type, risk, first_seen, last_analyzed_at, event_count,
                    coalesce((SELECT TRUE FROM rules WHERE rules.tenant_id = given.tenant_id AND rules.enabled LIMIT 1),
                             FALSE) AS has_rules,
                    signals.signal_id, type, enabled, value, choice, read_seq
             FROM given JOIN objects ON objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id
             LEFT JOIN signals ON signals.tenant_id = given.tenant_id
             LEFT JOIN answers ON answers.tenant_id = given.tenant_id AND answers.object_id = given.object_id
                              AND answers.signal_id = signals.signal_id",
        );
        let mut standings: HashMap<ObjectKey, (Standing, HashMap<Uuid, Kept>)> = HashMap::new();
        for row in rows {
            let Asked { standing, value, choice, read_seq, .. } = row;
            let key = (standing.tenant_id, standing.object_id.clone());
            let (_, kept) = standings.entry(key).or_insert_with(|| (standing, HashMap::new()));
            if let (Some(signal_id), Some(kind), Some(enabled)) = (row.signal_id, row.kind, row.enabled) {
                kept.insert(signal_id, Kept { signal_id, kind, enabled, value, choice, read_seq });
            }
        }
        Ok(Self(standings))
    }

    /// Whether the object that was read is still there: one that began later, or has fewer events than were read, is
    /// another of the same name.
    pub fn has(&self, tenant: TenantId, object_id: &str, since: Timestamp, read_seq: i64) -> bool {
        self.standing(tenant, object_id)
            .is_some_and(|standing| standing.first_seen == since && standing.event_count >= read_seq)
    }

    /// The newest event of an object.
    pub fn newest_seq(&self, tenant: TenantId, object_id: &str) -> Option<i64> {
        self.standing(tenant, object_id).map(|standing| standing.event_count)
    }

    /// Whether rules may fire for an object: where its tenant has none, nobody has to look for them.
    pub fn may_fire(&self, tenant: TenantId, object_id: &str) -> bool {
        self.standing(tenant, object_id).is_some_and(|standing| standing.has_rules)
    }

    /// Whether all that is asked about an object is among these questions.
    pub fn asks_only(
        &self,
        tenant: TenantId,
        object_id: &str,
        mut is_among: impl FnMut(Uuid) -> bool,
    ) -> bool {
        let asked = self.0.get(&(tenant, object_id.to_owned()));
        asked.is_none_or(|(_, asked)| asked.values().all(|kept| !kept.enabled || is_among(kept.signal_id)))
    }

    fn standing(&self, tenant: TenantId, object_id: &str) -> Option<&Standing> {
        self.0.get(&(tenant, object_id.to_owned())).map(|(standing, _)| standing)
    }
}

/// Keeps the answers that are not older than what is there, with every count that follows. The objects are locked and
/// each is there once. Answers to questions that were deleted meanwhile are not kept.
pub fn put_answers(round: &mut Round, mut standings: Standings, analyses: &[NewAnswers<'_>], shard: i64) {
    let mut newer: Vec<(&NewAnswers<'_>, &NewAnswer)> = Vec::new();
    let mut tallies = Tallies::default();
    let mut places: Vec<Placed<'_>> = Vec::new();
    for new in analyses {
        let standing = standings.0.remove(&(new.tenant, new.object_id.to_owned()));
        let Some((standing, mut current)) = standing else { continue };
        for answer in &new.answers {
            let Some(kept) = current.get_mut(&answer.signal_id) else { continue };
            if kept.read_seq.is_some_and(|read_seq| read_seq > new.read_seq) {
                continue;
            }
            if kept.read_seq.is_some() {
                let (value, choice) = (kept.value, kept.choice.as_deref());
                tallies.add(new.tenant, answer.signal_id, value, choice, answer.is_noul, -1);
            }
            let (value, choice) = (answer.value, answer.choice.as_deref());
            tallies.add(new.tenant, answer.signal_id, value, choice, answer.is_noul, 1);
            (kept.value, kept.choice, kept.read_seq) = (value, answer.choice.clone(), Some(new.read_seq));
            newer.push((new, answer));
        }
        let mut answered = current.values().filter(|kept| kept.read_seq.is_some()).peekable();
        // Without any answer, an object does not count as analyzed.
        if answered.peek().is_some() {
            let (risk, trust) = place(answered);
            places.push(Placed { new, standing, risk, trust });
        }
    }
    upsert(round, &newer);
    tallies.write(round, shard);
    rank(round, &places, shard);
}

/// An object's place in each sort.
struct Placed<'a> {
    new: &'a NewAnswers<'a>,
    /// How it stood before.
    standing: Standing,
    risk: f64,
    trust: f64,
}

/// Puts the objects after one up to another in their place again, by the signals as they are now, and removes their
/// answers to questions that are no more. One that is left without any answer counts as never analyzed.
pub async fn rerank(conn: &mut Conn, tenant: TenantId, after: &str, through: &str, shard: i64) -> Result<()> {
    let statement = format!(
        "SELECT object_id, counted_type, risk, trust, last_analyzed_at FROM objects
         WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3 ORDER BY object_id {}",
        conn.backend().for_update()
    );
    let objects: Vec<Ranked> = fetch_all!(conn, AssertSqlSafe(statement), tenant, after, through)?;
    execute!(
        conn,
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3
           AND signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1)",
        tenant,
        after,
        through
    )?;
    let kept: Vec<KeptOf> = fetch_all!(
        conn,
        "SELECT object_id, answers.signal_id, type, enabled, value, choice, read_seq
         FROM answers JOIN signals ON signals.tenant_id = answers.tenant_id AND signals.signal_id = answers.signal_id
         WHERE answers.tenant_id = $1 AND object_id > $2 AND object_id <= $3",
        tenant,
        after,
        through
    )?;
    let mut answers: HashMap<String, Vec<Kept>> = HashMap::new();
    for KeptOf { object_id, kept } in kept {
        answers.entry(object_id).or_default().push(kept);
    }
    let mut tallies: BTreeMap<(TenantId, String), (i64, i64, i64)> = BTreeMap::new();
    for object in objects {
        let kept = answers.remove(&object.object_id).unwrap_or_default();
        let analyzed_at = object.last_analyzed_at.filter(|_| !kept.is_empty());
        let (risk, trust) = place(kept.iter());
        if (risk, trust, analyzed_at) == (object.risk, object.trust, object.last_analyzed_at) {
            continue;
        }
        execute!(
            conn,
            "UPDATE objects SET risk = $3, trust = $4, last_analyzed_at = $5 WHERE tenant_id = $1 AND object_id = $2",
            tenant,
            &object.object_id,
            risk,
            trust,
            analyzed_at
        )?;
        let tally = tallies.entry((tenant, object.counted_type)).or_default();
        tally.1 -= i64::from(analyzed_at != object.last_analyzed_at);
        tally.2 += i64::from(risk >= HIGH) - i64::from(object.risk >= HIGH);
    }
    let mut round = conn.round();
    add_object_tallies(&mut round, &tallies, shard);
    round.run(conn).await
}

#[derive(sqlx::FromRow)]
struct KeptOf {
    object_id: String,
    #[sqlx(flatten)]
    kept: Kept,
}

#[derive(sqlx::FromRow)]
struct Ranked {
    object_id: String,
    counted_type: String,
    risk: f64,
    trust: f64,
    last_analyzed_at: Option<Timestamp>,
}

/// Takes an object that is about to go out of every count; false when there is none.
pub(crate) async fn uncount(conn: &mut Conn, tenant: TenantId, object_id: &str, shard: i64) -> Result<bool> {
    let standings = Standings::lock(conn, &[(tenant, object_id)]).await?;
    let Some((standing, kept)) = standings.0.into_values().next() else { return Ok(false) };
    let change = (-1, -i64::from(standing.last_analyzed_at.is_some()), -i64::from(standing.risk >= HIGH));
    // Only of signals that still are: nobody reads the counts of others.
    let mut tallies = Tallies::default();
    for Kept { signal_id, kind, value, choice, .. } in kept.values().filter(|kept| kept.read_seq.is_some()) {
        tallies.add(tenant, *signal_id, *value, choice.as_deref(), kind == "noul", -1);
    }
    // Counters in the order in which analyses take them.
    let mut round = conn.round();
    tallies.write(&mut round, shard);
    let counted = (tenant, standing.counted_type.clone());
    add_object_tallies(&mut round, &BTreeMap::from([(counted, change)]), shard);
    round.run(conn).await?;
    Ok(true)
}

fn upsert(round: &mut Round, newer: &[(&NewAnswers<'_>, &NewAnswer)]) {
    insert_later!(
        round,
        newer,
        "answers",
        [
            ("tenant_id", "uuid", |row| row.0.tenant),
            ("object_id", "text", |row| row.0.object_id),
            ("signal_id", "uuid", |row| row.1.signal_id),
            ("value", "double precision", |row| row.1.value),
            ("choice", "text", |row| row.1.choice.as_deref()),
            ("probabilities", "text", |row| row.1.probabilities.as_deref()),
            ("confidence", "double precision", |row| row.1.confidence),
            ("model", "text", |row| row.0.model),
            ("read_seq", "bigint", |row| row.0.read_seq),
            ("computed_at", "timestamptz", |row| row.0.now),
        ],
        "ON CONFLICT (tenant_id, object_id, signal_id) DO UPDATE SET value = excluded.value, choice = excluded.choice,
             probabilities = excluded.probabilities, confidence = excluded.confidence, model = excluded.model,
             read_seq = excluded.read_seq, computed_at = excluded.computed_at",
    );
}

/// Changes to the counts of questions: answers, high ones, and the sum of values in millionths, by question and option.
#[derive(Default)]
struct Tallies(BTreeMap<(TenantId, Uuid, String), (i64, i64, i64)>);

impl Tallies {
    fn add(
        &mut self,
        tenant: TenantId,
        signal: Uuid,
        value: Option<f64>,
        choice: Option<&str>,
        is_noul: bool,
        sign: i64,
    ) {
        let tally = self.0.entry((tenant, signal, choice.unwrap_or_default().to_owned())).or_default();
        let high = i64::from(is_noul && value.is_some_and(|value| value >= HIGH));
        *tally = (tally.0 + sign, tally.1 + sign * high, tally.2 + sign * micros(value));
    }

    fn write(self, round: &mut Round, shard: i64) {
        let rows: Vec<_> = self.0.into_iter().filter(|(_, change)| *change != (0, 0, 0)).collect();
        insert_later!(
            round,
            &rows,
            "signal_tallies",
            [
                ("tenant_id", "uuid", |row| row.0.0),
                ("signal_id", "uuid", |row| row.0.1),
                ("choice", "text", |row| row.0.2.as_str()),
                ("shard", "bigint", |_row| shard),
                ("answers", "bigint", |row| row.1.0),
                ("high", "bigint", |row| row.1.1),
                ("value_micros", "bigint", |row| row.1.2),
            ],
            "ON CONFLICT (tenant_id, signal_id, choice, shard) DO UPDATE SET
             answers = signal_tallies.answers + excluded.answers, high = signal_tallies.high + excluded.high,
             value_micros = signal_tallies.value_micros + excluded.value_micros",
        );
    }
}

/// Puts objects in their place of each sort, and counts them as analyzed and flagged.
fn rank(round: &mut Round, places: &[Placed<'_>], shard: i64) {
    change_later!(
        round,
        places,
        [
            ("tenant_id", "uuid", |row| row.new.tenant),
            ("object_id", "text", |row| row.new.object_id),
            ("last_analyzed_at", "timestamptz", |row| row.new.now),
            ("risk", "double precision", |row| row.risk),
            ("trust", "double precision", |row| row.trust),
        ],
        "UPDATE objects SET last_analyzed_at = given.last_analyzed_at, risk = given.risk, trust = given.trust
         FROM given WHERE objects.tenant_id = given.tenant_id AND objects.object_id = given.object_id",
    );
    let mut tallies: BTreeMap<(TenantId, String), (i64, i64, i64)> = BTreeMap::new();
    for Placed { new, standing, risk, .. } in places {
        let tally = tallies.entry((new.tenant, standing.counted_type.clone())).or_default();
        tally.1 += i64::from(standing.last_analyzed_at.is_none());
        tally.2 += i64::from(*risk >= HIGH) - i64::from(standing.risk >= HIGH);
    }
    add_object_tallies(round, &tallies, shard);
}

/// A value in millionths: answers have six decimals, so this is exact.
fn micros(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 25 million")]
    value.map_or(0, |value| (value * 1e6).round() as i64)
}
