//! Names looked up: so many at a time, so long each.
//!
//! The system's resolver blocks a thread and cannot be interrupted. So whoever asked is told in time that there was no answer,
//! and the thread counts as taken until it really is free. Names that were late the last time have a part of the threads
//! only: a domain whose servers never answer does not keep others from being found.

use std::collections::HashSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lookups under way at a time, those included that nobody waits for any more.
pub(super) const THREADS: usize = 64;
/// How many of them may be of names that were late.
pub(super) const LATE_THREADS: usize = THREADS / 4;
/// How long anybody waits for an answer. A connection has to be made and used after it.
const DEADLINE: Duration = Duration::from_secs(5);
/// An answer that takes longer than this is late.
const LATE: Duration = Duration::from_secs(1);
/// Names that are remembered for having been late.
const REMEMBERED: usize = 10_000;

pub(super) type Found = std::io::Result<Vec<IpAddr>>;
/// Looks a name up and blocks meanwhile.
pub(super) type Resolver = Arc<dyn Fn(&str) -> Found + Send + Sync>;

/// Looks names up. Cheap to clone; clones share the threads.
#[derive(Clone)]
pub(super) struct Lookups {
    resolver: Resolver,
    threads: Arc<Semaphore>,
    late_threads: Arc<Semaphore>,
    late: Arc<Mutex<HashSet<String>>>,
    deadline: Duration,
}

impl Lookups {
    /// By the system's resolver.
    pub(super) fn of_system() -> Self {
        Self::by(
            Arc::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())),
            DEADLINE,
        )
    }

    pub(super) fn by(resolver: Resolver, deadline: Duration) -> Self {
        Self {
            resolver,
            threads: Arc::new(Semaphore::new(THREADS)),
            late_threads: Arc::new(Semaphore::new(LATE_THREADS)),
            late: Arc::default(),
            deadline,
        }
    }

    /// The addresses of a name.
    pub(super) async fn find(&self, name: String) -> Found {
        tokio::time::timeout(self.deadline, self.wait_for(name)).await.unwrap_or_else(|_| Err(out_of_time()))
    }

    async fn wait_for(&self, name: String) -> Found {
        let permits = self.permits(&name).await?;
        let (lookups, asked) = (self.clone(), name.clone());
        let mut looking = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let found = (lookups.resolver)(&asked);
            if started.elapsed() < LATE {
                lookups.names().remove(&asked);
            }
            drop(permits);
            found
        });
        let found = if let Ok(found) = tokio::time::timeout(LATE, &mut looking).await {
            found
        } else {
            self.remember(&name);
            looking.await
        };
        found.map_err(std::io::Error::other)?
    }

    /// The right to a thread; for a name that was late, one of the few.
    async fn permits(&self, name: &str) -> std::io::Result<[Option<OwnedSemaphorePermit>; 2]> {
        let permit = async |threads: &Arc<Semaphore>| {
            Arc::clone(threads).acquire_owned().await.map_err(std::io::Error::other)
        };
        let is_late = self.names().contains(name);
        let late = if is_late { Some(permit(&self.late_threads).await?) } else { None };
        Ok([late, Some(permit(&self.threads).await?)])
    }

    fn remember(&self, name: &str) {
        let mut names = self.names();
        if names.len() >= REMEMBERED {
            names.clear();
        }
        names.insert(name.to_owned());
    }

    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn out_of_time() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the name was not resolved in time")
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Holds threads until it is opened.
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
        let asked = (0..names).map(|number| lookups.find(format!("dead{number}.example.com")));
        futures_util::future::join_all(asked).await.into_iter().flatten().count()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_that_never_answer_take_so_many_threads_and_no_more() {
        let gate = Arc::new(Gate::default());
        let lookups = lookups(&gate, Duration::from_millis(300));
        // More than there are threads: whoever waits is told in time, and threads stay taken.
        assert_eq!(all(&lookups, THREADS + 20).await, 0);
        assert_eq!(gate.waiting.load(Ordering::SeqCst), THREADS);
        assert_eq!(lookups.threads.available_permits(), 0);
        let refused = lookups.find("well.example.com".to_owned()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);
        gate.open();
        while lookups.threads.available_permits() < THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(lookups.find("well.example.com".to_owned()).await.unwrap().len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_name_that_was_late_leaves_threads_to_others() {
        let gate = Arc::new(Gate::default());
        let lookups = lookups(&gate, Duration::from_millis(300));
        for number in 0..THREADS {
            lookups.remember(&format!("dead{number}.example.com"));
        }
        assert_eq!(all(&lookups, THREADS).await, 0);
        assert_eq!(gate.waiting.load(Ordering::SeqCst), LATE_THREADS);
        assert_eq!(lookups.find("well.example.com".to_owned()).await.unwrap().len(), 1);
        assert!(!lookups.names().contains("well.example.com"));
        gate.open();
        while lookups.threads.available_permits() < THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Quick again, it is forgiven.
        assert_eq!(lookups.find("dead1.example.com".to_owned()).await.unwrap().len(), 1);
        assert!(!lookups.names().contains("dead1.example.com"));
    }
}
