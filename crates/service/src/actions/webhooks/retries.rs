//! When a failed delivery is sent again.

use std::time::Duration;

use model::backoff::{Backoff, Jitter};

/// The delay after the given attempt, counted from 1: the base, doubled with each attempt, plus or minus a tenth.
/// `fraction` is random, from 0 to 1.
pub(crate) fn wait_after(base: Duration, attempt: i64, fraction: f64) -> Duration {
    Backoff { first: base, longest: Duration::MAX, jitter: Jitter::TENTH }.wait(attempt, fraction)
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
}
