//! What the documentation claims, measured: each figure beside the limit that it must keep.
//!
//! `make bench` builds the release binary and runs this with its path. `make bench-reads` runs `auspex-bench reads 1000000`.
//! `auspex-bench seed ADDRESS OBJECTS` fills a database and leaves it.

#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod analyses;
mod deliveries;
mod ingest;
mod load;
mod process;
mod reads;
mod seed;
mod signing;
mod verdicts;

use std::error::Error;
use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Runtime;

/// A database to measure, by its name and its address.
struct Target {
    name: &'static str,
    url: String,
    /// Shares of (a) and (b) that ingest of one event a request must reach, and of (b) ten events a request.
    ingest_aims: (f64, f64, f64),
}

/// One finding, and the limit that it must keep.
struct Figure {
    what: String,
    measured: f64,
    unit: &'static str,
    limit: f64,
    is_least: bool,
}

impl Figure {
    fn at_most(what: impl Into<String>, measured: f64, unit: &'static str, limit: f64) -> Self {
        Self { what: what.into(), measured, unit, limit, is_least: false }
    }

    fn at_least(what: impl Into<String>, measured: f64, unit: &'static str, limit: f64) -> Self {
        Self { what: what.into(), measured, unit, limit, is_least: true }
    }

    fn is_kept(&self) -> bool {
        if self.is_least { self.measured >= self.limit } else { self.measured <= self.limit }
    }
}

/// The middle one of what was measured.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What is measured by default, by the name that the command line has for it.
const PARTS: [&str; 6] = ["process", "signing", "ingest", "analyses", "verdicts", "deliveries"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments[..] {
        ["seed", url, objects] => runtime.block_on(reads::seed(url, objects.parse()?)),
        ["reads", objects] => judge(&runtime.block_on(measure_reads(objects.parse()?))?),
        [binary, ref parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => {
            let parts = if parts.is_empty() { &PARTS } else { parts };
            judge(&measure(&PathBuf::from(binary).canonicalize()?, parts, &runtime)?)
        }
        _ => {
            let parts = PARTS.join("|");
            Err(format!(
                "usage: auspex-bench PATH-OF-AUSPEX [{parts}]… | reads OBJECTS | seed ADDRESS OBJECTS"
            )
            .into())
        }
    }
}

/// Reads among many objects; making them takes minutes.
async fn measure_reads(objects: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = reads::measure(None, objects).await?;
    if let Some(cluster) = cluster() {
        figures.extend(reads::measure(Some(&cluster), objects).await?);
    }
    Ok(figures)
}

/// Everything else.
fn measure(binary: &Path, parts: &[&str], runtime: &Runtime) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = Vec::new();
    let directory = tempfile::tempdir()?;
    for part in parts {
        match *part {
            "process" => figures.extend(process::measure(binary)?),
            "signing" => figures.push(signing::measure()?),
            on_databases => {
                for target in runtime.block_on(targets(directory.path(), on_databases))? {
                    let measured = match on_databases {
                        "ingest" => runtime.block_on(ingest::measure(&target)),
                        "analyses" => runtime.block_on(analyses::measure(&target)),
                        "verdicts" => runtime.block_on(verdicts::measure(&target)),
                        _ => runtime.block_on(deliveries::measure(&target)),
                    };
                    figures.extend(measured?);
                }
            }
        }
    }
    Ok(figures)
}

/// Prints the findings, and fails when a limit is not kept.
fn judge(figures: &[Figure]) -> Result<(), Box<dyn Error>> {
    println!("{:<58} {:>10} {:>10}", "", "measured", "limit");
    for figure in figures {
        let Figure { what, measured, unit, limit, is_least } = figure;
        let bound = if *is_least { "≥" } else { "≤" };
        let verdict = if figure.is_kept() { "" } else { "  NOT KEPT" };
        println!("{what:<58} {measured:>7.2} {unit:<2} {bound}{limit:>6.1} {unit:<2}{verdict}");
    }
    if figures.iter().all(Figure::is_kept) { Ok(()) } else { Err("a limit is not kept".into()) }
}

/// The databases that a part is measured on, made for it: what another has left to do would take its share of the machine.
/// PostgreSQL is one of them where `make bench` has started it.
async fn targets(directory: &Path, part: &str) -> Result<Vec<Target>, Box<dyn Error>> {
    let url = format!("sqlite:{}", directory.join(format!("{part}.db")).display());
    let mut targets = vec![Target { name: "SQLite", url, ingest_aims: (40.0, 70.0, 80.0) }];
    if let Some(cluster) = cluster() {
        let url = new_database(&cluster, part).await?;
        targets.push(Target { name: "PostgreSQL", url, ingest_aims: (25.0, 60.0, 80.0) });
    }
    Ok(targets)
}

/// Makes a database in a cluster, and returns its address.
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
