//! How many inquiries may be under way at once: fewer when the analyzer asks for patience, more while all goes well.

use std::time::Duration;

use model::Timestamp;

/// How long to hold back when the analyzer does not say.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// Halves when throttled and grows by one after a round of successes, as TCP does: many processes that share one quota find
/// their shares of it without talking to each other.
#[derive(Clone, Debug)]
pub struct Pace {
    maximum: usize,
    allowed: usize,
    /// Successes in a row, since the allowance last changed.
    successes: usize,
    /// When the allowance was last cut. What started before says nothing about the allowance since.
    cut_at: Option<Timestamp>,
    /// Until when nothing may start.
    resume_at: Option<Timestamp>,
}

impl Pace {
    /// Starts at the maximum, which is at least one.
    pub fn new(maximum: usize) -> Self {
        let maximum = maximum.max(1);
        Self { maximum, allowed: maximum, successes: 0, cut_at: None, resume_at: None }
    }

    /// How many inquiries may be under way now: none while the analyzer's patience is waited out.
    pub fn allowed(&self, now: Timestamp) -> usize {
        if self.resume_at(now).is_some() { 0 } else { self.allowed }
    }

    /// When to ask again what is allowed, while nothing is.
    pub fn resume_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.resume_at.filter(|instant| *instant > now)
    }

    /// An inquiry that started then was answered.
    pub fn succeeded(&mut self, started: Timestamp) {
        if self.is_stale(started) {
            return;
        }
        self.successes += 1;
        if self.successes >= self.allowed {
            self.allowed = (self.allowed + 1).min(self.maximum);
            self.successes = 0;
        }
    }

    /// An inquiry that started then was throttled.
    ///
    /// Those that were under way together are throttled together: only the first of them cuts the allowance, else one
    /// moment of trouble would bring it down to one.
    pub fn throttled(&mut self, started: Timestamp, retry_after: Option<Duration>, now: Timestamp) {
        let resume_at = now + retry_after.unwrap_or(DEFAULT_PAUSE);
        self.resume_at = self.resume_at.max(Some(resume_at));
        if self.is_stale(started) {
            return;
        }
        self.allowed = (self.allowed / 2).max(1);
        self.successes = 0;
        self.cut_at = Some(now);
    }

    fn is_stale(&self, started: Timestamp) -> bool {
        self.cut_at.is_some_and(|cut_at| started < cut_at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn halves_when_throttled_and_waits_as_long_as_asked() {
        let mut pace = Pace::new(16);
        assert_eq!(pace.allowed(at(0)), 16);
        pace.throttled(at(0), Some(Duration::from_secs(30)), at(1));
        assert_eq!((pace.allowed(at(30)), pace.resume_at(at(30))), (0, Some(at(31))));
        assert_eq!((pace.allowed(at(31)), pace.resume_at(at(31))), (8, None));
        pace.throttled(at(31), None, at(32));
        assert_eq!((pace.allowed(at(32)), pace.allowed(at(33))), (0, 4), "a second when it does not say");
    }

    #[test]
    fn one_moment_of_trouble_counts_once() {
        let mut pace = Pace::new(16);
        for _ in 0..16 {
            pace.throttled(at(0), Some(Duration::from_secs(5)), at(1));
        }
        pace.throttled(at(0), Some(Duration::from_secs(9)), at(2));
        assert_eq!((pace.allowed(at(10)), pace.allowed(at(11))), (0, 8), "the longest wait counts");
        pace.throttled(at(0), Some(Duration::ZERO), at(12));
        assert_eq!(pace.allowed(at(12)), 8);
    }

    #[test]
    fn grows_by_one_after_a_round_of_successes() {
        let mut pace = Pace::new(8);
        pace.throttled(at(0), Some(Duration::ZERO), at(1));
        pace.throttled(at(1), Some(Duration::ZERO), at(2));
        for (successes, allowed) in [(1, 2), (1, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (50, 8)] {
            (0..successes).for_each(|_| pace.succeeded(at(2)));
            assert_eq!(pace.allowed(at(2)), allowed);
        }
        pace.throttled(at(3), Some(Duration::ZERO), at(4));
        (0..100).for_each(|_| pace.succeeded(at(3)));
        assert_eq!(pace.allowed(at(4)), 4, "what started before the cut says nothing");
    }

    proptest! {
        #[test]
        fn stays_within_its_bounds(
            maximum in 0_usize..20,
            steps in prop::collection::vec((any::<bool>(), 0_i64..50, 0_u64..9), 0..60),
        ) {
            let mut pace = Pace::new(maximum);
            for (now, (is_throttled, age, wait)) in (100..).zip(steps) {
                if is_throttled {
                    pace.throttled(at(now - age), Some(Duration::from_secs(wait)), at(now));
                } else {
                    pace.succeeded(at(now - age));
                }
                let allowed = pace.allowed(at(i64::MAX / 1_000_000));
                prop_assert!((1..=maximum.max(1)).contains(&allowed));
            }
        }
    }
}
