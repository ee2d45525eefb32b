//! A group writer: one task that writes for many callers. Whenever it is free it commits everything that waits in one
//! transaction, and each caller continues once its write is durable.
//!
//! A piece that cannot be written because another transaction has locked a row of it leaves the groups: it is tried again
//! beside them, so that the pieces of others wait for that lock only until it is found.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use store::{LockWait, StoreError as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::runtime::linger::Linger;
use crate::runtime::{Error, Kind, Result, internal};

/// How long a group that failed is searched for the pieces that keep it from being written. What has not been tried by then
/// goes into the next group.
const SEARCH_LIMIT: Duration = Duration::from_secs(1);
/// How long a piece is tried again while others have locked what it changes: as long as a transaction may take.
const BLOCKED_LIMIT: Duration = Duration::from_secs(8);
/// The maximum number of blocked pieces: more are refused.
const MAX_BLOCKED: usize = 256;
/// How many of them are tried at once, each on a connection of its own.
const BLOCKED_AT_ONCE: usize = 4;

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
    /// How long a group waits for more pieces where that pays ([`Linger`]).
    const LINGER: Duration;

    /// Whether somebody waits for more than this piece's commit, so that its group does not wait for more pieces.
    fn is_urgent(piece: &Self::Piece) -> bool;

    /// How many of the waiting pieces, from the first on, fit into one group: at least one.
    fn fitting(pieces: &[Self::Piece]) -> usize;

    /// Writes pieces in one transaction, all or none, and returns one outcome for each.
    fn write(
        &self,
        pieces: &[Self::Piece],
        wait: LockWait,
    ) -> impl Future<Output = Result<Vec<Self::Outcome>>> + Send;
}

type Caller<G> = oneshot::Sender<Result<<G as Group>::Outcome>>;
type QueuedPiece<G> = (<G as Group>::Piece, Caller<G>);

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
        let (blocked, waiting_for_locks) = mpsc::channel(MAX_BLOCKED);
        tokio::join!(self.write_groups(group, stop, blocked), write_blocked(group, waiting_for_locks));
    }

    async fn write_groups(
        &mut self,
        group: &G,
        stop: &CancellationToken,
        blocked: mpsc::Sender<BlockedPiece<G>>,
    ) {
        let mut waiting: Vec<QueuedPiece<G>> = Vec::new();
        let mut linger = Linger::new();
        loop {
            if waiting.is_empty() {
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
            }
            while waiting.len() < G::MAX
                && let Ok(queued) = self.pieces.try_recv()
            {
                waiting.push(queued);
            }
            if linger.begins(waiting.len(), Instant::now()) {
                linger.gained(self.gather(&mut waiting).await);
            }
            let (mut pieces, mut callers): (Vec<G::Piece>, Vec<_>) = waiting.drain(..).unzip();
            let fitting = G::fitting(&pieces).clamp(1, pieces.len());
            let (later, later_callers) = (pieces.split_off(fitting), callers.split_off(fitting));
            let started = Instant::now();
            let attempts = write_group(group, &pieces).await;
            let left = attempts.iter().filter(|attempt| !matches!(attempt, Attempt::NotTried)).count();
            let is_written = attempts.iter().any(|attempt| matches!(attempt, Attempt::Ended(Ok(_))));
            self.progress.ended(left, is_written);
            for ((piece, caller), attempt) in pieces.into_iter().zip(callers).zip(attempts) {
                match attempt {
                    Attempt::NotTried => waiting.push((piece, caller)),
                    Attempt::Blocked => set_aside(&blocked, BlockedPiece { piece, caller, since: started }),
                    // The caller may have been dropped.
                    Attempt::Ended(outcome) => drop(caller.send(outcome)),
                }
            }
            waiting.extend(later.into_iter().zip(later_callers));
        }
    }

    /// Waits a moment for more pieces, and returns how many came.
    async fn gather(&mut self, waiting: &mut Vec<QueuedPiece<G>>) -> usize {
        let (before, deadline) = (waiting.len(), Instant::now() + G::LINGER);
        while waiting.len() < G::MAX
            && !waiting.iter().any(|(piece, _)| G::is_urgent(piece))
            && let Ok(Some(queued)) = timeout_at(deadline, self.pieces.recv()).await
        {
            waiting.push(queued);
        }
        waiting.len() - before
    }
}

/// A piece that could not be written because another transaction has locked what it changes.
struct BlockedPiece<G: Group> {
    piece: G::Piece,
    caller: Caller<G>,
    /// When its group was first tried.
    since: Instant,
}

fn set_aside<G: Group>(blocked: &mpsc::Sender<BlockedPiece<G>>, piece: BlockedPiece<G>) {
    if let Err(refused) = blocked.try_send(piece) {
        drop(refused.into_inner().caller.send(Err(locked())));
    }
}

