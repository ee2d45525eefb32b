//! Webhook deliveries: queued in the transaction of what they tell of, listed, and replayed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::TenantId;
use model::api::{AnalysisCompleted, DeliveryStatus, WebhookDelivery, WebhookDeliveryList};
use model::webhook::ANALYSIS_COMPLETED;
use serde_json::value::RawValue;
use store::actions::webhooks::deliveries::{self, Delivery, NewDelivery};
use store::actions::webhooks::endpoints::{self, Endpoint};
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::consequences::{ConcludedAnalysis, Consequences};
use crate::actions::webhooks::handle::CourierHandle;
use crate::runtime::{Clock, Error, Kind, Random, Result, internal};

/// Deliveries of an endpoint that is gone which are removed at a time.
const DROP_STEP: i64 = 500;

/// Which deliveries a list shows.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryQuery {
    /// Only those that are so far.
    pub status: Option<DeliveryStatus>,
    /// Only those to this endpoint.
    pub endpoint_id: Option<Uuid>,
    /// How many at most.
    pub limit: i64,
}

/// The webhook deliveries of all accounts.
#[derive(Clone)]
pub struct Deliveries {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// How often a delivery is tried.
    pub(crate) max_attempts: i64,
    pub(crate) courier: CourierHandle,
}

impl Deliveries {
    /// Deliveries of an account, newest first.
    pub async fn list(&self, tenant: TenantId, query: DeliveryQuery) -> Result<WebhookDeliveryList> {
        if !(1..=200).contains(&query.limit) {
            return Err(Error::bad_request("limit: it must be from 1 to 200"));
        }
        // A snapshot: a delivery that moves on meanwhile is shown where it was.
        let found: Vec<Delivery> = self
            .store
            .snapshot("deliveries", async |conn: &mut Conn| {
                deliveries::list(conn, tenant, query.endpoint_id, query.status, query.limit).await
            })
            .await?;
        Ok(WebhookDeliveryList { deliveries: found.into_iter().map(shown).collect::<Result<_>>()? })
    }

    /// Sends a delivery again that has ended. One that has not stays as it is.
    pub async fn replay(&self, tenant: TenantId, delivery: Uuid) -> Result<WebhookDelivery> {
        let replayed = self
            .store
            .write("replay_delivery", async |conn: &mut Conn| {
                let known = deliveries::find(conn, tenant, delivery).await?.ok_or_else(no_such_delivery)?;
                if endpoints::find(conn, tenant, known.endpoint_id).await?.is_none() {
                    return Err(no_such_delivery());
                }
                let now = self.clock.now();
                deliveries::replay(conn, tenant, delivery, now).await?;
                self.courier.probe(conn, tenant, known.endpoint_id, now).await?;
                deliveries::find(conn, tenant, delivery).await?.ok_or_else(no_such_delivery)
            })
            .await?;
        self.courier.wake();
        shown(replayed)
    }

    /// Queues a delivery for every endpoint that an analysis concerns, in the caller's transaction. Verdicts announce
    /// nothing: their caller has the answers.
    pub(crate) async fn announce_analyses(
        &self,
        conn: &mut Conn,
        concluded: &[ConcludedAnalysis<'_>],
        consequences: &mut Consequences,
    ) -> Result<()> {
        let mut endpoints: HashMap<TenantId, Vec<Endpoint>> = HashMap::new();
        let mut queued = Vec::new();
        for analysis in concluded.iter().filter(|analysis| !analysis.is_sync) {
            let wanting = match endpoints.entry(analysis.tenant) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let all = endpoints::of_tenant(conn, analysis.tenant).await?;
                    let wanting = all.into_iter().filter(|endpoint| endpoint.receives(ANALYSIS_COMPLETED));
                    unknown.insert(wanting.collect())
                }
            };
            let wanting: Vec<&Endpoint> =
                wanting.iter().filter(|endpoint| concerns(endpoint, analysis)).collect();
            if wanting.is_empty() {
                continue;
            }
            let payload = serde_json::to_string(&AnalysisCompleted {
                event: ANALYSIS_COMPLETED.into(),
                object_id: analysis.object_id.into(),
                tenant_id: analysis.tenant,
                model: analysis.model.into(),
                occurred_at: analysis.at,
                answers: analysis.found.into(),
            })
            .map_err(internal)?;
            queued.extend(wanting.into_iter().map(|endpoint| NewDelivery {
                tenant: analysis.tenant,
                delivery_id: self.random.id(analysis.at),
                endpoint_id: endpoint.endpoint_id,
                event_type: ANALYSIS_COMPLETED,
                object_id: Some(analysis.object_id.to_owned()),
                payload: payload.clone(),
                max_attempts: self.max_attempts,
                run_after: analysis.at,
                created_at: analysis.at,
                traceparent: analysis.traceparent.map(str::to_owned),
            }));
        }
        self.queue(conn, &queued, consequences).await
    }

    /// Queues deliveries in the caller's transaction.
    pub(crate) async fn queue(
        &self,
        conn: &mut Conn,
        queued: &[NewDelivery],
        consequences: &mut Consequences,
    ) -> Result<()> {
        if queued.is_empty() {
            return Ok(());
        }
        deliveries::queue(conn, queued).await?;
        consequences.deliveries = true;
        self.courier.tell_others(conn).await
    }
}

/// Removes the deliveries of an endpoint that is gone, some at a time.
pub(crate) async fn drop_deliveries(
    store: &store::Store,
    tenant: TenantId,
    endpoint: Uuid,
) -> store::Result<()> {
    while store
        .write("drop_deliveries", async |conn: &mut Conn| {
            deliveries::drop_of_endpoint(conn, tenant, endpoint, DROP_STEP).await
        })
        .await?
        > 0
    {}
    Ok(())
}

/// Whether an endpoint's filter lets an analysis through.
fn concerns(endpoint: &Endpoint, analysis: &ConcludedAnalysis<'_>) -> bool {
    let wanted = &endpoint.signal_keys.0;
    wanted.is_empty() || analysis.found.iter().any(|answer| wanted.contains(&answer.signal))
}

fn no_such_delivery() -> Error {
    Error::new(Kind::NotFound, "there is no such webhook delivery")
}

fn shown(delivery: Delivery) -> Result<WebhookDelivery> {
    Ok(WebhookDelivery {
        id: delivery.delivery_id,
        endpoint_id: delivery.endpoint_id,
        event_type: delivery.event_type,
        status: delivery.status,
        object_id: delivery.object_id,
        attempts: delivery.attempts,
        max_attempts: delivery.max_attempts,
        last_status_code: delivery.last_status_code,
        last_error: delivery.last_error,
        run_after: delivery.run_after,
        created_at: delivery.created_at,
        delivered_at: delivery.delivered_at,
        payload: Some(RawValue::from_string(delivery.payload).map_err(internal)?),
        last_response: delivery.last_response,
    })
}
