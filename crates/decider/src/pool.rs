//! Threads that the model runs on, one for each core. They load the model in the background.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Decider, Evaluation, InvalidWeights, Progress};

/// The model on threads of its own. Clones share the model and the threads.
#[derive(Clone)]
pub struct DeciderPool {
    threads: Arc<ThreadPool>,
    decider: Arc<OnceLock<Result<Decider, InvalidWeights>>>,
}

/// The threads of the model could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the threads of the embedded model cannot be started")]
pub struct StartError(#[source] rayon::ThreadPoolBuildError);

impl DeciderPool {
    /// Starts the threads, begins to load the model and returns at once.
    pub fn start() -> Result<Self, StartError> {
        let threads = ThreadPoolBuilder::new()
            .num_threads(std::thread::available_parallelism().map_or(1, usize::from))
            .thread_name(|number| format!("decider-{number}"))
            .build()
            .map_err(StartError)?;
        let pool = Self { threads: Arc::new(threads), decider: Arc::default() };
        let decider = Arc::clone(&pool.decider);
        pool.threads.spawn(move || {
            decider.get_or_init(Decider::load);
        });
        Ok(pool)
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Begins an evaluation on the threads of the pool, and calls `done` there once the model is loaded.
    pub fn begin(
        &self,
        begin: impl FnOnce(&Decider) -> Evaluation + Send + 'static,
        done: impl FnOnce(Result<Evaluation, InvalidWeights>) + Send + 'static,
    ) {
        self.run(begin, done);
    }

    /// Makes the next pass of an evaluation on the threads of the pool, and calls `done` there with what has come of it. A
    /// single pass uses all threads that are idle.
    pub fn advance(
        &self,
        evaluation: Evaluation,
        done: impl FnOnce(Result<Progress, InvalidWeights>) + Send + 'static,
    ) {
        self.run(move |decider| decider.advance(evaluation), done);
    }

    fn run<T>(
        &self,
        work: impl FnOnce(&Decider) -> T + Send + 'static,
        done: impl FnOnce(Result<T, InvalidWeights>) + Send + 'static,
    ) {
        let decider = Arc::clone(&self.decider);
        self.threads.spawn(move || {
            // A panic on a thread of the pool would end the process. Here it drops `done`, which tells whoever waits for it.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let loaded = decider.get_or_init(Decider::load);
                done(loaded.as_ref().map_err(Clone::clone).map(work));
            }));
        });
    }
}
