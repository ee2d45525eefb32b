//! Registration, sign-in, proof of an address and password reset, which need no authentication; and what a signed-in user does with
//! the session itself.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::api::{
    ConsoleState, Error, FirstProofPreview, FirstProofRequest, ForgotPasswordRequest, LoginRequest, Message,
    ReauthenticateRequest, RegisterRequest, ResetPasswordRequest, Token, TokenExchangeRequest, VerifyRequest,
};

use super::App;
use super::authenticate::{HeldSession, Member};
use super::client_address::{Client, ClientAddress};
use super::envelope::Refusal;
use super::extract;
use super::session_answer::SessionAnswer;

/// Read what a sign-in page needs to know.
///
/// Whether the first account is still to be opened.
#[utoipa::path(get, path = "/auth/console/state", tag = "console", responses((status = 200, body = ConsoleState)))]
pub(super) async fn state(State(app): State<App>) -> Result<Json<ConsoleState>, Refusal> {
    Ok(Json(ConsoleState { empty: app.service.accounts.tenants.is_empty().await? }))
}

/// Open an account.
///
/// Creates the account and its first admin, grants the signup credit, sets up the default signals, and signs in. The admin is
/// mailed a link to confirm the email address. With the header `X-Auspex-Session: cookie`, the token is in a cookie instead.
#[utoipa::path(post, path = "/auth/console/register", tag = "console", request_body = RegisterRequest, responses(
    (status = 201, description = "The account was created, and its admin is signed in.", body = Token),
    (status = 403, description = "Registration is disabled.", body = Error),
    (status = 409, description = "The email address already has an account.", body = Error),
))]
pub(super) async fn register(
    State(app): State<App>,
    Client(client): Client,
    session: SessionAnswer,
    extract::Json(request): extract::Json<RegisterRequest>,
) -> Result<Response, Refusal> {
    let token = app.service.accounts.tenants.register(&request, &client).await?;
    Ok(session.answer(StatusCode::CREATED, token))
}

/// Sign in with email and password.
///
/// If two-factor is on, a login without `code` fails with `mfa_required`; repeat it with an authenticator code or a
/// recovery code. Repeated failures lock the email and the client's IP address for 15 minutes. With the header
/// `X-Auspex-Session: cookie`, the token is in a cookie instead.
#[utoipa::path(post, path = "/auth/console/login", tag = "console", request_body = LoginRequest, responses(
    (status = 200, description = "Signed in.", body = Token),
    (status = 401, description = "Wrong email, password or code; or `mfa_required`.", body = Error),
))]
pub(super) async fn log_in(
    State(app): State<App>,
    Client(client): Client,
    session: SessionAnswer,
    extract::Json(request): extract::Json<LoginRequest>,
) -> Result<Response, Refusal> {
    let token = app.service.accounts.sign_in.log_in(&request, &client).await?;
    Ok(session.answer(StatusCode::OK, token))
}

/// Exchange a legacy key for a short-lived tenant token.
///
/// Deprecated, and kept for one release: rotate legacy keys and sign requests instead.
#[utoipa::path(post, path = "/auth/token", tag = "console", request_body = TokenExchangeRequest, responses(
    (status = 200, description = "A tenant token, valid for 15 minutes.", body = Token),
    (status = 401, description = "The key is unknown, inactive, rotated or revoked.", body = Error),
))]
pub(super) async fn exchange_token(
    State(app): State<App>,
    extract::Json(request): extract::Json<TokenExchangeRequest>,
) -> Result<Json<Token>, Refusal> {
    Ok(Json(app.service.accounts.sign_in.exchange_token(&request).await?))
}

/// Ask for a link to reset a password.
///
/// The response is the same whether or not the email has an account. The link works once, within an hour.
#[utoipa::path(post, path = "/auth/console/password/forgot", tag = "console", request_body = ForgotPasswordRequest, responses(
    (status = 202, description = "If the address has an account, a link is on its way.", body = Message),
))]
pub(super) async fn forgot_password(
    State(app): State<App>,
    ClientAddress(address): ClientAddress,
    extract::Json(request): extract::Json<ForgotPasswordRequest>,
) -> Result<(StatusCode, Json<Message>), Refusal> {
    app.service.accounts.password_reset.request_link(&request, address).await?;
    let message = "If this address has an account, a link to reset the password is on its way.".to_owned();
    Ok((StatusCode::ACCEPTED, Json(Message { message })))
}

