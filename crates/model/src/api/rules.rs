//! Rule and firing records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Answer, TenantId, Timestamp};

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionType {
    /// Sends an email.
    Email,
    /// Posts a message to a Slack incoming webhook.
    Slack,
    /// Delivers `rule.triggered` to a registered endpoint.
    Webhook,
    /// Opens a review of the object.
    Review,
}

/// The outcome of a firing's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FiringStatus {
    /// Queued or sent.
    Dispatched,
    /// It could not be queued, or could not be sent.
    Error,
    /// Nothing was sent, because the recipient of the email has not agreed to it.
    Unconfirmed,
    /// Nothing was sent, because the rule is in shadow.
    Shadow,
}

/// Whether a rule acts, or is only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleMode {
    /// Its action is carried out.
    #[default]
    Live,
    /// Its firings are recorded with the status `shadow`, and nothing is sent.
    Shadow,
}

/// A string that is not the name of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

crate::text_values!(ActionType { Email = "email", Slack = "slack", Webhook = "webhook", Review = "review" });
crate::text_values!(FiringStatus {
    Dispatched = "dispatched",
    Error = "error",
    Unconfirmed = "unconfirmed",
    Shadow = "shadow",
});
crate::text_values!(RuleMode { Live = "live", Shadow = "shadow" });

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

impl FromStr for RuleMode {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(UnknownName)
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unknown name")
    }
}

impl std::error::Error for UnknownName {}

/// A condition over the answers about an object, and the action to take when it becomes true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// Its id.
    pub id: Uuid,
    /// A name of your choice.
    #[schema(example = "Likely scammers")]
    pub name: String,
    /// The condition, as sent.
    #[schema(example = "is_scammer > 0.65 and buyer_intent = ready_to_buy")]
    pub when: String,
    /// The action.
    pub action_type: ActionType,
    /// The settings of the action.
    pub action_config: ActionConfig,
    /// Whether it is evaluated.
    pub enabled: bool,
    /// Whether its action is carried out; `live` in answers of earlier versions, which do not say it.
    #[serde(default)]
    #[schema(required = true)]
    pub mode: RuleMode,
    /// Why the service disabled it: `address proved` if somebody proved the maker's email address first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "address proved")]
    pub disabled_reason: Option<String>,
    /// 0: it fires when the condition becomes true. Otherwise it fires at most once in this many seconds for an object,
    /// and again after that while the condition stays true.
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: i64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The settings of an action. Only the fields of its type are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"webhook_url": "https://hooks.slack.com/services/T000/B000/XXXX"}))]
pub struct ActionConfig {
    /// `email`: the address; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "email")]
    pub to: Option<String>,
    /// `email`: the subject, up to 200 characters; if left out, it names the rule and the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 200)]
    pub subject: Option<String>,
    /// `slack`: the URL of an incoming webhook; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = "uri")]
    pub webhook_url: Option<String>,
    /// `webhook`: a registered endpoint that receives `rule.triggered`; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub endpoint_id: Option<Uuid>,
    /// `review`: the queue, 1 to 64 characters; required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_length = 1, max_length = 64)]
    pub queue: Option<String>,
    /// `review`: the keys of the signals to be labelled; if left out, those in the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, min_items = 1, max_items = 50)]
    pub signals: Option<Vec<String>>,
}

/// A new rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "name": "Likely scammers",
    "when": "is_scammer > 0.65 and buyer_intent = ready_to_buy",
    "action_type": "slack",
    "action_config": {"webhook_url": "https://hooks.slack.com/services/T000/B000/XXXX"},
    "cooldown_seconds": 3600
}))]
pub struct RuleCreate {
    /// A name of your choice, up to 200 characters; if left out, the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Comparisons of signals and facts, joined by `and`, `or` and commas, negated by `not`, grouped by parentheses.
    #[schema(max_length = 4000)]
    pub when: String,
    /// The action.
    pub action_type: ActionType,
    /// The settings of the action. `email`: `to` (an address; required) and `subject`. `slack`: `webhook_url`
    /// (of an incoming webhook; required). `webhook`: `endpoint_id` (of a registered endpoint that receives
    /// `rule.triggered`; required). `review`: `queue` (required) and `signals`. Fields of other action types are ignored.
    #[schema(value_type = Object)]
    pub action_config: Map<String, Value>,
    /// Whether it is evaluated; true if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether its action is carried out; `live` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RuleMode>,
    /// The cooldown in seconds; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: Option<i64>,
}

