//! The only source of randomness, for ids, secrets and jitter.

use std::sync::{Arc, Mutex, PoisonError};

use model::Timestamp;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, RngExt, SeedableRng};
use store::objects::recorder::SHARDS;
use uuid::Uuid;

/// A cryptographically secure random number generator. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    /// Seeded by the operating system.
    pub fn system() -> std::io::Result<Self> {
        let rng = StdRng::try_from_rng(&mut SysRng).map_err(std::io::Error::other)?;
        Ok(Self(Arc::new(Mutex::new(rng))))
    }

    /// Seeded with a number, so that a test is reproducible.
    #[cfg(feature = "test-util")]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Unpredictable bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.with(|rng| rng.fill_bytes(&mut bytes));
        bytes
    }

    /// A number from 0 up to but not including 1.
    pub fn fraction(&self) -> f64 {
        self.with(RngExt::random)
    }

    /// One of the rows that a hot counter is sharded over.
    pub(crate) fn shard(&self) -> i64 {
        i64::from(self.bytes::<1>()[0] % SHARDS)
    }

    /// A UUID v7 with this timestamp.
    pub fn id(&self, now: Timestamp) -> Uuid {
        let millis = u64::try_from(now.micros() / 1_000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid()
    }

    /// The smallest UUID v7 with this timestamp: ids generated earlier sort before it.
    pub(crate) fn smallest_id(at: Timestamp) -> Uuid {
        let millis = u64::try_from(at.micros() / 1_000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
    }

    fn with<T>(&self, generate: impl FnOnce(&mut StdRng) -> T) -> T {
        // A panic elsewhere cannot leave the generator in an invalid state.
        generate(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_and_sort_by_time() {
        let random = Random::seeded(1);
        let early = random.id(Timestamp::from_seconds(1_000));
        let late = random.id(Timestamp::from_seconds(1_001));
        assert_eq!(early.get_version_num(), 7);
        assert!(early < late);
        assert_ne!(random.id(Timestamp::from_seconds(1_000)), early);
    }

    #[test]
    fn system_generators_are_seeded_differently() {
        let (one, other) = (Random::system().unwrap(), Random::system().unwrap());
        assert_ne!(one.bytes::<16>(), other.bytes::<16>());
    }
}
