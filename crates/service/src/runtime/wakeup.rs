//! Wakes a worker of this process at once, before its next scheduled poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::Timestamp;
use tokio::sync::Notify;

/// Wakes the worker that waits on it. A wake-up while the worker is busy applies to its next wait. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wakeup(Arc<Inner>);

struct Inner {
    now: Notify,
    soon: Notify,
    /// When the worker will poll its queue without being woken, in microseconds.
    next_poll: AtomicI64,
    /// Finished polls.
    #[cfg(feature = "test-util")]
    polls: tokio::sync::watch::Sender<u64>,
    /// What the worker runs its jobs on.
    #[cfg(feature = "test-util")]
    jobs: std::sync::Mutex<tokio_util::task::TaskTracker>,
}

/// The worker is polling, or has not announced its next poll.
const UNKNOWN: i64 = i64::MAX;

impl Default for Wakeup {
    fn default() -> Self {
        Self(Arc::new(Inner {
            now: Notify::new(),
            soon: Notify::new(),
            next_poll: AtomicI64::new(UNKNOWN),
            #[cfg(feature = "test-util")]
            polls: tokio::sync::watch::Sender::new(0),
            #[cfg(feature = "test-util")]
            jobs: std::sync::Mutex::default(),
        }))
    }
}

impl Wakeup {
    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        self.0.now.notify_one();
    }

    /// Wakes the worker for a job that is due at `instant`, unless it polls by then anyway.
    pub(crate) fn wake_by(&self, instant: Timestamp) {
        if instant.micros() < self.0.next_poll.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the worker after a few milliseconds, so that it claims a burst of jobs at once.
    pub(crate) fn wake_soon(&self) {
        self.0.soon.notify_one();
    }

    /// Returns once the worker is woken by [`Self::wake`].
    pub(crate) async fn woken(&self) {
        self.0.now.notified().await;
    }

    /// Returns once the worker is woken by [`Self::wake_soon`].
    pub(crate) async fn woken_soon(&self) {
        self.0.soon.notified().await;
    }

    /// The worker is about to poll its queue: that poll may miss a job that is queued from now on.
    pub(crate) fn poll_started(&self) {
        self.0.next_poll.store(UNKNOWN, Ordering::SeqCst);
    }

    /// The worker has polled its queue, and has started the jobs that it claimed.
    pub(crate) fn poll_finished(&self) {
        #[cfg(feature = "test-util")]
        self.0.polls.send_modify(|polls| *polls += 1);
    }

    /// Returns once the worker has finished a poll that began after this call.
    #[cfg(feature = "test-util")]
    pub(crate) async fn has_polled(&self) {
        let mut polls = self.0.polls.subscribe();
        // The first one to finish may have begun before the call.
        let enough = *polls.borrow_and_update() + 2;
        while *polls.borrow_and_update() < enough {
            self.wake();
            if polls.changed().await.is_err() {
                return;
            }
        }
    }

    /// The worker runs its jobs on `jobs`.
    #[cfg(feature = "test-util")]
    pub(crate) fn runs_jobs_on(&self, jobs: &tokio_util::task::TaskTracker) {
        *self.0.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = jobs.clone();
    }

    /// The jobs that the worker has started and that have not ended.
    #[cfg(feature = "test-util")]
    pub(crate) fn running_jobs(&self) -> usize {
        self.0.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// The worker polls again at `instant`.
    pub(crate) fn polls_again_at(&self, instant: Timestamp) {
        self.0.next_poll.store(instant.micros(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    #[test]
    fn it_wakes_for_a_job_that_the_next_poll_would_miss() {
        let wakeup = Wakeup::default();
        let is_woken = || wakeup.woken().now_or_never().is_some();
        wakeup.wake_by(at(9));
        assert!(is_woken(), "the next poll is not known");
        wakeup.polls_again_at(at(5));
        wakeup.wake_by(at(5));
        assert!(!is_woken(), "the next poll finds it in time");
        wakeup.wake_by(at(4));
        assert!(is_woken());
        wakeup.poll_started();
        wakeup.wake_by(at(9));
        assert!(is_woken(), "the current poll may have missed it");
    }
}
