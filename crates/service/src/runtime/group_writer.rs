//! One writer for many callers: it writes whenever it is free, taking all that wait, and each caller is answered when
//! what it handed over is durable.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::runtime::{Error, Kind, Result, internal};

/// What is written in groups, and how.
pub(crate) trait Group: Send + Sync + 'static {
    /// What a caller hands over.
    type Piece: Send + Sync + 'static;
    /// What became of it.
    type Outcome: Send + 'static;
    /// What pieces are called in the log.
    const PIECES: &'static str;
    /// The metric that counts the pieces of each group.
    const METER: &'static str;
    /// Pieces in one group at the most.
    const MAX: usize;

    /// How many of the pieces that wait, from the first on, go into one group: at least one.
    fn fitting(pieces: &[Self::Piece]) -> usize;

    /// Writes pieces in one transaction: all of them or none. Says what became of each.
    fn write(&self, pieces: &[Self::Piece]) -> impl Future<Output = Result<Vec<Self::Outcome>>> + Send;
}

type Waiting<G> = (<G as Group>::Piece, oneshot::Sender<Result<<G as Group>::Outcome>>);

/// Hands pieces to a writer.
pub(crate) struct GroupWriter<G: Group>(mpsc::Sender<Waiting<G>>);

/// The pieces that wait, until their writer starts.
pub(crate) struct Queue<G: Group>(mpsc::Receiver<Waiting<G>>);

impl<G: Group> GroupWriter<G> {
    /// A writer that `length` pieces may wait for; past that, callers wait to get in.
    pub(crate) fn new(length: usize) -> (Self, Queue<G>) {
        let (sender, receiver) = mpsc::channel(length);
        (Self(sender), Queue(receiver))
    }

    /// Writes a piece, and returns what became of it once that is durable.
    pub(crate) async fn write(&self, piece: G::Piece) -> Result<G::Outcome> {
        self.hand_over(piece).await?.await
    }

    /// Hands a piece over as soon as there is room, and returns what to wait for.
    pub(crate) async fn hand_over(
        &self,
        piece: G::Piece,
    ) -> Result<impl Future<Output = Result<G::Outcome>> + use<G>> {
        let stopping = || Error::new(Kind::NotReady, "the service is stopping");
        let (caller, answer) = oneshot::channel();
        self.0.send((piece, caller)).await.map_err(|_| stopping())?;
        Ok(async move { answer.await.map_err(|_| stopping())? })
    }
}

impl<G: Group> Queue<G> {
    /// Writes until it is told to stop, and then what still waits.
    pub(crate) async fn run(mut self, group: G, stop: CancellationToken) {
        let mut waiting = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = self.0.recv_many(&mut waiting, G::MAX) => received,
                // Told to stop, it still takes what waits; only then is the queue closed and empty.
                () = stop.cancelled(), if !self.0.is_closed() => {
                    self.0.close();
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
                let outcomes = write_all(&group, &pieces).await;
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    // A caller that has gone away does not need its answer.
                    let _ = caller.send(outcome);
                }
                (pieces, callers) = (later, later_callers);
            }
        }
    }
}

/// Writes pieces together, or one by one where that fails, so that one that cannot be written harms no other.
async fn write_all<G: Group>(group: &G, pieces: &[G::Piece]) -> Vec<Result<G::Outcome>> {
    #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
    metrics::histogram!(G::METER).record(pieces.len() as f64);
    let error = match write_unharmed(group, pieces).await {
        Ok(outcomes) => return outcomes.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    // Whether the commit arrived is not known where the database is gone: to try again could write twice.
    if error.kind() == Kind::NotReady {
        tracing::warn!(cause = error.cause(), "{} could not be written: {error}", G::PIECES);
        let gone = || Err(Error::new(Kind::NotReady, "the database does not answer"));
        return pieces.iter().map(|_| gone()).collect();
    }
    if pieces.len() == 1 {
        return vec![Err(error)];
    }
    let mut outcomes = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let outcome = write_unharmed(group, std::slice::from_ref(piece)).await;
        outcomes.push(outcome.and_then(|mut one| one.pop().ok_or_else(|| internal("no outcome"))));
    }
    outcomes
}

