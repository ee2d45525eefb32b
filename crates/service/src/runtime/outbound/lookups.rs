//! Lookups of names, bounded in number and in time.
//!
//! A lookup that takes over a second moves to a slow slot, or is given up where none is free. So names that never answer
//! keep each of the other slots for at most a second, and other names are still resolved.

use std::io::{Error, ErrorKind};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::dns::SystemDns;

/// Lookups in flight that have not taken [`SLOW`] yet. Each has up to six sockets open: three tries in two families.
pub(super) const SLOTS: usize = 64;
/// Lookups in flight that have.
pub(super) const SLOW_SLOTS: usize = 16;
/// How long a caller waits for an answer. A connection has to be made and used after it.
const DEADLINE: Duration = Duration::from_secs(5);
/// A lookup that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);

pub(super) type Resolved = std::io::Result<Vec<IpAddr>>;
/// Looks a name up; dropping the future ends the lookup.
pub(super) type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, Resolved> + Send + Sync>;

/// Looks names up. Cheap to clone; clones share the slots.
#[derive(Clone)]
pub(super) struct Lookups {
    resolver: Resolver,
    slots: Arc<Semaphore>,
    slow_slots: Arc<Semaphore>,
}

impl Lookups {
    /// Lookups by the system's DNS configuration.
    pub(super) fn system() -> Self {
        let dns = Arc::new(SystemDns::default());
        Self::by(Arc::new(move |name| {
            let dns = Arc::clone(&dns);
            Box::pin(async move { dns.resolve(&name).await })
        }))
    }

    pub(super) fn by(resolver: Resolver) -> Self {
        let slots = Arc::new(Semaphore::new(SLOTS));
        Self { resolver, slots, slow_slots: Arc::new(Semaphore::new(SLOW_SLOTS)) }
    }

    /// The addresses of a name, or an error at the deadline.
    pub(super) async fn resolve(&self, name: String) -> Resolved {
        timeout(DEADLINE, self.resolve_in_slot(name)).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn resolve_in_slot(&self, name: String) -> Resolved {
        let slot = self.slots.acquire().await.map_err(Error::other)?;
        let mut lookup = pin!((self.resolver)(name));
        if let Ok(found) = timeout(SLOW, &mut lookup).await {
            return found;
        }
        let _slow_slot = self.slow_slots.try_acquire().map_err(|_| too_slow())?;
        drop(slot);
        lookup.await
    }
}

fn too_slow() -> Error {
    Error::new(ErrorKind::TimedOut, "the name was not resolved in time")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::Instant;

    use super::*;

    /// Names that start with `dead` are never answered, others at once; how many lookups are in flight.
    fn lookups() -> (Lookups, Arc<AtomicUsize>) {
        /// Counts a lookup while it is in flight.
        struct InFlight(Arc<AtomicUsize>);

        impl Drop for InFlight {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }

        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let resolver: Resolver = Arc::new(move |name| {
            counter.fetch_add(1, Ordering::SeqCst);
            let in_flight = InFlight(Arc::clone(&counter));
            Box::pin(async move {
                let _in_flight = in_flight;
                if name.starts_with("dead") {
                    std::future::pending::<()>().await;
                }
                Ok(vec![[192, 0, 2, 1].into()])
            })
        });
        (Lookups::by(resolver), count)
    }

    fn all_dead(lookups: &Lookups, names: usize) -> impl Future<Output = Vec<Resolved>> {
        join_all((0..names).map(|number| lookups.resolve(format!("dead{number}.example.com"))))
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_never_answer_take_a_bounded_number_of_slots() {
        let (lookups, in_flight) = lookups();
        let mut dead = pin!(all_dead(&lookups, SLOTS + SLOW_SLOTS + 20));
        for (waited, expected) in [(0, SLOTS), (1_500, SLOW_SLOTS + SLOW_SLOTS + 20), (2_500, SLOW_SLOTS)] {
            let _ = tokio::time::timeout_at(Instant::now() + Duration::from_millis(waited), &mut dead).await;
            assert_eq!(in_flight.load(Ordering::SeqCst), expected, "after {waited} ms more");
        }
        let found = dead.await;
        assert!(found.iter().all(|found| found.as_ref().unwrap_err().kind() == ErrorKind::TimedOut));
        // Given up, they are no longer in flight.
        assert_eq!(in_flight.load(Ordering::SeqCst), 0);
        assert_eq!(lookups.slots.available_permits(), SLOTS);
        assert_eq!(lookups.slow_slots.available_permits(), SLOW_SLOTS);
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_never_answer_do_not_keep_others_from_being_resolved() {
        let (lookups, _) = lookups();
        let mut dead = pin!(all_dead(&lookups, 3 * SLOTS));
        let _ = timeout(Duration::ZERO, &mut dead).await;
        // Behind three times as many dead names as there are slots, and more of them keep coming.
        let started = Instant::now();
        let well = async {
            lookups.resolve("well.example.com".to_owned()).await.map(|found| (found, started.elapsed()))
        };
        let (found, dead) = tokio::join!(well, dead);
        let (found, waited) = found.unwrap();
        assert_eq!(found.len(), 1);
        assert!(waited <= 3 * SLOW, "{waited:?}");
        assert!(dead.iter().all(Result::is_err));
    }

    #[tokio::test(start_paused = true)]
    async fn every_lookup_ends_at_the_deadline() {
        let (lookups, _) = lookups();
        let started = Instant::now();
        let late = lookups.resolve("dead.example.com".to_owned()).await.unwrap_err();
        assert_eq!((late.kind(), started.elapsed()), (ErrorKind::TimedOut, DEADLINE));
    }
}
