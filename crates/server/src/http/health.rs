//! Liveness and readiness.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use model::api::{self, Health};
use service::{Error, Kind};

use super::App;
use super::envelope::Refusal;

/// How long the database may take to respond before the service is not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Check that the process is alive.
///
/// Checks no dependencies.
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200, body = Health)))]
pub(super) async fn alive() -> Json<Health> {
    Json(ok())
}

fn ok() -> Health {
    Health { status: "ok".to_owned() }
}

/// Check that the service is ready: its database responds.
///
/// For load balancers: send no requests to a process that is not ready. It is not a reason to restart it.
#[utoipa::path(get, path = "/readyz", tag = "system", responses(
    (status = 200, body = Health),
    (status = 503, description = "`not_ready`: the database does not respond within a second.", body = api::Error),
))]
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    let not_ready = || Error::new(Kind::NotReady, "the database does not answer");
    match tokio::time::timeout(READY_TIMEOUT, app.service.store().ping()).await {
        Ok(Ok(())) => Ok(Json(ok())),
        Ok(Err(error)) => Err(Refusal(not_ready().because(error))),
        Err(elapsed) => Err(Refusal(not_ready().because(elapsed))),
    }
}
