//! A failover: load, a primary that falls, then what became of everything that was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::{Cluster, Fall};
use crate::journal::Journal;
use crate::load::Load;
use crate::node::Node;
use crate::random::Random;
use crate::round::{self, Outcome};
use crate::system::System;
use crate::{Result, say};

/// How long every process may take to acknowledge requests again once there is a new primary.
pub(crate) const ANSWERED: Duration = Duration::from_secs(15);
/// How long one is waited for that takes longer.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the load goes on with both members.
const AFTER: Duration = Duration::from_secs(3);

/// What a seed has drawn for a failover.
struct Drawn {
    fall: Fall,
    /// How long there is load before.
    before: Duration,
    /// How long the load goes on with the new primary until the old one comes back.
    alone: Duration,
}

/// Falls come out of a shuffled deck, so that each of them comes as often as the others.
fn draw(seed: u64, number: usize) -> Drawn {
    let mut deck = Fall::ALL;
    Random::new(seed, &format!("cluster deck {}", number / deck.len())).shuffle(&mut deck);
    let mut random = Random::new(seed, &format!("cluster failover {number}"));
    Drawn {
        fall: deck[number % deck.len()],
        before: Duration::from_millis(random.between(2_000, 6_000)),
        alone: Duration::from_millis(random.between(1_000, 8_000)),
    }
}

/// Runs a failover.
pub(crate) async fn run(
    system: &Arc<System>,
    cluster: &Cluster,
    journal: &Arc<Journal>,
    seed: u64,
    number: usize,
) -> Result<Outcome> {
    let Drawn { fall, before, alone } = draw(seed, number);
    let old = cluster.wait_until_redundant().await?;
    round::refill_poor(system).await?;
    let mut wrong = Vec::new();
    let load = Load::start(system, journal, seed, number);
    tokio::time::sleep(before).await;
    let fell = Instant::now();
    cluster.fell(old, fall).await?;
    let promoted = cluster.wait_for_primary(1 - old).await?;
    let answers = wait_for_answers(system, journal, promoted).await;
    tokio::time::sleep(alone).await;
    cluster.raise(old, fall)?;
    let raised = Instant::now();
    let redundant = cluster.wait_until_redundant().await;
    let rejoined = raised.elapsed();
    tokio::time::sleep(AFTER).await;
    load.stop().await;
    let lifted = Instant::now();
    wrong.extend(redundant.err().map(|error| error.to_string()));
    let seconds = |after: &Option<Duration>| match after {
        Some(after) => format!("{:.1} s", after.as_secs_f64()),
        None => "never".to_owned(),
    };
    say(&format!(
        "failover {number}: {fall:?} of {}; {} was the primary {:.1} s later, the processes acknowledged {} after that; a \
         synchronous standby {:.1} s after the old one was let back",
        cluster.name(old),
        cluster.name(1 - old),
        promoted.duration_since(fell).as_secs_f64(),
        answers.iter().map(seconds).collect::<Vec<_>>().join(", "),
        rejoined.as_secs_f64(),
    ));
    for (node, answer) in answers.iter().enumerate() {
        if answer.is_none_or(|answer| answer > ANSWERED) {
            wrong.push(format!("node {node} acknowledged {} after the new primary", seconds(answer)));
        }
    }
    let exits: u64 = system.nodes.iter().map(Node::exits).sum();
    if exits > 0 {
        wrong.push(format!("processes ended by themselves {exits} times"));
    }
    journal.take_acknowledged();
    round::conclude(system, journal, &format!("failover {number}"), lifted, 1, wrong).await
}

/// Waits until every process has acknowledged something since, and returns how long each took.
pub(crate) async fn wait_for_answers(
    system: &System,
    journal: &Journal,
    since: Instant,
) -> Vec<Option<Duration>> {
    let answers = || -> Vec<Option<Duration>> {
        let first = |node| journal.acknowledged_after(node, since);
        (0..system.nodes.len()).map(|node| first(node).map(|at| at.duration_since(since))).collect()
    };
    while answers().iter().any(Option::is_none) && since.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    answers()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failovers_have_each_fall_at_least_twice() {
        for seed in 0..20 {
            let falls: Vec<Fall> = (0..10).map(|number| draw(seed, number).fall).collect();
            for fall in Fall::ALL {
                assert!(falls.iter().filter(|drawn| **drawn == fall).count() >= 2, "{seed}: {falls:?}");
            }
        }
    }
}
