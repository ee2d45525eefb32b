//! The courier: sends webhook deliveries, endpoints in turn, so that no receiver delays another.
//!
//! Each round is one transaction: it writes down what became of the attempts that have ended and claims what comes next.
//! A delivery that is claimed is held by a lease; whatever happens to this process, it is due again when that ends.

mod attempt;
pub(crate) mod board;
mod settlement;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::webhook::SigningKey;
use model::{TenantId, Timestamp};
use store::actions::webhooks::queue;
use store::actions::webhooks::queue::{Content, Due, Held, Lease, Turn};
use store::{Backend, Conn};
use store::actions::webhooks::{deliveries, endpoints};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};
use uuid::Uuid;

use self::attempt::{Attempt, Destination, Outcome, Parcel};
use self::board::{Asking, Board, LaneId, Room};
use crate::actions::webhooks::endpoints::SECRET_PLACE;
use crate::{Result, Service, internal};

/// How often the queue is looked at when nothing rings: what nobody told us of is found then at the latest.
const POLL: Duration = Duration::from_secs(1);
/// How long a delivery may wait in this process before it is sent. A lease lasts so much longer than an attempt.
const HOLD: Duration = Duration::from_secs(20);
/// Endpoints that are served in one round.
const TURNS: usize = 128;
/// Fruitless rounds before it waits for something to happen.
const MAX_FRUITLESS: u32 = 64;
/// Outcomes that are written down in one round.
const MAX_SETTLED: usize = 1_024;
/// How long outcomes are gathered before they are written down: a round has its price, whatever it writes.
const GATHER: Duration = Duration::from_millis(10);
/// Outcomes that are worth a round at once.
const PLENTY: usize = 256;
/// A delivery that was taken in hand this often, and each time nobody came to the end of an attempt, may be what ends them:
/// it is taken alone among its kind, so that others do not fall under suspicion with it.
const SUSPECT: i64 = 2;
/// And after this often it is given up.
const MAX_BEGUN: i64 = 5;

pub(crate) struct Courier {
    service: Arc<Service>,
    board: Arc<Board>,
    tasks: TaskTracker,
    ended: UnboundedSender<Outcome>,
    outcomes: UnboundedReceiver<Outcome>,
    /// Outcomes still to be written down.
    unsettled: Vec<Outcome>,
    /// Endpoints whose last failure is not forgotten yet: a success of theirs is worth writing down.
    troubled: HashSet<Uuid>,
    /// The endpoint that was served last.
    served: Uuid,
    /// Rounds in a row in which there were more endpoints than one round serves, and no room for any of them.
    fruitless: u32,
    /// The delivery under suspicion that is in hand, and until when it is.
    suspect: Option<(Uuid, Timestamp)>,
    /// Whether the last round left something to do for another one at once.
    goes_on: bool,
}

/// What a round has claimed.
struct Claims {
    parcels: Vec<(Arc<Destination>, Vec<Parcel>)>,
    /// What is given up instead of being sent.
    abandoned: Vec<Parcel>,
    suspect: Option<(Uuid, Timestamp)>,
    /// Endpoints that have failed lately.
    failing: Vec<Uuid>,
    served: Uuid,
    /// Whether there may be more endpoints whose turn has not come.
    is_full: bool,
    /// When to look again.
    next: Timestamp,
}

