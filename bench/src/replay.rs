//! Replays of rules over a long history, by the CPU time of this process: other load of the machine does not count.

use std::error::Error;
use std::time::{Duration, Instant};

use model::api::{AnalysisSource, EventType, RuleReplayRequest, RuleReplayResponse};
use model::recorded_answer::analysis_id;
use model::{NewEvent, TenantId, Timestamp};
use service::{Clock, Random, Service};
use store::Conn;
use store::analysis::answer_history::{self, NewAnalysis};
use store::objects::recorder::{self, Admission, Enforcement};
use store::objects::request::IngestRequest;

use crate::ingest::config;
use crate::{Figure, new_database};

/// Analyses of each object.
const OF_AN_OBJECT: u64 = 20;
/// Rows per transaction.
const BATCH: u64 = 20_000;
/// Rows a second that one core must replay.
const ROWS_PER_SECOND: f64 = 50_000.0;
/// The same with facts on SQLite, whose counting is on that core, too.
const ROWS_PER_SECOND_WITH_FACTS: f64 = 15_000.0;
/// Three comparisons, one of them negated; and facts, each of which is counted for every analysis.
const CONDITIONS: [(&str, &str); 2] = [
    ("", "is_scammer > 0.95 or not (trust_score >= 0.1 or buyer_intent = browsing)"),
    (" with facts", "is_scammer > 0.95 and events(reported, 24h) >= 3 or events(*, 7d) > 15"),
];
/// By how much a replay may raise the memory that the process uses, in MiB.
const MEMORY_MIB: f64 = 128.0;
/// Objects whose events are recorded in one transaction.
const OBJECTS_OF_BATCH: u64 = 500;

/// Measures replays over this many analyses, on SQLite or on a PostgreSQL cluster.
pub(crate) async fn measure(cluster: Option<&str>, rows: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let (name, url) = match cluster {
        Some(cluster) => ("PostgreSQL", new_database(cluster, "replay").await?),
        None => ("SQLite", format!("sqlite:{}", directory.path().join("replay.db").display())),
    };
    let config =
        config(&url, directory.path(), &[("AUSPEX_ROLE", "api"), ("AUSPEX_REPLAY_INLINE", "100000000")])?;
    let clock = Clock::system();
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let begun = Instant::now();
    let now = clock.now();
    fill_events(&service, tenant, rows, now).await?;
    fill(&service, tenant, rows, now).await?;
    println!("{name}: recorded {rows} analyses in {:.0} s", begun.elapsed().as_secs_f64());
    let mut figures = Vec::new();
    for (facts, when) in CONDITIONS {
        let request =
            RuleReplayRequest { when: when.to_owned(), cooldown_seconds: Some(3_600), ..Default::default() };
        let memory_before = forget_peak()?;
        let (begun, used) = (Instant::now(), cpu_seconds()?);
        let replayed = service.actions.replays.replay(tenant, &request).await?;
        let (took, used) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - used);
        let memory = memory_mib("VmHWM:")? - memory_before;
        let RuleReplayResponse::Done(result) = replayed else {
            return Err("it runs in the background".into());
        };
        println!(
            "{name}{facts}: {} firings for {} objects in {took:.1} s, {used:.1} s of CPU, {memory:.0} MiB more",
            result.firings, result.objects
        );
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let rate = rows as f64 / used;
        let what = format!("{name}: replayed analyses per second of CPU{facts}");
        let counts_itself = cluster.is_none() && !facts.is_empty();
        let least = if counts_itself { ROWS_PER_SECOND_WITH_FACTS } else { ROWS_PER_SECOND };
        figures.push(Figure::at_least(what, rate, "/s", least));
        let what = format!("{name}: memory of a replay{facts}");
        figures.push(Figure::at_most(what, memory, "MiB", MEMORY_MIB));
    }
    Ok(figures)
}

/// Lets the peak of this process's memory begin anew, and returns what it uses now, in MiB.
fn forget_peak() -> Result<f64, Box<dyn Error>> {
    std::fs::write("/proc/self/clear_refs", "5")?;
    memory_mib("VmRSS:")
}

