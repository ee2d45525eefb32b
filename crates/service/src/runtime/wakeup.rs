//! Wakes a worker of this process at once, instead of at its next poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::Timestamp;
use tokio::sync::Notify;

/// Wakes the worker that waits on it. A wake-up that nobody waits for is kept for the next wait. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wakeup(Arc<Inner>);

struct Inner {
    now: Notify,
    soon: Notify,
    /// When the worker will look at its queue without being woken, in microseconds.
    next_look: AtomicI64,
    /// Looks that have ended.
    #[cfg(feature = "test-util")]
    looks: tokio::sync::watch::Sender<u64>,
}

/// The worker is busy or has not said when it looks next.
const UNKNOWN: i64 = i64::MAX;

impl Default for Wakeup {
    fn default() -> Self {
        Self(Arc::new(Inner {
            now: Notify::new(),
            soon: Notify::new(),
            next_look: AtomicI64::new(UNKNOWN),
            #[cfg(feature = "test-util")]
            looks: tokio::sync::watch::Sender::new(0),
        }))
    }
}

impl Wakeup {
    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        self.0.now.notify_one();
    }

    /// Wakes the worker for something that is due at `instant`, unless it looks before that anyway.
    pub(crate) fn wake_by(&self, instant: Timestamp) {
        if instant.micros() < self.0.next_look.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Tells the worker of something that is best handled together with what follows within milliseconds.
    pub(crate) fn wake_soon(&self) {
        self.0.soon.notify_one();
    }

    /// Returns once the worker is woken by [`Self::wake`].
    pub(crate) async fn woken(&self) {
        self.0.now.notified().await;
    }

    /// Returns once the worker is told something by [`Self::wake_soon`].
    pub(crate) async fn woken_soon(&self) {
        self.0.soon.notified().await;
    }

    /// The worker is about to look at its queue: what is scheduled from now on may be missed by that look.
    pub(crate) fn looking(&self) {
        self.0.next_look.store(UNKNOWN, Ordering::SeqCst);
    }

    /// The worker has looked at its queue, and has started what it claimed.
    pub(crate) fn looked(&self) {
        #[cfg(feature = "test-util")]
        self.0.looks.send_modify(|looks| *looks += 1);
    }

    /// Returns once the worker has ended a look that began after this call.
    #[cfg(feature = "test-util")]
    pub(crate) async fn has_looked(&self) {
        let mut looks = self.0.looks.subscribe();
        // The first that ends may have begun before.
        let enough = *looks.borrow_and_update() + 2;
        while *looks.borrow_and_update() < enough {
            self.wake();
            if looks.changed().await.is_err() {
                return;
            }
        }
    }

    /// The worker has looked, and looks again at `instant`.
    pub(crate) fn looks_again_at(&self, instant: Timestamp) {
        self.0.next_look.store(instant.micros(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    #[test]
    fn it_wakes_for_what_the_next_look_would_miss() {
        let wakeup = Wakeup::default();
        let is_woken = || wakeup.woken().now_or_never().is_some();
        wakeup.wake_by(at(9));
        assert!(is_woken(), "the next look is not known");
        wakeup.looks_again_at(at(5));
        wakeup.wake_by(at(5));
        assert!(!is_woken(), "the next look finds it in time");
        wakeup.wake_by(at(4));
        assert!(is_woken());
        wakeup.looking();
        wakeup.wake_by(at(9));
        assert!(is_woken(), "it may have come after the look");
    }
}
