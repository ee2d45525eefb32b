//! What many nodes ask of one database besides their work: heartbeats, polls, notifications, sweeps and connections.

use std::time::Duration;

use service::HEARTBEAT_LIFETIME;
use service::actions::{FAILING_SENDERS, HEALTHY_SENDERS, MAX_SENDERS};
use service::runtime::HEARTBEAT_INTERVAL;
use service::upkeep::{BACKSTOP_INTERVAL, SWEEP_INTERVAL};

use super::design::Design;
use super::random::Random;

/// The clock, and a transaction that renews the row, deletes stale ones and counts the others (`Nodes::beat`).
const HEARTBEAT_ROUND_TRIPS: f64 = 6.0;
/// What a node without work asks in a second: the scheduler, the feeder, trials and the courier (two statements) each second, two
/// outboxes every two, unpaid work and the listener's connection every ten.
const IDLE_ROUND_TRIPS: f64 = 1.0 + 1.0 + 1.0 + 2.0 + 1.0 + 0.2;
/// What a sweep asks about an account with nothing to sweep: twelve transactions and seven reads (`Sweeper::sweep`).
pub(super) const SWEEP_ROUND_TRIPS: f64 = 12.0 * 3.0 + 7.0;
/// Connections of a process: its pool and its listener (`store/src/db/connect.rs`).
const CONNECTIONS: usize = 20;
/// How long the recorder of one node is watched.
const WATCHED_S: f64 = 600.0;

/// What some nodes ask of their database.
pub(super) struct Traffic {
    pub(super) heartbeats: f64,
    pub(super) heartbeat_rows: f64,
    pub(super) idle: f64,
    /// Commits that notify, a second.
    pub(super) notifying: f64,
    /// Notifications that arrive at all listeners, a second.
    pub(super) notified: f64,
    /// Those of them that wake a scheduler.
    pub(super) waking: f64,
    pub(super) connections: usize,
    /// Requests in flight to one receiver that is healthy, fast, or failing and does not rest yet.
    pub(super) to_one_receiver: [usize; 3],
}

pub(super) fn of(design: &Design, nodes: usize, random: &mut Random) -> Traffic {
    let count = nodes as f64;
    let beats = count / HEARTBEAT_INTERVAL.as_secs_f64();
    let requests = design.requests_per_second(nodes) / count;
    let (commits, waking) = commits_of_a_node(design, requests, random);
    // A node that crashes is counted until its heartbeat expires: its row is read meanwhile, too.
    debug_assert!(HEARTBEAT_LIFETIME > HEARTBEAT_INTERVAL);
    Traffic {
        heartbeats: beats * HEARTBEAT_ROUND_TRIPS,
        heartbeat_rows: beats * count,
        idle: count * IDLE_ROUND_TRIPS,
        notifying: commits * count,
        notified: commits * count * count,
        waking: waking * count * count,
        connections: nodes * CONNECTIONS,
        to_one_receiver: [nodes * HEALTHY_SENDERS, nodes * MAX_SENDERS, nodes * FAILING_SENDERS],
    }
}

/// The round trips of the sweeps of all nodes in a second: each sweeps all accounts.
pub(super) fn of_sweeps(nodes: usize, tenants: usize) -> f64 {
    nodes as f64 * tenants as f64 * SWEEP_ROUND_TRIPS / SWEEP_INTERVAL.as_secs_f64()
}

/// How many accounts one node can sweep before the next sweep is due.
pub(super) fn accounts_swept_in_time(round_trip: Duration) -> f64 {
    SWEEP_INTERVAL.as_secs_f64() / (SWEEP_ROUND_TRIPS * round_trip.as_secs_f64())
}

/// How often the recorder of a node commits in a second, and how many of its notifications wake a scheduler before the backstop
/// would: each writes all requests that came during the commit before (`GroupWriter`).
fn commits_of_a_node(design: &Design, requests: f64, random: &mut Random) -> (f64, f64) {
    let (poll, end) = (BACKSTOP_INTERVAL.as_micros() as u64, (WATCHED_S * 1e6) as u64);
    let (mut commits, mut waking) = (0_u64, 0_u64);
    let (mut arrives, mut free_at) = (random.gap(requests), 0);
    while arrives < end {
        let begun = arrives.max(free_at);
        free_at = begun + design.commit_us;
        // All that has come until now is in this commit.
        while arrives <= begun {
            arrives += random.gap(requests);
        }
        commits += 1;
        let next_poll = begun + random.below(poll as usize) as u64;
        // A scheduler sleeps no longer than until the backstop wakes it; a notification matters only for what is due before.
        waking += u64::from(begun + design.debounce_us < next_poll);
    }
    (commits as f64 / WATCHED_S, waking as f64 / WATCHED_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_grow_with_the_square_of_the_nodes() {
        let design = Design::of_settings().unwrap();
        let of = |nodes| of(&design, nodes, &mut Random::new(1));
        let (ten, hundred) = (of(10), of(100));
        assert!((hundred.notifying / ten.notifying - 10.0).abs() < 0.01);
        assert!((hundred.notified / ten.notified - 100.0).abs() < 0.1);
        assert!((hundred.heartbeat_rows / ten.heartbeat_rows - 100.0).abs() < 0.1);
    }

    #[test]
    fn a_recorder_commits_no_more_often_than_it_can() {
        let design = Design::of_settings().unwrap();
        let (commits, _) = commits_of_a_node(&design, 20_000.0, &mut Random::new(1));
        let most = 1e6 / design.commit_us as f64;
        // The last one may end after the time that is watched.
        assert!((0.9 * most..=most + 1.0).contains(&commits), "{commits}");
    }
}
