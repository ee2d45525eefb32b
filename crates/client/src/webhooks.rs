//! Webhook endpoints and deliveries.

use http::Method;
use model::api::{
    DeliveryStatus, WebhookDelivery, WebhookDeliveryList, WebhookEndpoint, WebhookEndpointCreate,
    WebhookEndpointList, WebhookEndpointSecret, WebhookEndpointUpdate, WebhookHealth, WebhookSecretRotation,
};
use uuid::Uuid;

use crate::call::Call;
use crate::{Client, Error};

/// Which deliveries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveriesQuery {
    /// Only deliveries with this status; `Dead` is the dead-letter queue.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries to this endpoint.
    pub endpoint_id: Option<Uuid>,
    /// The maximum number, 1 to 200; 50 if left out.
    pub limit: Option<u32>,
}

impl Client {
    /// Lists all endpoints, oldest first, without their secrets.
    pub async fn webhooks(&self) -> Result<Vec<WebhookEndpoint>, Error> {
        let list: WebhookEndpointList = self.call(Call::new(Method::GET, &["v1", "webhooks"])?).await?;
        Ok(list.webhooks)
    }

    /// Registers an endpoint. Its signing secret is only in this response.
    pub async fn create_webhook(
        &self,
        endpoint: &WebhookEndpointCreate,
    ) -> Result<WebhookEndpointSecret, Error> {
        self.call(Call::new(Method::POST, &["v1", "webhooks"])?.json(endpoint)?).await
    }

    /// Returns an endpoint.
    pub async fn webhook(&self, id: Uuid) -> Result<WebhookEndpoint, Error> {
        self.call(Call::new(Method::GET, &["v1", "webhooks", &id.to_string()])?).await
    }

    /// Changes an endpoint; fields left out keep their values.
    pub async fn update_webhook(
        &self,
        id: Uuid,
        change: &WebhookEndpointUpdate,
    ) -> Result<WebhookEndpoint, Error> {
        self.call(Call::new(Method::PATCH, &["v1", "webhooks", &id.to_string()])?.json(change)?).await
    }

    /// Returns how an endpoint is doing.
    pub async fn webhook_health(&self, id: Uuid) -> Result<WebhookHealth, Error> {
        self.call(Call::new(Method::GET, &["v1", "webhooks", &id.to_string(), "health"])?).await
    }

    /// Sends a test to an endpoint.
    pub async fn test_webhook(&self, id: Uuid) -> Result<WebhookDelivery, Error> {
        self.call(Call::new(Method::POST, &["v1", "webhooks", &id.to_string(), "test"])?).await
    }

    /// Gives an endpoint a new secret; meanwhile deliveries are signed with both.
    pub async fn rotate_webhook_secret(
        &self,
        id: Uuid,
        rotation: &WebhookSecretRotation,
    ) -> Result<WebhookEndpointSecret, Error> {
        let call = Call::new(Method::POST, &["v1", "webhooks", &id.to_string(), "rotate_secret"])?;
        self.call(call.json(rotation)?).await
    }

    /// Removes an endpoint and its deliveries.
    pub async fn delete_webhook(&self, id: Uuid) -> Result<(), Error> {
        self.done(Call::new(Method::DELETE, &["v1", "webhooks", &id.to_string()])?).await
    }

    /// Lists deliveries, newest first.
    pub async fn deliveries(&self, query: &DeliveriesQuery) -> Result<Vec<WebhookDelivery>, Error> {
        let status = query.status.map(|status| match status {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivering => "delivering",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dead => "dead",
        });
        let call = Call::new(Method::GET, &["v1", "webhook_deliveries"])?
            .query("status", status)
            .query("endpoint_id", query.endpoint_id)
            .query("limit", query.limit);
        let list: WebhookDeliveryList = self.call(call).await?;
        Ok(list.deliveries)
    }

    /// Sends a delivery again.
    pub async fn replay_delivery(&self, id: Uuid) -> Result<WebhookDelivery, Error> {
        self.call(Call::new(Method::POST, &["v1", "webhook_deliveries", &id.to_string(), "replay"])?).await
    }
}
