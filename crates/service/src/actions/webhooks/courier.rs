//! The courier: sends webhook deliveries, round-robin over endpoints, so that no receiver delays another.
//!
//! Each poll of the queue is one transaction: it writes the outcomes of finished attempts and claims the next deliveries.
//! A claimed delivery is leased: if this process crashes, the delivery is due again when the lease ends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::webhook::SigningKey;
use model::{TenantId, Timestamp};
use store::actions::webhooks::queue::{self, DeliveryContent, DeliveryLease, DueEndpoint, LeasedDelivery};
use store::actions::webhooks::{deliveries, endpoints};
use store::{Conn, Lease, Store};
use tracing::{error, warn};
use uuid::Uuid;

use crate::actions::webhooks::attempt::{
    Attempt, ClaimedDelivery, CourierOptions, Destination, Outcome, Sender,
};
use crate::actions::webhooks::board::{Board, EndpointDemand, LaneId, Room};
use crate::actions::webhooks::endpoints::{PREVIOUS_SECRET_COLUMN, SECRET_COLUMN, open_url};
use crate::actions::webhooks::handle::CourierHandle;
use crate::actions::webhooks::retries::AttemptOutcome;
use crate::actions::webhooks::settlement::Settler;
use crate::actions::webhooks::suspects::Suspects;
use crate::outbox::Notifications;
use crate::runtime::driver::{LeasedQueue, NextPoll, PollCause, Suspicion, Tasks, drive};
use crate::runtime::{Clock, Error, Outbound, Random, Result, Sealer, Supervision, Traces, Wakeup, internal};

/// How often the queue is polled without being woken while not everything that is due has been claimed.
const POLL: Duration = Duration::from_secs(1);
/// The maximum number of endpoints served by one poll.
const MAX_ENDPOINTS: usize = 128;
/// The maximum number of consecutive polls without a claim before the courier waits to be woken.
const MAX_BLOCKED_POLLS: u32 = 64;
/// How long after claims the queue is looked at again at the earliest: rows that another process has locked still look due.
const SOON: Duration = Duration::from_millis(50);
/// How long, and how often, a courier that ends waits for deliveries that are being written. In real time.
const HANDED_WAIT: Duration = Duration::from_secs(3);
const HANDED_CHECK: Duration = Duration::from_millis(10);
/// The maximum number of outcomes written in one transaction.
const MAX_SETTLED: usize = 1_024;
/// The number of outcomes that are written at once; fewer wait a few milliseconds for more.
const SETTLE_AT_ONCE: usize = 256;

/// Sends webhook deliveries. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) outbound: Outbound,
    pub(crate) traces: Traces,
    pub(crate) notifications: Notifications,
    pub(crate) options: CourierOptions,
    pub(crate) handle: CourierHandle,
}

/// The queue of deliveries, as the courier polls it.
struct DeliveryQueue {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    handle: CourierHandle,
    sender: Arc<Sender>,
    settler: Settler,
    wakeup: Wakeup,
    board: Arc<Board>,
    /// Outcomes that tasks have reported.
    reported: Arc<Outcomes>,
    /// Outcomes still to be written.
    unsettled: Vec<Outcome>,
    /// Endpoints with recorded failures: their next success must be written.
    failing: HashSet<Uuid>,
    /// The endpoint that was served last.
    last_served: Uuid,
    /// Consecutive polls that found as many endpoints as one poll serves, and no free slot for any of them.
    blocked_polls: u32,
    /// The suspects that are claimed.
    suspects: Suspects,
    /// Whether the last poll left more to do at once.
    has_more: bool,
    /// When to look for due deliveries again; none: when woken.
    next_look: Option<Timestamp>,
}

/// Outcomes that tasks have reported to the courier.
struct Outcomes {
    waiting: Mutex<Vec<Outcome>>,
    wakeup: Wakeup,
}

