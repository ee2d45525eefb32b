//! Analyses: what is read for one, and everything that follows from one, written together.

use std::collections::{BTreeMap, HashMap};

use model::{CompactedState, DossierEvent, TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::bulk::insert_many;
use crate::database::{execute, fetch_all, fetch_optional};
use crate::recording::add_object_tallies;
use crate::{Conn, Result};

/// From which probability on an object counts as flagged, and an answer as high.
pub const HIGH: f64 = 0.8;

/// An object about to be analyzed.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Subject {
    /// What it is.
    pub object_type: String,
    /// What people call it.
    pub display_name: Option<String>,
    /// Events ever recorded; also the sequence number of the newest.
    pub event_count: i64,
}

/// The rolling summary of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The newest event in it.
    pub through_seq: i64,
    /// When that was received.
    pub through_time: Timestamp,
    /// What is left of the events.
    pub state: CompactedState,
}

/// The object, if it exists.
pub async fn subject(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Subject>> {
    fetch_optional!(
        conn,
        "SELECT object_type, display_name, event_count FROM objects WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )
}

/// The summary of an object, once it has one.
pub async fn summary(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Summary>> {
    let row: Option<(i64, Timestamp, Json<CompactedState>)> = fetch_optional!(
        conn,
        "SELECT through_seq, through_time, state FROM summaries WHERE tenant_id = $1 AND object_id = $2",
        tenant,
        object_id
    )?;
    Ok(row.map(|(through_seq, through_time, Json(state))| Summary { through_seq, through_time, state }))
}

/// Up to `limit` events after `after`, up to `through`, in order of arrival.
pub async fn events_between(
    conn: &mut Conn,
    tenant: TenantId,
    object_id: &str,
    after: i64,
    through: i64,
    limit: i64,
) -> Result<Vec<DossierEvent>> {
    #[derive(sqlx::FromRow)]
    struct Row {
        seq: i64,
        #[sqlx(rename = "type")]
        kind: String,
        name: Option<String>,
        content: Option<String>,
        metadata: Option<String>,
        occurred_at: Timestamp,
        received_at: Timestamp,
    }
    let rows: Vec<Row> = fetch_all!(
        conn,
        "SELECT seq, type, name, content, metadata, occurred_at, received_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5",
        tenant,
        object_id,
        after,
        through,
        limit
    )?;
    let event = |row: Row| DossierEvent {
        seq: row.seq,
        kind: if row.kind == "message" {
            model::api::EventType::Message
        } else {
            model::api::EventType::Event
        },
        name: row.name,
        content: row.content,
        metadata: row.metadata,
        occurred_at: row.occurred_at,
        received_at: row.received_at,
    };
    Ok(rows.into_iter().map(event).collect())
}

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
    pub answers: &'a [NewAnswer],
    /// What answered.
    pub model: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
    /// When.
    pub now: Timestamp,
}

/// A tenant's questions as they are now, by id: the type, and whether it is asked.
struct Questions(HashMap<Uuid, (String, bool)>);

impl Questions {
    /// Read while the object's row is locked: a change of signals that comes later puts the object in its place again.
    async fn load(conn: &mut Conn, tenant: TenantId) -> Result<Self> {
        let rows: Vec<(Uuid, String, bool)> =
            fetch_all!(conn, "SELECT signal_id, type, enabled FROM signals WHERE tenant_id = $1", tenant)?;
        Ok(Self(rows.into_iter().map(|(id, kind, enabled)| (id, (kind, enabled))).collect()))
    }

    fn exists(&self, signal: Uuid) -> bool {
        self.0.contains_key(&signal)
    }

    /// The highest yes/no probability and the highest score among answers to enabled questions; -1 without one.
    fn place(&self, answers: impl Iterator<Item = (Uuid, Option<f64>)>) -> (f64, f64) {
        let (mut risk, mut trust) = (-1.0_f64, -1.0_f64);
        for (signal, value) in answers {
            match (self.0.get(&signal), value) {
                (Some((kind, true)), Some(value)) if kind == "noul" => risk = risk.max(value),
                (Some((kind, true)), Some(value)) if kind == "score" => trust = trust.max(value),
                _ => {}
            }
        }
        (risk, trust)
    }
}

#[derive(Clone, sqlx::FromRow)]
struct Kept {
    signal_id: Uuid,
    value: Option<f64>,
    choice: Option<String>,
    read_seq: i64,
}

#[derive(sqlx::FromRow)]
struct Standing {
    counted_type: String,
    risk: f64,
    last_analyzed_at: Option<Timestamp>,
    event_count: i64,
}

/// Keeps the answers that are not older than what is there, with every count that follows. False when the object is
/// gone. The object's row is locked first, so that analyses of one object are written one after the other. Answers to
/// questions that were deleted meanwhile are not kept.
pub async fn put_answers(conn: &mut Conn, new: &NewAnswers<'_>, shard: i64) -> Result<bool> {
    let statement = format!(
        "SELECT counted_type, risk, last_analyzed_at, event_count FROM objects WHERE tenant_id = $1 AND object_id = $2 {}",
        conn.backend().for_update()
    );
    let standing: Option<Standing> =
        fetch_optional!(conn, AssertSqlSafe(statement), new.tenant, new.object_id)?;
    // One that has fewer events than were read is another of the same name: what was read has been deleted.
    let Some(standing) = standing.filter(|standing| standing.event_count >= new.read_seq) else {
        return Ok(false);
    };
    let questions = Questions::load(conn, new.tenant).await?;
    let kept: Vec<Kept> = fetch_all!(
        conn,
        "SELECT signal_id, value, choice, read_seq FROM answers WHERE tenant_id = $1 AND object_id = $2",
        new.tenant,
        new.object_id
    )?;
    let mut current: HashMap<Uuid, Kept> = kept.into_iter().map(|kept| (kept.signal_id, kept)).collect();
    let newer: Vec<&NewAnswer> = new
        .answers
        .iter()
        .filter(|answer| questions.exists(answer.signal_id))
        .filter(|answer| current.get(&answer.signal_id).is_none_or(|kept| kept.read_seq <= new.read_seq))
        .collect();
    upsert(conn, new, &newer).await?;
    count_answers(conn, new.tenant, &newer, &current, shard).await?;
    for answer in newer {
        let (value, choice) = (answer.value, answer.choice.clone());
        current.insert(
            answer.signal_id,
            Kept { signal_id: answer.signal_id, value, choice, read_seq: new.read_seq },
        );
    }
    let place = questions.place(current.values().map(|kept| (kept.signal_id, kept.value)));
    rank(conn, new, &standing, place, shard).await?;
    Ok(true)
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
    let questions = Questions::load(conn, tenant).await?;
    execute!(
        conn,
        "DELETE FROM answers WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3
           AND signal_id NOT IN (SELECT signal_id FROM signals WHERE tenant_id = $1)",
        tenant,
        after,
        through
    )?;
    let kept: Vec<(String, Uuid, Option<f64>)> = fetch_all!(
        conn,
        "SELECT object_id, signal_id, value FROM answers
         WHERE tenant_id = $1 AND object_id > $2 AND object_id <= $3",
        tenant,
        after,
        through
    )?;
    let mut answers: HashMap<String, Vec<(Uuid, Option<f64>)>> = HashMap::new();
    for (object_id, signal, value) in kept {
        answers.entry(object_id).or_default().push((signal, value));
    }
    let mut tallies: BTreeMap<(TenantId, String), (i64, i64, i64)> = BTreeMap::new();
    for object in objects {
        let kept = answers.remove(&object.object_id).unwrap_or_default();
        let analyzed_at = object.last_analyzed_at.filter(|_| !kept.is_empty());
        let (risk, trust) = questions.place(kept.into_iter());
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
    tallies.retain(|_, change| *change != (0, 0, 0));
    add_object_tallies(conn, &tallies, shard).await
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
    let statement = format!(
        "SELECT counted_type, risk, last_analyzed_at, event_count FROM objects WHERE tenant_id = $1 AND object_id = $2 {}",
        conn.backend().for_update()
    );
    let standing: Option<Standing> = fetch_optional!(conn, AssertSqlSafe(statement), tenant, object_id)?;
    let Some(standing) = standing else { return Ok(false) };
    let change = (-1, -i64::from(standing.last_analyzed_at.is_some()), -i64::from(standing.risk >= HIGH));
    add_object_tallies(conn, &BTreeMap::from([((tenant, standing.counted_type), change)]), shard).await?;
    // Only of signals that still are: nobody reads the counts of others.
    let kept: Vec<(Uuid, String, Option<f64>, Option<String>)> = fetch_all!(
        conn,
        "SELECT answers.signal_id, signals.type, answers.value, answers.choice FROM answers
         JOIN signals ON signals.tenant_id = answers.tenant_id AND signals.signal_id = answers.signal_id
         WHERE answers.tenant_id = $1 AND answers.object_id = $2",
        tenant,
        object_id
    )?;
    let mut tallies = Tallies::default();
    for (signal, kind, value, choice) in &kept {
        tallies.add(*signal, *value, choice.as_deref(), kind == "noul", -1);
    }
    tallies.write(conn, tenant, shard).await?;
    Ok(true)
}

async fn upsert(conn: &mut Conn, new: &NewAnswers<'_>, newer: &[&NewAnswer]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
        newer,
        "answers",
        [
            ("tenant_id", "uuid", |_row| new.tenant),
            ("object_id", "text", |_row| new.object_id),
            ("signal_id", "uuid", |row| row.signal_id),
            ("value", "double precision", |row| row.value),
            ("choice", "text", |row| row.choice.as_deref()),
            ("probabilities", "text", |row| row.probabilities.as_deref()),
            ("confidence", "double precision", |row| row.confidence),
            ("model", "text", |_row| new.model),
            ("read_seq", "bigint", |_row| new.read_seq),
            ("computed_at", "timestamptz", |_row| new.now),
        ],
        "ON CONFLICT (tenant_id, object_id, signal_id) DO UPDATE SET value = excluded.value, choice = excluded.choice,
             probabilities = excluded.probabilities, confidence = excluded.confidence, model = excluded.model,
             read_seq = excluded.read_seq, computed_at = excluded.computed_at",
    );
    Ok(())
}

/// Moves the counts of each question from the answer that was there to the one that is.
async fn count_answers(
    conn: &mut Conn,
    tenant: TenantId,
    newer: &[&NewAnswer],
    current: &HashMap<Uuid, Kept>,
    shard: i64,
) -> Result<()> {
    let mut tallies = Tallies::default();
    for answer in newer {
        if let Some(old) = current.get(&answer.signal_id) {
            tallies.add(answer.signal_id, old.value, old.choice.as_deref(), answer.is_noul, -1);
        }
        tallies.add(answer.signal_id, answer.value, answer.choice.as_deref(), answer.is_noul, 1);
    }
    tallies.write(conn, tenant, shard).await
}

/// Changes to the counts of questions: answers, high ones, and the sum of values in millionths, by question and option.
#[derive(Default)]
struct Tallies(BTreeMap<(Uuid, String), (i64, i64, i64)>);

impl Tallies {
    fn add(&mut self, signal: Uuid, value: Option<f64>, choice: Option<&str>, is_noul: bool, sign: i64) {
        let tally = self.0.entry((signal, choice.unwrap_or_default().to_owned())).or_default();
        let high = i64::from(is_noul && value.is_some_and(|value| value >= HIGH));
        *tally = (tally.0 + sign, tally.1 + sign * high, tally.2 + sign * micros(value));
    }

    async fn write(self, conn: &mut Conn, tenant: TenantId, shard: i64) -> Result<()> {
        let rows: Vec<_> = self.0.into_iter().filter(|(_, change)| *change != (0, 0, 0)).collect();
        insert_many!(
            (i64,);
            conn,
            &rows,
            "signal_tallies",
            [
                ("tenant_id", "uuid", |_row| tenant),
                ("signal_id", "uuid", |row| row.0.0),
                ("choice", "text", |row| row.0.1.as_str()),
                ("shard", "bigint", |_row| shard),
                ("answers", "bigint", |row| row.1.0),
                ("high", "bigint", |row| row.1.1),
                ("value_micros", "bigint", |row| row.1.2),
            ],
            "ON CONFLICT (tenant_id, signal_id, choice, shard) DO UPDATE SET
             answers = signal_tallies.answers + excluded.answers, high = signal_tallies.high + excluded.high,
             value_micros = signal_tallies.value_micros + excluded.value_micros",
        );
        Ok(())
    }
}

/// Puts the object in its place of each sort, and counts it as analyzed and flagged.
async fn rank(
    conn: &mut Conn,
    new: &NewAnswers<'_>,
    standing: &Standing,
    (risk, trust): (f64, f64),
    shard: i64,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE objects SET last_analyzed_at = $3, risk = $4, trust = $5 WHERE tenant_id = $1 AND object_id = $2",
        new.tenant,
        new.object_id,
        new.now,
        risk,
        trust
    )?;
    let analyzed = i64::from(standing.last_analyzed_at.is_none());
    let flagged = i64::from(risk >= HIGH) - i64::from(standing.risk >= HIGH);
    if analyzed != 0 || flagged != 0 {
        let change = BTreeMap::from([((new.tenant, standing.counted_type.clone()), (0, analyzed, flagged))]);
        add_object_tallies(conn, &change, shard).await?;
    }
    Ok(())
}

/// A value in millionths: answers have six decimals, so this is exact.
fn micros(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 25 million")]
    value.map_or(0, |value| (value * 1e6).round() as i64)
}