impl Courier {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        // Bounded by what the board holds.
        let (ended, outcomes) = unbounded_channel();
        let board = Arc::clone(&service.board);
        Self {
            service,
            board,
            tasks: TaskTracker::new(),
            ended,
            outcomes,
            unsettled: Vec::new(),
            troubled: HashSet::new(),
            served: Uuid::nil(),
            fruitless: 0,
            suspect: None,
            goes_on: false,
        }
    }

    /// Works until it is told to stop, and then finishes what is being sent and puts back the rest.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        self.void_leases().await;
        while !stop.is_cancelled() {
            let next = match self.round().await {
                Ok(next) => next,
                Err(error) => {
                    error!(cause = error.cause(), "cannot send webhook deliveries: {error}");
                    // Real time: the clock may stand still in a test, and outcomes must not wait for it.
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(POLL) => {}
                    }
                    self.service.clock.now()
                }
            };
            let is_hurried = next <= self.service.clock.now();
            let wait = self.service.clock.sleep_until(next);
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.service.courier_bell.rung() => {}
                Some(outcome) = self.outcomes.recv() => {
                    self.unsettled.push(outcome);
                    if !is_hurried && self.outcomes.len() < PLENTY {
                        // Real time again. The bell ends this: a new delivery does not wait, nor does an empty lane.
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = self.service.courier_bell.rung() => {}
                            () = tokio::time::sleep(GATHER) => {}
                        }
                    }
                }
                () = wait => {}
            }
        }
        for parcel in self.board.clear() {
            self.unsettled.push(Outcome { parcel, attempt: None });
        }
        self.tasks.close();
        self.tasks.wait().await;
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.unsettled.push(outcome);
        }
        for outcomes in self.unsettled.chunks(MAX_SETTLED) {
            if let Err(error) = self.service.settle(outcomes, &mut self.troubled).await {
                error!(cause = error.cause(), "webhook deliveries may be sent twice: {error}");
            }
        }
    }

    /// One process has a SQLite file: whoever held these leases is gone.
    async fn void_leases(&self) {
        if self.service.store.backend() != Backend::Sqlite {
            return;
        }
        let store = &self.service.store;
        let voided =
            store.write("void_deliveries", async |conn: &mut Conn| queue::void_leases(conn).await);
        if let Err(error) = voided.await {
            error!(%error, "cannot void the leases of an earlier process");
        }
    }

    fn gather(&mut self) {
        let recalled = self.board.take_recalled();
        self.unsettled.extend(recalled.into_iter().map(|parcel| Outcome { parcel, attempt: None }));
        while self.unsettled.len() < MAX_SETTLED
            && let Ok(outcome) = self.outcomes.try_recv()
        {
            self.unsettled.push(outcome);
        }
    }

    /// Writes down what has ended, claims what comes next and starts sending it; returns when to look again.
    async fn round(&mut self) -> Result<Timestamp> {
        self.gather();
        let service = Arc::clone(&self.service);
        let now = service.clock.now();
        if self.unsettled.is_empty() && !self.goes_on {
            // An idle courier only reads: on SQLite a claim would wait for its turn to write.
            let waits = service
                .store
                .read("next_delivery", async |conn: &mut Conn| {
                    let turns = in_turn(conn, self.served, now).await?;
                    if turns.is_empty() { next_look(conn, now).await.map(Some) } else { Ok(None) }
                })
                .await?;
            if let Some(next) = waits {
                return Ok(next);
            }
        }
        let claims = self.settle_and_claim(now).await?;
        self.served = claims.served;
        self.suspect = claims.suspect;
        self.troubled.extend(claims.failing);
        self.fruitless = if claims.is_full && claims.parcels.is_empty() { self.fruitless + 1 } else { 0 };
        self.goes_on = claims.is_full && self.fruitless < MAX_FRUITLESS || !claims.abandoned.is_empty();
        for parcel in claims.abandoned {
            warn!(delivery = %parcel.delivery_id, "a webhook delivery ends whoever sends it and is given up");
            self.unsettled.push(Outcome { parcel, attempt: Some(Attempt::abandoned(now)) });
        }
        for (destination, parcels) in claims.parcels {
            let claimed = parcels.len();
            for lane in self.board.put(destination.endpoint_id, destination.updated_at, parcels) {
                self.start_sender(lane);
            }
            self.goes_on |= self.board.is_hungry(destination.endpoint_id, claimed);
        }
        Ok(if self.goes_on { now } else { claims.next })
    }

    /// One transaction for all that has happened and all that is to happen.
    async fn settle_and_claim(&mut self, now: Timestamp) -> Result<Claims> {
        let service = Arc::clone(&self.service);
        let outcomes = std::mem::take(&mut self.unsettled);
        let lease =
            Lease { token: service.random.id(now), until: now + service.options.webhook_timeout + HOLD };
        let settles = |delivery| outcomes.iter().any(|outcome| outcome.parcel.delivery_id == delivery);
        let suspect = self.suspect.filter(|(delivery, until)| *until > now && !settles(*delivery));
        let (board, served, troubled) = (&self.board, self.served, &self.troubled);
        let written = service
            .store
            .write("deliveries", async |conn: &mut Conn| {
                let settlement = service.write_outcomes(conn, &outcomes, troubled).await?;
                let claims = Claim { service: &service, board, now, lease, suspect };
                Ok::<_, crate::Error>((settlement, claims.in_turn(conn, served).await?))
            })
            .await;
        match written {
            Ok((settlement, claims)) => {
                settlement.follow(&service, &outcomes, &mut self.troubled);
                Ok(claims)
            }
            Err(error) => {
                // What has happened has happened: it is written down next time.
                self.unsettled = outcomes;
                Err(error)
            }
        }
    }

    /// Starts a task that sends what is in an endpoint's lane, one after the other.
    fn start_sender(&self, lane: LaneId) {
        let (service, board, ended) =
            (Arc::clone(&self.service), Arc::clone(&self.board), self.ended.clone());
        self.tasks.spawn(async move {
            let mut sender = Sender { board: &board, lane, ended: &ended, carried: 0, is_done: false };
            while let Some(mut parcel) = sender.next() {
                let attempt = if service.may_send(&parcel).await {
                    let started = Instant::now();
                    let attempt = service.attempt(&mut parcel).await;
                    let took = started.elapsed();
                    metrics::histogram!("auspex_webhook_delivery_seconds").record(took);
                    for parcel in board.learn(lane, attempt.is_success(), took) {
                        let _ = ended.send(Outcome { parcel, attempt: None });
                    }
                    Some(attempt)
                } else {
                    None
                };
                // The receiving end is gone only when the courier is.
                let _ = ended.send(Outcome { parcel, attempt });
            }
            service.courier_bell.ring();
        });
    }
}

