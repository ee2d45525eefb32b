//! What this process holds in its hands: for each endpoint a lane of claimed deliveries and the tasks that send them.
//!
//! How much a lane may hold depends on how its receiver does: one that is well gets many at a time, and if it is quick the
//! next ones are claimed ahead, the more the longer it does well; one that is new gets few, one that fails gets one. And
//! those that are new, those that are slow and those that fail each share a part of all places only. So receivers that
//! answer late or never take little of what others need.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::attempt::Parcel;

/// Requests under way at a time, to all receivers together. Each is a socket, of which a process has about a thousand.
const PLACES: usize = 384;
/// How many of them are for receivers that have not shown yet how they are.
const NEW_PLACES: usize = PLACES / 2;
/// For those that answer well and late.
const SLOW_PLACES: usize = PLACES / 4;
/// And for those that fail. The last eighth is left for receivers that are well, whatever the others do.
const SICK_PLACES: usize = PLACES / 8;
/// Requests under way at a time to one receiver that is well.
const WELL: usize = 8;
/// To one that is new.
const NEW: usize = 2;
/// To one that fails.
const SICK: usize = 1;
/// Failures in a row after which a receiver is not well.
const TOLERATED: i64 = 1;
/// Deliveries are claimed ahead for about this long. Receivers that take longer for one of them are slow.
const AHEAD: Duration = Duration::from_millis(250);
/// The most that one lane holds.
const MAX_DEPTH: usize = 512;
/// The most that all lanes hold.
const MAX_HELD: usize = 4_096;
/// Lanes that are remembered for how their receivers did, while they hold nothing.
const REMEMBERED: usize = 1_000;

/// The lanes of all endpoints.
#[derive(Default)]
pub(crate) struct Board {
    lanes: Mutex<HashMap<Uuid, Lane>>,
    /// What was taken out of lanes and is to be given back.
    recalled: Mutex<Vec<Parcel>>,
}

/// What is held of one endpoint.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Parcel>,
    /// Tasks that send, each one at a time.
    senders: usize,
    /// Whether the receiver has taken a delivery since it last failed.
    is_proven: bool,
    /// Failures in a row.
    failures: i64,
    /// How long an attempt takes, smoothed.
    pace: Duration,
    /// How much may be held: one more for each success, so that it doubles while all go well, and half for each failure.
    earned: usize,
}

/// How a receiver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    Slow,
    New,
    Sick,
}

impl Lane {
    fn health(&self) -> Health {
        if self.failures > TOLERATED {
            Health::Sick
        } else if self.is_proven && self.pace > AHEAD {
            Health::Slow
        } else if self.is_proven {
            Health::Well
        } else {
            Health::New
        }
    }

    fn max_senders(&self) -> usize {
        match self.health() {
            Health::Well | Health::Slow => WELL,
            Health::New => NEW,
            Health::Sick => SICK,
        }
    }

    /// How much more to claim while its receiver is well.
    fn wanted(&self) -> usize {
        let rounds = AHEAD.as_micros() / self.pace.as_micros().max(1);
        let depth =
            usize::try_from(rounds).unwrap_or(MAX_DEPTH).saturating_mul(WELL).min(self.earned).max(WELL);
        // Half-full is full enough: few large claims cost less than many small ones.
        if self.held() * 2 > depth { 0 } else { depth - self.held() }
    }

    fn held(&self) -> usize {
        self.waiting.len() + self.senders
    }
}

/// The places that are taken.
#[derive(Default)]
struct Load {
    busy: usize,
    /// By receivers that are slow.
    slow: usize,
    /// By receivers that are new.
    new: usize,
    /// By receivers that fail.
    sick: usize,
}

impl Load {
    fn of(lanes: &HashMap<Uuid, Lane>) -> Self {
        let mut load = Self::default();
        for lane in lanes.values() {
            load.add(lane, lane.senders);
        }
        load
    }

    fn add(&mut self, lane: &Lane, senders: usize) {
        self.busy += senders;
        match lane.health() {
            Health::Well => {}
            Health::Slow => self.slow += senders,
            Health::New => self.new += senders,
            Health::Sick => self.sick += senders,
        }
    }

    /// The places that are free for a lane.
    fn free(&self, lane: &Lane) -> usize {
        let free = PLACES.saturating_sub(self.busy);
        match lane.health() {
            Health::Well => free,
            Health::Slow => free.min(SLOW_PLACES.saturating_sub(self.slow)),
            Health::New => free.min(NEW_PLACES.saturating_sub(self.new)),
            Health::Sick => free.min(SICK_PLACES.saturating_sub(self.sick)),
        }
    }

    /// The tasks that may be started for a lane.
    fn starts(&self, lane: &Lane) -> usize {
        self.free(lane).min(lane.max_senders().saturating_sub(lane.senders))
    }
}

