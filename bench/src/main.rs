//! What the documentation claims, measured: each figure beside the limit that it must keep.
//!
//! `make bench` builds the release binary and runs this with its path.

#![expect(clippy::print_stdout, reason = "it prints its findings")]

mod process;
mod signing;

use std::error::Error;
use std::path::PathBuf;

/// One finding.
struct Figure {
    what: &'static str,
    measured: f64,
    unit: &'static str,
    limit: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let binary = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: auspex-bench PATH-OF-AUSPEX")?)
        .canonicalize()?;
    let mut figures = process::measure(&binary)?;
    figures.push(signing::measure()?);
    println!("{:<58} {:>10} {:>10}", "", "measured", "at most");
    let mut kept = true;
    for Figure { what, measured, unit, limit } in &figures {
        let verdict = if measured <= limit { "" } else { "  OVER" };
        kept &= measured <= limit;
        println!("{what:<58} {measured:>7.2} {unit:<2} {limit:>7.2} {unit:<2}{verdict}");
    }
    if kept { Ok(()) } else { Err("a limit is not kept".into()) }
}
