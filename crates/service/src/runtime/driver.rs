//! The worker loop for a queue of leased jobs: it claims due jobs, takes those that are born leased, runs each until its
//! lease ends, and drains on shutdown. A panic is counted, and stops neither the loop nor other jobs. The scheduler, the courier and the outboxes
//! use it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::Timestamp;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use crate::runtime::health::count_panic;
use crate::runtime::{Clock, Result, Supervision, Wakeup};

/// The pause after a poll that failed or panicked. In real time, because a test's clock may stand still.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a poll is delayed after [`Wakeup::wake_soon`], so that it writes more at once. Also in real time.
const GATHER: Duration = Duration::from_millis(40);

/// A row that was claimed this often before, each time without an end, may be what ends its process. Few such suspects are in flight at a time,
/// so that others are not suspected with them.
pub(crate) const SUSPECT: i64 = 2;
/// A row that was claimed this often before, each time without an end, is given up.
const MAX_CLAIMS: i64 = 5;

/// Whether a claimed row may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// Like any other.
    None,
    /// Only while few other suspects are in flight.
    Suspect,
    /// No: every process that began it has ended during it.
    Abandoned,
}

impl Suspicion {
    /// The suspicion against a row after this many claims without an end.
    pub(crate) fn after(unfinished_claims: i64) -> Self {
        match unfinished_claims {
            ..SUSPECT => Self::None,
            SUSPECT..MAX_CLAIMS => Self::Suspect,
            _ => Self::Abandoned,
        }
    }
}

/// A queue of leased jobs, as one process works on it.
pub(crate) trait LeasedQueue: Send + 'static {
    /// Names the worker in the log and in metrics.
    const NAME: &'static str;

    /// Runs once before the first poll, for instance to end the leases of an earlier process.
    fn prepare(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Claims due jobs for the free slots, starts them on `tasks`, and returns when to poll again.
    fn poll(&mut self, tasks: &Tasks, cause: PollCause) -> impl Future<Output = Result<NextPoll>> + Send;

    /// Returns once a job that was born leased is due.
    fn handed_over(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Starts the jobs on `tasks` that were born leased and are due.
    fn begin(&mut self, _tasks: &Tasks) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Runs once after the last poll, before waiting for running tasks: releases what was not begun.
    fn stop(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Runs once after the last task has ended.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Why a queue is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollCause {
    /// Its time has come, or the worker was woken because something is to be claimed.
    Claim,
    /// Only [`Wakeup::wake_soon`].
    Soon,
}

/// When a queue is polled again, unless the worker is woken earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextPoll {
    /// At this instant.
    At(Timestamp),
    /// Only when woken: nothing waits, or there is no free slot until a task ends.
    WhenWoken,
}

impl NextPoll {
    /// When the next row is due, if one waits. Whoever queues an earlier one wakes the worker, and so does the backstop.
    pub(crate) fn when_due(due: Option<Timestamp>) -> Self {
        due.map_or(Self::WhenWoken, Self::At)
    }
}

/// The tasks of one queue. They are cancelled if the worker's loop is dropped before they have ended.
pub(crate) struct Tasks {
    worker: &'static str,
    tracker: TaskTracker,
    dropped: CancellationToken,
    _cancels: DropGuard,
}

impl Tasks {
    fn new(worker: &'static str) -> Self {
        let dropped = CancellationToken::new();
        Self { worker, tracker: TaskTracker::new(), _cancels: dropped.clone().drop_guard(), dropped }
    }

    /// Runs a job without a time limit: it must bound its own waits.
    pub(crate) fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        let (worker, dropped) = (self.worker, self.dropped.clone());
        self.tracker.spawn(async move {
            let ended = dropped.run_until_cancelled(AssertUnwindSafe(job).catch_unwind()).await;
            if let Some(Err(_)) = ended {
                count_panic(worker);
            }
        });
    }

    /// Runs a job until its lease ends, `limit` from now; after that another worker may claim it.
    pub(crate) fn spawn_within(&self, limit: Duration, job: impl Future<Output = ()> + Send + 'static) {
        let worker = self.worker;
        self.spawn(async move {
            if tokio::time::timeout(limit, job).await.is_err() {
                warn!(worker, limit_s = limit.as_secs(), "a job was cancelled because its lease ended");
            }
        });
    }
}

/// Polls a queue until it is stopped, then waits for running jobs.
pub(crate) async fn drive<Q: LeasedQueue>(
    mut queue: Q,
    clock: Clock,
    wakeup: Wakeup,
    Supervision { stop, health }: Supervision,
) {
    if let Err(error) = queue.prepare().await {
        error!(worker = Q::NAME, cause = error.cause(), "cannot prepare the queue: {error}");
    }
    let tasks = Tasks::new(Q::NAME);
    #[cfg(feature = "test-util")]
    wakeup.runs_jobs_on(&tasks.tracker);
    let mut cause = PollCause::Claim;
    while !stop.is_cancelled() {
        wakeup.poll_started();
        let polled = AssertUnwindSafe(async {
            queue.begin(&tasks).await;
            queue.poll(&tasks, cause).await
        });
        let polled = polled.catch_unwind().await;
        wakeup.poll_finished();
        let next = match polled {
            Ok(Ok(next)) => next,
            failed => {
                match failed {
                    Ok(Err(error)) => {
                        error!(worker = Q::NAME, cause = error.cause(), "cannot poll the queue: {error}");
                    }
                    _ => health.record_panic(Q::NAME),
                }
                // A wake-up during the pause does not bring the database back.
                stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
                cause = PollCause::Claim;
                continue;
            }
        };
        cause = PollCause::Claim;
        let mut waiting = Waiting::new(next, &clock, &wakeup);
        while let Some(event) = stop.run_until_cancelled(waiting.next(&queue)).await {
            match event {
                Event::Poll(why) => {
                    cause = why;
                    break;
                }
                // Not cancelled by a stop: what was taken must be started.
                Event::HandedOver => {
                    if AssertUnwindSafe(queue.begin(&tasks)).catch_unwind().await.is_err() {
                        health.record_panic(Q::NAME);
                    }
                }
            }
        }
    }
    queue.stop().await;
    tasks.tracker.close();
    tasks.tracker.wait().await;
    queue.finish().await;
}

/// What a worker has waited for.
enum Event {
    Poll(PollCause),
    /// A job that was born leased is due.
    HandedOver,
}

/// Waits for the next poll; jobs that are born leased may come meanwhile.
struct Waiting<'a> {
    due: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    gathered: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    wakeup: &'a Wakeup,
}

