//! Middleware around every route: request id and log span, metrics, headers, CORS, compression, and panic handling.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use service::traces::Step;
use service::{Error, Kind};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use tracing::{Instrument as _, debug, info_span};
use url::Url;

use super::App;
use super::client_address::{ClientAddress, RequestId};
use super::envelope::Refusal;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is accepted from a client: enough for a UUID or any trace id.
const MAX_REQUEST_ID: usize = 128;
/// Routes that are not traced: health checks and scrapes come all day and tell nothing.
const UNTRACED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// How long a browser may cache the CORS response.
const CORS_MAX_AGE: Duration = Duration::from_hours(1);

/// Adds the middleware to the routes, outermost last.
pub(super) fn wrap(routes: Router<App>, app: &App) -> Router<App> {
    routes
        .layer(CatchPanicLayer::custom(handle_panic))
        .layer(CompressionLayer::new())
        .layer(cors(&app.public_url))
        .layer(middleware::from_fn_with_state(app.clone(), security_headers))
        .layer(middleware::from_fn_with_state(app.clone(), assign_request_id))
}

/// Assigns the request id, which is in every log line about the request and in the response; traces and meters the request.
async fn assign_request_id(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    mut request: Request,
    next: Next,
) -> Response {
    // Counts the request's body for as long as the request is handled.
    let lease = app.bodies.lease(address);
    request.extensions_mut().insert(Arc::clone(&lease));
    let sent = request.headers().get(REQUEST_ID).filter(|id| is_valid_id(id.as_bytes())).cloned();
    let id = sent.unwrap_or_else(|| {
        let id = app.service.random().id(app.service.clock().now()).to_string();
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    });
    request.extensions_mut().insert(RequestId(id.to_str().unwrap_or_default().into()));
    // The caller's trace is continued, if there is one.
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    // The route, not the path: ids may be personal data, and misplaced secrets must not get into the log.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let matched = matched.as_ref().map(MatchedPath::as_str);
    let route: Arc<str> = matched.unwrap_or("unknown").into();
    let method = known_method(request.method());
    let is_untraced = matched.is_some_and(|route| UNTRACED.contains(&route));
    let step = if is_untraced {
        Step::default()
    } else {
        app.service.traces().request(method, matched, traceparent)
    };
    let span = info_span!("request", id = id.to_str().unwrap_or_default(), trace = step.trace_id(), method = %request.method(), route = route.as_ref());
    let started = Instant::now();
    let handled = async move {
        let response = next.run(request).await;
        debug!(status = response.status().as_u16(), elapsed_us = started.elapsed().as_micros(), "answered");
        response
    };
    let mut response = step.around(handled.instrument(span)).await;
    drop(lease);
    let status = response.status();
    step.note("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        step.fail(status.as_str().to_owned());
    }
    drop(step);
    meter(method, route, status, started);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Counts and times a request by route template: paths are unbounded, and each would be a series of its own. Durations have
/// no label for the method or the status, because each value would be another histogram.
fn meter(method: &'static str, route: Arc<str>, status: StatusCode, started: Instant) {
    let status = status.as_u16().to_string();
    metrics::counter!("auspex_http_requests_total", "method" => method, "route" => Arc::clone(&route), "status" => status)
        .increment(1);
    metrics::histogram!("auspex_http_request_duration_seconds", "route" => route).record(started.elapsed());
}

/// The method as a label: clients may send any method, so unknown ones share a label.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Accepts letters, digits and some punctuation: nothing that could forge a log line.
fn is_valid_id(id: &[u8]) -> bool {
    (1..=MAX_REQUEST_ID).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte))
}

/// Sets security headers that the handler has not set.
async fn security_headers(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut default = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    default(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    default(header::X_FRAME_OPTIONS, "DENY");
    default(header::REFERRER_POLICY, "no-referrer");
    default(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    default(header::CACHE_CONTROL, "no-store");
    if app.public_url.scheme() == "https" {
        default(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}

/// Allows only the console's own origin to read responses.
fn cors(public_url: &Url) -> CorsLayer {
    let origin = HeaderValue::from_str(&public_url.origin().ascii_serialization());
    let exposed = [
        "x-request-id",
        "retry-after",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "x-cache",
        "idempotent-replayed",
        "events-recorded",
    ];
    CorsLayer::new()
        .allow_origin(origin.map_or_else(|_| AllowOrigin::list([]), AllowOrigin::exact))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            HeaderName::from_static("idempotency-key"),
            REQUEST_ID,
        ])
        .expose_headers(exposed.map(HeaderName::from_static))
        .max_age(CORS_MAX_AGE)
}

fn handle_panic(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default();
    Refusal(Error::new(Kind::Internal, "internal error").because(format!("panic: {message}"))).into_response()
}
