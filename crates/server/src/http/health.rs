//! Liveness and readiness.

use super::App;
use super::envelope::Refusal;
use axum::Json;
use axum::extract::State;
use model::api::{self, Health};

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

/// Check that the service is ready: its database responds and takes writes, and its workers run.
///
/// For load balancers: send no requests to a process that is not ready. It is not a reason to restart it.
#[utoipa::path(get, path = "/readyz", tag = "system", responses(
    (status = 200, body = Health),
    (status = 503, description = "`not_ready`: the database does not respond within a second, takes no writes, or has \
        recorded none of the events that wait for 5 seconds; or a worker has failed five times within a minute.", body = api::Error),
))]
pub(super) async fn ready(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    app.service.readiness.check().await.map_err(Refusal)?;
    Ok(Json(ok()))
}
