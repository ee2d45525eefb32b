//! The deliveries that this process has claimed: for each endpoint a lane of deliveries and the tasks that send them.
//!
//! The capacity of a lane depends on the health of its receiver: a healthy one gets many deliveries at a time, and if it is
//! fast, more are claimed ahead, the more the longer it succeeds; a new one gets few, a failing one gets one. New, slow and
//! failing receivers each share only a part of all slots. So receivers that answer late or never take little of what others
//! need.
//!
//! A lane belongs to one version of its endpoint. An edit creates a new lane: tasks that still wait for a response from the
//! old URL are detached, and count only toward the total of busy slots.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::actions::webhooks::attempt::{ClaimedDelivery, Destination};

/// Requests in flight to all receivers together. Each needs a socket, of which a process has about a thousand.
const SLOTS: usize = 384;
/// Slots for new receivers, whose health is not known yet.
const NEW_SLOTS: usize = SLOTS / 2;
/// Slots for slow receivers, which succeed late.
const SLOW_SLOTS: usize = SLOTS / 4;
/// Slots for failing receivers. The remaining eighth is reserved for healthy ones, whatever the others do.
const FAILING_SLOTS: usize = SLOTS / 8;
/// Requests in flight to one healthy receiver.
pub const HEALTHY_SENDERS: usize = 8;
/// The maximum for a fast receiver that has succeeded for long.
pub const MAX_SENDERS: usize = 32;
/// Successes that earn a receiver one more request in flight.
const SUCCESSES_PER_SENDER: usize = 32;
/// Requests in flight to one new receiver.
const NEW_SENDERS: usize = 2;
/// Requests in flight to one failing receiver.
pub const FAILING_SENDERS: usize = 1;
/// Slots that receivers may use beyond [`HEALTHY_SENDERS`], so that a few fast ones with many deliveries leave enough to others.
const EXTRA_SLOTS: usize = SLOTS / 4;
/// Consecutive failures after which a receiver is still healthy.
const TOLERATED_FAILURES: i64 = 1;
/// Deliveries are claimed ahead for about this long. A receiver that takes longer for one delivery is slow.
const CLAIM_AHEAD: Duration = Duration::from_millis(250);
/// The maximum number of deliveries in one lane.
const MAX_DEPTH: usize = 2_048;
/// The maximum claim for one lane. Other writers wait for the transaction of a claim: this many take some tens of
/// milliseconds, in which a fast receiver empties the rest of its lane.
const MAX_CLAIM: usize = 512;
/// The maximum number of deliveries in all lanes.
const MAX_CLAIMED: usize = 8_192;
/// The maximum size of all lanes in bytes: payloads may be small or large.
const MAX_CLAIMED_BYTES: usize = 64 * 1_024 * 1_024;
/// The part of it for receivers that are not healthy, whose deliveries stay long.
const UNHEALTHY_BYTES: usize = MAX_CLAIMED_BYTES / 2;
/// The number of lanes above which empty ones are dropped; until then they keep the health of their receivers.
const MAX_IDLE_LANES: usize = 1_000;

/// The lanes of all endpoints.
#[derive(Default)]
pub(crate) struct Board {
    lanes: Mutex<Lanes>,
    /// Claimed deliveries that were removed from their lanes, and are to be released.
    unsent: Mutex<Vec<ClaimedDelivery>>,
}

#[derive(Default)]
struct Lanes {
    by_endpoint: HashMap<Uuid, Lane>,
    /// Tasks that send, including detached ones that wait for a response from a URL before an edit.
    busy: usize,
    /// Lanes created so far.
    created: u64,
    /// Whether the courier has stopped.
    is_closed: bool,
}

/// An endpoint with due deliveries.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointDemand {
    pub(super) endpoint: Uuid,
    /// Its version.
    pub(super) version: i64,
    /// Its consecutive failures, according to the database.
    pub(super) failures: i64,
}

/// How much may be claimed for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) deliveries: usize,
    pub(super) bytes: usize,
}

/// Identifies a lane to the tasks that send its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId {
    pub(super) endpoint: Uuid,
    number: u64,
}

