//! Rules and their firings.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use model::api::{
    Error, Rule, RuleCreate, RuleFiringList, RuleList, RuleReplay, RuleReplayRequest, RuleReplayResponse,
    RuleReplayRun, RuleTest, RuleTestRequest, RuleUpdate,
};
use serde::Deserialize;
use service::FiringQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Authenticated;
use super::envelope::Refusal;
use super::extract;

/// Which firings to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FiringParameters {
    /// Only firings of this rule.
    rule_id: Option<Uuid>,
    /// Only firings about this object.
    object_id: Option<String>,
    /// The maximum number; 50 if left out.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page; the other parameters must stay the same.
    cursor: Option<String>,
}

/// List the rules.
///
/// In order of creation.
#[utoipa::path(get, path = "/v1/rules", tag = "rules", responses((status = 200, body = RuleList)))]
pub(super) async fn list(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
) -> Result<Json<RuleList>, Refusal> {
    Ok(Json(app.service.actions.rules.list(caller.tenant).await?))
}

/// Create a rule.
///
/// The condition is checked against the account's signals; an error names the column. The rule is evaluated after every
/// analysis and every verdict. Without a cooldown it fires when the condition becomes true for an object; with one it
/// fires at most once in that time, and again after it while the condition stays true.
///
/// A rule that names a disabled signal is suspended and keeps its state until the signal is enabled again. If a signal is
/// deleted or its type changes, the state of the rules that name it is reset.
#[utoipa::path(post, path = "/v1/rules", tag = "rules", request_body = RuleCreate, responses(
    (status = 201, description = "Created.", body = Rule),
    (status = 409, description = "The account has 200 rules.", body = Error),
))]
pub(super) async fn create(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<RuleCreate>,
) -> Result<(StatusCode, Json<Rule>), Refusal> {
    Ok((StatusCode::CREATED, Json(app.service.actions.rules.create(caller, &request).await?)))
}

/// Read a rule.
///
/// Its condition, its action and whether it is enabled.
#[utoipa::path(get, path = "/v1/rules/{rule_id}", tag = "rules",
    params(("rule_id" = Uuid, Path, description = "The rule's id.")), responses(
    (status = 200, body = Rule),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such rule.", body = Error),
))]
pub(super) async fn read(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(rule_id): extract::Path<Uuid>,
) -> Result<Json<Rule>, Refusal> {
    Ok(Json(app.service.actions.rules.get(caller.tenant, rule_id).await?))
}

/// Change a rule.
///
/// Fields left out keep their values; the resulting rule is validated as a whole. A new condition resets the rule's state
/// for every object; any other change keeps it.
#[utoipa::path(patch, path = "/v1/rules/{rule_id}", tag = "rules",
    params(("rule_id" = Uuid, Path, description = "The rule's id.")), request_body = RuleUpdate, responses(
    (status = 200, body = Rule),
    (status = 404, description = "There is no such rule.", body = Error),
))]
pub(super) async fn update(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(rule_id): extract::Path<Uuid>,
    extract::Json(update): extract::Json<RuleUpdate>,
) -> Result<Json<Rule>, Refusal> {
    Ok(Json(app.service.actions.rules.update(caller, rule_id, &update).await?))
}

/// Delete a rule. Its firings stay listed.
///
/// Actions that are already queued are still carried out.
#[utoipa::path(delete, path = "/v1/rules/{rule_id}", tag = "rules",
    params(("rule_id" = Uuid, Path, description = "The rule's id.")), responses(
    (status = 204, description = "Deleted."),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such rule.", body = Error),
))]
pub(super) async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(rule_id): extract::Path<Uuid>,
) -> Result<StatusCode, Refusal> {
    app.service.actions.rules.delete(caller.tenant, rule_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List firings, newest first. They are kept for 90 days.
///
/// Each lists the values that satisfied the condition and the outcome of the action.
#[utoipa::path(get, path = "/v1/rule_firings", tag = "rules", params(FiringParameters), responses(
    (status = 200, body = RuleFiringList),
    (status = 400, description = "A parameter is out of range or not a UUID, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn firings(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Query(parameters): extract::Query<FiringParameters>,
) -> Result<Json<RuleFiringList>, Refusal> {
    let FiringParameters { rule_id, object_id, limit, cursor } = parameters;
    let query = FiringQuery { rule_id, object_id, limit, cursor };
    Ok(Json(app.service.actions.firings.list(caller.tenant, &query).await?))
}

/// Test the action of a rule.
///
/// Sends a mail, a chat message or a delivery that says that it is a test, at once, and answers what the receiver said. Whether
/// a rule is saved does not matter. A mail goes to nobody to whom a rule could not write, and a recipient who has to agree first is
/// asked as when a rule fires. A webhook gets `endpoint.test`, which is retried like any delivery; the answer is about its first
/// attempt. At most 20 an hour for an account, which count like the messages of rules.
#[utoipa::path(post, path = "/v1/rules/test", tag = "rules", request_body = RuleTestRequest, responses(
    (status = 200, body = RuleTest),
    (status = 400, description = "The action is invalid, or it is a review, which sends nothing.", body = Error),
    (status = 409, description = "The webhook endpoint is disabled.", body = Error),
))]
pub(super) async fn test(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<RuleTestRequest>,
) -> Result<Json<RuleTest>, Refusal> {
    Ok(Json(app.service.actions.tests.run(caller.tenant, &request).await?))
}

/// Replay a rule over the past of answers.
///
/// Says how often a rule would have fired, for which objects and on which days, and which of the enabled rules would have fired for
/// the same ones. No model runs and nothing is charged. Above 200,000 analyses (`AUSPEX_REPLAY_INLINE`) it runs in the background.
#[utoipa::path(post, path = "/v1/rules/replay", tag = "rules", request_body = RuleReplayRequest, responses(
    (status = 200, body = RuleReplay),
    (status = 202, description = "It runs in the background.", body = RuleReplayRun),
    (status = 400, description = "The condition is invalid, or the time range is.", body = Error),
    (status = 409, description = "A replay of the account is running in the background.", body = Error),
))]
pub(super) async fn replay(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Json(request): extract::Json<RuleReplayRequest>,
) -> Result<Response, Refusal> {
    Ok(match app.service.actions.replays.replay(caller.tenant, &request).await? {
        RuleReplayResponse::Done(result) => Json(result).into_response(),
        RuleReplayResponse::Started(run) => (StatusCode::ACCEPTED, Json(run)).into_response(),
    })
}

/// Read a replay that runs in the background.
///
/// Once its status is `done`, it has the fields of a replay. It is kept for a week.
#[utoipa::path(get, path = "/v1/rules/replays/{replay_id}", tag = "rules",
    params(("replay_id" = Uuid, Path, description = "The replay's id.")), responses(
    (status = 200, body = RuleReplayRun),
    (status = 400, description = "The id is not a UUID.", body = Error),
    (status = 404, description = "There is no such replay.", body = Error),
))]
pub(super) async fn read_replay(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    extract::Path(replay_id): extract::Path<Uuid>,
) -> Result<Json<RuleReplayRun>, Refusal> {
    Ok(Json(app.service.actions.replays.get(caller.tenant, replay_id).await?))
}
