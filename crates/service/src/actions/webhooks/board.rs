//! What this process holds in its hands: for each endpoint a lane of claimed deliveries and the tasks that send them.
//!
//! How much a lane may hold depends on how its receiver does: one that is well gets many at a time, and if it is quick the
//! next ones are claimed ahead, the more the longer it does well; one that is new gets few, one that fails gets one. And
//! those that are new, those that are slow and those that fail each share a part of all places only. So receivers that
//! answer late or never take little of what others need.
//!
//! A lane leads where its endpoint led when it was made. An edit makes another one: whoever still waits for an answer from
//! the old address is left to it and counts among all places only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Timestamp;
use uuid::Uuid;

use crate::actions::webhooks::attempt::ClaimedDelivery;

/// Requests under way at a time, to all receivers together. Each is a socket, of which a process has about a thousand.
const SLOTS: usize = 384;
/// How many of them are for receivers that have not shown yet how they are.
const NEW_SLOTS: usize = SLOTS / 2;
/// For those that answer well and late.
const SLOW_SLOTS: usize = SLOTS / 4;
/// And for those that fail. The last eighth is left for receivers that are well, whatever the others do.
const SICK_SLOTS: usize = SLOTS / 8;
/// Requests under way at a time to one receiver that is well.
const WELL: usize = 8;
/// To one that is quick and has done well for long, up to this.
const MOST: usize = 32;
/// Deliveries in a row that earn it one more of these.
const EARNS_ONE: usize = 32;
/// To one that is new.
const NEW: usize = 2;
/// To one that fails.
const SICK: usize = 1;
/// How many places receivers may take beyond [`WELL`], so that few quick ones with much to do leave enough to others.
const EXTRA_SLOTS: usize = SLOTS / 4;
/// Failures in a row after which a receiver is not well.
const TOLERATED: i64 = 1;
/// Deliveries are claimed ahead for about this long. Receivers that take longer for one of them are slow.
const AHEAD: Duration = Duration::from_millis(250);
/// The most that one lane holds.
const MAX_DEPTH: usize = 2_048;
/// The most that one lane gets at a time. A claim is a transaction for which other writers wait: this many take some tens of
/// milliseconds, in which a quick receiver takes what is left of its lane.
const MAX_CLAIM: usize = 512;
/// The most that all lanes hold.
const MAX_HELD: usize = 8_192;
/// And the most in bytes: what is sent may be small or large.
const MAX_HELD_BYTES: usize = 64 * 1_024 * 1_024;
/// How much of that receivers may hold that are not well, and so hold it for long.
const UNWELL_BYTES: usize = MAX_HELD_BYTES / 2;
/// Lanes that are remembered for how their receivers did, while they hold nothing.
const REMEMBERED: usize = 1_000;

/// The lanes of all endpoints.
#[derive(Default)]
pub(crate) struct Board {
    lanes: Mutex<Lanes>,
    /// What was taken out of lanes and is to be given back.
    recalled: Mutex<Vec<ClaimedDelivery>>,
}

#[derive(Default)]
struct Lanes {
    by_endpoint: HashMap<Uuid, Lane>,
    /// Tasks that send, those included that still wait for an answer from where an endpoint led before an edit.
    busy: usize,
    /// Lanes made so far.
    made: u64,
}

/// An endpoint that wants deliveries claimed for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointDemand {
    pub(super) endpoint: Uuid,
    /// When it was last edited.
    pub(super) version: Timestamp,
    /// How often it failed in a row, as is on record.
    pub(super) failures: i64,
}

/// How much may be claimed of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) deliveries: usize,
    pub(super) bytes: usize,
}

/// Names a lane to a task that sends what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId {
    pub(super) endpoint: Uuid,
    number: u64,
}

/// What is held of one endpoint.
struct Lane {
    id: LaneId,
    /// The edit of the endpoint that it goes by.
    version: Timestamp,
    waiting: VecDeque<ClaimedDelivery>,
    /// The size of what is waiting and being sent.
    bytes: usize,
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
            Health::Well => (self.earned / EARNS_ONE).clamp(WELL, MOST),
            Health::Slow => WELL,
            Health::New => NEW,
            Health::Sick => SICK,
        }
    }

    /// How much more to claim while its receiver is well.
    fn wanted(&self) -> usize {
        let rounds = AHEAD.as_micros() / self.pace.as_micros().max(1);
        let rounds = usize::try_from(rounds).unwrap_or(MAX_DEPTH);
        let depth = rounds.saturating_mul(self.max_senders()).min(self.earned).max(WELL);
        let missing = depth.saturating_sub(self.held());
        // Half-full is full enough: few large claims cost less than many small ones.
        if missing < depth.div_ceil(2).min(MAX_CLAIM) { 0 } else { missing.min(MAX_CLAIM) }
    }

    fn held(&self) -> usize {
        self.waiting.len() + self.senders
    }

    /// Takes back everything that is not being sent.
    fn drain(&mut self) -> Vec<ClaimedDelivery> {
        self.bytes -= self.waiting.iter().map(|delivery| delivery.payload.len()).sum::<usize>();
        self.waiting.drain(..).collect()
    }
}