/// Writes blocked pieces one by one, a few at once and in turns, until each is written or has waited for too long.
async fn write_blocked<G: Group>(group: &G, mut queue: mpsc::Receiver<BlockedPiece<G>>) {
    let turns = Semaphore::new(BLOCKED_AT_ONCE);
    stream::poll_fn(|context| queue.poll_recv(context))
        .for_each_concurrent(MAX_BLOCKED, async |BlockedPiece { piece, caller, since }| {
            let outcome = loop {
                let _turn = turns.acquire().await;
                if since.elapsed() > BLOCKED_LIMIT {
                    break Err(locked());
                }
                match write(group, std::slice::from_ref(&piece), LockWait::Usual).await {
                    Ok(mut outcomes) => break outcomes.pop().ok_or_else(|| internal("no outcome")),
                    Err(Failed::Blocked) => {}
                    Err(failed) => break Err(failed.into()),
                }
            };
            drop(caller.send(outcome));
        })
        .await;
}

/// What came of a piece of a group.
enum Attempt<T> {
    /// The group was blocked by others, and this piece has not been tried without them.
    NotTried,
    /// Another transaction has locked what it changes.
    Blocked,
    /// It was written or refused.
    Ended(Result<T>),
}

/// Writes pieces together, or in parts and then one by one if that fails, so that a piece that cannot be written does not
/// affect others.
async fn write_group<G: Group>(group: &G, pieces: &[G::Piece]) -> Vec<Attempt<G::Outcome>> {
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    metrics::histogram!(G::METER).record(pieces.len() as f64);
    let mut attempts: Vec<Attempt<G::Outcome>> = pieces.iter().map(|_| Attempt::NotTried).collect();
    let (all, started) = (pieces.len(), Instant::now());
    let mut is_any_known = false;
    // What is left to try, in reverse order.
    let mut ranges: Vec<Range<usize>> = Vec::new();
    ranges.push(0..all);
    while let Some(range) = ranges.pop() {
        if is_any_known && started.elapsed() > SEARCH_LIMIT {
            break;
        }
        let wait = if range.len() == all { LockWait::Usual } else { LockWait::Brief };
        let failed = match write(group, &pieces[range.clone()], wait).await {
            Ok(outcomes) => {
                is_any_known = true;
                for (attempt, outcome) in attempts[range].iter_mut().zip(outcomes) {
                    *attempt = Attempt::Ended(Ok(outcome));
                }
                continue;
            }
            Err(failed) => failed,
        };
        match failed {
            // The commit may or may not have succeeded: a retry could write twice.
            Failed::Unavailable => {
                let open = attempts.iter_mut().filter(|attempt| matches!(attempt, Attempt::NotTried));
                open.for_each(|attempt| *attempt = Attempt::Ended(Err(unavailable())));
                break;
            }
            Failed::Refused(error) if range.len() == 1 => attempts[range.start] = Attempt::Ended(Err(error)),
            Failed::Blocked if range.len() == 1 => attempts[range.start] = Attempt::Blocked,
            // Parts as large as their number: what is at fault is found in few transactions, and each fails for few others.
            Failed::Refused(_) | Failed::Blocked => {
                let size = if range.len() == all { all.isqrt() } else { 1 };
                let starts = range.clone().step_by(size).rev();
                ranges.extend(starts.map(|start| start..(start + size).min(range.end)));
                continue;
            }
        }
        is_any_known = true;
    }
    attempts
}

/// Why pieces were not written.
enum Failed {
    /// The database does not answer: nobody knows whether they were written.
    Unavailable,
    /// Another transaction has locked a row, or conflicts again and again. Nothing was written, and perhaps it is about one
    /// piece only.
    Blocked,
    /// One of them cannot be written.
    Refused(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Unavailable => unavailable(),
            Failed::Blocked => locked(),
            Failed::Refused(error) => error,
        }
    }
}

fn unavailable() -> Error {
    Error::new(Kind::NotReady, "the database does not answer")
}

fn locked() -> Error {
    Error::new(Kind::NotReady, "another transaction has locked the data; send the request again")
}

/// Writes pieces in one transaction.
async fn write<G: Group>(
    group: &G,
    pieces: &[G::Piece],
    wait: LockWait,
) -> std::result::Result<Vec<G::Outcome>, Failed> {
    let error = match write_catching_panics(group, pieces, wait).await {
        Ok(outcomes) => return Ok(outcomes),
        Err(error) => error,
    };
    Err(if error.store_error().is_some_and(store::Error::is_transient) {
        Failed::Blocked
    } else if error.kind() == Kind::NotReady {
        tracing::warn!(cause = error.cause(), "cannot write {}: {error}", G::PIECES);
        Failed::Unavailable
    } else {
        Failed::Refused(error)
    })
}

/// Writes pieces, turning a panic into an error so that it does not end the writer.
async fn write_catching_panics<G: Group>(
    group: &G,
    pieces: &[G::Piece],
    wait: LockWait,
) -> Result<Vec<G::Outcome>> {
    let written = AssertUnwindSafe(group.write(pieces, wait)).catch_unwind().await;
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
        const LINGER: Duration = Duration::from_millis(3);

        fn is_urgent(_: &u32) -> bool {
            false
        }

        fn fitting(pieces: &[u32]) -> usize {
            pieces.iter().take_while(|piece| **piece < STANDS_ALONE).count()
        }

        async fn write(&self, pieces: &[u32], _wait: LockWait) -> Result<Vec<u32>> {
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
        assert_eq!(groups, [vec![1, 2], vec![200], vec![3, 4, 5, 6, 7, 8, 9]]);
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
