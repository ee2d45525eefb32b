//! The format of every error response: `{"error": {"code", "message"}}`. Codes are stable; messages are for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::api::{self, ErrorBody};
use service::{Error, Kind};
use tracing::{error, info, warn};

/// An error response.
pub(crate) struct Refusal(pub(crate) Error);

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, error) = body_of(&self.0);
        let mut response = (status, Json(api::Error { error: error.clone() })).into_response();
        // For routes in the shape of another service, which has a format of its own.
        response.extensions_mut().insert(error);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.0.events_recorded() {
            response.headers_mut().insert("events-recorded", HeaderValue::from_static("true"));
        }
        if let Some(wait) = self.0.wait() {
            // Rounded up, so that a client that waits this long is not refused again.
            let seconds = wait.as_millis().div_ceil(1_000).max(1);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
        }
        response
    }
}

/// The status of an error and what clients are told about it. Server errors are logged.
pub(super) fn body_of(error: &Error) -> (StatusCode, ErrorBody) {
    let (status, code) = status_and_code(error.kind());
    log(error, status);
    (status, ErrorBody { code: code.to_owned(), message: error.message().to_owned() })
}

/// Logs server errors with their cause, and why a credential was refused, which the response does not say. Other client errors
/// are not logged.
fn log(refusal: &Error, status: StatusCode) {
    if !status.is_server_error() && status != StatusCode::UNAUTHORIZED {
        return;
    }
    let mut causes = Vec::new();
    let mut cause = refusal.cause().map(|cause| cause as &dyn std::error::Error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    if status == StatusCode::UNAUTHORIZED {
        info!(status = status.as_u16(), cause = causes.join(": "), "{refusal}");
    } else if refusal.kind() == Kind::Internal {
        error!(status = status.as_u16(), cause = causes.join(": "), "{refusal}");
    } else {
        warn!(status = status.as_u16(), cause = causes.join(": "), "{refusal}");
    }
}

fn status_and_code(kind: Kind) -> (StatusCode, &'static str) {
    match kind {
        Kind::BadRequest => (StatusCode::BAD_REQUEST, "bad_request"),
        Kind::WeakPassword => (StatusCode::BAD_REQUEST, "weak_password"),
        Kind::InvalidPassword => (StatusCode::BAD_REQUEST, "invalid_password"),
        Kind::InvalidCode => (StatusCode::BAD_REQUEST, "invalid_code"),
        Kind::InvalidPasskey => (StatusCode::BAD_REQUEST, "invalid_passkey"),
        Kind::InvalidToken => (StatusCode::BAD_REQUEST, "invalid_token"),
        Kind::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
        Kind::MfaRequired => (StatusCode::UNAUTHORIZED, "mfa_required"),
        Kind::PaymentRequired => (StatusCode::PAYMENT_REQUIRED, "payment_required"),
        Kind::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
        Kind::Suspended => (StatusCode::FORBIDDEN, "suspended"),
        Kind::ReauthenticationRequired => (StatusCode::FORBIDDEN, "reauthentication_required"),
        Kind::StorageQuotaExceeded => (StatusCode::FORBIDDEN, "storage_quota_exceeded"),
        Kind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        Kind::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
        Kind::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
        Kind::Conflict => (StatusCode::CONFLICT, "conflict"),
        Kind::NotEnoughLabels => (StatusCode::CONFLICT, "not_enough_labels"),
        Kind::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
        Kind::IdempotencyKeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
        Kind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
        Kind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        Kind::AnalyzerError => (StatusCode::BAD_GATEWAY, "analyzer_error"),
        Kind::IdentityProviderError => (StatusCode::BAD_GATEWAY, "identity_provider_error"),
        Kind::PaymentProviderError => (StatusCode::BAD_GATEWAY, "payment_provider_error"),
        Kind::AnalyzerBusy => (StatusCode::SERVICE_UNAVAILABLE, "analyzer_busy"),
        Kind::PaymentsNotConfigured => (StatusCode::SERVICE_UNAVAILABLE, "payments_not_configured"),
        Kind::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
    }
}
