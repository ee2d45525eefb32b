//! Measures the figures that the documentation claims, and compares each with its limit.
//!
//! `make bench` builds the release binary and runs this with its path. `make bench-reads` runs `auspex-bench reads 1000000`, and
//! `make bench-replay` runs `auspex-bench replay 1000000`, `make bench-exports` runs `auspex-bench exports 1000000`.
//! `auspex-bench seed URL OBJECTS` fills a database and keeps it. `make simulate` runs `auspex-bench simulate`, and `make costs`
//! runs `auspex-bench costs`.

#![expect(clippy::print_stdout, reason = "it prints its results")]

mod analyses;
mod costs;
mod deliveries;
mod exports;
mod ingest;
mod instant_analyzer;
mod load;
mod messages;
mod neighbours;
mod process;
mod reads;
mod replay;
mod seed;
mod signing;
mod simulation;
mod statistics;
mod verdicts;
mod waiting;

use std::error::Error;
use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Runtime;

/// A database to measure.
struct Target {
    name: &'static str,
    url: String,
    /// The shares, in percent, of (a) and (b) that ingest of one event per request must reach, and of (b) that ingest of ten
    /// events per request must reach.
    ingest_limits: (f64, f64, f64),
}

/// A measured value and its limit.
struct Figure {
    what: String,
    measured: f64,
    unit: &'static str,
    limit: f64,
    is_minimum: bool,
}

impl Figure {
    fn at_most(what: impl Into<String>, measured: f64, unit: &'static str, limit: f64) -> Self {
        Self { what: what.into(), measured, unit, limit, is_minimum: false }
    }

    fn at_least(what: impl Into<String>, measured: f64, unit: &'static str, limit: f64) -> Self {
        Self { what: what.into(), measured, unit, limit, is_minimum: true }
    }

    fn is_within_limit(&self) -> bool {
        if self.is_minimum { self.measured >= self.limit } else { self.measured <= self.limit }
    }
}

/// The median of the values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The parts that are measured by default, by their names on the command line.
const PARTS: [&str; 11] = [
    "process",
    "signing",
    "ingest",
    "analyses",
    "history",
    "verdicts",
    "deliveries",
    "neighbours",
    "messages",
    "idle",
    "statistics",
];

/// The seed of a simulation that is given none.
const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments[..] {
        ["seed", url, objects] => runtime.block_on(reads::seed(url, objects.parse()?)),
        ["replay", rows] => judge(&runtime.block_on(measure_replays(rows.parse()?))?),
        ["exports", rows] => judge(&runtime.block_on(measure_exports(rows.parse()?))?),
        ["reads", objects] => judge(&runtime.block_on(measure_reads(objects.parse()?))?),
        ["costs"] => runtime.block_on(measure_costs()),
        ["simulate"] => judge(&simulation::run(SEED)?),
        ["simulate", seed] => judge(&simulation::run(seed.parse()?)?),
        [binary, ref parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => {
            let parts = if parts.is_empty() { &PARTS } else { parts };
            let (figures, failures) = measure(&PathBuf::from(binary).canonicalize()?, parts, &runtime)?;
            let judged = judge(&figures);
            if failures.is_empty() { judged } else { Err(failures.join("\n").into()) }
        }
        _ => {
            let parts = PARTS.join("|");
            Err(format!("usage: auspex-bench PATH-OF-AUSPEX [{parts}]… | costs | exports EVENTS | reads OBJECTS | replay ANALYSES | seed URL OBJECTS | simulate [SEED]")
                .into())
        }
    }
}

/// Measures reads among many objects; creating them takes minutes.
async fn measure_reads(objects: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = Box::pin(reads::measure(None, objects)).await?;
    if let Some(cluster) = cluster() {
        figures.extend(Box::pin(reads::measure(Some(&cluster), objects)).await?);
    }
    Ok(figures)
}

/// Measures replays over a long history.
async fn measure_replays(rows: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = replay::measure(None, rows).await?;
    if let Some(cluster) = cluster() {
        figures.extend(replay::measure(Some(&cluster), rows).await?);
    }
    Ok(figures)
}

/// Measures exports of many events.
async fn measure_exports(rows: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = exports::measure(None, rows).await?;
    if let Some(cluster) = cluster() {
        figures.extend(exports::measure(Some(&cluster), rows).await?);
    }
    Ok(figures)
}

