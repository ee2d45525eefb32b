//! What this process holds in its hands: for each endpoint a lane of claimed deliveries and the tasks that send them.
//!
//! How much a lane may hold depends on how its receiver does: one that is quick gets many at a time and the next ones are
//! claimed ahead, one that fails or has shown nothing yet gets few. So slow receivers take little of what others need.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::attempt::Parcel;

/// Requests under way at a time, to all receivers together.
const PLACES: usize = 256;
/// How many of them receivers may hold that have not shown to be well.
const UNPROVEN_PLACES: usize = PLACES / 2;
/// Requests under way at a time to a receiver that is well.
const PROVEN: usize = 8;
/// And to one that has not shown it.
const UNPROVEN: usize = 2;
/// Failures in a row after which a receiver is not well.
const TOLERATED: u32 = 1;
/// Deliveries are claimed ahead for about this long.
const AHEAD: Duration = Duration::from_millis(250);
/// The most that one lane holds.
const MAX_DEPTH: usize = 512;
/// The most that all lanes hold.
const MAX_HELD: usize = 4_096;
/// Lanes that are remembered for how their receivers did, while they hold nothing.
const REMEMBERED: usize = 1_000;

/// The lanes of all endpoints.
#[derive(Default)]
pub(super) struct Board(Mutex<HashMap<Uuid, Lane>>);

/// What is held of one endpoint.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Parcel>,
    /// Tasks that send, each one at a time.
    senders: usize,
    /// Whether the receiver has taken a delivery lately.
    is_proven: bool,
    failures: u32,
    /// How long an attempt takes, smoothed.
    pace: Duration,
}

/// What an endpoint may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Deliveries to claim.
    pub(super) parcels: usize,
    /// Tasks to start for them.
    pub(super) senders: usize,
}

impl Lane {
    fn is_well(&self) -> bool {
        self.is_proven && self.failures <= TOLERATED
    }

    fn max_senders(&self) -> usize {
        if self.is_well() { PROVEN } else { UNPROVEN }
    }

    /// How much it may hold in all.
    fn depth(&self) -> usize {
        if !self.is_well() {
            return UNPROVEN;
        }
        let rounds = AHEAD.as_micros() / self.pace.as_micros().max(1);
        usize::try_from(rounds).unwrap_or(MAX_DEPTH).saturating_mul(PROVEN).clamp(PROVEN, MAX_DEPTH)
    }

    fn held(&self) -> usize {
        self.waiting.len() + self.senders
    }
}

impl Board {
    fn lanes(&self) -> MutexGuard<'_, HashMap<Uuid, Lane>> {
        // No lane has a half-done state that a panic elsewhere could leave behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each of these endpoints may be given, in their order; the places that are free are shared out among them.
    pub(super) fn rooms(&self, endpoints: &[Uuid]) -> Vec<Room> {
        let lanes = self.lanes();
        let (mut busy, mut unproven, mut held) = (0, 0, 0);
        for lane in lanes.values() {
            busy += lane.senders;
            held += lane.held();
            unproven += if lane.is_well() { 0 } else { lane.senders };
        }
        let fresh = Lane::default();
        let mut rooms = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in endpoints.iter().enumerate() {
            let lane = lanes.get(endpoint).unwrap_or(&fresh);
            let mut free = PLACES.saturating_sub(busy);
            if !lane.is_well() {
                free = free.min(UNPROVEN_PLACES.saturating_sub(unproven));
            }
            let share = free.div_ceil(endpoints.len() - index);
            let senders = lane.max_senders().saturating_sub(lane.senders).min(share);
            let depth = lane.depth();
            // Half-full is full enough: few large claims cost less than many small ones.
            let wanted = if lane.held() * 2 > depth { 0 } else { depth - lane.held() };
            let parcels = wanted.min(MAX_HELD.saturating_sub(held).div_ceil(endpoints.len() - index));
            // Without anybody to send them they would only wait here instead of there.
            let can_send = lane.senders + senders > 0;
            let room = if can_send { Room { parcels, senders } } else { Room { parcels: 0, senders: 0 } };
            let starts = room.senders.min(room.parcels);
            busy += starts;
            held += room.parcels;
            unproven += if lane.is_well() { 0 } else { starts };
            rooms.push(room);
        }
        rooms
    }

    /// Takes parcels of an endpoint into its lane, and says how many tasks to start for them.
    pub(super) fn put(&self, endpoint: Uuid, parcels: Vec<Parcel>, room: Room) -> usize {
        let mut lanes = self.lanes();
        let lane = lanes.entry(endpoint).or_default();
        let starts = room.senders.min(parcels.len());
        lane.senders += starts;
        lane.waiting.extend(parcels);
        starts
    }