impl Board {
    fn lanes(&self) -> MutexGuard<'_, HashMap<Uuid, Lane>> {
        // No lane has a half-done state that a panic elsewhere could leave behind.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many deliveries may be claimed of each of these endpoints, of which is known how often they failed in a row;
    /// what is free is shared out among them.
    pub(super) fn rooms(&self, endpoints: &[(Uuid, i64)]) -> Vec<usize> {
        let mut lanes = self.lanes();
        let mut load = Load::of(&lanes);
        let mut held: usize = lanes.values().map(Lane::held).sum();
        let mut rooms = Vec::with_capacity(endpoints.len());
        for (index, (endpoint, failures)) in endpoints.iter().enumerate() {
            let lane =
                lanes.entry(*endpoint).or_insert_with(|| Lane { failures: *failures, ..Lane::default() });
            let senders = load.starts(lane).min(load.free(lane).div_ceil(endpoints.len() - index));
            // Nothing is claimed ahead for a receiver that is not well, nor where nobody is there to send it.
            let is_well = lane.health() == Health::Well;
            let wanted = if is_well && lane.senders + senders > 0 { lane.wanted() } else { senders };
            let room = wanted.min(MAX_HELD.saturating_sub(held).div_ceil(endpoints.len() - index));
            load.add(lane, senders.min(room));
            held += room;
            rooms.push(room);
        }
        if lanes.len() > REMEMBERED {
            lanes.retain(|_, lane| lane.held() > 0);
        }
        rooms
    }

    /// Takes parcels of an endpoint into its lane, and says how many tasks to start for them.
    pub(super) fn put(&self, endpoint: Uuid, parcels: Vec<Parcel>) -> usize {
        let mut lanes = self.lanes();
        let load = Load::of(&lanes);
        let lane = lanes.entry(endpoint).or_default();
        lane.waiting.extend(parcels);
        // Those who were sending when the parcels were claimed may have gone: somebody must be there.
        let least = usize::from(lane.senders == 0);
        let starts = load.starts(lane).max(least).min(lane.waiting.len());
        lane.senders += starts;
        starts
    }

