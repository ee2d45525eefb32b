//! When an endpoint rests, and for how long: its circuit breaker.

use std::time::Duration;

use model::backoff::{Backoff, Jitter};
use store::actions::webhooks::endpoints::Circuit;

use crate::actions::webhooks::attempt::{Attempt, ClaimedDelivery};

/// Consecutive failures after which an endpoint rests.
const TOLERATED_FAILURES: i64 = 10;

/// The circuit breaker after these attempts. Attempts to the URL before an edit say nothing about the new URL, and are ignored.
pub(super) fn circuit_after(
    retry_base: Duration,
    mut circuit: Circuit,
    version: i64,
    sent: &[(&ClaimedDelivery, &Attempt)],
) -> Circuit {
    let relevant = sent
        .iter()
        .filter(|(delivery, attempt)| attempt.was_made() && delivery.destination.version == version);
    for (delivery, attempt) in relevant {
        // A receiver that refuses deliveries for good responds. Each is tried once, so that it need not be left alone.
        if attempt.is_final() {
            circuit = Circuit { consecutive_failures: 0, rests: 0, resting_until: None };
            continue;
        }
        circuit.consecutive_failures += 1;
        // Attempts that were in flight when the rest began do not prolong it.
        let may_rest = circuit.resting_until.is_none() || delivery.is_probe;
        if circuit.consecutive_failures >= TOLERATED_FAILURES && may_rest {
            let rest = rest_after(retry_base, circuit.rests);
            circuit.resting_until = Some(attempt.at + rest);
            circuit.rests += 1;
        }
    }
    circuit
}

/// How long an endpoint rests that has already rested this many times in a row.
fn rest_after(base: Duration, rests: i64) -> Duration {
    /// 15 minutes at the default base, so that a receiver that is back does not wait much longer.
    const MAX_FACTOR: u32 = 30;
    let longest = base.saturating_mul(MAX_FACTOR);
    Backoff { first: base, longest, jitter: Jitter::NONE }.wait(rests.saturating_add(1), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_15_minutes() {
        let rests: Vec<u64> =
            (0..7).map(|rests| rest_after(Duration::from_secs(30), rests).as_secs()).collect();
        assert_eq!(rests, [30, 60, 120, 240, 480, 900, 900]);
    }
}