    /// The next parcel for a task that sends; none tells it to end.
    pub(super) fn next(&self, endpoint: Uuid) -> Option<Parcel> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&endpoint)?;
        let next = if lane.senders > lane.max_senders() { None } else { lane.waiting.pop_front() };
        if next.is_none() {
            lane.senders -= 1;
            if lanes.len() > REMEMBERED && lanes.get(&endpoint).is_some_and(|lane| lane.held() == 0) {
                lanes.remove(&endpoint);
            }
        }
        next
    }

    /// Learns how an attempt went. Returns what is given back because the receiver is not well.
    pub(super) fn learn(&self, endpoint: Uuid, is_success: bool, took: Duration) -> Vec<Parcel> {
        let mut lanes = self.lanes();
        let lane = lanes.entry(endpoint).or_default();
        if is_success {
            lane.pace = if lane.is_proven { (lane.pace * 7 + took) / 8 } else { took };
            lane.is_proven = true;
            lane.failures = 0;
            return Vec::new();
        }
        lane.failures = lane.failures.saturating_add(1);
        if lane.failures <= TOLERATED {
            return Vec::new();
        }
        lane.is_proven = false;
        lane.waiting.drain(..).collect()
    }

    /// Gives back everything that is not being sent.
    pub(super) fn clear(&self) -> Vec<Parcel> {
        self.lanes().values_mut().flat_map(|lane| lane.waiting.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{TenantId, Timestamp};
    use store::deliveries::{Claimed, Lease};

    use super::super::attempt::Destination;
    use super::*;

    fn parcels(count: usize) -> Vec<Parcel> {
        let destination = Arc::new(Destination {
            tenant: TenantId(Uuid::nil()),
            endpoint_id: Uuid::nil(),
            url: "http://example.com/".parse().unwrap(),
            secret: String::new(),
        });
        let parcel = |_| Parcel {
            destination: Arc::clone(&destination),
            delivery: Claimed {
                delivery_id: Uuid::nil(),
                event_type: String::new(),
                payload: String::new(),
                attempts: 0,
                max_attempts: 6,
            },
            lease: Lease { token: Uuid::nil(), until: Timestamp::from_seconds(0) },
            is_probe: false,
        };
        (0..count).map(parcel).collect()
    }

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn a_receiver_earns_its_places_and_loses_them() {
        let board = Board::default();
        let few = Room { parcels: 2, senders: 2 };
        assert_eq!(board.rooms(&[id(1)]), [few]);
        assert_eq!(board.put(id(1), parcels(2), few), 2);
        assert_eq!(board.rooms(&[id(1)]), [Room { parcels: 0, senders: 0 }]);
        assert!(board.next(id(1)).is_some() && board.next(id(1)).is_some());
        assert!(board.learn(id(1), true, Duration::from_millis(1)).is_empty());
        let many = board.rooms(&[id(1)])[0];
        assert_eq!(many, Room { parcels: MAX_DEPTH - 2, senders: PROVEN - 2 });
        assert_eq!(board.put(id(1), parcels(many.parcels), many), PROVEN - 2);
        // One failure among many successes is nothing; two in a row give back what was claimed ahead.
        assert!(board.learn(id(1), false, Duration::from_secs(10)).is_empty());
        assert_eq!(board.learn(id(1), false, Duration::from_secs(10)).len(), MAX_DEPTH - 2);
        for _ in 0..PROVEN {
            assert!(board.next(id(1)).is_none());
        }
        assert_eq!(board.rooms(&[id(1)]), [few]);
    }

    #[test]
    fn a_slow_receiver_is_not_claimed_ahead_for() {
        let board = Board::default();
        board.learn(id(1), true, Duration::from_secs(3));
        assert_eq!(board.rooms(&[id(1)]), [Room { parcels: PROVEN, senders: PROVEN }]);
    }

    #[test]
    fn receivers_that_are_not_well_leave_half_of_the_places_to_others() {
        let board = Board::default();
        let endpoints: Vec<Uuid> = (0..200).map(id).collect();
        let rooms = board.rooms(&endpoints);
        for (endpoint, room) in endpoints.iter().zip(&rooms) {
            board.put(*endpoint, parcels(room.parcels), *room);
        }
        let busy: usize = rooms.iter().map(|room| room.senders.min(room.parcels)).sum();
        assert_eq!(busy, UNPROVEN_PLACES);
        let (sick, well) = (id(1_000), id(1_001));
        board.learn(well, true, Duration::from_millis(5));
        let rooms = board.rooms(&[sick, well]);
        assert_eq!(rooms[0], Room { parcels: 0, senders: 0 });
        assert_eq!(rooms[1].senders, PROVEN);
    }

    #[test]
    fn places_are_shared_and_never_exceeded() {
        let board = Board::default();
        let endpoints: Vec<Uuid> = (0..100).map(id).collect();
        for endpoint in &endpoints {
            board.learn(*endpoint, true, Duration::from_millis(1));
        }
        let rooms = board.rooms(&endpoints);
        assert!(rooms.iter().all(|room| room.senders > 0 && room.parcels > 0), "everybody gets a turn");
        assert_eq!(rooms.iter().map(|room| room.senders.min(room.parcels)).sum::<usize>(), PLACES);
        assert!(rooms.iter().map(|room| room.parcels).sum::<usize>() <= MAX_HELD);
    }
}
