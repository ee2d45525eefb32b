//! The health of this process: its loops, and how often they end in a panic.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// The delay before a loop that panicked is restarted.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// A loop that panics this often within [`WINDOW`] is failing: starting it again does not help.
const MAX_DEATHS: usize = 5;
const WINDOW: Duration = Duration::from_mins(1);

/// The loops of one process. Cheap to clone; clones are about the same process.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<&'static str, LoopHealth>>>);

/// What is known about one loop.
#[derive(Default)]
struct LoopHealth {
    /// Its last panics, oldest first.
    deaths: VecDeque<Instant>,
    /// Makes the loop panic.
    #[cfg(feature = "test-util")]
    strike: Arc<tokio::sync::Notify>,
}

/// What a loop is run with.
#[derive(Clone, Default)]
pub struct Supervision {
    /// Cancelled when the loop is to end.
    pub stop: CancellationToken,
    /// Where it reports panics that do not end it.
    pub health: Health,
}

impl From<CancellationToken> for Supervision {
    fn from(stop: CancellationToken) -> Self {
        Self { stop, health: Health::default() }
    }
}

impl Health {
    fn loops(&self) -> MutexGuard<'_, BTreeMap<&'static str, LoopHealth>> {
        // A panic elsewhere cannot leave an entry half-written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a loop until it ends or is stopped. If it panics, the panic is counted and the loop started again.
    pub async fn supervise<F: Future<Output = ()> + Send>(
        &self,
        worker: &'static str,
        stop: &CancellationToken,
        mut run: impl FnMut() -> F + Send,
    ) {
        while !self.survives(worker, run()).await {
            if stop.run_until_cancelled(tokio::time::sleep(RESTART_AFTER)).await.is_none() {
                return;
            }
        }
    }

    /// Runs a loop until it ends; false if it panicked, which is logged and counted.
    pub(crate) async fn survives(&self, worker: &'static str, run: impl Future<Output = ()> + Send) -> bool {
        self.loops().entry(worker).or_default();
        #[cfg(feature = "test-util")]
        let run = self.until_struck(worker, run);
        let survived = AssertUnwindSafe(run).catch_unwind().await.is_ok();
        if !survived {
            self.record_panic(worker);
        }
        survived
    }

    /// Counts a panic of a loop.
    pub(crate) fn record_panic(&self, worker: &'static str) {
        count_panic(worker);
        let now = Instant::now();
        let mut loops = self.loops();
        let deaths = &mut loops.entry(worker).or_default().deaths;
        deaths.push_back(now);
        if deaths.len() > MAX_DEATHS {
            deaths.pop_front();
        }
    }

    /// The loops that have panicked five times within the last minute.
    pub fn failing_workers(&self) -> Vec<&'static str> {
        let now = Instant::now();
        let is_recent = |death: &Instant| now.duration_since(*death) < WINDOW;
        let loops = self.loops();
        let failing = loops
            .iter()
            .filter(|(_, health)| health.deaths.iter().filter(|at| is_recent(at)).count() >= MAX_DEATHS);
        failing.map(|(worker, _)| *worker).collect()
    }

    /// The names of all loops that have been started.
    #[cfg(feature = "test-util")]
    pub fn workers(&self) -> Vec<&'static str> {
        self.loops().keys().copied().collect()
    }

    /// Makes a loop panic, wherever it is.
    #[cfg(feature = "test-util")]
    pub fn strike(&self, worker: &'static str) {
        self.loops().entry(worker).or_default().strike.notify_one();
    }

    #[cfg(feature = "test-util")]
    async fn until_struck(&self, worker: &'static str, run: impl Future<Output = ()> + Send) {
        let strike = Arc::clone(&self.loops().entry(worker).or_default().strike);
        tokio::select! {
            () = run => {}
            () = strike.notified() => panic!("a test has struck the {worker}"),
        }
    }
}

/// Counts a panic of a worker or of one of its jobs. The panic hook has already logged the panic itself.
pub(crate) fn count_panic(worker: &'static str) {
    error!(worker, "a background task panicked; its worker continues");
    metrics::counter!("auspex_worker_panics_total", "worker" => worker).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_five_times_in_a_minute_is_failing() {
        let health = Health::default();
        assert!(health.survives("calm", async {}).await);
        for panics in 1..MAX_DEATHS {
            assert!(!health.survives("hasty", async { panic!("a loop that panics") }).await);
            assert!(health.failing_workers().is_empty(), "{panics}");
            tokio::time::advance(WINDOW / 5).await;
        }
        health.record_panic("hasty");
        assert_eq!(health.failing_workers(), ["hasty"]);
        // The first of them is a minute ago.
        tokio::time::advance(WINDOW / 5).await;
        assert!(health.failing_workers().is_empty());
        health.record_panic("hasty");
        assert_eq!(health.failing_workers(), ["hasty"]);
    }
}
