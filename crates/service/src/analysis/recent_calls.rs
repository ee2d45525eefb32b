//! How the analyzer answered this process in the last minutes, for operators.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use analyzer::Failure;
use model::Timestamp;

/// How long a call counts.
const WINDOW: Duration = Duration::from_mins(10);
/// Calls that are remembered at most; older ones do not count.
const MAX_CALLS: usize = 1_000;

/// Calls of the analyzer in the last ten minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounts {
    pub(crate) calls: usize,
    /// Those that found it down or failing.
    pub(crate) failed: usize,
    /// Those that it refused because there were too many.
    pub(crate) throttled: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Answered,
    Failed,
    Throttled,
}

/// The outcomes of recent calls.
#[derive(Default)]
pub(crate) struct RecentCalls(Mutex<VecDeque<(Timestamp, Outcome)>>);

impl RecentCalls {
    /// Records the end of a call.
    pub(crate) fn record(&self, now: Timestamp, failure: Option<&Failure>) {
        let outcome = match failure {
            None => Outcome::Answered,
            // An inquiry that takes too long says that there is too much to do, not that the analyzer is broken.
            Some(Failure::Throttled { .. } | Failure::Busy | Failure::OutOfTime) => Outcome::Throttled,
            Some(Failure::Down(_) | Failure::Failed(_)) => Outcome::Failed,
            Some(Failure::CallerLeft) => return,
        };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() == MAX_CALLS {
            calls.pop_front();
        }
        calls.push_back((now, outcome));
    }

    /// Counts the calls of the last ten minutes.
    pub(crate) fn counts(&self, now: Timestamp) -> CallCounts {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = calls.iter().filter(|(at, _)| now.since(*at) < WINDOW);
        recent.fold(CallCounts::default(), |counts, (_, outcome)| CallCounts {
            calls: counts.calls + 1,
            failed: counts.failed + usize::from(*outcome == Outcome::Failed),
            throttled: counts.throttled + usize::from(*outcome == Outcome::Throttled),
        })
    }
}