    /// The next parcel for a task that sends; none tells it to end.
    pub(super) fn next(&self, endpoint: Uuid) -> Option<Parcel> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(&endpoint)?;
        let next = if lane.senders > lane.max_senders() { None } else { lane.waiting.pop_front() };
        if next.is_none() {
            lane.senders -= 1;
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
            lane.earned = (lane.earned.max(2 * WELL) + 1).min(MAX_DEPTH);
            return Vec::new();
        }
        lane.earned /= 2;
        lane.failures = lane.failures.saturating_add(1);
        if lane.failures <= TOLERATED {
            return Vec::new();
        }
        lane.is_proven = false;
        lane.waiting.drain(..).collect()
    }

    /// Forgets a task that did not end by itself. Returns what nobody is left to send.
    pub(super) fn abandon(&self, endpoint: Uuid) -> Vec<Parcel> {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get_mut(&endpoint) else { return Vec::new() };
        lane.senders = lane.senders.saturating_sub(1);
        if lane.senders == 0 { lane.waiting.drain(..).collect() } else { Vec::new() }
    }

    /// Takes back what was claimed for an endpoint that is edited or gone, and is not being sent yet.
    pub(crate) fn recall(&self, endpoint: Uuid) {
        if let Some(lane) = self.lanes().get_mut(&endpoint) {
            self.recalled().extend(lane.waiting.drain(..));
        }
    }

    /// What was taken back since the last time.
    pub(super) fn take_recalled(&self) -> Vec<Parcel> {
        std::mem::take(&mut *self.recalled())
    }

    fn recalled(&self) -> MutexGuard<'_, Vec<Parcel>> {
        self.recalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back everything that is not being sent.
    pub(super) fn clear(&self) -> Vec<Parcel> {
        let mut back: Vec<Parcel> =
            self.lanes().values_mut().flat_map(|lane| lane.waiting.drain(..)).collect();
        back.extend(self.take_recalled());
        back
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

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
            updated_at: Timestamp::from_seconds(0),
        });
        let parcel = |_| Parcel {
            destination: Arc::clone(&destination),
            delivery: Claimed {
                delivery_id: Uuid::nil(),
                event_type: String::new(),
                payload: String::new(),
                attempts: 0,
                max_attempts: 6,
                traceparent: None,
            },
            lease: Lease { token: Uuid::nil(), until: Timestamp::from_seconds(0) },
            is_probe: false,
            claimed: Instant::now(),
        };
        (0..count).map(parcel).collect()
    }

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn a_receiver_earns_its_places_and_loses_them() {
        let board = Board::default();
        let one = [(id(1), 0)];
        assert_eq!(board.rooms(&one), [NEW]);
        assert_eq!(board.put(id(1), parcels(NEW)), NEW);
        assert!(board.next(id(1)).is_some() && board.next(id(1)).is_some());
        assert_eq!(board.rooms(&one), [0]);
        assert!(board.learn(id(1), true, Duration::from_millis(1)).is_empty());
        assert_eq!(board.rooms(&one), [2 * WELL + 1 - NEW], "one success earns little");
        for _ in 0..MAX_DEPTH {
            assert!(board.learn(id(1), true, Duration::from_millis(1)).is_empty());
        }
        assert_eq!(board.rooms(&one), [MAX_DEPTH - NEW]);
        assert_eq!(board.put(id(1), parcels(MAX_DEPTH - NEW)), WELL - NEW);
        // One failure among many successes is nothing; two in a row give back what was claimed ahead.
        assert!(board.learn(id(1), false, Duration::from_secs(10)).is_empty());
        assert_eq!(board.learn(id(1), false, Duration::from_secs(10)).len(), MAX_DEPTH - NEW);
        for _ in 0..WELL {
            assert!(board.next(id(1)).is_none());
        }
        assert_eq!(board.rooms(&one), [SICK]);
        // Well again, it does not get at once what it had.
        board.learn(id(1), true, Duration::from_millis(1));
        assert!(board.rooms(&one)[0] <= MAX_DEPTH / 4 + 1);
    }

    #[test]
    fn what_is_recalled_is_not_sent() {
        let board = Board::default();
        assert_eq!(board.put(id(1), parcels(5)), NEW);
        assert!(board.next(id(1)).is_some());
        board.recall(id(1));
        board.recall(id(2));
        assert_eq!(board.take_recalled().len(), 4);
        assert!(board.take_recalled().is_empty());
        assert!(board.next(id(1)).is_none());
    }

    #[test]
    fn a_task_that_is_lost_leaves_its_place() {
        let board = Board::default();
        assert_eq!(board.put(id(1), parcels(5)), NEW);
        assert!(board.next(id(1)).is_some() && board.next(id(1)).is_some());
        assert!(board.abandon(id(1)).is_empty(), "the other one goes on");
        assert_eq!(board.abandon(id(1)).len(), 3);
        assert_eq!(board.rooms(&[(id(1), 0)]), [NEW]);
    }

    #[test]
    fn what_was_claimed_is_sent_although_everybody_has_left_meanwhile() {
        let board = Board::default();
        board.learn(id(1), true, Duration::from_millis(1));
        assert_eq!(board.put(id(1), parcels(WELL)), WELL);
        for _ in 0..WELL {
            assert!(board.next(id(1)).is_some());
        }
        assert!(board.rooms(&[(id(1), 0)])[0] > 0, "more is claimed while all of them send");
        for _ in 0..WELL {
            assert!(board.next(id(1)).is_none(), "and then they find nothing more");
        }
        assert_eq!(board.put(id(1), parcels(3)), 3);
    }

    #[test]
    fn a_slow_receiver_is_not_claimed_ahead_for() {
        let board = Board::default();
        board.learn(id(1), true, Duration::from_secs(3));
        assert_eq!(board.rooms(&[(id(1), 0)]), [WELL]);
    }

    /// Gives endpoints what there is room for, and says how many places they took.
    fn fill(board: &Board, endpoints: &[(Uuid, i64)]) -> usize {
        let rooms = board.rooms(endpoints);
        assert!(rooms.iter().sum::<usize>() <= MAX_HELD);
        let given = endpoints.iter().zip(rooms).filter(|(_, room)| *room > 0);
        given.map(|((endpoint, _), room)| board.put(*endpoint, parcels(room))).sum()
    }

    #[test]
    fn receivers_that_are_not_well_leave_places_to_others() {
        let board = Board::default();
        let sick: Vec<(Uuid, i64)> = (0..400).map(|number| (id(number), 9)).collect();
        assert_eq!(fill(&board, &sick), SICK_PLACES);
        let new: Vec<(Uuid, i64)> = (400..800).map(|number| (id(number), 0)).collect();
        assert_eq!(fill(&board, &new), NEW_PLACES);
        let slow: Vec<(Uuid, i64)> = (2_000..2_100).map(|number| (id(number), 0)).collect();
        for (endpoint, _) in &slow {
            board.learn(*endpoint, true, Duration::from_secs(5));
        }
        assert_eq!(fill(&board, &slow), SLOW_PLACES);
        let well = id(1_000);
        board.learn(well, true, Duration::from_millis(5));
        let rooms = board.rooms(&[(id(1_001), 0), (id(1_002), 5), (slow[99].0, 0), (well, 0)]);
        assert!(rooms[..3] == [0, 0, 0] && rooms[3] > WELL, "{rooms:?}");
        assert_eq!(board.put(well, parcels(rooms[3])), WELL);
    }

    #[test]
    fn places_are_shared_and_hardly_ever_exceeded() {
        let board = Board::default();
        let endpoints: Vec<(Uuid, i64)> = (0..100).map(|number| (id(number), 0)).collect();
        for (endpoint, _) in &endpoints {
            board.learn(*endpoint, true, Duration::from_millis(1));
        }
        assert!(board.rooms(&endpoints).iter().all(|room| *room > 0), "everybody gets a turn");
        let busy = fill(&board, &endpoints);
        assert!((PLACES..PLACES + endpoints.len()).contains(&busy), "{busy}");
    }
}
