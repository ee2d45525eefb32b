//! A cache of database reads for less than a second (`docs/adr/0002-credential-cache.md`).

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use moka::sync::Cache;

/// How long an entry is valid. A change on any node is visible here within a second, without a message between nodes that could
/// be lost; and a busy key costs about one read a second, not one per request.
const LIFETIME: Duration = Duration::from_millis(800);
/// The maximum number of entries.
const CAPACITY: u64 = 10_000;

/// Caches values read from the database for 800 ms.
pub(crate) struct ShortCache<K, V> {
    entries: Cache<K, Entry<V>>,
    /// Counts the changes made on this node: entries read before the latest change are invalid.
    generation: AtomicU64,
}

/// The moment at which a read of the database begins. An entry's age counts from the start of its read, however late the
/// result arrives: the row may change in between.
#[derive(Clone, Copy)]
pub(crate) struct ReadStart {
    generation: u64,
    at: Instant,
}

struct Entry<V> {
    read: ReadStart,
    value: Arc<V>,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { read: self.read, value: Arc::clone(&self.value) }
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static> ShortCache<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Cache::builder().max_capacity(CAPACITY).time_to_live(LIFETIME).build(),
            generation: AtomicU64::new(0),
        }
    }

    /// The cached value, if it has not expired and nothing has changed on this node since it was read.
    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: std::borrow::Borrow<Q>,
    {
        let entry = self.entries.get(key)?;
        let is_current = entry.read.generation == self.generation.load(Ordering::SeqCst);
        (is_current && entry.read.at.elapsed() < LIFETIME).then_some(entry.value)
    }

    /// Must be called before the database is read.
    pub(crate) fn start_read(&self) -> ReadStart {
        ReadStart { generation: self.generation.load(Ordering::SeqCst), at: Instant::now() }
    }

    /// Caches the result of a read.
    pub(crate) fn insert(&self, key: K, read: ReadStart, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.entries.insert(key, Entry { read, value: Arc::clone(&value) });
        value
    }

    /// Invalidates all entries, including those of reads in progress, after a change on this node.
    pub(crate) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_read_before_a_change_is_not_used_after_it() {
        let cache: ShortCache<u8, &str> = ShortCache::new();
        let early = cache.start_read();
        assert_eq!(*cache.insert(1, early, "old"), "old");
        assert_eq!(cache.get(&1).as_deref(), Some(&"old"));
        cache.clear();
        assert_eq!(cache.get(&1), None);
        // A read that was in progress during the change.
        cache.insert(1, early, "old");
        assert_eq!(cache.get(&1), None);
        cache.insert(1, cache.start_read(), "new");
        assert_eq!(cache.get(&1).as_deref(), Some(&"new"));
    }
}
