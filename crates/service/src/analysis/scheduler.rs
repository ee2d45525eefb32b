//! The scheduler: runs jobs that are born leased, claims other due jobs, live before bulk and round-robin over tenants, and
//! runs as many as there are slots.

mod histories;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use analyzer::Failure;
use futures_util::FutureExt as _;
use model::Timestamp;
use model::backoff::{Backoff, Jitter};
use opentelemetry::trace::SpanKind;
use store::analysis::jobs::{self, JobLease, LeasedJob, Priority};
use store::{Conn, Lease, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{error, warn};

use crate::analysis::asking::Asker;
use crate::analysis::concluder::{AnalyzedObject, ClaimedJob, Concluder, Conclusion, Outcome};
use crate::analysis::history::AnalysisInput;
use crate::analysis::running::Running;
use crate::billing::Unpaid;
use crate::runtime::driver::{LeasedQueue, NextPoll, PollCause, Suspicion, Tasks, drive};
use crate::runtime::intake::{Handed, Intake};
use crate::runtime::turns::{Cursor, Turns};
use crate::runtime::{Clock, Kind, Random, Result, Supervision, Traces, Wakeup, count_panic};

/// How often the queue is polled without being woken while no slot is free.
const POLL: Duration = Duration::from_secs(1);
/// The delay when due jobs are being claimed by other processes.
pub const SOON: Duration = Duration::from_millis(50);
/// How much longer than the deadlines of both analyzers a job is leased.
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How long a suspect is put off while another one runs.
const PUT_OFF: Duration = Duration::from_secs(1);
/// The number of attempts for a job whose analysis fails.
const MAX_ATTEMPTS: i64 = 5;
/// The delays after failures.
const RETRY: Backoff =
    Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(30), jitter: Jitter::NONE };
/// The delay when the analyzer is rate-limiting or down and does not say for how long.
const ANALYZER_WAIT: Duration = Duration::from_secs(5);
/// The outcome of a job that was born leased and merged into one that was there.
const MERGED: &str = "merged";
/// The outcome of a job that is done and stays queued, since events came meanwhile.
const REQUEUED: &str = "requeued";
/// The delay of a job that was interrupted by an outage of the database.
const OUTAGE_WAIT: Duration = Duration::from_secs(1);

/// The dependencies of the scheduler and its tasks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Scheduler {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) traces: Traces,
    pub(crate) asker: Asker,
    pub(crate) concluder: Arc<Concluder>,
    pub(crate) unpaid: Unpaid,
    pub(crate) running: Running,
    /// Wakes this scheduler.
    pub(crate) wakeup: Wakeup,
    /// Where it gets jobs that are born leased. It is open unless there may be more due jobs than free slots.
    pub(crate) intake: Intake<LeasedJob>,
    /// Wakes the feeder of bulk runs.
    pub(crate) feeder: Wakeup,
    /// The number of analyzer slots in this process.
    pub(crate) workers: usize,
    /// The deadline of the calls of both analyzers.
    pub(crate) asking_timeout: Duration,
    /// Jobs whose outcome could not be written, because the database did not respond.
    pub(crate) unreleased: Arc<Mutex<Vec<(LeasedJob, Lease)>>>,
}

/// The queue of jobs, as the scheduler polls it.
struct JobQueue {
    scheduler: Scheduler,
    /// Held by the suspect that runs. There is one at a time: the next process that ends shows whether it was this one.
    suspect: Arc<Semaphore>,
    /// Where the next claim begins, by priority.
    cursors: HashMap<Priority, Cursor>,
    /// Whether the last poll claimed a job for every free slot: more may be due.
    is_behind: bool,
}

/// A job to be started, and its lease.
struct Start {
    job: LeasedJob,
    lease: Lease,
    slot: OwnedSemaphorePermit,
    /// What a suspect holds while it runs.
    suspect: Option<OwnedSemaphorePermit>,
}

/// The result of reading the history for a claimed job.
enum Readiness {
    /// The input of the analyzer.
    Ready(Box<AnalysisInput>),
    /// There are no questions, or the object is gone.
    Nothing,
    /// The tenant cannot pay for it.
    Unpaid,
    /// The history must be read separately.
    Unread,
}

