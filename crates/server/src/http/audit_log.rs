//! The audit log.

use axum::Json;
use axum::extract::State;
use model::api::{AuditLogPage, Error};
use serde::Deserialize;
use service::AuditQuery;
use utoipa::IntoParams;
use uuid::Uuid;

use super::App;
use super::authenticate::Member;
use super::envelope::Refusal;
use super::extract;

/// Which entries are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParameters {
    /// Only what the user or key with this id did.
    actor: Option<Uuid>,
    /// Only this action, such as `rule.updated`.
    action: Option<String>,
    /// The page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// List who changed what, newest first.
///
/// Sign-ins (failed ones too), changes of members, keys, signals, rules, webhooks and settings, and deletions, with the record
/// before and after. Secrets are left out. Kept for a year (`AUSPEX_AUDIT_DAYS`).
#[utoipa::path(get, path = "/v1/audit_log", tag = "members", security(("console_token" = [])), params(AuditParameters), responses(
    (status = 200, body = AuditLogPage),
    (status = 400, description = "A parameter is out of range, or the cursor belongs to another list.", body = Error),
))]
pub(super) async fn list(
    State(app): State<App>,
    member: Member,
    extract::Query(parameters): extract::Query<AuditParameters>,
) -> Result<Json<AuditLogPage>, Refusal> {
    let AuditParameters { actor, action, limit, cursor } = parameters;
    let query = AuditQuery { actor, action, limit, cursor };
    Ok(Json(app.service.accounts.audit_log.list(member.tenant, &query).await?))
}
