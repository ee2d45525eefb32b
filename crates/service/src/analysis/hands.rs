//! How many analyses this process has in hand: as many as it has places, or several for each place where the analyzer is so
//! quick that all of them begin at once all the same. A claim is a transaction: a large one costs little a piece.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Analyses in hand for each place of a quick analyzer.
const AHEAD: usize = 8;
/// Analyses that take no longer than this, at the mean, are quick: what is ahead begins within some milliseconds.
const QUICK: Duration = Duration::from_millis(1);
/// Of so many analyses the mean is taken, the latest count most.
const REMEMBERED: u64 = 8;
/// How long a claim for a quick analyzer waits at most until half of what may be in hand is free.
const GATHER: Duration = Duration::from_millis(5);

/// What this process has in hand.
pub(crate) struct Hands {
    workers: usize,
    /// Analyses at a time.
    places: Semaphore,
    /// Analyses in hand: those that wait for a place too.
    room: Arc<Semaphore>,
    /// How long an analysis takes, in microseconds.
    mean: AtomicU64,
}

/// One analysis in hand.
pub(crate) struct Hand {
    hands: Arc<Hands>,
    _room: OwnedSemaphorePermit,
}

impl Hands {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            workers,
            places: Semaphore::new(workers),
            room: Arc::new(Semaphore::new(workers * AHEAD)),
            mean: AtomicU64::new(u64::MAX),
        })
    }

    /// How many more can be taken in hand, where so many are allowed at a time.
    pub(crate) fn free(&self, allowed: usize) -> usize {
        let most = if allowed >= self.workers && self.is_quick() { self.in_all() } else { allowed };
        let held = self.in_all() - self.room.available_permits();
        most.min(self.in_all()).saturating_sub(held)
    }

    /// Takes one in hand; none when they are full.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Hand> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        Some(Hand { hands: Arc::clone(self), _room: room })
    }

    /// Waits a moment, where analyses are quick, until half of what may be in hand has gone: the next claim is a large one.
    pub(crate) async fn gather(&self) {
        if self.is_quick() {
            let half = u32::try_from(self.in_all() / 2).unwrap_or(u32::MAX);
            let _ = tokio::time::timeout(GATHER, self.room.acquire_many(half)).await;
        }
    }

    /// How many may be in hand.
    fn in_all(&self) -> usize {
        self.workers * AHEAD
    }

    fn is_quick(&self) -> bool {
        u128::from(self.mean.load(Ordering::Relaxed)) <= QUICK.as_micros()
    }
}

impl Hand {
    /// A place, and whether it had to be waited for, in the order of asking.
    pub(crate) async fn place(&self) -> (Option<SemaphorePermit<'_>>, bool) {
        match self.hands.places.try_acquire() {
            Ok(place) => (Some(place), false),
            Err(_) => (self.hands.places.acquire().await.ok(), true),
        }
    }

    /// Learns how long an analysis had its place until it was answered.
    pub(crate) fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mean = &self.hands.mean;
        let known = mean.load(Ordering::Relaxed);
        // Two that learn at once may lose one of them: the mean is none the worse.
        let next = if known == u64::MAX { micros } else { (known * (REMEMBERED - 1) + micros) / REMEMBERED };
        mean.store(next, Ordering::Relaxed);
    }

    /// Learns that an analysis failed: nothing is taken ahead until some have succeeded.
    pub(crate) fn failed(&self) {
        self.took(QUICK * 100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_quick_analyzer_gets_several_for_each_place() {
        let hands = Hands::new(2);
        assert_eq!((hands.free(2), hands.free(1), hands.free(0)), (2, 1, 0), "nothing is known yet");
        let first = hands.take().unwrap();
        first.took(Duration::from_micros(50));
        assert_eq!(
            (hands.free(2), hands.free(1)),
            (2 * AHEAD - 1, 0),
            "one that was throttled gets nothing ahead"
        );
        let held: Vec<Hand> = std::iter::from_fn(|| hands.take()).collect();
        assert_eq!((held.len(), hands.free(2)), (2 * AHEAD - 1, 0));
        drop(held);
        first.failed();
        assert_eq!(hands.free(2), 1, "after a failure it is one for each place again");
        for _ in 0..100 {
            first.took(Duration::from_micros(50));
        }
        assert_eq!(hands.free(2), 2 * AHEAD - 1);
    }

    #[tokio::test]
    async fn only_as_many_as_there_are_places_run_at_a_time() {
        let hands = Hands::new(1);
        let (first, second) = (hands.take().unwrap(), hands.take().unwrap());
        let (place, waited) = first.place().await;
        assert!(place.is_some() && !waited);
        let waits = tokio::time::timeout(Duration::from_millis(20), second.place());
        assert!(waits.await.is_err(), "the place is taken");
        let (waited, ()) = tokio::join!(second.place(), async { drop(place) });
        assert!(matches!(waited, (Some(_), true)));
    }
}
