//! The courier: sends webhook deliveries, endpoints in turn, so that no receiver delays another.
//!
//! Each look at the queue is one transaction: it writes what became of the attempts that have ended and claims what comes
//! next. A claimed delivery is leased; whatever happens to this process, it is due again when the lease ends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::webhook::SigningKey;
use model::{TenantId, Timestamp};
use store::actions::webhooks::queue::{self, Content, Due, Held, Turn};
use store::actions::webhooks::{deliveries, endpoints};
use store::{Conn, Lease, Store};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use uuid::Uuid;

use crate::actions::webhooks::attempt::{
    Attempt, ClaimedDelivery, CourierOptions, Destination, Outcome, Sender,
};
use crate::actions::webhooks::board::{Board, EndpointDemand, LaneId, Room};
use crate::actions::webhooks::endpoints::SECRET_COLUMN;
use crate::actions::webhooks::handle::CourierHandle;
use crate::actions::webhooks::settlement::Settler;
use crate::outbox::Notifications;
use crate::runtime::driver::{LeasedQueue, NextPoll, Tasks, drive};
use crate::runtime::{Clock, Outbound, Random, Result, Sealer, Traces, Wakeup, internal};

/// How often the queue is looked at without being woken: what no notification told of is found then at the latest.
const POLL: Duration = Duration::from_secs(1);
/// How long a delivery may wait in this process before it is sent. A lease lasts so much longer than an attempt.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// Endpoints that are served by one look.
const TURNS: usize = 128;
/// Fruitless looks in a row before the courier waits for something to happen.
const MAX_FRUITLESS: u32 = 64;
/// Outcomes that are written in one transaction.
const MAX_SETTLED: usize = 1_024;
/// Outcomes that are worth a transaction at once; fewer wait some milliseconds for others.
const PLENTY: usize = 256;
/// A delivery that was claimed this often without an attempt coming to its end may be what crashes the sender: it is claimed
/// alone among its kind, so that others do not fall under suspicion with it.
const SUSPECT: i64 = 2;
/// A delivery that was claimed this often without an attempt coming to its end is given up.
const MAX_CLAIMS: i64 = 5;

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

/// The courier at work.
struct DeliveryQueue {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    timeout: Duration,
    sender: Arc<Sender>,
    settler: Settler,
    wakeup: Wakeup,
    board: Arc<Board>,
    /// Outcomes that tasks have reported.
    reported: Arc<Outcomes>,
    /// Outcomes still to be written.
    unsettled: Vec<Outcome>,
    /// Endpoints whose last failure is not forgotten yet: a success of theirs must be written.
    failing: HashSet<Uuid>,
    /// The endpoint that was served last.
    last_served: Uuid,
    /// Looks in a row that found more endpoints than one look serves, and no room for any of them.
    fruitless: u32,
    /// The claimed delivery under suspicion, and until when it is leased.
    suspect: Option<(Uuid, Timestamp)>,
    /// Whether the last look left something to do at once.
    goes_on: bool,
}

/// Outcomes on their way from the tasks to the courier.
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
        if waiting.len() < PLENTY { self.wakeup.wake_soon() } else { self.wakeup.wake() }
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

/// What a look has claimed.
struct Claims {
    deliveries: Vec<(Arc<Destination>, Vec<ClaimedDelivery>)>,
    /// What is given up instead of being sent.
    abandoned: Vec<ClaimedDelivery>,
    suspect: Option<(Uuid, Timestamp)>,
    /// Endpoints that have failed lately.
    failing: Vec<Uuid>,
    last_served: Uuid,
    /// Whether there may be more endpoints whose turn has not come.
    is_full: bool,
    /// When to look again.
    next: Timestamp,
}

impl Courier {
    /// Sends deliveries until it is told to stop; then it finishes what is being sent and puts back the rest.
    pub(crate) async fn run(self, stop: CancellationToken) {
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
            timeout: options.timeout,
            sender: Arc::new(sender),
            settler,
            wakeup: wakeup.clone(),
            board: Arc::clone(&handle.board),
            // Bounded by what the board holds.
            reported: Arc::new(Outcomes { waiting: Mutex::default(), wakeup: wakeup.clone() }),
            unsettled: Vec::new(),
            failing: HashSet::new(),
            last_served: Uuid::nil(),
            fruitless: 0,
            suspect: None,
            goes_on: false,
        };
        drive(queue, clock, wakeup, stop).await;
    }
}

