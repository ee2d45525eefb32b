//! Who may do what: one table of all operations, which the router goes by and the documentation shows.
//!
//! An authenticated operation that is not in the table is refused to everybody; a test compares the table with the router.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::Method;
use model::MemberRole::{self, Admin, Analyst, Owner, Viewer};
use model::Scope::{self, Ingest, Label, Mcp, Moderate, Read, Write};
use service::{Caller, Error, Kind};

/// What the paths of the Perspective API begin with: their key is in the query.
pub(super) const PERSPECTIVE_PATHS: &str = "/v1alpha1/";

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Everybody: there is nothing to protect, or the request carries a proof of its own.
    Public,
    /// Members with at least this role.
    Members(MemberRole),
    /// Members with at least this role, and API keys with this scope.
    MembersAndKeys(MemberRole, Scope),
    /// Operators of the install, whatever their role.
    Operators,
    /// Bearer keys with this scope, and nobody else.
    BearerKeys(Scope),
}

const PUBLIC: Access = Access::Public;

const fn members(least: MemberRole) -> Access {
    Access::Members(least)
}

const fn both(least: MemberRole, scope: Scope) -> Access {
    Access::MembersAndKeys(least, scope)
}

/// Every operation: method, path and who may.
const OPERATIONS: &[(&str, &str, Access)] = &[
    ("GET", "/healthz", PUBLIC),
    ("GET", "/readyz", PUBLIC),
    ("GET", "/metrics", PUBLIC),
    ("GET", "/openapi.json", PUBLIC),
    ("GET", "/openapi.yaml", PUBLIC),
    ("POST", "/webhooks/stripe", PUBLIC),
    ("POST", "/auth/token", PUBLIC),
    ("GET", "/auth/console/state", PUBLIC),
    ("POST", "/auth/console/register", PUBLIC),
    ("POST", "/auth/console/login", PUBLIC),
    ("POST", "/auth/console/password/forgot", PUBLIC),
    ("POST", "/auth/console/password/reset", PUBLIC),
    ("POST", "/auth/console/verify", PUBLIC),
    ("POST", "/auth/console/first_proof", PUBLIC),
    ("POST", "/auth/console/recipients/confirm", PUBLIC),
    ("POST", "/auth/console/recipients/withdraw", PUBLIC),
    ("POST", "/auth/console/invitations/accept", PUBLIC),
    ("POST", "/auth/console/passkey/start", PUBLIC),
    ("POST", "/auth/console/passkey/finish", PUBLIC),
    ("POST", "/auth/console/machine_login", PUBLIC),
    ("GET", "/auth/console/oauth/providers", PUBLIC),
    ("POST", "/auth/console/oauth/{provider}/authorize", PUBLIC),
    ("POST", "/auth/console/oauth/{provider}", PUBLIC),
    ("POST", "/auth/console/logout", members(Viewer)),
    ("POST", "/auth/console/reauthenticate", members(Viewer)),
    ("GET", "/v1/me", both(Viewer, Read)),
    ("POST", "/v1/me/onboarded", members(Viewer)),
    ("POST", "/v1/me/password", members(Viewer)),
    ("GET", "/v1/me/notifications", members(Viewer)),
    ("PUT", "/v1/me/notifications", members(Viewer)),
    ("GET", "/v1/me/sessions", members(Viewer)),
    ("DELETE", "/v1/me/sessions", members(Viewer)),
    ("DELETE", "/v1/me/sessions/{session_id}", members(Viewer)),
    ("GET", "/v1/me/mfa", members(Viewer)),
    ("POST", "/v1/me/mfa/setup", members(Viewer)),
    ("POST", "/v1/me/mfa/enable", members(Viewer)),
    ("POST", "/v1/me/mfa/disable", members(Viewer)),
    ("GET", "/v1/me/identities", members(Viewer)),
    ("POST", "/v1/me/identities/{provider}", members(Viewer)),
    ("DELETE", "/v1/me/identities/{provider}", members(Viewer)),
    ("GET", "/v1/me/passkeys", members(Viewer)),
    ("POST", "/v1/me/passkeys/start", members(Viewer)),
    ("POST", "/v1/me/passkeys/finish", members(Viewer)),
    ("PATCH", "/v1/me/passkeys/{passkey_id}", members(Viewer)),
    ("DELETE", "/v1/me/passkeys/{passkey_id}", members(Viewer)),
    ("POST", "/v1/me/machine_login", members(Admin)),
    ("GET", "/v1/settings", both(Viewer, Read)),
    ("PATCH", "/v1/settings", both(Admin, Write)),
    ("POST", "/v1/account/deletion", members(Owner)),
    ("DELETE", "/v1/account/deletion", members(Owner)),
    ("GET", "/v1/members", members(Admin)),
    ("PATCH", "/v1/members/{user_id}", members(Admin)),
    ("DELETE", "/v1/members/{user_id}", members(Admin)),
    ("GET", "/v1/invitations", members(Admin)),
    ("POST", "/v1/invitations", members(Admin)),
    ("DELETE", "/v1/invitations/{invitation_id}", members(Admin)),
    ("GET", "/v1/audit_log", members(Admin)),
    // More is asked for some of what it exports: see `service::Exports`.
    ("GET", "/v1/export", both(Viewer, Read)),
    ("GET", "/v1/operator/health", Access::Operators),
    ("GET", "/v1/operator/tenants", Access::Operators),
    ("GET", "/v1/api_keys", both(Viewer, Read)),
    ("POST", "/v1/api_keys", both(Admin, Write)),
    ("PATCH", "/v1/api_keys/{key_id}", both(Admin, Write)),
    ("DELETE", "/v1/api_keys/{key_id}", both(Admin, Write)),
    ("POST", "/v1/api_keys/{key_id}/rotate", both(Admin, Write)),
    ("GET", "/v1/key_refusals", members(Admin)),
    ("GET", "/v1/overview", both(Viewer, Read)),
    ("GET", "/v1/objects", both(Viewer, Read)),
    ("GET", "/v1/objects/{object_id}", both(Viewer, Read)),
    ("DELETE", "/v1/objects/{object_id}", both(Admin, Write)),
    ("GET", "/v1/objects/{object_id}/state", both(Viewer, Read)),
    ("GET", "/v1/object_count", both(Viewer, Read)),
    ("GET", "/v1/objects/{object_id}/answers", both(Viewer, Read)),
    ("GET", "/v1/objects/{object_id}/timeline", both(Viewer, Read)),
    ("POST", "/v1/objects/{object_id}/analyze", both(Admin, Write)),
    ("POST", "/v1/analyze", both(Admin, Write)),
    ("GET", "/v1/objects/{object_id}/events", both(Viewer, Read)),
    ("POST", "/v1/objects/{object_id}/events", both(Admin, Ingest)),
    ("POST", "/v1/objects/{object_id}/ingest", both(Admin, Ingest)),
    ("GET", "/v1/signals", both(Viewer, Read)),
    ("PUT", "/v1/signals/{key}", both(Admin, Write)),
    ("DELETE", "/v1/signals/{key}", both(Admin, Write)),
    ("GET", "/v1/signals/{key}/versions", both(Viewer, Read)),
    ("POST", "/v1/signals/{key}/versions/{version}/restore", both(Admin, Write)),
    ("GET", "/v1/signals/{key}/backfill", both(Viewer, Read)),
    ("POST", "/v1/signals/{key}/backfill", both(Admin, Write)),
    ("GET", "/v1/signals/{key}/distribution", both(Viewer, Read)),
    ("GET", "/v1/signals/{key}/quality", both(Viewer, Read)),
    ("POST", "/v1/signals/{key}/calibrations", both(Admin, Write)),
    ("GET", "/v1/signals/{key}/escalation", both(Admin, Read)),
    ("PUT", "/v1/signals/{key}/escalation", both(Admin, Write)),
    ("PUT", "/v1/signals/{key}/calibration", both(Admin, Write)),
    ("GET", "/v1/signals/{key}/trials", both(Viewer, Read)),
    ("POST", "/v1/signals/{key}/trials", both(Analyst, Write)),
    ("GET", "/v1/signals/{key}/trials/{trial_id}", both(Viewer, Read)),
    ("DELETE", "/v1/signals/{key}/trials/{trial_id}", both(Analyst, Write)),
    ("POST", "/v1/signals/{key}/trials/{trial_id}/adopt", both(Admin, Write)),
    ("PUT", "/v1/objects/{object_id}/labels/{signal}", both(Analyst, Label)),
    ("GET", "/v1/labels", both(Viewer, Read)),
    ("POST", "/v1/labels", both(Analyst, Label)),
    ("DELETE", "/v1/labels/{label_id}", both(Analyst, Label)),
    ("GET", "/v1/reviews", both(Viewer, Read)),
    ("POST", "/v1/reviews", both(Analyst, Label)),
    ("GET", "/v1/reviews/queues", both(Viewer, Read)),
    ("POST", "/v1/reviews/next", both(Analyst, Label)),
    ("GET", "/v1/reviews/{review_id}", both(Viewer, Read)),
    ("POST", "/v1/reviews/{review_id}/claim", both(Analyst, Label)),
    ("POST", "/v1/reviews/{review_id}/release", both(Analyst, Label)),
    ("POST", "/v1/reviews/{review_id}/resolve", both(Analyst, Label)),
    ("POST", "/v1/reviews/{review_id}/reopen", both(Analyst, Label)),
    ("POST", "/v1/objects/{object_id}/explain", both(Analyst, Write)),
    ("POST", "/v1/playground", both(Analyst, Write)),
    ("POST", "/v1/systemone", both(Analyst, Write)),
    ("POST", "/mcp", Access::BearerKeys(Mcp)),
    ("POST", "/v1/moderations", Access::BearerKeys(Moderate)),
    ("POST", "/v1alpha1/comments:analyze", Access::BearerKeys(Moderate)),
    ("POST", "/v1alpha1/comments:suggestscore", Access::BearerKeys(Moderate)),
    ("GET", "/v1/rules", both(Viewer, Read)),
    ("POST", "/v1/rules", both(Admin, Write)),
    ("GET", "/v1/rules/{rule_id}", both(Viewer, Read)),
    ("PATCH", "/v1/rules/{rule_id}", both(Admin, Write)),
    ("DELETE", "/v1/rules/{rule_id}", both(Admin, Write)),
    ("GET", "/v1/rule_firings", both(Viewer, Read)),
    ("POST", "/v1/rules/test", both(Admin, Write)),
    ("POST", "/v1/rules/replay", both(Viewer, Write)),
    ("GET", "/v1/rules/replays/{replay_id}", both(Viewer, Read)),
    ("POST", "/v1/conditions/check", both(Viewer, Write)),
    ("GET", "/v1/webhooks", both(Viewer, Read)),
    ("POST", "/v1/webhooks", both(Admin, Write)),
    ("GET", "/v1/webhooks/{endpoint_id}", both(Viewer, Read)),
    ("PATCH", "/v1/webhooks/{endpoint_id}", both(Admin, Write)),
    ("DELETE", "/v1/webhooks/{endpoint_id}", both(Admin, Write)),
    ("GET", "/v1/webhooks/{endpoint_id}/health", both(Viewer, Read)),
    ("POST", "/v1/webhooks/{endpoint_id}/test", both(Admin, Write)),
    ("POST", "/v1/webhooks/{endpoint_id}/rotate_secret", both(Admin, Write)),
    ("GET", "/v1/webhook_deliveries", both(Viewer, Read)),
    ("POST", "/v1/webhook_deliveries/{delivery_id}/replay", both(Admin, Write)),
    ("GET", "/v1/billing", both(Admin, Read)),
    ("GET", "/v1/billing/ledger", both(Admin, Read)),
    ("POST", "/v1/billing/checkout", both(Owner, Write)),
    ("GET", "/v1/billing/checkout/{session_id}", both(Admin, Read)),
    ("GET", "/v1/usage", both(Admin, Read)),
];

