//! The schedule of a round: which faults strike whom, when and for how long. A pure function of seed, system and round.

use std::fmt;
use std::time::Duration;

use crate::peer::Manner;
use crate::random::Random;

/// The number of faults in a round.
const FAULTS: usize = 3;

/// A kind of fault, as `--without` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// kill -9, then a new start.
    Kill,
    /// SIGTERM, then a new start.
    Terminate,
    /// SIGSTOP, then SIGCONT.
    Freeze,
    /// The database is slow, for one node.
    Delay,
    /// The connections of one node to the database are cut.
    Cut,
    /// The connections of one node to the database, or some of them, say nothing any more.
    Stall,
    /// `pg_ctl restart -m immediate`.
    Restart,
    /// The clock of one node is off.
    Clock,
    /// No room on the disk of the database.
    Disk,
    /// Receivers of webhooks hang, drip and lie.
    Receivers,
    /// The analyzer hangs, drips and lies.
    Analyzer,
}

/// What the connections to the database go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Everything passes.
    Fair,
    /// Everything passes this much later.
    Delay(Duration),
    /// Connections end, and new ones too.
    Cut,
    /// This many of a hundred connections pass nothing on and stay open.
    Stall(u64),
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    Terminate,
    Freeze,
    Weather(Weather),
    RestartDatabase,
    /// The offset in milliseconds.
    Clock(i64),
    FillDisk,
    Receivers(Manner),
    Analyzer(Manner),
}

/// A fault of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) action: Action,
    /// The node that it strikes; those that strike all have it too, unused.
    pub(crate) node: usize,
    pub(crate) begins: Duration,
    pub(crate) lasts: Duration,
}

impl Fault {
    /// Whether every node feels it.
    pub(crate) fn strikes_all(&self) -> bool {
        matches!(self.action, Action::RestartDatabase | Action::FillDisk)
    }

    /// Whether a node that it strikes may stop answering.
    pub(crate) fn stops_nodes(&self) -> bool {
        !matches!(self.action, Action::Receivers(_) | Action::Analyzer(_))
    }
}

/// The faults of a round. Kinds come out of a shuffled deck, so that even a short run draws each of them.
pub(crate) fn draw(seed: u64, system: &str, round: usize, kinds: &[Kind], nodes: usize) -> Vec<Fault> {
    let mut random = Random::new(seed, &format!("{system} round {round}"));
    (round * FAULTS..(round + 1) * FAULTS)
        .map(|card| {
            let mut deck = kinds.to_vec();
            Random::new(seed, &format!("{system} deck {}", card / kinds.len())).shuffle(&mut deck);
            fault(deck[card % kinds.len()], nodes, &mut random)
        })
        .collect()
}

fn fault(kind: Kind, nodes: usize, random: &mut Random) -> Fault {
    const HOUR_MS: i64 = 3_600_000;
    let action = match kind {
        Kind::Kill => Action::Kill,
        Kind::Terminate => Action::Terminate,
        Kind::Freeze => Action::Freeze,
        Kind::Delay => Action::Weather(Weather::Delay(Duration::from_millis(random.between(20, 300)))),
        Kind::Cut => Action::Weather(Weather::Cut),
        Kind::Stall => Action::Weather(Weather::Stall(random.pick(&[15, 50, 100]))),
        Kind::Restart => Action::RestartDatabase,
        Kind::Clock => Action::Clock(random.pick(&[
            -HOUR_MS,
            -30_000,
            -1_500,
            1_500,
            30_000,
            HOUR_MS,
            40 * 24 * HOUR_MS,
        ])),
        Kind::Disk => Action::FillDisk,
        Kind::Receivers => Action::Receivers(random.pick(&[
            Manner::Fail,
            Manner::Throttle,
            Manner::Hang,
            Manner::Drip,
            Manner::Cut,
            Manner::Garbage,
        ])),
        Kind::Analyzer => Action::Analyzer(random.pick(&[
            Manner::Fail,
            Manner::Throttle,
            Manner::Hang,
            Manner::Drip,
            Manner::Cut,
            Manner::Garbage,
            Manner::Lie,
        ])),
    };
    let lasts = match kind {
        Kind::Kill | Kind::Terminate | Kind::Restart => random.between(200, 4_000),
        // Long enough to show whether the others go on.
        Kind::Freeze | Kind::Stall => random.between(5_000, 18_000),
        Kind::Delay | Kind::Cut | Kind::Disk => random.between(2_000, 8_000),
        Kind::Clock | Kind::Receivers | Kind::Analyzer => random.between(3_000, 8_000),
    };
    Fault {
        action,
        node: random.index(nodes),
        begins: Duration::from_millis(random.between(500, 6_000)),
        lasts: Duration::from_millis(lasts),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node;
        match self.action {
            Action::Kill => write!(formatter, "kill node {node}"),
            Action::Terminate => write!(formatter, "terminate node {node}"),
            Action::Freeze => write!(formatter, "freeze node {node}"),
            Action::Weather(Weather::Fair) => write!(formatter, "nothing"),
            Action::Weather(Weather::Delay(delay)) => {
                write!(formatter, "delay the database of node {node} by {} ms", delay.as_millis())
            }
            Action::Weather(Weather::Cut) => write!(formatter, "cut the database of node {node}"),
            Action::Weather(Weather::Stall(share)) => {
                write!(formatter, "stall {share} % of the database connections of node {node}")
            }
            Action::RestartDatabase => write!(formatter, "restart the database"),
            Action::Clock(offset) => write!(formatter, "put the clock of node {node} off by {offset} ms"),
            Action::FillDisk => write!(formatter, "fill the disk"),
            Action::Receivers(manner) => write!(formatter, "receivers: {manner}"),
            Action::Analyzer(manner) => write!(formatter, "analyzer: {manner}"),
        }?;
        write!(formatter, " at {:.1} s for {:.1} s", self.begins.as_secs_f64(), self.lasts.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn a_seed_fixes_the_schedule() {
        let kinds = Kind::value_variants();
        for round in 0..20 {
            assert_eq!(draw(7, "postgres", round, kinds, 3), draw(7, "postgres", round, kinds, 3));
            assert_ne!(draw(7, "postgres", round, kinds, 3), draw(8, "postgres", round, kinds, 3));
            assert_ne!(draw(7, "postgres", round, kinds, 3), draw(7, "sqlite", round, kinds, 3));
        }
        // Pinned: an old seed must not come to mean another schedule unnoticed.
        let shown: Vec<String> = draw(1, "postgres", 0, kinds, 3).iter().map(Fault::to_string).collect();
        assert_eq!(
            shown,
            [
                "analyzer: garbage at 1.7 s for 7.5 s",
                "put the clock of node 1 off by 3600000 ms at 3.0 s for 6.1 s",
                "terminate node 1 at 3.1 s for 1.3 s"
            ]
        );
    }

    #[test]
    fn every_kind_is_drawn_once_a_deck() {
        let kinds = Kind::value_variants();
        let faults: Vec<Fault> = (0..11).flat_map(|round| draw(3, "postgres", round, kinds, 3)).collect();
        let freezes = faults.iter().filter(|fault| fault.action == Action::Freeze).count();
        let restarts = faults.iter().filter(|fault| fault.action == Action::RestartDatabase).count();
        assert_eq!((faults.len(), freezes, restarts), (33, 3, 3));
        assert!(faults.iter().all(|fault| fault.node < 3));
    }
}
