//! The one place that knows what time it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use tokio::sync::watch;

/// Tells the time, and wakes sleepers when theirs has come. Cheap to clone; clones tell the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(watch::Receiver<Timestamp>),
}

/// Moves the hands of a manual clock.
#[derive(Clone)]
pub struct ClockHands(Arc<watch::Sender<Timestamp>>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until its hands are moved, so that a test jumps a day in a line.
    pub fn manual(start: Timestamp) -> (Self, ClockHands) {
        let (hands, face) = watch::channel(start);
        (Self(Source::Manual(face)), ClockHands(Arc::new(hands)))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                #[expect(clippy::disallowed_methods, reason = "this is the place that the ban points to")]
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(since_epoch.as_micros().try_into().unwrap_or(i64::MAX))
            }
            Source::Manual(face) => *face.borrow(),
        }
    }

    /// Returns once the clock shows `instant` or later.
    pub async fn sleep_until(&self, instant: Timestamp) {
        match &self.0 {
            Source::System => tokio::time::sleep(instant.since(self.now())).await,
            Source::Manual(face) => {
                // The hands are gone only when the test is over; nothing is due after that.
                if face.clone().wait_for(|now| *now >= instant).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Returns after `duration` on this clock, counted from the call and not from when it is first waited for.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        self.sleep_until(self.now() + duration)
    }
}

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
    async fn sleepers_wake_when_the_hands_reach_them() {
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
    async fn the_system_clock_moves_by_itself() {
        let clock = Clock::system();
        let before = clock.now();
        clock.sleep(Duration::from_millis(2)).await;
        assert!(clock.now().since(before) >= Duration::from_millis(2));
    }
}
