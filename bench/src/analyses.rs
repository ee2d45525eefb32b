//! Analyses from a backlog, by the word counter: the rate, and whether the CPU time of each stays the same
//! as the backlog grows.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use analyzer::WordCounter;
use model::TenantId;
use server::Server;
use service::{Clock, Random};
use store::analysis::jobs::Schedule;
use store::billing::balance;
use store::objects::recorder::{self, Admission, Enforcement};
use store::objects::request::IngestRequest;
use store::{Conn, Store};

use crate::ingest::{self, config};
use crate::{Figure, Target, median, verdicts};

const SMALL: usize = 1_000;
const LARGE: usize = 1_000_000;
const MEDIUM: usize = 10_000;
/// How often two kinds of a service take turns.
const TURNS: usize = 5;
/// The setting that keeps no past of answers.
const WITHOUT_HISTORY: &[(&str, &str)] = &[("AUSPEX_ANSWER_HISTORY_DAYS", "0")];
/// How many times what an analysis or a verdict takes without its past one with it may take.
const COST_OF_HISTORY: f64 = 1.05;
/// The number of analyses measured for each backlog.
const MEASURED: f64 = 10_000.0;
/// Objects recorded in one transaction while a backlog is created.
const BATCH: usize = 1_000;
/// The minimum for SQLite on an idle machine with two cores.
const SQLITE_PER_SECOND: f64 = 1_000.0;

pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let small = drain(target, SMALL, &[]).await?;
    let large = drain(target, LARGE, &[]).await?;
    println!(
        "{}: {:.0} analyses/s out of {SMALL}, {:.0} out of {LARGE}; {:.0} and {:.0} µs of CPU each",
        target.name, small.per_second, large.per_second, small.cpu_micros, large.cpu_micros
    );
    let mut figures = vec![Figure::at_most(
        format!("{}: CPU of an analysis, 1,000,000 waiting to 1,000", target.name),
        large.cpu_micros / small.cpu_micros,
        "×",
        1.3,
    )];
    if target.name == "SQLite" {
        let what = "SQLite: analyses by the word counter, 1,000,000 waiting";
        figures.push(Figure::at_least(what, large.per_second, "/s", SQLITE_PER_SECOND));
    }
    Ok(figures)
}

/// What keeping the past of answers costs an analysis and a verdict: the same with it and without it, in turns. Ingest writes
/// nothing of it.
pub(crate) async fn measure_history(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut verdicts_with, mut verdicts_without) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        without.push(drain(target, MEDIUM, WITHOUT_HISTORY).await?.cpu_micros);
        with.push(drain(target, MEDIUM, &[]).await?.cpu_micros);
        verdicts_without.push(verdicts::p50(target, WITHOUT_HISTORY).await?);
        verdicts_with.push(verdicts::p50(target, &[]).await?);
    }
    println!(
        "{}: ms of a verdict with its past {verdicts_with:.2?}, without {verdicts_without:.2?}",
        target.name
    );
    println!("{}: µs of CPU of an analysis with its past {with:.0?}, without {without:.0?}", target.name);
    let what = format!("{}: CPU of an analysis with its past to without", target.name);
    let verdict = format!("{}: verdict about a known object with its past to without, p50", target.name);
    let verdicts = median(verdicts_with) / median(verdicts_without);
    Ok(vec![
        Figure::at_most(what, median(with) / median(without), "×", COST_OF_HISTORY),
        Figure::at_most(verdict, verdicts, "×", COST_OF_HISTORY),
    ])
}

struct Drained {
    per_second: f64,
    cpu_micros: f64,
}

/// Creates a backlog, starts a service on it, and measures for a while; a small backlog is created repeatedly.
async fn drain(target: &Target, backlog: usize, more: &[(&str, &str)]) -> Result<Drained, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let settings = [&[("AUSPEX_ENFORCEMENT", "grace")], more].concat();
    let settings = config(&target.url, directory.path(), &settings)?;
    let (clock, random) = (Clock::system(), Random::system()?);
    let service = server::assemble(&settings, clock.clone(), random.clone()).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let (mut done, mut elapsed, mut cpu) = (0.0, 0.0, 0.0);
    while done < MEASURED {
        fill(service.store(), tenant, backlog, &clock, &random).await?;
        let before = analyzed(service.store(), tenant).await?;
        let target_count = before + f64::from(u32::try_from(backlog)?).min(MEASURED);
        let server =
            Server::start_with(settings.clone(), clock.clone(), random.clone(), Arc::new(WordCounter))
                .await?;
        // The first analyses are not measured, because they include starting the service.
        let first = until(service.store(), tenant, before + 1.0).await?;
        let (begun, cpu_before) = (Instant::now(), cpu_seconds()?);
        done += until(service.store(), tenant, target_count).await? - first;
        elapsed += begun.elapsed().as_secs_f64();
        cpu += cpu_seconds()? - cpu_before;
        server.stop().await;
    }
    Ok(Drained { per_second: done / elapsed, cpu_micros: cpu * 1e6 / done })
}

/// Waits until there are this many analyses, and returns their number.
async fn until(store: &Store, tenant: TenantId, target_count: f64) -> Result<f64, Box<dyn Error>> {
    loop {
        let count = analyzed(store, tenant).await?;
        if count >= target_count {
            return Ok(count);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many analyses a tenant has been charged for.
pub(crate) async fn analyzed(store: &Store, tenant: TenantId) -> Result<f64, Box<dyn Error>> {
    let (_, analyses) =
        store.read("bench", async |conn: &mut Conn| balance::spent(conn, tenant).await).await?;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    Ok(analyses as f64)
}

/// Records objects with one event each, whose analyses are due.
async fn fill(
    store: &Store,
    tenant: TenantId,
    backlog: usize,
    clock: &Clock,
    random: &Random,
) -> Result<(), Box<dyn Error>> {
    for _ in 0..backlog.div_ceil(BATCH) {
        let now = clock.now();
        let entry = || -> Result<IngestRequest, Box<dyn Error>> {
            let mut entry = ingest::entry(tenant, 1, clock, random)?;
            entry.idempotency = None;
            entry.schedule = Some(Schedule { run_at: now, deadline_at: now });
            Ok(entry)
        };
        let entries: Vec<IngestRequest> = (0..BATCH).map(|_| entry()).collect::<Result<_, _>>()?;
        store
            .write("bench", async |conn: &mut Conn| {
                recorder::record(conn, &entries, Admission::by_balance(Enforcement::Grace), 0).await
            })
            .await?;
    }
    Ok(())
}

/// CPU time of this process and of PostgreSQL: what other processes do does not count.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let mut ticks = 0;
    for process in std::fs::read_dir("/proc")? {
        // A process may end while its file is read.
        let Ok(stat) = std::fs::read_to_string(process?.path().join("stat")) else { continue };
        let Some((name, fields)) = stat.rsplit_once(") ") else { continue };
        let is_ours = name.starts_with(&format!("{} (", std::process::id()));
        if is_ours || name.ends_with("(postgres") {
            let fields: Vec<&str> = fields.split(' ').collect();
            let time = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok());
            ticks += time(11).ok_or("no utime")? + time(12).ok_or("no stime")?;
        }
    }
    // Linux always reports times in hundredths of a second.
    Ok(f64::from(ticks) / 100.0)
}