/// Measures what an event, an analysis and a delivery write and keep.
async fn measure_costs() -> Result<(), Box<dyn Error>> {
    costs::measure(None).await?;
    if let Some(cluster) = cluster() {
        costs::measure(Some(&cluster)).await?;
    }
    Ok(())
}

/// Measures everything else. A part that fails does not take the figures of others with it: returns the figures, and what failed.
fn measure(
    binary: &Path,
    parts: &[&str],
    runtime: &Runtime,
) -> Result<(Vec<Figure>, Vec<String>), Box<dyn Error>> {
    let (mut figures, mut failures) = (Vec::new(), Vec::new());
    let directory = tempfile::tempdir()?;
    for part in parts {
        let targets = match *part {
            "process" | "signing" | "statistics" => vec![None],
            part => runtime.block_on(targets(directory.path(), part))?.into_iter().map(Some).collect(),
        };
        for target in targets {
            if let Err(error) = measure_part(binary, part, target.as_ref(), runtime, &mut figures) {
                let target = target.map_or("", |target| target.name);
                failures.push(format!("{part} {target}: {error}"));
            }
        }
    }
    Ok((figures, failures))
}

/// Adds the figures of one part, on one database where it needs one. Those that it has measured before it fails count too.
fn measure_part(
    binary: &Path,
    part: &str,
    target: Option<&Target>,
    runtime: &Runtime,
    figures: &mut Vec<Figure>,
) -> Result<(), Box<dyn Error>> {
    let measured = match (part, target) {
        ("messages", Some(target)) => return runtime.block_on(messages::measure(binary, target, figures)),
        ("process", _) => process::measure(binary),
        ("signing", _) => signing::measure().map(|figure| vec![figure]),
        ("statistics", _) => runtime.block_on(statistics::measure(binary)),
        ("ingest", Some(target)) => runtime.block_on(ingest::measure(target)),
        ("analyses", Some(target)) => runtime.block_on(analyses::measure(target)),
        ("history", Some(target)) => runtime.block_on(analyses::measure_history(target)),
        ("verdicts", Some(target)) => runtime.block_on(verdicts::measure(target)),
        ("deliveries", Some(target)) => runtime.block_on(deliveries::measure(target)),
        ("neighbours", Some(target)) => runtime.block_on(neighbours::measure(target)),
        ("idle", Some(target)) => runtime.block_on(messages::measure_idle(binary, target)),
        _ => Err(format!("{part} is no part").into()),
    };
    figures.extend(measured?);
    Ok(())
}

/// Prints the figures, and fails if one is beyond its limit.
fn judge(figures: &[Figure]) -> Result<(), Box<dyn Error>> {
    println!("{:<58} {:>10} {:>10}", "", "measured", "limit");
    for figure in figures {
        let Figure { what, measured, unit, limit, is_minimum } = figure;
        let bound = if *is_minimum { "≥" } else { "≤" };
        let verdict = if figure.is_within_limit() { "" } else { "  BEYOND LIMIT" };
        println!("{what:<58} {measured:>7.2} {unit:<2} {bound}{limit:>6.1} {unit:<2}{verdict}");
    }
    if figures.iter().all(Figure::is_within_limit) {
        Ok(())
    } else {
        Err("a figure is beyond its limit".into())
    }
}

/// Creates the databases for a part, one each: work that another part has left would compete for the machine. PostgreSQL is
/// included if `make bench` has started it.
async fn targets(directory: &Path, part: &str) -> Result<Vec<Target>, Box<dyn Error>> {
    let url = format!("sqlite:{}", directory.join(format!("{part}.db")).display());
    let mut targets = vec![Target { name: "SQLite", url, ingest_limits: (40.0, 70.0, 80.0) }];
    if let Some(cluster) = cluster() {
        let url = new_database(&cluster, part).await?;
        targets.push(Target { name: "PostgreSQL", url, ingest_limits: (25.0, 60.0, 80.0) });
    }
    Ok(targets)
}

/// Creates a database in a cluster, and returns its URL.
async fn new_database(cluster: &str, name: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = PgConnection::connect(cluster).await?;
    let name = format!("{name}_{}", std::process::id());
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await?;
    let (base, _) = cluster.rsplit_once('/').ok_or("postgres://host/database")?;
    Ok(format!("{base}/{name}"))
}

/// The throw-away cluster that `make bench` starts.
fn cluster() -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "set by scripts/with-postgres")]
    std::env::var("AUSPEX_TEST_POSTGRES").ok()
}
