//! Rule and firing records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Answer, TenantId, Timestamp};

/// What happens when a rule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionType {
    /// A mail is sent.
    Email,
    /// A message is posted to a Slack incoming webhook.
    Slack,
    /// `rule.triggered` is delivered to a registered endpoint.
    Webhook,
}

/// Whether a firing's action was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringStatus {
    /// It is on its way or has gone.
    Dispatched,
    /// It could not be, or was given up.
    Error,
}

/// A text that names none of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

crate::text_values!(ActionType { Email = "email", Slack = "slack", Webhook = "webhook" });
crate::text_values!(FiringStatus { Dispatched = "dispatched", Error = "error" });

impl FromStr for ActionType {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|action| action.as_str() == text).ok_or(UnknownName)
    }
}

impl FromStr for FiringStatus {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(UnknownName)
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name that nobody knows")
    }
}

impl std::error::Error for UnknownName {}

/// A condition over the answers about an object, and what happens when it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// Its id.
    pub id: Uuid,
    /// What people call it.
    #[schema(example = "Likely scammers")]
    pub name: String,
    /// The condition, as it was sent.
    #[schema(example = "is_scammer > 0.9 and buyer_intent = ready_to_buy")]
    pub when: String,
    /// What happens.
    pub action_type: ActionType,
    /// With what.
    pub action_config: ActionConfig,
    /// Whether it is looked at.
    pub enabled: bool,
    /// 0: it fires when the condition turns true. Above: at most once in so many seconds for an object, again after
    /// them while the condition stays true.
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What an action works with. Only the fields of its type are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"webhook_url": "https://hooks.slack.com/services/T000/B000/XXXX"}))]
pub struct ActionConfig {
    /// `email`: the address; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "email")]
    pub to: Option<String>,
    /// `email`: the subject, up to 200 characters; left out, it names rule and object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 200)]
    pub subject: Option<String>,
    /// `slack`: the address of an incoming webhook; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "uri")]
    pub webhook_url: Option<String>,
    /// `webhook`: a registered endpoint that receives `rule.triggered`; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub endpoint_id: Option<Uuid>,
}

/// A new rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "name": "Likely scammers",
    "when": "is_scammer > 0.9 and buyer_intent = ready_to_buy",
    "action_type": "slack",
    "action_config": {"webhook_url": "https://hooks.slack.com/services/T000/B000/XXXX"},
    "cooldown_seconds": 3600
}))]
pub struct RuleCreate {
    /// What people call it, up to 200 characters; left out, it is the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Comparisons of signals joined by `and` or a comma; all must hold.
    #[schema(max_length = 4000)]
    pub when: String,
    /// What happens.
    pub action_type: ActionType,
    /// With what. `email`: `to` (an address; required) and `subject`. `slack`: `webhook_url` (of an incoming webhook;
    /// required). `webhook`: `endpoint_id` (of a registered endpoint that receives `rule.triggered`; required). Fields
    /// that are not of the action's type are ignored.
    #[schema(value_type = Object)]
    pub action_config: Map<String, Value>,
    /// Whether it is looked at; it is unless this says no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: Option<i64>,
}

/// A change of a rule; what is left out stays. The whole of the resulting rule is checked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"enabled": false}))]
pub struct RuleUpdate {
    /// What people call it, up to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// The condition. Another one starts afresh with every object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4000)]
    pub when: Option<String>,
    /// What happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<ActionType>,
    /// With what, as for a new rule; it replaces the whole of what was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub action_config: Option<Map<String, Value>>,
    /// Whether it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How long it rests after a firing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: Option<i64>,
}

/// The rules of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleList {
    /// The rules, oldest first.
    pub rules: Vec<Rule>,
}

/// That a rule fired for an object, and what became of its action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleFiring {
    /// Its id.
    pub id: Uuid,
    /// The rule.
    pub rule_id: Uuid,
    /// The object.
    pub object_id: String,
    /// The condition as it was then.
    pub matched_when: String,
    /// The values that satisfied it, by signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object, example = json!({"is_scammer": 0.97}))]
    pub signal_values: Option<Value>,
    /// What was to happen.
    pub action_type: ActionType,
    /// Whether it did.
    pub status: FiringStatus,
    /// The error, or a short note of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// When.
    pub fired_at: Timestamp,
}

/// Firings, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleFiringList {
    /// The firings.
    pub firings: Vec<RuleFiring>,
}

/// The payload of `rule.triggered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleTriggered {
    /// `rule.triggered`.
    pub event: String,
    /// The rule.
    pub rule_id: Uuid,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rule_name: Option<String>,
    /// Whose it is.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// The object that it fired for.
    pub object_id: String,
    /// The condition.
    pub matched_when: String,
    /// What answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// When.
    pub occurred_at: Timestamp,
    /// The answers to the signals in the condition.
    pub values: Vec<Answer>,
}