/// Refuses a caller who may not call this operation. `path` is the route's template.
pub(super) fn authorize(method: &Method, path: &str, caller: &Caller) -> Result<(), Error> {
    // A HEAD is answered like a GET.
    let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
    match table().get(&(method, path)) {
        Some(Access::Public) => Ok(()),
        Some(Access::Members(least)) => caller.require(*least, None),
        // Who is one is asked where the database can be.
        Some(Access::Operators) => caller.require(Viewer, None),
        Some(Access::MembersAndKeys(least, scope)) => caller.require(*least, Some(*scope)),
        Some(Access::BearerKeys(scope)) => caller.require_key(*scope),
        None => Err(Error::new(Kind::Forbidden, "nobody may do this")),
    }
}

/// Whether an operation is for operators of the install alone. `path` is the route's template.
pub(super) fn is_for_operators(method: &Method, path: &str) -> bool {
    let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
    table().get(&(method, path)) == Some(&Access::Operators)
}

fn table() -> &'static HashMap<(&'static str, &'static str), Access> {
    static TABLE: OnceLock<HashMap<(&str, &str), Access>> = OnceLock::new();
    TABLE
        .get_or_init(|| OPERATIONS.iter().map(|(method, path, access)| ((*method, *path), *access)).collect())
}

/// One operation of the table, for tests of the router: method, path, the least role that may, and the scope that a key needs.
/// Without either, everybody may; with a scope alone, bearer keys. Operators have any role.
pub type OperationAccess = (&'static str, &'static str, Option<MemberRole>, Option<Scope>);

