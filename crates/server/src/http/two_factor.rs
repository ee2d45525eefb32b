//! Two-factor sign-in of the authenticated user.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{Error, MfaDisableRequest, MfaEnableRequest, MfaRecoveryCodes, MfaSetup, MfaStatus};

use super::App;
use super::authenticate::Member;
use super::envelope::Refusal;
use super::extract;

/// Read the state of two-factor sign-in.
///
/// Whether it is on, and how many recovery codes are left.
#[utoipa::path(get, path = "/v1/me/mfa", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = MfaStatus),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn status(State(app): State<App>, member: Member) -> Result<Json<MfaStatus>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.status(member.tenant, member.user).await?))
}

/// Get a secret for an authenticator app.
///
/// A second request replaces the secret. Sign-in is unchanged until two-factor is turned on. Needs recent proof: see
/// `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/mfa/setup", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = MfaSetup),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 409, description = "Two-factor is already on.", body = Error),
))]
pub(super) async fn setup(State(app): State<App>, member: Member) -> Result<Json<MfaSetup>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.setup(member.caller).await?))
}

/// Turn two-factor on.
///
/// With a code of the authenticator app that was set up, or with a passkey: then a sign-in with the password needs a passkey too.
/// Returns eight recovery codes, which are shown only once. Ends all other sessions of the user. Needs recent proof: see
/// `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/mfa/enable", tag = "console", security(("console_token" = [])),
    request_body = MfaEnableRequest, responses(
    (status = 200, description = "Two-factor is on.", body = MfaRecoveryCodes),
    (status = 400, description = "`invalid_code`: the code does not match the secret; or `invalid_passkey`.", body = Error),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 409, description = "Two-factor is already on, or was not set up.", body = Error),
))]
pub(super) async fn enable(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<MfaEnableRequest>,
) -> Result<Json<MfaRecoveryCodes>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.enable(member.caller, &request).await?))
}

/// Turn two-factor off.
///
/// Requires the password, if the user has one, and a current code, an unused recovery code or a passkey. Ends all other sessions of the
/// user. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/mfa/disable", tag = "console", security(("console_token" = [])),
    request_body = MfaDisableRequest, responses(
    (status = 204, description = "Two-factor is off."),
    (status = 400, description = "`invalid_password`, `invalid_code` or `invalid_passkey`.", body = Error),
    (status = 403, description = "Only a signed-in user may do this; or `reauthentication_required`.", body = Error),
    (status = 409, description = "Two-factor is already off.", body = Error),
))]
pub(super) async fn disable(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<MfaDisableRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.two_factor.disable(member.caller, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}