impl Outcomes {
    fn lock(&self) -> MutexGuard<'_, Vec<Outcome>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, outcome: Outcome) {
        let mut waiting = self.lock();
        waiting.push(outcome);
        if waiting.len() < SETTLE_AT_ONCE { self.wakeup.wake_soon() } else { self.wakeup.wake() }
    }

    fn report_unsent(&self, deliveries: Vec<ClaimedDelivery>) {
        for delivery in deliveries {
            self.report(Outcome { delivery, attempt: None });
        }
    }

    fn take(&self, most: usize) -> Vec<Outcome> {
        let mut waiting = self.lock();
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }
}

/// What one poll has claimed.
struct Claims {
    deliveries: Vec<(Arc<Destination>, Vec<ClaimedDelivery>)>,
    /// Deliveries that are given up instead of being sent.
    abandoned: Vec<ClaimedDelivery>,
    suspects: Suspects,
    /// Endpoints with recorded failures.
    failing: Vec<Uuid>,
    last_served: Uuid,
    /// Endpoints with due deliveries.
    looked_at: HashSet<Uuid>,
    /// Those of them whose deliveries may not all be claimed.
    backlogs: HashSet<Uuid>,
    /// Whether there may be more endpoints with due deliveries.
    is_full: bool,
    /// When to poll again; none: when woken.
    next: Option<Timestamp>,
}

impl Courier {
    /// Sends deliveries until it is stopped; then finishes those in flight and releases the rest.
    pub(crate) async fn run(self, supervision: Supervision) {
        let Self { store, clock, random, sealer, outbound, traces, notifications, options, handle } = self;
        let wakeup = handle.wakeup.clone();
        let sender = Sender {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            outbound,
            traces,
            options,
        };
        let settler = Settler { store: store.clone(), notifications, retry_base: options.retry_base };
        let queue = DeliveryQueue {
            store,
            clock: clock.clone(),
            random,
            sealer,
            handle: handle.clone(),
            sender: Arc::new(sender),
            settler,
            wakeup: wakeup.clone(),
            board: Arc::clone(&handle.board),
            // Bounded by the capacity of the board.
            reported: Arc::new(Outcomes { waiting: Mutex::default(), wakeup: wakeup.clone() }),
            unsettled: Vec::new(),
            failing: HashSet::new(),
            last_served: Uuid::nil(),
            blocked_polls: 0,
            suspects: Suspects::default(),
            has_more: false,
            next_look: Some(Timestamp::from_seconds(0)),
        };
        queue.board.reopen();
        drive(queue, clock, wakeup, supervision).await;
    }
}

impl LeasedQueue for DeliveryQueue {
    const NAME: &'static str = "courier";

    async fn prepare(&mut self) -> Result<()> {
        let void = async |conn: &mut Conn| queue::void_stale_leases(conn).await;
        self.store.write("void_delivery_leases", void).await?;
        Ok(())
    }

    async fn handed_over(&self) {
        self.handle.handed_over().await;
    }

    async fn begin(&mut self, tasks: &Tasks) {
        for delivery in self.handle.take_handed() {
            let (endpoint, version) = (delivery.destination.endpoint_id, delivery.destination.version);
            for lane in self.board.put(endpoint, version, vec![delivery]) {
                self.start_sender(lane, tasks);
            }
        }
        if self.board.has_unsent() {
            self.wakeup.wake();
        }
    }

