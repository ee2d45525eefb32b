//! The courier: sends webhook deliveries, endpoints in turn, so that no receiver delays another.
//!
//! Each round is one transaction: it writes down what became of the attempts that have ended and claims what comes next.
//! A delivery that is claimed is held by a lease; whatever happens to this process, it is due again when that ends.

mod attempt;
pub(crate) mod board;
mod settlement;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Timestamp;
use store::deliveries::{self, Lease, Turn};
use store::{Backend, Conn, webhooks};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;
use uuid::Uuid;

use self::attempt::{Destination, Outcome, Parcel};
use self::board::Board;
use crate::webhooks::SECRET_PLACE;
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
}

/// What a round has claimed.
struct Claims {
    parcels: Vec<(Uuid, Vec<Parcel>)>,
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
            let wait = self.service.clock.sleep_until(next);
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.service.courier_bell.rung() => {}
                Some(outcome) = self.outcomes.recv() => self.unsettled.push(outcome),
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
            store.write("void_deliveries", async |conn: &mut Conn| deliveries::void_leases(conn).await);
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
        if self.unsettled.is_empty() {
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
        self.fruitless = if claims.is_full && claims.parcels.is_empty() { self.fruitless + 1 } else { 0 };
        let goes_on = claims.is_full && self.fruitless < MAX_FRUITLESS;
        for (endpoint, parcels) in claims.parcels {
            for _ in 0..self.board.put(endpoint, parcels) {
                self.start_sender(endpoint);
            }
        }
        Ok(if goes_on { now } else { claims.next })
    }

    /// One transaction for all that has happened and all that is to happen.
    async fn settle_and_claim(&mut self, now: Timestamp) -> Result<Claims> {
        let service = Arc::clone(&self.service);
        let outcomes = std::mem::take(&mut self.unsettled);
        let lease =
            Lease { token: service.random.id(now), until: now + service.options.webhook_timeout + HOLD };
        let (board, served, troubled) = (&self.board, self.served, &self.troubled);
        let written = service
            .store
            .write("deliveries", async |conn: &mut Conn| {
                let settlement = service.write_outcomes(conn, &outcomes, troubled).await?;
                let claims = claim_in_turn(conn, &service, board, served, now, lease).await?;
                Ok::<_, crate::Error>((settlement, claims))
            })
            .await;
        match written {
            Ok((settlement, (claims, failing))) => {
                settlement.follow(&service, &outcomes, &mut self.troubled);
                self.troubled.extend(failing);
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
    fn start_sender(&self, endpoint: Uuid) {
        let (service, board, ended) =
            (Arc::clone(&self.service), Arc::clone(&self.board), self.ended.clone());
        self.tasks.spawn(async move {
            let mut sender = Sender { board: &board, endpoint, ended: &ended, is_done: false };
            while let Some(parcel) = sender.next() {
                let attempt = if service.may_send(&parcel).await {
                    let started = Instant::now();
                    let attempt = service.attempt(&parcel).await;
                    let took = started.elapsed();
                    metrics::histogram!("auspex_webhook_delivery_seconds").record(took);
                    for parcel in board.learn(endpoint, attempt.is_success(), took) {
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
    endpoint: Uuid,
    ended: &'a UnboundedSender<Outcome>,
    is_done: bool,
}

impl Sender<'_> {
    fn next(&mut self) -> Option<Parcel> {
        let next = self.board.next(self.endpoint);
        self.is_done = next.is_none();
        next
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            for parcel in self.board.abandon(self.endpoint) {
                let _ = self.ended.send(Outcome { parcel, attempt: None });
            }
        }
    }
}

/// The endpoints to serve, beginning after the one that was served last.
async fn in_turn(conn: &mut Conn, served: Uuid, now: Timestamp) -> store::Result<Vec<Turn>> {
    let most = i64::try_from(TURNS).unwrap_or(i64::MAX);
    let mut turns = deliveries::turns(conn, served, now, most).await?;
    if turns.len() < TURNS && served != Uuid::nil() {
        // Past the end it goes on from the start, up to where it began.
        let rest = deliveries::turns(conn, Uuid::nil(), now, most).await?;
        let rest = rest.into_iter().take_while(|turn| turn.endpoint_id <= served);
        turns.extend(rest.take(TURNS - turns.len()));
    }
    Ok(turns)
}

async fn next_look(conn: &mut Conn, now: Timestamp) -> store::Result<Timestamp> {
    let due = deliveries::next_due(conn).await?;
    Ok(due.unwrap_or(now + POLL).min(now + POLL))
}

/// Claims as much of each endpoint as there is room for. Returns with it the endpoints that have failed lately.
async fn claim_in_turn(
    conn: &mut Conn,
    service: &Service,
    board: &Board,
    after: Uuid,
    now: Timestamp,
    lease: Lease,
) -> Result<(Claims, Vec<Uuid>)> {
    let turns = in_turn(conn, after, now).await?;
    let endpoints: Vec<(Uuid, i64)> =
        turns.iter().map(|turn| (turn.endpoint_id, turn.consecutive_failures)).collect();
    let rooms = board.rooms(&endpoints);
    let claimed_at = Instant::now();
    let is_full = turns.len() == TURNS;
    let mut claims = Claims { parcels: Vec::new(), served: after, is_full, next: now + POLL };
    let mut served = None;
    let mut failing = Vec::new();
    for (turn, mut room) in turns.iter().zip(rooms) {
        if room == 0 {
            continue;
        }
        let destination = match destination(service, turn) {
            Ok(destination) => Arc::new(destination),
            Err(error) => {
                // Nobody else waits for this one to be mended.
                let endpoint = turn.endpoint_id;
                error!(%endpoint, cause = error.cause(), "a webhook endpoint cannot be read");
                continue;
            }
        };
        let is_probe = turn.resting_until.is_some();
        if is_probe {
            room = 1;
            let (tenant, endpoint) = (turn.tenant_id, turn.endpoint_id);
            if !webhooks::take_probe(conn, tenant, endpoint, now, lease.until).await? {
                continue;
            }
        }
        let most = i64::try_from(room).unwrap_or(i64::MAX);
        let claimed = deliveries::claim(conn, turn, now, lease, most).await?;
        if turn.consecutive_failures > 0 {
            failing.push(turn.endpoint_id);
        }
        if !claimed.is_empty() {
            served = Some(turn.endpoint_id);
        }
        let parcel = |delivery| Parcel {
            destination: Arc::clone(&destination),
            delivery,
            lease,
            is_probe,
            claimed: claimed_at,
        };
        claims.parcels.push((turn.endpoint_id, claimed.into_iter().map(parcel).collect()));
    }
    // The next round begins after the last one that got something: those for whom no room was left come first then. With
    // room for none of these, it is others' turn.
    let looked_at = turns.last().map(|turn| turn.endpoint_id);
    claims.served = served.or(looked_at).unwrap_or(after);
    if turns.is_empty() {
        claims.next = next_look(conn, now).await?;
    }
    Ok((claims, failing))
}

fn destination(service: &Service, turn: &Turn) -> Result<Destination> {
    let secret = service.sealer.open(SECRET_PLACE, turn.endpoint_id, &turn.secret).map_err(internal)?;
    Ok(Destination {
        tenant: turn.tenant_id,
        endpoint_id: turn.endpoint_id,
        url: turn.url.parse().map_err(internal)?,
        secret: String::from_utf8(secret).map_err(internal)?,
        updated_at: turn.updated_at,
    })
}
