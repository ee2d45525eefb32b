//! What analyzers respond, and what their failures mean to a caller who waits.

use std::collections::HashMap;
use std::time::Duration;

use analyzer::Failure;
use model::{Answer, FirstAnswer};

use crate::analysis::questions::QuestionSet;
use crate::billing::Prices;
use crate::runtime::{Error, Kind};

/// When to retry if the analyzer is busy and does not say for how long.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The answers, with the first analyzer's model and usage, and the latency of both.
pub(crate) struct AnalyzerResponse {
    pub(crate) answers: Vec<Answer>,
    pub(crate) model: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) latency_ms: u64,
    /// The trace that the call is part of.
    pub(crate) traceparent: Option<String>,
    /// The second analyzer's part, where it answered something.
    pub(crate) second: Option<SecondResponse>,
}

/// What the second analyzer's part of a response was, beside the answers that it gave.
pub(crate) struct SecondResponse {
    pub(crate) model: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// What the first analyzer had said, by the key of the signal.
    pub(crate) firsts: HashMap<String, FirstAnswer>,
}

impl AnalyzerResponse {
    /// Calibrates the answers of signals that have a calibration.
    pub(crate) fn calibrated(self, questions: &QuestionSet) -> Self {
        Self { answers: questions.calibrated(self.answers), ..self }
    }

    /// What its stages are billed, in micro-dollars.
    pub(crate) fn billed_micros(&self, prices: &Prices) -> i64 {
        let first = prices.billed_micros(&self.model, self.input_tokens, self.output_tokens);
        let second = self.second.as_ref().map_or(0, |second| {
            prices.billed_second_micros(&second.model, second.input_tokens, second.output_tokens)
        });
        first.saturating_add(second)
    }

    /// The same response with the usage of another call added, for requests that are charged once for several calls.
    pub(crate) fn with_usage_of(self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            ..self
        }
    }
}

pub(crate) fn none_answered() -> Failure {
    Failure::Failed("the analyzer answered none of the questions".into())
}

/// The error for a caller who waits when the analyzer fails.
pub(crate) fn refusal(failure: Failure) -> Error {
    match failure {
        Failure::Throttled { retry_after } => {
            Error::new(Kind::AnalyzerBusy, "the analyzer is rate-limiting; retry later")
                .retry_after(retry_after.unwrap_or(BUSY_WAIT))
        }
        Failure::Busy => {
            Error::new(Kind::AnalyzerBusy, "the analyzer is busy; retry later").retry_after(BUSY_WAIT)
        }
        Failure::OutOfTime => {
            let message = "the analyzer gave the inquiry up: it takes too long; ask less, or retry later";
            Error::new(Kind::AnalyzerBusy, message).retry_after(BUSY_WAIT)
        }
        // Nobody reads it.
        Failure::CallerLeft => Error::new(Kind::AnalyzerBusy, "the caller left"),
        Failure::Down(cause) | Failure::Failed(cause) => {
            Error::new(Kind::AnalyzerError, "the analyzer failed").because(cause)
        }
    }
}