/// The claimed deliveries of one endpoint.
struct Lane {
    id: LaneId,
    /// The version of the endpoint.
    version: i64,
    waiting: VecDeque<ClaimedDelivery>,
    /// The size of the deliveries that wait or are in flight.
    bytes: usize,
    /// Tasks that send, each one delivery at a time.
    senders: usize,
    /// Whether the receiver has accepted a delivery since it last failed.
    has_succeeded: bool,
    /// Consecutive failures.
    failures: i64,
    /// The duration of an attempt, smoothed.
    latency: Duration,
    /// The capacity that the lane has earned: one more for each success, so that it doubles with every full lane, and half for
    /// each failure.
    earned: usize,
    /// The receiver, once a delivery was claimed for it.
    destination: Option<Arc<Destination>>,
    /// Deliveries that are about to be written, born leased.
    reserved: usize,
    /// Whether deliveries may be due that were not claimed: new ones are queued behind them.
    has_backlog: bool,
}

/// Room in a lane for a delivery that is about to be written. It is given back when this is dropped.
pub(super) struct Reservation {
    board: Arc<Board>,
    lane: LaneId,
    bytes: usize,
    pub(super) destination: Arc<Destination>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(lane) = self.board.lanes().get(self.lane) {
            lane.reserved = lane.reserved.saturating_sub(1);
            lane.bytes = lane.bytes.saturating_sub(self.bytes);
        }
    }
}

/// The health of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Healthy,
    Slow,
    New,
    Failing,
}

impl Lane {
    fn health(&self) -> Health {
        if self.failures > TOLERATED_FAILURES {
            Health::Failing
        } else if self.has_succeeded && self.latency > CLAIM_AHEAD {
            Health::Slow
        } else if self.has_succeeded {
            Health::Healthy
        } else {
            Health::New
        }
    }

    fn max_senders(&self) -> usize {
        match self.health() {
            Health::Healthy => (self.earned / SUCCESSES_PER_SENDER).clamp(HEALTHY_SENDERS, MAX_SENDERS),
            Health::Slow => HEALTHY_SENDERS,
            Health::New => NEW_SENDERS,
            Health::Failing => FAILING_SENDERS,
        }
    }

    /// How many deliveries the lane of a healthy receiver has room for.
    fn depth(&self) -> usize {
        let rounds = CLAIM_AHEAD.as_micros() / self.latency.as_micros().max(1);
        let rounds = usize::try_from(rounds).unwrap_or(MAX_DEPTH);
        rounds.saturating_mul(self.max_senders()).min(self.earned).max(HEALTHY_SENDERS)
    }

    /// How many more deliveries to claim while the receiver is healthy.
    fn claim_size(&self) -> usize {
        let depth = self.depth();
        let missing = depth.saturating_sub(self.claimed());
        // Half full is enough: a few large claims cost less than many small ones.
        if missing < depth.div_ceil(2).min(MAX_CLAIM) { 0 } else { missing.min(MAX_CLAIM) }
    }

    fn claimed(&self) -> usize {
        self.waiting.len() + self.senders + self.reserved
    }

    /// Removes all deliveries that are not in flight.
    fn drain(&mut self) -> Vec<ClaimedDelivery> {
        self.bytes -= self.waiting.iter().map(|delivery| delivery.payload.len()).sum::<usize>();
        self.waiting.drain(..).collect()
    }
}

impl Lanes {
    /// The lane of this version of the endpoint. If there is a lane of an older version, it is closed, and its waiting
    /// deliveries are returned.
    fn lane_for(&mut self, endpoint: Uuid, version: i64, failures: i64) -> (&mut Lane, Vec<ClaimedDelivery>) {
        let outdated = self.by_endpoint.get(&endpoint).is_some_and(|lane| lane.version < version);
        let unsent = if outdated { self.close(endpoint) } else { Vec::new() };
        let number = self.created;
        let lane = self.by_endpoint.entry(endpoint).or_insert_with(|| {
            self.created += 1;
            Lane {
                id: LaneId { endpoint, number },
                version,
                waiting: VecDeque::new(),
                bytes: 0,
                senders: 0,
                has_succeeded: false,
                failures,
                latency: Duration::ZERO,
                earned: 0,
                destination: None,
                reserved: 0,
                has_backlog: false,
            }
        });
        (lane, unsent)
    }