impl Scheduler {
    /// Runs jobs until it is stopped, then finishes those that are running.
    pub(crate) async fn run(self, supervision: Supervision) {
        let (clock, wakeup) = (self.clock.clone(), self.wakeup.clone());
        let suspect = Arc::new(Semaphore::new(1));
        let queue = JobQueue { scheduler: self, suspect, cursors: HashMap::new(), is_behind: false };
        drive(queue, clock, wakeup, supervision).await;
    }
}

impl LeasedQueue for JobQueue {
    const NAME: &'static str = "scheduler";

    async fn prepare(&mut self) -> Result<()> {
        let void = async |conn: &mut Conn| jobs::void_stale_leases(conn).await;
        self.scheduler.store.write("void_job_leases", void).await?;
        Ok(())
    }

    async fn handed_over(&self) {
        self.scheduler.intake.ready(&self.scheduler.clock).await;
    }

    async fn begin(&mut self, tasks: &Tasks) {
        let handed = self.scheduler.intake.take_due(self.scheduler.clock.now());
        let starts = handed.into_iter().map(|Handed { work, lease, slot, .. }| Start {
            job: work,
            lease,
            slot,
            suspect: None,
        });
        self.start(starts.collect(), tasks).await;
    }

    async fn poll(&mut self, tasks: &Tasks, _cause: PollCause) -> Result<NextPoll> {
        self.scheduler.release_unreleased().await?;
        let scheduler = &self.scheduler;
        let now = scheduler.clock.now();
        let poll = now + POLL;
        let (allowed, resume_at) = scheduler.asker.allowed(now);
        let allowed = allowed.min(scheduler.workers);
        // Closed while slots are counted and filled, so that nobody else takes them. Meanwhile, a job that ends wakes the scheduler.
        scheduler.intake.close();
        let free = allowed.saturating_sub(scheduler.intake.in_use());
        if free == 0 {
            return Ok(NextPoll::At(resume_at.unwrap_or(poll).min(poll)));
        }
        if !self.is_behind {
            // An idle scheduler only reads: on SQLite a claim would have to wait for the write lock.
            let due = scheduler.store.read("next_due_job", async |conn| jobs::next_due(conn).await).await?;
            if due.is_none_or(|due| due > now) {
                scheduler.intake.open(allowed);
                return Ok(NextPoll::when_due(due));
            }
        }
        let was_behind = std::mem::replace(&mut self.is_behind, false);
        let limit = scheduler.asking_timeout + LEASE_MARGIN;
        let lease = Lease { token: scheduler.random.id(now), until: now + limit };
        let claimed = self.claim(now, lease, free).await?;
        let count = claimed.len();
        self.is_behind = count == free;
        let claimed = self.sort_out(claimed, lease, now).await;
        self.start(claimed, tasks).await;
        if !self.is_behind {
            self.scheduler.intake.open(allowed);
        }
        Ok(NextPoll::At(match count {
            // Due jobs are being claimed by other processes. If this poll skipped the check for due jobs, poll at once.
            0 if was_behind => now,
            0 => now + SOON,
            // A slot that is released wakes the scheduler.
            _ if self.is_behind => poll,
            // There may be more.
            _ => now,
        }))
    }

    async fn stop(&mut self) {
        self.release_unbegun().await;
    }

    async fn finish(&mut self) {
        self.release_unbegun().await;
    }
}

