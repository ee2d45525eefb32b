//! Trials of another wording of a signal.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use model::api::{Error, Signal, Trial, TrialCreate, TrialEstimate, TrialList, TrialStarted};
use serde::Deserialize;
use service::StartedTrial;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which trials to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TrialParameters {
    /// The maximum number; 20 if left out.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// Try another wording of a signal.
///
/// Both wordings are put to objects that are there, in one call of the model each, and nothing else changes: no answer, no rule
/// and no webhook. The trial is charged like any analysis and runs after live work. With `dry_run` nothing is started.
#[utoipa::path(post, path = "/v1/signals/{key}/trials", tag = "quality",
    params(("key" = String, Path, description = "The signal's key.")), request_body = TrialCreate, responses(
    (status = 200, description = "With `dry_run`: what it would cost.", body = TrialEstimate),
    (status = 202, description = "Started.", body = TrialStarted),
    (status = 404, description = "There is no such signal.", body = Error),
    (status = 409, description = "There are no such objects, or five trials are running.", body = Error),
))]
pub(super) async fn start(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Json(request): extract::Json<TrialCreate>,
) -> Result<Response, Refusal> {
    Ok(match app.service.analysis.trials.start(caller, &key, &request).await? {
        StartedTrial::Started(trial) => {
            (StatusCode::ACCEPTED, Json(TrialStarted { trial: *trial })).into_response()
        }
        StartedTrial::Estimate(estimate) => Json(estimate).into_response(),
    })
}

/// List the trials of a signal, newest first.
///
/// Without their figures, which each trial has by itself.
#[utoipa::path(get, path = "/v1/signals/{key}/trials", tag = "quality",
    params(("key" = String, Path, description = "The signal's key."), TrialParameters), responses(
    (status = 200, body = TrialList),
    (status = 400, description = "A parameter is out of range, or the cursor is of another list.", body = Error),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Query(parameters): extract::Query<TrialParameters>,
) -> Result<Json<TrialList>, Refusal> {
    let TrialParameters { limit, cursor } = parameters;
    Ok(Json(app.service.analysis.trials.list(caller.tenant, &key, limit, cursor.as_deref()).await?))
}

/// Read a trial, with its figures so far.
///
/// Over labelled objects, `difference` says by how much the proposed wording is better, with a 95 % interval.
#[utoipa::path(get, path = "/v1/signals/{key}/trials/{trial_id}", tag = "quality",
    params(
        ("key" = String, Path, description = "The signal's key."),
        ("trial_id" = Uuid, Path, description = "The trial's id."),
    ), responses(
    (status = 200, body = Trial),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such trial.", body = Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::PathPair(key, trial_id): extract::PathPair<String, Uuid>,
) -> Result<Json<Trial>, Refusal> {
    Ok(Json(app.service.analysis.trials.get(caller.tenant, &key, trial_id).await?))
}

/// Stop a trial.
///
/// What it has found so far stays; one that has ended is left as it is.
#[utoipa::path(delete, path = "/v1/signals/{key}/trials/{trial_id}", tag = "quality",
    params(
        ("key" = String, Path, description = "The signal's key."),
        ("trial_id" = Uuid, Path, description = "The trial's id."),
    ), responses(
    (status = 204, description = "Stopped."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such trial.", body = Error),
))]
pub(super) async fn cancel(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::PathPair(key, trial_id): extract::PathPair<String, Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.analysis.trials.cancel(caller.tenant, &key, trial_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adopt the wording of a trial.
///
/// It becomes the signal's next version.
#[utoipa::path(post, path = "/v1/signals/{key}/trials/{trial_id}/adopt", tag = "quality",
    params(
        ("key" = String, Path, description = "The signal's key."),
        ("trial_id" = Uuid, Path, description = "The trial's id."),
    ), responses(
    (status = 200, body = Signal),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such trial.", body = Error),
    (status = 409, description = "The trial is not done.", body = Error),
))]
pub(super) async fn adopt(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::PathPair(key, trial_id): extract::PathPair<String, Uuid>,
) -> Result<Json<Signal>, Refusal> {
    Ok(Json(app.service.analysis.signals.adopt(caller, &key, trial_id).await?))
}
