//! Messages on their way out: queued in the transaction of what they tell of, sent by a worker, at least once.
//!
//! One [`Outbox`] for each way that a message can take; its [`Carrier`] knows that way. The worker claims what is due,
//! sends it, and closes the row or puts it back. The firing that a message reports learns how it went in the same
//! transaction.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::api::{ActionType, FiringStatus};
use model::{TenantId, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::outbox::messages;
use store::outbox::messages::{Channel, Claimed, Lease, NewMessage};
use store::{Conn, Result, Store};
use store::actions::firings;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::runtime::wakeup::Bell;
use crate::runtime::turns::Turns;
use crate::{Clock, Random, Sealer};

/// Names the column that a sealed message belongs in, so that it opens nowhere else.
const PLACE: &str = "outbox.message";
/// How much longer than an attempt its lease lasts, so that no other worker sends the same message meanwhile.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often to look for what other processes queued; they cannot ring our bell.
const POLL: Duration = Duration::from_secs(2);
/// Attempts before a message is given up: with the waits below, about an hour.
const MAX_ATTEMPTS: i64 = 8;
/// The wait after the first attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const MAX_WAIT: Duration = Duration::from_hours(1);
/// How far waits are spread to both sides, so that messages that failed together do not come back together.
const JITTER: f64 = 0.1;

/// A way out of the service.
pub trait Carrier: Clone + Send + Sync + 'static {
    /// What it carries. Its texts may be credentials.
    type Message: Serialize + DeserializeOwned + Send + Sync;
    /// The messages that go this way.
    const CHANNEL: Channel;
    /// How long one attempt may take.
    const DEADLINE: Duration;
    /// Messages on their way at a time in one process.
    const SENDS_AT_ONCE: usize;
    /// And of one lane.
    const LANE_SENDS: usize;
    /// The action that sends messages this way.
    const ACTION: ActionType;
    /// What is counted, by outcome.
    const METER: &'static str;
    /// What a firing's detail says once its message has gone.
    const SENT: &'static str;

    /// What the log may say of a message.
    fn label(message: &Self::Message) -> &str;

    /// The lane that a message goes by: whoever is at its end can hold up others of the same lane only.
    fn lane(message: &Self::Message) -> String;

    /// Sends a message.
    fn carry(
        &self,
        message: &Self::Message,
        claimed: &Claimed,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why a message did not go, in words fit for the log and for the owner of the rule that sent it: no text of the
/// message, no password.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may go later.
    Later(String),
    /// It may go later, and not before this long.
    After(Duration, String),
    /// It never will.
    Never(String),
}

/// The rule's firing that a message reports. Such a message is dropped with its object.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'a> {
    /// The object that the rule fired for.
    pub object_id: &'a str,
    /// The firing.
    pub firing_id: Uuid,
}

/// A tenant's lane.
type Lane = (TenantId, String);

/// A message that was tried.
struct Ended {
    lane: Lane,
    /// Whether it went.
    is_well: bool,
}

/// What is on its way, and how that has been going. A lane has few places, one that fails has one, and all that fail share
/// half of what there is: so an address that does not answer delays no other.
#[derive(Default)]
struct Traffic {
    /// The tenant that was served last.
    served: Option<TenantId>,
    busy: HashMap<Lane, usize>,
    ailing: HashSet<Lane>,
}

impl Traffic {
    fn learn(&mut self, ended: Option<Ended>) {
        /// Lanes that are remembered for having failed.
        const REMEMBERED: usize = 1_000;
        let Some(Ended { lane, is_well }) = ended else { return };
        if let Some(busy) = self.busy.get_mut(&lane) {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(&lane);
            }
        }
        if is_well {
            self.ailing.remove(&lane);
        } else if self.ailing.len() < REMEMBERED {
            self.ailing.insert(lane);
        }
    }

    fn ailing_busy(&self) -> usize {
        self.busy.iter().filter(|(lane, _)| self.ailing.contains(*lane)).map(|(_, busy)| busy).sum()
    }

    /// How many more messages of a lane may be on their way.
    fn room(&self, lane: &Lane, most: usize, ailing_left: usize) -> usize {
        let is_ailing = self.ailing.contains(lane);
        let room = if is_ailing { ailing_left.min(1) } else { most };
        room.saturating_sub(self.busy.get(lane).copied().unwrap_or_default())
    }
}

/// Queues messages and sends them. Cheap to clone; clones share the queue and the bell.
#[derive(Clone)]
pub struct Outbox<C> {
    store: Store,
    clock: Clock,
    random: Random,
    sealer: Sealer,
    carrier: C,
    bell: Bell,
}

impl<C: Carrier> Outbox<C> {
    pub(crate) fn over(store: Store, clock: Clock, random: Random, sealer: Sealer, carrier: C) -> Self {
        Self { store, clock, random, sealer, carrier, bell: Bell::default() }
    }

