//! Simulates the design with up to 1,000 nodes and 1,000,000 tenants: its constants and its own rules for turns and budgets,
//! an ideal database, and no network. It shows what many nodes ask of one database, and who waits how long.
//!
//! `make simulate`, or `auspex-bench simulate [SEED]`. docs/scale.md has the table and what follows from it.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts and microseconds far below 2^52"
)]

mod analyses;
mod budgets;
mod design;
mod present;
mod random;
mod sweeps;
mod traffic;

use std::error::Error;

use self::analyses::{Case, Jump, Outcome, percentile};
use self::design::{CALM, Design};
use self::random::{Random, Tenants};
use crate::Figure;

const SIZES: [usize; 7] = [1, 3, 10, 30, 100, 300, 1_000];
/// How many nodes over one PostgreSQL must keep to the limit of waits; the table shows what happens beyond.
const MEANT_FOR: usize = 30;
const TENANTS: usize = 1_000_000;
/// The share of all load of the largest tenant.
const LARGEST: f64 = 0.5;
/// The same with half as much again as it can do.
const BEYOND: f64 = 1.5;

/// What was found for one number of nodes.
struct Simulated {
    nodes: usize,
    calm: Outcome,
    /// With more load than the slots can do, half of it of one tenant.
    beyond: Outcome,
    /// The calm load, if a scheduler stayed where it was after a claim in vain.
    staying: Outcome,
    /// The same if it went on at any tenant, whatever it has served.
    anywhere: Outcome,
    budgets: budgets::Minute,
    exhausted: budgets::Minute,
    traffic: traffic::Traffic,
    sweeps: sweeps::SweepRound,
    /// Seconds that the queue was watched for after its warm-up.
    watched_s: f64,
}

/// Simulates all sizes from a seed, prints what was found, and returns what must hold at every size.
pub(crate) fn run(seed: u64) -> Result<Vec<Figure>, Box<dyn Error>> {
    let design = Design::of_settings()?;
    let even = Tenants::new(TENANTS, 0.0);
    let skewed = Tenants::new(TENANTS, LARGEST);
    let simulated: Vec<Simulated> =
        SIZES.iter().map(|nodes| simulate(&design, *nodes, [&even, &skewed], seed)).collect();
    println!(
        "{TENANTS} tenants by Zipf's law, seed {seed}; for each node {:.0} requests and analyses a second",
        design.requests_per_second(1)
    );
    print_table(&design, &simulated);
    print_findings(&design, &simulated);
    Ok(figures(&design, &simulated))
}

fn simulate(design: &Design, nodes: usize, [even, skewed]: [&Tenants; 2], seed: u64) -> Simulated {
    let mut random = Random::new(seed ^ nodes as u64);
    // Long enough for the leases of killed processes to expire, except where that would take minutes to simulate.
    let (seconds, killed) = if nodes <= 100 { (60, nodes.div_ceil(100)) } else { (30, 0) };
    let calm = Case { nodes, load: CALM, seconds, killed, jump: Jump::Between };
    let beyond = Case { load: BEYOND, seconds: seconds.min(20), killed: 0, ..calm };
    let staying = Case { seconds: seconds.min(20), killed: 0, jump: Jump::Nowhere, ..calm };
    let anywhere = Case { jump: Jump::Anywhere, ..staying };
    Simulated {
        nodes,
        calm: analyses::run(design, calm, even, &mut random),
        beyond: analyses::run(design, beyond, skewed, &mut random),
        staying: analyses::run(design, staying, even, &mut random),
        anywhere: analyses::run(design, anywhere, even, &mut random),
        budgets: budgets::minute_of_all(design, nodes, even, &mut random),
        exhausted: budgets::minute_beyond_the_limit(design.requests_per_minute, nodes, &mut random),
        traffic: traffic::of(design, nodes, &mut random),
        sweeps: sweeps::round(design, nodes, even.count(), &mut random),
        watched_s: (seconds - 5) as f64,
    }
}

/// A measure: what it is called, its value at a size, and what one PostgreSQL is assumed to bear of it.
struct Measure {
    name: &'static str,
    of: fn(&Design, &Simulated) -> f64,
    bearable: Option<f64>,
    /// What must change beyond that.
    change: &'static str,
}

const fn measure(name: &'static str, of: fn(&Design, &Simulated) -> f64) -> Measure {
    Measure { name, of, bearable: None, change: "" }
}

const fn bounded(
    name: &'static str,
    bearable: f64,
    change: &'static str,
    of: fn(&Design, &Simulated) -> f64,
) -> Measure {
    Measure { name, of, bearable: Some(bearable), change }
}

