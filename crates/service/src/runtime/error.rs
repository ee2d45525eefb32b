//! Why a use case was refused or failed: a kind for programs, a message for people, and a cause for the log alone.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure. Its cause reaches the log, never the client.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    retry_after: Option<Duration>,
    events_recorded: bool,
    cause: Option<Cause>,
}

#[derive(Debug)]
enum Cause {
    Store(store::Error),
    Other(Box<dyn StdError + Send + Sync>),
}

/// What kind of refusal it is. The transport gives each its status and its stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed or fails validation.
    BadRequest,
    /// The password is too easy to guess.
    WeakPassword,
    /// The current password given is not the account's.
    InvalidPassword,
    /// The authenticator or recovery code is not valid.
    InvalidCode,
    /// The reset link is unknown, used or too old.
    InvalidToken,
    /// The credential is missing, invalid, expired or revoked.
    Unauthorized,
    /// The password is right and an authenticator code is needed too.
    MfaRequired,
    /// The prepaid balance is empty.
    PaymentRequired,
    /// The credential is valid, the action is not allowed.
    Forbidden,
    /// There is no such thing, or it is another tenant's.
    NotFound,
    /// The thing is there, the method is not.
    MethodNotAllowed,
    /// It conflicts with the current state.
    Conflict,
    /// The body is larger than the limit.
    PayloadTooLarge,
    /// The idempotency key was used for another object.
    IdempotencyKeyReused,
    /// Too many requests or attempts.
    RateLimited,
    /// The request did not arrive in time.
    RequestTimeout,
    /// Something of ours broke.
    Internal,
    /// The analyzer failed upstream.
    AnalyzerError,
    /// The identity provider failed.
    IdentityProviderError,
    /// The payment provider failed.
    PaymentProviderError,
    /// The analyzer is rate-limiting; retry later.
    AnalyzerBusy,
    /// Card payments are not configured.
    PaymentsNotConfigured,
    /// The database does not answer.
    NotReady,
}

impl Error {
    /// A refusal of this kind, with a message that names what is wrong.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, events_recorded: false, cause: None }
    }

    /// A malformed request or a value that fails validation.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// The refusal of a credential, the same for every reason.
    pub(crate) fn unauthorized() -> Self {
        Self::new(Kind::Unauthorized, "unauthorized")
    }

    /// The refusal of work that nobody can pay for.
    pub(crate) fn payment_required() -> Self {
        Self::new(Kind::PaymentRequired, "the prepaid balance is empty")
    }

    /// The same, after which it makes sense to try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same, with what lies underneath, for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(Cause::Other(cause.into()));
        self
    }

    /// The same, of a request whose events were recorded all the same and must not be sent again.
    #[must_use]
    pub fn with_events_recorded(mut self) -> Self {
        self.events_recorded = true;
        self
    }

    /// Whether the request's events were recorded all the same.
    pub fn events_recorded(&self) -> bool {
        self.events_recorded
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What a person may read.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long to wait before trying again, where that helps.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What lies underneath, for the log.
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        match self.cause.as_ref()? {
            Cause::Store(error) => Some(error),
            Cause::Other(error) => Some(error.as_ref()),
        }
    }
}

/// A failure of ours, with its cause for the log.
pub(crate) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::new(Kind::Internal, "internal error").because(cause)
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let (kind, message) = if error.is_unavailable() {
            (Kind::NotReady, "the database does not answer")
        } else {
            (Kind::Internal, "internal error")
        };
        Self { cause: Some(Cause::Store(error)), ..Self::new(kind, message) }
    }
}

impl store::StoreError for Error {
    fn store_error(&self) -> Option<&store::Error> {
        match &self.cause {
            Some(Cause::Store(error)) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause()
    }
}