/// All operations, in the order of the table.
pub fn operations() -> Vec<OperationAccess> {
    let row = |(method, path, access): &(&'static str, &'static str, Access)| match access {
        Access::Public => (*method, *path, None, None),
        Access::Members(least) => (*method, *path, Some(*least), None),
        Access::Operators => (*method, *path, Some(Viewer), None),
        Access::MembersAndKeys(least, scope) => (*method, *path, Some(*least), Some(*scope)),
        Access::BearerKeys(scope) => (*method, *path, None, Some(*scope)),
    };
    OPERATIONS.iter().map(row).collect()
}

/// The table as Markdown, for the documentation: what needs a credential.
pub fn access_table() -> String {
    let mut text = String::from(
        "| operation | viewer | analyst | admin | owner | API key |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for ((method, path, least, scope), (.., access)) in operations().into_iter().zip(OPERATIONS) {
        if *access == Access::Public {
            continue;
        }
        let may = if *access == Access::Operators { "operators" } else { "yes" };
        let roles =
            MemberRole::ALL.map(|role| if least.is_some_and(|least| role >= least) { may } else { "" });
        let kind = if matches!(access, Access::BearerKeys(_)) { ", bearer" } else { "" };
        let key = scope.map_or_else(String::new, |scope| format!("`{}`{kind}", scope.as_str()));
        let _ = writeln!(text, "| `{method} {path}` | {} | {key} |", roles.join(" | "));
    }
    text
}
