//! A rolling upgrade: processes of an older binary are replaced by the newer one, one after the other, and some are replaced
//! back, while the load goes on. After each step comes what became of everything that was acknowledged.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::failover::{ANSWERED, wait_for_answers};
use crate::journal::Journal;
use crate::load::Load;
use crate::node::Node;
use crate::random::Random;
use crate::round::{self, Outcome, Strike};
use crate::system::System;
use crate::{Result, exchange, lock, say};

/// How long the load goes on when every process has answered.
const AFTER: Duration = Duration::from_secs(3);

/// A step of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing changes yet.
    Before,
    /// The newer binary migrates, while every process runs the older one.
    Migrate,
    /// A process is replaced by the newer binary.
    Forward(usize),
    /// A process is replaced by the older binary.
    Back(usize),
}

/// Two binaries, and what is still to be done.
pub(crate) struct Upgrade {
    pub(crate) older: PathBuf,
    newer: PathBuf,
    progress: Mutex<Progress>,
}

struct Progress {
    steps: VecDeque<Step>,
    /// Whether the older binary can be started on the schema as it is.
    is_carried: bool,
}

impl Upgrade {
    pub(crate) fn new(older: PathBuf, newer: PathBuf) -> Self {
        let steps = [Step::Before, Step::Migrate].into();
        Self { older, newer, progress: Mutex::new(Progress { steps, is_carried: true }) }
    }

    /// The next step; none at the end.
    pub(crate) fn next(&self) -> Option<Step> {
        lock(&self.progress).steps.pop_front()
    }

    async fn take(&self, system: &System, step: Step, seed: u64) -> Result<()> {
        match step {
            Step::Before => Ok(()),
            Step::Migrate => self.migrate(system, seed).await,
            Step::Forward(node) => self.replace(&system.nodes[node], &self.newer).await,
            Step::Back(node) => self.replace(&system.nodes[node], &self.older).await,
        }
    }

