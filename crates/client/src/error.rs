//! The errors of calls.

use std::fmt;
use std::time::Duration;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service responded with an error.
    #[error("{0}")]
    Refused(Refusal),
    /// The service could not be reached, or the connection ended before the response. It may have processed the request.
    #[error("the service cannot be reached: {}", chain(.0))]
    Transport(reqwest::Error),
    /// The response could not be parsed: it is from something else, or from another version of the service.
    #[error("the answer with status {status} cannot be read: {reason}")]
    Unreadable {
        /// The HTTP status.
        status: u16,
        /// Why it could not be parsed.
        reason: String,
    },
    /// The client or the call is invalid; nothing was sent.
    #[error("{0}")]
    Setup(String),
    /// There was no time left to wait for the response. The service may have processed the request.
    #[error("{0}")]
    GivenUp(String),
}

/// An error response of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// A stable code, for programs: `bad_request`, `payment_required`, …
    pub code: String,
    /// A message for people; its text may change.
    pub message: String,
    /// How long the service asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// Whether the events of the request were recorded despite the error. If so, do not send them again: ask for an
    /// analysis later.
    pub events_recorded: bool,
    /// The id of the request in the service's log.
    pub request_id: Option<String>,
}

impl Error {
    /// The error response, if there was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Unreadable { status, .. } => Some(*status),
            Self::Transport(_) | Self::Setup(_) | Self::GivenUp(_) => None,
        }
    }

    /// The stable code of the error response, if there was one.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.code.as_str())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {})", self.message, self.status, self.code)
    }
}

/// An error with its causes: the outermost one only says that the connection failed.
fn chain(error: &reqwest::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
