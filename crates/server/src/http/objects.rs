//! Objects and their answers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{
    AnalysisList, AnalyzeAllScheduled, AnalyzeScheduled, Distribution, Error, ExplainRequest, Explanation,
    MatchCount, ObjectAnalysis, ObjectList, ObjectState, Overview, Timeline,
};
use serde::Deserialize;
use service::{AnswerQuery, LabelQuery, ObjectQuery, TimelineQuery};
use utoipa::IntoParams;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// How many labels are read with an object.
const MAX_LABELS: i64 = 200;

/// Which objects to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParameters {
    /// A part of an object's id or display name, or comparisons of signals joined by `and` or a comma, such as
    /// `is_scammer > 0.8 and buyer_intent = ready_to_buy`, which page by `offset` only.
    q: Option<String>,
    /// `recent`: last seen first; `flagged`: highest yes/no probability first; `trust`: highest score first.
    #[param(example = "recent")]
    sort: Option<String>,
    /// The page size.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// The number of objects to skip.
    #[param(minimum = 0)]
    offset: Option<i64>,
    /// `next_cursor` of the previous page; `offset` is then ignored, and `q` and `sort` must stay the same.
    cursor: Option<String>,
    /// Whether comparisons that would be skipped, and listed in `warnings`, are refused instead.
    strict: Option<bool>,
}

/// Which objects to count.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CountParameters {
    /// A part of an object's id or display name, or comparisons of signals, as for the list of objects.
    q: Option<String>,
}

/// Which analyses of an object to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AnswerParameters {
    /// Only answers to the signal with this key, and the analyses that have one.
    signal: Option<String>,
    /// The page size; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; `signal` must stay the same.
    cursor: Option<String>,
}

/// Which part of a timeline to read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TimelineParameters {
    /// Kinds of items, separated by commas: `event`, `analysis`, `firing`, `review`, `delivery`, `label`; all if left out.
    #[param(example = "event,analysis")]
    kinds: Option<String>,
    /// The page size; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; `kinds` must stay the same.
    cursor: Option<String>,
}

/// What to read with an object.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ObjectParameters {
    /// `labels` and `timeline`, separated by commas: the object's newest labels, and the first page of its timeline.
    #[param(example = "labels,timeline")]
    include: Option<String>,
    /// Only these kinds of items in the included timeline, separated by commas; all if left out.
    #[param(example = "event,analysis")]
    kinds: Option<String>,
}

/// Read an overview of the account.
///
/// Counts, averages and shares of each signal, the types of objects, the ten riskiest objects, and what happened on the last
/// days. Its cost does not grow with the number of objects.
#[utoipa::path(get, path = "/v1/overview", tag = "objects", responses((status = 200, body = Overview)))]
pub(super) async fn overview(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<Overview>, Refusal> {
    Ok(Json(app.service.objects.overview.get(caller.tenant).await?))
}

/// List objects.
///
/// By a part of their id or name, or by their answers: `q` takes comparisons such as `is_scammer > 0.8` joined by
/// `and` or a comma. For the next page, set `cursor` to `next_cursor` of the previous one; a search by answers pages by
/// `offset`.
#[utoipa::path(get, path = "/v1/objects", tag = "objects", params(ListParameters), responses(
    (status = 200, body = ObjectList),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<ListParameters>,
) -> Result<Json<ObjectList>, Refusal> {
    let query = ObjectQuery {
        q: parameters.q,
        sort: extract::sort_named(parameters.sort.as_deref())?,
        limit: parameters.limit.unwrap_or(100),
        offset: parameters.offset.unwrap_or(0),
        cursor: parameters.cursor,
        strict: parameters.strict.unwrap_or(false),
    };
    Ok(Json(app.service.objects.reads.list(caller.tenant, &query).await?))
}