impl Lanes {
    /// The lane that leads where the endpoint led at this edit; if there is an older one, it ends. What it held is given
    /// back.
    fn of(&mut self, endpoint: Uuid, version: Timestamp, failures: i64) -> (&mut Lane, Vec<ClaimedDelivery>) {
        let outdated = self.by_endpoint.get(&endpoint).is_some_and(|lane| lane.version < version);
        let back = if outdated { self.close(endpoint) } else { Vec::new() };
        let number = self.made;
        let lane = self.by_endpoint.entry(endpoint).or_insert_with(|| {
            self.made += 1;
            Lane {
                id: LaneId { endpoint, number },
                version,
                waiting: VecDeque::new(),
                bytes: 0,
                senders: 0,
                is_proven: false,
                failures,
                pace: Duration::ZERO,
                earned: 0,
            }
        });
        (lane, back)
    }

    /// Ends a lane; those who send on it are left to it.
    fn close(&mut self, endpoint: Uuid) -> Vec<ClaimedDelivery> {
        let Some(mut lane) = self.by_endpoint.remove(&endpoint) else { return Vec::new() };
        lane.drain()
    }

    /// A lane that has not ended.
    fn get(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.by_endpoint.get_mut(&id.endpoint).filter(|lane| lane.id == id)
    }
}

/// The places that are taken.
#[derive(Default)]
struct Load {
    busy: usize,
    /// By receivers that have more than the usual number.
    extra: usize,
    /// By receivers that are slow.
    slow: usize,
    /// By receivers that are new.
    new: usize,
    /// By receivers that fail.
    sick: usize,
    held: usize,
    bytes: usize,
    /// Of receivers that are not well.
    unwell_bytes: usize,
}

impl Load {
    fn of(lanes: &Lanes) -> Self {
        let mut load = Self { busy: lanes.busy, ..Self::default() };
        for lane in lanes.by_endpoint.values() {
            load.extra += lane.senders.saturating_sub(WELL);
            load.add(lane, lane.senders, Room { deliveries: lane.held(), bytes: lane.bytes });
        }
        load
    }

    /// Counts senders that a lane gets beside those that it has.
    fn add_to(&mut self, lane: &Lane, senders: usize, room: Room) {
        self.busy += senders;
        self.extra += (lane.senders + senders).saturating_sub(lane.senders.max(WELL));
        self.add(lane, senders, room);
    }

    fn add(&mut self, lane: &Lane, senders: usize, room: Room) {
        self.held += room.deliveries;
        self.bytes += room.bytes;
        match lane.health() {
            Health::Well => return,
            Health::Slow => self.slow += senders,
            Health::New => self.new += senders,
            Health::Sick => self.sick += senders,
        }
        self.unwell_bytes += room.bytes;
    }

    /// The places that are free for a lane.
    fn free(&self, lane: &Lane) -> usize {
        let free = SLOTS.saturating_sub(self.busy);
        match lane.health() {
            Health::Well => free,
            Health::Slow => free.min(SLOW_SLOTS.saturating_sub(self.slow)),
            Health::New => free.min(NEW_SLOTS.saturating_sub(self.new)),
            Health::Sick => free.min(SICK_SLOTS.saturating_sub(self.sick)),
        }
    }

    /// The bytes that are free for a lane.
    fn free_bytes(&self, lane: &Lane) -> usize {
        let free = MAX_HELD_BYTES.saturating_sub(self.bytes);
        match lane.health() {
            Health::Well => free,
            _ => free.min(UNWELL_BYTES.saturating_sub(self.unwell_bytes)),
        }
    }

    /// The tasks that may be started for a lane.
    fn starts(&self, lane: &Lane) -> usize {
        let most = lane.max_senders();
        let usual = most.min(WELL).saturating_sub(lane.senders);
        let extra = most.saturating_sub(lane.senders.max(WELL));
        self.free(lane).min(usual + extra.min(EXTRA_SLOTS.saturating_sub(self.extra)))
    }
}