impl LeasedQueue for DeliveryQueue {
    const NAME: &'static str = "courier";

    async fn prepare(&mut self) -> Result<()> {
        let void = async |conn: &mut Conn| queue::void_leases(conn).await;
        self.store.write("void_delivery_leases", void).await?;
        Ok(())
    }

    async fn poll(&mut self, tasks: &Tasks) -> Result<NextPoll> {
        self.gather();
        let now = self.clock.now();
        if self.unsettled.is_empty() && !self.goes_on {
            // An idle courier only reads: on SQLite a claim would wait for its turn to write.
            let next = self
                .store
                .read("next_delivery", async |conn: &mut Conn| {
                    let turns = in_turn(conn, self.last_served, now).await?;
                    if turns.is_empty() { next_look(conn, now).await.map(Some) } else { Ok(None) }
                })
                .await?;
            if let Some(next) = next {
                return Ok(NextPoll::At(next));
            }
        }
        let claims = self.settle_and_claim(now).await?;
        self.last_served = claims.last_served;
        self.suspect = claims.suspect;
        self.failing.extend(claims.failing);
        self.fruitless = if claims.is_full && claims.deliveries.is_empty() { self.fruitless + 1 } else { 0 };
        self.goes_on = claims.is_full && self.fruitless < MAX_FRUITLESS || !claims.abandoned.is_empty();
        for delivery in claims.abandoned {
            warn!(delivery = %delivery.delivery_id, "a webhook delivery is given up: every sender crashed during it");
            self.unsettled.push(Outcome { delivery, attempt: Some(Attempt::abandoned(now)) });
        }
        for (destination, claimed) in claims.deliveries {
            let count = claimed.len();
            for lane in self.board.put(destination.endpoint_id, destination.updated_at, claimed) {
                self.start_sender(lane, tasks);
            }
            self.goes_on |= self.board.is_hungry(destination.endpoint_id, count);
        }
        Ok(NextPoll::At(if self.goes_on { now } else { claims.next }))
    }

    fn stop(&mut self) {
        // Tasks end after the delivery that they are sending: there is nothing left for them to take.
        self.unsettled.extend(unsent(self.board.clear()));
    }

    async fn finish(&mut self) {
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
    fn gather(&mut self) {
        self.unsettled.extend(unsent(self.board.take_recalled()));
        let room = MAX_SETTLED.saturating_sub(self.unsettled.len());
        self.unsettled.extend(self.reported.take(room));
    }

    /// Writes what has ended and claims what comes next, in one transaction.
    async fn settle_and_claim(&mut self, now: Timestamp) -> Result<Claims> {
        let outcomes = std::mem::take(&mut self.unsettled);
        let lease = Lease { token: self.random.id(now), until: now + self.timeout + MAX_WAIT };
        let settles = |delivery| outcomes.iter().any(|outcome| outcome.delivery.delivery_id == delivery);
        let suspect = self.suspect.filter(|(delivery, until)| *until > now && !settles(*delivery));
        let (settler, sealer, board) = (&self.settler, &self.sealer, &self.board);
        let (last_served, failing) = (self.last_served, &self.failing);
        let written = self
            .store
            .write("deliveries", async |conn: &mut Conn| {
                let settlement = settler.write_outcomes(conn, &outcomes, failing).await?;
                let claim = Claim { sealer, board, now, lease, suspect };
                Ok::<_, crate::runtime::Error>((settlement, claim.in_turn(conn, last_served).await?))
            })
            .await;
        match written {
            Ok((settlement, claims)) => {
                self.settler.follow(settlement, &outcomes, &mut self.failing);
                Ok(claims)
            }
            Err(error) => {
                // The attempts were made all the same: they are written next time.
                self.unsettled = outcomes;
                Err(error)
            }
        }
    }

    /// Starts a task that sends what is in an endpoint's lane, one after the other.
    fn start_sender(&self, lane: LaneId, tasks: &Tasks) {
        let (sender, board) = (Arc::clone(&self.sender), Arc::clone(&self.board));
        let (reported, wakeup) = (Arc::clone(&self.reported), self.wakeup.clone());
        tasks.spawn(async move {
            let mut task =
                SenderTask { board: &board, lane, reported: &reported, carried: 0, is_done: false };
            while let Some(mut delivery) = task.next() {
                let attempt = if sender.may_send(&delivery).await {
                    let started = Instant::now();
                    let attempt = sender.attempt(&mut delivery).await;
                    let took = started.elapsed();
                    metrics::histogram!("auspex_webhook_delivery_seconds").record(took);
                    reported.report_unsent(board.record_attempt(lane, attempt.is_success(), took));
                    Some(attempt)
                } else {
                    None
                };
                reported.report(Outcome { delivery, attempt });
            }
            drop(task);
            wakeup.wake();
        });
    }
}

/// A task that sends. One that panics frees its slot like one that ends, and gives back what it would have sent; the
/// delivery that it was sending is due again when the lease ends.
struct SenderTask<'a> {
    board: &'a Board,
    lane: LaneId,
    reported: &'a Outcomes,
    /// The size of what it is sending.
    carried: usize,
    is_done: bool,
}

