//! Signals: the questions of the account, and asking without recording.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{
    Error, PlaygroundRequest, PlaygroundVerdict, Signal, SignalInput, SignalList, SystemOneRequest,
    SystemOneResponse,
};

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// List every configured signal, enabled or not.
#[utoipa::path(get, path = "/v1/signals", tag = "signals", responses((status = 200, body = SignalList)))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<SignalList>, Refusal> {
    Ok(Json(app.service.signals(caller.tenant).await?))
}

/// Make a signal, or replace its definition.
#[utoipa::path(put, path = "/v1/signals/{key}", tag = "signals",
    params(("key" = String, Path, description = "1 to 64 letters, digits and underscores, starting with a letter.")),
    request_body = SignalInput, responses((status = 200, body = Signal)))]
pub(super) async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Json(input): extract::Json<SignalInput>,
) -> Result<Json<Signal>, Refusal> {
    Ok(Json(app.service.put_signal(caller.tenant, &key, &input).await?))
}

/// Delete a signal and its answers.
#[utoipa::path(delete, path = "/v1/signals/{key}", tag = "signals",
    params(("key" = String, Path, description = "The signal.")), responses(
    (status = 204, description = "Deleted."),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<StatusCode, Refusal> {
    app.service.delete_signal(caller.tenant, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Score events without recording them.
///
/// Charged, and counted as a synchronous analysis.
#[utoipa::path(post, path = "/v1/playground", tag = "signals", request_body = PlaygroundRequest, responses(
    (status = 200, body = PlaygroundVerdict),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn playground(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<PlaygroundRequest>,
) -> Result<Json<PlaygroundVerdict>, Refusal> {
    Ok(Json(app.service.play(caller.tenant, request).await?))
}

/// Ask questions about a state.
///
/// The wire format of typed decision models. Nothing is recorded; it is charged, and counted as a synchronous analysis.
#[utoipa::path(post, path = "/v1/systemone", tag = "signals", request_body = SystemOneRequest, responses(
    (status = 200, body = SystemOneResponse),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn system_one(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<SystemOneRequest>,
) -> Result<Json<SystemOneResponse>, Refusal> {
    Ok(Json(app.service.system_one(caller.tenant, &request).await?))
}
