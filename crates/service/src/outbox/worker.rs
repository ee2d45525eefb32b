//! The outbox: messages are queued in the transaction of the change that they report, and sent at least once by a worker.
//!
//! There is one [`Outbox`] per channel, and its [`OutboxChannel`] sends the messages. The worker claims due messages, sends
//! them, and deletes or reschedules their rows. The firing that a message reports is updated in the same transaction.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::api::{ActionType, FiringStatus};
use model::backoff::{Backoff, Jitter};
use model::{TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::actions::firings;
use store::outbox::messages::{self, Channel, LeasedMessage, NewMessage};
use store::{Conn, Lease, Result, Store};
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::runtime::driver::{LeasedQueue, NextPoll, PollCause, Suspicion, Tasks, drive};
use crate::runtime::turns::Turns;
use crate::runtime::{Clock, Random, Sealer, Supervision, Wakeup};

/// The column that messages are sealed for.
const COLUMN: &str = "outbox.message";
/// How much longer than the deadline of an attempt its lease lasts, so that no other worker sends the message meanwhile.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often to poll without being woken while not everything that is due has been claimed; and how long a suspect is put off while
/// another one is in flight.
const POLL: Duration = Duration::from_secs(2);
/// Attempts before a message is given up: with the delays below, about an hour.
const MAX_ATTEMPTS: i64 = 8;
/// The error of a message that is given up because no attempt ended.
const ABANDONED: &str = "abandoned: the sender crashed during every attempt";
/// The delays between attempts.
const RETRY: Backoff =
    Backoff { first: Duration::from_secs(30), longest: Duration::from_hours(1), jitter: Jitter::TENTH };

/// How often the outcome of a message is written again during an outage of the database.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// After an outage of this length the message may be sent again.
const LONGEST_OUTAGE: Duration = Duration::from_mins(10);

/// Sends the messages of one channel.
pub trait OutboxChannel: Clone + Send + Sync + 'static {
    /// The messages of this channel. They may contain credentials.
    type Message: Serialize + DeserializeOwned + Send + Sync;
    /// The channel.
    const CHANNEL: Channel;
    /// How long one attempt may take.
    const DEADLINE: Duration;
    /// The maximum number of messages that one process sends concurrently.
    const SENDS_AT_ONCE: usize;
    /// The maximum number of messages of one lane that one process sends concurrently.
    const LANE_SENDS: usize;
    /// The rule action that uses this channel.
    const ACTION: ActionType;
    /// The counter of messages by outcome.
    const METER: &'static str;
    /// The detail of a firing whose message was sent.
    const SENT: &'static str;
    /// Names the worker in the log and in metrics.
    const WORKER: &'static str;

    /// The label of a message in the log.
    fn label(message: &Self::Message) -> &str;

    /// The lane of a message: a slow receiver delays only messages of the same lane.
    fn lane(message: &Self::Message) -> String;

    /// Sends a message.
    fn send(
        &self,
        message: &Self::Message,
        claimed: &LeasedMessage,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why a message was not sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// It is logged and shown to the tenant: it contains no text of the message, no password.
    pub reason: String,
    /// How long to wait at least before it is sent again, as the receiver asked; none if it is not sent again.
    pub retry: Option<Duration>,
    /// What the receiver did.
    pub receiver: Receiver,
}

/// What the receiver of a message that was not sent did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It answered with this status.
    Answered(u16),
    /// It did not answer in time.
    TimedOut,
    /// It was not reached, or the connection broke.
    Unreached,
}

impl Failure {
    /// A temporary failure.
    pub(crate) fn later(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retry: Some(Duration::ZERO), receiver: Receiver::Unreached }
    }

    /// A permanent failure.
    pub(crate) fn never(reason: impl Into<String>) -> Self {
        Self { retry: None, ..Self::later(reason) }
    }

    /// The same failure, with what the receiver did.
    pub(crate) fn by(self, receiver: Receiver) -> Self {
        Self { receiver, ..self }
    }
}

/// The firing that a message reports. The message is deleted together with the firing's object.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'a> {
    /// The object that the rule fired for.
    pub object_id: &'a str,
    /// The firing.
    pub firing_id: Uuid,
}

/// A tenant's lane.
type Lane = (TenantId, String);

/// The messages in flight, the lanes that fail, and the lanes with a suspect in flight. A lane has few slots, a failing lane has one, and all failing lanes share
/// half of the slots: a receiver that does not answer does not delay the others.
#[derive(Default)]
struct Traffic {
    sending: HashMap<Lane, usize>,
    failing: HashSet<Lane>,
    suspected: HashSet<Lane>,
}

impl Traffic {
    fn begin(&mut self, lane: &Lane, is_suspect: bool) {
        *self.sending.entry(lane.clone()).or_default() += 1;
        if is_suspect {
            self.suspected.insert(lane.clone());
        }
    }