impl<'a> Waiting<'a> {
    fn new(next: NextPoll, clock: &'a Clock, wakeup: &'a Wakeup) -> Self {
        let due = async move {
            match next {
                NextPoll::At(instant) => {
                    wakeup.polls_again_at(instant);
                    clock.sleep_until(instant).await;
                }
                NextPoll::WhenWoken => std::future::pending().await,
            }
        };
        let gathered = async {
            wakeup.woken_soon().await;
            tokio::time::sleep(GATHER).await;
        };
        Self { due: Box::pin(due), gathered: Box::pin(gathered), wakeup }
    }

    async fn next<Q: LeasedQueue>(&mut self, queue: &Q) -> Event {
        tokio::select! {
            () = &mut self.due => Event::Poll(PollCause::Claim),
            () = self.wakeup.woken() => Event::Poll(PollCause::Claim),
            () = &mut self.gathered => Event::Poll(PollCause::Soon),
            () = queue.handed_over() => Event::HandedOver,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::runtime::internal;

    /// What one poll of the test's queue does.
    #[derive(Clone, Copy)]
    enum Poll {
        Panics,
        Fails,
        StartsAJobThatPanics,
        StartsAJobThatOutlastsItsLease,
        StartsAJob,
    }

    struct Script {
        polls: Arc<Mutex<VecDeque<Poll>>>,
        jobs_done: Arc<AtomicUsize>,
        stop: CancellationToken,
    }

    impl LeasedQueue for Script {
        const NAME: &'static str = "script";

        async fn poll(&mut self, tasks: &Tasks, _cause: PollCause) -> Result<NextPoll> {
            let Some(poll) = self.polls.lock().unwrap().pop_front() else {
                self.stop.cancel();
                return Ok(NextPoll::WhenWoken);
            };
            let done = Arc::clone(&self.jobs_done);
            match poll {
                Poll::Panics => panic!("a poll that panics"),
                Poll::Fails => return Err(internal("a poll that fails")),
                Poll::StartsAJobThatPanics => tasks.spawn(async { panic!("a job that panics") }),
                Poll::StartsAJobThatOutlastsItsLease => {
                    tasks.spawn_within(Duration::from_millis(1), std::future::pending());
                }
                Poll::StartsAJob => tasks.spawn(async move {
                    done.fetch_add(1, Ordering::SeqCst);
                }),
            }
            Ok(NextPoll::At(Timestamp::from_seconds(0)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_panic_nor_a_failure_nor_an_endless_job_ends_the_loop() {
        let polls = [
            Poll::StartsAJobThatPanics,
            Poll::Panics,
            Poll::StartsAJobThatOutlastsItsLease,
            Poll::Fails,
            Poll::StartsAJob,
        ];
        let polls = Arc::new(Mutex::new(VecDeque::from(polls)));
        let (jobs_done, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let queue = Script { polls, jobs_done: Arc::clone(&jobs_done), stop: stop.clone() };
        let (clock, _hands) = Clock::manual(Timestamp::from_seconds(1));
        drive(queue, clock, Wakeup::default(), stop.into()).await;
        assert_eq!(jobs_done.load(Ordering::SeqCst), 1, "the last job ran, and the loop waited for it");
    }
}