/// A line of what the kernel says about this process's memory, in MiB.
fn memory_mib(what: &str) -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)).ok_or("no such line")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1_024.0)
}

/// Records the objects, each with as many events as analyses, an hour apart: every third is a report.
async fn fill_events(
    service: &Service,
    tenant: TenantId,
    rows: u64,
    now: Timestamp,
) -> Result<(), Box<dyn Error>> {
    let objects = rows.div_ceil(OF_AN_OBJECT);
    for first in (0..objects).step_by(usize::try_from(OBJECTS_OF_BATCH)?) {
        let requests: Vec<IngestRequest> = (first..objects.min(first + OBJECTS_OF_BATCH))
            .map(|object| IngestRequest {
                tenant,
                object_id: object_id(object),
                object_type: None,
                display_name: None,
                events: (0..OF_AN_OBJECT).map(|number| event(object * OF_AN_OBJECT + number, now)).collect(),
                idempotency: None,
                schedule: None,
                verdict_slot: None,
                received_at: now,
                traceparent: None,
            })
            .collect();
        let record = async |conn: &mut Conn| {
            recorder::record(conn, &requests, Admission::by_balance(Enforcement::Grace), 0).await
        };
        service.store().for_maintenance().write("fill", record).await?;
    }
    Ok(())
}

/// The event that the analysis of a number has read last.
fn event(number: u64, now: Timestamp) -> NewEvent {
    NewEvent {
        kind: EventType::Event,
        name: Some(if number.is_multiple_of(3) { "reported" } else { "viewed" }.to_owned()),
        content: None,
        metadata: None,
        occurred_at: time_of(number, now),
    }
}

fn object_id(object: u64) -> String {
    format!("user_{object:08}")
}

fn time_of(number: u64, now: Timestamp) -> Timestamp {
    now - Duration::from_hours(24 * 30) + Duration::from_secs(number % OF_AN_OBJECT * 3_600)
}

/// Records analyses of many objects, each with three answers.
async fn fill(service: &Service, tenant: TenantId, rows: u64, now: Timestamp) -> Result<(), Box<dyn Error>> {
    for first in (0..rows).step_by(usize::try_from(BATCH)?) {
        let batch: Vec<(String, Timestamp, String)> =
            (first..rows.min(first + BATCH)).map(|number| row(number, now)).collect();
        let analyses: Vec<NewAnalysis<'_>> = (first..)
            .zip(&batch)
            .map(|(number, (object_id, at, answers))| NewAnalysis {
                tenant,
                object_id,
                analysis_id: analysis_id(*at, number.to_be_bytes()),
                at: *at,
                source: AnalysisSource::Async,
                model: "bench",
                read_seq: i64::try_from(number % OF_AN_OBJECT + 1).unwrap_or(1),
                answers: answers.clone(),
            })
            .collect();
        let write = async |conn: &mut Conn| {
            let mut batch = conn.batch();
            answer_history::insert(&mut batch, &analyses);
            batch.run(conn).await
        };
        service.store().write("fill", write).await?;
    }
    Ok(())
}

/// The object, time and answers of an analysis, derived from its number.
fn row(number: u64, now: Timestamp) -> (String, Timestamp, String) {
    let object_id = object_id(number / OF_AN_OBJECT);
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let share = |random: u64| random % 1_000_000;
    let at = time_of(number, now);
    let choice = if random.is_multiple_of(3) { "comparing" } else { "browsing" };
    let answers = format!(
        r#"[{{"s":"is_scammer","v":1,"n":0.{:06}}},{{"s":"trust_score","v":1,"l":1.{:06},"p":[0.25,0.5,0.25],"f":0.1}},{{"s":"buyer_intent","v":1,"c":"{choice}","p":{{"browsing":0.5,"comparing":0.25,"ready_to_buy":0.25}},"f":0.05}}]"#,
        share(random),
        share(random >> 3),
    );
    (object_id, at, answers)
}

/// The CPU time that this process has used.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    // The kernel counts a hundred ticks a second.
    Ok((ticks(11).ok_or("no utime")? + ticks(12).ok_or("no stime")?) / 100.0)
}
