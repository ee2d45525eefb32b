//! Replays of a rule over a long history, by the CPU time of this process: other load of the machine does not count.

use std::error::Error;
use std::time::{Duration, Instant};

use model::api::{AnalysisSource, RuleReplayRequest, RuleReplayResponse};
use model::recorded_answer::analysis_id;
use model::{TenantId, Timestamp};
use service::{Clock, Random, Service};
use store::Conn;
use store::analysis::answer_history::{self, NewAnalysis};

use crate::ingest::config;
use crate::{Figure, new_database};

/// Analyses of each object.
const OF_AN_OBJECT: u64 = 20;
/// Rows per transaction.
const BATCH: u64 = 20_000;
/// Rows a second that one core must replay.
const ROWS_PER_SECOND: f64 = 50_000.0;
/// Three comparisons, one of them negated.
const WHEN: &str = "is_scammer > 0.95 or not (trust_score >= 0.1 or buyer_intent = browsing)";

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
    fill(&service, tenant, rows, clock.now()).await?;
    println!("{name}: recorded {rows} analyses in {:.0} s", begun.elapsed().as_secs_f64());
    let request =
        RuleReplayRequest { when: WHEN.to_owned(), cooldown_seconds: Some(3_600), ..Default::default() };
    let (begun, used) = (Instant::now(), cpu_seconds()?);
    let replayed = service.actions.replays.replay(tenant, &request).await?;
    let (took, used) = (begun.elapsed().as_secs_f64(), cpu_seconds()? - used);
    let RuleReplayResponse::Done(result) = replayed else { return Err("it runs in the background".into()) };
    println!(
        "{name}: {} firings for {} objects in {took:.1} s, {used:.1} s of CPU",
        result.firings, result.objects
    );
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let rate = rows as f64 / used;
    let what = format!("{name}: replayed analyses per second of CPU");
    Ok(vec![Figure::at_least(what, rate, "/s", ROWS_PER_SECOND)])
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
    let object_id = format!("user_{:08}", number / OF_AN_OBJECT);
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let share = |random: u64| random % 1_000_000;
    let at = now - Duration::from_hours(24 * 30) + Duration::from_secs(number % OF_AN_OBJECT * 3_600);
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
