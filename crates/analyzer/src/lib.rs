//! What answers questions about an object: one trait, and the models that can stand behind it.
//!
//! An analyzer reads a dossier that its caller has rendered as text and bounded, and says for each question how likely
//! every candidate is. It stores nothing and retries nothing; it says whether to try again, and when.

mod anthropic;
#[cfg(feature = "embedded")]
mod embedded;
mod http;
mod measure;
mod openai;
mod pace;
mod places;
mod prompt;
mod shares;
mod systemone;
mod words;

use std::error::Error as StdError;
use std::pin::Pin;
use std::time::Duration;

use model::{Distribution, Question};

pub use anthropic::Anthropic;
#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use http::{Endpoint, InvalidEndpoint};
pub use openai::OpenAi;
pub use pace::Pace;
pub use systemone::SystemOne;
pub use words::Words;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What lies underneath a failure, for the log.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Answers questions about one object.
pub trait Analyzer: Send + Sync {
    /// The model that answers, as records and prices name it.
    fn model(&self) -> &str;

    /// Answers every question of the inquiry, within the analyzer's own deadline.
    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>>;
}

/// What is asked, and about what.
#[derive(Clone, Copy, Debug)]
pub struct Inquiry<'a> {
    /// The dossier as text. The caller bounds its length.
    pub state: &'a str,
    /// The questions. Their keys are for the caller alone; no model sees them.
    pub questions: &'a [Question],
    /// Whether somebody waits for the answers: then it goes before those that nobody waits for.
    pub is_urgent: bool,
}

/// What came of an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The model that answered.
    pub model: String,
    /// One for each question, in their order. At least one of them is an answer, unless nothing was asked.
    pub answers: Vec<Result<Distribution, AnswerError>>,
    /// Tokens read, over all requests that it took.
    pub input_tokens: u64,
    /// Tokens written, over all requests that it took.
    pub output_tokens: u64,
}

/// Why one question has no answer although the analyzer could be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The model left the question out.
    #[error("the question was not answered")]
    Missing,
    /// The model wants to say something else.
    #[error("none of the candidates is among the likeliest tokens")]
    NoCandidate,
    /// A candidate is missing, or its share is negative or not finite, or all shares are zero.
    #[error("the answer is not a share for every candidate")]
    Incomplete,
    /// The request for this question alone failed.
    #[error("{0}")]
    Failed(String),
}

/// Why an inquiry has no findings.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The analyzer asks for patience. It is well, and so is the inquiry.
    #[error("the analyzer asks for patience")]
    Throttled {
        /// How long it asks for, where it says so.
        retry_after: Option<Duration>,
    },
    /// The analyzer cannot be reached, so it has done nothing and charged nothing.
    #[error("the analyzer cannot be reached")]
    Down(#[source] Cause),
    /// The analyzer failed, or did not answer in time. Too late is not `Down`: an inquiry that takes too long today takes
    /// too long tomorrow, so it must use up its tries.
    #[error("the analyzer failed")]
    Failed(#[source] Cause),
}

impl Failure {
    fn failed(cause: impl Into<Cause>) -> Self {
        Self::Failed(cause.into())
    }
}

/// An error and all that lies underneath, in one line.
fn in_full(error: &(dyn StdError + 'static)) -> String {
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
    /// What was written and read, when the server does not count: four bytes to a token, as is usual for English.
    fn estimate(input_bytes: usize, output_bytes: usize) -> Self {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        Self { input: tokens(input_bytes), output: tokens(output_bytes) }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        // A server that makes up its numbers must not make us overflow.
        all.fold(Self::default(), |sum, one| Self {
            input: sum.input.saturating_add(one.input),
            output: sum.output.saturating_add(one.output),
        })
    }
}
