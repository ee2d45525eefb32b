//! The scheduler: claims due analyses, live before bulk and tenants in turn, and runs as many as there are workers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use analyzer::Failure;
use futures_util::FutureExt as _;
use model::{TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use store::analysis::jobs;
use store::analysis::jobs::{Claimed, Held, Lease, Priority};
use store::{Backend, Conn, Heard};
use store::billing::balance;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use crate::analysis::concluder::{About, Conclusion, HeldJob, Outcome};
use crate::analysis::hands::{Hand, Hands};
use crate::analysis::history::{History, Read, Wanted, Which, all_asked, read_histories, read_long_history};
use crate::runtime::turns::Turns;
use crate::{Result, Service};

/// How often the queue is looked at when nothing rings: what other nodes schedule is found then at the latest.
const POLL: Duration = Duration::from_secs(1);
/// The same when something is due that others are taking, or adding to.
const SOON: Duration = Duration::from_millis(50);
/// How much longer than the analyzer's deadline a job is held.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// Tries of an analysis that fails upstream.
const MAX_TRIES: i64 = 5;
/// The wait after the first failure; it doubles with each.
const RETRY_BASE: Duration = Duration::from_secs(5);
/// The wait when the analyzer is throttling or down and does not say for how long.
const PATIENCE: Duration = Duration::from_secs(5);

/// What reading for a claimed analysis came to.
enum Prospect {
    /// It can be asked.
    Ready(Box<History>),
    /// There is nothing to ask, or nothing to ask about.
    Nothing,
    /// Nobody pays for it.
    Unpaid,
    /// It is to be read on its own.
    Unread,
}

pub(crate) struct Scheduler {
    service: Arc<Service>,
    hands: Arc<Hands>,
    /// The tenant that was served last, for each priority.
    turns: HashMap<&'static str, TenantId>,
    /// Whether more was due than could be taken when it last looked.
    is_behind: bool,
}

impl Scheduler {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        let hands = Hands::new(usize::from(service.options.workers));
        Self { service, hands, turns: HashMap::new(), is_behind: false }
    }

    /// Works until it is told to stop, and then finishes what is in hand.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        if self.service.store.backend() == Backend::Sqlite {
            // One process has a SQLite file: whoever held these leases is gone.
            let voided = self
                .service
                .store
                .write("void_leases", async |conn: &mut Conn| jobs::void_leases(conn).await)
                .await;
            if let Err(error) = voided {
                error!(%error, "cannot void the leases of an earlier process");
            }
        }
        let tasks = TaskTracker::new();
        while !stop.is_cancelled() {
            self.service.bell.looks();
            let wait = match self.claim_and_start(&tasks).await {
                Ok(wait) => wait,
                Err(error) => {
                    error!(cause = error.cause(), "cannot claim analyses: {error}");
                    // Bells that ring meanwhile bring the database no nearer.
                    stop.run_until_cancelled(tokio::time::sleep(POLL)).await;
                    continue;
                }
            };
            self.service.bell.looks_again_at(wait);
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.service.bell.rung() => {}
                () = self.service.clock.sleep_until(wait) => {}
            }
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Starts as many due analyses as can be taken in hand; returns when to look again.
    async fn claim_and_start(&mut self, tasks: &TaskTracker) -> Result<Timestamp> {
        self.hands.gather().await;
        let now = self.service.clock.now();
        let (allowed, resume_at) = self.service.allowed(now);
        let free = self.hands.free(allowed);
        if free == 0 {
            // What is handed over rings the bell.
            return Ok(resume_at.unwrap_or(now + POLL).min(now + POLL));
        }
        if !self.is_behind {
            let due =
                self.service.store.read("next_due_job", async |conn| jobs::next_due(conn).await).await?;
            if due.is_none_or(|due| due > now) {
                return Ok(due.unwrap_or(now + POLL).min(now + POLL));
            }
        }
        let until = now + self.service.options.analyzer_timeout + LEASE_MARGIN;
        let lease = Lease { token: self.service.random.id(now), until };
        let was_behind = std::mem::replace(&mut self.is_behind, false);
        let claimed = self.claim(now, lease, free).await?;
        let taken = claimed.len();
        self.is_behind = taken == free;
        let reads = self.service.read_together(&claimed).await;
        for (job, read) in claimed.into_iter().zip(reads) {
            let Some(hand) = self.hands.take() else { break };
            let service = Arc::clone(&self.service);
            tasks.spawn(async move {
                service.work(&job, lease, read, hand).await;
                service.bell.ring();
                if job.bulk_run_id.is_some() {
                    service.feeder_bell.ring();
                }
            });
        }
        Ok(match taken {
            // Nothing although some was due: others are taking it. Without having looked, it is time to look.
            0 if was_behind => now,
            0 => now + SOON,
            // What is handed over rings.
            _ if self.is_behind => now + POLL,
            // There may be more.
            _ => now,
        })
    }

    /// Takes due jobs: live ones first; of each tenant its share, beginning after the one that was served last.
    async fn claim(&mut self, now: Timestamp, lease: Lease, free: usize) -> Result<Vec<Claimed>> {
        // A claim is one transaction, and each tenant is two statements of it.
        let tenants = usize::from(self.service.options.workers);
        let mut claimed = Vec::new();
        for (name, priority) in [("live", Priority::Live), ("bulk", Priority::Bulk)] {
            let left = free - claimed.len();
            if left == 0 {
                break;
            }
            let after = self.turns.get(name).copied();
            let taken = self
                .service
                .store
                .write("claim_jobs", async |conn: &mut Conn| {
                    let turns = Turns::after(after, left.min(tenants));
                    claim_in_turn(conn, priority, turns, now, lease, left).await
                })
                .await;
            let taken = match taken {
                Ok(taken) => taken,
                // Those that were claimed before are in hand.
                Err(error) if !claimed.is_empty() => {
                    error!(%error, name, "cannot claim analyses");
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(job) = taken.last() {
                self.turns.insert(name, job.tenant_id);
            }
            claimed.extend(taken);
        }
        Ok(claimed)
    }
}

/// Rings the bells when another process has scheduled analyses or queued deliveries.
pub(crate) async fn listen(service: Arc<Service>, stop: CancellationToken) {
    let hear = async || -> store::Result<()> {
        let Some(mut listener) = service.store.listen().await? else { return Ok(()) };
        loop {
            match listener.heard().await? {
                Heard::Jobs(Some(due)) => service.bell.ring_for(due),
                Heard::Jobs(None) => service.bell.ring(),
                Heard::Deliveries => service.courier_bell.ring(),
                Heard::Perhaps => {
                    service.bell.ring();
                    service.courier_bell.ring();
                }
            }
        }
    };
    // The queues are polled all the same: without a listener what other processes scheduled begins a little later.
    while let Some(Err(error)) = stop.run_until_cancelled(hear()).await {
        warn!(%error, "cannot listen to other processes");
        if stop.run_until_cancelled(service.clock.sleep(POLL)).await.is_none() {
            return;
        }
    }
}

async fn claim_in_turn(
    conn: &mut Conn,
    priority: Priority,
    mut turns: Turns,
    now: Timestamp,
    lease: Lease,
    free: usize,
) -> store::Result<Vec<Claimed>> {
    while let Some(cursor) = turns.next_after() {
        turns.take(jobs::next_tenant(conn, priority, Some(cursor), now).await?);
    }
    let mut claimed: Vec<Claimed> = Vec::new();
    for (index, tenant) in turns.tenants().iter().enumerate() {
        let share = turns.share(index, free - claimed.len());
        claimed.extend(jobs::claim(conn, *tenant, priority, now, lease, share).await?);
    }
    Ok(claimed)
}

impl Service {
    /// Reads what claimed analyses need, together. Where that fails, each reads for itself: one that cannot be read
    /// harms no other.
    async fn read_together(&self, claimed: &[Claimed]) -> Vec<Prospect> {
        let reason = match AssertUnwindSafe(self.read_claimed(claimed)).catch_unwind().await {
            Ok(Ok(reads)) => return reads,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it panicked".to_owned(),
        };
        warn!(reason, "analyses could not be read together");
        claimed.iter().map(|_| Prospect::Unread).collect()
    }

    /// Reads what claimed analyses need.
    async fn read_claimed(&self, claimed: &[Claimed]) -> Result<Vec<Prospect>> {
        let owners: BTreeSet<TenantId> = claimed.iter().map(|job| job.tenant_id).collect();
        self.store
            .snapshot("read_histories", async |conn: &mut Conn| {
                let broke =
                    if self.options.blocks() { balance::broke(conn, &owners).await? } else { HashSet::new() };
                let payable = claimed.iter().filter(|job| !broke.contains(&job.tenant_id));
                let wanted: Vec<Wanted<'_>> = payable
                    .map(|job| Wanted {
                        tenant: job.tenant_id,
                        object_id: &job.object_id,
                        which: job.signals.as_ref().map_or(Which::All, |ids| Which::Ids(&ids.0)),
                        through: None,
                    })
                    .collect();
                let asked = all_asked(conn, &wanted).await?;
                let mut reads = read_histories(conn, &wanted, asked.clone()).await?;
                if let ([wanted], [asked], [read @ Read::Long]) = (&wanted[..], &asked[..], &mut reads[..]) {
                    *read = read_long_history(conn, wanted, Arc::clone(asked)).await?;
                }
                let mut reads = reads.into_iter();
                let prospect = |job: &Claimed| {
                    if broke.contains(&job.tenant_id) {
                        return Prospect::Unpaid;
                    }
                    match reads.next() {
                        Some(Read::Ready(history)) => Prospect::Ready(history),
                        Some(Read::Long) => Prospect::Unread,
                        Some(Read::NothingAsked | Read::Gone) | None => Prospect::Nothing,
                    }
                };
                Ok(claimed.iter().map(prospect).collect())
            })
            .await
    }

    /// Runs one claimed analysis to its end, whatever that is.
    async fn work(&self, job: &Claimed, lease: Lease, read: Prospect, hand: Hand) {
        let step = self.traces.resume("analyze", SpanKind::Consumer, job.traceparents.as_deref());
        step.note("auspex.tenant.id", job.tenant_id.0.to_string());
        step.note("auspex.bulk", job.bulk_run_id.is_some());
        step.note("auspex.attempt", job.attempts);
        let outcome = step.around(self.work_to_the_end(job, lease, read, hand)).await;
        step.note("auspex.outcome", outcome);
        if matches!(outcome, "failed" | "given_up" | "throttled" | "down" | "error") {
            step.fail(outcome);
        }
        metrics::counter!("auspex_analyses_total", "source" => "async", "outcome" => outcome).increment(1);
    }

    async fn work_to_the_end(&self, job: &Claimed, lease: Lease, read: Prospect, hand: Hand) -> &'static str {
        let done = AssertUnwindSafe(self.analyze_job(job, lease, read, hand)).catch_unwind().await;
        let done = match done {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => {
                error!(cause = error.cause(), object = job.object_id, "an analysis broke: {error}");
                self.postpone(job, lease, Failure::Failed(error.into())).await
            }
            Err(_) => self.postpone(job, lease, Failure::Failed("it panicked".into())).await,
        };
        done.unwrap_or_else(|error| {
            // Its lease runs out by itself.
            error!(cause = error.cause(), object = job.object_id, "an analysis cannot be put back: {error}");
            "error"
        })
    }

    async fn analyze_job(
        &self,
        job: &Claimed,
        lease: Lease,
        read: Prospect,
        hand: Hand,
    ) -> Result<&'static str> {
        let (tenant, object_id) = (job.tenant_id, job.object_id.as_str());
        let (place, waited) = hand.place().await;
        if let Some(outcome) = self.reconsider(job, lease, waited).await? {
            return Ok(outcome);
        }
        let _under_way = self.running.begin(tenant);
        let begun = Instant::now();
        let read = match read {
            Prospect::Unread => {
                let mut reads = self.read_claimed(std::slice::from_ref(job)).await?;
                reads.pop().unwrap_or(Prospect::Nothing)
            }
            read => read,
        };
        let mut read = match read {
            Prospect::Ready(read) => read,
            Prospect::Nothing | Prospect::Unread => {
                let outcome = self.put_away(job, lease).await;
                hand.took(begun.elapsed());
                return outcome;
            }
            Prospect::Unpaid => {
                self.set_aside(job, lease).await?;
                hand.took(begun.elapsed());
                return Ok("unpaid");
            }
        };
        let found = match self.ask(&read, false).await {
            Ok(found) => found,
            Err(failure) => {
                hand.failed();
                return self.postpone(job, lease, failure).await;
            }
        };
        hand.took(begun.elapsed());
        // It has been read: what waits to be written need not hold it.
        read.state = String::new();
        let held = HeldJob {
            token: lease.token,
            until: lease.until,
            version: job.version,
            bulk_run_id: job.bulk_run_id,
        };
        let about = Some(About { object_id: object_id.to_owned(), read: *read });
        let conclusion = Conclusion {
            tenant,
            found,
            about,
            job: Some(held),
            covers: None,
            asks_signals: true,
            place: None,
        };
        let written = self.concluder.hand_over(Arc::new(conclusion)).await?;
        // The place is the analyzer's: the next analysis begins while this one is written with others.
        drop(place);
        drop(hand);
        self.bell.ring();
        Ok(match written.await? {
            Outcome::Written => "ok",
            Outcome::Gone => "gone",
            Outcome::Late => "late",
        })
    }

    /// Puts a job back where the analyzer has asked for patience since it was claimed, or, if it was taken ahead and has waited
    /// for its place, where another could take it before the analyzer has answered. Returns what came of that.
    async fn reconsider(&self, job: &Claimed, lease: Lease, waited: bool) -> Result<Option<&'static str>> {
        let now = self.clock.now();
        let (allowed, resume_at) = self.allowed(now);
        let is_cut = waited && allowed < usize::from(self.options.workers);
        let outcome = if allowed == 0 || is_cut {
            "throttled"
        } else if waited && lease.until < now + self.options.analyzer_timeout {
            "late"
        } else {
            return Ok(None);
        };
        self.put_back(job, lease, resume_at.unwrap_or(now), false).await?;
        Ok(Some(outcome))
    }

    /// Removes a job for which there is nothing to ask.
    async fn put_away(&self, job: &Claimed, lease: Lease) -> Result<&'static str> {
        self.store
            .write("put_away", async |conn: &mut Conn| {
                let (tenant, object_id) = (job.tenant_id, job.object_id.as_str());
                let held = Held { tenant, object_id, token: lease.token, version: job.version };
                jobs::put_away(conn, held).await
            })
            .await?;
        Ok("nothing")
    }

    /// Puts a job back after a failure, or gives it up: its events stay, and the next one schedules it again.
    async fn postpone(&self, job: &Claimed, lease: Lease, failure: Failure) -> Result<&'static str> {
        let now = self.clock.now();
        let (wait, uses_up_a_try, outcome) = match failure {
            Failure::Throttled { retry_after } => (retry_after.unwrap_or(PATIENCE), false, "throttled"),
            Failure::Down(cause) => {
                warn!(%cause, "the analyzer cannot be reached");
                (PATIENCE, false, "down")
            }
            Failure::Failed(cause) if job.attempts >= MAX_TRIES => {
                error!(%cause, object = job.object_id, tries = job.attempts, "an analysis was given up");
                self.put_away(job, lease).await?;
                return Ok("given_up");
            }
            Failure::Failed(cause) => {
                warn!(%cause, object = job.object_id, tries = job.attempts, "an analysis failed, and will be tried again");
                let doubled = u32::try_from(job.attempts - 1).unwrap_or(0).min(8);
                (RETRY_BASE * 2_u32.pow(doubled), true, "failed")
            }
        };
        self.put_back(job, lease, now + wait, uses_up_a_try).await?;
        Ok(outcome)
    }

    async fn put_back(
        &self,
        job: &Claimed,
        lease: Lease,
        run_at: Timestamp,
        uses_up_a_try: bool,
    ) -> Result<()> {
        self.store
            .write("put_back", async |conn: &mut Conn| {
                jobs::retry(conn, job, lease.token, run_at, uses_up_a_try).await
            })
            .await?;
        Ok(())
    }
}
