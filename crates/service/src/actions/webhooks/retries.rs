//! When a failed delivery is sent again, and how long a failing endpoint rests.

use std::time::Duration;

use model::backoff::{Backoff, Jitter};

/// The delay after the given attempt, counted from 1: the base, doubled with each attempt, plus or minus a tenth.
/// `fraction` is random, from 0 to 1.
pub(crate) fn wait_after(base: Duration, attempt: i64, fraction: f64) -> Duration {
    Backoff { first: base, longest: Duration::MAX, jitter: Jitter::TENTH }.wait(attempt, fraction)
}

/// How long an endpoint rests that has already rested this many times in a row.
pub(crate) fn rest_after(base: Duration, rests: i64) -> Duration {
    /// 15 minutes at the default base, so that a receiver that is back does not wait much longer.
    const MAX_FACTOR: u32 = 30;
    let longest = base.saturating_mul(MAX_FACTOR);
    Backoff { first: base, longest, jitter: Jitter::NONE }.wait(rests.saturating_add(1), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_ten_percent_jitter() {
        let base = Duration::from_secs(30);
        let waits: Vec<u64> = (1..=6).map(|attempt| wait_after(base, attempt, 0.5).as_secs()).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 960]);
        assert_eq!(wait_after(base, 1, 0.0), Duration::from_secs(27));
        assert!(wait_after(base, 1, 0.999_999) < Duration::from_secs(33));
        // No configuration overflows.
        assert!(wait_after(Duration::MAX, i64::MAX, 1.0) < Duration::from_hours(24 * 500));
        assert_eq!(wait_after(Duration::ZERO, 3, 0.5), Duration::ZERO);
    }

    #[test]
    fn rests_double_up_to_15_minutes() {
        let rests: Vec<u64> =
            (0..7).map(|rests| rest_after(Duration::from_secs(30), rests).as_secs()).collect();
        assert_eq!(rests, [30, 60, 120, 240, 480, 900, 900]);
    }
}
