//! What many nodes ask of one database besides their work: heartbeats, polls, notifications and connections.

use service::HEARTBEAT_LIFETIME;
use service::actions::{FAILING_SENDERS, HEALTHY_SENDERS, MAX_SENDERS};
use service::runtime::HEARTBEAT_INTERVAL;
use service::upkeep::BACKSTOP_INTERVAL;

use super::design::Design;
use super::random::Random;

/// The clock, and a transaction that renews the row, deletes stale ones and counts the others (`Nodes::beat`).
const HEARTBEAT_ROUND_TRIPS: f64 = 6.0;
/// What a node without work asks in a second: the backstop every two seconds, unpaid work twice and the listener's connection once
/// every ten, and whether a round of sweeps is open every minute.
const IDLE_ROUND_TRIPS: f64 = 1.0 / 2.0 + 2.0 / 10.0 + 1.0 / 10.0 + 1.0 / 60.0;
/// Connections of a process: its pool and its listener (`store/src/db/connect.rs`).
const CONNECTIONS: usize = 20;
/// How long the recorder of one node is watched.
const WATCHED_S: f64 = 600.0;

/// Notifications a second.
#[derive(Clone, Copy, Default)]
pub(super) struct Notifications {
    /// Commits that notify: they wait for each other.
    pub(super) commits: f64,
    /// What arrives at all listeners.
    pub(super) received: f64,
    /// Those of them that wake a scheduler before the backstop would.
    pub(super) waking: f64,
}

/// What some nodes ask of their database.
pub(super) struct Traffic {
    pub(super) heartbeats: f64,
    pub(super) heartbeat_rows: f64,
    pub(super) idle: f64,
    /// Commits that notify, and notifications that arrive at all listeners, a second.
    pub(super) notifications: Notifications,
    /// The same if each commit of the recorder notified.
    pub(super) of_each_commit: Notifications,
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
    let of_each_commit = Notifications {
        commits: commits * count,
        received: commits * count * count,
        waking: waking * count * count,
    };
    Traffic {
        heartbeats: beats * HEARTBEAT_ROUND_TRIPS,
        heartbeat_rows: beats * count,
        idle: count * IDLE_ROUND_TRIPS,
        notifications: if notifies(design) { of_each_commit } else { Notifications::default() },
        of_each_commit,
        connections: nodes * CONNECTIONS,
        to_one_receiver: [nodes * HEALTHY_SENDERS, nodes * MAX_SENDERS, nodes * FAILING_SENDERS],
    }
}

/// Whether a commit that schedules analyses notifies: what is due after the backstop looks need not be announced (`schedule_live`).
fn notifies(design: &Design) -> bool {
    u128::from(design.debounce_us) < BACKSTOP_INTERVAL.as_micros()
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
    fn what_nodes_say_to_each_other_grows_with_their_square() {
        let design = Design::of_settings().unwrap();
        let of = |nodes| of(&design, nodes, &mut Random::new(1));
        let (ten, hundred) = (of(10), of(100));
        let growth = |of: fn(&Traffic) -> f64| of(&hundred) / of(&ten);
        assert!((growth(|traffic| traffic.of_each_commit.commits) - 10.0).abs() < 0.01);
        assert!((growth(|traffic| traffic.of_each_commit.received) - 100.0).abs() < 0.1);
        assert!((growth(|traffic| traffic.heartbeat_rows) - 100.0).abs() < 0.1);
    }

    #[test]
    fn only_what_the_backstop_finds_too_late_is_announced() {
        let of_debounce = |debounce_us| {
            let design = Design { debounce_us, ..Design::of_settings().unwrap() };
            of(&design, 10, &mut Random::new(1))
        };
        let (short, long) = (of_debounce(1_000_000), of_debounce(2_000_000));
        assert!(short.notifications.commits > 0.0 && short.notifications.waking > 0.0);
        let sent = long.notifications.commits + long.notifications.received;
        assert!(sent.abs() < f64::EPSILON, "{sent}");
        assert!(long.of_each_commit.waking.abs() < f64::EPSILON, "nobody misses what is not sent");
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
