//! What the documentation claims, measured: each figure beside the limit that it must keep.
//!
//! `make bench` builds the release binary and runs this with its path.

#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod deliveries;
mod ingest;
mod load;
mod process;
mod signing;

use std::error::Error;
use std::path::PathBuf;

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
    let binary = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: auspex-bench PATH-OF-AUSPEX")?)
        .canonicalize()?;
    let mut figures = process::measure(&binary)?;
    figures.push(signing::measure()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let directory = tempfile::tempdir()?;
    let sqlite = format!("sqlite:{}", directory.path().join("bench.db").display());
    figures.extend(runtime.block_on(ingest::measure(&Target {
        name: "SQLite",
        url: &sqlite,
        aims: (40.0, 70.0, 80.0),
    }))?);
    figures.extend(runtime.block_on(deliveries::measure("SQLite", &sqlite))?);
    #[expect(clippy::disallowed_methods, reason = "the throw-away cluster that `make bench` starts")]
    if let Ok(postgres) = std::env::var("AUSPEX_TEST_POSTGRES") {
        let target = Target { name: "PostgreSQL", url: &postgres, aims: (25.0, 60.0, 80.0) };
        figures.extend(runtime.block_on(ingest::measure(&target))?);
        figures.extend(runtime.block_on(deliveries::measure("PostgreSQL", &postgres))?);
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
