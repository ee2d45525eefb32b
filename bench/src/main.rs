//! What the documentation claims, measured: each figure beside the limit that it must keep.
//!
//! `make bench` builds the release binary and runs this with its path.

#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod analyses;
mod ingest;
mod load;
mod process;
mod signing;
mod verdicts;

use std::error::Error;
use std::path::{Path, PathBuf};

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

/// What is measured, by the name that the command line has for it.
const PARTS: [&str; 5] = ["process", "signing", "ingest", "analyses", "verdicts"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = format!("usage: auspex-bench PATH-OF-AUSPEX [{}]…", PARTS.join("|"));
    let binary = PathBuf::from(arguments.next().ok_or(usage.as_str())?).canonicalize()?;
    let asked: Vec<String> = arguments.collect();
    if asked.iter().any(|part| !PARTS.contains(&part.as_str())) {
        return Err(usage.into());
    }
    let is_asked = |part: &str| asked.is_empty() || asked.iter().any(|asked| asked == part);
    let mut figures = Vec::new();
    if is_asked("process") {
        figures.extend(process::measure(&binary)?);
    }
    if is_asked("signing") {
        figures.push(signing::measure()?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let directory = tempfile::tempdir()?;
    for target in targets(directory.path()) {
        if is_asked("ingest") {
            figures.extend(runtime.block_on(ingest::measure(&target))?);
        }
        if is_asked("analyses") {
            figures.extend(runtime.block_on(analyses::measure(&target))?);
        }
        if is_asked("verdicts") {
            figures.extend(runtime.block_on(verdicts::measure(&target))?);
        }
    }
    println!("{:<58} {:>10} {:>10}", "", "measured", "limit");
    for figure in &figures {
        let Figure { what, measured, unit, limit, is_least } = figure;
        let bound = if *is_least { "≥" } else { "≤" };
        let verdict = if figure.is_kept() { "" } else { "  NOT KEPT" };
        println!("{what:<58} {measured:>7.2} {unit:<2} {bound}{limit:>6.1} {unit:<2}{verdict}");
    }
    if figures.iter().all(Figure::is_kept) { Ok(()) } else { Err("a limit is not kept".into()) }
}

/// The databases that are measured: PostgreSQL where `make bench` has started one.
fn targets(directory: &Path) -> Vec<Target> {
    let url = format!("sqlite:{}", directory.join("bench.db").display());
    let mut targets = vec![Target { name: "SQLite", url, ingest_aims: (40.0, 70.0, 80.0) }];
    #[expect(clippy::disallowed_methods, reason = "the throw-away cluster that `make bench` starts")]
    if let Ok(url) = std::env::var("AUSPEX_TEST_POSTGRES") {
        targets.push(Target { name: "PostgreSQL", url, ingest_aims: (25.0, 60.0, 80.0) });
    }
    targets
}
