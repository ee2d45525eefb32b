//! Concurrency slots of a model: how many requests it gets at a time, and which go first.

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::Failure;

/// A semaphore in which urgent requests go before the queue of the others.
pub(crate) struct Slots {
    semaphore: Semaphore,
    queue: Mutex<()>,
}

impl Slots {
    /// As many slots as `number`, but at least one.
    pub(crate) fn new(number: usize) -> Self {
        Self { semaphore: Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS)), queue: Mutex::new(()) }
    }

    /// Waits for a slot. Dropping the returned permit frees it.
    pub(crate) async fn acquire(&self, is_urgent: bool) -> Result<SemaphorePermit<'_>, Failure> {
        // Only the head of the queue waits at the semaphore, which is fair; the others wait for the mutex behind it.
        // So at most one request of the queue is ahead of an urgent one.
        let _head_of_queue = if is_urgent { None } else { Some(self.queue.lock().await) };
        self.semaphore.acquire().await.map_err(Failure::failed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn urgent_requests_go_before_the_queue() {
        let (slots, served) = (Slots::new(1), RefCell::new(Vec::new()));
        let permit = slots.acquire(false).await.unwrap();
        let serve = async |name: &'static str, is_urgent: bool| {
            let _permit = slots.acquire(is_urgent).await.unwrap();
            served.borrow_mut().push(name);
        };
        let queue = join_all(["first", "second", "third"].map(|name| serve(name, false)));
        let urgent = async {
            tokio::task::yield_now().await;
            join_all(["urgent", "also urgent"].map(|name| serve(name, true))).await;
        };
        let release = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            assert!(served.borrow().is_empty());
            drop(permit);
        };
        tokio::join!(queue, urgent, release);
        assert_eq!(served.into_inner(), ["first", "urgent", "also urgent", "second", "third"]);
    }
}