    /// A message ready to be queued.
    pub(crate) fn seal(
        &self,
        tenant: TenantId,
        message: &C::Message,
        firing: Option<Firing<'_>>,
    ) -> NewMessage {
        let now = self.clock.now();
        let message_id = self.random.id(now);
        // Texts have no form that JSON lacks.
        let plain = serde_json::to_vec(message).unwrap_or_default();
        NewMessage {
            tenant,
            message_id,
            channel: C::CHANNEL,
            lane: C::lane(message),
            message: self.sealer.seal(&self.random, PLACE, message_id, &plain),
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

    /// Tells the worker of this process that something was queued; others find it when they next look.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// Sends what is queued, until told to stop; then finishes what it has in hand.
    pub async fn run(self, stop: CancellationToken) {
        let mut sending = JoinSet::new();
        let mut traffic = Traffic::default();
        while !stop.is_cancelled() {
            let next_look = self.take_due(&mut sending, &mut traffic).await;
            tokio::select! {
                () = stop.cancelled() => {}
                // Disabled while nothing is on its way.
                Some(ended) = sending.join_next() => traffic.learn(ended.ok()),
                () = self.rest(next_look) => {}
            }
        }
        while sending.join_next().await.is_some() {}
    }

    /// Claims due messages for the free places and starts sending them. Says when to look again; never, while there is
    /// no free place.
    async fn take_due(&self, sending: &mut JoinSet<Ended>, traffic: &mut Traffic) -> Option<Timestamp> {
        // A task that was lost had a lane that nobody knows any more.
        if sending.is_empty() {
            traffic.busy.clear();
        }
        let free = C::SENDS_AT_ONCE - sending.len();
        if free == 0 {
            return None;
        }
        let now = self.clock.now();
        let lease = Lease { token: self.random.id(now), until: now + C::DEADLINE + LEASE_MARGIN };
        match self.claim(now, lease, free, traffic).await {
            Ok((claimed, next_look)) => {
                traffic.served = claimed.last().map(|message| message.tenant_id).or(traffic.served);
                for message in claimed {
                    let (outbox, lane) = (self.clone(), (message.tenant_id, message.lane.clone()));
                    *traffic.busy.entry(lane.clone()).or_default() += 1;
                    sending.spawn(async move {
                        Ended { lane, is_well: outbox.handle(message, lease.token).await }
                    });
                }
                (sending.len() < C::SENDS_AT_ONCE).then_some(next_look)
            }
            Err(cause) => {
                error!(%cause, channel = ?C::CHANNEL, "queued messages cannot be claimed");
                Some(now + POLL)
            }
        }
    }

    /// Claims due messages for the free places, tenants in turn and of each its lanes, and says when to look for more.
    async fn claim(
        &self,
        now: Timestamp,
        lease: Lease,
        free: usize,
        traffic: &Traffic,
    ) -> Result<(Vec<Claimed>, Timestamp)> {
        let poll = now + POLL;
        // An idle worker only reads: on SQLite a claim would wait for its turn to write.
        let due = self
            .store
            .read("next message", async |conn: &mut Conn| messages::next_due(conn, C::CHANNEL).await)
            .await?;
        match due {
            Some(at) if at <= now => {}
            later => return Ok((Vec::new(), later.map_or(poll, |at| at.min(poll)))),
        }
        let claimed: Vec<Claimed> = self
            .store
            .write("claim messages", async |conn: &mut Conn| {
                let mut turns = Turns::after(traffic.served, free);
                while let Some(after) = turns.next_after() {
                    turns.take(messages::next_tenant(conn, C::CHANNEL, after, now).await?);
                }
                let mut claimed = Vec::new();
                let mut ailing_left = C::SENDS_AT_ONCE / 2 - traffic.ailing_busy().min(C::SENDS_AT_ONCE / 2);
                for (index, tenant) in turns.tenants().iter().enumerate() {
                    let mut share = usize::try_from(turns.share(index, free - claimed.len())).unwrap_or(1);
                    for lane in messages::lanes(conn, C::CHANNEL, *tenant, now).await? {
                        let room =
                            traffic.room(&(*tenant, lane.clone()), C::LANE_SENDS, ailing_left).min(share);
                        if room == 0 {
                            continue;
                        }
                        let most = i64::try_from(room).unwrap_or(1);
                        let some =
                            messages::claim(conn, C::CHANNEL, (*tenant, &lane), now, lease, most).await?;
                        share -= some.len();
                        if traffic.ailing.contains(&(*tenant, lane)) {
                            ailing_left -= some.len();
                        }
                        claimed.extend(some);
                    }
                }
                Ok::<_, store::Error>(claimed)
            })
            .await?;
        // Where another worker was faster, or the lanes are busy, what is left can wait for them.
        let next_look = if claimed.is_empty() { poll } else { now };
        Ok((claimed, next_look))
    }

    /// Waits for the time to look again, or for the bell.
    async fn rest(&self, until: Option<Timestamp>) {
        match until {
            None => std::future::pending().await,
            Some(at) => tokio::select! {
                () = self.bell.rung() => {}
                () = self.clock.sleep_until(at) => {}
            },
        }
    }

    /// Sends one message and settles its row; says whether whoever is at the end of its lane is well.
    async fn handle(&self, claimed: Claimed, token: Uuid) -> bool {
        let (message_id, tenant_id, attempts) = (claimed.message_id, claimed.tenant_id, claimed.attempts);
        let Some(message) = self.open(&claimed) else {
            error!(%message_id, %tenant_id, "a queued message cannot be read and is dropped");
            self.close(&claimed, token, Err("the message cannot be read")).await;
            return true;
        };
        let event = C::label(&message);
        let (reason, wait) = match self.send(&message, &claimed).await {
            Ok(()) => {
                self.close(&claimed, token, Ok(())).await;
                return true;
            }
            Err(Failure::Later(reason)) => (reason, Some(Duration::ZERO)),
            Err(Failure::After(wait, reason)) => (reason, Some(wait)),
            Err(Failure::Never(reason)) => (reason, None),
        };
        if let Some(wait) = wait.filter(|_| attempts < MAX_ATTEMPTS) {
            info!(%message_id, %tenant_id, event, attempts, reason, "a message could not be sent and is tried again");
            self.put_back(&claimed, token, wait).await;
            return false;
        }
        warn!(%message_id, %tenant_id, event, attempts, reason, "a message could not be sent and is given up");
        let tries = if attempts == 1 { "1 try" } else { &format!("{attempts} tries") };
        self.close(&claimed, token, Err(&format!("given up after {tries}: {reason}"))).await;
        false
    }

    fn open(&self, claimed: &Claimed) -> Option<C::Message> {
        let plain = self.sealer.open(PLACE, claimed.message_id, &claimed.message).ok()?;
        serde_json::from_slice(&plain).ok()
    }

    async fn send(&self, message: &C::Message, claimed: &Claimed) -> Result<(), Failure> {
        // Only a worker that died takes an attempt without settling it. One that kills workers must not do so forever.
        if claimed.attempts > MAX_ATTEMPTS {
            return Err(Failure::Never("no attempt was finished".to_owned()));
        }
        self.carrier.carry(message, claimed).await
    }

    /// Removes a message that has gone, or that never will, and tells its firing.
    async fn close(&self, claimed: &Claimed, token: Uuid, sent: Result<(), &str>) {
        let (outcome, status, detail) = match sent {
            Ok(()) => ("sent", FiringStatus::Dispatched, C::SENT),
            Err(reason) => ("failed", FiringStatus::Error, reason),
        };
        let closed = self
            .store
            .write("close message", async |conn: &mut Conn| {
                let held = messages::finish(conn, claimed.tenant_id, claimed.message_id, token).await?;
                if let (true, Some(firing)) = (held, claimed.firing_id) {
                    firings::settle(conn, claimed.tenant_id, firing, status.as_str(), detail).await?;
                }
                Ok(held)
            })
            .await;
        if sent.is_err() && claimed.firing_id.is_some() && matches!(closed, Ok(true)) {
            metrics::counter!("auspex_rule_firings_total", "action" => C::ACTION.as_str(), "status" => status.as_str())
                .increment(1);
        }
        settled::<C>(claimed, outcome, closed);
    }

    /// Puts a message back until its next attempt, for as long as the receiver asked if that is longer.
    async fn put_back(&self, claimed: &Claimed, token: Uuid, asked: Duration) {
        let wait = wait_after(claimed.attempts, self.random.fraction()).max(asked.min(MAX_WAIT));
        let run_after = self.clock.now() + wait;
        let put_back = self
            .store
            .write("put message back", async |conn: &mut Conn| {
                messages::retry(conn, claimed.tenant_id, claimed.message_id, token, run_after).await
            })
            .await;
        settled::<C>(claimed, "retried", put_back);
    }
}

/// Counts an outcome. Where the row could not be settled, the message is taken again when its lease ends.
fn settled<C: Carrier>(claimed: &Claimed, outcome: &'static str, held: Result<bool>) {
    metrics::counter!(C::METER, "outcome" => outcome).increment(1);
    let message_id = claimed.message_id;
    match held {
        Ok(true) => {}
        // It went with its object, or another worker has it.
        Ok(false) => warn!(%message_id, outcome, "a message's lease ended early: it may be sent twice"),
        Err(cause) => {
            error!(%message_id, outcome, %cause, "a message's row cannot be settled: it may be sent twice");
        }
    }
}

/// The wait after a failed attempt. `roll` is from 0 up to 1.
fn wait_after(attempt: i64, roll: f64) -> Duration {
    let doublings = u32::try_from(attempt - 1).unwrap_or(u32::MAX);
    let wait = 2_u32.checked_pow(doublings).map_or(MAX_WAIT, |factor| FIRST_WAIT.saturating_mul(factor));
    wait.min(MAX_WAIT).mul_f64(1.0 - JITTER + 2.0 * JITTER * roll)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_an_hour_with_a_tenth_to_both_sides() {
        let seconds = |attempt| wait_after(attempt, 0.5).as_secs();
        let waits: Vec<_> = (1..=9).map(seconds).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert_eq!(seconds(i64::MAX), 3_600);
        assert_eq!(wait_after(1, 0.0), Duration::from_secs(27));
        assert!(wait_after(1, 1.0) <= Duration::from_secs(33));
    }
}
