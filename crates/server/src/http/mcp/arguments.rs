//! The arguments of tools. Their descriptions and schemas are in `tools.json`.

use model::api::{ActionType, ConditionPlace, TrialOver};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindObjects {
    pub(super) q: Option<String>,
    pub(super) sort: Option<String>,
    pub(super) limit: Option<i64>,
    pub(super) cursor: Option<String>,
    pub(super) offset: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GetObject {
    pub(super) object_id: String,
    pub(super) cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    pub(super) object_id: String,
    pub(super) signal: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TryWording {
    pub(super) signal: String,
    pub(super) instructions: Option<Box<RawValue>>,
    pub(super) criteria: Option<Box<RawValue>>,
    pub(super) over: Option<TrialOver>,
    pub(super) limit: Option<i64>,
    pub(super) dry_run: Option<bool>,
    pub(super) trial_id: Option<Uuid>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quality {
    pub(super) signal: String,
    pub(super) version: Option<i64>,
    pub(super) cost_false_yes: Option<f64>,
    pub(super) cost_false_no: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckCondition {
    pub(super) when: String,
    #[serde(rename = "for")]
    pub(super) place: Option<ConditionPlace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyNotDelivered {
    pub(super) endpoint_id: Option<Uuid>,
    pub(super) limit: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutSignal {
    pub(super) key: String,
    pub(super) r#type: model::SignalType,
    pub(super) instructions: Box<RawValue>,
    pub(super) criteria: Option<Box<RawValue>>,
    pub(super) enabled: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutLabel {
    pub(super) object_id: String,
    pub(super) signal: String,
    pub(super) value: serde_json::Value,
    pub(super) note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutRule {
    pub(super) rule_id: Option<Uuid>,
    pub(super) name: Option<String>,
    pub(super) when: String,
    pub(super) action_type: ActionType,
    pub(super) action_config: serde_json::Map<String, serde_json::Value>,
    pub(super) cooldown_seconds: Option<i64>,
}
