//! Webhooks about reviews, queued in the transaction of the change.

use model::TenantId;
use model::Timestamp;
use model::api::{Review, ReviewEvent};
use store::Conn;
use store::actions::webhooks::deliveries::NewDelivery;
use store::actions::webhooks::endpoints;

use crate::actions::effects::Effects;
use crate::actions::webhooks::Deliveries;
use crate::runtime::{Random, Result, internal};

/// Queues webhooks about reviews.
#[derive(Clone)]
pub(crate) struct ReviewEvents {
    pub(crate) random: Random,
    pub(crate) deliveries: Deliveries,
}

impl ReviewEvents {
    /// Queues a delivery of each review to every endpoint that asks for this event.
    pub(super) async fn queue(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        event: &'static str,
        reviews: &[Review],
        now: Timestamp,
        effects: &mut Effects,
    ) -> Result<()> {
        if reviews.is_empty() {
            return Ok(());
        }
        let endpoints = endpoints::of_tenant(conn, tenant).await?;
        let mut queued = Vec::new();
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.receives(event)) {
            for review in reviews {
                let payload = ReviewEvent {
                    event: event.to_owned(),
                    tenant_id: tenant,
                    occurred_at: now,
                    review: review.clone(),
                };
                queued.push(NewDelivery {
                    tenant,
                    delivery_id: self.random.id(now),
                    endpoint_id: endpoint.endpoint_id,
                    event_type: event,
                    object_id: Some(review.object_id.clone()),
                    payload: serde_json::to_string(&payload).map_err(internal)?,
                    max_attempts: self.deliveries.max_attempts,
                    run_after: now,
                    created_at: now,
                    active_since: endpoint.active_time(now),
                    traceparent: None,
                    lease: None,
                });
            }
        }
        self.deliveries.queue(conn, &queued, effects).await
    }
}
