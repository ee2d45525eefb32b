//! Background tasks: every task is tracked, and shutdown stops it and waits for it.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::runtime::group_writer::{Group, Queue};
use crate::runtime::health::{Health, Supervision};

/// The tasks of one process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Workers {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Writers that other tasks send their results to.
    writers: TaskTracker,
    stop_writers: CancellationToken,
    health: Health,
}

/// A caller who waits for work, until they leave.
#[derive(Clone, Debug)]
pub struct Waiting(CancellationToken);

impl Waiting {
    /// Returns when the caller has left.
    pub(crate) async fn left(&self) {
        self.0.cancelled().await;
    }
}

impl Workers {
    /// The health of the loops.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Starts a task that ends by itself, or when the token passed to it is cancelled.
    pub fn start<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(CancellationToken) -> F) {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Starts a loop that runs until it is stopped. If it panics, the panic is counted and the loop started again.
    pub fn supervise<F: Future<Output = ()> + Send + 'static>(
        &self,
        worker: &'static str,
        run: impl Fn(Supervision) -> F + Send + 'static,
    ) {
        let (stop, health) = (self.stop.clone(), self.health.clone());
        self.tasks.spawn(async move {
            let supervision = Supervision { stop: stop.clone(), health: health.clone() };
            health.supervise(worker, &stop, move || run(supervision.clone())).await;
        });
    }

    /// Starts a writer that other tasks send their results to: it is stopped after all of them have finished. If it
    /// panics, the panic is counted and the writer goes on with what waits.
    pub(crate) fn supervise_writer<G: Group>(&self, worker: &'static str, mut queue: Queue<G>, group: G) {
        let (stop, health) = (self.stop_writers.clone(), self.health.clone());
        self.writers.spawn(async move {
            while !health.survives(worker, queue.run(&group, &stop)).await {
                queue.forget_lost();
            }
        });
    }

    /// Runs work to its end even if the caller is dropped, which the work can find out. None if it panicked.
    pub async fn run_to_end<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce(Waiting) -> F,
    ) -> Option<T> {
        let left = CancellationToken::new();
        let _leaves_when_dropped = left.clone().drop_guard();
        self.tasks.spawn(work(Waiting(left))).await.ok()
    }

    /// Stops every task, and returns when all have finished.
    pub async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.stop_writers.cancel();
        self.writers.close();
        self.writers.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn draining_waits_for_running_tasks() {
        let workers = Workers::default();
        let finished = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&finished);
        workers.start(|stop| async move {
            stop.cancelled().await;
            tokio::task::yield_now().await;
            flag.store(true, Ordering::SeqCst);
        });
        assert!(!finished.load(Ordering::SeqCst));
        workers.drain().await;
        assert!(finished.load(Ordering::SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_restarted() {
        let workers = Workers::default();
        let (starts, running) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let (start_count, started) = (Arc::clone(&starts), Arc::clone(&running));
        workers.supervise("test", move |Supervision { stop, .. }| {
            let (starts, running) = (Arc::clone(&start_count), Arc::clone(&started));
            async move {
                assert!(starts.fetch_add(1, Ordering::SeqCst) == 2, "the first two starts panic");
                running.notify_one();
                stop.cancelled().await;
            }
        });
        running.notified().await;
        workers.drain().await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
    }
}
