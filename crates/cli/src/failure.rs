//! Why a command failed, what a person reads about it, and the exit code that a script sees.

use client::{Error, Refusal};

use crate::cells::harmless;
use crate::messages::{ErrorStyle, error_line};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A call failed.
    #[error("{0}")]
    Call(#[from] Error),
    /// The arguments cannot be used.
    #[error("{0}")]
    Usage(String),
    /// There are no credentials to call with.
    #[error("{0}")]
    NotSignedIn(String),
    /// What was named does not exist.
    #[error("{0}")]
    NotFound(String),
    /// What was given is not valid, as the service says.
    #[error("{0}")]
    Invalid(String),
    /// Nobody reads the output any more: the command ends at once, and that is good.
    #[error("standard output is closed")]
    OutputClosed,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Anything that has no exit code of its own.
    pub(crate) fn other(reason: impl std::fmt::Display) -> Self {
        Self::Other(reason.to_string())
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Call(Error::Setup(_)) => 2,
            Self::NotSignedIn(_) => 3,
            Self::NotFound(_) => 4,
            Self::Invalid(_) => 5,
            Self::Call(Error::Transport(_)) => 7,
            Self::Call(error) => error.status().map_or(1, code_of_status),
            Self::OutputClosed => 0,
            Self::Other(_) => 1,
        }
    }

    /// Prints it to standard error, with what to do about it and where to find it in the service's log.
    pub fn print(&self) {
        if matches!(self, Self::OutputClosed) {
            return;
        }
        let style = ErrorStyle::detect();
        error_line(&format!("{} {}", style.problem("auspex:"), harmless(&self.to_string())));
        for hint in self.hints() {
            error_line(&format!("  {}", style.hint(&hint)));
        }
    }

    fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        if let Self::NotSignedIn(_) | Self::Call(Error::Refused(Refusal { status: 401, .. })) = self {
            hints.push("sign in with: auspex login".to_owned());
        }
        let Self::Call(Error::Refused(refusal)) = self else { return hints };
        if refusal.events_recorded {
            hints.push("the events are recorded: do not send them again, read the answers later".to_owned());
        }
        if let Some(wait) = refusal.retry_after {
            hints.push(format!("try again in {} s", wait.as_secs().max(1)));
        }
        if let Some(id) = &refusal.request_id {
            hints.push(format!("request id {id}"));
        }
        hints
    }
}

fn code_of_status(status: u16) -> u8 {
    match status {
        401 | 403 => 3,
        404 => 4,
        400 | 409 | 422 => 5,
        429 | 503 => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        for (status, code) in [
            (400, 5),
            (401, 3),
            (402, 1),
            (403, 3),
            (404, 4),
            (409, 5),
            (422, 5),
            (429, 6),
            (500, 1),
            (503, 6),
        ] {
            let refusal = Refusal {
                status,
                code: "code".to_owned(),
                message: "message".to_owned(),
                retry_after: None,
                events_recorded: false,
                request_id: None,
            };
            assert_eq!(Failure::from(Error::Refused(refusal)).exit_code(), code, "{status}");
        }
        assert_eq!(Failure::Usage(String::new()).exit_code(), 2);
        assert_eq!(Failure::NotSignedIn(String::new()).exit_code(), 3);
        assert_eq!(Failure::NotFound(String::new()).exit_code(), 4);
        assert_eq!(Failure::Invalid(String::new()).exit_code(), 5);
        assert_eq!(Failure::OutputClosed.exit_code(), 0);
        assert_eq!(Failure::other("").exit_code(), 1);
    }
}
