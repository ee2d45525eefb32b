//! The audit log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{AuditAction, Timestamp};

/// Something that somebody did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its id.
    pub id: Uuid,
    /// When it was done.
    pub at: Timestamp,
    /// Who did it.
    pub actor: AuditActor,
    /// What was done.
    pub action: AuditAction,
    /// What it was done to.
    pub target: AuditTarget,
    /// The IP address that the request came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "203.0.113.9")]
    pub address: Option<String>,
    /// The request's `X-Request-Id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// The record as it was before, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub before: Option<Value>,
    /// The record as it is after, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub after: Option<Value>,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditActor {
    /// A user, an API key, or the operator of the deployment.
    pub kind: AuditActorKind,
    /// The id of the user or the key; the operator has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<Uuid>,
    /// The email address or the name of the key at that time.
    pub name: String,
}

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditActorKind {
    /// A user.
    User,
    /// An API key.
    Key,
    /// The operator of the deployment, with a command.
    Operator,
}

crate::text_values!(AuditActorKind { User = "user", Key = "key", Operator = "operator" });

/// What something was done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditTarget {
    /// The kind of thing: what stands before the dot of the action.
    #[schema(example = "rule")]
    pub kind: String,
    /// Its id, or the key of a signal.
    pub id: String,
}

/// A page of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditLogPage {
    /// The entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; left out on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