impl Board {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // No lane has a half-done state that a panic elsewhere could leave behind.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much may be claimed of each of these endpoints; what is free is shared out among them.
    pub(super) fn rooms(&self, demands: &[EndpointDemand]) -> Vec<Room> {
        let mut lanes = self.lanes();
        let mut load = Load::of(&lanes);
        let mut rooms = Vec::with_capacity(demands.len());
        for (index, one) in demands.iter().enumerate() {
            let (lane, back) = lanes.of(one.endpoint, one.version, one.failures);
            self.recalled().extend(back);
            let left = demands.len() - index;
            let senders = load.starts(lane).min(load.free(lane).div_ceil(left));
            // Nothing is claimed ahead for a receiver that is not well, nor where nobody is there to send it.
            let is_well = lane.health() == Health::Well;
            let wanted = if is_well && lane.senders + senders > 0 { lane.wanted() } else { senders };
            let bytes = load.free_bytes(lane).div_ceil(left);
            let deliveries = wanted.min(MAX_HELD.saturating_sub(load.held).div_ceil(left));
            let room = if bytes == 0 { Room { deliveries: 0, bytes } } else { Room { deliveries, bytes } };
            load.add_to(lane, senders.min(room.deliveries), room);
            rooms.push(room);
        }
        if lanes.by_endpoint.len() > REMEMBERED {
            lanes.by_endpoint.retain(|_, lane| lane.held() > 0);
        }
        rooms
    }

    /// Whether an endpoint's lane would take another full claim, after one of so many.
    pub(super) fn is_hungry(&self, endpoint: Uuid, claimed: usize) -> bool {
        let lanes = self.lanes();
        let lane = lanes.by_endpoint.get(&endpoint);
        claimed >= MAX_CLAIM && lane.is_some_and(|lane| lane.wanted() >= MAX_CLAIM)
    }

    /// Takes deliveries of an endpoint into its lane, and names the lane to each task that is to be started for them. ClaimedDeliverys
    /// that were claimed before an edit are given back.
    pub(super) fn put(
        &self,
        endpoint: Uuid,
        version: Timestamp,
        deliveries: Vec<ClaimedDelivery>,
    ) -> Vec<LaneId> {
        let mut lanes = self.lanes();
        let load = Load::of(&lanes);
        let (lane, back) = lanes.of(endpoint, version, 0);
        self.recalled().extend(back);
        if lane.version > version {
            self.recalled().extend(deliveries);
            return Vec::new();
        }
        lane.bytes += deliveries.iter().map(|delivery| delivery.payload.len()).sum::<usize>();
        lane.waiting.extend(deliveries);
        // Those who were sending when the deliveries were claimed may have gone: somebody must be there.
        let least = usize::from(lane.senders == 0);
        let starts = load.starts(lane).max(least).min(lane.waiting.len());
        lane.senders += starts;
        let id = lane.id;
        lanes.busy += starts;
        vec![id; starts]
    }

    /// The next delivery for a task that sends and has just sent so many bytes; none tells it to end.
    pub(super) fn next(&self, id: LaneId, sent: usize) -> Option<ClaimedDelivery> {
        let mut lanes = self.lanes();
        let is_full = lanes.busy >= SLOTS;
        let next = lanes.get(id).and_then(|lane| {
            lane.bytes = lane.bytes.saturating_sub(sent);
            let most = if is_full { lane.max_senders().min(WELL) } else { lane.max_senders() };
            let next = if lane.senders > most { None } else { lane.waiting.pop_front() };
            lane.senders = lane.senders.saturating_sub(usize::from(next.is_none()));
            next
        });
        lanes.busy = lanes.busy.saturating_sub(usize::from(next.is_none()));
        next
    }

    /// Learns how an attempt went. Returns what is given back because the receiver is not well.
    pub(super) fn record_attempt(
        &self,
        id: LaneId,
        is_success: bool,
        took: Duration,
    ) -> Vec<ClaimedDelivery> {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get(id) else { return Vec::new() };
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
        lane.drain()
    }

    /// Forgets a task that did not end by itself. Returns what nobody is left to send.
    pub(super) fn abandon(&self, id: LaneId, sent: usize) -> Vec<ClaimedDelivery> {
        let mut lanes = self.lanes();
        lanes.busy = lanes.busy.saturating_sub(1);
        let Some(lane) = lanes.get(id) else { return Vec::new() };
        lane.senders = lane.senders.saturating_sub(1);
        lane.bytes = lane.bytes.saturating_sub(sent);
        if lane.senders == 0 { lane.drain() } else { Vec::new() }
    }

    /// Takes back what was claimed for an endpoint that is edited or gone, and is not being sent yet.
    pub(crate) fn recall(&self, endpoint: Uuid, version: Timestamp) {
        let mut lanes = self.lanes();
        let back = lanes.close(endpoint);
        // What is being claimed at this moment for the endpoint as it was is noticed by the version.
        lanes.of(endpoint, version, 0);
        self.recalled().extend(back);
    }

    /// What was taken back since the last time.
    pub(super) fn take_recalled(&self) -> Vec<ClaimedDelivery> {
        std::mem::take(&mut *self.recalled())
    }

    fn recalled(&self) -> MutexGuard<'_, Vec<ClaimedDelivery>> {
        self.recalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back everything that is not being sent.
    pub(super) fn clear(&self) -> Vec<ClaimedDelivery> {
        let mut back: Vec<ClaimedDelivery> =
            self.lanes().by_endpoint.values_mut().flat_map(Lane::drain).collect();
        back.extend(self.take_recalled());
        back
    }
}

#[cfg(test)]
mod tests;