impl SenderTask<'_> {
    fn next(&mut self) -> Option<ClaimedDelivery> {
        let next = self.board.next(self.lane, self.carried);
        self.carried = next.as_ref().map_or(0, |delivery| delivery.payload.len());
        self.is_done = next.is_none();
        next
    }
}

impl Drop for SenderTask<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.reported.report_unsent(self.board.abandon(self.lane, self.carried));
        }
    }
}

/// The endpoints to serve, beginning after the one that was served last.
async fn in_turn(conn: &mut Conn, last_served: Uuid, now: Timestamp) -> store::Result<Vec<Turn>> {
    let most = i64::try_from(TURNS).unwrap_or(i64::MAX);
    let mut first = queue::turns(conn, Uuid::nil(), now, most).await?;
    let before = first.partition_point(|turn| turn.endpoint_id <= last_served);
    if first.len() < TURNS || last_served == Uuid::nil() {
        // All that there are, which is the usual case, or where it begins anyway.
        first.rotate_left(before);
        return Ok(first);
    }
    let mut turns = queue::turns(conn, last_served, now, most).await?;
    // Past the end it goes on from the start, up to where it began.
    turns.extend(first.into_iter().take(before.min(TURNS - turns.len())));
    Ok(turns)
}

async fn next_look(conn: &mut Conn, now: Timestamp) -> store::Result<Timestamp> {
    let due = queue::next_due(conn).await?;
    Ok(due.unwrap_or(now + POLL).min(now + POLL))
}

/// What claiming goes by.
struct Claim<'a> {
    sealer: &'a Sealer,
    board: &'a Board,
    now: Timestamp,
    lease: Lease,
    suspect: Option<(Uuid, Timestamp)>,
}

/// An endpoint of which something was claimed.
struct Taken {
    destination: Arc<Destination>,
    is_probe: bool,
    deliveries: Vec<Due>,
}

