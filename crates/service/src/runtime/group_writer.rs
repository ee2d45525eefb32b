//! A group writer: one task that writes for many callers. Whenever it is free it commits everything that waits in one
//! transaction, and each caller continues once its write is durable.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use store::StoreError as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::{Error, Kind, Result, internal};

/// How long the pieces of a group that failed are written one by one.
const ONE_BY_ONE_LIMIT: Duration = Duration::from_secs(10);

/// Defines what is written in groups, and how.
pub(crate) trait Group: Send + Sync + 'static {
    /// What one caller submits.
    type Piece: Send + Sync + 'static;
    /// The result of writing one piece.
    type Outcome: Send + 'static;
    /// The plural of a piece, for the log.
    const PIECES: &'static str;
    /// The histogram of group sizes.
    const METER: &'static str;
    /// The maximum number of pieces in one group.
    const MAX: usize;

    /// How many of the waiting pieces, from the first on, fit into one group: at least one.
    fn fitting(pieces: &[Self::Piece]) -> usize;

    /// Writes pieces in one transaction, all or none, and returns one outcome for each.
    fn write(&self, pieces: &[Self::Piece]) -> impl Future<Output = Result<Vec<Self::Outcome>>> + Send;
}

type QueuedPiece<G> = (<G as Group>::Piece, oneshot::Sender<Result<<G as Group>::Outcome>>);

/// Submits pieces to a writer.
pub(crate) struct GroupWriter<G: Group> {
    queue: mpsc::Sender<QueuedPiece<G>>,
    progress: Progress,
}

/// The queue of waiting pieces, which [`Queue::run`] writes.
pub(crate) struct Queue<G: Group> {
    pieces: mpsc::Receiver<QueuedPiece<G>>,
    progress: Progress,
}

/// How many pieces wait, and since when none was written.
#[derive(Clone, Default)]
struct Progress(Arc<Mutex<(usize, Option<Instant>)>>);

impl Progress {
    fn lock(&self) -> MutexGuard<'_, (usize, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queued(&self) {
        let (waiting, since) = &mut *self.lock();
        *waiting += 1;
        since.get_or_insert_with(Instant::now);
    }

    fn ended(&self, pieces: usize, is_written: bool) {
        let (waiting, since) = &mut *self.lock();
        *waiting = waiting.saturating_sub(pieces);
        if *waiting == 0 {
            *since = None;
        } else if is_written {
            *since = Some(Instant::now());
        }
    }

    fn left(&self, pieces: usize) {
        *self.lock() = (pieces, (pieces > 0).then(Instant::now));
    }

    fn stalled_for(&self) -> Duration {
        self.lock().1.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl<G: Group> GroupWriter<G> {
    /// A writer with a queue of `length` pieces; when the queue is full, callers wait for room.
    pub(crate) fn new(length: usize) -> (Self, Queue<G>) {
        let (queue, pieces) = mpsc::channel(length);
        let progress = Progress::default();
        (Self { queue, progress: progress.clone() }, Queue { pieces, progress })
    }

    /// For how long pieces have been waiting without one being written.
    pub(crate) fn stalled_for(&self) -> Duration {
        self.progress.stalled_for()
    }

    /// Writes a piece, and returns its outcome once it is durable.
    pub(crate) async fn write(&self, piece: G::Piece) -> Result<G::Outcome> {
        self.submit(piece).await?.await
    }

    /// Queues a piece as soon as there is room, and returns a future of its outcome.
    pub(crate) async fn submit(
        &self,
        piece: G::Piece,
    ) -> Result<impl Future<Output = Result<G::Outcome>> + use<G>> {
        let stopping = || Error::new(Kind::NotReady, "the service is stopping");
        // The writer panicked outside of a transaction, and goes on with what still waits.
        let dropped = || Error::new(Kind::NotReady, "the request was interrupted; send it again");
        let (caller, answer) = oneshot::channel();
        let slot = self.queue.reserve().await.map_err(|_| stopping())?;
        self.progress.queued();
        slot.send((piece, caller));
        Ok(async move { answer.await.map_err(|_| dropped())? })
    }
}

impl<G: Group> Queue<G> {
    /// Forgets pieces that were lost by a panic: nobody waits for them any more.
    pub(crate) fn forget_lost(&mut self) {
        self.progress.left(self.pieces.len());
    }

    /// Writes until `stop` is cancelled, then writes what is still queued.
    pub(crate) async fn run(&mut self, group: &G, stop: &CancellationToken) {
        let mut waiting = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = self.pieces.recv_many(&mut waiting, G::MAX) => received,
                // After closing, `recv_many` still returns queued pieces, and 0 only when none are left.
                () = stop.cancelled(), if !self.pieces.is_closed() => {
                    self.pieces.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            let (mut pieces, mut callers): (Vec<G::Piece>, Vec<_>) = waiting.drain(..).unzip();
            while !pieces.is_empty() {
                let fitting = G::fitting(&pieces).clamp(1, pieces.len());
                let (later, later_callers) = (pieces.split_off(fitting), callers.split_off(fitting));
                let outcomes = write_all(group, &pieces).await;
                self.progress.ended(pieces.len(), outcomes.iter().any(Result::is_ok));
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    // The caller may have been dropped.
                    let _ = caller.send(outcome);
                }
                (pieces, callers) = (later, later_callers);
            }
        }
    }
}

