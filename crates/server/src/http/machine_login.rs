//! Signing in on a machine through the browser.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{APIKeySecret, Error, MachineLoginCode, MachineLoginConsent, MachineLoginRedeem};

use super::App;
use super::authenticate::Member;
use super::client_address::Client;
use super::envelope::Refusal;
use super::extract;

/// Agree that a machine gets a key.
///
/// The page that `auspex login` opens asks the member and then sends this. The browser carries the code to the machine, which alone
/// can redeem it. Needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/me/machine_login", tag = "console", security(("console_token" = [])),
    request_body = MachineLoginConsent, responses(
    (status = 201, description = "A code that works once, within two minutes.", body = MachineLoginCode),
    (status = 403, description = "The role may not make keys; or `reauthentication_required`.", body = Error),
))]
pub(super) async fn consent(
    State(app): State<App>,
    member: Member,
    extract::Json(request): extract::Json<MachineLoginConsent>,
) -> Result<(StatusCode, Json<MachineLoginCode>), Refusal> {
    let code = app.service.accounts.machine_login.consent(member.caller, &request).await?;
    Ok((StatusCode::CREATED, Json(code)))
}

/// Get the key of a machine that a member has agreed to.
///
/// The secret is only in this response. Every user of the account gets an email.
#[utoipa::path(post, path = "/auth/console/machine_login", tag = "console", request_body = MachineLoginRedeem, responses(
    (status = 201, description = "Created; the secret is shown only once.", body = APIKeySecret),
    (status = 400, description = "`invalid_token`: the code or the verifier is wrong, or the code was used or has expired.", body = Error),
    (status = 401, description = "The session that agreed has ended.", body = Error),
    (status = 403, description = "The role may not make keys any more, or the account is suspended.", body = Error),
    (status = 409, description = "The account has the maximum number of keys.", body = Error),
))]
pub(super) async fn redeem(
    State(app): State<App>,
    Client(client): Client,
    extract::Json(request): extract::Json<MachineLoginRedeem>,
) -> Result<(StatusCode, Json<APIKeySecret>), Refusal> {
    let made = Box::pin(app.service.accounts.machine_login.redeem(&request, &client)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}
