//! Signals, backfills, and analyses that record nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::api::{
    BackfillStatus, Error, PlaygroundRequest, PlaygroundVerdict, Signal, SignalBackfill, SignalInput,
    SignalList, SignalVersionList, SystemOneRequest, SystemOneResponse,
};

use super::App;
use super::authenticate::Authenticated;
use super::body_budget::Leased;
use super::envelope::Refusal;
use super::extract;

/// List all configured signals, enabled or not.
///
/// In order of their keys.
#[utoipa::path(get, path = "/v1/signals", tag = "signals", responses((status = 200, body = SignalList)))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<SignalList>, Refusal> {
    Ok(Json(app.service.analysis.signals.list(caller.tenant).await?))
}

/// Create a signal, or replace its definition.
///
/// Replaces the whole definition, except that `enabled` is unchanged if left out. Objects get their answer with their
/// next analysis, or by a backfill. If the `type` changes, the old answers are deleted.
#[utoipa::path(put, path = "/v1/signals/{key}", tag = "signals",
    params(("key" = String, Path, description = "1 to 64 letters, digits and underscores, at least one of them a letter.")),
    request_body = SignalInput, responses(
    (status = 200, body = Signal),
    (status = 409, description = "The signal is new, and the account has the maximum number of signals.", body = Error),
))]
pub(super) async fn put(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
    extract::Json(input): extract::Json<SignalInput>,
) -> Result<Json<Signal>, Refusal> {
    Ok(Json(app.service.analysis.signals.put(caller, &key, &input).await?))
}

/// Delete a signal and its answers.
///
/// Rules that name it are suspended until there is a signal with that key again.
#[utoipa::path(delete, path = "/v1/signals/{key}", tag = "signals",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 204, description = "Deleted."),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<StatusCode, Refusal> {
    app.service.analysis.signals.delete(caller.tenant, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the versions of a signal.
///
/// Newest first. Every change of its type, instructions, criteria or calibration makes one; the newest 100 are kept. The
/// numbers go on when a deleted key returns.
#[utoipa::path(get, path = "/v1/signals/{key}/versions", tag = "signals",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 200, body = SignalVersionList),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn versions(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<Json<SignalVersionList>, Refusal> {
    Ok(Json(app.service.analysis.signals.versions(caller.tenant, &key).await?))
}

/// Restore a version of a signal.
///
/// Its definition becomes the next version; if the signal has it already, nothing changes.
#[utoipa::path(post, path = "/v1/signals/{key}/versions/{version}/restore", tag = "signals",
    params(
        ("key" = String, Path, description = "The signal's key."),
        ("version" = i64, Path, minimum = 1, description = "The number of the version."),
    ), responses(
    (status = 200, body = Signal),
    (status = 400, description = "The version is not a number.", body = Error),
    (status = 404, description = "There is no such signal, or it has no such version.", body = Error),
))]
pub(super) async fn restore_version(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::PathPair(key, version): extract::PathPair<String, String>,
) -> Result<Json<Signal>, Refusal> {
    let version = version.parse().ok().filter(|version| *version > 0_i64);
    let version =
        version.ok_or_else(|| service::Error::bad_request("version: it must be a positive integer"))?;
    Ok(Json(app.service.analysis.signals.restore(caller, &key, version).await?))
}

/// Estimate a backfill, and read the progress of the latest one.
///
/// The estimate counts the objects without an answer to this signal, and what it would cost to analyze them at the
/// average cost so far.
#[utoipa::path(get, path = "/v1/signals/{key}/backfill", tag = "signals",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 200, body = BackfillStatus),
    (status = 404, description = "There is no such signal.", body = Error),
))]
pub(super) async fn backfill(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<Json<BackfillStatus>, Refusal> {
    Ok(Json(app.service.analysis.bulk_runs.backfill_status(caller.tenant, &key).await?))
}

/// Ask a signal about every object without an answer to it.
///
/// Runs at bulk priority, behind live traffic; each analysis is billed. If a backfill of the signal is already in
/// progress, no second one is started and the response describes the first.
#[utoipa::path(post, path = "/v1/signals/{key}/backfill", tag = "signals",
    params(("key" = String, Path, description = "The signal's key.")), responses(
    (status = 202, body = SignalBackfill),
    (status = 404, description = "There is no such signal.", body = Error),
    (status = 409, description = "The signal is disabled.", body = Error),
))]
pub(super) async fn start_backfill(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(key): extract::Path<String>,
) -> Result<(StatusCode, Json<SignalBackfill>), Refusal> {
    Ok((
        StatusCode::ACCEPTED,
        Json(app.service.analysis.bulk_runs.start_backfill(caller.tenant, &key).await?),
    ))
}

/// Analyze events without recording them.
///
/// Billed and limited like a verdict.
#[utoipa::path(post, path = "/v1/playground", tag = "signals", request_body = PlaygroundRequest, responses(
    (status = 200, body = PlaygroundVerdict),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn playground(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    lease: Leased,
    extract::Json(request): extract::Json<PlaygroundRequest>,
) -> Result<Json<PlaygroundVerdict>, Refusal> {
    let playground = app.service.analysis.playground.clone();
    let analysis = |waiting| async move {
        let _lease = lease;
        playground.play(caller.tenant, request, &waiting).await
    };
    Ok(Json(app.service.run_to_end(analysis).await?))
}

/// Ask questions about a state.
///
/// Uses the wire format of typed decision models. Nothing is recorded; it is billed and limited like a verdict.
#[utoipa::path(post, path = "/v1/systemone", tag = "signals",
    request_body(content = SystemOneRequest, example = json!({
        "state": "The seller asks to be paid in gift cards.",
        "questions": {"scam": {"type": "noul", "instructions": "Is this a scam?"}},
    })), responses(
    (status = 200, body = SystemOneResponse),
    (status = 402, description = "The prepaid balance is empty.", body = Error),
    (status = 502, description = "The analyzer failed.", body = Error),
))]
pub(super) async fn system_one(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    lease: Leased,
    extract::Json(request): extract::Json<SystemOneRequest>,
) -> Result<Json<SystemOneResponse>, Refusal> {
    let playground = app.service.analysis.playground.clone();
    let analysis = |waiting| async move {
        let _lease = lease;
        playground.system_one(caller.tenant, &request, &waiting).await
    };
    Ok(Json(app.service.run_to_end(analysis).await?))
}
