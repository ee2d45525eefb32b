//! The round of sweeps (`service/src/upkeep/sweeper.rs`): processes claim accounts in turn until none are left, and each sweeps what
//! it has claimed. Nothing is to be deleted: what is counted is the looking.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use service::upkeep::SWEEP_INTERVAL;

use super::design::Design;
use super::random::Random;

/// Accounts that a process claims at a time, and how often it looks whether a round is open.
const CLAIMED: usize = 32;
const LOOK_INTERVAL_US: u64 = 60_000_000;
/// What the sweep of an account with nothing to delete asks: twelve transactions with 18 statements; five reads, which begin a
/// transaction too, for their limits; and two plain ones.
const ROUND_TRIPS_OF_ACCOUNT: u64 = 12 * 2 + 18 + 5 * 3 + 2;
/// A claim begins a transaction; the lock, the accounts, how far the round is, and the commit are what other claims wait for.
const ROUND_TRIPS_OF_CLAIM: u64 = 5;

/// What a round of sweeps over all accounts took.
#[derive(Debug, PartialEq)]
pub(super) struct SweepRound {
    /// From the first claim to the last account.
    pub(super) took_us: u64,
    pub(super) swept: usize,
    pub(super) round_trips: u64,
    /// The round that each process would make over all accounts by itself.
    pub(super) unshared_us: u64,
}

impl SweepRound {
    /// The round trips of all processes in a second of it.
    pub(super) fn round_trips_per_second(&self) -> f64 {
        self.round_trips as f64 * 1e6 / self.took_us as f64
    }
}

/// A round over so many accounts, which any process may begin.
pub(super) fn round(design: &Design, nodes: usize, accounts: usize, random: &mut Random) -> SweepRound {
    let round_trip = design.round_trip_us;
    let looks = (0..nodes).map(|node| Reverse((random.below(LOOK_INTERVAL_US as usize) as u64, node)));
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = looks.collect();
    let begun = free.peek().map_or(0, |Reverse((at, _))| *at);
    let (mut unlocked_at, mut ended, mut swept, mut round_trips) = (begun, begun, 0, 0);
    while let Some(Reverse((now, node))) = free.pop() {
        let locked_at = unlocked_at.max(now + round_trip);
        unlocked_at = locked_at + (ROUND_TRIPS_OF_CLAIM - 1) * round_trip;
        let claimed = CLAIMED.min(accounts - swept);
        swept += claimed;
        let asked = claimed as u64 * ROUND_TRIPS_OF_ACCOUNT;
        round_trips += ROUND_TRIPS_OF_CLAIM + asked;
        let done_at = unlocked_at + asked * round_trip;
        ended = ended.max(done_at);
        if claimed < CLAIMED {
            break;
        }
        free.push(Reverse((done_at, node)));
    }
    let unshared_us = accounts as u64 * ROUND_TRIPS_OF_ACCOUNT * round_trip;
    SweepRound { took_us: ended - begun, swept, round_trips, unshared_us }
}

/// How many accounts one process sweeps by itself before the next round is due.
pub(super) fn accounts_in_time(design: &Design) -> f64 {
    SWEEP_INTERVAL.as_micros() as f64 / (ROUND_TRIPS_OF_ACCOUNT * design.round_trip_us) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_is_swept_once_and_many_processes_share_them() {
        let design = Design::of_settings().unwrap();
        let [one, ten] = [1, 10].map(|nodes| round(&design, nodes, 100_001, &mut Random::new(1)));
        assert_eq!([one.swept, ten.swept], [100_001; 2]);
        assert_eq!(one.round_trips, ten.round_trips);
        // They start within a minute.
        let shared = one.took_us / 10;
        assert!((shared..shared + LOOK_INTERVAL_US).contains(&ten.took_us), "{one:?} {ten:?}");
    }

    #[test]
    fn claims_wait_for_each_other() {
        let design = Design::of_settings().unwrap();
        let accounts = 1_000_000;
        let round = round(&design, 5_000, accounts, &mut Random::new(1));
        let claims = (accounts / CLAIMED) as u64;
        assert!(round.took_us >= claims * (ROUND_TRIPS_OF_CLAIM - 1) * design.round_trip_us, "{round:?}");
    }
}