    /// Closes a lane, and returns its waiting deliveries; its tasks are detached.
    fn close(&mut self, endpoint: Uuid) -> Vec<ClaimedDelivery> {
        let Some(mut lane) = self.by_endpoint.remove(&endpoint) else { return Vec::new() };
        lane.drain()
    }

    /// A lane that has not been closed.
    fn get(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.by_endpoint.get_mut(&id.endpoint).filter(|lane| lane.id == id)
    }
}

/// The slots and bytes in use.
#[derive(Default)]
struct Load {
    busy: usize,
    /// Slots beyond [`HEALTHY_SENDERS`] of one receiver.
    extra: usize,
    /// Slots of slow receivers.
    slow: usize,
    /// Slots of new receivers.
    new: usize,
    /// Slots of failing receivers.
    failing: usize,
    claimed: usize,
    bytes: usize,
    /// Bytes of receivers that are not healthy.
    unhealthy_bytes: usize,
}

impl Load {
    fn of(lanes: &Lanes) -> Self {
        let mut load = Self { busy: lanes.busy, ..Self::default() };
        for lane in lanes.by_endpoint.values() {
            // What is handed over to an idle lane takes a slot.
            load.busy += usize::from(lane.senders == 0 && lane.reserved > 0);
            load.extra += lane.senders.saturating_sub(HEALTHY_SENDERS);
            load.add(lane, lane.senders, Room { deliveries: lane.claimed(), bytes: lane.bytes });
        }
        load
    }

    /// Counts additional senders of a lane.
    fn add_to(&mut self, lane: &Lane, senders: usize, room: Room) {
        self.busy += senders;
        self.extra += (lane.senders + senders).saturating_sub(lane.senders.max(HEALTHY_SENDERS));
        self.add(lane, senders, room);
    }

    fn add(&mut self, lane: &Lane, senders: usize, room: Room) {
        self.claimed += room.deliveries;
        self.bytes += room.bytes;
        match lane.health() {
            Health::Healthy => return,
            Health::Slow => self.slow += senders,
            Health::New => self.new += senders,
            Health::Failing => self.failing += senders,
        }
        self.unhealthy_bytes += room.bytes;
    }

    /// The slots that are free for a lane.
    fn free(&self, lane: &Lane) -> usize {
        let free = SLOTS.saturating_sub(self.busy);
        match lane.health() {
            Health::Healthy => free,
            Health::Slow => free.min(SLOW_SLOTS.saturating_sub(self.slow)),
            Health::New => free.min(NEW_SLOTS.saturating_sub(self.new)),
            Health::Failing => free.min(FAILING_SLOTS.saturating_sub(self.failing)),
        }
    }

    /// The bytes that are free for a lane.
    fn free_bytes(&self, lane: &Lane) -> usize {
        let free = MAX_CLAIMED_BYTES.saturating_sub(self.bytes);
        match lane.health() {
            Health::Healthy => free,
            _ => free.min(UNHEALTHY_BYTES.saturating_sub(self.unhealthy_bytes)),
        }
    }

    /// The tasks that may be started for a lane.
    fn starts(&self, lane: &Lane) -> usize {
        let most = lane.max_senders();
        let usual = most.min(HEALTHY_SENDERS).saturating_sub(lane.senders);
        let extra = most.saturating_sub(lane.senders.max(HEALTHY_SENDERS));
        self.free(lane).min(usual + extra.min(EXTRA_SLOTS.saturating_sub(self.extra)))
    }
}

