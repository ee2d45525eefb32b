//! Errors of the use cases: a kind for programs, a message for users, and a cause for the log only.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// A result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or a failure. Its cause is logged, and never sent to the client.
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

/// The kind of an error. The HTTP layer maps each to a status and a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is malformed or fails validation.
    BadRequest,
    /// The password is too easy to guess.
    WeakPassword,
    /// The current password is wrong.
    InvalidPassword,
    /// The authenticator or recovery code is not valid.
    InvalidCode,
    /// The passkey, its challenge or its signature is not valid.
    InvalidPasskey,
    /// The reset link is unknown, used or expired.
    InvalidToken,
    /// The credential is missing, invalid, expired or revoked.
    Unauthorized,
    /// The password is correct, and an authenticator code is required.
    MfaRequired,
    /// The prepaid balance is empty.
    PaymentRequired,
    /// The tenant stores as much as it may.
    StorageQuotaExceeded,
    /// The credential is valid, but the action is not allowed.
    Forbidden,
    /// The credential is valid, but its account is suspended.
    Suspended,
    /// The session has not shown a password, a code, a passkey or a provider recently.
    ReauthenticationRequired,
    /// The resource does not exist, or belongs to another tenant.
    NotFound,
    /// The resource exists, but does not support the method.
    MethodNotAllowed,
    /// The request conflicts with the current state.
    Conflict,
    /// There are too few labels for what was asked.
    NotEnoughLabels,
    /// The body is larger than the limit.
    PayloadTooLarge,
    /// The idempotency key was used for another object.
    IdempotencyKeyReused,
    /// Too many requests or attempts.
    RateLimited,
    /// The request did not arrive in time.
    RequestTimeout,
    /// An internal error.
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
    /// An error of this kind, with a message that says what is wrong.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, events_recorded: false, cause: None }
    }

    /// A malformed request or a value that fails validation.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, message)
    }

    /// The refusal of a credential: the same for every reason.
    pub(crate) fn unauthorized() -> Self {
        Self::new(Kind::Unauthorized, "unauthorized")
    }

    /// The refusal of a credential, with the reason for the log.
    pub(crate) fn refused(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::unauthorized().because(reason)
    }

    /// The refusal of a credential whose user or account has gone since it was authenticated.
    pub(crate) fn gone() -> Self {
        Self::refused("the user or the account is gone")
    }

    /// The refusal of everybody whose account the operator has suspended.
    pub(crate) fn suspended() -> Self {
        Self::new(Kind::Suspended, "the account is suspended: ask the operator of this service")
    }

    /// The refusal of work that the tenant cannot pay for.
    pub(crate) fn payment_required() -> Self {
        Self::new(Kind::PaymentRequired, "the prepaid balance is empty")
    }

    /// Adds the time after which a retry makes sense.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds the underlying cause, for the log.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(Cause::Other(cause.into()));
        self
    }

    /// Marks that the request's events were recorded despite the error, and must not be sent again.
    #[must_use]
    pub fn with_events_recorded(mut self) -> Self {
        self.events_recorded = true;
        self
    }

    /// Whether the request's events were recorded despite the error.
    pub fn events_recorded(&self) -> bool {
        self.events_recorded
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message for users.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long to wait before a retry, where that makes sense.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The underlying cause, for the log.
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        match self.cause.as_ref()? {
            Cause::Store(error) => Some(error),
            Cause::Other(error) => Some(error.as_ref()),
        }
    }
}

/// An internal error, with its cause for the log.
pub(crate) fn internal(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::new(Kind::Internal, "internal error").because(cause)
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        // A conflict that did not pass before the deadline is no fault of the request.
        let (kind, message) = if error.is_unavailable() || error.is_transient() {
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