/// What is measured, and the size beyond which something of the design must change.
const MEASURES: [Measure; 27] = [
    measure("analyses a second", |design, size| design.requests_per_second(size.nodes)),
    measure("wait of an analysis, p50, ms", |_, size| percentile(&size.calm.other_waits, 50) as f64 / 1e3),
    bounded(
        "wait of an analysis, p99, ms",
        5_000.0,
        "where schedulers go on after claims in vain: some tenants starve",
        |_, size| percentile(&size.calm.other_waits, 99) as f64 / 1e3,
    ),
    measure("the same without jumps after claims in vain, p99", |_, size| {
        percentile(&size.staying.other_waits, 99) as f64 / 1e3
    }),
    measure("the same with jumps to any tenant, p99", |_, size| {
        percentile(&size.anywhere.other_waits, 99) as f64 / 1e3
    }),
    measure("longest wait of an analysis, s", |_, size| percentile(&size.calm.other_waits, 100) as f64 / 1e6),
    measure("overloaded: others' wait, p99, ms", |_, size| {
        percentile(&size.beyond.other_waits, 99) as f64 / 1e3
    }),
    measure("overloaded: others' longest wait, ms", |_, size| {
        percentile(&size.beyond.other_waits, 100) as f64 / 1e3
    }),
    measure("overloaded: largest's wait, p50, ms", |_, size| {
        percentile(&size.beyond.largest_waits, 50) as f64 / 1e3
    }),
    measure("polls of the queue a second", |_, size| size.calm.polls as f64 / size.watched_s),
    measure("claims a second", |_, size| size.calm.claims as f64 / size.watched_s),
    measure("claims in vain, %", |_, size| 100.0 * size.calm.empty_claims as f64 / size.calm.claims as f64),
    bounded(
        "round trips of polls and claims a second",
        50_000.0,
        "SOON and the claim of one tenant after the other",
        |_, size| size.calm.round_trips as f64 / size.watched_s,
    ),
    bounded(
        "tenants passed by claims a second",
        2_000_000.0,
        "next_tenant, which passes every tenant with a job that is not due",
        |_, size| size.calm.passed as f64 / size.watched_s,
    ),
    measure("leases that expired after a kill", |_, size| size.calm.expired as f64),
    bounded(
        "leases of budgets a second",
        5_000.0,
        "BLOCKS, and a lease for a tenant's first request on each node",
        |_, size| size.budgets.leases as f64 / 60.0,
    ),
    measure("leases for each request", |_, size| size.budgets.leases as f64 / size.budgets.requests as f64),
    measure("budget granted of the limit, %", |design, size| {
        100.0 * size.exhausted.allowed as f64 / design.requests_per_minute as f64
    }),
    bounded(
        "heartbeats: rows read a second",
        1_000_000.0,
        "counting all rows of nodes at each heartbeat",
        |_, size| size.traffic.heartbeat_rows,
    ),
    measure("heartbeats and idle polls: round trips a second", |_, size| {
        size.traffic.heartbeats + size.traffic.idle
    }),
    bounded(
        "commits that notify a second",
        1_000.0,
        "NOTIFY in commits of the recorder: such commits take turns",
        |_, size| size.traffic.notifications.commits,
    ),
    measure("the same if each commit notified", |_, size| size.traffic.of_each_commit.commits),
    measure("notifications received a second, if each notified", |_, size| {
        size.traffic.of_each_commit.received
    }),
    measure("round of sweeps over all accounts, minutes", |_, size| size.sweeps.took_us as f64 / 60e6),
    measure("the same if each node swept all, minutes", |_, size| size.sweeps.unshared_us as f64 / 60e6),
    bounded(
        "round trips a second during a round of sweeps",
        50_000.0,
        "sweeps as fast as each node can",
        |_, size| size.sweeps.round_trips_per_second(),
    ),
    bounded(
        "connections",
        500.0,
        "20 connections of a process (or a pooler in transaction mode)",
        |_, size| size.traffic.connections as f64,
    ),
];

fn print_table(design: &Design, simulated: &[Simulated]) {
    print!("{:<48}", "nodes");
    for size in simulated {
        print!(" {:>10}", size.nodes);
    }
    println!();
    for measure in &MEASURES {
        print!("{:<48}", measure.name);
        for size in simulated {
            print!(" {:>10}", shown((measure.of)(design, size)));
        }
        println!();
    }
}

/// A number with three digits at least.
fn shown(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        ..1e6 => format!("{value:.0}"),
        ..1e9 => format!("{:.1} M", value / 1e6),
        _ => format!("{:.1} G", value / 1e9),
    }
}

