//! Records of webhooks: endpoints, deliveries, and what a delivery says.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Answer, TenantId, Timestamp};

/// Where deliveries go, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpoint {
    /// Its id.
    pub id: Uuid,
    /// The address that deliveries are posted to.
    #[schema(example = "https://example.com/hooks/auspex")]
    pub url: String,
    /// What people call it; may be empty.
    pub description: String,
    /// Whether it gets deliveries. Those already queued wait while it does not.
    pub enabled: bool,
    /// It gets only analyses that answered one of these signals; empty: every analysis.
    pub signal_keys: Vec<String>,
    /// The event types that it gets.
    #[schema(example = json!(["analysis.completed", "rule.triggered"]))]
    pub events: Vec<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}

/// The endpoints of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointList {
    /// The endpoints, oldest first.
    pub webhooks: Vec<WebhookEndpoint>,
}

/// A new endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointCreate {
    /// The address that deliveries are posted to, `http` or `https`.
    #[schema(max_length = 2048, pattern = "^https?://", example = "https://example.com/hooks/auspex")]
    pub url: String,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Only analyses that answered one of these signals; left out or empty: every analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 1000)]
    pub signal_keys: Option<Vec<String>>,
    /// The event types that it gets; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, example = json!(["analysis.completed", "rule.triggered"]))]
    pub events: Option<Vec<String>>,
    /// Whether it gets deliveries; left out: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A change of an endpoint; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointUpdate {
    /// The address that deliveries are posted to, those that are queued too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048, pattern = "^https?://")]
    pub url: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Only analyses that answered one of these signals; empty: every analysis.
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

/// An endpoint with its signing secret, which is shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEndpointSecret {
    /// The endpoint.
    pub endpoint: WebhookEndpoint,
    /// What its deliveries are signed with. It is never shown again.
    #[schema(example = "whsec_…")]
    pub secret: String,
    /// What to do with it.
    pub note: String,
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It waits to be sent, or to be sent again.
    Pending,
    /// It is being sent.
    Delivering,
    /// The receiver has taken it.
    Delivered,
    /// It was given up; replay sends it again.
    Dead,
}

crate::text_values!(DeliveryStatus {
    Pending = "pending",
    Delivering = "delivering",
    Delivered = "delivered",
    Dead = "dead",
});

/// One event on its way to one endpoint.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookDelivery {
    /// Its id, sent as `X-Webhook-Delivery` with every attempt.
    pub id: Uuid,
    /// Where it goes.
    pub endpoint_id: Uuid,
    /// What it tells.
    #[schema(example = "analysis.completed")]
    pub event_type: String,
    /// How far it is.
    pub status: DeliveryStatus,
    /// The object that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub object_id: Option<String>,
    /// Attempts that have ended, since it was queued or replayed.
    pub attempts: i64,
    /// Attempts before it is given up.
    pub max_attempts: i64,
    /// The status of the receiver's last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_status_code: Option<i64>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_error: Option<String>,
    /// When it is tried next, at the earliest; of one that is dead, when it was given up.
    pub run_after: Timestamp,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the receiver took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delivered_at: Option<Timestamp>,
    /// What is sent, to the byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    pub payload: Option<Box<RawValue>>,
    /// The first 1 KiB of the receiver's last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_response: Option<String>,
}

/// Deliveries of an account.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookDeliveryList {
    /// The deliveries, newest first.
    pub deliveries: Vec<WebhookDelivery>,
}

/// What an `analysis.completed` delivery says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalysisCompleted<'a> {
    /// `analysis.completed`.
    #[schema(value_type = String)]
    pub event: Cow<'a, str>,
    /// The object.
    #[schema(value_type = String)]
    pub object_id: Cow<'a, str>,
    /// Whose object it is.
    #[schema(value_type = Uuid)]
    pub tenant_id: TenantId,
    /// What answered.
    #[schema(value_type = String)]
    pub model: Cow<'a, str>,
    /// When the analysis ended: an older one that arrives later is stale.
    pub occurred_at: Timestamp,
    /// What this analysis found.
    #[schema(value_type = Vec<Answer>)]
    pub answers: Cow<'a, [Answer]>,
}
