//! API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::KeyId;
use model::api::{APIKey, APIKeyCreate, APIKeyList, APIKeySecret, APIKeyUpdate, Error, KeyRefusalList};
use uuid::Uuid;

use super::App;
use super::authenticate::{Authenticated, Member};
use super::envelope::Refusal;
use super::extract;

/// List the keys that are not revoked.
///
/// Secrets are never shown again.
#[utoipa::path(get, path = "/v1/api_keys", tag = "api keys", responses((status = 200, body = APIKeyList)))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<APIKeyList>, Refusal> {
    Ok(Json(app.service.accounts.keys.list(caller.tenant).await?))
}

/// Create a key.
///
/// The signing secret is only in this response. Every user of the account gets an email. A session in a cookie needs recent
/// proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/api_keys", tag = "api keys", request_body = APIKeyCreate, responses(
    (status = 201, description = "Created; the secret is shown only once.", body = APIKeySecret),
    (status = 403, description = "The account is suspended; or `reauthentication_required`.", body = Error),
    (status = 409, description = "The account has the maximum number of keys.", body = Error),
))]
pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::OptionalJson(request): extract::OptionalJson<APIKeyCreate>,
) -> Result<(StatusCode, Json<APIKeySecret>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.service.accounts.keys.create(caller, &request).await?)))
}

/// Rename a key, deactivate it, or activate it again.
///
/// Requests with an inactive key fail with 401. Fields left out keep their values.
#[utoipa::path(patch, path = "/v1/api_keys/{key_id}", tag = "api keys",
    params(("key_id" = Uuid, Path, description = "The key's `id`, not its public key ID.")), request_body = APIKeyUpdate, responses(
    (status = 200, body = APIKey),
    (status = 404, description = "There is no such key, or it is revoked.", body = Error),
))]
pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key_id): extract::Path<Uuid>,
    extract::Json(update): extract::Json<APIKeyUpdate>,
) -> Result<Json<APIKey>, Refusal> {
    Ok(Json(app.service.accounts.keys.update(caller, KeyId(key_id), &update).await?))
}

/// Revoke a key.
///
/// It stops authenticating at once, and its public key ID is never issued again.
#[utoipa::path(delete, path = "/v1/api_keys/{key_id}", tag = "api keys",
    params(("key_id" = Uuid, Path, description = "The key's `id`, not its public key ID.")), responses(
    (status = 204, description = "Revoked."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such key, or it is revoked.", body = Error),
))]
pub(super) async fn revoke(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.accounts.keys.revoke(caller, KeyId(key_id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a key a new secret.
///
/// The public key ID stays the same; the old secret stops working at once. A legacy key can sign from then on. A session in a
/// cookie needs recent proof: see `POST /auth/console/reauthenticate`.
#[utoipa::path(post, path = "/v1/api_keys/{key_id}/rotate", tag = "api keys",
    params(("key_id" = Uuid, Path, description = "The key's `id`, not its public key ID.")), responses(
    (status = 200, description = "Rotated; the secret is shown only once.", body = APIKeySecret),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 403, description = "The account is suspended; or `reauthentication_required`.", body = Error),
    (status = 404, description = "There is no such key, or it is revoked.", body = Error),
))]
pub(super) async fn rotate(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key_id): extract::Path<Uuid>,
) -> Result<Json<APIKeySecret>, Refusal> {
    Ok(Json(app.service.accounts.keys.rotate(caller, KeyId(key_id)).await?))
}

/// List why requests with the account's keys were refused, newest first.
///
/// A response with status 401 does not say why. This does, for requests that named a key of the account, a revoked one too: at
/// most 100 entries, each for the requests of one key, cause and minute, kept for 7 days. Requests that a key's scopes do not
/// allow (403) are listed too.
#[utoipa::path(get, path = "/v1/key_refusals", tag = "api keys", security(("console_token" = [])), responses(
    (status = 200, body = KeyRefusalList),
))]
pub(super) async fn refusals(
    State(app): State<App>,
    member: Member,
) -> Result<Json<KeyRefusalList>, Refusal> {
    Ok(Json(app.service.accounts.refusals.list(member.tenant).await?))
}
