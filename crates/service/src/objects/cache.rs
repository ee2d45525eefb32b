//! A cache of object reads for a few seconds. A change on this node is visible on this node at once.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::TenantId;
use model::api::ObjectAnalysis;
use moka::sync::Cache;
use tokio::time::Instant;

use crate::runtime::Result;

/// How long a read is cached if no other node can change the object.
const EXCLUSIVE_LIFETIME: Duration = Duration::from_secs(3);
/// How long a read is cached if other nodes can: there are no messages between nodes that could be lost, and a change
/// on one node is visible on the others within a second.
const SHARED_LIFETIME: Duration = Duration::from_millis(900);
/// The maximum number of objects cached.
const CAPACITY: u64 = 20_000;
/// The number of change counters, which objects share by hash.
const COUNTERS: usize = 256;

type Key = (TenantId, String);

/// An object, and when its read began. Its age counts from then, however late the result arrives: other nodes may change
/// the object in between.
#[derive(Clone)]
struct Entry {
    object: Arc<ObjectAnalysis>,
    asked: Instant,
}

/// Caches object reads, and counts changes so that a read that began before a change is not cached after it.
pub(crate) struct ObjectCache {
    reads: Cache<Key, Entry>,
    lifetime: Duration,
    changes: Vec<AtomicU64>,
    hasher: RandomState,
}

impl ObjectCache {
    /// A cache for a database that other processes may or may not share.
    pub(crate) fn new(is_shared: bool) -> Self {
        let lifetime = if is_shared { SHARED_LIFETIME } else { EXCLUSIVE_LIFETIME };
        Self {
            reads: Cache::builder().max_capacity(CAPACITY).time_to_live(lifetime).build(),
            lifetime,
            changes: std::iter::repeat_with(AtomicU64::default).take(COUNTERS).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The object from the cache or from `load`, and whether it was cached.
    pub(crate) async fn read(
        &self,
        tenant: TenantId,
        object_id: &str,
        load: impl AsyncFnOnce() -> Result<ObjectAnalysis>,
    ) -> Result<(Arc<ObjectAnalysis>, bool)> {
        let key = (tenant, object_id.to_owned());
        let cached = self.reads.get(&key).filter(|entry| entry.asked.elapsed() < self.lifetime);
        let outcome = if cached.is_some() { "hit" } else { "miss" };
        metrics::counter!("auspex_object_cache_total", "outcome" => outcome).increment(1);
        if let Some(cached) = cached {
            return Ok((cached.object, true));
        }
        let changes = self.changes_of(&key);
        let before = changes.load(Ordering::SeqCst);
        let asked = Instant::now();
        let object = Arc::new(load().await?);
        self.reads.insert(key.clone(), Entry { object: Arc::clone(&object), asked });
        // A change during the read has invalidated the cache before this entry was inserted.
        if changes.load(Ordering::SeqCst) != before {
            self.reads.invalidate(&key);
        }
        Ok((object, false))
    }

    /// Invalidates an object after a change.
    pub(crate) fn invalidate(&self, tenant: TenantId, object_id: &str) {
        let key = (tenant, object_id.to_owned());
        self.changes_of(&key).fetch_add(1, Ordering::SeqCst);
        self.reads.invalidate(&key);
    }

    /// Invalidates all objects after a change of a signal, which affects every object's answers.
    pub(crate) fn invalidate_all(&self) {
        for changes in &self.changes {
            changes.fetch_add(1, Ordering::SeqCst);
        }
        self.reads.invalidate_all();
    }

    fn changes_of(&self, key: &Key) -> &AtomicU64 {
        let hash = usize::try_from(self.hasher.hash_one(key) % COUNTERS as u64).unwrap_or(0);
        &self.changes[hash]
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn object(events: i64) -> ObjectAnalysis {
        ObjectAnalysis {
            object_id: "a".to_owned(),
            object_type: "object".to_owned(),
            display_name: None,
            event_count: events,
            analysis: Vec::new(),
            pending: Vec::new(),
            labels: None,
            timeline: None,
        }
    }

    #[tokio::test]
    async fn a_change_is_visible_at_once_even_during_a_read() {
        let cache = ObjectCache::new(false);
        let tenant = TenantId(Uuid::from_u128(1));
        let read = async |events| {
            let (object, hit) = cache.read(tenant, "a", async || Ok(object(events))).await.unwrap();
            (object.event_count, hit)
        };
        assert_eq!(read(1).await, (1, false));
        assert_eq!(read(2).await, (1, true));
        cache.invalidate(tenant, "a");
        assert_eq!(read(2).await, (2, false));
        cache.invalidate_all();
        // A change during a read: the result is returned, and not cached.
        let (stale, _) = cache
            .read(tenant, "a", async || {
                cache.invalidate(tenant, "a");
                Ok(object(2))
            })
            .await
            .unwrap();
        assert_eq!(stale.event_count, 2);
        assert_eq!(read(3).await, (3, false));
        assert_eq!(
            cache
                .read(TenantId(Uuid::from_u128(2)), "a", async || Ok(object(9)))
                .await
                .unwrap()
                .0
                .event_count,
            9
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_age_of_a_read_counts_from_its_beginning() {
        let cache = ObjectCache::new(true);
        let tenant = TenantId(Uuid::from_u128(1));
        let read = async |events, takes: Duration| {
            let slow = async || {
                tokio::time::sleep(takes).await;
                Ok(object(events))
            };
            let (object, hit) = cache.read(tenant, "a", slow).await.unwrap();
            (object.event_count, hit)
        };
        assert_eq!(read(1, SHARED_LIFETIME / 2).await, (1, false));
        assert_eq!(read(2, Duration::ZERO).await, (1, true));
        tokio::time::sleep(SHARED_LIFETIME / 2).await;
        assert_eq!(
            read(3, SHARED_LIFETIME).await,
            (3, false),
            "its time is over, half of it while it was read"
        );
        assert_eq!(read(4, Duration::ZERO).await, (4, false), "it was too old when it came");
    }
}