    fn end(&mut self, lane: &Lane, is_suspect: bool) {
        if is_suspect {
            self.suspected.remove(lane);
        }
        if let Some(sending) = self.sending.get_mut(lane) {
            *sending -= 1;
            if *sending == 0 {
                self.sending.remove(lane);
            }
        }
    }

    fn record(&mut self, lane: &Lane, is_success: bool) {
        /// The maximum number of failing lanes tracked.
        const MAX_FAILING: usize = 1_000;
        if is_success {
            self.failing.remove(lane);
        } else if self.failing.len() < MAX_FAILING {
            self.failing.insert(lane.clone());
        }
    }

    fn total(&self) -> usize {
        self.sending.values().sum()
    }

    fn total_failing(&self) -> usize {
        self.sending.iter().filter(|(lane, _)| self.failing.contains(*lane)).map(|(_, count)| count).sum()
    }

    /// How many more messages of a lane may be sent now.
    fn free_slots(&self, lane: &Lane, most: usize, free_for_failing: usize) -> usize {
        let slots = if self.failing.contains(lane) { free_for_failing.min(1) } else { most };
        slots.saturating_sub(self.sending.get(lane).copied().unwrap_or_default())
    }
}

/// One message in flight; its slot is released when this is dropped, also by a panic.
struct Sending {
    traffic: Arc<Mutex<Traffic>>,
    lane: Lane,
    is_suspect: bool,
    wakeup: Wakeup,
}

impl Sending {
    fn record(&self, is_success: bool) {
        lock(&self.traffic).record(&self.lane, is_success);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        lock(&self.traffic).end(&self.lane, self.is_suspect);
        self.wakeup.wake();
    }
}

fn lock(traffic: &Mutex<Traffic>) -> MutexGuard<'_, Traffic> {
    // A panic elsewhere cannot leave an entry half-written.
    traffic.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues messages and sends them. Cheap to clone; clones share the queue and wake the same worker.
#[derive(Clone)]
pub struct Outbox<C> {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    channel: C,
    wakeup: Wakeup,
}

impl<C: OutboxChannel> Outbox<C> {
    pub(crate) fn with_channel(
        store: Store,
        clock: Clock,
        random: Random,
        sealer: Sealer,
        channel: C,
    ) -> Self {
        Self { store, clock, random, sealer, channel, wakeup: Wakeup::default() }
    }

    /// A sealed message, ready to be queued.
    pub(crate) fn seal(
        &self,
        tenant: TenantId,
        message: &C::Message,
        firing: Option<Firing<'_>>,
    ) -> NewMessage {
        let now = self.clock.now();
        let message_id = self.random.id(now);
        // Serializing strings to JSON cannot fail.
        let plain = serde_json::to_vec(message).unwrap_or_default();
        NewMessage {
            tenant,
            message_id,
            channel: C::CHANNEL,
            lane: C::lane(message),
            message: self.sealer.seal(&self.random, COLUMN, message_id, &plain),
            object_id: firing.map(|firing| firing.object_id.to_owned()),
            firing_id: firing.map(|firing| firing.firing_id),
            created_at: now,
        }
    }

    /// Queues a message in the caller's transaction; call [`Outbox::wake`] once that is committed.
    pub async fn enqueue(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        message: &C::Message,
        firing: Option<Firing<'_>>,
    ) -> Result<()> {
        messages::enqueue(conn, &[self.seal(tenant, message, firing)]).await
    }

    /// Sends a message at once and only once, past the queue: for somebody who waits to see what comes of it.
    pub(crate) async fn send_once(&self, tenant: TenantId, message: &C::Message) -> Result<(), Failure> {
        let now = self.clock.now();
        let claimed = LeasedMessage {
            tenant_id: tenant,
            message_id: self.random.id(now),
            lane: C::lane(message),
            message: Vec::new(),
            firing_id: None,
            attempts: 1,
            unfinished_claims: 0,
            created_at: now,
        };
        let sent = self.channel.send(message, &claimed).await;
        let outcome = if sent.is_ok() { "sent" } else { "failed" };
        metrics::counter!(C::METER, "outcome" => outcome).increment(1);
        sent
    }

    /// Wakes the worker of this process after a message was queued; in other processes, the backstop finds it.
    pub fn wake(&self) {
        self.wakeup.wake();
    }

    /// How messages are sent.
    pub(crate) fn channel(&self) -> &C {
        &self.channel
    }

    /// What wakes the worker, and shows what it does.
    pub(crate) fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Sends queued messages until it is stopped, then finishes those in flight.
    pub async fn run(self, supervision: impl Into<Supervision>) {
        let (clock, wakeup) = (self.clock.clone(), self.wakeup.clone());
        let queue = OutboxQueue { outbox: self, traffic: Arc::default(), last_served: None };
        drive(queue, clock, wakeup, supervision.into()).await;
    }