/// Set a new password with a reset link.
///
/// Signs out every session of the user. If nobody had proved the address before, API keys, sign-in providers and two-factor
/// that the user made end too, and webhook endpoints and rules are disabled (`disabled_reason`), unless `keep` is true or the
/// request carries the console token of a session of this user.
#[utoipa::path(post, path = "/auth/console/password/reset", tag = "console", request_body = ResetPasswordRequest, responses(
    (status = 204, description = "The password was set."),
    (status = 400, description = "`weak_password`, or `invalid_token` for a link that is unknown, used or expired.", body = Error),
))]
pub(super) async fn reset_password(
    State(app): State<App>,
    Client(client): Client,
    HeldSession(session): HeldSession,
    extract::Json(request): extract::Json<ResetPasswordRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.password_reset.reset(&request, &client, session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Confirm an email address with the link mailed at registration.
///
/// If nobody had proved the address before, the password, sessions, API keys, sign-in providers and two-factor that the user
/// made end, and webhook endpoints and rules are disabled (`disabled_reason`), unless `keep` is true or the request carries the
/// console token of a session of this user. A new password is then set with a reset link.
#[utoipa::path(post, path = "/auth/console/verify", tag = "console", request_body = VerifyRequest, responses(
    (status = 204, description = "The address is confirmed."),
    (status = 400, description = "`invalid_token` for a link that is unknown, used or expired.", body = Error),
))]
pub(super) async fn verify(
    State(app): State<App>,
    Client(client): Client,
    HeldSession(session): HeldSession,
    extract::Json(request): extract::Json<VerifyRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.verification.verify(&request, &client, session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read what a link would end.
///
/// For a link to prove an address or to reset a password, which is not used up by this: what the user of it has set up, and what the
/// first proof of the address therefore ends or disables unless `keep` is true. Nothing is listed where the address is proved.
#[utoipa::path(post, path = "/auth/console/first_proof", tag = "console", request_body = FirstProofRequest, responses(
    (status = 200, body = FirstProofPreview),
    (status = 400, description = "`invalid_token` for a link that is unknown, used or expired.", body = Error),
))]
pub(super) async fn preview_first_proof(
    State(app): State<App>,
    extract::Json(request): extract::Json<FirstProofRequest>,
) -> Result<Json<FirstProofPreview>, Refusal> {
    Ok(Json(app.service.accounts.verification.preview(&request).await?))
}

/// Confirm who is signed in.
///
/// With the password, with an authenticator or recovery code, or with a linked provider as at sign-in. For 15 minutes after this,
/// and after signing in, the session may link and unlink providers and change two-factor. Wrong passwords and codes are limited.
#[utoipa::path(post, path = "/auth/console/reauthenticate", tag = "console", security(("console_token" = [])),
    request_body = ReauthenticateRequest, responses(
    (status = 204, description = "Confirmed."),
    (status = 400, description = "`invalid_password` or `invalid_code`, or not exactly one proof was sent.", body = Error),
    (status = 403, description = "Only a signed-in user may do this, or the provider's account is not linked to the user.", body = Error),
    (status = 404, description = "The provider is not configured.", body = Error),
    (status = 502, description = "The provider failed.", body = Error),
))]
pub(super) async fn reauthenticate(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<ReauthenticateRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.recent_proof.reauthenticate(member.caller, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sign out.
///
/// Ends the session whose token the request carries, and clears the cookie that carried it.
#[utoipa::path(post, path = "/auth/console/logout", tag = "console", security(("console_token" = [])), responses(
    (status = 204, description = "Signed out."),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn log_out(State(app): State<App>, member: Member) -> Result<Response, Refusal> {
    app.service.accounts.sessions.log_out(member.caller).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    if member.caller.has_cookie() {
        response.headers_mut().insert(header::SET_COOKIE, app.session_cookie.clear());
    }
    Ok(response)
}