impl JobQueue {
    /// Claims due jobs: live ones first; of each tenant its share, starting after the one served last, or anywhere if others
    /// were quicker.
    async fn claim(&mut self, now: Timestamp, lease: Lease, free: usize) -> Result<Vec<LeasedJob>> {
        let mut claimed = Vec::new();
        for priority in [Priority::Live, Priority::Bulk] {
            let left = free - claimed.len();
            if left == 0 {
                break;
            }
            let cursor = self.cursors.entry(priority).or_default();
            let after = cursor.after();
            let taken = self
                .scheduler
                .store
                .write("claim_jobs", async |conn: &mut Conn| {
                    claim_in_turn(conn, priority, Turns::after(after, left), now, lease, left).await
                })
                .await;
            let (taken, is_outrun) = match taken {
                Ok(taken) => taken,
                // Live jobs have already been claimed, and must be run.
                Err(error) if !claimed.is_empty() => {
                    error!(%error, ?priority, "cannot claim jobs");
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            for tenants in taken.chunk_by(|one, other| one.tenant_id == other.tenant_id) {
                cursor.served(tenants[0].tenant_id);
            }
            if is_outrun {
                cursor.jump(self.scheduler.random.fraction());
            }
            claimed.extend(taken);
        }
        Ok(claimed)
    }
}

impl JobQueue {
    /// Releases jobs that were handed over and not begun, and those whose outcome could not be written.
    async fn release_unbegun(&self) {
        let unbegun = self.scheduler.intake.shut();
        self.scheduler.unreleased().extend(unbegun.into_iter().map(|handed| (handed.work, handed.lease)));
        if let Err(error) = self.scheduler.release_unreleased().await {
            // Their leases will expire.
            error!(cause = error.cause(), "cannot release jobs: {error}");
        }
    }

    /// Starts jobs: reads their histories together, and runs each within its lease.
    async fn start(&self, starts: Vec<Start>, tasks: &Tasks) {
        if starts.is_empty() {
            return;
        }
        let now = self.scheduler.clock.now();
        let read = self.scheduler.read_together(&starts).await;
        for (Start { job, lease, slot, suspect }, readiness) in starts.into_iter().zip(read) {
            let scheduler = self.scheduler.clone();
            tasks.spawn_within(lease.until.since(now), async move {
                let outcome = scheduler.run_job(&job, lease, readiness, slot).await;
                drop(suspect);
                // After a plain end, nothing is due that was not due before.
                if outcome != "ok" || scheduler.intake.is_closed() {
                    scheduler.wakeup.wake();
                }
                if job.bulk_run_id.is_some() {
                    scheduler.feeder.wake();
                }
            });
        }
    }

    /// Gives up the claimed jobs that have ended every process that began them, and puts off all suspects but one. Returns
    /// the others.
    async fn sort_out(&self, claimed: Vec<LeasedJob>, lease: Lease, now: Timestamp) -> Vec<Start> {
        let (mut runnable, mut put_off, mut returned) = (Vec::new(), Vec::new(), Vec::new());
        for job in claimed {
            let suspect = match Suspicion::after(job.unfinished_claims) {
                Suspicion::None => None,
                Suspicion::Suspect => {
                    let Ok(permit) = Arc::clone(&self.suspect).try_acquire_owned() else {
                        put_off.push(job);
                        continue;
                    };
                    Some(permit)
                }
                Suspicion::Abandoned => {
                    self.scheduler.abandon(&job, lease).await;
                    continue;
                }
            };
            match self.scheduler.intake.slot() {
                Some(slot) => runnable.push(Start { job, lease, slot, suspect }),
                // A writer has taken it just before the intake was closed.
                None => returned.push(job),
            }
        }
        if !put_off.is_empty() || !returned.is_empty() {
            let write = async |conn: &mut Conn| {
                jobs::put_off(conn, &returned, lease.token, now).await?;
                jobs::put_off(conn, &put_off, lease.token, now + PUT_OFF).await
            };
            if let Err(error) = self.scheduler.store.write("put_off_jobs", write).await {
                // Their leases will expire. The others have been claimed, and must be run.
                error!(%error, "cannot put off jobs");
            }
        }
        runnable
    }
}

/// Claims jobs of the tenants whose turn it is, and says whether other processes were quicker with all of them.
async fn claim_in_turn(
    conn: &mut Conn,
    priority: Priority,
    mut turns: Turns,
    now: Timestamp,
    lease: Lease,
    free: usize,
) -> store::Result<(Vec<LeasedJob>, bool)> {
    while let Some(cursor) = turns.next_after() {
        turns.take(jobs::next_tenant(conn, priority, Some(cursor), now).await?);
    }
    let mut claimed: Vec<LeasedJob> = Vec::new();
    for (index, tenant) in turns.tenants().iter().enumerate() {
        let share = turns.share(index, free - claimed.len());
        claimed.extend(jobs::claim(conn, *tenant, priority, now, lease, share).await?);
    }
    let is_outrun = claimed.is_empty() && !turns.tenants().is_empty();
    Ok((claimed, is_outrun))
}

impl Scheduler {
    /// Runs one claimed job, and records its outcome.
    async fn run_job(
        &self,
        job: &LeasedJob,
        lease: Lease,
        readiness: Readiness,
        slot: OwnedSemaphorePermit,
    ) -> &'static str {
        let step = self.traces.resume("analyze", SpanKind::Consumer, job.traceparents.as_deref());
        step.note("auspex.tenant.id", job.tenant_id.0.to_string());
        step.note("auspex.bulk", job.bulk_run_id.is_some());
        step.note("auspex.attempt", job.attempts);
        let outcome = step.around(self.run_to_outcome(job, lease, readiness, slot)).await;
        step.note("auspex.outcome", outcome);
        if matches!(outcome, "failed" | "given_up" | "throttled" | "down" | "error") {
            step.fail(outcome);
        }
        if outcome == MERGED {
            return outcome;
        }
        // Events that came meanwhile do not make it another outcome.
        let label = if outcome == REQUEUED { "ok" } else { outcome };
        metrics::counter!("auspex_analyses_total", "source" => "async", "outcome" => label).increment(1);
        outcome
    }

    async fn run_to_outcome(
        &self,
        job: &LeasedJob,
        lease: Lease,
        readiness: Readiness,
        slot: OwnedSemaphorePermit,
    ) -> &'static str {
        let mut unsettled = Unsettled { scheduler: self, job, lease, is_settled: false };
        let done = AssertUnwindSafe(self.analyze(job, lease, readiness, slot)).catch_unwind().await;
        let done = match done {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) if error.kind() == Kind::NotReady => {
                warn!(cause = error.cause(), object = job.object_id, "an analysis was interrupted: {error}");
                self.put_back_after_outage(job, lease).await
            }
            Ok(Err(error)) => {
                error!(cause = error.cause(), object = job.object_id, "an analysis failed: {error}");
                self.postpone(job, lease, Failure::Failed(error.into())).await
            }
            Err(_) => {
                count_panic(JobQueue::NAME);
                self.postpone(job, lease, Failure::Failed("it panicked".into())).await
            }
        };
        unsettled.is_settled = done.is_ok();
        done.unwrap_or_else(|error| {
            error!(cause = error.cause(), object = job.object_id, "cannot reschedule a job: {error}");
            "error"
        })
    }

    async fn analyze(
        &self,
        job: &LeasedJob,
        lease: Lease,
        readiness: Readiness,
        slot: OwnedSemaphorePermit,
    ) -> Result<&'static str> {
        let (allowed, resume_at) = self.asker.allowed(self.clock.now());
        if allowed == 0 {
            // The analyzer began to rate-limit after the job was claimed.
            self.reschedule(job, lease, resume_at.unwrap_or(self.clock.now()), false).await?;
            return Ok("throttled");
        }
        let _running = self.running.begin(job.tenant_id);
        let readiness = match readiness {
            Readiness::Unread => {
                let mut read = self.read_claimed(&[job]).await?;
                read.pop().unwrap_or(Readiness::Nothing)
            }
            readiness => readiness,
        };
        let mut input = match readiness {
            Readiness::Ready(input) if input.queued_lease == Some(lease.token) => input,
            // It was to be born leased, but the object had a job already, which has all of its events.
            Readiness::Ready(_) => return Ok(MERGED),
            Readiness::Nothing | Readiness::Unread => {
                self.remove(job, lease).await?;
                return Ok("nothing");
            }
            Readiness::Unpaid => {
                self.unpaid.park(job, lease).await?;
                return Ok("unpaid");
            }
        };
        // Analyzers keep their deadline themselves; the rest of the lease is for writing.
        let response = match self.asker.ask_in_stages(job.tenant_id, &input, None).await {
            Ok(response) => response,
            Err(failure) => return self.postpone(job, lease, failure).await,
        };
        // The analyzer has read it; it is not needed for writing.
        input.state = String::new();
        // Asked all signals, it covers everything up to the version that was read.
        let version = input.queued_version.filter(|_| job.signals.is_none()).unwrap_or(job.version);
        let conclusion = Conclusion {
            tenant: job.tenant_id,
            response,
            object: Some(AnalyzedObject { object_id: job.object_id.clone(), input: *input }),
            job: Some(ClaimedJob { lease, version, bulk_run_id: job.bulk_run_id }),
            covers: None,
            asks_signals: true,
            slot: None,
        };
        let written = self.concluder.submit(Arc::new(conclusion)).await?;
        // The slot is for the analyzer: the next job starts while this one is written.
        drop(slot);
        if self.intake.is_closed() {
            self.wakeup.wake();
        }
        Ok(match written.await? {
            Outcome::Written => "ok",
            Outcome::Requeued => REQUEUED,
            Outcome::Gone => "gone",
            Outcome::Late => "late",
        })
    }

    fn unreleased(&self) -> MutexGuard<'_, Vec<(LeasedJob, Lease)>> {
        // A panic elsewhere cannot leave an entry half-written.
        self.unreleased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the leases of jobs whose outcome could not be written: this process has not ended, and the jobs are not suspects.
    async fn release_unreleased(&self) -> Result<()> {
        let unreleased = std::mem::take(&mut *self.unreleased());
        if unreleased.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let released = self
            .store
            .write("release_jobs", async |conn: &mut Conn| {
                for (job, lease) in &unreleased {
                    jobs::retry(conn, job, lease.token, now, false).await?;
                }
                Ok::<_, store::Error>(())
            })
            .await;
        if released.is_err() {
            self.unreleased().extend(unreleased);
        }
        Ok(released?)
    }

    /// Gives up a job that has ended every process that began it: its events are kept, and the next event queues a new job.
    async fn abandon(&self, job: &LeasedJob, lease: Lease) {
        let (object, tenant) = (&job.object_id, job.tenant_id);
        error!(object, %tenant, "an analysis was given up: every process that began it ended during it");
        metrics::counter!("auspex_analyses_total", "source" => "async", "outcome" => "abandoned")
            .increment(1);
        if let Err(error) = self.remove(job, lease).await {
            // Its lease will expire, and it will be given up then.
            error!(cause = error.cause(), object, "cannot remove a job: {error}");
        }
    }

    /// Deletes a job for which there is nothing to do.
    async fn remove(&self, job: &LeasedJob, lease: Lease) -> Result<()> {
        let (tenant, object_id) = (job.tenant_id, job.object_id.as_str());
        let leased = JobLease { tenant, object_id, token: lease.token, version: job.version };
        self.store.write("remove_job", async |conn: &mut Conn| jobs::discard(conn, leased).await).await?;
        Ok(())
    }

    /// Reschedules a job after a failure, or gives it up: its events are kept, and the next event queues a new job.
    async fn postpone(&self, job: &LeasedJob, lease: Lease, failure: Failure) -> Result<&'static str> {
        let now = self.clock.now();
        let (wait, counts_as_attempt, outcome) = match failure {
            Failure::Throttled { retry_after } => (retry_after.unwrap_or(ANALYZER_WAIT), false, "throttled"),
            Failure::Busy => (ANALYZER_WAIT, false, "throttled"),
            Failure::Down(cause) => {
                warn!(%cause, "the analyzer cannot be reached");
                (ANALYZER_WAIT, false, "down")
            }
            Failure::Failed(_) | Failure::OutOfTime | Failure::CallerLeft => {
                let cause = if let Failure::Failed(cause) = failure { cause } else { failure.into() };
                if job.attempts >= MAX_ATTEMPTS {
                    error!(%cause, object = job.object_id, tries = job.attempts, "an analysis was given up");
                    self.remove(job, lease).await?;
                    return Ok("given_up");
                }
                warn!(%cause, object = job.object_id, tries = job.attempts, "an analysis failed and will be retried");
                (RETRY.wait(job.attempts, 0.0), true, "failed")
            }
        };
        self.reschedule(job, lease, now + wait, counts_as_attempt).await?;
        Ok(outcome)
    }

    /// Reschedules a job. The outage says nothing about the job: it costs no attempt. While it lasts, the job is left to
    /// [`Self::release_unreleased`].
    async fn put_back_after_outage(&self, job: &LeasedJob, lease: Lease) -> Result<&'static str> {
        self.reschedule(job, lease, self.clock.now() + OUTAGE_WAIT, false).await?;
        Ok("error")
    }

    async fn reschedule(
        &self,
        job: &LeasedJob,
        lease: Lease,
        run_at: Timestamp,
        counts_as_attempt: bool,
    ) -> Result<()> {
        self.store
            .write("put_job_back", async |conn: &mut Conn| {
                jobs::retry(conn, job, lease.token, run_at, counts_as_attempt).await
            })
            .await?;
        Ok(())
    }
}

/// A job that was begun. Unless its outcome is written, also if its future is dropped at the end of the lease, it is left to
/// [`Scheduler::release_unreleased`].
struct Unsettled<'a> {
    scheduler: &'a Scheduler,
    job: &'a LeasedJob,
    lease: Lease,
    is_settled: bool,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.scheduler.unreleased().push((self.job.clone(), self.lease));
            self.scheduler.wakeup.wake();
        }
    }
}