/// Count objects.
///
/// All of them, or those that match a query: exact up to 10,000.
#[utoipa::path(get, path = "/v1/object_count", tag = "objects", params(CountParameters), responses(
    (status = 200, body = MatchCount),
    (status = 400, description = "The query is too long.", body = Error),
))]
pub(super) async fn count(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<CountParameters>,
) -> Result<Json<MatchCount>, Refusal> {
    Ok(Json(app.service.objects.counts.objects(caller.tenant, parameters.q.as_deref()).await?))
}

/// Read how the answers to a signal are distributed.
///
/// Over the objects that match a query, or all: the 10,000 that were analyzed most recently among the 50,000 seen last.
#[utoipa::path(get, path = "/v1/signals/{key}/distribution", tag = "signals",
    params(("key" = String, Path, description = "The signal's key."), CountParameters), responses(
    (status = 200, body = Distribution),
    (status = 400, description = "The query is too long.", body = Error),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn distribution(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Query(parameters): extract::Query<CountParameters>,
) -> Result<Json<Distribution>, Refusal> {
    Ok(Json(app.service.objects.counts.distribution(caller.tenant, &key, parameters.q.as_deref()).await?))
}

/// Read an object's answers.
///
/// The latest answer to each enabled signal; `pending` lists the signals without an answer yet. Cached for up to three
/// seconds (`X-Cache`), but for what `include` names; writes through the same node are visible at once.
#[utoipa::path(get, path = "/v1/objects/{object_id}", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object."), ObjectParameters), responses(
    (status = 200, body = ObjectAnalysis, headers(("X-Cache" = String, description = "`HIT` or `MISS`."))),
    (status = 400, description = "The id or a parameter is invalid.", body = Error),
    (status = 404, description = "There is no such object.", body = Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    extract::Query(parameters): extract::Query<ObjectParameters>,
) -> Result<([(&'static str, &'static str); 1], Json<ObjectAnalysis>), Refusal> {
    let known = [("labels", "/v1/labels"), ("timeline", "/v1/objects/{object_id}/timeline")];
    let [labels, timeline] = extract::included(&caller, parameters.include.as_deref(), known)?;
    let (object, is_cached) = app.service.objects.reads.get(caller.tenant, &object_id).await?;
    let mut object = Arc::unwrap_or_clone(object);
    if labels {
        let query = LabelQuery {
            object_id: Some(object_id.clone()),
            limit: Some(MAX_LABELS),
            ..LabelQuery::default()
        };
        object.labels = Some(app.service.quality.labels.list(caller.tenant, &query).await?.labels);
    }
    if timeline {
        let first = TimelineQuery { kinds: parameters.kinds, ..TimelineQuery::default() };
        object.timeline = Some(app.service.analysis.timeline.list(caller.tenant, &object_id, &first).await?);
    }
    let cache = [("x-cache", if is_cached { "HIT" } else { "MISS" })];
    Ok((cache, Json(object)))
}

/// Delete an object.
///
/// Removes its events, answers, summary and queued work. Ledger entries are kept.
#[utoipa::path(delete, path = "/v1/objects/{object_id}", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object.")), responses(
    (status = 204, description = "Deleted."),
    (status = 400, description = "The id is invalid.", body = Error),
    (status = 404, description = "There is no such object.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
) -> Result<StatusCode, Refusal> {
    app.service.objects.reads.delete(caller.tenant, &object_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Read the summary of an object.
///
/// Older events are folded into a summary, so that what the analyzer reads stays bounded. Empty for an object that
/// does not exist.
#[utoipa::path(get, path = "/v1/objects/{object_id}/state", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object.")), responses(
    (status = 200, body = ObjectState),
    (status = 400, description = "The id is invalid.", body = Error),
))]
pub(super) async fn state(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
) -> Result<Json<ObjectState>, Refusal> {
    Ok(Json(app.service.objects.reads.state(caller.tenant, &object_id).await?))
}

