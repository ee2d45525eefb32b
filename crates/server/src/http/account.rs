//! The account and the authenticated user.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::api::{
    ChangePasswordRequest, Error, Me, NotificationPreferences, NotificationPreferencesUpdate, Settings,
    SettingsUpdate, Token,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::App;
use super::authenticate::{Authenticated, Member};
use super::client_address::Client;
use super::envelope::Refusal;
use super::extract;
use super::session_answer::SessionAnswer;

/// What to read with the caller.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MeParameters {
    /// Any of `settings`, `identities`, `mfa`, `passkeys`, `sessions` and `notifications`, separated by commas: each is what its
    /// own route responds with. All but `settings` are about the user, and refused to API keys.
    #[param(example = "identities,sessions")]
    include: Option<String>,
}

/// Read the authenticated caller.
///
/// The account; for a console token also the user.
#[utoipa::path(get, path = "/v1/me", tag = "account", params(MeParameters), responses(
    (status = 200, body = Me),
    (status = 400, description = "A parameter is invalid.", body = Error),
    (status = 403, description = "`include` names what only a signed-in user may read.", body = Error),
))]
pub(super) async fn me(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<MeParameters>,
) -> Result<Json<Me>, Refusal> {
    let known = [
        ("settings", "/v1/settings"),
        ("identities", "/v1/me/identities"),
        ("mfa", "/v1/me/mfa"),
        ("passkeys", "/v1/me/passkeys"),
        ("sessions", "/v1/me/sessions"),
        ("notifications", "/v1/me/notifications"),
    ];
    let [settings, identities, mfa, passkeys, sessions, notifications] =
        extract::included(&caller, parameters.include.as_deref(), known)?;
    let accounts = &app.service.accounts;
    let mut me = accounts.users.me(caller).await?;
    if settings {
        me.settings = Some(accounts.tenants.settings(caller.tenant).await?);
    }
    if identities {
        me.identities = Some(accounts.identities.list(caller.tenant, caller.user()?).await?);
    }
    if mfa {
        me.mfa = Some(accounts.two_factor.status(caller.tenant, caller.user()?).await?);
    }
    if passkeys {
        me.passkeys = Some(accounts.passkeys.list(caller).await?.passkeys);
    }
    if sessions {
        me.sessions = Some(accounts.sessions.list(caller).await?.sessions);
    }
    if notifications {
        me.notifications = Some(accounts.notifications.preferences(caller.tenant, caller.user()?).await?);
    }
    Ok(Json(me))
}

/// Read the settings of the account.
///
/// Whether new signals are backfilled automatically, and how long events are kept.
#[utoipa::path(get, path = "/v1/settings", tag = "account", responses((status = 200, body = Settings)))]
pub(super) async fn settings(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<Settings>, Refusal> {
    Ok(Json(app.service.accounts.tenants.settings(caller.tenant).await?))
}

/// Change the settings of the account.
///
/// Fields left out keep their values.
#[utoipa::path(patch, path = "/v1/settings", tag = "account", request_body = SettingsUpdate, responses(
    (status = 200, body = Settings),
))]
pub(super) async fn update_settings(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(update): extract::Json<SettingsUpdate>,
) -> Result<Json<Settings>, Refusal> {
    Ok(Json(app.service.accounts.tenants.update_settings(caller.tenant, &update).await?))
}

/// Finish the console's onboarding.
///
/// From then on, `onboarded` of `GET /v1/me` is true.
#[utoipa::path(post, path = "/v1/me/onboarded", tag = "console", security(("console_token" = [])), responses(
    (status = 204, description = "Recorded."),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 404, description = "There is no such user.", body = Error),
))]
pub(super) async fn onboarded(State(app): State<App>, member: Member) -> Result<StatusCode, Refusal> {
    app.service.accounts.users.set_onboarded(member.tenant, member.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change the user's own password.
///
/// Signs out every other session and returns a new token; with the header `X-Auspex-Session: cookie`, in a cookie.
#[utoipa::path(post, path = "/v1/me/password", tag = "console", security(("console_token" = [])),
    request_body = ChangePasswordRequest, responses(
    (status = 200, description = "Changed; the token replaces the one that was used.", body = Token),
    (status = 400, description = "`invalid_password` for a wrong current one, `weak_password` for the new one.", body = Error),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn change_password(
    State(app): State<App>,
    member: Member,
    Client(client): Client,
    session: SessionAnswer,
    extract::Json(request): extract::Json<ChangePasswordRequest>,
) -> Result<Response, Refusal> {
    let token = app.service.accounts.password_reset.change(member.caller, &request, &client).await?;
    Ok(session.answer(StatusCode::OK, token))
}

/// List which emails the user gets.
///
/// Critical emails are always sent.
#[utoipa::path(get, path = "/v1/me/notifications", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = NotificationPreferences),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn notifications(
    State(app): State<App>,
    member: Member,
) -> Result<Json<NotificationPreferences>, Refusal> {
    Ok(Json(app.service.accounts.notifications.preferences(member.tenant, member.user).await?))
}

/// Choose which emails the user gets.
///
/// Events left out keep their setting; critical emails cannot be turned off.
#[utoipa::path(put, path = "/v1/me/notifications", tag = "console", security(("console_token" = [])),
    request_body = NotificationPreferencesUpdate, responses(
    (status = 200, body = NotificationPreferences),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn set_notifications(
    State(app): State<App>,
    member: Member,
    extract::Json(update): extract::Json<NotificationPreferencesUpdate>,
) -> Result<Json<NotificationPreferences>, Refusal> {
    Ok(Json(app.service.accounts.notifications.set_preferences(member.tenant, member.user, &update).await?))
}