/// A change of a rule; fields left out keep their values. The resulting rule is validated as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"enabled": false}))]
pub struct RuleUpdate {
    /// A name of your choice, up to 200 characters. If it is the condition so far, it follows the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// The condition. A new one resets the rule's state for every object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4000)]
    pub when: Option<String>,
    /// The action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_type: Option<ActionType>,
    /// The settings of the action, as for a new rule; they replace all earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub action_config: Option<Map<String, Value>>,
    /// Whether it is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether its action is carried out. The rule's state stays: what was already true does not fire when it goes live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RuleMode>,
    /// The cooldown in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31_536_000)]
    pub cooldown_seconds: Option<i64>,
}

/// An action to be tested.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "name": "Likely scammers",
    "action_type": "slack",
    "action_config": {"webhook_url": "https://hooks.slack.com/services/T000/B000/XXXX"}
}))]
pub struct RuleTestRequest {
    /// What the message calls the rule, up to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// The action. A `review` sends nothing, so it cannot be tested.
    pub action_type: ActionType,
    /// The settings of the action, as for a new rule.
    #[schema(value_type = Object)]
    pub action_config: Map<String, Value>,
}

/// What came of the test of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleTestOutcome {
    /// The receiver took the message. Of an email, this is the mail server.
    Sent,
    /// The receiver answered that it does not take it.
    Refused,
    /// The receiver did not answer in time.
    TimedOut,
    /// It could not be sent: the receiver was not reached, the connection broke, or the address is not allowed.
    Unreachable,
    /// Nothing was sent, because the recipient of the email has not agreed to it.
    Unconfirmed,
    /// No attempt at the delivery has ended yet; its status says what becomes of it.
    Waiting,
}

/// The test of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleTest {
    /// What came of it.
    pub outcome: RuleTestOutcome,
    /// The status with which the receiver answered: of HTTP, or of SMTP where it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub status_code: Option<i64>,
    /// The error, or a short note of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// The delivery of a webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivery_id: Option<Uuid>,
}

/// The rules of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleList {
    /// The rules, oldest first.
    pub rules: Vec<Rule>,
}

/// The record that a rule fired for an object, with the outcome of its action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleFiring {
    /// Its id.
    pub id: Uuid,
    /// The rule's id.
    pub rule_id: Uuid,
    /// The object's id.
    pub object_id: String,
    /// The condition at that time.
    pub matched_when: String,
    /// The values that satisfied it, by signal, and by fact where the condition has facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = true, nullable = false, value_type = Object, example = json!({"is_scammer": 0.97}))]
    pub signal_values: Option<Value>,
    /// The action.
    pub action_type: ActionType,
    /// The outcome of the action.
    pub status: FiringStatus,
    /// The error, or a short note of success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<String>,
    /// When the rule fired.
    pub fired_at: Timestamp,
}

/// Firings, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleFiringList {
    /// The firings.
    pub firings: Vec<RuleFiring>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// The payload of `rule.triggered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleTriggered {
    /// `rule.triggered`.
    pub event: String,
    /// The rule's id.
    pub rule_id: Uuid,
    /// The rule's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rule_name: Option<String>,
    /// The account that owns the rule.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// The id of the object that it fired for.
    pub object_id: String,
    /// The condition.
    pub matched_when: String,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// When the rule fired.
    pub occurred_at: Timestamp,
    /// The answers to the signals in the condition.
    pub values: Vec<Answer>,
}