/// List what every analysis of an object said.
///
/// Newest first, for as many days as the deployment keeps it (90, unless it is configured otherwise). Each answer has the
/// version of the signal that was asked.
#[utoipa::path(get, path = "/v1/objects/{object_id}/answers", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object."), AnswerParameters), responses(
    (status = 200, body = AnalysisList),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
    (status = 404, description = "There is no such object.", body = Error),
))]
pub(super) async fn answers(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    extract::Query(parameters): extract::Query<AnswerParameters>,
) -> Result<Json<AnalysisList>, Refusal> {
    let AnswerParameters { signal, limit, cursor } = parameters;
    let query = AnswerQuery { signal, limit: limit.unwrap_or(50), cursor };
    Ok(Json(app.service.objects.answers.list(caller.tenant, &object_id, &query).await?))
}

/// Read an object's timeline.
///
/// One list, newest first, of what happened about it: its events, what analyses said, rules that fired, and webhook
/// deliveries. The record of an item is under the name of its kind.
#[utoipa::path(get, path = "/v1/objects/{object_id}/timeline", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object."), TimelineParameters), responses(
    (status = 200, body = Timeline),
    (status = 400, description = "A parameter is invalid, or the cursor belongs to another list.", body = Error),
    (status = 404, description = "There is no such object.", body = Error),
))]
pub(super) async fn timeline(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    extract::Query(parameters): extract::Query<TimelineParameters>,
) -> Result<Json<Timeline>, Refusal> {
    let TimelineParameters { kinds, limit, cursor } = parameters;
    let query = TimelineQuery { kinds, limit, cursor };
    Ok(Json(app.service.analysis.timeline.list(caller.tenant, &object_id, &query).await?))
}

/// Explain an answer about an object.
///
/// Asks the signal about the object again, and for each event, message and line of the summary how much the answer differs
/// when that part is not read. It shows what moved the answer, which is not the same as why. Nothing is recorded; it is
/// limited like a verdict, and billed for all that was read.
#[utoipa::path(post, path = "/v1/objects/{object_id}/explain", tag = "objects", request_body = ExplainRequest,
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object.")), responses(
    (status = 200, body = Explanation),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 404, description = "There is no such object or signal.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn explain(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
    extract::Json(request): extract::Json<ExplainRequest>,
) -> Result<Json<Explanation>, Refusal> {
    let explanations = app.service.analysis.explanations.clone();
    let analysis = |waiting| async move {
        explanations.explain(caller.tenant, &object_id, &request.signal, &waiting).await
    };
    Ok(Json(app.service.run_to_end(analysis).await?))
}

/// Analyze an object again.
///
/// Runs at live priority.
#[utoipa::path(post, path = "/v1/objects/{object_id}/analyze", tag = "objects",
    params(("object_id" = String, Path, min_length = 1, max_length = 255, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        description = "Your own id for the object.")), responses(
    (status = 202, body = AnalyzeScheduled),
    (status = 400, description = "The id is invalid.", body = Error),
    (status = 404, description = "The object has no events.", body = Error),
))]
pub(super) async fn analyze(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(object_id): extract::Path<String>,
) -> Result<(StatusCode, Json<AnalyzeScheduled>), Refusal> {
    Ok((StatusCode::ACCEPTED, Json(app.service.analysis.jobs.schedule(caller.tenant, &object_id).await?)))
}

/// Analyze every object again.
///
/// Runs at bulk priority, behind live traffic; each analysis is billed. If such a run is already in progress, no second
/// one is started and the response describes the first.
#[utoipa::path(post, path = "/v1/analyze", tag = "objects", responses((status = 202, body = AnalyzeAllScheduled)))]
pub(super) async fn analyze_all(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<(StatusCode, Json<AnalyzeAllScheduled>), Refusal> {
    Ok((StatusCode::ACCEPTED, Json(app.service.analysis.bulk_runs.analyze_all(caller.tenant).await?)))
}
