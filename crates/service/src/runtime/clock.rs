//! The only source of the current time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
#[cfg(feature = "test-util")]
use tokio::sync::watch;

/// The current time, and sleeping until a given time. Cheap to clone; clones show the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    #[cfg(feature = "test-util")]
    Manual(watch::Receiver<Timestamp>),
}

/// Advances a manual clock.
#[cfg(feature = "test-util")]
#[derive(Clone)]
pub struct ClockHands(std::sync::Arc<watch::Sender<Timestamp>>);

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until it is advanced, so that a test can skip a day in one line.
    #[cfg(feature = "test-util")]
    pub fn manual(start: Timestamp) -> (Self, ClockHands) {
        let (hands, time) = watch::channel(start);
        (Self(Source::Manual(time)), ClockHands(std::sync::Arc::new(hands)))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                #[expect(clippy::disallowed_methods, reason = "the only source of the current time")]
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(since_epoch.as_micros().try_into().unwrap_or(i64::MAX))
            }
            #[cfg(feature = "test-util")]
            Source::Manual(time) => *time.borrow(),
        }
    }

    /// Returns once the clock shows `instant` or later.
    pub async fn sleep_until(&self, instant: Timestamp) {
        match &self.0 {
            Source::System => tokio::time::sleep(instant.since(self.now())).await,
            #[cfg(feature = "test-util")]
            Source::Manual(time) => {
                // The sender is dropped only at the end of the test; nothing is due after that.
                if time.clone().wait_for(|now| *now >= instant).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Returns after `duration` on this clock, counted from the call and not from the first poll of the future.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        self.sleep_until(self.now() + duration)
    }
}

#[cfg(feature = "test-util")]
impl ClockHands {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = *now + by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_reaches_its_time() {
        let (clock, hands) = Clock::manual(Timestamp::from_seconds(1_000));
        let (almost, rest) = (Duration::from_secs(86_399), Duration::from_secs(1));
        let day = almost + rest;
        let sleeper = clock.sleep(day);
        tokio::pin!(sleeper);
        hands.advance(almost);
        assert!(tokio::time::timeout(Duration::ZERO, &mut sleeper).await.is_err());
        hands.advance(rest);
        sleeper.await;
        assert_eq!(clock.now(), Timestamp::from_seconds(87_400));
    }

    #[tokio::test]
    async fn the_system_clock_advances_by_itself() {
        let clock = Clock::system();
        let before = clock.now();
        clock.sleep(Duration::from_millis(2)).await;
        assert!(clock.now().since(before) >= Duration::from_millis(2));
    }
}
