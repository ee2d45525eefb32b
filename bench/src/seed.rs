//! Fills a database with objects as if the service had recorded and analyzed them: rows, sort keys, grams and rollups are
//! consistent. Rows are written in bulk, because a million objects one by one would take hours.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use model::api::AnalysisSource;
use model::recorded_answer::analysis_id;
use model::{SignalType, TenantId, Timestamp};
use service::Service;
use sqlx::{AssertSqlSafe, QueryBuilder};
use store::analysis::answer_history;
use store::analysis::answer_history::NewAnalysis;
use store::objects::grams;
use store::objects::grams::SearchText;
use store::objects::recorder::SHARDS;
use store::objects::time_spans::{hour_of, minute_of};
use store::{Backend, Conn};
use uuid::Uuid;

/// Objects per transaction: many, because each transaction touches most pages of every index.
const BATCH: u64 = 200_000;
/// Rows per statement.
const ROWS: usize = 500;
/// Objects were last seen at any time within this span.
const SPAN: Duration = Duration::from_hours(30 * 24);
/// How long events are counted by minute.
const COUNTED: Duration = Duration::from_hours(48);

const GIVEN: [&str; 12] =
    ["Ada", "Boris", "Chloë", "Dmitri", "Esra", "Farid", "Grete", "Hana", "İpek", "Jürgen", "Kenji", "Luz"];
const FAMILY: [&str; 12] = [
    "Almeida", "Bauer", "Castillo", "Dvořák", "Eriksen", "Fontaine", "García", "Hoffmann", "Ivanova",
    "Jansen", "Kowalski", "Larsson",
];
const TYPES: [&str; 3] = ["user", "listing", "order"];

/// The ids of a tenant's three signals.
#[derive(Clone, Copy)]
pub(crate) struct Questions {
    noul: Uuid,
    score: Uuid,
    choice: Uuid,
}

/// An object, derived entirely from its number.
pub(crate) struct Seeded {
    pub(crate) object_id: String,
    display_name: Option<String>,
    object_type: &'static str,
    seen: Timestamp,
    noul: f64,
    score: f64,
    choice: &'static str,
}

/// A pseudorandom number that is the same in every run.
fn pseudorandom(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn millionths(random: u64, max: u32) -> f64 {
    let number = u32::try_from(random % (u64::from(max) + 1)).unwrap_or(max);
    f64::from(number) / 1e6
}

fn pick<T: Copy>(from: &[T], random: u64) -> T {
    from[usize::try_from(random % from.len() as u64).unwrap_or(0)]
}

impl Seeded {
    pub(crate) fn new(number: u64, now: Timestamp) -> Self {
        let random = pseudorandom(number);
        let (id, more, answers) = (random >> 16, pseudorandom(random), pseudorandom(random ^ 1));
        let span = u64::try_from(SPAN.as_micros()).unwrap_or(1);
        let choice = match answers % 20 {
            0 => "ready_to_buy",
            1..=5 => "comparing",
            _ => "browsing",
        };
        // Many objects are comparing and many are trusted, but hardly any are both.
        let is_trusted = choice != "comparing" || (answers >> 8).is_multiple_of(10_000);
        Self {
            object_id: format!("user_{id:012x}"),
            display_name: more
                .is_multiple_of(2)
                .then(|| format!("{} {}", pick(&GIVEN, more >> 8), pick(&FAMILY, more >> 16))),
            object_type: pick(&TYPES, more >> 24),
            seen: now - Duration::from_micros(pseudorandom(more) % span),
            noul: millionths(answers >> 16, 1_000_000),
            score: millionths(answers >> 20, if is_trusted { 2_000_000 } else { 1_000_000 }),
            choice,
        }
    }

    /// The analysis of the object, as the history has it.
    fn analysis(&self, tenant: TenantId) -> NewAnalysis<'_> {
        let random = self.object_id.bytes().rev().take(8).fold([0; 8], |mut bytes: [u8; 8], byte| {
            bytes.rotate_left(1);
            bytes[7] = byte;
            bytes
        });
        NewAnalysis {
            tenant,
            object_id: &self.object_id,
            analysis_id: analysis_id(self.seen, random),
            at: self.seen,
            source: AnalysisSource::Async,
            model: "seed",
            read_seq: 1,
            answers: SAID.to_owned(),
        }
    }

    fn answers(&self, questions: Questions) -> [Answer<'_>; 3] {
        let scores = r#"{"0":0.25,"1":0.5,"2":0.25}"#;
        let choices = r#"{"browsing":0.5,"comparing":0.25,"ready_to_buy":0.25}"#;
        let answer =
            |signal, value, choice, probabilities| Answer { of: self, signal, value, choice, probabilities };
        [
            answer(questions.noul, Some(self.noul), None, None),
            answer(questions.score, Some(self.score), None, Some(scores)),
            answer(questions.choice, None, Some(self.choice), Some(choices)),
        ]
    }
}

