//! What can go wrong with a call.

use std::fmt;
use std::time::Duration;

/// Why a call did not come to its answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The service was not reached, or went away before it had answered. Whether it did anything is not known.
    #[error("the service cannot be reached: {}", chain(.0))]
    Transport(reqwest::Error),
    /// What answered is not this service, or another version of it.
    #[error("the answer with status {status} cannot be read: {reason}")]
    Unreadable {
        /// The status of the answer.
        status: u16,
        /// What does not fit.
        reason: String,
    },
    /// The client or the call cannot be made as it is described; nothing was sent.
    #[error("{0}")]
    Setup(String),
}

/// A refusal, in the service's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Stable, for programs: `bad_request`, `payment_required`, …
    pub code: String,
    /// For people; its text may change.
    pub message: String,
    /// How long the service asks to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the events of the request were recorded all the same. If so, do not send them again: ask for an analysis
    /// later.
    pub events_recorded: bool,
    /// What the service's log calls the request.
    pub request_id: Option<String>,
}

impl Error {
    /// The refusal, if that is what it is.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Unreadable { status, .. } => Some(*status),
            Self::Transport(_) | Self::Setup(_) => None,
        }
    }

    /// The stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.code.as_str())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {})", self.message, self.status, self.code)
    }
}

/// An error with its causes: the outermost of a connection's only says that there is one.
fn chain(error: &reqwest::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