    /// Migrates, and finds out what is possible from then on.
    async fn migrate(&self, system: &System, seed: u64) -> Result<()> {
        let (before, begun) = (system.database.schema().await?, Instant::now());
        system.run(&self.newer, &["migrate"]).await?;
        let took = begun.elapsed();
        system.command_with(&self.newer);
        let refused = match system.run(&self.older, &["migrate"]).await {
            Ok(_) => None,
            Err(error) if error.to_string().contains("run the newer auspex") => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        say(&format!(
            "upgrade: schema {before} became {} within {:.1} s, under load; {}",
            system.database.schema().await?,
            took.as_secs_f64(),
            refused.as_ref().map_or("it carries the older binary".to_owned(), |reason| format!(
                "the older binary does not start on it, so that none is killed or put back: {}",
                reason.lines().last().unwrap_or_default()
            ))
        ));
        let mut progress = lock(&self.progress);
        progress.is_carried = refused.is_none();
        let steps = steps(seed, progress.is_carried);
        progress.steps.extend(steps);
        Ok(())
    }

    async fn replace(&self, node: &Node, binary: &Path) -> Result<()> {
        let ended = node.terminate().await;
        node.install(binary);
        node.start()?;
        ended
    }

    /// Whether a process that ends can be started again.
    fn can_start(&self, node: &Node) -> bool {
        lock(&self.progress).is_carried || node.runs(&self.newer)
    }

    /// One of the processes of each binary, or two of the only one.
    fn struck(&self, system: &System, random: &mut Random) -> [usize; 2] {
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        let is_newer = |node: usize| system.nodes[node].runs(&self.newer);
        let other = order[1..].iter().find(|node| is_newer(**node) != is_newer(order[0]));
        [order[0], *other.unwrap_or(&order[1])]
    }

    /// What runs where, as text.
    fn mixture(&self, system: &System) -> String {
        let name = |node: &Node| if node.runs(&self.newer) { "newer" } else { "older" };
        system.nodes.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// The steps after the migration: each mixture of binaries on the way forward, and on the way back where it is possible.
fn steps(seed: u64, is_carried: bool) -> Vec<Step> {
    let mut order = [0, 1, 2];
    Random::new(seed, "upgrade order").shuffle(&mut order);
    let [one, two, three] = order;
    if is_carried {
        vec![
            Step::Forward(one),
            Step::Back(one),
            Step::Forward(one),
            Step::Forward(two),
            Step::Back(one),
            Step::Forward(one),
            Step::Forward(three),
        ]
    } else {
        vec![Step::Forward(one), Step::Forward(two), Step::Forward(three)]
    }
}

/// Takes a step, with load before and after it.
pub(crate) async fn run(
    system: &Arc<System>,
    upgrade: &Upgrade,
    step: Step,
    journal: &Arc<Journal>,
    seed: u64,
    number: usize,
) -> Result<Outcome> {
    let mut random = Random::new(seed, &format!("upgrade step {number}"));
    round::refill_poor(system).await?;
    let (begun, mut strikes, mut wrong) = (Instant::now(), Vec::new(), Vec::new());
    let load = Load::start(system, journal, seed, number);
    sleep(Duration::from_millis(random.between(2_000, 5_000))).await;
    let from = Instant::now();
    wrong.extend(upgrade.take(system, step, seed).await.err().map(|error| error.to_string()));
    if let Step::Forward(node) | Step::Back(node) = step {
        strikes.push(Strike { node: Some(node), from, to: Instant::now() });
    }
    sleep(Duration::from_millis(random.between(4_000, 8_000))).await;
    let mut told = Vec::new();
    for node in upgrade.struck(system, &mut random) {
        let from = Instant::now();
        told.push(strike(upgrade, &system.nodes[node], node, &mut random).await?);
        strikes.push(Strike { node: Some(node), from, to: Instant::now() });
        sleep(Duration::from_millis(random.between(1_000, 4_000))).await;
    }
    let answers = wait_for_answers(system, journal, Instant::now()).await;
    sleep(AFTER).await;
    load.stop().await;
    say(&format!("upgrade step {number}: {step}; now {}; {}", upgrade.mixture(system), told.join(", ")));
    for (node, answer) in answers.iter().enumerate() {
        if answer.is_none_or(|answer| answer > ANSWERED) {
            wrong.push(format!("node {node} acknowledged nothing for {} s", ANSWERED.as_secs()));
        }
    }
    let exits: u64 = system.nodes.iter().map(Node::exits).sum();
    if exits > 0 {
        wrong.push(format!("processes ended by themselves {exits} times"));
    }
    let acknowledged = journal.take_acknowledged();
    wrong.extend(round::silences(system.nodes.len(), begun, Instant::now(), &strikes, &acknowledged));
    wrong.extend(exchange::check(system, number).await?);
    let name = format!("upgrade step {number}");
    round::conclude(system, journal, &name, Instant::now(), strikes.len(), wrong).await
}

/// Kills a process and starts it again; one that could not be started again is frozen.
async fn strike(upgrade: &Upgrade, node: &Node, number: usize, random: &mut Random) -> Result<String> {
    if upgrade.can_start(node) {
        node.kill().await;
        sleep(Duration::from_millis(random.between(200, 3_000))).await;
        node.start()?;
        return Ok(format!("killed node {number}"));
    }
    node.signal("STOP").await;
    sleep(Duration::from_millis(random.between(5_000, 9_000))).await;
    node.signal("CONT").await;
    Ok(format!("froze node {number}"))
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before => write!(formatter, "before the upgrade"),
            Self::Migrate => write!(formatter, "migrated"),
            Self::Forward(node) => write!(formatter, "node {node} is of the newer binary"),
            Self::Back(node) => write!(formatter, "node {node} is of the older binary again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mixture_is_run_forward_and_back_and_all_end_newer() {
        for (seed, is_carried) in [(1, true), (2, true), (1, false), (2, false)] {
            let (mut newer, mut mixtures) = ([false; 3], Vec::new());
            for step in steps(seed, is_carried) {
                match step {
                    Step::Forward(node) => assert!(!std::mem::replace(&mut newer[node], true)),
                    Step::Back(node) => assert!(std::mem::replace(&mut newer[node], false)),
                    Step::Before | Step::Migrate => unreachable!("it is over"),
                }
                mixtures.push(newer.iter().filter(|newer| **newer).count());
            }
            let expected: &[usize] = if is_carried { &[1, 0, 1, 2, 1, 2, 3] } else { &[1, 2, 3] };
            assert_eq!(mixtures, expected);
        }
    }
}
