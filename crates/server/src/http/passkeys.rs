//! Passkeys: a member's own, and sign-in with one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::api::{
    Error, Passkey, PasskeyAssertion, PasskeyCreationOptions, PasskeyList, PasskeyRegistration,
    PasskeyRequestOptions, PasskeyUpdate, Token,
};
use uuid::Uuid;

use super::App;
use super::authenticate::Member;
use super::client_address::Client;
use super::envelope::Refusal;
use super::extract;
use super::session_answer::SessionAnswer;

/// List the user's passkeys.
///
/// Oldest first.
#[utoipa::path(get, path = "/v1/me/passkeys", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = PasskeyList),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn list(State(app): State<App>, member: Member) -> Result<Json<PasskeyList>, Refusal> {
    Ok(Json(app.service.accounts.passkeys.list(member.caller).await?))
}

/// Start to add a passkey.
///
/// Hand the response to the browser's `navigator.credentials.create`. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/passkeys/start", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = PasskeyCreationOptions),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 409, description = "The public URL of the service has no domain, which passkeys need.", body = Error),
))]
pub(super) async fn start_registration(
    State(app): State<App>,
    member: Member,
) -> Result<Json<PasskeyCreationOptions>, Refusal> {
    Ok(Json(app.service.accounts.passkeys.start_registration(member.caller).await?))
}

/// Add a passkey.
///
/// With what the browser answered. Ends all other sessions of the user. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/passkeys/finish", tag = "console", security(("console_token" = [])),
    request_body = PasskeyRegistration, responses(
    (status = 201, description = "Added.", body = Passkey),
    (status = 400, description = "`invalid_passkey`: the challenge is unknown, used or expired, or the answer does not fit it.", body = Error),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 409, description = "The passkey is registered already, or the user has too many.", body = Error),
))]
pub(super) async fn finish_registration(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<PasskeyRegistration>,
) -> Result<(StatusCode, Json<Passkey>), Refusal> {
    let added = app.service.accounts.passkeys.finish_registration(member.caller, &request).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

/// Rename a passkey.
///
/// The name is for the user alone.
#[utoipa::path(patch, path = "/v1/me/passkeys/{passkey_id}", tag = "console", security(("console_token" = [])),
    params(("passkey_id" = Uuid, Path, description = "The passkey's id.")), request_body = PasskeyUpdate, responses(
    (status = 200, body = Passkey),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 404, description = "There is no such passkey.", body = Error),
))]
pub(super) async fn rename(
    State(app): State<App>,
    member: Member,
    extract::Path(passkey_id): extract::Path<Uuid>,
    extract::Json(update): extract::Json<PasskeyUpdate>,
) -> Result<Json<Passkey>, Refusal> {
    Ok(Json(app.service.accounts.passkeys.rename(member.caller, passkey_id, &update).await?))
}

/// Remove a passkey.
///
/// The last way to sign in cannot be removed: set a password first. Ends all other sessions of the user. Needs recent proof: see
/// `POST /auth/console/reauthenticate`.
#[utoipa::path(delete, path = "/v1/me/passkeys/{passkey_id}", tag = "console", security(("console_token" = [])),
    params(("passkey_id" = Uuid, Path, description = "The passkey's id.")), responses(
    (status = 204, description = "Removed."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 404, description = "There is no such passkey.", body = Error),
    (status = 409, description = "It is the last way to sign in, or the only one that two-factor rests on.", body = Error),
))]
pub(super) async fn remove(
    State(app): State<App>,
    member: Member,
    extract::Path(passkey_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.passkeys.remove(member.caller, passkey_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Start a sign-in with a passkey.
///
/// Hand the response to the browser's `navigator.credentials.get`. Also for a proof by passkey, at
/// `POST /auth/console/reauthenticate`, and for the second factor at `POST /auth/console/login`.
#[utoipa::path(post, path = "/auth/console/passkey/start", tag = "console", responses(
    (status = 200, body = PasskeyRequestOptions),
    (status = 409, description = "The public URL of the service has no domain, which passkeys need.", body = Error),
))]
pub(super) async fn start(
    State(app): State<App>,
    Client(client): Client,
) -> Result<Json<PasskeyRequestOptions>, Refusal> {
    Ok(Json(app.service.accounts.passkeys.start(&client).await?))
}

/// Sign in with a passkey.
///
/// With what the browser answered. No password and no code is asked for: the authenticator has verified the user. With the header
/// `X-Auspex-Session: cookie`, the token is in a cookie instead.
#[utoipa::path(post, path = "/auth/console/passkey/finish", tag = "console", request_body = PasskeyAssertion, responses(
    (status = 200, description = "Signed in.", body = Token),
    (status = 400, description = "`invalid_passkey`: the challenge is unknown, used or expired, the passkey is unknown, or the \
        signature does not fit.", body = Error),
))]
pub(super) async fn finish(
    State(app): State<App>,
    Client(client): Client,
    session: SessionAnswer,
    extract::Json(assertion): extract::Json<PasskeyAssertion>,
) -> Result<Response, Refusal> {
    let token = app.service.accounts.passkeys.sign_in(&assertion, &client).await?;
    Ok(session.answer(StatusCode::OK, token))
}