/// Prints the size from which on each measure is more than one PostgreSQL is assumed to bear.
fn print_findings(design: &Design, simulated: &[Simulated]) {
    println!("\nWhat must change, and from how many nodes on:");
    for measure in &MEASURES {
        let Some(bearable) = measure.bearable else { continue };
        let first = simulated.iter().find(|size| (measure.of)(design, size) > bearable);
        let from = first.map_or_else(|| "never".to_owned(), |size| size.nodes.to_string());
        println!("{from:>6}  {} (more than {} {})", measure.change, shown(bearable), measure.name);
    }
    let accounts = sweeps::accounts_in_time(design);
    println!("One node sweeps {} accounts by itself before the next round is due.", shown(accounts));
    if let Some(size) = simulated.iter().find(|size| size.traffic.to_one_receiver[0] > 100) {
        let [healthy, fast, failing] = size.traffic.to_one_receiver;
        println!(
            "From {} nodes on, a healthy receiver gets up to {healthy} requests at a time, a fast one {fast}, one that has begun to fail {failing}.",
            size.nodes
        );
    }
    let waking: f64 = simulated.iter().map(|size| size.traffic.of_each_commit.waking).sum();
    println!(
        "Of the notifications of each commit, {} would wake a scheduler, with the default debounce.\n",
        shown(waking)
    );
}

/// What must hold: at every size, and for waits at those that one PostgreSQL is meant for.
fn figures(design: &Design, simulated: &[Simulated]) -> Vec<Figure> {
    let of = |value: &dyn Fn(&Simulated) -> f64, nodes: usize| -> Vec<f64> {
        simulated.iter().filter(|size| size.nodes <= nodes).map(value).collect()
    };
    let most = |values: Vec<f64>| values.into_iter().fold(f64::MIN, f64::max);
    let granted =
        |size: &Simulated| 100.0 * size.exhausted.allowed as f64 / design.requests_per_minute as f64;
    let unaccounted = |size: &Simulated| {
        let outcomes = [&size.calm, &size.beyond, &size.staying, &size.anywhere];
        outcomes.iter().filter(|outcome| !outcome.is_conserved()).count() as f64
    };
    let longest = |size: &Simulated| percentile(&size.beyond.other_waits, 100) as f64 / 1e6;
    let calm_p99 = |size: &Simulated| percentile(&size.calm.other_waits, 99) as f64 / 1e6;
    let sweeps = |size: &Simulated| size.sweeps.took_us as f64 / 60e6;
    // Where the only node is killed, the waits are for its leases.
    let shared = of(&calm_p99, MEANT_FOR).into_iter().skip(1).collect();
    let sweeps = of(&sweeps, MEANT_FOR).pop().unwrap_or(f64::MAX);
    let all = usize::MAX;
    vec![
        Figure::at_most("cases with an analysis lost or done twice", most(of(&unaccounted, all)), "", 0.0),
        Figure::at_most(
            "longest wait beside half of all load, to 30 nodes",
            most(of(&longest, MEANT_FOR)),
            "s",
            2.0,
        ),
        Figure::at_most("p99 of waits, 3 to 30 nodes", most(shared), "s", 2.0),
        Figure::at_most("round of sweeps of 30 nodes", sweeps, "min", 20.0),
        Figure::at_most("most of a budget granted", most(of(&granted, all)), "%", 100.0),
        Figure::at_least("least of a budget granted", -most(of(&|size| -granted(size), all)), "%", 90.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_keeps_to_its_limits_and_the_same_seed_finds_the_same() {
        let design = Design::of_settings().unwrap();
        let tenants = [Tenants::new(3_000, 0.0), Tenants::new(3_000, LARGEST)];
        let found = |seed| {
            let sizes = [1, 3].map(|nodes| simulate(&design, nodes, [&tenants[0], &tenants[1]], seed));
            let values = sizes.iter().flat_map(|size| MEASURES.map(|measure| (measure.of)(&design, size)));
            let values: Vec<String> = values.map(shown).collect();
            assert!(figures(&design, &sizes).iter().all(Figure::is_within_limit), "{values:?}");
            values
        };
        assert_eq!(found(7), found(7));
        assert_ne!(found(7), found(8));
    }

    #[test]
    fn numbers_are_shown_in_few_digits() {
        assert_eq!(
            [0.5, 12.34, 123.4, 1_234_567.0, 5e9].map(shown),
            ["0.50", "12.3", "123", "1.2 M", "5.0 G"]
        );
    }
}