    async fn poll(&mut self, tasks: &Tasks, cause: PollCause) -> Result<NextPoll> {
        self.collect_outcomes();
        let now = self.clock.now();
        if cause == PollCause::Soon && self.may_only_settle(now) {
            self.settle().await?;
            return Ok(NextPoll::when_due(self.next_look));
        }
        if self.unsettled.is_empty() && !self.has_more {
            // An idle courier only reads: on SQLite a claim would have to wait for the write lock.
            let idle_until = self
                .store
                .read("next_delivery", async |conn: &mut Conn| {
                    let turns = endpoints_in_turn(conn, self.last_served, now).await?;
                    if turns.is_empty() { queue::next_due(conn).await.map(Some) } else { Ok(None) }
                })
                .await?;
            if let Some(next) = idle_until {
                self.board.set_backlogs(&HashSet::new(), None);
                self.next_look = next;
                return Ok(NextPoll::when_due(next));
            }
        }
        let claims = self.settle_and_claim(now).await?;
        self.last_served = claims.last_served;
        self.suspects = claims.suspects;
        self.failing.extend(claims.failing);
        self.blocked_polls =
            if claims.is_full && claims.deliveries.is_empty() { self.blocked_polls + 1 } else { 0 };
        self.has_more = claims.is_full && self.blocked_polls < MAX_BLOCKED_POLLS
            || !claims.abandoned.is_empty()
            // More outcomes were reported than one poll settles.
            || !self.reported.lock().is_empty();
        for delivery in claims.abandoned {
            warn!(delivery = %delivery.delivery_id, "a webhook delivery is given up: every sender crashed during it");
            self.unsettled.push(Outcome { delivery, attempt: Some(Attempt::abandoned(now)) });
        }
        for (destination, claimed) in claims.deliveries {
            let count = claimed.len();
            for lane in self.board.put(destination.endpoint_id, destination.version, claimed) {
                self.start_sender(lane, tasks);
            }
            self.has_more |= self.board.wants_full_claim(destination.endpoint_id, count);
        }
        self.board.set_backlogs(&claims.backlogs, claims.is_full.then_some(&claims.looked_at));
        self.next_look = if self.has_more { Some(now) } else { claims.next };
        Ok(NextPoll::when_due(self.next_look))
    }

    async fn stop(&mut self) {
        // Each task ends after its current delivery, because its lane is now empty.
        self.unsettled.extend(unsent(self.board.clear()));
    }

    async fn finish(&mut self) {
        // What is being written is handed over soon: a transaction has a deadline.
        let written = async {
            while self.board.has_reservations() {
                tokio::time::sleep(HANDED_CHECK).await;
                self.unsettled.extend(unsent(self.handle.take_handed()));
            }
        };
        let _ = tokio::time::timeout(HANDED_WAIT, written).await;
        self.unsettled.extend(unsent(self.handle.take_handed()));
        self.unsettled.extend(self.reported.take(usize::MAX));
        for outcomes in self.unsettled.chunks(MAX_SETTLED) {
            if let Err(error) = self.settler.settle(outcomes, &mut self.failing).await {
                error!(cause = error.cause(), "webhook deliveries may be sent twice: {error}");
            }
        }
    }
}

fn unsent(deliveries: Vec<ClaimedDelivery>) -> impl Iterator<Item = Outcome> {
    deliveries.into_iter().map(|delivery| Outcome { delivery, attempt: None })
}

impl DeliveryQueue {
    fn collect_outcomes(&mut self) {
        self.unsettled.extend(unsent(self.board.take_unsent()));
        let room = MAX_SETTLED.saturating_sub(self.unsettled.len());
        self.unsettled.extend(self.reported.take(room));
    }

    /// Whether there is nothing to claim, as far as is known, so that outcomes can be written without looking for more: a retry
    /// may be due soon, and an answer of an endpoint that was failing ends its rest, for which others wait.
    fn may_only_settle(&self, now: Timestamp) -> bool {
        let are_final = self.unsettled.iter().all(|Outcome { delivery, attempt }| {
            let is_retry = |attempt: &Attempt| matches!(attempt.outcome, AttemptOutcome::Retry(_));
            attempt.as_ref().is_some_and(|attempt| !is_retry(attempt))
                && !self.failing.contains(&delivery.destination.endpoint_id)
        });
        are_final
            && !self.has_more
            && self.next_look.is_none_or(|look| now < look)
            && !self.board.has_backlog()
            && self.suspects.are_none()
    }