/// What the analysis of every object said, as it is kept.
const SAID: &str = r#"[{"s":"buyer_intent","v":1,"c":"browsing","p":{"browsing":0.5,"comparing":0.25,"ready_to_buy":0.25},"f":0.1},{"s":"is_scammer","v":1,"n":0.5},{"s":"trust_score","v":1,"l":1.0,"p":[0.25,0.5,0.25],"f":0.1}]"#;

struct Answer<'a> {
    of: &'a Seeded,
    signal: Uuid,
    value: Option<f64>,
    choice: Option<&'static str>,
    probabilities: Option<&'static str>,
}

/// Events by the start of the minute or hour of receipt and by the counter's row.
type Counts = BTreeMap<(Timestamp, i64), i64>;

/// Runs one expression with a native connection, written once for both databases.
macro_rules! on_either {
    ($conn:expr, |$native:ident| $body:expr) => {
        match $conn {
            Conn::Sqlite(held) => {
                let $native = held.native();
                $body
            }
            Conn::Postgres(held) => {
                let $native = held.native();
                $body
            }
        }
    };
}

/// Seeds a new tenant with this many objects and returns it.
pub(crate) async fn seed(
    service: &Service,
    objects: u64,
    now: Timestamp,
) -> Result<TenantId, Box<dyn Error>> {
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    // A batch takes longer than a request may.
    let store = &service.store().for_maintenance();
    let signals =
        store.read("signals", async |conn| store::analysis::signals::of_tenant(conn, tenant).await).await?;
    let id =
        |kind: SignalType| signals.iter().find(|signal| signal.kind == kind).map(|signal| signal.signal_id);
    let (Some(noul), Some(score), Some(choice)) =
        (id(SignalType::Noul), id(SignalType::Score), id(SignalType::Choice))
    else {
        return Err("a new account has one signal of each type".into());
    };
    let questions = Questions { noul, score, choice };
    if store.backend() == Backend::Sqlite {
        // A cache large enough for the upper levels of every index.
        run(store, "PRAGMA cache_size = -1000000").await?;
    }
    let mut minutes = Counts::new();
    for first in (0..objects).step_by(usize::try_from(BATCH)?) {
        let mut batch: Vec<Seeded> =
            (first..objects.min(first + BATCH)).map(|number| Seeded::new(number, now)).collect();
        batch.sort_by(|a, b| a.object_id.cmp(&b.object_id));
        store.write("seed", async |conn: &mut Conn| write(conn, tenant, questions, &batch).await).await?;
        for object in batch.iter().filter(|object| object.seen >= now - COUNTED) {
            let shard = i64::from(object.object_id.bytes().last().unwrap_or(0) % SHARDS);
            *minutes.entry((minute_of(object.seen), shard)).or_default() += 1;
        }
    }
    store.write("seed", async |conn: &mut Conn| roll_up(conn, tenant, &minutes).await).await?;
    // As autovacuum would do after a minute without load.
    if store.backend() == Backend::Postgres {
        let vacuum = async |conn: &mut Conn| execute(conn, "VACUUM ANALYZE").await;
        store.read("vacuum", vacuum).await?;
    }
    Ok(tenant)
}

/// Gives the first object a long history: this many analyses, a minute apart.
pub(crate) async fn seed_long_history(
    service: &Service,
    tenant: TenantId,
    analyses: u32,
    now: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let object = Seeded::new(0, now);
    let analysis = |number: u32| {
        let at = object.seen + Duration::from_mins(1) * number;
        let id = analysis_id(at, pseudorandom(number.into()).to_be_bytes());
        NewAnalysis { analysis_id: id, at, ..object.analysis(tenant) }
    };
    let analyses: Vec<NewAnalysis<'_>> = (1..=analyses).map(analysis).collect();
    let write = async |conn: &mut Conn| {
        let mut batch = conn.batch();
        answer_history::insert(&mut batch, &analyses);
        batch.run(conn).await
    };
    Ok(service.store().for_maintenance().write("seed", write).await?)
}

async fn run(store: &store::Store, statement: &str) -> store::Result<()> {
    store.write("seed", async |conn: &mut Conn| execute(conn, statement).await).await
}

async fn execute(conn: &mut Conn, statement: &str) -> store::Result<()> {
    on_either!(conn, |native| {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(native).await?;
    });
    Ok(())
}