impl Board {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // A panic elsewhere cannot leave a lane half-written.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much may be claimed for each of these endpoints; the free capacity is divided among them.
    pub(super) fn rooms(&self, demands: &[EndpointDemand]) -> Vec<Room> {
        let mut lanes = self.lanes();
        let mut load = Load::of(&lanes);
        let mut rooms = Vec::with_capacity(demands.len());
        for (index, one) in demands.iter().enumerate() {
            let (lane, unsent) = lanes.lane_for(one.endpoint, one.version, one.failures);
            self.unsent().extend(unsent);
            let left = demands.len() - index;
            let senders = load.starts(lane).min(load.free(lane).div_ceil(left));
            // Nothing is claimed ahead for a receiver that is not healthy, or for a lane without a task.
            let is_healthy = lane.health() == Health::Healthy;
            let claim = if is_healthy && lane.senders + senders > 0 { lane.claim_size() } else { senders };
            let bytes = load.free_bytes(lane).div_ceil(left);
            let deliveries = claim.min(MAX_CLAIMED.saturating_sub(load.claimed).div_ceil(left));
            let room = if bytes == 0 { Room { deliveries: 0, bytes } } else { Room { deliveries, bytes } };
            load.add_to(lane, senders.min(room.deliveries), room);
            rooms.push(room);
        }
        if lanes.by_endpoint.len() > MAX_IDLE_LANES {
            lanes.by_endpoint.retain(|_, lane| lane.claimed() > 0);
        }
        rooms
    }

    /// Whether an endpoint's lane has room for another full claim, after a claim of `claimed` deliveries.
    pub(super) fn wants_full_claim(&self, endpoint: Uuid, claimed: usize) -> bool {
        let lanes = self.lanes();
        let lane = lanes.by_endpoint.get(&endpoint);
        claimed >= MAX_CLAIM && lane.is_some_and(|lane| lane.claim_size() >= MAX_CLAIM)
    }

    /// Reserves room for a delivery that is about to be written, if it will be sent at once: its receiver is healthy, and
    /// nothing waits before it. If there is none, the next ones are queued behind it, until the courier has caught up.
    pub(super) fn reserve(
        self: &Arc<Self>,
        endpoint: Uuid,
        version: i64,
        bytes: usize,
    ) -> Option<Reservation> {
        let mut lanes = self.lanes();
        let load = Load::of(&lanes);
        let is_closed = lanes.is_closed;
        // Slots that become free belong to those who wait for one.
        let has_free_slot = !lanes.by_endpoint.values().any(|lane| lane.has_backlog);
        let lane = lanes.by_endpoint.get_mut(&endpoint).filter(|lane| lane.version == version)?;
        let destination = lane.destination.clone().filter(|_| {
            let is_sent = lane.senders > 0 || has_free_slot && load.starts(lane) > 0;
            let has_room =
                lane.claimed() < lane.depth() && load.claimed < MAX_CLAIMED && load.free_bytes(lane) >= bytes;
            lane.health() == Health::Healthy && !lane.has_backlog && is_sent && has_room && !is_closed
        });
        let Some(destination) = destination else {
            lane.has_backlog = true;
            return None;
        };
        lane.reserved += 1;
        lane.bytes += bytes;
        Some(Reservation { board: Arc::clone(self), lane: lane.id, bytes, destination })
    }

    /// Notes which endpoints have due deliveries that there was no room for: all of them, or those among the given ones.
    pub(super) fn set_backlogs(&self, endpoints: &HashSet<Uuid>, among: Option<&HashSet<Uuid>>) {
        for (endpoint, lane) in &mut self.lanes().by_endpoint {
            if among.is_none_or(|among| among.contains(endpoint)) {
                lane.has_backlog = endpoints.contains(endpoint);
            }
        }
    }

    /// Whether room is reserved for deliveries that are being written.
    pub(super) fn has_reservations(&self) -> bool {
        self.lanes().by_endpoint.values().any(|lane| lane.reserved > 0)
    }

    /// Whether an endpoint may have due deliveries that there was no room for.
    pub(super) fn has_backlog(&self) -> bool {
        self.lanes().by_endpoint.values().any(|lane| lane.has_backlog)
    }