impl Claim<'_> {
    /// Claims as much of each endpoint as there is room for.
    async fn in_turn(mut self, conn: &mut Conn, after: Uuid) -> Result<Claims> {
        let turns = in_turn(conn, after, self.now).await?;
        let demands: Vec<EndpointDemand> = turns
            .iter()
            .map(|turn| EndpointDemand {
                endpoint: turn.endpoint_id,
                version: turn.updated_at,
                failures: turn.consecutive_failures,
            })
            .collect();
        let mut taken = Vec::new();
        for (turn, room) in turns.iter().zip(self.board.rooms(&demands)) {
            if room.deliveries > 0 {
                taken.extend(self.of_endpoint(conn, turn, room).await?);
            }
        }
        let failing = turns.iter().filter(|turn| turn.consecutive_failures > 0).map(|turn| turn.endpoint_id);
        // The next round begins after the last one that got something: those for whom no room was left come first then.
        // With room for none of these, it is others' turn.
        let served = taken.iter().rev().find(|taken| !taken.deliveries.is_empty());
        let looked_at = turns.last().map(|turn| turn.endpoint_id);
        let mut claims = Claims {
            deliveries: Vec::new(),
            abandoned: Vec::new(),
            suspect: None,
            failing: failing.collect(),
            last_served: served.map(|taken| taken.destination.endpoint_id).or(looked_at).unwrap_or(after),
            is_full: turns.len() == TURNS,
            next: if turns.is_empty() { next_look(conn, self.now).await? } else { self.now + POLL },
        };
        self.read(conn, taken, &mut claims).await?;
        claims.suspect = self.suspect;
        Ok(claims)
    }

    /// Claims what is due to an endpoint. None when it cannot be served now.
    async fn of_endpoint(&mut self, conn: &mut Conn, turn: &Turn, mut room: Room) -> Result<Option<Taken>> {
        let destination = match destination(self.sealer, turn) {
            Ok(destination) => Arc::new(destination),
            Err(error) => {
                // Nobody else waits for this one to be mended.
                let endpoint = turn.endpoint_id;
                error!(%endpoint, cause = error.cause(), "a webhook endpoint cannot be read");
                return Ok(None);
            }
        };
        let is_probe = turn.resting_until.is_some();
        if is_probe {
            room.deliveries = 1;
            let (tenant, endpoint, until) = (turn.tenant_id, turn.endpoint_id, self.lease.until);
            if !endpoints::take_probe(conn, tenant, endpoint, self.now, until).await? {
                return Ok(None);
            }
        }
        let most = i64::try_from(room.deliveries).unwrap_or(i64::MAX);
        let (tenant, endpoint_id) = (turn.tenant_id, turn.endpoint_id);
        let taken = queue::take(conn, endpoint_id, self.now, most, self.lease).await?;
        let mut bytes = 0;
        let (deliveries, others): (Vec<Due>, Vec<Due>) = taken.into_iter().partition(|due| {
            // The first one goes whatever its size.
            let fits = bytes < room.bytes;
            let may_go = fits && self.may_take(due);
            bytes += if may_go { usize::try_from(due.payload_bytes).unwrap_or(usize::MAX) } else { 0 };
            may_go
        });
        let token = self.lease.token;
        let held = |due: &Due| Held { tenant, endpoint_id, delivery_id: due.delivery_id, token };
        let others = others.iter().map(held).collect();
        queue::release(conn, others).await?;
        Ok(Some(Taken { destination, is_probe, deliveries }))
    }

    /// Whether a delivery may be taken, as far as it is under suspicion.
    fn may_take(&mut self, due: &Due) -> bool {
        if !(SUSPECT..MAX_CLAIMS).contains(&due.begun) {
            return true;
        }
        let is_free = self.suspect.is_none();
        self.suspect.get_or_insert((due.delivery_id, self.lease.until));
        is_free
    }

    /// Reads what was claimed.
    async fn read(&self, conn: &mut Conn, taken: Vec<Taken>, claims: &mut Claims) -> Result<()> {
        let of = |taken: &Taken| {
            let tenant = taken.destination.tenant;
            taken.deliveries.iter().map(|due| (tenant, due.delivery_id)).collect::<Vec<_>>()
        };
        let all: Vec<(TenantId, Uuid)> = taken.iter().flat_map(of).collect();
        let contents = queue::contents(conn, &all).await?;
        let mut contents: HashMap<Uuid, Content> =
            contents.into_iter().map(|content| (content.delivery_id, content)).collect();
        let claimed = Instant::now();
        for Taken { destination, is_probe, deliveries } in taken {
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
                if due.begun >= MAX_CLAIMS { &mut claims.abandoned } else { &mut sendable }.push(delivery);
            }
            if !without_content.is_empty() {
                // Their objects were deleted while these were put back into the queue.
                deliveries::drop_all(conn, destination.tenant, &without_content).await?;
            }
            if !sendable.is_empty() {
                claims.deliveries.push((destination, sendable));
            }
        }
        Ok(())
    }
}

fn destination(sealer: &Sealer, turn: &Turn) -> Result<Destination> {
    let secret = sealer.open(SECRET_COLUMN, turn.endpoint_id, &turn.secret).map_err(internal)?;
    let secret = String::from_utf8(secret).map_err(internal)?;
    Ok(Destination {
        tenant: turn.tenant_id,
        endpoint_id: turn.endpoint_id,
        url: turn.url.parse().map_err(internal)?,
        key: SigningKey::new(&secret),
        updated_at: turn.updated_at,
    })
}
