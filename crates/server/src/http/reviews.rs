//! Reviews.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use model::api::{
    Error, Review, ReviewCreate, ReviewList, ReviewNext, ReviewOrder, ReviewQueueList, ReviewResolve,
    ReviewStatus,
};
use serde::Deserialize;
use service::ReviewQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which reviews to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ReviewParameters {
    /// Only reviews in this queue.
    queue: Option<String>,
    /// Only reviews with this status.
    status: Option<ReviewStatus>,
    /// `value`, by priority, if left out.
    order: Option<ReviewOrder>,
    /// The maximum number; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; the other parameters must stay the same.
    cursor: Option<String>,
}

/// List reviews.
///
/// By priority, or oldest first.
#[utoipa::path(get, path = "/v1/reviews", tag = "reviews", params(ReviewParameters), responses(
    (status = 200, body = ReviewList),
    (status = 400, description = "A parameter is out of range, or the cursor is of another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<ReviewParameters>,
) -> Result<Json<ReviewList>, Refusal> {
    let ReviewParameters { queue, status, order, limit, cursor } = parameters;
    let query = ReviewQuery { queue, status, order: order.unwrap_or_default(), limit, cursor };
    Ok(Json(app.service.actions.reviews.list(caller.tenant, &query).await?))
}

/// Open a review of an object.
///
/// An object has at most one open review in a queue; if there is one, it is returned.
#[utoipa::path(post, path = "/v1/reviews", tag = "reviews", request_body = ReviewCreate, responses(
    (status = 200, description = "It was open already.", body = Review),
    (status = 201, description = "Opened.", body = Review),
    (status = 404, description = "There is no such object.", body = Error),
))]
pub(super) async fn open(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<ReviewCreate>,
) -> Result<(StatusCode, Json<Review>), Refusal> {
    let (review, is_new) = app.service.actions.reviews.open(caller, &request).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(review)))
}

/// What to read with the queues.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct QueueParameters {
    /// `signals` and `rules`, separated by commas: all of the account's, to show reviews with their names.
    #[param(example = "signals,rules")]
    include: Option<String>,
}

/// Read how the queues of reviews stand.
///
/// Those with reviews that are not resolved, or that were resolved within seven days.
#[utoipa::path(get, path = "/v1/reviews/queues", tag = "reviews", params(QueueParameters), responses(
    (status = 200, body = ReviewQueueList),
    (status = 400, description = "A parameter is invalid.", body = Error),
))]
pub(super) async fn queues(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<QueueParameters>,
) -> Result<Json<ReviewQueueList>, Refusal> {
    let known = [("signals", "/v1/signals"), ("rules", "/v1/rules")];
    let [signals, rules] = extract::included(&caller, parameters.include.as_deref(), known)?;
    let mut list = app.service.actions.reviews.queues(caller.tenant).await?;
    if signals {
        list.signals = Some(app.service.analysis.signals.list(caller.tenant).await?.signals);
    }
    if rules {
        list.rules = Some(app.service.actions.rules.list(caller.tenant).await?.rules);
    }
    Ok(Json(list))
}

/// Claim the next review of a queue.
///
/// The one whose label is worth most; but whatever has waited for longer than a day comes first, the oldest of it. Of many
/// callers each gets another one.
#[utoipa::path(post, path = "/v1/reviews/next", tag = "reviews", request_body = ReviewNext, responses(
    (status = 200, body = Review),
    (status = 204, description = "None is left."),
))]
pub(super) async fn next(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<ReviewNext>,
) -> Result<Response, Refusal> {
    let next = app.service.actions.reviews.next(caller, &request.queue).await?;
    Ok(next.map_or_else(|| StatusCode::NO_CONTENT.into_response(), |review| Json(review).into_response()))
}

/// Read a review.
///
/// If the caller has claimed it, the claim is renewed.
#[utoipa::path(get, path = "/v1/reviews/{review_id}", tag = "reviews",
    params(("review_id" = Uuid, Path, description = "The review's id.")), responses(
    (status = 200, body = Review),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such review.", body = Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(review_id): extract::Path<Uuid>,
) -> Result<Json<Review>, Refusal> {
    Ok(Json(app.service.actions.reviews.get(caller, review_id).await?))
}

/// Claim a review.
///
/// A claim lasts 10 minutes (`AUSPEX_CLAIM_SECONDS`) unless it is renewed, by claiming or reading the review again.
#[utoipa::path(post, path = "/v1/reviews/{review_id}/claim", tag = "reviews",
    params(("review_id" = Uuid, Path, description = "The review's id.")), responses(
    (status = 200, body = Review),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such review.", body = Error),
    (status = 409, description = "Somebody else has claimed it, or it is resolved.", body = Error),
))]
pub(super) async fn claim(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(review_id): extract::Path<Uuid>,
) -> Result<Json<Review>, Refusal> {
    Ok(Json(app.service.actions.reviews.claim(caller, review_id).await?))
}

/// Give a claimed review back.
///
/// Nothing happens if nobody has claimed it.
#[utoipa::path(post, path = "/v1/reviews/{review_id}/release", tag = "reviews",
    params(("review_id" = Uuid, Path, description = "The review's id.")), responses(
    (status = 200, body = Review),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such review.", body = Error),
    (status = 409, description = "Somebody else has claimed it, or it is resolved.", body = Error),
))]
pub(super) async fn release(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(review_id): extract::Path<Uuid>,
) -> Result<Json<Review>, Refusal> {
    Ok(Json(app.service.actions.reviews.release(caller, review_id).await?))
}

/// Decide about a review.
///
/// The decision and its labels are stored together or not at all. The labels have the source `review`.
#[utoipa::path(post, path = "/v1/reviews/{review_id}/resolve", tag = "reviews",
    params(("review_id" = Uuid, Path, description = "The review's id.")), request_body = ReviewResolve, responses(
    (status = 200, body = Review),
    (status = 404, description = "There is no such review.", body = Error),
    (status = 409, description = "Somebody else has claimed it, or it is resolved.", body = Error),
))]
pub(super) async fn resolve(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(review_id): extract::Path<Uuid>,
    extract::Json(request): extract::Json<ReviewResolve>,
) -> Result<Json<Review>, Refusal> {
    Ok(Json(app.service.actions.reviews.resolve(caller, review_id, &request).await?))
}

/// Take a decision back.
///
/// Within 24 hours. The labels that the review gave are withdrawn, and what they replaced stands again.
#[utoipa::path(post, path = "/v1/reviews/{review_id}/reopen", tag = "reviews",
    params(("review_id" = Uuid, Path, description = "The review's id.")), responses(
    (status = 200, body = Review),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such review.", body = Error),
    (status = 409, description = "It is not resolved, or was resolved more than 24 hours ago, or the object has another \
        open review in this queue.", body = Error),
))]
pub(super) async fn reopen(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(review_id): extract::Path<Uuid>,
) -> Result<Json<Review>, Refusal> {
    Ok(Json(app.service.actions.reviews.reopen(caller, review_id).await?))
}
