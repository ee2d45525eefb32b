//! Decides whether a call is retried, and after what delay.

use std::time::Duration;

use model::backoff::{Backoff, Jitter};
use uuid::Uuid;

/// The retry settings of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retries {
    /// How often a call is retried.
    pub(crate) limit: u32,
    /// The first delay; it doubles with each retry.
    pub(crate) first_delay: Duration,
    /// The longest `Retry-After` to wait for.
    pub(crate) max_retry_after: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { limit: 4, first_delay: Duration::from_millis(250), max_retry_after: Duration::from_mins(1) }
    }
}

/// Whether a call may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice has the same effect as once.
    Harmless,
    /// Twice may have a further effect: it is retried only if the service did not process it.
    Harmful,
}

/// The outcome of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was no connection.
    Unconnected,
    /// The connection ended before the response.
    Unanswered,
    /// An error response with this status.
    Refused { status: u16, retry_after: Option<Duration>, events_recorded: bool },
}

/// The longest delay without a `Retry-After`.
const MAX_DELAY: Duration = Duration::from_secs(10);

impl Retries {
    /// The delay after this many attempts; `None` to give up. `fraction` is random, from 0 to 1.
    pub(crate) fn delay(
        &self,
        attempts: u32,
        repeat: Repeat,
        outcome: Outcome,
        fraction: f64,
    ) -> Option<Duration> {
        let is_transient = match outcome {
            // The events are recorded. Sending them again would result in a conflict at best.
            Outcome::Refused { events_recorded: true, .. } => false,
            Outcome::Unconnected
            | Outcome::Refused { status: 429, .. }
            | Outcome::Refused { status: 503, retry_after: Some(_), .. } => true,
            Outcome::Unanswered | Outcome::Refused { status: 500 | 502 | 503 | 504, .. } => {
                repeat == Repeat::Harmless
            }
            Outcome::Refused { .. } => false,
        };
        if !is_transient || attempts > self.limit {
            return None;
        }
        let backoff = Backoff { first: self.first_delay, longest: MAX_DELAY, jitter: Jitter::UP_TO_HALF };
        let delay = backoff.wait(i64::from(attempts), fraction);
        match outcome {
            Outcome::Refused { retry_after: Some(wait), .. } if wait > self.max_retry_after => None,
            // Not earlier than asked, and not all clients at the same instant.
            Outcome::Refused { retry_after: Some(wait), .. } => Some(wait + delay),
            _ => Some(delay),
        }
    }
}

/// A random number from 0 up to 1.
pub(crate) fn random_fraction() -> f64 {
    let [a, b, c, d, ..] = Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Outcome {
        Outcome::Refused { status, retry_after: None, events_recorded: false }
    }

    fn delay(attempts: u32, repeat: Repeat, outcome: Outcome) -> Option<Duration> {
        Retries::default().delay(attempts, repeat, outcome, 0.0)
    }

    #[test]
    fn only_transient_failures_are_retried() {
        for status in [400, 401, 402, 403, 404, 409, 413, 422, 501] {
            assert_eq!(delay(1, Repeat::Harmless, refused(status)), None, "{status}");
        }
        for outcome in [Outcome::Unanswered, refused(500), refused(502), refused(503), refused(504)] {
            assert!(delay(1, Repeat::Harmless, outcome).is_some(), "{outcome:?}");
            assert_eq!(delay(1, Repeat::Harmful, outcome), None, "{outcome:?}");
        }
        // The request was not processed, so it may be repeated even if that is harmful.
        let busy =
            Outcome::Refused { status: 503, retry_after: Some(Duration::ZERO), events_recorded: false };
        for outcome in [Outcome::Unconnected, refused(429), busy] {
            assert!(delay(1, Repeat::Harmful, outcome).is_some(), "{outcome:?}");
        }
    }

    #[test]
    fn recorded_events_are_never_sent_again() {
        for status in [429, 502, 503] {
            let outcome =
                Outcome::Refused { status, retry_after: Some(Duration::from_secs(1)), events_recorded: true };
            for repeat in [Repeat::Harmless, Repeat::Harmful] {
                assert_eq!(delay(1, repeat, outcome), None, "{status}");
            }
        }
    }

    #[test]
    fn delays_double_up_to_a_limit_and_end() {
        let retries = Retries::default();
        let delays = |fraction| -> Vec<u128> {
            let delay = |attempts| retries.delay(attempts, Repeat::Harmless, refused(503), fraction);
            (1..9).map_while(delay).map(|delay| delay.as_millis()).collect()
        };
        assert_eq!(delays(0.0), [125, 250, 500, 1_000]);
        assert!(delays(0.999)[3] < 2_000);
        let endless = Retries { limit: u32::MAX, ..retries };
        assert!(endless.delay(1_000_000, Repeat::Harmless, refused(503), 0.9).unwrap() <= MAX_DELAY);
    }

    #[test]
    fn retry_after_is_respected() {
        let refused = |seconds| Outcome::Refused {
            status: 429,
            retry_after: Some(Duration::from_secs(seconds)),
            events_recorded: false,
        };
        assert!(delay(1, Repeat::Harmful, refused(30)).unwrap() >= Duration::from_secs(30));
        assert_eq!(delay(1, Repeat::Harmless, refused(61)), None, "too long");
    }

    #[test]
    fn random_fractions_are_spread() {
        let fractions: Vec<f64> = (0..1_000).map(|_| random_fraction()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        assert!(fractions.iter().any(|fraction| *fraction < 0.2));
        assert!(fractions.iter().any(|fraction| *fraction > 0.8));
    }
}
