//! Webhook records: endpoints, deliveries and payloads.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Answer, TenantId, Timestamp};

/// A registered URL that gets deliveries, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpoint {
    /// Its id.
    pub id: Uuid,
    /// The URL that deliveries are posted to.
    #[schema(example = "https://example.com/hooks/auspex")]
    pub url: String,
    /// A description of your choice; may be empty.
    pub description: String,
    /// Whether it gets deliveries. Those already queued wait while it is disabled.
    pub enabled: bool,
    /// Why the service disabled it: `address proved` if somebody proved the maker's email address first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "address proved")]
    pub disabled_reason: Option<String>,
    /// It gets only analyses that answered one of these signals; if empty, every analysis.
    pub signal_keys: Vec<String>,
    /// The event types that it gets.
    #[schema(example = json!(["analysis.completed", "rule.triggered"]))]
    pub events: Vec<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
    /// How it is doing; in a list whose `include` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub health: Option<WebhookHealth>,
}

/// The endpoints of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointList {
    /// The endpoints, oldest first.
    pub webhooks: Vec<WebhookEndpoint>,
}

/// A new endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointCreate {
    /// The URL that deliveries are posted to, `http` or `https`.
    #[schema(max_length = 2048, pattern = "^https?://", example = "https://example.com/hooks/auspex")]
    pub url: String,
    /// A description of your choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Only analyses that answered one of these signals; if left out or empty, every analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub signal_keys: Option<Vec<String>>,
    /// The event types that it gets; `analysis.completed` and `rule.triggered` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, example = json!(["analysis.completed", "rule.triggered"]))]
    pub events: Option<Vec<String>>,
    /// Whether it gets deliveries; true if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A change of an endpoint; fields left out keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointUpdate {
    /// The URL that deliveries are posted to, including those already queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048, pattern = "^https?://")]
    pub url: Option<String>,
    /// A description of your choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Only analyses that answered one of these signals; if empty, every analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub signal_keys: Option<Vec<String>>,
    /// The event types that it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1)]
    pub events: Option<Vec<String>>,
    /// Whether it gets deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// An endpoint with its signing secret, which is shown only once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointSecret {
    /// The endpoint.
    pub endpoint: WebhookEndpoint,
    /// The secret that signs its deliveries. It is never shown again.
    #[schema(example = "whsec_…")]
    pub secret: String,
    /// What to do with it.
    pub note: String,
}

/// Giving an endpoint a new secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookSecretRotation {
    /// For how many hours deliveries are signed with the previous secret too; 24 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 168)]
    pub overlap_hours: Option<i64>,
}

/// The status of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// Waiting for an attempt.
    Pending,
    /// An attempt is in flight.
    Delivering,
    /// The receiver accepted it.
    Delivered,
    /// Refused for good, or out of attempts; replay sends it again.
    Dead,
}

crate::text_values!(DeliveryStatus {
    Pending = "pending",
    Delivering = "delivering",
    Delivered = "delivered",
    Dead = "dead",
});

/// Any of the event types.
fn event_type_schema() -> utoipa::openapi::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::Type::String)
        .description(Some("The type of the webhook event."))
        .enum_values(Some(crate::webhook::EVENT_TYPES.into_iter().chain([crate::webhook::ENDPOINT_TEST])))
        .build()
}

/// One payload for one endpoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// Its id, sent as `X-Webhook-Delivery` with every attempt.
    pub id: Uuid,
    /// The endpoint's id.
    pub endpoint_id: Uuid,
    /// The type of the webhook event.
    #[schema(schema_with = event_type_schema)]
    pub event_type: String,
    /// Its status.
    pub status: DeliveryStatus,
    /// The id of the object that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub object_id: Option<String>,
    /// The number of attempts made since it was queued or replayed.
    pub attempts: i64,
    /// The number of attempts after which it is dead.
    pub max_attempts: i64,
    /// The HTTP status of the receiver's last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_status_code: Option<i64>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_error: Option<String>,
    /// The earliest time of the next attempt; for a dead delivery, when it died.
    pub run_after: Timestamp,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the receiver accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivered_at: Option<Timestamp>,
    /// The exact payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub payload: Option<Box<RawValue>>,
    /// The first 1 KiB of the receiver's last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_response: Option<String>,
}

/// Deliveries of an account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookDeliveryList {
    /// The deliveries, newest first.
    pub deliveries: Vec<WebhookDelivery>,
    /// Where the next page starts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// How an endpoint is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// The receiver accepted the last delivery, or there was none.
    Good,
    /// The last attempt failed, or the receiver refused the last delivery for good.
    Failing,
    /// Nothing is sent until `resting_until`, after repeated failures.
    Resting,
    /// Nothing is sent until it is enabled.
    Disabled,
}

/// How an endpoint is doing: now, and over the newest 500 deliveries that have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookHealth {
    /// How it is doing now.
    pub state: EndpointState,
    /// When its receiver is tried again, while it is resting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resting_until: Option<Timestamp>,
    /// Attempts in a row that failed and are made again; after ten, the endpoint rests. A refusal for good is none.
    #[schema(minimum = 0)]
    pub consecutive_failures: i64,
    /// Deliveries that wait or are being sent, counted up to 10,000.
    #[schema(minimum = 0, maximum = 10000)]
    pub waiting: i64,
    /// Deliveries that the receiver accepted.
    #[schema(minimum = 0, maximum = 500)]
    pub delivered: i64,
    /// Deliveries that were given up.
    #[schema(minimum = 0, maximum = 500)]
    pub dead: i64,
    /// The share of `delivered`; left out if none has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub success_share: Option<f64>,
    /// Half of the accepted deliveries took at most so many milliseconds from being queued to being accepted, retries and
    /// replays included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    pub p50_ms: Option<i64>,
    /// 95 % of them took at most so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    pub p95_ms: Option<i64>,
    /// When the oldest of them was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub since: Option<Timestamp>,
}

/// The payload of `endpoint.test`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointTest {
    /// `endpoint.test`.
    pub event: String,
    /// The account that owns the endpoint.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// The endpoint's id.
    pub endpoint_id: Uuid,
    /// When the test was asked for.
    pub occurred_at: Timestamp,
}

/// The payload of `analysis.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalysisCompleted<'a> {
    /// `analysis.completed`.
    #[schema(value_type = String)]
    pub event: Cow<'a, str>,
    /// The object's id.
    #[schema(value_type = String)]
    pub object_id: Cow<'a, str>,
    /// The account that owns the object.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// The model that answered.
    #[schema(value_type = String)]
    pub model: Cow<'a, str>,
    /// When the analysis finished. Ignore a delivery that is older than one you already have.
    pub occurred_at: Timestamp,
    /// The answers of this analysis.
    #[schema(value_type = Vec<Answer>)]
    pub answers: Cow<'a, [Answer]>,
}
