//! Waiting for something that must happen soon: a benchmark that waits in vain ends, and says for what.

use std::error::Error;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// Waits until something holds; fails after `limit`.
pub(crate) async fn wait_until(
    what: &str,
    limit: Duration,
    holds: impl AsyncFn() -> Result<bool, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let held = timeout(limit, async {
        while !holds().await? {
            sleep(LOOK).await;
        }
        Ok(())
    });
    held.await.map_err(|_| format!("{what} took longer than {} s", limit.as_secs()))?
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_holds_in_time_is_waited_for_and_what_does_not_is_named() {
        let left = Cell::new(2);
        let soon = async || {
            left.set(left.get() - 1);
            Ok(left.get() == 0)
        };
        wait_until("counting", Duration::from_mins(1), soon).await.unwrap();
        assert_eq!(left.get(), 0);
        let never = async || Ok(false);
        let error = wait_until("waiting in vain", Duration::ZERO, never).await.unwrap_err();
        assert_eq!(error.to_string(), "waiting in vain took longer than 0 s");
        let broken = async || Err("broken".into());
        let error = wait_until("asking", Duration::from_mins(1), broken).await.unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
