//! Members of the account, and invitations to become one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::UserId;
use model::api::{
    Error, Invitation, InvitationAcceptRequest, InvitationCreate, InvitationList, Member as MemberRecord,
    MemberList, MemberRemoved, MemberUpdate, Token,
};
use serde::Deserialize;
use service::PageQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Member;
use super::client_address::Client;
use super::envelope::Refusal;
use super::extract;
use super::session_answer::SessionAnswer;

/// Which part of a list is wanted.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// The page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

impl From<Page> for PageQuery {
    fn from(Page { limit, cursor }: Page) -> Self {
        Self { limit, cursor }
    }
}

/// How a member is removed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Removal {
    /// Also revoke the API keys that the member made.
    #[serde(default)]
    revoke_keys: bool,
}

/// List the members of the account.
///
/// Everybody who can sign in, oldest first.
#[utoipa::path(get, path = "/v1/members", tag = "members", security(("console_token" = [])), params(Page), responses(
    (status = 200, body = MemberList),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    member: Member,
    extract::Query(page): extract::Query<Page>,
) -> Result<Json<MemberList>, Refusal> {
    Ok(Json(app.service.accounts.members.list(member.tenant, &page.into()).await?))
}

/// Change the role of a member.
///
/// Only owners make and unmake owners. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(patch, path = "/v1/members/{user_id}", tag = "members", security(("console_token" = [])),
    params(("user_id" = Uuid, Path, description = "The user's id.")), request_body = MemberUpdate, responses(
    (status = 200, body = MemberRecord),
    (status = 403, description = "The caller's role may not do this; or `reauthentication_required`.", body = Error),
    (status = 404, description = "There is no such member.", body = Error),
    (status = 409, description = "It is the last owner.", body = Error),
))]
pub(super) async fn update(
    State(app): State<App>,
    member: Member,
    extract::Path(user_id): extract::Path<Uuid>,
    extract::Json(update): extract::Json<MemberUpdate>,
) -> Result<Json<MemberRecord>, Refusal> {
    Ok(Json(app.service.accounts.members.update(member.caller, UserId(user_id), &update).await?))
}

/// Remove a member.
///
/// Their sessions end at once; what they made stays. The response lists the API keys that they made, which go on working unless
/// `revoke_keys` is true. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(delete, path = "/v1/members/{user_id}", tag = "members", security(("console_token" = [])),
    params(("user_id" = Uuid, Path, description = "The user's id."), Removal), responses(
    (status = 200, body = MemberRemoved),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 403, description = "The caller's role may not do this; or `reauthentication_required`.", body = Error),
    (status = 404, description = "There is no such member.", body = Error),
    (status = 409, description = "It is the last owner.", body = Error),
))]
pub(super) async fn remove(
    State(app): State<App>,
    member: Member,
    extract::Path(user_id): extract::Path<Uuid>,
    extract::Query(removal): extract::Query<Removal>,
) -> Result<Json<MemberRemoved>, Refusal> {
    let members = &app.service.accounts.members;
    Ok(Json(members.remove(member.caller, UserId(user_id), removal.revoke_keys).await?))
}

/// Invite somebody to the account.
///
/// Mails a link that works once, for seven days. A second invitation to the same address ends the first. Only owners invite
/// owners. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/invitations", tag = "members", security(("console_token" = [])),
    request_body = InvitationCreate, responses(
    (status = 201, description = "The link is on its way.", body = Invitation),
    (status = 403, description = "The caller's role may not do this; or `reauthentication_required`; or the caller's own address is not confirmed.", body = Error),
    (status = 409, description = "The address is a member's, or the account has the maximum number of open invitations.", body = Error),
))]
pub(super) async fn invite(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<InvitationCreate>,
) -> Result<(StatusCode, Json<Invitation>), Refusal> {
    let invitation = app.service.accounts.invitations.create(member.caller, &request).await?;
    Ok((StatusCode::CREATED, Json(invitation)))
}

/// List the open invitations.
///
/// Those that were neither accepted nor withdrawn, and that are not too old; oldest first.
#[utoipa::path(get, path = "/v1/invitations", tag = "members", security(("console_token" = [])), params(Page), responses(
    (status = 200, body = InvitationList),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn invitations(
    State(app): State<App>,
    member: Member,
    extract::Query(page): extract::Query<Page>,
) -> Result<Json<InvitationList>, Refusal> {
    Ok(Json(app.service.accounts.invitations.list(member.tenant, &page.into()).await?))
}

/// Withdraw an invitation.
///
/// Its link stops working at once.
#[utoipa::path(delete, path = "/v1/invitations/{invitation_id}", tag = "members", security(("console_token" = [])),
    params(("invitation_id" = Uuid, Path, description = "The invitation's id.")), responses(
    (status = 204, description = "Withdrawn."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such invitation.", body = Error),
))]
pub(super) async fn withdraw(
    State(app): State<App>,
    member: Member,
    extract::Path(invitation_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.invitations.withdraw(member.caller, invitation_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accept an invitation with a password.
///
/// The token is that of the link in the mail. The new member is signed in, and the address counts as confirmed. To accept with a
/// provider instead, sign in with it and send the token as `invitation`. With the header `X-Auspex-Session: cookie`, the session's
/// token is in a cookie instead.
#[utoipa::path(post, path = "/auth/console/invitations/accept", tag = "console", request_body = InvitationAcceptRequest, responses(
    (status = 200, description = "The member is signed in.", body = Token),
    (status = 400, description = "`weak_password`, or `invalid_token` for a link that is unknown, used, withdrawn or too old.", body = Error),
    (status = 403, description = "The account is suspended.", body = Error),
    (status = 409, description = "The email address has an account already.", body = Error),
))]
pub(super) async fn accept(
    State(app): State<App>,
    Client(client): Client,
    session: SessionAnswer,
    extract::Json(request): extract::Json<InvitationAcceptRequest>,
) -> Result<Response, Refusal> {
    let token = app.service.accounts.invitations.accept(&request, &client).await?;
    Ok(session.answer(StatusCode::OK, token))
}