    /// Sends one message and updates its row; returns whether the receiver of its lane works.
    async fn handle(&self, claimed: LeasedMessage, token: Uuid) -> bool {
        let (message_id, tenant_id, attempts) = (claimed.message_id, claimed.tenant_id, claimed.attempts);
        if Suspicion::after(claimed.unfinished_claims) == Suspicion::Abandoned {
            error!(%message_id, %tenant_id, "a message is given up: every sender crashed during it");
            self.close(&claimed, token, Err(ABANDONED)).await;
            return true;
        }
        let Some(message) = self.open(&claimed) else {
            error!(%message_id, %tenant_id, "a queued message cannot be opened and is dropped");
            self.close(&claimed, token, Err("the message cannot be read")).await;
            return true;
        };
        let event = C::label(&message);
        let (reason, wait) = match self.channel.send(&message, &claimed).await {
            Ok(()) => {
                self.close(&claimed, token, Ok(())).await;
                return true;
            }
            Err(Failure { reason, retry, .. }) => (reason, retry),
        };
        if let Some(wait) = wait.filter(|_| attempts < MAX_ATTEMPTS) {
            info!(%message_id, %tenant_id, event, attempts, reason, "a message could not be sent and will be retried");
            self.reschedule(&claimed, token, wait).await;
            return false;
        }
        warn!(%message_id, %tenant_id, event, attempts, reason, "a message could not be sent and is given up");
        let tries = if attempts == 1 { "1 try" } else { &format!("{attempts} tries") };
        self.close(&claimed, token, Err(&format!("given up after {tries}: {reason}"))).await;
        false
    }

    fn open(&self, claimed: &LeasedMessage) -> Option<C::Message> {
        let plain = self.sealer.open(COLUMN, claimed.message_id, &claimed.message).ok()?;
        serde_json::from_slice(&plain).ok()
    }