/// Writes pieces together, or one by one if that fails, so that a piece that cannot be written does not affect others.
async fn write_all<G: Group>(group: &G, pieces: &[G::Piece]) -> Vec<Result<G::Outcome>> {
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    metrics::histogram!(G::METER).record(pieces.len() as f64);
    let error = match write_catching_panics(group, pieces).await {
        Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    // If the database is down, the commit may or may not have succeeded: a retry could write twice. After a conflict nothing
    // was committed, and perhaps one row that another transaction has locked concerns one piece only.
    let is_conflict = error.store_error().is_some_and(store::Error::is_transient);
    if error.kind() == Kind::NotReady && !is_conflict {
        tracing::warn!(cause = error.cause(), "cannot write {}: {error}", G::PIECES);
        return pieces.iter().map(|_| Err(unavailable())).collect();
    }
    if pieces.len() == 1 {
        return vec![Err(error)];
    }
    let started = Instant::now();
    let mut outcomes = Vec::with_capacity(pieces.len());
    for piece in pieces {
        // Each may have to wait for a lock; whoever comes next should not wait for all of them.
        if started.elapsed() > ONE_BY_ONE_LIMIT {
            outcomes.push(Err(unavailable()));
            continue;
        }
        let outcome = write_catching_panics(group, std::slice::from_ref(piece)).await;
        outcomes.push(outcome.and_then(|mut one| one.pop().ok_or_else(|| internal("no outcome"))));
    }
    outcomes
}

fn unavailable() -> Error {
    Error::new(Kind::NotReady, "the database does not answer")
}

/// Writes pieces, turning a panic into an error so that it does not end the writer.
async fn write_catching_panics<G: Group>(group: &G, pieces: &[G::Piece]) -> Result<Vec<G::Outcome>> {
    let written = AssertUnwindSafe(group.write(pieces)).catch_unwind().await;
    let outcomes = written.unwrap_or_else(|_| Err(internal(format!("writing {} panicked", G::PIECES))))?;
    if outcomes.len() == pieces.len() {
        Ok(outcomes)
    } else {
        Err(internal(format!("{} outcomes of {} {}", outcomes.len(), pieces.len(), G::PIECES)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Pieces are numbers; some of them cannot be written.
    struct Numbers {
        groups: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    const FAILS: u32 = 13;
    const PANICS: u32 = 14;
    const DATABASE_DOWN: u32 = 15;
    const STANDS_ALONE: u32 = 100;

    impl Group for Numbers {
        type Piece = u32;
        type Outcome = u32;
        const PIECES: &'static str = "numbers";
        const METER: &'static str = "numbers";
        const MAX: usize = 8;

        fn fitting(pieces: &[u32]) -> usize {
            pieces.iter().take_while(|piece| **piece < STANDS_ALONE).count()
        }

        async fn write(&self, pieces: &[u32]) -> Result<Vec<u32>> {
            tokio::task::yield_now().await;
            self.groups.lock().unwrap().push(pieces.to_vec());
            assert!(!pieces.contains(&PANICS), "a piece that panics");
            if pieces.contains(&FAILS) {
                return Err(internal("a piece that fails"));
            }
            if pieces.contains(&DATABASE_DOWN) {
                return Err(Error::new(Kind::NotReady, "gone"));
            }
            Ok(pieces.iter().map(|piece| piece * 2).collect())
        }
    }

    /// Queues all pieces, then writes them; returns the outcome of each, and the groups that were tried.
    async fn written(pieces: &[u32]) -> (Vec<std::result::Result<u32, Kind>>, Vec<Vec<u32>>) {
        let groups = Arc::new(Mutex::new(Vec::new()));
        let (writer, mut queue) = GroupWriter::new(64);
        let mut answers = Vec::new();
        for piece in pieces {
            answers.push(writer.submit(*piece).await.unwrap());
        }
        let stop = CancellationToken::new();
        let numbers = Numbers { groups: Arc::clone(&groups) };
        let running = queue.run(&numbers, &stop);
        let calling = async {
            let mut outcomes = Vec::new();
            for answer in answers {
                outcomes.push(answer.await.map_err(|error| error.kind()));
            }
            // Whatever happened, the writer still works.
            assert_eq!(writer.write(1).await.unwrap(), 2);
            stop.cancel();
            outcomes
        };
        let ((), outcomes) = tokio::join!(running, calling);
        assert_eq!(writer.write(1).await.unwrap_err().kind(), Kind::NotReady, "it has stopped");
        drop(numbers);
        let mut groups = Arc::into_inner(groups).unwrap().into_inner().unwrap();
        assert_eq!(groups.pop(), Some(vec![1]));
        (outcomes, groups)
    }

    #[tokio::test]
    async fn waiting_pieces_are_written_together() {
        let (outcomes, groups) = written(&[1, 2, 3]).await;
        assert_eq!((outcomes, groups), (vec![Ok(2), Ok(4), Ok(6)], vec![vec![1, 2, 3]]));
        let (outcomes, groups) = written(&[1, 2, 200, 3, 4, 5, 6, 7, 8, 9]).await;
        assert_eq!(outcomes.len(), 10);
        assert!(outcomes.iter().all(std::result::Result::is_ok));
        assert_eq!(groups, [vec![1, 2], vec![200], vec![3, 4, 5, 6, 7], vec![8, 9]]);
    }

    #[tokio::test]
    async fn a_piece_that_cannot_be_written_does_not_affect_others() {
        for bad in [FAILS, PANICS] {
            let (outcomes, groups) = written(&[1, bad, 3]).await;
            assert_eq!(outcomes, [Ok(2), Err(Kind::Internal), Ok(6)]);
            assert_eq!(groups, [vec![1, bad, 3], vec![1], vec![bad], vec![3]]);
            let (outcomes, groups) = written(&[bad]).await;
            assert_eq!((outcomes, groups), (vec![Err(Kind::Internal)], vec![vec![bad]]), "tried once");
        }
    }

    #[tokio::test]
    async fn nothing_is_retried_while_the_database_is_down() {
        let (outcomes, groups) = written(&[1, DATABASE_DOWN, 3]).await;
        assert_eq!(outcomes, [Err(Kind::NotReady); 3]);
        assert_eq!(groups, [vec![1, DATABASE_DOWN, 3]]);
    }

    #[tokio::test]
    async fn queued_pieces_are_written_after_stop() {
        let (writer, mut queue) = GroupWriter::new(64);
        let answer = writer.submit(7).await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        queue.run(&Numbers { groups: Arc::default() }, &stop).await;
        assert_eq!(answer.await.unwrap(), 14);
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_that_wait_without_one_being_written_are_a_stall() {
        let progress = Progress::default();
        let second = Duration::from_secs(1);
        assert_eq!(progress.stalled_for(), Duration::ZERO);
        progress.queued();
        tokio::time::advance(second).await;
        progress.queued();
        progress.queued();
        assert_eq!(progress.stalled_for(), second, "since the first came");
        progress.ended(1, false);
        assert_eq!(progress.stalled_for(), second, "a failure is no progress");
        progress.ended(1, true);
        assert_eq!(progress.stalled_for(), Duration::ZERO);
        tokio::time::advance(second).await;
        assert_eq!(progress.stalled_for(), second);
        progress.ended(1, false);
        tokio::time::advance(second).await;
        assert_eq!(progress.stalled_for(), Duration::ZERO, "nothing waits");
    }
}
