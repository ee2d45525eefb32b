//! What operators see of the whole install.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Timestamp;

/// How a part of the install is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Nothing is to be done.
    Good,
    /// Worth a look.
    Worry,
    /// It does not work, or will not for long.
    Bad,
}

/// One part of the install.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthPart {
    /// How it is.
    pub state: HealthState,
    /// What was found, and what to do about it.
    #[schema(example = "Every analysis that is due has begun.")]
    pub advice: String,
}

/// The health of the install, part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstallHealth {
    /// What waits in the queues.
    pub queues: HealthPart,
    /// How long analyses wait.
    pub lag: HealthPart,
    /// What answers the questions.
    pub analyzer: HealthPart,
    /// What answers those that the first analyzer is unsure of; left out without a second analyzer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub second_analyzer: Option<HealthPart>,
    /// Webhook deliveries.
    pub deliveries: HealthPart,
    /// Outgoing mail.
    pub mail: HealthPart,
    /// The database.
    pub database: HealthPart,
    /// The processes.
    pub nodes: HealthPart,
    /// The disk of the process that answers.
    pub disk: HealthPart,
}

/// An account, as operators see it: nothing of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatorTenant {
    /// The account's id.
    pub tenant_id: Uuid,
    /// The account's name.
    pub name: String,
    /// When it was opened.
    pub created_at: Timestamp,
    /// How many users can sign in.
    pub members: i64,
    /// The balance, rounded toward zero.
    pub balance_cents: i64,
    /// The bytes of the contents and metadata of its events.
    pub storage_bytes: i64,
    /// Since when it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub suspended_at: Option<Timestamp>,
    /// When it is to be deleted, if an owner has asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deletion_at: Option<Timestamp>,
}

/// Accounts, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperatorTenantList {
    /// The accounts.
    pub tenants: Vec<OperatorTenant>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}
