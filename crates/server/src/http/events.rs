//! Ingest and listing of events.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use model::api::{Error, EventList, IngestAccepted, IngestRequest, ModerationVerdict};
use serde::Deserialize;
use service::Ingested;
use utoipa::IntoParams;

use super::App;
use super::authenticate::Authenticated;
use super::body_budget::Leased;
use super::envelope::Refusal;
use super::extract;

/// Record events about an object.
///
/// Responds with 202 at once and schedules a debounced analysis; with `wait: true` it analyzes the object and responds
/// with 200 and a verdict. With the header `Idempotency-Key`, a repeated request records nothing. After an error with
/// `Events-Recorded: true` the events have been recorded: do not send them again.
#[utoipa::path(post, path = "/v1/objects/{object_id}/events", tag = "objects",
    params(
        ("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object, 1 to 255 characters."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
         description = "A repeated request with the same key records nothing; keys are kept for 24 hours."),
    ),
    request_body = IngestRequest, responses(
    (status = 200, description = "The verdict, with `wait: true`.", body = ModerationVerdict),
    (status = 202, description = "Recorded; an analysis is scheduled.", body = IngestAccepted),
    (status = 402, description = "The prepaid balance is empty; nothing was recorded.", body = Error),
    (status = 403, description = "The account is suspended, or the events would exceed its storage quota; nothing was recorded.", body = Error),
    (status = 409, description = "A request that waited for a verdict was repeated.", body = Error),
    (status = 422, description = "The `Idempotency-Key` was used for another object.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn ingest(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    headers: HeaderMap,
    lease: Leased,
    extract::Json(request): extract::Json<IngestRequest>,
) -> Result<Response, Refusal> {
    let (tenant, key) = (caller.tenant, idempotency_key(&headers)?.map(str::to_owned));
    if request.wait {
        let verdicts = app.service.analysis.verdicts.clone();
        let verdict = |caller| async move {
            let _lease = lease;
            verdicts.ingest(tenant, &object_id, request, key.as_deref(), &caller).await
        };
        return Ok(Json(app.service.run_to_end(verdict).await?).into_response());
    }
    let ingest = app.service.objects.ingest.clone();
    // The events are in memory until they are recorded, even if the caller leaves: so long their bytes are counted.
    let recorded = |_| async move {
        let _lease = lease;
        ingest.accept(tenant, &object_id, request, key.as_deref()).await
    };
    Ok(match app.service.run_to_end(recorded).await? {
        Ingested::Accepted(accepted) => (StatusCode::ACCEPTED, Json(accepted)).into_response(),
        Ingested::Replayed(accepted) => {
            let replayed = [("idempotent-replayed", HeaderValue::from_static("true"))];
            (StatusCode::ACCEPTED, replayed, Json(accepted)).into_response()
        }
    })
}

/// Record events about an object.
///
/// Deprecated: the same as `POST /v1/objects/{object_id}/events`.
#[utoipa::path(post, path = "/v1/objects/{object_id}/ingest", tag = "objects",
    params(
        ("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object, 1 to 255 characters."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
         description = "A repeated request with the same key records nothing; keys are kept for 24 hours."),
    ),
    request_body = IngestRequest, responses(
    (status = 200, description = "The verdict, with `wait: true`.", body = ModerationVerdict),
    (status = 202, description = "Recorded; an analysis is scheduled.", body = IngestAccepted),
    (status = 402, description = "The prepaid balance is empty; nothing was recorded.", body = Error),
    (status = 403, description = "The account is suspended, or the events would exceed its storage quota; nothing was recorded.", body = Error),
    (status = 409, description = "A request that waited for a verdict was repeated.", body = Error),
    (status = 422, description = "The `Idempotency-Key` was used for another object.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn ingest_alias(
    app: State<App>,
    caller: Authenticated,
    object_id: extract::Path<String>,
    headers: HeaderMap,
    lease: Leased,
    request: extract::Json<IngestRequest>,
) -> Result<Response, Refusal> {
    ingest(app, caller, object_id, headers, lease, request).await
}

/// Which events to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParameters {
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List an object's events.
///
/// Up to 200 a page, newest first; an empty list for an object that does not exist.
#[utoipa::path(get, path = "/v1/objects/{object_id}/events", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object."), EventParameters), responses(
    (status = 200, body = EventList),
    (status = 400, description = "The id is invalid, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    extract::Query(parameters): extract::Query<EventParameters>,
) -> Result<Json<EventList>, Refusal> {
    let cursor = parameters.cursor.as_deref();
    Ok(Json(app.service.objects.reads.events(caller.tenant, &object_id, cursor).await?))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, service::Error> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(service::Error::bad_request("Idempotency-Key: there must be only one"));
    }
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some).map_err(|_| service::Error::bad_request("Idempotency-Key: it must be text"))
}
