//! Webhook deliveries: queued in the transaction of the change that they report, listed, and replayed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use model::TenantId;
use model::api::{AnalysisCompleted, DeliveryStatus, WebhookDelivery, WebhookDeliveryList};
use model::webhook::ANALYSIS_COMPLETED;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::actions::webhooks::deliveries::{self, Delivery, DeliveryFilter, NewDelivery};
use store::actions::webhooks::endpoints::{self, Endpoint};
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::effects::{ConcludedAnalysis, Effects};
use crate::actions::webhooks::handle::{CourierHandle, HandedDelivery};
use crate::runtime::{Clock, Error, Kind, Random, Result, cursor, internal};

/// Deliveries of a deleted endpoint that one transaction removes.
const DROP_STEP: i64 = 500;
/// How often, and how long in between, deliveries that are locked are tried again. In real time.
const DROP_TRIES: u32 = 20;
const DROP_WAIT: Duration = Duration::from_millis(50);

/// A query of deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryQuery {
    /// Only those with this status.
    pub status: Option<DeliveryStatus>,
    /// Only those to this endpoint.
    pub endpoint_id: Option<Uuid>,
    /// The maximum number.
    pub limit: i64,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

/// Where a page of deliveries ended.
#[derive(Serialize, Deserialize)]
struct DeliveryCursor {
    status: Option<DeliveryStatus>,
    endpoint_id: Option<Uuid>,
    before: Uuid,
}

/// The webhook deliveries of all tenants.
#[derive(Clone)]
pub struct Deliveries {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// The number of attempts for a delivery.
    pub(crate) max_attempts: i64,
    pub(crate) courier: CourierHandle,
}

impl Deliveries {
    /// A page of the deliveries of a tenant, newest first.
    pub async fn list(&self, tenant: TenantId, query: &DeliveryQuery) -> Result<WebhookDeliveryList> {
        cursor::check_page_size(query.limit, cursor::MAX_PAGE)?;
        let is_of_list = |cursor: &DeliveryCursor| {
            cursor.status == query.status && cursor.endpoint_id == query.endpoint_id
        };
        let cursor = query.cursor.as_deref().map(|text| cursor::decode(text, is_of_list)).transpose()?;
        let filter = DeliveryFilter {
            endpoint: query.endpoint_id,
            status: query.status,
            before: cursor.map(|cursor| cursor.before),
        };
        // A snapshot, so that a delivery whose status changes meanwhile is neither missed nor listed twice.
        let found: Vec<Delivery> = self
            .store
            .snapshot("deliveries", async |conn: &mut Conn| {
                deliveries::list(conn, tenant, filter, query.limit + 1).await
            })
            .await?;
        let (found, last) = cursor::cut(found, query.limit);
        let next_cursor = last.map(|last| {
            let DeliveryQuery { status, endpoint_id, .. } = *query;
            cursor::encode(&DeliveryCursor { status, endpoint_id, before: last.delivery_id })
        });
        let deliveries = found.into_iter().map(record).collect::<Result<_>>()?;
        Ok(WebhookDeliveryList { deliveries, next_cursor })
    }

    /// Sends a finished delivery again. A pending one does not change.
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
        record(replayed)
    }

    /// Queues a delivery of each analysis for every endpoint whose filter matches, in the caller's transaction. Verdicts are
    /// left out: their caller has the answers.
    pub(crate) async fn announce_analyses(
        &self,
        conn: &mut Conn,
        concluded: &[ConcludedAnalysis<'_>],
        effects: &mut Effects,
    ) -> Result<()> {
        let mut endpoints: HashMap<TenantId, Vec<Endpoint>> = HashMap::new();
        let mut queued = Vec::new();
        for analysis in concluded.iter().filter(|analysis| !analysis.is_sync) {
            let subscribed = match endpoints.entry(analysis.tenant) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let all = endpoints::of_tenant(conn, analysis.tenant).await?;
                    let subscribed = all.into_iter().filter(|endpoint| endpoint.receives(ANALYSIS_COMPLETED));
                    unknown.insert(subscribed.collect())
                }
            };
            let matching: Vec<&Endpoint> =
                subscribed.iter().filter(|endpoint| filter_matches(endpoint, analysis)).collect();
            if matching.is_empty() {
                continue;
            }
            let payload = serde_json::to_string(&AnalysisCompleted {
                event: ANALYSIS_COMPLETED.into(),
                object_id: analysis.object_id.into(),
                tenant_id: analysis.tenant,
                model: analysis.model.into(),
                occurred_at: analysis.at,
                answers: analysis.answers.into(),
            })
            .map_err(internal)?;
            for endpoint in matching {
                let mut delivery = NewDelivery {
                    tenant: analysis.tenant,
                    delivery_id: self.random.id(analysis.at),
                    endpoint_id: endpoint.endpoint_id,
                    event_type: ANALYSIS_COMPLETED,
                    object_id: Some(analysis.object_id.to_owned()),
                    payload: payload.clone(),
                    max_attempts: self.max_attempts,
                    run_after: analysis.at,
                    created_at: analysis.at,
                    active_since: endpoint.active_time(analysis.at),
                    traceparent: analysis.traceparent.map(str::to_owned),
                    lease: None,
                };
                effects.handed.extend(self.lease_new(&mut delivery, endpoint));
                queued.push(delivery);
            }
        }
        self.queue(conn, &queued, effects).await
    }

    /// Lets a delivery that is about to be queued be born leased, if this process will send it at once. It is to be handed to
    /// the courier after the commit.
    pub(crate) fn lease_new(
        &self,
        delivery: &mut NewDelivery,
        endpoint: &Endpoint,
    ) -> Option<HandedDelivery> {
        self.courier.lease_new(delivery, endpoint, &self.random)
    }

    /// Queues deliveries in the caller's transaction.
    pub(crate) async fn queue(
        &self,
        conn: &mut Conn,
        queued: &[NewDelivery],
        effects: &mut Effects,
    ) -> Result<()> {
        if queued.is_empty() {
            return Ok(());
        }
        deliveries::queue(conn, queued).await?;
        if queued.iter().all(|delivery| delivery.lease.is_some()) {
            return Ok(());
        }
        effects.deliveries = true;
        self.courier.notify_others(conn).await
    }
}

/// Removes the deliveries of a deleted endpoint, in steps. Those that a courier has locked are removed when it is done with them;
/// after some tries they are left to the sweeper.
pub(crate) async fn drop_deliveries(
    store: &store::Store,
    tenant: TenantId,
    endpoint: Uuid,
) -> store::Result<()> {
    for _ in 0..DROP_TRIES {
        while store
            .write("drop_deliveries", async |conn: &mut Conn| {
                deliveries::drop_of_endpoint(conn, tenant, endpoint, DROP_STEP).await
            })
            .await?
            > 0
        {}
        let are_left = async |conn: &mut Conn| deliveries::are_left(conn, tenant, endpoint).await;
        if !store.read("deliveries_left", are_left).await? {
            return Ok(());
        }
        tokio::time::sleep(DROP_WAIT).await;
    }
    Ok(())
}

/// Whether an endpoint's filter matches an analysis.
fn filter_matches(endpoint: &Endpoint, analysis: &ConcludedAnalysis<'_>) -> bool {
    let keys = &endpoint.signal_keys.0;
    keys.is_empty() || analysis.answers.iter().any(|answer| keys.contains(&answer.signal))
}

pub(crate) fn no_such_delivery() -> Error {
    Error::new(Kind::NotFound, "there is no such webhook delivery")
}

pub(crate) fn record(delivery: Delivery) -> Result<WebhookDelivery> {
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