/// A panic over one piece must not end the writer for all.
async fn write_unharmed<G: Group>(group: &G, pieces: &[G::Piece]) -> Result<Vec<G::Outcome>> {
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

    /// Pieces are numbers; some of them are poisonous.
    struct Numbers {
        groups: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    const FAILS: u32 = 13;
    const PANICS: u32 = 14;
    const FINDS_NO_DATABASE: u32 = 15;
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
            if pieces.contains(&FINDS_NO_DATABASE) {
                return Err(Error::new(Kind::NotReady, "gone"));
            }
            Ok(pieces.iter().map(|piece| piece * 2).collect())
        }
    }

    /// Lets pieces wait together, then writes them; what became of each, and the groups that were tried.
    async fn written(pieces: &[u32]) -> (Vec<std::result::Result<u32, Kind>>, Vec<Vec<u32>>) {
        let groups = Arc::new(Mutex::new(Vec::new()));
        let (writer, queue) = GroupWriter::new(64);
        let mut answers = Vec::new();
        for piece in pieces {
            answers.push(writer.hand_over(*piece).await.unwrap());
        }
        let stop = CancellationToken::new();
        let running = queue.run(Numbers { groups: Arc::clone(&groups) }, stop.clone());
        let calling = async {
            let mut outcomes = Vec::new();
            for answer in answers {
                outcomes.push(answer.await.map_err(|error| error.kind()));
            }
            // Whatever they were, the writer is still there for the next.
            assert_eq!(writer.write(1).await.unwrap(), 2);
            stop.cancel();
            outcomes
        };
        let ((), outcomes) = tokio::join!(running, calling);
        assert_eq!(writer.write(1).await.unwrap_err().kind(), Kind::NotReady, "it has stopped");
        let mut groups = Arc::into_inner(groups).unwrap().into_inner().unwrap();
        assert_eq!(groups.pop(), Some(vec![1]));
        (outcomes, groups)
    }

    #[tokio::test]
    async fn what_waits_is_written_together() {
        let (outcomes, groups) = written(&[1, 2, 3]).await;
        assert_eq!((outcomes, groups), (vec![Ok(2), Ok(4), Ok(6)], vec![vec![1, 2, 3]]));
        let (outcomes, groups) = written(&[1, 2, 200, 3, 4, 5, 6, 7, 8, 9]).await;
        assert_eq!(outcomes.len(), 10);
        assert!(outcomes.iter().all(std::result::Result::is_ok));
        assert_eq!(groups, [vec![1, 2], vec![200], vec![3, 4, 5, 6, 7], vec![8, 9]]);
    }

    #[tokio::test]
    async fn one_that_cannot_be_written_harms_no_other() {
        for poison in [FAILS, PANICS] {
            let (outcomes, groups) = written(&[1, poison, 3]).await;
            assert_eq!(outcomes, [Ok(2), Err(Kind::Internal), Ok(6)]);
            assert_eq!(groups, [vec![1, poison, 3], vec![1], vec![poison], vec![3]]);
            let (outcomes, groups) = written(&[poison]).await;
            assert_eq!((outcomes, groups), (vec![Err(Kind::Internal)], vec![vec![poison]]), "tried once");
        }
    }

    #[tokio::test]
    async fn nothing_is_tried_again_where_the_database_is_gone() {
        let (outcomes, groups) = written(&[1, FINDS_NO_DATABASE, 3]).await;
        assert_eq!(outcomes, [Err(Kind::NotReady); 3]);
        assert_eq!(groups, [vec![1, FINDS_NO_DATABASE, 3]]);
    }

    #[tokio::test]
    async fn what_waits_when_it_is_told_to_stop_is_still_written() {
        let (writer, queue) = GroupWriter::new(64);
        let answer = writer.hand_over(7).await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        queue.run(Numbers { groups: Arc::default() }, stop).await;
        assert_eq!(answer.await.unwrap(), 14);
    }
}
