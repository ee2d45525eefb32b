//! Runs real deployments under faults that are drawn from a seed, and checks after every round that nothing acknowledged was
//! lost, doubled or left undone.
//!
//! `make faults` builds the service and runs this for a few minutes; `make faults SECONDS=7200 SEED=7` for longer. `make poolers`
//! puts a `PgBouncer` before PostgreSQL. `make failover` makes the primary of a cluster fall, again and again. `make upgrade`
//! replaces processes of an older binary by the newer one while others go on.

#![expect(clippy::print_stdout, reason = "it prints its results")]

mod analyzer;
mod check;
mod cluster;
mod database;
mod exchange;
mod failover;
mod host;
mod http;
mod journal;
mod load;
mod node;
mod parts;
mod peer;
mod plan;
mod pooler;
mod proxy;
mod random;
mod receiver;
mod round;
mod system;
mod tenant;
mod upgrade;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use client::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::check::Checked;
use crate::journal::Journal;
use crate::plan::Kind;
use crate::system::{Backend, System};
use crate::upgrade::Upgrade;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// No round begins that would probably end after the time is up.
const ROUND: Duration = Duration::from_secs(50);

/// Real deployments under faults.
#[derive(Parser)]
struct Arguments {
    /// The binary `auspex`.
    binary: PathBuf,
    /// How long to go on; each deployment runs at least one round.
    #[arg(long, default_value_t = 220)]
    seconds: u64,
    /// What the faults are drawn from; by default, the time.
    #[arg(long)]
    seed: Option<u64>,
    /// The first round, to repeat a schedule from there.
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Only this deployment; by default, SQLite and PostgreSQL.
    #[arg(long)]
    only: Option<Backend>,
    /// How often the primary of the cluster falls.
    #[arg(long, default_value_t = 10)]
    failovers: usize,
    /// The older binary, which is replaced by the newer one.
    #[arg(long, required_if_eq("only", "upgrade"))]
    older: Option<PathBuf>,
    /// Kinds of faults to leave out.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Kind>,
}

/// What a deployment has gone through.
#[derive(Default)]
struct Report {
    rounds: usize,
    faults: usize,
    failures: usize,
    checked: Checked,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| now().micros().unsigned_abs() % 1_000_000);
    let directory = tempfile::Builder::new().prefix("auspex-faults-").tempdir()?;
    // Servers that run as another user pass through it.
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
    let extent = match arguments.only {
        Some(Backend::Cluster) => format!("{} failovers", arguments.failovers),
        Some(Backend::Upgrade) => "an upgrade".to_owned(),
        _ => format!("{} s", arguments.seconds),
    };
    say(&format!("seed {seed}, {extent}, in {}", directory.path().display()));
    let ran = tokio::select! {
        ran = run(&arguments, seed, directory.path()) => ran,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
    };
    let failure = match ran {
        Ok(report) => {
            let Report { rounds, faults, failures, checked } = report;
            let Checked { events, analyses, firings, deliveries, dead } = checked;
            say(&format!(
                "{rounds} rounds, {faults} faults: {events} events, {analyses} analyses, {firings} firings and {deliveries} \
                 deliveries ({dead} dead) checked, {failures} failures"
            ));
            (failures > 0).then(|| "something does not hold".to_owned())
        }
        Err(error) => Some(error.to_string()),
    };
    let Some(failure) = failure else { return Ok(ExitCode::SUCCESS) };
    let kept = directory.keep();
    say(&format!(
        "FAILED: {failure}. Logs and databases are in {}; repeat it with SEED={seed}",
        kept.display()
    ));
    Ok(ExitCode::FAILURE)
}

async fn run(arguments: &Arguments, seed: u64, directory: &Path) -> Result<Report> {
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    if let Some(backend @ (Backend::Pooler | Backend::Cluster | Backend::Upgrade)) = arguments.only {
        return rounds(backend, arguments, seed, directory, until).await;
    }
    let wanted = |backend| arguments.only.is_none_or(|only| only == backend);
    let run = async |backend| {
        if wanted(backend) {
            rounds(backend, arguments, seed, directory, until).await
        } else {
            Ok(Report::default())
        }
    };
    let (sqlite, postgres) = tokio::join!(run(Backend::Sqlite), run(Backend::Postgres));
    let (sqlite, postgres) = (sqlite?, postgres?);
    Ok(Report {
        rounds: sqlite.rounds + postgres.rounds,
        faults: sqlite.faults + postgres.faults,
        failures: sqlite.failures + postgres.failures,
        checked: sqlite.checked + postgres.checked,
    })
}

/// Runs rounds against one deployment until the time is up or something does not hold.
async fn rounds(
    backend: Backend,
    arguments: &Arguments,
    seed: u64,
    directory: &Path,
    until: Instant,
) -> Result<Report> {
    std::fs::create_dir_all(directory.join(backend.name()))?;
    let binary = arguments.binary.canonicalize()?;
    let upgrade = match &arguments.older {
        Some(older) if backend == Backend::Upgrade => {
            Some(Upgrade::new(older.canonicalize()?, binary.clone()))
        }
        _ => None,
    };
    let system = System::start(
        backend,
        upgrade.as_ref().map_or(&binary, |upgrade| &upgrade.older),
        directory,
        &arguments.without,
    )
    .await?;
    let system = Arc::new(system);
    let kinds: Vec<String> = system.kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!("; faults: {}", kinds.join(", ")) };
    say(&format!("{} is up{kinds}", backend.name()));
    let (tasks, ended) = (TaskTracker::new(), CancellationToken::new());
    for number in 0..system.nodes.len() {
        let (system, ended) = (Arc::clone(&system), ended.clone());
        tasks.spawn(async move { ended.run_until_cancelled(system.nodes[number].supervise()).await });
    }
    let journal = Arc::new(Journal::default());
    let mut report = Report::default();
    for round in arguments.first.. {
        let outcome = match (&system.cluster, &upgrade) {
            (Some(_), _) if report.rounds == arguments.failovers => break,
            (Some(cluster), _) => failover::run(&system, cluster, &journal, seed, round).await?,
            (None, Some(upgrade)) => match upgrade.next() {
                Some(step) => upgrade::run(&system, upgrade, step, &journal, seed, round).await?,
                None => break,
            },
            (None, None) if report.rounds > 0 && Instant::now() + ROUND > until => break,
            (None, None) => round::run(&system, &journal, seed, round).await?,
        };
        report.rounds += 1;
        report.faults += outcome.faults;
        report.failures += outcome.wrong.len();
        report.checked = outcome.checked;
        if !outcome.wrong.is_empty() {
            let said = outcome.wrong.join("\n");
            std::fs::write(directory.join(backend.name()).join("failures.txt"), said)?;
            system.keep().await?;
            break;
        }
    }
    for node in &system.nodes {
        node.kill().await;
    }
    // The system ends with the last of those who share it, before its directory is removed.
    ended.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(report)
}

/// Locks; a thread that panicked meanwhile has ended the run anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of this machine.
#[expect(clippy::disallowed_methods, reason = "the harness stands outside the service and its clock")]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since_epoch.as_micros().try_into().unwrap_or(i64::MAX))
}

/// Prints a line with the time of day, so that it can be found in the logs.
fn say(line: &str) {
    println!("{} {line}", now().to_string().get(11..19).unwrap_or_default());
}
