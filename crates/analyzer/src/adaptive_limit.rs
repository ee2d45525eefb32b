//! How many inquiries may be in flight at once: fewer when the analyzer is rate-limiting, more while it answers.

use std::time::Duration;

use model::Timestamp;

/// The pause when a rate-limiting analyzer does not say how long to wait.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// A concurrency limit that halves when the analyzer is rate-limiting and grows by one after as many successes as it
/// allows, as TCP's congestion window does. Processes that share one quota find their shares of it without coordination.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    maximum: usize,
    limit: usize,
    /// Successes since the limit last changed.
    successes: usize,
    /// When the limit was last halved. Inquiries that started earlier say nothing about the new limit.
    halved_at: Option<Timestamp>,
    /// Nothing may start before.
    resume_at: Option<Timestamp>,
}

impl AdaptiveLimit {
    /// Starts at the maximum, which is at least one.
    pub fn new(maximum: usize) -> Self {
        let maximum = maximum.max(1);
        Self { maximum, limit: maximum, successes: 0, halved_at: None, resume_at: None }
    }

    /// How many inquiries may be in flight now: none during a pause.
    pub fn allowed(&self, now: Timestamp) -> usize {
        if self.resume_at(now).is_some() { 0 } else { self.limit }
    }

    /// When the current pause ends, if there is one.
    pub fn resume_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.resume_at.filter(|instant| *instant > now)
    }

    /// Records that an inquiry which started at `started` was answered.
    pub fn succeeded(&mut self, started: Timestamp) {
        if self.is_stale(started) {
            return;
        }
        self.successes += 1;
        if self.successes >= self.limit {
            self.limit = (self.limit + 1).min(self.maximum);
            self.successes = 0;
        }
    }

    /// Records that an inquiry which started at `started` was rate-limited.
    ///
    /// Inquiries that are in flight together are rate-limited together. Only the first of them halves the limit;
    /// otherwise a single incident would reduce it to one.
    pub fn throttled(&mut self, started: Timestamp, retry_after: Option<Duration>, now: Timestamp) {
        let resume_at = now + retry_after.unwrap_or(DEFAULT_PAUSE);
        self.resume_at = self.resume_at.max(Some(resume_at));
        if self.is_stale(started) {
            return;
        }
        self.limit = (self.limit / 2).max(1);
        self.successes = 0;
        self.halved_at = Some(now);
    }

    fn is_stale(&self, started: Timestamp) -> bool {
        self.halved_at.is_some_and(|halved_at| started < halved_at)
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
    fn it_halves_and_pauses_when_rate_limited() {
        let mut limit = AdaptiveLimit::new(16);
        assert_eq!(limit.allowed(at(0)), 16);
        limit.throttled(at(0), Some(Duration::from_secs(30)), at(1));
        assert_eq!((limit.allowed(at(30)), limit.resume_at(at(30))), (0, Some(at(31))));
        assert_eq!((limit.allowed(at(31)), limit.resume_at(at(31))), (8, None));
        limit.throttled(at(31), None, at(32));
        assert_eq!((limit.allowed(at(32)), limit.allowed(at(33))), (0, 4), "the default pause is a second");
    }

    #[test]
    fn one_incident_halves_it_once() {
        let mut limit = AdaptiveLimit::new(16);
        for _ in 0..16 {
            limit.throttled(at(0), Some(Duration::from_secs(5)), at(1));
        }
        limit.throttled(at(0), Some(Duration::from_secs(9)), at(2));
        assert_eq!((limit.allowed(at(10)), limit.allowed(at(11))), (0, 8), "the longest wait counts");
        limit.throttled(at(0), Some(Duration::ZERO), at(12));
        assert_eq!(limit.allowed(at(12)), 8);
    }

    #[test]
    fn it_grows_by_one_after_as_many_successes_as_it_allows() {
        let mut limit = AdaptiveLimit::new(8);
        limit.throttled(at(0), Some(Duration::ZERO), at(1));
        limit.throttled(at(1), Some(Duration::ZERO), at(2));
        for (successes, allowed) in [(1, 2), (1, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (50, 8)] {
            (0..successes).for_each(|_| limit.succeeded(at(2)));
            assert_eq!(limit.allowed(at(2)), allowed);
        }
        limit.throttled(at(3), Some(Duration::ZERO), at(4));
        (0..100).for_each(|_| limit.succeeded(at(3)));
        assert_eq!(limit.allowed(at(4)), 4, "inquiries from before it was halved do not count");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds(
            maximum in 0_usize..20,
            steps in prop::collection::vec((any::<bool>(), 0_i64..50, 0_u64..9), 0..60),
        ) {
            let mut limit = AdaptiveLimit::new(maximum);
            for (now, (is_throttled, age, wait)) in (100..).zip(steps) {
                if is_throttled {
                    limit.throttled(at(now - age), Some(Duration::from_secs(wait)), at(now));
                } else {
                    limit.succeeded(at(now - age));
                }
                let allowed = limit.allowed(at(i64::MAX / 1_000_000));
                prop_assert!((1..=maximum.max(1)).contains(&allowed));
            }
        }
    }
}
