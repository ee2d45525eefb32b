//! `/v1/moderations`, for clients of OpenAI's moderation endpoint.

use axum::Json;
use axum::extract::State;
use model::api::{CreateModeration, Error, Moderation};

use super::App;
use super::authenticate::Authenticated;
use super::body_budget::Leased;
use super::envelope::Refusal;
use super::extract;

/// Classify texts by the categories of OpenAI's moderation endpoint.
///
/// Takes and answers what that endpoint does, with a bearer key that has the scope `moderate`. Each text is read on its own:
/// nothing is recorded and no rule fires. Billed and limited like a verdict. A signal of the account with a category's name, in
/// lower case with underscores (`harassment_threatening`), is asked instead of the built-in question.
#[utoipa::path(post, path = "/v1/moderations", tag = "moderation", request_body = CreateModeration,
    security(("bearer_key" = [])), responses(
    (status = 200, body = Moderation),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    lease: Leased,
    extract::Json(request): extract::Json<CreateModeration>,
) -> Result<Json<Moderation>, Refusal> {
    let moderation = app.service.analysis.moderation.clone();
    let analysis = |waiting| async move {
        let _lease = lease;
        moderation.moderate(caller.tenant, &request, &waiting).await
    };
    Ok(Json(app.service.run_to_end(analysis).await?))
}