    /// Writes outcomes.
    async fn settle(&mut self) -> Result<()> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        // If it fails, the attempts were made all the same: their outcomes are written by the next poll.
        self.settler.settle(&self.unsettled, &mut self.failing).await?;
        self.unsettled.clear();
        Ok(())
    }

    /// Writes outcomes and claims the next deliveries, in one transaction.
    async fn settle_and_claim(&mut self, now: Timestamp) -> Result<Claims> {
        let outcomes = std::mem::take(&mut self.unsettled);
        let lease = self.handle.lease(&self.random, now);
        let settles = |delivery| outcomes.iter().any(|outcome| outcome.delivery.delivery_id == delivery);
        let mut suspects = self.suspects.clone();
        suspects.forget(now, settles);
        let (settler, sealer, board) = (&self.settler, &self.sealer, &self.board);
        let (last_served, failing) = (self.last_served, &self.failing);
        let written = self
            .store
            .write("deliveries", async |conn: &mut Conn| {
                let settlement = settler.write_outcomes(conn, &outcomes, failing).await?;
                let claim = Claim { sealer, board, now, lease, suspects: suspects.clone() };
                Ok::<_, crate::runtime::Error>((settlement, claim.run(conn, last_served).await?))
            })
            .await;
        match written {
            Ok((settlement, claims)) => {
                self.settler.apply(settlement, &outcomes, &mut self.failing);
                Ok(claims)
            }
            Err(error) => {
                // The attempts were made: their outcomes are written by the next poll.
                self.unsettled = outcomes;
                Err(error)
            }
        }
    }

    /// Starts a task that sends the deliveries of a lane one after the other.
    fn start_sender(&self, lane: LaneId, tasks: &Tasks) {
        let (sender, board) = (Arc::clone(&self.sender), Arc::clone(&self.board));
        let (reported, wakeup) = (Arc::clone(&self.reported), self.wakeup.clone());
        tasks.spawn(async move {
            let mut task =
                SenderTask { board: &board, lane, reported: &reported, in_flight_bytes: 0, is_done: false };
            while let Some(mut delivery) = task.next() {
                let attempt = if sender.may_send(&delivery).await {
                    let started = Instant::now();
                    let attempt = sender.attempt(&mut delivery).await;
                    let took = started.elapsed();
                    metrics::histogram!("auspex_webhook_delivery_seconds").record(took);
                    reported.report_unsent(board.record_attempt(lane, attempt.is_final(), took));
                    Some(attempt)
                } else {
                    None
                };
                reported.report(Outcome { delivery, attempt });
            }
            drop(task);
            // Outcomes are written soon in any case.
            if board.has_backlog() {
                wakeup.wake();
            }
        });
    }
}

/// A task that sends deliveries. If it panics, it frees its slot, and releases the rest of its lane if no other task
/// sends it; the delivery that it was sending is due again when the lease ends.
struct SenderTask<'a> {
    board: &'a Board,
    lane: LaneId,
    reported: &'a Outcomes,
    /// The size of the delivery in flight.
    in_flight_bytes: usize,
    is_done: bool,
}

impl SenderTask<'_> {
    fn next(&mut self) -> Option<ClaimedDelivery> {
        let next = self.board.next(self.lane, self.in_flight_bytes);
        self.in_flight_bytes = next.as_ref().map_or(0, |delivery| delivery.payload.len());
        self.is_done = next.is_none();
        next
    }
}

impl Drop for SenderTask<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.reported.report_unsent(self.board.abandon(self.lane, self.in_flight_bytes));
        }
    }
}

/// The endpoints with due deliveries, starting after the one served last.
async fn endpoints_in_turn(
    conn: &mut Conn,
    last_served: Uuid,
    now: Timestamp,
) -> store::Result<Vec<DueEndpoint>> {
    let most = i64::try_from(MAX_ENDPOINTS).unwrap_or(i64::MAX);
    let mut first = queue::due_endpoints(conn, Uuid::nil(), now, most).await?;
    let before = first.partition_point(|turn| turn.endpoint_id <= last_served);
    if first.len() < MAX_ENDPOINTS || last_served == Uuid::nil() {
        // These are all endpoints, as is usual, or the list starts at the beginning anyway.
        first.rotate_left(before);
        return Ok(first);
    }
    let mut turns = queue::due_endpoints(conn, last_served, now, most).await?;
    // After the last endpoint it continues with the first, up to where it started.
    turns.extend(first.into_iter().take(before.min(MAX_ENDPOINTS - turns.len())));
    Ok(turns)
}

