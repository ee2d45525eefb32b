//! The check of conditions.

use axum::Json;
use axum::extract::State;
use model::api::{ConditionCheck, ConditionCheckRequest, Error};

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Check a condition.
///
/// For editors: says what is wrong with a condition and where, which signals it names, and how many objects it is true for now.
/// An invalid condition is no error of the request. For a query, whatever the list of objects would skip is an error.
#[utoipa::path(post, path = "/v1/conditions/check", tag = "rules", request_body = ConditionCheckRequest, responses(
    (status = 200, body = ConditionCheck),
    (status = 400, description = "The body is malformed.", body = Error),
))]
pub(super) async fn check(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<ConditionCheckRequest>,
) -> Result<Json<ConditionCheck>, Refusal> {
    Ok(Json(app.service.objects.conditions.check(caller.tenant, &request).await?))
}
