//! Exponential backoff: how long to wait before work that failed is tried again.

use std::time::Duration;

/// No wait is longer, whatever an operator configures, so that adding it to an instant cannot overflow.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Waits that start at `first`, double with every failure up to `longest`, and are spread by `jitter`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The wait after the first failure, before jitter.
    pub first: Duration,
    /// The longest wait, before jitter. Waits are never longer than a year.
    pub longest: Duration,
    /// How far waits are spread.
    pub jitter: Jitter,
}

/// The factors that a wait is multiplied with, so that work that failed together is not tried again together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    low: f64,
    high: f64,
}

impl Jitter {
    /// Waits are exact.
    pub const NONE: Self = Self { low: 1.0, high: 1.0 };
    /// Waits are up to a tenth shorter or longer: the average is the exact wait.
    pub const TENTH: Self = Self { low: 0.9, high: 1.1 };
    /// Waits are between a half and the whole of the exact wait, which remains an upper bound.
    pub const UP_TO_HALF: Self = Self { low: 0.5, high: 1.0 };
}

impl Backoff {
    /// The wait after this many failures in a row; fewer than one counts as one. `fraction` is random, from 0 to 1.
    pub fn wait(self, failures: i64, fraction: f64) -> Duration {
        let longest = self.longest.min(LONGEST);
        let doublings = u32::try_from(failures.max(1) - 1).unwrap_or(u32::MAX);
        let exact = self.first.saturating_mul(2_u32.saturating_pow(doublings)).min(longest);
        let Jitter { low, high } = self.jitter;
        exact.mul_f64(low + (high - low) * fraction.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Duration::from_secs(30), longest: Duration::from_mins(10), jitter: Jitter::NONE };

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<u64> = (0..8).map(|failures| BACKOFF.wait(failures, 0.3).as_secs()).collect();
        assert_eq!(waits, [30, 30, 60, 120, 240, 480, 600, 600]);
        assert_eq!(BACKOFF.wait(i64::MAX, 0.3), BACKOFF.longest);
        assert_eq!(BACKOFF.wait(i64::MIN, 0.3), BACKOFF.first);
    }

    #[test]
    fn jitter_spreads_waits() {
        let wait = |jitter, fraction| Backoff { jitter, ..BACKOFF }.wait(1, fraction).as_secs_f64();
        for (jitter, expected) in [
            (Jitter::NONE, [30.0, 30.0, 30.0]),
            (Jitter::TENTH, [27.0, 30.0, 33.0]),
            (Jitter::UP_TO_HALF, [15.0, 22.5, 30.0]),
        ] {
            for (fraction, expected) in [0.0, 0.5, 1.0].into_iter().zip(expected) {
                assert!((wait(jitter, fraction) - expected).abs() < 1e-6, "{jitter:?} at {fraction}");
            }
        }
    }

    #[test]
    fn no_configuration_overflows() {
        let largest = Backoff { first: Duration::MAX, longest: Duration::MAX, jitter: Jitter::TENTH };
        assert!(largest.wait(i64::MAX, 1.0) < Duration::from_hours(24 * 500));
        let none = Backoff { first: Duration::ZERO, ..largest };
        assert_eq!((none.wait(3, 0.5), none.wait(i64::MAX, 0.5)), (Duration::ZERO, Duration::ZERO));
    }

    proptest! {
        #[test]
        fn waits_never_shrink_and_stay_within_bounds(failures in 1_i64..70, fraction in 0.0_f64..1.0) {
            let backoff = Backoff { jitter: Jitter::UP_TO_HALF, ..BACKOFF };
            let (wait, next) = (backoff.wait(failures, fraction), backoff.wait(failures + 1, fraction));
            prop_assert!(wait <= next && next <= backoff.longest);
        }
    }
}
