//! Analyses: what is read for one, and everything that follows from one, written together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::api::EventType;
use model::{CompactedState, DossierEvent, TenantId, Timestamp};
use sqlx::AssertSqlSafe;
use sqlx::types::Json;
use uuid::Uuid;

use crate::bulk::{insert_many, with_rows};
use crate::database::{execute, fetch_all};
use crate::recording::add_object_tallies;
use crate::{Conn, Result};

/// From which probability on an object counts as flagged, and an answer as high.
pub const HIGH: f64 = 0.8;

/// An object about to be analyzed.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Subject {
    tenant_id: TenantId,
    object_id: String,
    /// What it is.
    pub object_type: String,
    /// What people call it.
    pub display_name: Option<String>,
    /// Events ever recorded; also the sequence number of the newest.
    pub event_count: i64,
    /// When it began, which tells it from another that has the same name after it.
    pub first_seen: Timestamp,
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

/// A tenant's object.
pub type ObjectKey = (TenantId, String);

/// The object, if it exists.
pub async fn subject(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Subject>> {
    Ok(subjects(conn, &[(tenant, object_id)]).await?.into_values().next())
}

/// Those of the objects that exist.
pub async fn subjects(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<HashMap<ObjectKey, Subject>> {
    let rows = with_rows!(
        Subject;
        conn,
        objects,
        [("tenant_id", "uuid", |row| row.0), ("object_id", "text", |row| row.1)],
        "SELECT tenant_id, object_id, object_type, display_name, event_count, first_seen
         FROM given JOIN objects USING (tenant_id, object_id)",
    );
    Ok(rows.into_iter().map(|row| ((row.tenant_id, row.object_id.clone()), row)).collect())
}

/// The summary of an object, once it has one.
pub async fn summary(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<Option<Summary>> {
    Ok(summaries(conn, &[(tenant, object_id)]).await?.into_values().next())
}

/// The summaries of those objects that have one.
pub async fn summaries(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<HashMap<ObjectKey, Summary>> {
    let rows = with_rows!(
        (TenantId, String, i64, Timestamp, Json<CompactedState>);
        conn,
        objects,
        [("tenant_id", "uuid", |row| row.0), ("object_id", "text", |row| row.1)],
        "SELECT tenant_id, object_id, through_seq, through_time, state
         FROM given JOIN summaries USING (tenant_id, object_id)",
    );
    let summary = |(tenant, object_id, through_seq, through_time, Json(state))| {
        ((tenant, object_id), Summary { through_seq, through_time, state })
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// Events of an object after one and up to another, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// The object.
    pub object_id: &'a str,
    /// The last event that is not wanted.
    pub after: i64,
    /// The last one that is.
    pub through: i64,
}

#[derive(sqlx::FromRow)]
struct EventRow {
    tenant_id: TenantId,
    object_id: String,
    seq: i64,
    #[sqlx(rename = "type")]
    kind: String,
    name: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    occurred_at: Timestamp,
    received_at: Timestamp,
}

impl From<EventRow> for DossierEvent {
    fn from(row: EventRow) -> Self {
        let is_message = row.kind == "message";
        Self {
            seq: row.seq,
            kind: if is_message { EventType::Message } else { EventType::Event },
            name: row.name,
            content: row.content,
            metadata: row.metadata,
            occurred_at: row.occurred_at,
            received_at: row.received_at,
        }
    }
}

/// Events of an object, in order of arrival, at most `limit` of them.
pub async fn events_between(conn: &mut Conn, stretch: Stretch<'_>, limit: i64) -> Result<Vec<DossierEvent>> {
    let rows: Vec<EventRow> = fetch_all!(
        conn,
        "SELECT tenant_id, object_id, seq, type, name, content, metadata, occurred_at, received_at FROM events
         WHERE tenant_id = $1 AND object_id = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5",
        stretch.tenant,
        stretch.object_id,
        stretch.after,
        stretch.through,
        limit
    )?;
    Ok(rows.into_iter().map(DossierEvent::from).collect())
}

/// Events of many objects, in order of arrival of each. Whoever calls keeps the stretches short.
pub async fn events_of(
    conn: &mut Conn,
    stretches: &[Stretch<'_>],
) -> Result<HashMap<ObjectKey, Vec<DossierEvent>>> {
    let rows = with_rows!(
        EventRow;
        conn,
        stretches,
        [
            ("tenant_id", "uuid", |row| row.tenant),
            ("object_id", "text", |row| row.object_id),
            ("after_seq", "bigint", |row| row.after),
            ("through_seq", "bigint", |row| row.through),
        ],
        "SELECT tenant_id, object_id, seq, type, name, content, metadata, occurred_at, received_at
         FROM given JOIN events USING (tenant_id, object_id)
         WHERE seq > after_seq AND seq <= through_seq ORDER BY tenant_id, object_id, seq",
    );
    let mut events: HashMap<ObjectKey, Vec<DossierEvent>> = HashMap::new();
    for row in rows {
        events.entry((row.tenant_id, row.object_id.clone())).or_default().push(row.into());
    }
    Ok(events)
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
    pub answers: Vec<NewAnswer>,
    /// What answered.
    pub model: &'a str,
    /// The newest event that was read.
    pub read_seq: i64,
    /// When.
    pub now: Timestamp,
}

/// A tenant's questions as they are now, by id: the type, and whether it is asked.
#[derive(Default)]
struct Questions(HashMap<Uuid, (String, bool)>);

impl Questions {
    /// Read while the object's row is locked: a change of signals that comes later puts the object in its place again.
    async fn load(conn: &mut Conn, tenants: &BTreeSet<TenantId>) -> Result<HashMap<TenantId, Self>> {
        let tenants: Vec<&TenantId> = tenants.iter().collect();
        let rows = with_rows!(
            (TenantId, Uuid, String, bool);
            conn,
            &tenants,
            [("tenant_id", "uuid", |row| **row)],
            "SELECT tenant_id, signal_id, type, enabled FROM given JOIN signals USING (tenant_id)",
        );
        let mut questions: HashMap<TenantId, Self> = HashMap::new();
        for (tenant, signal, kind, enabled) in rows {
            questions.entry(tenant).or_default().0.insert(signal, (kind, enabled));
        }
        Ok(questions)
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

#[derive(sqlx::FromRow)]
struct Kept {
    tenant_id: TenantId,
    object_id: String,
    signal_id: Uuid,
    value: Option<f64>,
    choice: Option<String>,
    read_seq: i64,
}

#[derive(sqlx::FromRow)]
struct Standing {
    tenant_id: TenantId,
    object_id: String,
    counted_type: String,
    risk: f64,
    first_seen: Timestamp,
    last_analyzed_at: Option<Timestamp>,
    event_count: i64,
}

/// Objects whose rows are locked, as they stand.
pub struct Locked(HashMap<ObjectKey, Standing>);

impl Locked {
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

    fn standing(&self, tenant: TenantId, object_id: &str) -> Option<&Standing> {
        self.0.get(&(tenant, object_id.to_owned()))
    }
}

/// Locks objects in order of their key, so that analyses of one object are written one after the other, and nobody waits
/// in a ring.
pub async fn lock(conn: &mut Conn, objects: &[(TenantId, &str)]) -> Result<Locked> {
    let ordered: BTreeSet<(TenantId, &str)> = objects.iter().copied().collect();
    let ordered: Vec<(TenantId, &str)> = ordered.into_iter().collect();
    let lock = conn.backend().for_update();
    let rows = with_rows!(
        Standing;
        conn,
        &ordered,
        [("tenant_id", "uuid", |row| row.0), ("object_id", "text", |row| row.1)],
        format!(
            "SELECT tenant_id, object_id, counted_type, risk, first_seen, last_analyzed_at, event_count
             FROM given JOIN objects USING (tenant_id, object_id) ORDER BY objects.tenant_id, objects.object_id {lock}"
        ),
    );
    Ok(Locked(rows.into_iter().map(|row| ((row.tenant_id, row.object_id.clone()), row)).collect()))
}

/// Keeps the answers that are not older than what is there, with every count that follows. The objects are locked and
/// each is there once. Answers to questions that were deleted meanwhile are not kept.
pub async fn put_answers(
    conn: &mut Conn,
    locked: &Locked,
    analyses: &[NewAnswers<'_>],
    shard: i64,
) -> Result<()> {
    let questions = Questions::load(conn, &analyses.iter().map(|new| new.tenant).collect()).await?;
    let mut kept = kept_answers(conn, analyses).await?;
    let unasked = Questions::default();
    let mut newer: Vec<(&NewAnswers<'_>, &NewAnswer)> = Vec::new();
    let mut tallies = Tallies::default();
    let mut places: Vec<Placed<'_>> = Vec::new();
    for new in analyses {
        let questions = questions.get(&new.tenant).unwrap_or(&unasked);
        let mut current = kept.remove(&(new.tenant, new.object_id.to_owned())).unwrap_or_default();
        for answer in new.answers.iter().filter(|answer| questions.exists(answer.signal_id)) {
            let old = current.get(&answer.signal_id);
            if old.is_some_and(|old| old.read_seq > new.read_seq) {
                continue;
            }
            if let Some(old) = old {
                tallies.add(
                    new.tenant,
                    answer.signal_id,
                    old.value,
                    old.choice.as_deref(),
                    answer.is_noul,
                    -1,
                );
            }
            let (value, choice) = (answer.value, answer.choice.as_deref());
            tallies.add(new.tenant, answer.signal_id, value, choice, answer.is_noul, 1);
            current.insert(answer.signal_id, Kept::of(new, answer));
            newer.push((new, answer));
        }
        // Without any answer, an object does not count as analyzed.
        if !current.is_empty() {
            let (risk, trust) = questions.place(current.values().map(|kept| (kept.signal_id, kept.value)));
            places.push(Placed { new, risk, trust });
        }
    }
    upsert(conn, &newer).await?;
    tallies.write(conn, shard).await?;
    rank(conn, locked, &places, shard).await
}

/// An object's place in each sort.
struct Placed<'a> {
    new: &'a NewAnswers<'a>,
    risk: f64,
    trust: f64,
}

impl Kept {
    fn of(new: &NewAnswers<'_>, answer: &NewAnswer) -> Self {
        Self {
            tenant_id: new.tenant,
            object_id: new.object_id.to_owned(),
            signal_id: answer.signal_id,
            value: answer.value,
            choice: answer.choice.clone(),
            read_seq: new.read_seq,
        }
    }
}

/// The answers that objects have, by object and question.
async fn kept_answers(
    conn: &mut Conn,
    analyses: &[NewAnswers<'_>],
) -> Result<HashMap<ObjectKey, HashMap<Uuid, Kept>>> {
    let rows = with_rows!(
        Kept;
        conn,
        analyses,
        [("tenant_id", "uuid", |row| row.tenant), ("object_id", "text", |row| row.object_id)],
        "SELECT tenant_id, object_id, signal_id, value, choice, read_seq
         FROM given JOIN answers USING (tenant_id, object_id)",
    );
    let mut kept: HashMap<ObjectKey, HashMap<Uuid, Kept>> = HashMap::new();
    for row in rows {
        kept.entry((row.tenant_id, row.object_id.clone())).or_default().insert(row.signal_id, row);
    }
    Ok(kept)
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
    let questions =
        Questions::load(conn, &BTreeSet::from([tenant])).await?.remove(&tenant).unwrap_or_default();
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
    let locked = lock(conn, &[(tenant, object_id)]).await?;
    let Some(standing) = locked.standing(tenant, object_id) else { return Ok(false) };
    let change = (-1, -i64::from(standing.last_analyzed_at.is_some()), -i64::from(standing.risk >= HIGH));
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
        tallies.add(tenant, *signal, *value, choice.as_deref(), kind == "noul", -1);
    }
    // Counters in the order in which analyses take them.
    tallies.write(conn, shard).await?;
    let counted = (tenant, standing.counted_type.clone());
    add_object_tallies(conn, &BTreeMap::from([(counted, change)]), shard).await?;
    Ok(true)
}

async fn upsert(conn: &mut Conn, newer: &[(&NewAnswers<'_>, &NewAnswer)]) -> Result<()> {
    insert_many!(
        (i64,);
        conn,
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
    Ok(())
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

    async fn write(self, conn: &mut Conn, shard: i64) -> Result<()> {
        let rows: Vec<_> = self.0.into_iter().filter(|(_, change)| *change != (0, 0, 0)).collect();
        insert_many!(
            (i64,);
            conn,
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
        Ok(())
    }
}

/// Puts objects in their place of each sort, and counts them as analyzed and flagged.
async fn rank(conn: &mut Conn, locked: &Locked, places: &[Placed<'_>], shard: i64) -> Result<()> {
    with_rows!(
        (i64,);
        conn,
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
    for Placed { new, risk, .. } in places {
        let Some(standing) = locked.standing(new.tenant, new.object_id) else { continue };
        let tally = tallies.entry((new.tenant, standing.counted_type.clone())).or_default();
        tally.1 += i64::from(standing.last_analyzed_at.is_none());
        tally.2 += i64::from(*risk >= HIGH) - i64::from(standing.risk >= HIGH);
    }
    tallies.retain(|_, change| *change != (0, 0, 0));
    add_object_tallies(conn, &tallies, shard).await
}

/// A value in millionths: answers have six decimals, so this is exact.
fn micros(value: Option<f64>) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 25 million")]
    value.map_or(0, |value| (value * 1e6).round() as i64)
}
