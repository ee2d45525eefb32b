//! What the documentation claims, measured: each figure beside the limit that it must keep.
//!
//! `make bench` builds the release binary and runs this with its path. `make bench-reads` runs `auspex-bench reads 1000000`.
//! `auspex-bench seed ADDRESS OBJECTS` fills a database and leaves it.

#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod ingest;
mod load;
mod process;
mod reads;
mod seed;
mod signing;

use std::error::Error;
use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use crate::ingest::Target;

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

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    #[expect(clippy::disallowed_methods, reason = "the throw-away cluster that `make bench` starts")]
    let postgres = std::env::var("AUSPEX_TEST_POSTGRES").ok();
    match arguments[..] {
        ["seed", url, objects] => runtime.block_on(reads::seed(url, objects.parse()?)),
        ["reads", objects] => {
            let objects = objects.parse()?;
            let mut figures = runtime.block_on(reads::measure(None, objects))?;
            if let Some(cluster) = &postgres {
                figures.extend(runtime.block_on(reads::measure(Some(cluster), objects))?);
            }
            judge(&figures)
        }
        [binary] => judge(&measure(&PathBuf::from(binary).canonicalize()?, &runtime, postgres.as_deref())?),
        _ => Err("usage: auspex-bench PATH-OF-AUSPEX | reads OBJECTS | seed ADDRESS OBJECTS".into()),
    }
}

/// Everything but reads among many objects, which takes minutes.
fn measure(binary: &Path, runtime: &Runtime, postgres: Option<&str>) -> Result<Vec<Figure>, Box<dyn Error>> {
    let mut figures = process::measure(binary)?;
    figures.push(signing::measure()?);
    let directory = tempfile::tempdir()?;
    let sqlite = format!("sqlite:{}", directory.path().join("bench.db").display());
    figures.extend(runtime.block_on(ingest::measure(&Target {
        name: "SQLite",
        url: &sqlite,
        aims: (40.0, 70.0, 80.0),
    }))?);
    if let Some(postgres) = postgres {
        let target = Target { name: "PostgreSQL", url: postgres, aims: (25.0, 60.0, 80.0) };
        figures.extend(runtime.block_on(ingest::measure(&target))?);
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
