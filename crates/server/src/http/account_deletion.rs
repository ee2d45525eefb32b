//! The deletion of the account, asked for by an owner.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{AccountDeletion, AccountDeletionRequest, Error};

use super::App;
use super::authenticate::Member;
use super::envelope::Refusal;
use super::extract;

/// Ask for the deletion of the account.
///
/// After seven days everything of the account is deleted, except for the sums of its ledger. Until then it works as before, and
/// an owner can take this back. Every owner is mailed. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/account/deletion", tag = "account", security(("console_token" = [])),
    request_body = AccountDeletionRequest, responses(
    (status = 202, description = "The account will be deleted.", body = AccountDeletion),
    (status = 403, description = "Only an owner may do this; or `reauthentication_required`.", body = Error),
))]
pub(super) async fn request(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<AccountDeletionRequest>,
) -> Result<(StatusCode, Json<AccountDeletion>), Refusal> {
    let deletion = app.service.accounts.deletions.request(member.caller, &request).await?;
    Ok((StatusCode::ACCEPTED, Json(deletion)))
}

/// Take back the deletion of the account.
///
/// Every owner is mailed. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(delete, path = "/v1/account/deletion", tag = "account", security(("console_token" = [])), responses(
    (status = 204, description = "The account stays."),
    (status = 403, description = "Only an owner may do this; or `reauthentication_required`.", body = Error),
    (status = 404, description = "Nobody has asked for the deletion.", body = Error),
))]
pub(super) async fn cancel(State(app): State<App>, member: Member) -> Result<StatusCode, Refusal> {
    app.service.accounts.deletions.cancel(member.caller).await?;
    Ok(StatusCode::NO_CONTENT)
}
