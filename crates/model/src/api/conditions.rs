//! Records of the check of conditions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a condition is to stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConditionPlace {
    /// In `when` of a rule.
    #[default]
    Rule,
    /// In `q` of the object list, which knows no facts.
    Query,
}

/// A condition to check.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"when": "is_scammer > 0.65 or not (trust_score >= 1)"}))]
pub struct ConditionCheckRequest {
    /// The condition.
    pub when: String,
    /// Where it is to stand; `rule` if left out.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub place: Option<ConditionPlace>,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConditionCheck {
    /// Whether it can be used.
    pub valid: bool,
    /// What is wrong with it; of several errors the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ConditionProblem>,
    /// The keys of the signals that it names.
    pub signals: Vec<String>,
    /// How many objects it is true for now. Left out if it is invalid, has facts, or is a text that is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub matches: Option<MatchCount>,
}

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConditionProblem {
    /// What is wrong.
    #[schema(example = "unknown signal `is_scamer`")]
    pub message: String,
    /// Where: an index into the characters of the condition, from 0 up to their number.
    pub at: u64,
}

/// A number of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MatchCount {
    /// The number, exact up to 10,000.
    pub count: i64,
    /// Whether there are more.
    pub capped: bool,
}
