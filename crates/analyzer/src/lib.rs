//! Analyzers, which answer questions about an object: one trait, and the models that implement it.
//!
//! An analyzer reads the history of an object, which its caller has rendered as text of a bounded length, and gives a
//! probability for every candidate of each question. It stores nothing and retries nothing; a failure says whether and
//! when to retry.

mod adaptive_limit;
mod anthropic;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "embedded")]
mod fair_slots;
mod http;
mod instrument;
mod json_answers;
mod openai;
mod prompt;
mod slots;
mod systemone;
mod word_counter;

use std::error::Error as StdError;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use model::{Distribution, Question, TenantId};

pub use adaptive_limit::AdaptiveLimit;
pub use anthropic::Anthropic;
#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use http::{Endpoint, InvalidEndpoint};
pub use openai::OpenAi;
pub use systemone::SystemOne;
pub use word_counter::WordCounter;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The cause of a failure, for the log.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Answers questions about one object.
pub trait Analyzer: Send + Sync {
    /// The name of the model, in records and prices.
    fn model(&self) -> &str;

    /// Answers every question of the inquiry, within the analyzer's own deadline.
    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>>;

    /// The tokens that answering the inquiry would read, where that can be known beforehand.
    fn count_tokens<'a>(&'a self, _inquiry: Inquiry<'a>) -> BoxFuture<'a, Option<u64>> {
        Box::pin(std::future::ready(None))
    }

    /// Answers the only question of an inquiry, first about the whole state and then about the state without each of some
    /// parts, given by their bytes: the state is read once, and the question again for each part. There are answers for as
    /// many of the parts, from the first on, as can be tried in a bounded time. None if the analyzer cannot do so.
    fn analyze_unread<'a>(
        &'a self,
        _inquiry: Inquiry<'a>,
        _parts: &'a [Range<usize>],
    ) -> Option<BoxFuture<'a, Result<InquiryAnswers, Failure>>> {
        None
    }

    /// Whether a call costs nothing more once its future is dropped. Such a call is dropped when its caller leaves; any
    /// other one is finished, because it must be paid for all the same.
    fn is_cancellable(&self) -> bool {
        false
    }
}

/// Questions about one object.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// The history of the object as text. The caller bounds its length.
    pub state: &'a str,
    /// The questions. Their keys are not shown to the model.
    pub questions: &'a [Question],
    /// Whether a caller is waiting for the answers: then it goes before inquiries of the queue.
    pub is_urgent: bool,
    /// Whose inquiry it is: tenants take turns.
    pub tenant: Option<TenantId>,
}

/// The answers to an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub struct InquiryAnswers {
    /// The model that answered.
    pub model: String,
    /// One for each question, in the order of the questions. At least one is an answer, unless there was no question.
    pub answers: Vec<Result<Distribution, AnswerError>>,
    /// Tokens read, summed over all requests.
    pub input_tokens: u64,
    /// Tokens written, summed over all requests.
    pub output_tokens: u64,
}

/// Why one question has no answer although others may have one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The model omitted the question.
    #[error("the question was not answered")]
    Missing,
    /// The model would write something other than a candidate.
    #[error("none of the candidates is among the likeliest tokens")]
    NoCandidate,
    /// A candidate is missing, its probability is negative or not finite, or all probabilities are zero.
    #[error("the answer does not have a valid probability for every candidate")]
    Incomplete,
    /// The request for this question failed.
    #[error("{0}")]
    Failed(String),
}

/// Why an inquiry has no answers.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The analyzer is rate-limiting. Nothing is wrong with it or with the inquiry.
    #[error("the analyzer is rate-limiting; retry later")]
    Throttled {
        /// How long to wait, if the analyzer says so.
        retry_after: Option<Duration>,
    },
    /// Other inquiries had all the time that this one could wait. Nothing is wrong with the analyzer or with the inquiry.
    #[error("the analyzer is busy; retry later")]
    Busy,
    /// The analyzer cannot be reached, so it has done nothing and charged nothing.
    #[error("the analyzer cannot be reached")]
    Down(#[source] Cause),
    /// The analyzer failed or timed out. A timeout is not `Down`: an inquiry that takes too long is likely to take too
    /// long again, so it must use up its attempts.
    #[error("the analyzer failed")]
    Failed(#[source] Cause),
    /// The inquiry takes more than the analyzer's time allows, and was given up. It is likely to take as long again, so it
    /// must use up its attempts.
    #[error("the inquiry takes longer than the analyzer may take")]
    OutOfTime,
    /// The caller left, and the call was dropped.
    #[error("the caller left")]
    CallerLeft,
}

impl Failure {
    fn failed(cause: impl Into<Cause>) -> Self {
        Self::Failed(cause.into())
    }
}

/// An error and its causes in one line.
fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Tokens read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    input: u64,
    output: u64,
}

impl Usage {
    /// An estimate for servers that do not count tokens: four bytes for each, as is usual for English.
    fn estimate(input_bytes: usize, output_bytes: usize) -> Self {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        Self { input: tokens(input_bytes), output: tokens(output_bytes) }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        // The server's numbers are not trusted: they must not cause an overflow.
        all.fold(Self::default(), |sum, one| Self {
            input: sum.input.saturating_add(one.input),
            output: sum.output.saturating_add(one.output),
        })
    }
}
