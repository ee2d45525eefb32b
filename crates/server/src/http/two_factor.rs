//! Two-factor sign-in of the person who is asking.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{Error, MfaDisableRequest, MfaEnableRequest, MfaRecoveryCodes, MfaSetup, MfaStatus};

use super::App;
use super::authenticate::Person;
use super::envelope::Refusal;
use super::extract;

/// Where two-factor stands.
///
/// Whether it is on, and how many recovery codes are left.
#[utoipa::path(get, path = "/v1/me/mfa", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = MfaStatus),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
))]
pub(super) async fn status(State(app): State<App>, person: Person) -> Result<Json<MfaStatus>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.status(person.tenant, person.user).await?))
}

/// Get a secret for an authenticator app.
///
/// Asking again replaces the secret. Nothing changes for sign-in until two-factor is turned on.
#[utoipa::path(post, path = "/v1/me/mfa/setup", tag = "console", security(("console_token" = [])), responses(
    (status = 200, body = MfaSetup),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 409, description = "Two-factor is already on.", body = Error),
))]
pub(super) async fn setup(State(app): State<App>, person: Person) -> Result<Json<MfaSetup>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.setup(person.tenant, person.user).await?))
}

/// Turn two-factor on.
///
/// Answers with eight recovery codes, shown this once.
#[utoipa::path(post, path = "/v1/me/mfa/enable", tag = "console", security(("console_token" = [])),
    request_body = MfaEnableRequest, responses(
    (status = 200, description = "It is on.", body = MfaRecoveryCodes),
    (status = 400, description = "`invalid_code`: the code is not of the secret that was set up.", body = Error),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 409, description = "Two-factor is already on, or was not set up.", body = Error),
))]
pub(super) async fn enable(
    State(app): State<App>,
    person: Person,
    extract::Json(request): extract::Json<MfaEnableRequest>,
) -> Result<Json<MfaRecoveryCodes>, Refusal> {
    Ok(Json(app.service.accounts.two_factor.enable(person.caller, &request).await?))
}

/// Turn two-factor off.
///
/// Takes the password, where the account has one, and a current or an unused recovery code.
#[utoipa::path(post, path = "/v1/me/mfa/disable", tag = "console", security(("console_token" = [])),
    request_body = MfaDisableRequest, responses(
    (status = 204, description = "It is off."),
    (status = 400, description = "`invalid_password` or `invalid_code`.", body = Error),
    (status = 403, description = "Only a signed-in user may do this.", body = Error),
    (status = 409, description = "Two-factor is off.", body = Error),
))]
pub(super) async fn disable(
    State(app): State<App>,
    person: Person,
    extract::Json(request): extract::Json<MfaDisableRequest>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.two_factor.disable(person.tenant, person.user, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}
