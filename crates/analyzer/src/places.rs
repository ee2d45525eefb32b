//! Places at a model: how many requests it gets at a time, and who goes first.

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::Failure;

/// Places at a model. Whoever somebody waits for goes before the queue.
pub(crate) struct Places {
    places: Semaphore,
    line: Mutex<()>,
}

impl Places {
    pub(crate) fn new(number: usize) -> Self {
        Self { places: Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS)), line: Mutex::new(()) }
    }

    /// Waits for a place, which ends with what is returned.
    pub(crate) async fn take(&self, is_urgent: bool) -> Result<SemaphorePermit<'_>, Failure> {
        // Of the queue only one at a time stands among those who wait for a place; the others wait behind it in a line of
        // their own. So nobody urgent has more than one of them ahead.
        let _first_in_line = if is_urgent { None } else { Some(self.line.lock().await) };
        self.places.acquire().await.map_err(Failure::failed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn whoever_somebody_waits_for_goes_before_the_queue() {
        let (places, served) = (Places::new(1), RefCell::new(Vec::new()));
        let held = places.take(false).await.unwrap();
        let serve = async |name: &'static str, is_urgent: bool| {
            let _place = places.take(is_urgent).await.unwrap();
            served.borrow_mut().push(name);
        };
        let queue = join_all(["first", "second", "third"].map(|name| serve(name, false)));
        let urgent = async {
            tokio::task::yield_now().await;
            join_all(["caller", "another"].map(|name| serve(name, true))).await;
        };
        let release = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            assert!(served.borrow().is_empty());
            drop(held);
        };
        tokio::join!(queue, urgent, release);
        assert_eq!(served.into_inner(), ["first", "caller", "another", "second", "third"]);
    }
}
