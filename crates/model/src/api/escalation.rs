//! Escalation: which answers of a signal go to a second analyzer.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::api::Figure;

/// Which answers of a signal go to the second analyzer: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"band": [0.3, 0.7]}))]
pub struct EscalationInput {
    /// `noul`: the lowest and the highest probability that is unsure. Null ends the escalation of a signal of any type.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<[f64; 2]>)]
    pub band: Option<Option<[f64; 2]>>,
    /// `choice` and `score`: the confidence below which an answer is unsure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub below: Option<f64>,
    /// The share of wrong answers that the first analyzer may give where it is not unsure: fitted to the labels, so that the
    /// fewest are escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub target_error: Option<f64>,
}

/// Distinguishes null from a field that was left out.
#[expect(clippy::option_option, reason = "left out, null and a value are three cases")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Which answers of a signal go to the second analyzer, and what they have cost today. Without `band` and `below`, none do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignalEscalation {
    /// `noul`: the lowest and the highest probability that is unsure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub band: Option<[f64; 2]>,
    /// `choice` and `score`: the confidence below which an answer is unsure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub below: Option<f64>,
    /// The model of the second analyzer; left out if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Answers of this signal that the second analyzer gave, or is giving, today (UTC).
    pub escalated_today: i64,
    /// What they cost, in micro-dollars: of an analysis with several signals, their part.
    pub cost_micros_today: i64,
    /// After a fit: the number of labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub labels: Option<i64>,
    /// After a fit: the share of their answers that is escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub share: Option<Figure>,
    /// After a fit: the share of wrong answers among the others; left out if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<Figure>,
}
