//! The sessions of the authenticated user.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{Error, SessionList};
use uuid::Uuid;

use super::App;
use super::authenticate::Member;
use super::envelope::Refusal;
use super::extract;

/// List the sessions of the user.
///
/// Where the user is signed in: the newest 200 sessions, newest first.
#[utoipa::path(get, path = "/v1/me/sessions", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = SessionList),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn list(State(app): State<App>, member: Member) -> Result<Json<SessionList>, Refusal> {
    Ok(Json(app.service.accounts.sessions.list(member.caller).await?))
}

/// End all other sessions.
///
/// Only the session of this request stays.
#[utoipa::path(delete, path = "/v1/me/sessions", tag = "console", security(("console_token" = [])), responses(
    (status = 204, description = "Ended."),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn end_others(State(app): State<App>, member: Member) -> Result<StatusCode, Refusal> {
    app.service.accounts.sessions.end_others(member.caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End a session.
///
/// Also the one of this request. Its token stops working at once.
#[utoipa::path(delete, path = "/v1/me/sessions/{session_id}", tag = "console", security(("console_token" = [])),
    params(("session_id" = Uuid, Path, description = "The session's id.")), responses(
    (status = 204, description = "Ended."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 404, description = "There is no such session.", body = Error),
))]
pub(super) async fn end(
    State(app): State<App>,
    member: Member,
    extract::Path(session_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.sessions.end(member.caller, session_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