/// A task that sends. One that panics leaves its place to others like one that ends, and gives back what it would have
/// sent; the delivery in its hands is due again when the lease ends.
struct Sender<'a> {
    board: &'a Board,
    lane: LaneId,
    ended: &'a UnboundedSender<Outcome>,
    /// The size of what it has in hand.
    carried: usize,
    is_done: bool,
}

impl Sender<'_> {
    fn next(&mut self) -> Option<Parcel> {
        let next = self.board.next(self.lane, self.carried);
        self.carried = next.as_ref().map_or(0, |parcel| parcel.payload.len());
        self.is_done = next.is_none();
        next
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            for parcel in self.board.abandon(self.lane, self.carried) {
                let _ = self.ended.send(Outcome { parcel, attempt: None });
            }
        }
    }
}

/// The endpoints to serve, beginning after the one that was served last.
async fn in_turn(conn: &mut Conn, served: Uuid, now: Timestamp) -> store::Result<Vec<Turn>> {
    let most = i64::try_from(TURNS).unwrap_or(i64::MAX);
    let mut first = queue::turns(conn, Uuid::nil(), now, most).await?;
    let before = first.partition_point(|turn| turn.endpoint_id <= served);
    if first.len() < TURNS || served == Uuid::nil() {
        // All that there are, which is the usual case, or where it begins anyway.
        first.rotate_left(before);
        return Ok(first);
    }
    let mut turns = queue::turns(conn, served, now, most).await?;
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
    service: &'a Service,
    board: &'a Board,
    now: Timestamp,
    lease: Lease,
    suspect: Option<(Uuid, Timestamp)>,
}

/// An endpoint of which something is taken.
struct Taken {
    destination: Arc<Destination>,
    is_probe: bool,
    deliveries: Vec<Due>,
}

impl Claim<'_> {
    /// Claims as much of each endpoint as there is room for.
    async fn in_turn(mut self, conn: &mut Conn, after: Uuid) -> Result<Claims> {
        let turns = in_turn(conn, after, self.now).await?;
        let asking: Vec<Asking> = turns
            .iter()
            .map(|turn| Asking {
                endpoint: turn.endpoint_id,
                version: turn.updated_at,
                failures: turn.consecutive_failures,
            })
            .collect();
        let mut taken = Vec::new();
        for (turn, room) in turns.iter().zip(self.board.rooms(&asking)) {
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
            parcels: Vec::new(),
            abandoned: Vec::new(),
            suspect: None,
            failing: failing.collect(),
            served: served.map(|taken| taken.destination.endpoint_id).or(looked_at).unwrap_or(after),
            is_full: turns.len() == TURNS,
            next: if turns.is_empty() { next_look(conn, self.now).await? } else { self.now + POLL },
        };
        self.read(conn, taken, &mut claims).await?;
        claims.suspect = self.suspect;
        Ok(claims)
    }

    /// Takes what is due to an endpoint in hand. None when it cannot be served now.
    async fn of_endpoint(&mut self, conn: &mut Conn, turn: &Turn, mut room: Room) -> Result<Option<Taken>> {
        let destination = match destination(self.service, turn) {
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
        if !(SUSPECT..MAX_BEGUN).contains(&due.begun) {
            return true;
        }
        let is_free = self.suspect.is_none();
        self.suspect.get_or_insert((due.delivery_id, self.lease.until));
        is_free
    }

    /// Reads what was taken in hand.
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
            let (mut parcels, mut hollow) = (Vec::with_capacity(deliveries.len()), Vec::new());
            for due in deliveries {
                let Some(content) = contents.remove(&due.delivery_id) else {
                    hollow.push((due.delivery_id, destination.endpoint_id));
                    continue;
                };
                let parcel = Parcel {
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
                if due.begun >= MAX_BEGUN { &mut claims.abandoned } else { &mut parcels }.push(parcel);
            }
            if !hollow.is_empty() {
                // Their objects were deleted while these were put back into the queue.
                deliveries::drop_all(conn, destination.tenant, &hollow).await?;
            }
            if !parcels.is_empty() {
                claims.parcels.push((destination, parcels));
            }
        }
        Ok(())
    }
}

fn destination(service: &Service, turn: &Turn) -> Result<Destination> {
    let secret = service.sealer.open(SECRET_PLACE, turn.endpoint_id, &turn.secret).map_err(internal)?;
    let secret = String::from_utf8(secret).map_err(internal)?;
    Ok(Destination {
        tenant: turn.tenant_id,
        endpoint_id: turn.endpoint_id,
        url: turn.url.parse().map_err(internal)?,
        key: SigningKey::new(&secret),
        updated_at: turn.updated_at,
    })
}
