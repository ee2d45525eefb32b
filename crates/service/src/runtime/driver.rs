//! The loop that works off a queue of leased work: it claims what is due, runs it until its lease ends, and drains on
//! shutdown. A panic ends neither the loop nor another job; it is counted. The scheduler, the courier and the outboxes
//! are its users.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use crate::runtime::{Clock, Result, Wakeup};

/// The wait after a look that failed or panicked. In real time: a test's clock may stand still.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a look waits for more to happen after [`Wakeup::wake_soon`]. In real time too.
const GATHER: Duration = Duration::from_millis(10);

/// A queue of leased work, as one process works it off.
pub(crate) trait LeasedQueue: Send + 'static {
    /// Names the worker in the log and in metrics.
    const NAME: &'static str;

    /// Runs once before the first look, for instance to end the leases of an earlier process.
    fn prepare(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Claims what is due and there is room for, starts it on `tasks`, and says when to look again.
    fn look(&mut self, tasks: &Tasks) -> impl Future<Output = Result<NextLook>> + Send;

    /// Runs once after the last look, before running tasks are waited for.
    fn stop(&mut self) {}

    /// Runs once after the last task has ended.
    fn finish(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// When a queue is looked at again, unless the worker is woken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLook {
    /// At this instant.
    At(Timestamp),
    /// Only when woken: there is no room for more work until a task ends.
    WhenWoken,
}

/// The tasks of one queue.
pub(crate) struct Tasks {
    worker: &'static str,
    tracker: TaskTracker,
}

impl Tasks {
    /// Runs a job that may take as long as it needs: it bounds its own waits.
    pub(crate) fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        let worker = self.worker;
        self.tracker.spawn(async move {
            if AssertUnwindSafe(job).catch_unwind().await.is_err() {
                count_panic(worker);
            }
        });
    }

    /// Runs a job until its lease ends, `limit` from now; past that another worker may have it.
    pub(crate) fn spawn_within(&self, limit: Duration, job: impl Future<Output = ()> + Send + 'static) {
        let worker = self.worker;
        self.spawn(async move {
            if tokio::time::timeout(limit, job).await.is_err() {
                warn!(worker, limit_s = limit.as_secs(), "a job did not end before its lease did");
            }
        });
    }
}

/// Works off a queue until it is told to stop, and then finishes what is running.
pub(crate) async fn drive<Q: LeasedQueue>(
    mut queue: Q,
    clock: Clock,
    wakeup: Wakeup,
    stop: CancellationToken,
) {
    if let Err(error) = queue.prepare().await {
        error!(worker = Q::NAME, cause = error.cause(), "the queue cannot be prepared: {error}");
    }
    let tasks = Tasks { worker: Q::NAME, tracker: TaskTracker::new() };
    while !stop.is_cancelled() {
        wakeup.looking();
        let looked = AssertUnwindSafe(queue.look(&tasks)).catch_unwind().await;
        wakeup.looked();
        let next = match looked {
            Ok(Ok(next)) => next,
            failed => {
                match failed {
                    Ok(Err(error)) => {
                        error!(worker = Q::NAME, cause = error.cause(), "cannot look at the queue: {error}");
                    }
                    _ => count_panic(Q::NAME),
                }
                // Being woken meanwhile does not bring the database back.
                stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
                continue;
            }
        };
        stop.run_until_cancelled(wait(next, &clock, &wakeup)).await;
    }
    queue.stop();
    tasks.tracker.close();
    tasks.tracker.wait().await;
    queue.finish().await;
}

async fn wait(next: NextLook, clock: &Clock, wakeup: &Wakeup) {
    let is_due = matches!(next, NextLook::At(instant) if instant <= clock.now());
    let due = async {
        match next {
            NextLook::At(instant) => {
                wakeup.looks_again_at(instant);
                clock.sleep_until(instant).await;
            }
            NextLook::WhenWoken => std::future::pending().await,
        }
    };
    tokio::select! {
        () = due => {}
        () = wakeup.woken() => {}
        () = wakeup.woken_soon() => {
            if !is_due {
                let _ = tokio::time::timeout(GATHER, wakeup.woken()).await;
            }
        }
    }
}

/// Counts a panic of a worker or of one of its jobs. The panic itself is in the log already.
pub(crate) fn count_panic(worker: &'static str) {
    error!(worker, "a background task panicked and goes on");
    metrics::counter!("auspex_worker_panics_total", "worker" => worker).increment(1);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::runtime::internal;

    /// What a look of the test's queue does.
    #[derive(Clone, Copy)]
    enum Look {
        Panics,
        Fails,
        StartsAJobThatPanics,
        StartsAJobThatOutlastsItsLease,
        StartsAJob,
    }

    struct Script {
        looks: Arc<Mutex<VecDeque<Look>>>,
        jobs_done: Arc<AtomicUsize>,
        stop: CancellationToken,
    }

    impl LeasedQueue for Script {
        const NAME: &'static str = "script";

        async fn look(&mut self, tasks: &Tasks) -> Result<NextLook> {
            let Some(look) = self.looks.lock().unwrap().pop_front() else {
                self.stop.cancel();
                return Ok(NextLook::WhenWoken);
            };
            let done = Arc::clone(&self.jobs_done);
            match look {
                Look::Panics => panic!("a look that panics"),
                Look::Fails => return Err(internal("a look that fails")),
                Look::StartsAJobThatPanics => tasks.spawn(async { panic!("a job that panics") }),
                Look::StartsAJobThatOutlastsItsLease => {
                    tasks.spawn_within(Duration::from_millis(1), std::future::pending());
                }
                Look::StartsAJob => tasks.spawn(async move {
                    done.fetch_add(1, Ordering::SeqCst);
                }),
            }
            Ok(NextLook::At(Timestamp::from_seconds(0)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn neither_a_panic_nor_a_failure_nor_an_endless_job_ends_the_loop() {
        let looks = [
            Look::StartsAJobThatPanics,
            Look::Panics,
            Look::StartsAJobThatOutlastsItsLease,
            Look::Fails,
            Look::StartsAJob,
        ];
        let looks = Arc::new(Mutex::new(VecDeque::from(looks)));
        let (jobs_done, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let queue = Script { looks, jobs_done: Arc::clone(&jobs_done), stop: stop.clone() };
        let (clock, _hands) = Clock::manual(Timestamp::from_seconds(1));
        drive(queue, clock, Wakeup::default(), stop).await;
        assert_eq!(jobs_done.load(Ordering::SeqCst), 1, "what came last was still done, and waited for");
    }
}
