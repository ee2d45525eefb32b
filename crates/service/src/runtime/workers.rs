//! Background tasks that shutdown can find: nothing runs that is not tracked, told to stop, and waited for.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Workers {
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Those that others rely on to finish what they have in hand.
    writers: TaskTracker,
    stop_writers: CancellationToken,
}

impl Workers {
    /// Starts a task, which hears of the end through the token that it is handed.
    pub fn start<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(CancellationToken) -> F) {
        self.tasks.spawn(task(self.stop.clone()));
    }

    /// Starts a task that writes what others have found: it is told to stop once all of them have finished.
    pub fn start_writer<F: Future<Output = ()> + Send + 'static>(
        &self,
        task: impl FnOnce(CancellationToken) -> F,
    ) {
        self.writers.spawn(task(self.stop_writers.clone()));
    }

    /// Carries work to its end, also when whoever waits for it goes away. None if it panicked.
    pub async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.tasks.spawn(work).await.ok()
    }

    /// Tells every task to finish what it has in hand, and returns when all have.
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
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn draining_waits_for_what_is_in_hand() {
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
}
