//! What a node believes for a moment of what it has read (`docs/adr/0002-belief-for-a-moment.md`).

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use moka::sync::Cache;

/// How long something is believed. What changes anywhere is seen here within a second, with no message between nodes that
/// could be lost; and what is busy costs one read a second, not one a request.
const BELIEF: Duration = Duration::from_millis(800);
/// Things remembered at a time.
const REMEMBERED: u64 = 10_000;

/// What is believed of things of one kind.
pub(crate) struct Beliefs<K, V> {
    known: Cache<K, Belief<V>>,
    /// Counts the times that something changed on this node.
    era: AtomicU64,
}

/// When a question was put to the database. The answer is as old as the question, however late it comes: what it is about
/// may change in between.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    era: u64,
    at: Instant,
}

struct Belief<V> {
    asked: Asked,
    value: Arc<V>,
}

impl<V> Clone for Belief<V> {
    fn clone(&self) -> Self {
        Self { asked: self.asked, value: Arc::clone(&self.value) }
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static> Beliefs<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            known: Cache::builder().max_capacity(REMEMBERED).time_to_live(BELIEF).build(),
            era: AtomicU64::new(0),
        }
    }

    /// What is believed of something, if it is still.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: std::borrow::Borrow<Q>,
    {
        let belief = self.known.get(key)?;
        let holds = belief.asked.era == self.era.load(Ordering::SeqCst) && belief.asked.at.elapsed() < BELIEF;
        holds.then_some(belief.value)
    }

    /// To be called before the database is asked.
    pub(crate) fn ask(&self) -> Asked {
        Asked { era: self.era.load(Ordering::SeqCst), at: Instant::now() }
    }

    /// Believes what was found.
    pub(crate) fn learn(&self, key: K, asked: Asked, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.known.insert(key, Belief { asked, value: Arc::clone(&value) });
        value
    }

    /// Forgets everything, also what is being read just now: something has just changed on this node.
    pub(crate) fn forget(&self) {
        self.era.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_before_a_change_is_not_believed_after_it() {
        let beliefs: Beliefs<u8, &str> = Beliefs::new();
        let early = beliefs.ask();
        assert_eq!(*beliefs.learn(1, early, "old"), "old");
        assert_eq!(beliefs.get(&1).as_deref(), Some(&"old"));
        beliefs.forget();
        assert_eq!(beliefs.get(&1), None);
        // An answer that was under way during the change.
        beliefs.learn(1, early, "old");
        assert_eq!(beliefs.get(&1), None);
        beliefs.learn(1, beliefs.ask(), "new");
        assert_eq!(beliefs.get(&1).as_deref(), Some(&"new"));
    }
}
