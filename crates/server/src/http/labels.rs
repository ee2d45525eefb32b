//! Labels.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{Error, Label, LabelInput, LabelList, LabelSource, LabelsAccepted, LabelsCreate};
use serde::Deserialize;
use service::LabelQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which labels to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LabelParameters {
    /// Only labels about this signal.
    signal: Option<String>,
    /// Only labels about this object.
    object_id: Option<String>,
    /// Only labels that were given like this.
    source: Option<LabelSource>,
    /// The maximum number; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; the filters must stay the same.
    cursor: Option<String>,
}

/// Say what is true about a signal of an object.
///
/// An author has one label about a signal of an object: a later one replaces it. Of several authors the latest counts. The
/// label keeps what the service said at that time, so that the two can be compared.
#[utoipa::path(put, path = "/v1/objects/{object_id}/labels/{signal}", tag = "quality",
    params(
        ("object_id" = String, Path, description = "The object's id."),
        ("signal" = String, Path, description = "The key of the signal."),
    ), request_body = LabelInput, responses(
    (status = 200, body = Label),
    (status = 404, description = "There is no such object, or no such signal.", body = Error),
))]
pub(super) async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::PathPair(object_id, signal): extract::PathPair<String, String>,
    extract::Json(input): extract::Json<LabelInput>,
) -> Result<Json<Label>, Refusal> {
    Ok(Json(app.service.quality.labels.put(caller, &object_id, &signal, &input).await?))
}

/// Say what is true about many objects.
///
/// At most 1,000 labels. Those that are wrong are refused one by one, and the others are taken. Of several about the same
/// signal of the same object the last is kept.
#[utoipa::path(post, path = "/v1/labels", tag = "quality", request_body = LabelsCreate, responses(
    (status = 200, body = LabelsAccepted),
))]
pub(super) async fn put_many(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<LabelsCreate>,
) -> Result<Json<LabelsAccepted>, Refusal> {
    Ok(Json(app.service.quality.labels.put_many(caller, &request.labels).await?))
}

/// List labels, newest first.
///
/// Labels outlive the events of their object; they are deleted with the object or with the signal.
#[utoipa::path(get, path = "/v1/labels", tag = "quality", params(LabelParameters), responses(
    (status = 200, body = LabelList),
    (status = 400, description = "A parameter is out of range, or the cursor is of another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<LabelParameters>,
) -> Result<Json<LabelList>, Refusal> {
    let LabelParameters { signal, object_id, source, limit, cursor } = parameters;
    let query = LabelQuery { signal, object_id, source, limit, cursor };
    Ok(Json(app.service.quality.labels.list(caller.tenant, &query).await?))
}

/// Withdraw a label.
///
/// The latest label that is left about the same signal of the object counts.
#[utoipa::path(delete, path = "/v1/labels/{label_id}", tag = "quality",
    params(("label_id" = Uuid, Path, description = "The label's id.")), responses(
    (status = 204, description = "Withdrawn."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such label.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(label_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.quality.labels.delete(caller.tenant, label_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
