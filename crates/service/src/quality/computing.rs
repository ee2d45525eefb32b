//! Computations that take up to a second, beside the threads that answer requests.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::runtime::{Result, internal};

/// Runs computations, at most one per two cores at a time. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Computing {
    slots: Arc<Semaphore>,
}

impl Computing {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { slots: Arc::new(Semaphore::new((cores / 2).max(1))) }
    }

    /// The result of a computation.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(internal)?;
        // The slot ends with the work, not with the caller, who may leave at any time: work that has started cannot be stopped.
        let work = move || {
            let _slot = slot;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(internal)?
    }
}
