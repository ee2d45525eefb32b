//! Bounded DNS lookups: a maximum number at a time, each with a deadline.
//!
//! The system's resolver blocks a thread and cannot be interrupted. A caller therefore gets an error at the deadline, while
//! the thread counts as busy until the resolver returns. Names that were slow the last time may use only some of the
//! threads, so that a domain whose servers never answer does not block the others.

use std::collections::HashSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent lookups, including those whose caller has timed out.
pub(super) const THREADS: usize = 64;
/// How many of them may be for names that were slow.
pub(super) const SLOW_THREADS: usize = THREADS / 4;
/// How long a caller waits. It leaves time to connect and send the request.
const DEADLINE: Duration = Duration::from_secs(5);
/// A lookup that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);
/// The maximum number of slow names tracked.
const MAX_SLOW_NAMES: usize = 10_000;

pub(super) type Resolved = std::io::Result<Vec<IpAddr>>;
/// Resolves a name, blocking the thread.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Resolved + Send + Sync>;

/// Resolves names. Cheap to clone; clones share the threads.
#[derive(Clone)]
pub(super) struct Lookups {
    resolver: Resolver,
    threads: Arc<Semaphore>,
    slow_threads: Arc<Semaphore>,
    slow: Arc<Mutex<HashSet<String>>>,
    deadline: Duration,
}

impl Lookups {
    /// Uses the system's resolver.
    pub(super) fn system() -> Self {
        Self::by(
            Arc::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())),
            DEADLINE,
        )
    }

    pub(super) fn by(resolver: Resolver, deadline: Duration) -> Self {
        Self {
            resolver,
            threads: Arc::new(Semaphore::new(THREADS)),
            slow_threads: Arc::new(Semaphore::new(SLOW_THREADS)),
            slow: Arc::default(),
            deadline,
        }
    }

    /// Resolves a name to its addresses.
    pub(super) async fn resolve(&self, name: String) -> Resolved {
        tokio::time::timeout(self.deadline, self.wait_for(name)).await.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn wait_for(&self, name: String) -> Resolved {
        let permits = self.permits(&name).await?;
        let (lookups, host) = (self.clone(), name.clone());
        let mut lookup = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let addresses = (lookups.resolver)(&host);
            if started.elapsed() < SLOW {
                lookups.slow_names().remove(&host);
            }
            drop(permits);
            addresses
        });
        let found = if let Ok(found) = tokio::time::timeout(SLOW, &mut lookup).await {
            found
        } else {
            self.mark_slow(&name);
            lookup.await
        };
        found.map_err(std::io::Error::other)?
    }

    /// Acquires a thread; for a name that was slow, one of [`SLOW_THREADS`].
    async fn permits(&self, name: &str) -> std::io::Result<[Option<OwnedSemaphorePermit>; 2]> {
        let permit = async |threads: &Arc<Semaphore>| {
            Arc::clone(threads).acquire_owned().await.map_err(std::io::Error::other)
        };
        let is_slow = self.slow_names().contains(name);
        let slow = if is_slow { Some(permit(&self.slow_threads).await?) } else { None };
        Ok([slow, Some(permit(&self.threads).await?)])
    }

    fn mark_slow(&self, name: &str) {
        let mut names = self.slow_names();
        if names.len() >= MAX_SLOW_NAMES {
            names.clear();
        }
        names.insert(name.to_owned());
    }

    fn slow_names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn timed_out() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the name was not resolved in time")
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Blocks threads until it is opened.
    #[derive(Default)]
    struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
        waiting: AtomicUsize,
    }

    impl Gate {
        fn wait(&self) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let mut is_open = self.is_open.lock().unwrap();
            while !*is_open {
                is_open = self.opened.wait(is_open).unwrap();
            }
        }

        fn open(&self) {
            *self.is_open.lock().unwrap() = true;
            self.opened.notify_all();
        }
    }

    /// Names that start with `dead` are answered when the gate opens, others at once.
    fn lookups(gate: &Arc<Gate>, deadline: Duration) -> Lookups {
        let gate = Arc::clone(gate);
        let resolver: Resolver = Arc::new(move |name| {
            if name.starts_with("dead") {
                gate.wait();
            }
            Ok(vec![[192, 0, 2, 1].into()])
        });
        Lookups::by(resolver, deadline)
    }

    async fn all(lookups: &Lookups, names: usize) -> usize {
        let resolved = (0..names).map(|number| lookups.resolve(format!("dead{number}.example.com")));
        futures_util::future::join_all(resolved).await.into_iter().flatten().count()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_that_never_resolve_use_a_bounded_number_of_threads() {
        let gate = Arc::new(Gate::default());
        let lookups = lookups(&gate, Duration::from_millis(300));
        // More names than threads: every caller times out, and the threads stay busy.
        assert_eq!(all(&lookups, THREADS + 20).await, 0);
        assert_eq!(gate.waiting.load(Ordering::SeqCst), THREADS);
        assert_eq!(lookups.threads.available_permits(), 0);
        let refused = lookups.resolve("well.example.com".to_owned()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);
        gate.open();
        while lookups.threads.available_permits() < THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(lookups.resolve("well.example.com".to_owned()).await.unwrap().len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn slow_names_leave_threads_to_others() {
        let gate = Arc::new(Gate::default());
        let lookups = lookups(&gate, Duration::from_millis(300));
        for number in 0..THREADS {
            lookups.mark_slow(&format!("dead{number}.example.com"));
        }
        assert_eq!(all(&lookups, THREADS).await, 0);
        assert_eq!(gate.waiting.load(Ordering::SeqCst), SLOW_THREADS);
        assert_eq!(lookups.resolve("well.example.com".to_owned()).await.unwrap().len(), 1);
        assert!(!lookups.slow_names().contains("well.example.com"));
        gate.open();
        while lookups.threads.available_permits() < THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // A quick lookup removes the name from the slow ones.
        assert_eq!(lookups.resolve("dead1.example.com".to_owned()).await.unwrap().len(), 1);
        assert!(!lookups.slow_names().contains("dead1.example.com"));
    }
}