    /// Adds deliveries to an endpoint's lane, and returns the lane's id once for each task to be started. Deliveries that
    /// were claimed before an edit are released.
    pub(super) fn put(&self, endpoint: Uuid, version: i64, deliveries: Vec<ClaimedDelivery>) -> Vec<LaneId> {
        let mut lanes = self.lanes();
        let load = Load::of(&lanes);
        let (lane, unsent) = lanes.lane_for(endpoint, version, 0);
        self.unsent().extend(unsent);
        if lane.version > version {
            self.unsent().extend(deliveries);
            return Vec::new();
        }
        lane.destination = deliveries.last().map(|delivery| Arc::clone(&delivery.destination));
        lane.bytes += deliveries.iter().map(|delivery| delivery.payload.len()).sum::<usize>();
        lane.waiting.extend(deliveries);
        // The tasks that were sending when the deliveries were claimed may have ended: at least one must be running.
        let least = usize::from(lane.senders == 0);
        let starts = load.starts(lane).max(least).min(lane.waiting.len());
        lane.senders += starts;
        let id = lane.id;
        lanes.busy += starts;
        vec![id; starts]
    }

    /// The next delivery for a task that has just sent `sent` bytes; none if the task is to end.
    pub(super) fn next(&self, id: LaneId, sent: usize) -> Option<ClaimedDelivery> {
        let mut lanes = self.lanes();
        let is_full = lanes.busy >= SLOTS;
        let next = lanes.get(id).and_then(|lane| {
            lane.bytes = lane.bytes.saturating_sub(sent);
            let most = if is_full { lane.max_senders().min(HEALTHY_SENDERS) } else { lane.max_senders() };
            let next = if lane.senders > most { None } else { lane.waiting.pop_front() };
            lane.senders = lane.senders.saturating_sub(usize::from(next.is_none()));
            next
        });
        lanes.busy = lanes.busy.saturating_sub(usize::from(next.is_none()));
        next
    }

    /// Records the result of an attempt. Returns the deliveries to be released because the receiver is failing.
    pub(super) fn record_attempt(
        &self,
        id: LaneId,
        is_success: bool,
        took: Duration,
    ) -> Vec<ClaimedDelivery> {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.get(id) else { return Vec::new() };
        if is_success {
            lane.latency = if lane.has_succeeded { (lane.latency * 7 + took) / 8 } else { took };
            lane.has_succeeded = true;
            lane.failures = 0;
            lane.earned = (lane.earned.max(2 * HEALTHY_SENDERS) + 1).min(MAX_DEPTH);
            return Vec::new();
        }
        lane.earned /= 2;
        lane.failures = lane.failures.saturating_add(1);
        if lane.failures <= TOLERATED_FAILURES {
            return Vec::new();
        }
        lane.has_succeeded = false;
        lane.drain()
    }

    /// Removes a task that panicked. Returns the deliveries to be released if no other task sends them.
    pub(super) fn abandon(&self, id: LaneId, sent: usize) -> Vec<ClaimedDelivery> {
        let mut lanes = self.lanes();
        lanes.busy = lanes.busy.saturating_sub(1);
        let Some(lane) = lanes.get(id) else { return Vec::new() };
        lane.senders = lane.senders.saturating_sub(1);
        lane.bytes = lane.bytes.saturating_sub(sent);
        if lane.senders == 0 { lane.drain() } else { Vec::new() }
    }

    /// Releases the claimed deliveries of an endpoint that was edited or deleted, except those in flight.
    pub(crate) fn recall(&self, endpoint: Uuid, version: i64) {
        // A concurrent claim for the old version is recognized by the version of this new lane.
        let (_, unsent) = self.lanes().lane_for(endpoint, version, 0);
        self.unsent().extend(unsent);
    }

    /// Whether deliveries are to be released.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent().is_empty()
    }

    /// Reopens it for a courier that starts.
    pub(super) fn reopen(&self) {
        self.lanes().is_closed = false;
    }

    /// Takes the deliveries that are to be released.
    pub(super) fn take_unsent(&self) -> Vec<ClaimedDelivery> {
        std::mem::take(&mut *self.unsent())
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<ClaimedDelivery>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all deliveries that are not in flight, and returns them.
    pub(super) fn clear(&self) -> Vec<ClaimedDelivery> {
        let mut lanes = self.lanes();
        lanes.is_closed = true;
        let mut unsent: Vec<ClaimedDelivery> = lanes.by_endpoint.values_mut().flat_map(Lane::drain).collect();
        drop(lanes);
        unsent.extend(self.take_unsent());
        unsent
    }
}

#[cfg(test)]
mod tests;
