//! Webhooks: endpoints, deliveries, replay.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{
    DeliveryStatus, Error, WebhookDelivery, WebhookDeliveryList, WebhookEndpoint, WebhookEndpointCreate,
    WebhookEndpointList, WebhookEndpointSecret, WebhookEndpointUpdate, WebhookHealth, WebhookSecretRotation,
};
use serde::Deserialize;
use service::DeliveryQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which deliveries to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveryParameters {
    /// Only deliveries with this status; `dead` is the dead-letter queue.
    status: Option<DeliveryStatus>,
    /// Only deliveries to this endpoint.
    endpoint_id: Option<Uuid>,
    /// The maximum number; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; the other parameters must stay the same.
    cursor: Option<String>,
}

/// What to list with the endpoints.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EndpointParameters {
    /// `health`: each endpoint says how it is doing.
    #[param(example = "health")]
    include: Option<String>,
}

/// List the endpoints.
///
/// Without their secrets.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks", params(EndpointParameters), responses(
    (status = 200, body = WebhookEndpointList),
    (status = 400, description = "A parameter is invalid.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<EndpointParameters>,
) -> Result<Json<WebhookEndpointList>, Refusal> {
    let [with_health] = extract::included(
        &caller,
        parameters.include.as_deref(),
        [("health", "/v1/webhooks/{endpoint_id}/health")],
    )?;
    let mut list = app.service.actions.endpoints.list(caller.tenant).await?;
    if with_health {
        let ids: Vec<Uuid> = list.webhooks.iter().map(|endpoint| endpoint.id).collect();
        let mut health = app.service.actions.deliveries.health_of_all(caller.tenant, &ids).await;
        for endpoint in &mut list.webhooks {
            endpoint.health = health.remove(&endpoint.id);
        }
    }
    Ok(Json(list))
}

/// Register an endpoint.
///
/// The signing secret is only in this response. Deliveries have the header `X-Webhook-Signature` (`sha256=` and the hex
/// HMAC-SHA256 of timestamp, a dot and the raw body, keyed with the whole secret), and the headers of Standard Webhooks.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", request_body = WebhookEndpointCreate, responses(
    (status = 201, description = "Registered; the secret is shown only once.", body = WebhookEndpointSecret),
    (status = 400, description = "A field is invalid, or the URL points to an address that is not allowed, such as a private one.", body = Error),
    (status = 409, description = "The account has the maximum number of endpoints.", body = Error),
))]
pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<WebhookEndpointCreate>,
) -> Result<(StatusCode, Json<WebhookEndpointSecret>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.service.actions.endpoints.create(caller, &request).await?)))
}

/// Read an endpoint.
///
/// Without its secret.
#[utoipa::path(get, path = "/v1/webhooks/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")), responses(
    (status = 200, body = WebhookEndpoint),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such endpoint.", body = Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
) -> Result<Json<WebhookEndpoint>, Refusal> {
    Ok(Json(app.service.actions.endpoints.get(caller.tenant, endpoint_id).await?))
}

/// Edit an endpoint.
///
/// Fields left out keep their values. An endpoint that rests after repeated failures is tried again at once.
#[utoipa::path(patch, path = "/v1/webhooks/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")),
    request_body = WebhookEndpointUpdate, responses(
    (status = 200, body = WebhookEndpoint),
    (status = 400, description = "A field is invalid, or the URL points to an address that is not allowed, such as a private one.", body = Error),
    (status = 404, description = "There is no such endpoint.", body = Error),
))]
pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
    extract::Json(update): extract::Json<WebhookEndpointUpdate>,
) -> Result<Json<WebhookEndpoint>, Refusal> {
    Ok(Json(app.service.actions.endpoints.update(caller, endpoint_id, &update).await?))
}

