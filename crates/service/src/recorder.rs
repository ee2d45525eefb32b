//! The recorder: one writer that commits whenever it is free, taking all that waits. One commit serves many callers, and
//! each is answered when it is durable.

use std::sync::Arc;

use store::recording::{self, Enforcement, Entry, Recorded};
use store::{Conn, Store};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::object_cache::ObjectCache;
use crate::{Bell, Error, Kind, Random, Result, Workers, internal};

/// Requests that may wait for the writer; past that, callers wait to get in.
const QUEUE: usize = 4_096;
/// Requests in one commit.
const MAX_REQUESTS: usize = 1_024;
/// Events in one commit, so that a few large requests do not make it slow for the others.
const MAX_EVENTS: usize = 5_000;

/// Hands requests to the writer. Cheap to clone; clones feed the same writer.
#[derive(Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<Waiting>,
}

struct Waiting {
    entry: Entry,
    caller: oneshot::Sender<Result<Recorded>>,
}

/// The writer's side.
struct Writer {
    store: Store,
    random: Random,
    enforcement: Enforcement,
    bell: Bell,
    cache: Arc<ObjectCache>,
}

impl Recorder {
    /// Starts the writer; `bell` is rung when analyses were scheduled.
    pub(crate) fn start(
        store: Store,
        random: Random,
        enforcement: Enforcement,
        bell: Bell,
        cache: Arc<ObjectCache>,
        workers: &Workers,
    ) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let writer = Writer { store, random, enforcement, bell, cache };
        workers.start_writer(|stop| writer.run(waiting, stop));
        Self { queue }
    }

    /// Records a request, and returns what became of it once that is durable.
    pub(crate) async fn record(&self, entry: Entry) -> Result<Recorded> {
        let (caller, answer) = oneshot::channel();
        let stopping = || Error::new(Kind::NotReady, "the service is stopping");
        self.queue.send(Waiting { entry, caller }).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}

impl Writer {
    async fn run(self, mut waiting: mpsc::Receiver<Waiting>, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = waiting.recv_many(&mut batch, MAX_REQUESTS) => received,
                // Told to stop, it still takes what is waiting; only then is the queue closed and empty.
                () = stop.cancelled(), if !waiting.is_closed() => {
                    waiting.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            while !batch.is_empty() {
                let rest = batch.split_off(fitting(&batch));
                self.commit(std::mem::replace(&mut batch, rest)).await;
            }
        }
    }

    async fn commit(&self, batch: Vec<Waiting>) {
        let (entries, callers): (Vec<Entry>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.entry, waiting.caller)).unzip();
        #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
        metrics::histogram!("auspex_recorder_batch_requests").record(entries.len() as f64);
        match self.write(&entries).await {
            Ok(outcomes) => {
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    // A caller that has gone away does not need its answer.
                    let _ = caller.send(Ok(outcome));
                }
            }
            Err(error) if entries.len() == 1 => {
                if let Some(caller) = callers.into_iter().next() {
                    let _ = caller.send(Err(error));
                }
            }
            // Whether the commit arrived is not known where the database is gone: to try again could record twice.
            Err(error) if error.kind() == Kind::NotReady => {
                tracing::warn!(cause = error.cause(), "requests could not be recorded: {error}");
                for caller in callers {
                    let _ = caller.send(Err(Error::new(Kind::NotReady, "the database does not answer")));
                }
            }
            // One bad request harms no other: each is tried alone.
            Err(_) => {
                for (entry, caller) in entries.into_iter().zip(callers) {
                    let outcome = self.write(std::slice::from_ref(&entry)).await;
                    let outcome = outcome.and_then(|outcomes| {
                        outcomes.into_iter().next().ok_or_else(|| internal("no outcome"))
                    });
                    let _ = caller.send(outcome);
                }
            }
        }
        self.bell.ring();
    }

    async fn write(&self, entries: &[Entry]) -> Result<Vec<Recorded>> {
        let shard = self.random.shard();
        let outcomes = self
            .store
            .write("record", async |conn: &mut Conn| {
                recording::record(conn, entries, self.enforcement, shard).await
            })
            .await?;
        for entry in entries {
            self.cache.forget(entry.tenant, &entry.object_id);
        }
        Ok(outcomes)
    }
}

/// How many of the waiting requests go into one commit: at least one.
fn fitting(batch: &[Waiting]) -> usize {
    let mut events = 0;
    let fits = batch.iter().take_while(|waiting| {
        events += waiting.entry.events.len();
        events <= MAX_EVENTS
    });
    fits.count().max(1).min(batch.len())
}
