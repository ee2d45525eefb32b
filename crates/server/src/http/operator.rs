//! For operators of the install: its health, and its accounts without their content.

use axum::Json;
use axum::extract::State;
use model::api::{Error, InstallHealth, OperatorTenantList};
use serde::Deserialize;
use service::{Error as ServiceError, Kind};
use utoipa::IntoParams;

use super::App;
use super::envelope::Refusal;
use super::extract;
use crate::disk;

/// Which accounts are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TenantParameters {
    /// The page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// Read how the install is, part by part.
///
/// For operators alone (`AUSPEX_OPERATORS`), who have proved their address. Each part has a state and a sentence that says what to do.
#[utoipa::path(get, path = "/v1/operator/health", tag = "operator", security(("console_token" = [])), responses(
    (status = 200, body = InstallHealth),
    (status = 403, description = "The user is no operator, or has not proved the address.", body = Error),
))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<InstallHealth>, Refusal> {
    // A network disk may hang.
    let directory = app.data_dir.clone();
    let disk = tokio::task::spawn_blocking(move || disk::free(&directory).judged()).await;
    let disk = disk
        .map_err(|panic| ServiceError::new(Kind::Internal, "the disk cannot be looked at").because(panic))?;
    Ok(Json(app.service.checkup.health(&app.service.readiness, disk).await?))
}

/// List the accounts of the install, oldest first.
///
/// For operators alone (`AUSPEX_OPERATORS`), who have proved their address. Balance and storage, and nothing of an account's content.
#[utoipa::path(get, path = "/v1/operator/tenants", tag = "operator", security(("console_token" = [])), params(TenantParameters), responses(
    (status = 200, body = OperatorTenantList),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
    (status = 403, description = "The user is no operator, or has not proved the address.", body = Error),
))]
pub(super) async fn tenants(
    State(app): State<App>,
    extract::Query(parameters): extract::Query<TenantParameters>,
) -> Result<Json<OperatorTenantList>, Refusal> {
    let TenantParameters { limit, cursor } = parameters;
    Ok(Json(app.service.accounts.operators.list_tenants(limit, cursor.as_deref()).await?))
}