    /// Writes what became of a message. During an outage of the database it tries again and again: otherwise the message would be
    /// sent once more when its lease has ended, and its attempts would be used up by the outage.
    async fn record<T>(
        &self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Conn) -> Result<T> + Clone,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            match self.store.write(name, work.clone()).await {
                Err(error) if error.is_unavailable() && started.elapsed() < LONGEST_OUTAGE => {
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Deletes a message that was sent or given up, and records the outcome in its firing.
    async fn close(&self, claimed: &LeasedMessage, token: Uuid, sent: Result<(), &str>) {
        let (outcome, status, detail) = match sent {
            Ok(()) => ("sent", FiringStatus::Dispatched, C::SENT),
            Err(reason) => ("failed", FiringStatus::Error, reason),
        };
        let closed = self
            .record("close_message", async |conn: &mut Conn| {
                let was_leased = messages::finish(conn, claimed.tenant_id, claimed.message_id, token).await?;
                if let (true, Some(firing)) = (was_leased, claimed.firing_id) {
                    firings::settle(conn, claimed.tenant_id, firing, status, detail).await?;
                }
                Ok(was_leased)
            })
            .await;
        if sent.is_err() && claimed.firing_id.is_some() && matches!(closed, Ok(true)) {
            metrics::counter!("auspex_rule_firings_total", "action" => C::ACTION.as_str(), "status" => status.as_str())
                .increment(1);
        }
        count_outcome::<C>(claimed, outcome, closed);
    }

    /// Reschedules a message for its next attempt, no earlier than the receiver asked for.
    async fn reschedule(&self, claimed: &LeasedMessage, token: Uuid, requested: Duration) {
        let wait = RETRY.wait(claimed.attempts, self.random.fraction()).max(requested.min(RETRY.longest));
        let run_after = self.clock.now() + wait;
        let rescheduled = self
            .record("put_message_back", async |conn: &mut Conn| {
                messages::retry(conn, claimed.tenant_id, claimed.message_id, token, run_after).await
            })
            .await;
        count_outcome::<C>(claimed, "retried", rescheduled);
    }
}

/// The queue of an outbox, as its worker polls it.
struct OutboxQueue<C> {
    outbox: Outbox<C>,
    traffic: Arc<Mutex<Traffic>>,
    /// The tenant that was served last.
    last_served: Option<TenantId>,
}

impl<C: OutboxChannel> LeasedQueue for OutboxQueue<C> {
    const NAME: &'static str = C::WORKER;

    async fn poll(&mut self, tasks: &Tasks, _cause: PollCause) -> crate::runtime::Result<NextPoll> {
        let free = C::SENDS_AT_ONCE.saturating_sub(lock(&self.traffic).total());
        if free == 0 {
            return Ok(NextPoll::WhenWoken);
        }
        let now = self.outbox.clock.now();
        // An idle worker only reads: on SQLite a claim would have to wait for the write lock.
        let due = self
            .outbox
            .store
            .read("next_message", async |conn: &mut Conn| messages::next_due(conn, C::CHANNEL).await)
            .await?;
        match due {
            Some(at) if at <= now => {}
            later => return Ok(NextPoll::when_due(later)),
        }
        let limit = C::DEADLINE + LEASE_MARGIN;
        let lease = Lease { token: self.outbox.random.id(now), until: now + limit };
        let claimed = self.claim(now, lease, free).await?;
        // If another worker was faster or all lanes are busy, the rest can wait for the next poll.
        let next = if claimed.is_empty() { now + POLL } else { now };
        for message in claimed {
            self.last_served = Some(message.tenant_id);
            let lane = (message.tenant_id, message.lane.clone());
            let is_suspect = Suspicion::after(message.unfinished_claims) == Suspicion::Suspect;
            lock(&self.traffic).begin(&lane, is_suspect);
            let (traffic, wakeup) = (Arc::clone(&self.traffic), self.outbox.wakeup.clone());
            let sending = Sending { traffic, lane, is_suspect, wakeup };
            let outbox = self.outbox.clone();
            // The channel bounds the send. Its outcome must be written even if the lease has ended.
            tasks.spawn(async move {
                let is_success = outbox.handle(message, lease.token).await;
                sending.record(is_success);
            });
        }
        Ok(NextPoll::At(next))
    }
}

impl<C: OutboxChannel> OutboxQueue<C> {
    /// Claims due messages for the free slots, round-robin over tenants and their lanes.
    async fn claim(&self, now: Timestamp, lease: Lease, free: usize) -> Result<Vec<LeasedMessage>> {
        self.outbox
            .store
            .write("claim_messages", async |conn: &mut Conn| {
                let mut turns = Turns::after(self.last_served, free);
                while let Some(after) = turns.next_after() {
                    turns.take(messages::next_tenant(conn, C::CHANNEL, after, now).await?);
                }
                let mut claimed = Vec::new();
                let for_failing = C::SENDS_AT_ONCE / 2;
                let mut free_for_failing = for_failing.saturating_sub(lock(&self.traffic).total_failing());
                for (index, tenant) in turns.tenants().iter().enumerate() {
                    let mut share = usize::try_from(turns.share(index, free - claimed.len())).unwrap_or(1);
                    for lane in messages::lanes(conn, C::CHANNEL, *tenant, now).await? {
                        let lane = (*tenant, lane);
                        let (slots, is_failing) = {
                            let traffic = lock(&self.traffic);
                            let slots = traffic.free_slots(&lane, C::LANE_SENDS, free_for_failing);
                            (slots.min(share), traffic.failing.contains(&lane))
                        };
                        if slots == 0 {
                            continue;
                        }
                        let most = i64::try_from(slots).unwrap_or(1);
                        let taken =
                            messages::claim(conn, C::CHANNEL, (*tenant, &lane.1), now, lease, most).await?;
                        let taken = self.without_more_suspects(conn, &lane, taken, lease, now).await?;
                        share -= taken.len();
                        if is_failing {
                            free_for_failing -= taken.len();
                        }
                        claimed.extend(taken);
                    }
                }
                Ok::<_, store::Error>(claimed)
            })
            .await
    }
}

impl<C: OutboxChannel> OutboxQueue<C> {
    /// Puts off all suspects of a lane but one: the next process that ends shows whether it was this one. Other lanes do not
    /// wait for it.
    async fn without_more_suspects(
        &self,
        conn: &mut Conn,
        lane: &Lane,
        claimed: Vec<LeasedMessage>,
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<LeasedMessage>> {
        let mut is_free = !lock(&self.traffic).suspected.contains(lane);
        let mut kept = Vec::with_capacity(claimed.len());
        for message in claimed {
            let is_suspect = Suspicion::after(message.unfinished_claims) == Suspicion::Suspect;
            if is_suspect && !std::mem::replace(&mut is_free, false) {
                let (tenant, id) = (message.tenant_id, message.message_id);
                messages::put_off(conn, tenant, id, lease.token, now + POLL).await?;
            } else {
                kept.push(message);
            }
        }
        Ok(kept)
    }
}

/// Counts an outcome. If the row could not be updated, the message is claimed again when its lease ends.
fn count_outcome<C: OutboxChannel>(claimed: &LeasedMessage, outcome: &'static str, was_leased: Result<bool>) {
    metrics::counter!(C::METER, "outcome" => outcome).increment(1);
    let message_id = claimed.message_id;
    match was_leased {
        Ok(true) => {}
        // It was deleted with its object, or another worker has claimed it.
        Ok(false) => warn!(%message_id, outcome, "a message's lease ended early: it may be sent twice"),
        Err(cause) => {
            error!(%message_id, outcome, %cause, "a message's row cannot be updated: it may be sent twice");
        }
    }
}
