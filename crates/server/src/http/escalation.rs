//! Which answers of a signal go to the second analyzer.

use axum::Json;
use axum::extract::State;
use model::api::{Error, EscalationInput, SignalEscalation};

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Read which answers of a signal go to the second analyzer.
///
/// With what that has cost today. For those who see money.
#[utoipa::path(get, path = "/v1/signals/{key}/escalation", tag = "quality",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 200, body = SignalEscalation),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<Json<SignalEscalation>, Refusal> {
    Ok(Json(app.service.analysis.escalations.get(caller.tenant, &key).await?))
}

/// Set which answers of a signal go to the second analyzer.
///
/// A `band` of probabilities for `noul`, a confidence to be `below` for the other types, or a `target_error`, from which either is
/// fitted to the labels. `{"band": null}` ends it. It counts from the next analysis on, and is no new version of the signal.
#[utoipa::path(put, path = "/v1/signals/{key}/escalation", tag = "quality",
    params(("key" = String, Path, description = "The signal's key.")), request_body = EscalationInput, responses(
    (status = 200, body = SignalEscalation),
    (status = 404, description = "There is no such signal.", body = Error),
    (status = 409, description = "There is no second analyzer, or there are fewer than 50 labels of answers of the present version.",
     body = Error),
))]
pub(super) async fn set(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Json(input): extract::Json<EscalationInput>,
) -> Result<Json<SignalEscalation>, Refusal> {
    Ok(Json(app.service.analysis.escalations.set(caller, &key, &input).await?))
}
