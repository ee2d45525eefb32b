//! What follows from an attempt: delivered, sent again and when, or given up.

use std::time::Duration;

use model::Timestamp;
use model::backoff::{Backoff, Jitter};

use crate::runtime::Result;
use crate::runtime::outbound::{OutboundError, Reply};

/// The longest wait that a receiver can ask for, so that it cannot delay a delivery indefinitely.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    Delivered,
    /// Another attempt, not before this instant.
    Retry(Timestamp),
    Dead(Cause),
}

/// Why a delivery is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The last attempt failed temporarily.
    Exhausted,
    /// The receiver refused it.
    Refused,
    /// The URL is not allowed.
    Blocked,
    /// Every sender crashed during an attempt.
    Abandoned,
}

impl AttemptOutcome {
    /// The label in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry(_) => "retried",
            Self::Dead(Cause::Exhausted) => "exhausted",
            Self::Dead(Cause::Refused) => "refused",
            Self::Dead(Cause::Blocked) => "blocked",
            Self::Dead(Cause::Abandoned) => "abandoned",
        }
    }
}

/// The kind of a failure.
enum Failure {
    /// A retry may succeed; with the wait that the receiver asked for.
    Temporary(Option<Duration>),
    Permanent(Cause),
}

/// What follows from a response or a network error, and how the error is shown. `wait` is the regular delay before the next attempt.
pub(super) fn outcome_of(
    response: &Result<Reply, OutboundError>,
    may_retry: bool,
    wait: Duration,
    now: Timestamp,
) -> (AttemptOutcome, Option<String>) {
    let (failure, error) = match response {
        Ok(reply) if (200..300).contains(&reply.status) => (None, None),
        Ok(reply) => {
            let failure = match reply.status {
                429 | 500.. => Failure::Temporary(reply.retry_after),
                _ => Failure::Permanent(Cause::Refused),
            };
            let more = if (300..400).contains(&reply.status) { ": redirects are not followed" } else { "" };
            (Some(failure), Some(format!("the receiver answered {}{more}", reply.status)))
        }
        Err(error @ OutboundError::Refused(_)) => {
            (Some(Failure::Permanent(Cause::Blocked)), Some(error.to_string()))
        }
        Err(error) => (Some(Failure::Temporary(None)), Some(error.to_string())),
    };
    let outcome = match failure {
        None => AttemptOutcome::Delivered,
        Some(Failure::Temporary(requested)) if may_retry => {
            let requested = requested.unwrap_or_default().min(MAX_RETRY_AFTER);
            AttemptOutcome::Retry(now + wait.max(requested))
        }
        Some(Failure::Temporary(_)) => AttemptOutcome::Dead(Cause::Exhausted),
        Some(Failure::Permanent(cause)) => AttemptOutcome::Dead(cause),
    };
    (outcome, error)
}

/// The delay after the given attempt, counted from 1: the base, doubled with each attempt, plus or minus a tenth.
/// `fraction` is random, from 0 to 1.
pub(crate) fn wait_after(base: Duration, attempt: i64, fraction: f64) -> Duration {
    Backoff { first: base, longest: Duration::MAX, jitter: Jitter::TENTH }.wait(attempt, fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000);
    const WAIT: Duration = Duration::from_secs(30);

    fn outcome(status: u16, retry_after_s: Option<u64>) -> AttemptOutcome {
        let reply =
            Reply { status, body_start: String::new(), retry_after: retry_after_s.map(Duration::from_secs) };
        outcome_of(&Ok(reply), true, WAIT, NOW).0
    }

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
    fn each_status_has_an_outcome() {
        let later = AttemptOutcome::Retry(NOW + WAIT);
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(outcome(status, None), AttemptOutcome::Delivered, "{status}");
        }
        for status in [429, 500, 502, 503, 504, 599] {
            assert_eq!(outcome(status, None), later, "{status}");
        }
        for status in [301, 302, 307, 400, 401, 403, 404, 408, 410, 413, 422] {
            assert_eq!(outcome(status, Some(5)), AttemptOutcome::Dead(Cause::Refused), "{status}");
        }
    }

    #[test]
    fn a_receiver_can_prolong_the_wait_up_to_a_limit() {
        assert_eq!(outcome(429, Some(5)), AttemptOutcome::Retry(NOW + WAIT));
        assert_eq!(outcome(503, Some(120)), AttemptOutcome::Retry(NOW + Duration::from_mins(2)));
        assert_eq!(outcome(429, Some(u64::MAX)), AttemptOutcome::Retry(NOW + MAX_RETRY_AFTER));
    }

    #[test]
    fn a_temporary_failure_is_retried_and_a_blocked_address_is_not() {
        let (last, _) = outcome_of(&Err(OutboundError::Timeout), false, WAIT, NOW);
        assert_eq!(last, AttemptOutcome::Dead(Cause::Exhausted));
        let (outcome, error) = outcome_of(&Err(OutboundError::Timeout), true, WAIT, NOW);
        assert_eq!(outcome, AttemptOutcome::Retry(NOW + WAIT));
        assert_eq!(error.as_deref(), Some("the request timed out"));
        let (refused, _) = outcome_of(&Err(OutboundError::Refused("no".to_owned())), true, WAIT, NOW);
        assert_eq!(refused, AttemptOutcome::Dead(Cause::Blocked));
    }
}