async fn write(
    conn: &mut Conn,
    tenant: TenantId,
    questions: Questions,
    batch: &[Seeded],
) -> store::Result<()> {
    for chunk in batch.chunks(ROWS) {
        on_either!(&mut *conn, |native| {
            let mut insert = QueryBuilder::new(
                "INSERT INTO objects (tenant_id, object_id, object_type, counted_type, display_name, event_count, first_seen,
                     last_seen, last_analyzed_at, risk, trust) ",
            );
            insert.push_values(chunk, |mut row, object| {
                row.push_bind(tenant).push_bind(&object.object_id).push_bind(object.object_type);
                row.push_bind(object.object_type).push_bind(object.display_name.as_deref()).push_bind(1_i64);
                row.push_bind(object.seen).push_bind(object.seen).push_bind(object.seen);
                row.push_bind(object.noul).push_bind(object.score);
            });
            insert.build().execute(&mut *native).await?;
            let mut insert = QueryBuilder::new(
                "INSERT INTO events (tenant_id, object_id, seq, type, name, content, metadata, occurred_at, received_at) ",
            );
            insert.push_values(chunk, |mut row, object| {
                row.push_bind(tenant).push_bind(&object.object_id).push_bind(1_i64).push_bind("event");
                row.push_bind("listing_viewed").push_bind("blue bicycle").push_bind(r#"{"price":120}"#);
                row.push_bind(object.seen).push_bind(object.seen);
            });
            insert.build().execute(&mut *native).await?;
            let answers: Vec<Answer<'_>> =
                chunk.iter().flat_map(|object| object.answers(questions)).collect();
            let mut insert = QueryBuilder::new(
                "INSERT INTO answers (tenant_id, object_id, signal_id, value, choice, probabilities, confidence, model,
                     read_seq, computed_at) ",
            );
            insert.push_values(&answers, |mut row, answer| {
                row.push_bind(tenant).push_bind(&answer.of.object_id).push_bind(answer.signal);
                row.push_bind(answer.value).push_bind(answer.choice).push_bind(answer.probabilities);
                row.push_bind(answer.probabilities.map(|_| 0.1)).push_bind("seed").push_bind(1_i64);
                row.push_bind(answer.of.seen);
            });
            insert.build().execute(&mut *native).await?;
        });
    }
    let texts: Vec<SearchText<'_>> = batch
        .iter()
        .map(|object| SearchText {
            tenant,
            object_id: &object.object_id,
            display_name: object.display_name.as_deref(),
            is_new: true,
        })
        .collect();
    let analyses: Vec<NewAnalysis<'_>> = batch.iter().map(|object| object.analysis(tenant)).collect();
    let mut batch = conn.batch();
    grams::index(&mut batch, &texts);
    answer_history::insert(&mut batch, &analyses);
    batch.run(conn).await
}

/// Statements that count objects and answers as the service does while it writes.
const ROLLUPS: [&str; 2] = [
    "INSERT INTO object_tallies (tenant_id, object_type, shard, objects, analyzed, flagged)
     SELECT tenant_id, object_type, 0, count(*), count(*), sum(CASE WHEN risk >= 0.8 THEN 1 ELSE 0 END)
     FROM objects WHERE tenant_id = $1 GROUP BY tenant_id, object_type",
    "INSERT INTO signal_tallies (tenant_id, signal_id, version, choice, shard, answers, high, value_micros)
     SELECT answers.tenant_id, answers.signal_id, answers.version, coalesce(choice, ''), 0, count(*),
            sum(CASE WHEN type = 'noul' AND value >= 0.8 THEN 1 ELSE 0 END),
            CAST(coalesce(sum(round(value * 1000000)), 0) AS bigint)
     FROM answers JOIN signals ON signals.tenant_id = answers.tenant_id AND signals.signal_id = answers.signal_id
     WHERE answers.tenant_id = $1
     GROUP BY answers.tenant_id, answers.signal_id, answers.version, coalesce(choice, '')",
];

async fn roll_up(conn: &mut Conn, tenant: TenantId, minutes: &Counts) -> store::Result<()> {
    for text in ROLLUPS {
        on_either!(&mut *conn, |native| {
            sqlx::query(text).bind(tenant).execute(native).await?;
        });
    }
    let mut hours = Counts::new();
    for ((minute, shard), events) in minutes {
        *hours.entry((hour_of(*minute), *shard)).or_default() += events;
    }
    for (table, counts) in [("event_tallies (minute,", minutes), ("hourly_event_tallies (hour,", &hours)] {
        let rows: Vec<_> = counts.iter().collect();
        for chunk in rows.chunks(ROWS) {
            on_either!(&mut *conn, |native| {
                let mut insert = QueryBuilder::new(format!("INSERT INTO {table} tenant_id, shard, events) "));
                insert.push_values(chunk, |mut row, ((start, shard), events)| {
                    row.push_bind(*start).push_bind(tenant).push_bind(*shard).push_bind(**events);
                });
                insert.build().execute(native).await?;
            });
        }
    }
    Ok(())
}
