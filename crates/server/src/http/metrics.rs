//! The metrics page, for operators.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use model::api;
use service::{Error, Kind};
use subtle::ConstantTimeEq as _;

use super::App;
use super::authenticate::bearer;
use super::client_address::ClientAddress;
use super::envelope::Refusal;

/// The content type of the Prometheus text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Read the metrics in Prometheus text.
///
/// Rates and latency of requests by route, outcomes of analyses, latency and throttling of the analyzer, depth and lag
/// of the queues, running analyses by tenant, deliveries, and more. If a metrics token is configured, it is required; in
/// production, metrics are served only if one is configured.
#[utoipa::path(get, path = "/metrics", tag = "system", security(("metrics_token" = []), ()), responses(
    (status = 200, description = "Prometheus text.", body = String, content_type = "text/plain",
     example = json!("# TYPE auspex_http_requests_total counter\nauspex_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1\n")),
    (status = 401, description = "The metrics token is missing or wrong.", body = api::Error),
    (status = 404, description = "Metrics are disabled.", body = api::Error),
    (status = 429, description = "Too many failures from this address; `Retry-After` says how long to wait.", body = api::Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Refusal> {
    let Some(meters) = &app.meters else {
        return Err(Error::new(Kind::NotFound, "metrics are disabled").into());
    };
    if let Some(token) = meters.token() {
        let presented = bearer(&headers).unwrap_or_default();
        if !bool::from(presented.as_bytes().ct_eq(token.as_bytes())) {
            app.service.addresses.count(address).permit()?;
            let refusal = Error::new(Kind::Unauthorized, "unauthorized");
            return Err(refusal.because("the metrics token is missing or wrong").into());
        }
    }
    Ok(([(header::CONTENT_TYPE, TEXT)], meters.page(&app.service).await))
}
