//! Object reads, remembered for a moment. What changes an object on this node is seen on it at once.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::TenantId;
use model::api::ObjectAnalysis;
use moka::sync::Cache;

use crate::runtime::Result;

/// How long a read is remembered where no other node can change it.
const ALONE: Duration = Duration::from_secs(3);
/// How long where others can: nodes tell each other nothing, so that nothing can get lost, and what one of them changes
/// is seen by the others within a second.
const SHARED: Duration = Duration::from_millis(900);
/// Objects remembered at a time.
const REMEMBERED: u64 = 20_000;
/// Counters of changes; objects share them by hash.
const COUNTERS: usize = 256;

type Key = (TenantId, String);

/// Remembers what was read, and counts changes so that a read which began before one is not remembered after it.
pub(crate) struct ObjectCache {
    reads: Cache<Key, Arc<ObjectAnalysis>>,
    changes: Vec<AtomicU64>,
    hasher: RandomState,
}

impl ObjectCache {
    /// A cache for a database that other processes may or may not share.
    pub(crate) fn new(is_shared: bool) -> Self {
        let life = if is_shared { SHARED } else { ALONE };
        Self {
            reads: Cache::builder().max_capacity(REMEMBERED).time_to_live(life).build(),
            changes: std::iter::repeat_with(AtomicU64::default).take(COUNTERS).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The object as remembered or as read, and whether it was remembered.
    pub(crate) async fn read(
        &self,
        tenant: TenantId,
        object_id: &str,
        load: impl AsyncFnOnce() -> Result<ObjectAnalysis>,
    ) -> Result<(Arc<ObjectAnalysis>, bool)> {
        let key = (tenant, object_id.to_owned());
        let known = self.reads.get(&key);
        let outcome = if known.is_some() { "hit" } else { "miss" };
        metrics::counter!("auspex_object_cache_total", "outcome" => outcome).increment(1);
        if let Some(known) = known {
            return Ok((known, true));
        }
        let changes = self.changes_of(&key);
        let before = changes.load(Ordering::SeqCst);
        let object = Arc::new(load().await?);
        self.reads.insert(key.clone(), Arc::clone(&object));
        // Whatever changed it while it was read has already looked for something to forget.
        if changes.load(Ordering::SeqCst) != before {
            self.reads.invalidate(&key);
        }
        Ok((object, false))
    }

    /// Forgets an object that has just changed.
    pub(crate) fn forget(&self, tenant: TenantId, object_id: &str) {
        let key = (tenant, object_id.to_owned());
        self.changes_of(&key).fetch_add(1, Ordering::SeqCst);
        self.reads.invalidate(&key);
    }

    /// Forgets everything: a signal has changed, and with it what every object shows.
    pub(crate) fn forget_all(&self) {
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
            event_count: events,
            analysis: Vec::new(),
            pending: Vec::new(),
        }
    }

    #[tokio::test]
    async fn a_change_is_seen_at_once_also_by_a_read_under_way() {
        let cache = ObjectCache::new(false);
        let tenant = TenantId(Uuid::from_u128(1));
        let read = async |events| {
            let (object, hit) = cache.read(tenant, "a", async || Ok(object(events))).await.unwrap();
            (object.event_count, hit)
        };
        assert_eq!(read(1).await, (1, false));
        assert_eq!(read(2).await, (1, true));
        cache.forget(tenant, "a");
        assert_eq!(read(2).await, (2, false));
        cache.forget_all();
        // A change in the middle of a read: what was read is returned, and not remembered.
        let (stale, _) = cache
            .read(tenant, "a", async || {
                cache.forget(tenant, "a");
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
}
