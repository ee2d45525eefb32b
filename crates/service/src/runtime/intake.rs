//! Work that is born leased: it is written with the lease of a worker of this process in the transaction that creates it, and
//! handed to that worker after the commit, so that it need not be claimed. Claiming remains for what other processes have
//! left behind, for what waits, and for what there was no room for. If the process ends in between, the lease expires like
//! any other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Timestamp;
use store::Lease;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::runtime::Clock;

/// Where writers hand work to a worker that has a number of slots. Cheap to clone.
pub(crate) struct Intake<T>(Arc<Inner<T>>);

struct Inner<T> {
    slots: Arc<Semaphore>,
    size: usize,
    /// How many slots writers may fill; none while the worker has a backlog to claim, so that what waits longer goes first.
    limit: AtomicUsize,
    waiting: Mutex<Vec<Handed<T>>>,
    arrived: Notify,
}

/// Work that was handed over.
pub(crate) struct Handed<T> {
    pub(crate) work: T,
    pub(crate) lease: Lease,
    /// When it is due.
    pub(crate) due: Timestamp,
    /// Its slot.
    pub(crate) slot: OwnedSemaphorePermit,
}

impl<T> Clone for Intake<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Intake<T> {
    /// The intake of a worker with this many slots. It is closed until the worker opens it.
    pub(crate) fn new(size: usize) -> Self {
        Self(Arc::new(Inner {
            slots: Arc::new(Semaphore::new(size)),
            size,
            limit: AtomicUsize::new(0),
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }))
    }

    /// The slots in use, by work that was handed over or claimed.
    pub(crate) fn in_use(&self) -> usize {
        self.0.size - self.0.slots.available_permits()
    }

    /// A slot for work that was claimed.
    pub(crate) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.slots).try_acquire_owned().ok()
    }

    /// Lets writers fill up to this many slots.
    pub(crate) fn open(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::SeqCst);
    }

    /// Takes nothing more until it is opened again.
    pub(crate) fn close(&self) {
        self.open(0);
    }

    /// Whether the worker takes nothing: it has a backlog, or does not run.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.limit.load(Ordering::SeqCst) == 0
    }

    /// Reserves slots for work that is about to be written: up to `most`, fewer or none if there is no room.
    pub(crate) fn reserve(&self, most: usize) -> Vec<OwnedSemaphorePermit> {
        let room = self.0.limit.load(Ordering::SeqCst).saturating_sub(self.in_use());
        (0..most.min(room)).map_while(|_| self.slot()).collect()
    }

    /// Hands over work that was written, after the commit.
    pub(crate) fn hand_over(&self, work: impl IntoIterator<Item = Handed<T>>) {
        self.waiting().extend(work);
        self.0.arrived.notify_one();
    }

    /// Returns once work that was handed over is due. Does not take it.
    pub(crate) async fn ready(&self, clock: &Clock) {
        loop {
            let arrived = self.0.arrived.notified();
            let due = self.waiting().iter().map(|handed| handed.due).min();
            let Some(due) = due else {
                arrived.await;
                continue;
            };
            tokio::select! {
                () = clock.sleep_until(due) => return,
                () = arrived => {}
            }
        }
    }

    /// Takes the work that is due.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<Handed<T>> {
        self.waiting().extract_if(.., |handed| handed.due <= now).collect()
    }

    /// Takes all work, and nothing more.
    pub(crate) fn shut(&self) -> Vec<Handed<T>> {
        self.close();
        std::mem::take(&mut *self.waiting())
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Handed<T>>> {
        // A panic elsewhere cannot leave an entry half-written.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    fn handed(number: u32, due: Timestamp, slot: OwnedSemaphorePermit) -> Handed<u32> {
        let lease = Lease { token: Uuid::nil(), until: at(60) };
        Handed { work: number, lease, due, slot }
    }

    #[test]
    fn it_reserves_only_what_the_worker_has_room_for() {
        let intake = Intake::<u32>::new(4);
        assert!(intake.reserve(1).is_empty(), "it is closed at first");
        intake.open(3);
        let claimed = intake.slot();
        let reserved = intake.reserve(5);
        assert_eq!((reserved.len(), intake.in_use()), (2, 3), "a claim and two that are reserved");
        assert!(intake.reserve(1).is_empty());
        drop((reserved, claimed));
        assert_eq!(intake.in_use(), 0, "a transaction that fails gives them back");
        intake.close();
        assert!(intake.reserve(1).is_empty());
    }

    #[tokio::test]
    async fn work_is_taken_once_it_is_due() {
        let intake = Intake::<u32>::new(4);
        intake.open(4);
        let (clock, hands) = Clock::manual(at(1));
        assert!(intake.ready(&clock).now_or_never().is_none());
        let mut slots = intake.reserve(2).into_iter();
        intake.hand_over([handed(7, at(3), slots.next().unwrap()), handed(8, at(2), slots.next().unwrap())]);
        assert!(intake.ready(&clock).now_or_never().is_none(), "none is due");
        hands.advance(std::time::Duration::from_secs(1));
        intake.ready(&clock).await;
        let taken: Vec<u32> = intake.take_due(clock.now()).iter().map(|handed| handed.work).collect();
        assert_eq!(taken, [8]);
        let left: Vec<u32> = intake.shut().iter().map(|handed| handed.work).collect();
        assert_eq!(left, [7]);
        assert_eq!(intake.in_use(), 0);
    }
}