/// Read how an endpoint is doing.
///
/// Whether it is resting after repeated failures, what waits for it, and how many of its newest deliveries were accepted, and
/// how fast.
#[utoipa::path(get, path = "/v1/webhooks/{endpoint_id}/health", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")), responses(
    (status = 200, body = WebhookHealth),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such endpoint.", body = Error),
))]
pub(super) async fn health(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
) -> Result<Json<WebhookHealth>, Refusal> {
    Ok(Json(app.service.actions.deliveries.health(caller.tenant, endpoint_id).await?))
}

/// Send a test to an endpoint.
///
/// An event of the type `endpoint.test`, signed, sent and retried like any other, whatever events the endpoint asks for. An
/// endpoint that rests after repeated failures is tried at once.
#[utoipa::path(post, path = "/v1/webhooks/{endpoint_id}/test", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")), responses(
    (status = 202, description = "Queued.", body = WebhookDelivery),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such endpoint.", body = Error),
    (status = 409, description = "The endpoint is disabled.", body = Error),
))]
pub(super) async fn test(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
) -> Result<(StatusCode, Json<WebhookDelivery>), Refusal> {
    let sent = app.service.actions.deliveries.send_test(caller.tenant, endpoint_id).await?;
    Ok((StatusCode::ACCEPTED, Json(sent)))
}

/// Give an endpoint a new secret.
///
/// For `overlap_hours`, deliveries carry signatures with both secrets: `webhook-signature` has two, and `X-Webhook-Signature` is
/// keyed with the previous one. Afterwards only the new one counts. A second rotation within that time ends the oldest secret.
#[utoipa::path(post, path = "/v1/webhooks/{endpoint_id}/rotate_secret", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")),
    request_body = WebhookSecretRotation, responses(
    (status = 200, description = "Rotated; the secret is shown only once.", body = WebhookEndpointSecret),
    (status = 404, description = "There is no such endpoint.", body = Error),
))]
pub(super) async fn rotate_secret(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
    extract::OptionalJson(request): extract::OptionalJson<WebhookSecretRotation>,
) -> Result<Json<WebhookEndpointSecret>, Refusal> {
    Ok(Json(app.service.actions.endpoints.rotate_secret(caller, endpoint_id, &request).await?))
}

/// Remove an endpoint and its deliveries.
///
/// A delivery in flight may still arrive. Rules that name it record their firings as `error`.
#[utoipa::path(delete, path = "/v1/webhooks/{endpoint_id}", tag = "webhooks",
    params(("endpoint_id" = Uuid, Path, description = "The endpoint's id.")), responses(
    (status = 204, description = "Removed."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such endpoint.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(endpoint_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.actions.endpoints.delete(caller.tenant, endpoint_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List deliveries, newest first.
///
/// `status=dead` is the dead-letter queue: each keeps its payload and the start of the last response.
#[utoipa::path(get, path = "/v1/webhook_deliveries", tag = "webhooks", params(DeliveryParameters), responses(
    (status = 200, body = WebhookDeliveryList),
    (status = 400, description = "A parameter is invalid.", body = Error),
))]
pub(super) async fn deliveries(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<DeliveryParameters>,
) -> Result<Json<WebhookDeliveryList>, Refusal> {
    let query = DeliveryQuery {
        status: parameters.status,
        endpoint_id: parameters.endpoint_id,
        limit: parameters.limit.unwrap_or(50),
        cursor: parameters.cursor,
    };
    Ok(Json(app.service.actions.deliveries.list(caller.tenant, &query).await?))
}

/// Send a delivery again.
///
/// A delivered or dead one is queued again with a full number of attempts; a pending one is unchanged.
#[utoipa::path(post, path = "/v1/webhook_deliveries/{delivery_id}/replay", tag = "webhooks",
    params(("delivery_id" = Uuid, Path, description = "The delivery's id.")), responses(
    (status = 202, description = "Queued.", body = WebhookDelivery),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such delivery.", body = Error),
))]
pub(super) async fn replay(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(delivery_id): extract::Path<Uuid>,
) -> Result<(StatusCode, Json<WebhookDelivery>), Refusal> {
    Ok((StatusCode::ACCEPTED, Json(app.service.actions.deliveries.replay(caller.tenant, delivery_id).await?)))
}