/// The parameters of a claim.
struct Claim<'a> {
    sealer: &'a Sealer,
    board: &'a Board,
    now: Timestamp,
    lease: Lease,
    suspects: Suspects,
}

/// An endpoint and the deliveries claimed for it.
struct ClaimedEndpoint {
    destination: Arc<Destination>,
    is_probe: bool,
    deliveries: Vec<LeasedDelivery>,
    /// Whether more of its deliveries may be due.
    has_more: bool,
}

impl Claim<'_> {
    /// Claims as many deliveries of each endpoint as there is room for.
    async fn run(mut self, conn: &mut Conn, after: Uuid) -> Result<Claims> {
        let turns = endpoints_in_turn(conn, after, self.now).await?;
        let demands: Vec<EndpointDemand> = turns
            .iter()
            .map(|turn| EndpointDemand {
                endpoint: turn.endpoint_id,
                version: turn.version,
                failures: turn.consecutive_failures,
            })
            .collect();
        let mut taken = Vec::new();
        let mut backlogs = HashSet::new();
        for (turn, room) in turns.iter().zip(self.board.rooms(&demands)) {
            let claimed = if room.deliveries > 0 { self.of_endpoint(conn, turn, room).await? } else { None };
            if claimed.as_ref().is_none_or(|claimed| claimed.has_more) {
                backlogs.insert(turn.endpoint_id);
            }
            taken.extend(claimed);
        }
        let failing = turns.iter().filter(|turn| turn.consecutive_failures > 0).map(|turn| turn.endpoint_id);
        // The next poll starts after the last endpoint with a claim, so that those without room come first then.
        // If there was room for none of these, it continues with the endpoints after them.
        let served = taken.iter().rev().find(|taken| !taken.deliveries.is_empty());
        let last = turns.last().map(|turn| turn.endpoint_id);
        let next = match (turns.is_empty(), backlogs.is_empty()) {
            (true, _) => queue::next_due(conn).await?,
            (false, true) => queue::next_due(conn).await?.map(|due| due.max(self.now + SOON)),
            (false, false) => Some(self.now + POLL),
        };
        let mut claims = Claims {
            deliveries: Vec::new(),
            abandoned: Vec::new(),
            suspects: Suspects::default(),
            failing: failing.collect(),
            looked_at: turns.iter().map(|turn| turn.endpoint_id).collect(),
            backlogs,
            last_served: served.map(|taken| taken.destination.endpoint_id).or(last).unwrap_or(after),
            is_full: turns.len() == MAX_ENDPOINTS,
            next,
        };
        self.read(conn, taken, &mut claims).await?;
        claims.suspects = self.suspects;
        Ok(claims)
    }

    /// Claims due deliveries of an endpoint. None if it cannot be served now.
    async fn of_endpoint(
        &mut self,
        conn: &mut Conn,
        turn: &DueEndpoint,
        mut room: Room,
    ) -> Result<Option<ClaimedEndpoint>> {
        let destination = match destination(self.sealer, turn) {
            Ok(destination) => Arc::new(destination),
            Err(error) => {
                // The other endpoints must not wait for this one to be fixed.
                let endpoint = turn.endpoint_id;
                error!(%endpoint, cause = error.cause(), "cannot read a webhook endpoint");
                return Ok(None);
            }
        };
        let is_probe = turn.resting_until.is_some();
        if is_probe {
            room.deliveries = 1;
            let (tenant, endpoint, until) = (turn.tenant_id, turn.endpoint_id, self.lease.until);
            if !endpoints::claim_probe(conn, tenant, endpoint, self.now, until).await? {
                return Ok(None);
            }
        }
        let most = i64::try_from(room.deliveries).unwrap_or(i64::MAX);
        let (tenant, endpoint_id) = (turn.tenant_id, turn.endpoint_id);
        let taken = self.suspects.claim(conn, endpoint_id, self.now, most, self.lease).await?;
        let mut bytes = 0;
        let (deliveries, others): (Vec<LeasedDelivery>, Vec<LeasedDelivery>) =
            taken.into_iter().partition(|due| {
                // The first delivery is claimed whatever its size.
                let fits = bytes < room.bytes;
                let is_claimed = fits && self.suspects.may_send(endpoint_id, due, self.lease.until);
                bytes +=
                    if is_claimed { usize::try_from(due.payload_bytes).unwrap_or(usize::MAX) } else { 0 };
                is_claimed
            });
        let token = self.lease.token;
        let held =
            |due: &LeasedDelivery| DeliveryLease { tenant, endpoint_id, delivery_id: due.delivery_id, token };
        let has_more = is_probe || !others.is_empty() || deliveries.len() >= room.deliveries;
        let others = others.iter().map(held).collect();
        queue::release(conn, others).await?;
        if is_probe && deliveries.is_empty() {
            endpoints::return_probe(conn, tenant, endpoint_id, turn.resting_until).await?;
            return Ok(None);
        }
        Ok(Some(ClaimedEndpoint { destination, is_probe, deliveries, has_more }))
    }

    /// Reads the content of the claimed deliveries.
    async fn read(&self, conn: &mut Conn, taken: Vec<ClaimedEndpoint>, claims: &mut Claims) -> Result<()> {
        let of = |taken: &ClaimedEndpoint| {
            let tenant = taken.destination.tenant;
            taken.deliveries.iter().map(|due| (tenant, due.delivery_id)).collect::<Vec<_>>()
        };
        let all: Vec<(TenantId, Uuid)> = taken.iter().flat_map(of).collect();
        let contents = queue::contents(conn, &all).await?;
        let mut contents: HashMap<Uuid, DeliveryContent> =
            contents.into_iter().map(|content| (content.delivery_id, content)).collect();
        let claimed = Instant::now();
        for ClaimedEndpoint { destination, is_probe, deliveries, .. } in taken {
            let (mut sendable, mut without_content) = (Vec::with_capacity(deliveries.len()), Vec::new());
            for due in deliveries {
                let Some(content) = contents.remove(&due.delivery_id) else {
                    without_content.push((due.delivery_id, destination.endpoint_id));
                    continue;
                };
                let delivery = ClaimedDelivery {
                    destination: Arc::clone(&destination),
                    delivery_id: due.delivery_id,
                    event_type: content.event_type,
                    payload: content.payload,
                    attempts: due.attempts,
                    max_attempts: content.max_attempts,
                    traceparent: content.traceparent,
                    lease: self.lease,
                    is_probe,
                    claimed,
                };
                let is_abandoned = Suspicion::after(due.unfinished_claims) == Suspicion::Abandoned;
                if is_abandoned { &mut claims.abandoned } else { &mut sendable }.push(delivery);
            }
            if !without_content.is_empty() {
                // Their objects were deleted while these were being rescheduled.
                deliveries::drop_state(conn, destination.tenant, &without_content).await?;
            }
            if !sendable.is_empty() {
                claims.deliveries.push((destination, sendable));
            }
        }
        Ok(())
    }
}

fn destination(sealer: &Sealer, turn: &DueEndpoint) -> Result<Destination> {
    let key = |column, sealed: &[u8]| -> Result<SigningKey> {
        let secret = sealer.open(column, turn.endpoint_id, sealed).map_err(internal)?;
        Ok::<_, Error>(SigningKey::new(&String::from_utf8(secret).map_err(internal)?))
    };
    let previous = match (&turn.previous_secret, turn.previous_until) {
        (Some(sealed), Some(until)) => Some((key(PREVIOUS_SECRET_COLUMN, sealed)?, until)),
        _ => None,
    };
    Ok(Destination {
        tenant: turn.tenant_id,
        endpoint_id: turn.endpoint_id,
        url: open_url(sealer, turn.endpoint_id, &turn.sealed_url)?.parse().map_err(internal)?,
        key: key(SECRET_COLUMN, &turn.secret)?,
        previous,
        version: turn.version,
    })
}
