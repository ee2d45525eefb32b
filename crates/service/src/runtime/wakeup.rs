//! A bell that wakes a worker of this process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::Timestamp;
use tokio::sync::Notify;

/// Wakes whoever waits for it; rung while nobody waits, it wakes the next who does. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Bell(Arc<Rung>);

struct Rung {
    notify: Notify,
    /// When whoever waits will look by themselves, in microseconds.
    looks_at: AtomicI64,
}

/// Nobody has said when they will look.
const UNKNOWN: i64 = i64::MAX;

impl Default for Bell {
    fn default() -> Self {
        Self(Arc::new(Rung { notify: Notify::new(), looks_at: AtomicI64::new(UNKNOWN) }))
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.0.notify.notify_one();
    }

    /// Rings for something that begins then, unless whoever waits will have looked before that.
    pub(crate) fn ring_for(&self, instant: Timestamp) {
        if instant.micros() < self.0.looks_at.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    pub(crate) async fn rung(&self) {
        self.0.notify.notified().await;
    }

    /// Whoever waits is about to look: what begins from now on may be missed by that.
    pub(crate) fn looks(&self) {
        self.0.looks_at.store(UNKNOWN, Ordering::SeqCst);
    }

    /// Whoever waits has looked, and looks again then.
    pub(crate) fn looks_again_at(&self, instant: Timestamp) {
        self.0.looks_at.store(instant.micros(), Ordering::SeqCst);
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
    fn it_rings_for_what_would_be_missed() {
        let bell = Bell::default();
        let has_rung = || bell.rung().now_or_never().is_some();
        bell.ring_for(at(9));
        assert!(has_rung(), "nobody knows when somebody looks");
        bell.looks_again_at(at(5));
        bell.ring_for(at(5));
        assert!(!has_rung(), "it is found in time");
        bell.ring_for(at(4));
        assert!(has_rung());
        bell.looks();
        bell.ring_for(at(9));
        assert!(has_rung(), "it may have come after the look");
    }
}
