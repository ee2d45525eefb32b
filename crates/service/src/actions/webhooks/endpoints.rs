//! Webhooks as their owner sees them: endpoints, deliveries, replay. And the deliveries that an analysis queues.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::TenantId;
use model::api::{
    AnalysisCompleted, DeliveryStatus, WebhookDelivery, WebhookDeliveryList, WebhookEndpoint,
    WebhookEndpointCreate, WebhookEndpointList, WebhookEndpointSecret, WebhookEndpointUpdate,
};
use model::condition::is_key;
use model::webhook::{ANALYSIS_COMPLETED, EVENT_TYPES, SECRET_PREFIX};
use serde_json::value::RawValue;
use store::actions::webhooks::deliveries;
use store::actions::webhooks::deliveries::{Delivery, NewDelivery};
use store::actions::webhooks::endpoints;
use store::actions::webhooks::endpoints::Endpoint;
use store::Conn;
use store::actions::webhooks::queue;
use store::accounts::tenants;
use uuid::Uuid;

use crate::actions::consequences::{Concluded, Consequences};
use crate::{Error, Kind, Result, Service, internal};

/// Names the column that a sealed secret belongs in, so that it opens nowhere else.
pub(crate) const SECRET_PLACE: &str = "webhook_endpoints.secret";
const SECRET_BYTES: usize = 32;
const MAX_ENDPOINTS: i64 = 50;
const MAX_DESCRIPTION: usize = 1_000;
const MAX_SIGNAL_KEYS: usize = 1_000;
/// Deliveries of an endpoint that is gone which are removed at a time.
pub(crate) const DROP_STEP: i64 = 500;
const NOTE: &str = "Keep the secret: it is shown only now. Deliveries are signed with it.";

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

impl Service {
    /// The endpoints of an account.
    pub async fn webhooks(&self, tenant: TenantId) -> Result<WebhookEndpointList> {
        let endpoints =
            self.store.read("webhooks", async |conn| endpoints::of_tenant(conn, tenant).await).await?;
        Ok(WebhookEndpointList { webhooks: endpoints.into_iter().map(record).collect() })
    }

    /// Registers an endpoint.
    pub async fn create_webhook(
        &self,
        tenant: TenantId,
        request: &WebhookEndpointCreate,
    ) -> Result<WebhookEndpointSecret> {
        let now = self.clock.now();
        let endpoint_id = self.random.id(now);
        let endpoint = Endpoint {
            tenant_id: tenant,
            endpoint_id,
            url: self.webhook_url(&request.url).await?,
            description: description(request.description.as_deref().unwrap_or_default())?,
            enabled: request.enabled.unwrap_or(true),
            signal_keys: signal_keys(request.signal_keys.as_deref().unwrap_or_default())?.into(),
            events: request.events.as_deref().map_or_else(|| Ok(all_events()), events)?.into(),
            created_at: now,
            updated_at: now,
        };
        let secret = format!("{SECRET_PREFIX}{}", STANDARD.encode(self.random.bytes::<SECRET_BYTES>()));
        let sealed = self.sealer.seal(&self.random, SECRET_PLACE, endpoint_id, secret.as_bytes());
        self.store
            .write("create_webhook", async |conn: &mut Conn| {
                // Locked, so that two at once do not both take the last place.
                tenants::lock(conn, tenant).await?;
                if endpoints::count(conn, tenant).await? >= MAX_ENDPOINTS {
                    let reason = format!("an account has at most {MAX_ENDPOINTS} webhook endpoints");
                    return Err(Error::new(Kind::Conflict, reason));
                }
                Ok(endpoints::insert(conn, &endpoint, &sealed).await?)
            })
            .await?;
        Ok(WebhookEndpointSecret { endpoint: record(endpoint), secret, note: NOTE.to_owned() })
    }

    /// An endpoint.
    pub async fn webhook(&self, tenant: TenantId, endpoint: Uuid) -> Result<WebhookEndpoint> {
        let found =
            self.store.read("webhook", async |conn| endpoints::find(conn, tenant, endpoint).await).await?;
        found.map(record).ok_or_else(no_such_endpoint)
    }

    /// Edits an endpoint. If it rests after too many failures, its receiver is tried at once.
    pub async fn update_webhook(
        &self,
        tenant: TenantId,
        endpoint: Uuid,
        update: &WebhookEndpointUpdate,
    ) -> Result<WebhookEndpoint> {
        let url = match &update.url {
            Some(url) => Some(self.webhook_url(url).await?),
            None => None,
        };
        let description = update.description.as_deref().map(description).transpose()?;
        let signal_keys = update.signal_keys.as_deref().map(signal_keys).transpose()?;
        let events = update.events.as_deref().map(events).transpose()?;
        let edited = self
            .store
            .write("update_webhook", async |conn: &mut Conn| {
                // Locked, so that a change of one field loses no other.
                tenants::lock(conn, tenant).await?;
                let now = self.clock.now();
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                let edited = Endpoint {
                    url: url.unwrap_or(known.url),
                    description: description.unwrap_or(known.description),
                    enabled: update.enabled.unwrap_or(known.enabled),
                    signal_keys: signal_keys.map_or(known.signal_keys, Into::into),
                    events: events.map_or(known.events, Into::into),
                    updated_at: now,
                    ..known
                };
                endpoints::update(conn, &edited).await?;
                self.probe(conn, tenant, endpoint).await?;
                Ok::<_, Error>(edited)
            })
            .await?;
        // What was claimed for it goes out as it is now, or not at all.
        self.board.recall(endpoint, edited.updated_at);
        self.courier_bell.ring();
        Ok(record(edited))
    }

    /// Removes an endpoint and its deliveries.
    pub async fn delete_webhook(&self, tenant: TenantId, endpoint: Uuid) -> Result<()> {
        let deleted = self
            .store
            .write("delete_webhook", async |conn: &mut Conn| {
                // Locked, so that an edit finds it whole or gone.
                tenants::lock(conn, tenant).await?;
                endpoints::delete(conn, tenant, endpoint).await
            })
            .await?;
        if !deleted {
            return Err(no_such_endpoint());
        }
        self.board.recall(endpoint, self.clock.now());
        self.courier_bell.ring();
        // They are out of sight already; there may be very many, and nobody has to wait for them. What is left after a
        // crash is swept.
        let store = self.store.clone();
        self.workers.start(|stop| async move {
            let dropped = stop.run_until_cancelled(drop_deliveries(&store, tenant, endpoint)).await;
            if let Some(Err(error)) = dropped {
                tracing::warn!(%error, %endpoint, "cannot remove the deliveries of an endpoint that is gone");
            }
        });
        Ok(())
    }

    /// Deliveries of an account, newest first.
    pub async fn deliveries(&self, tenant: TenantId, query: DeliveryQuery) -> Result<WebhookDeliveryList> {
        if !(1..=200).contains(&query.limit) {
            return Err(Error::bad_request("limit: it must be from 1 to 200"));
        }
        let status = query.status.map(|status| match status {
            DeliveryStatus::Pending => "pending",
            DeliveryStatus::Delivering => "delivering",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dead => "dead",
        });
        // A snapshot: a delivery that moves on meanwhile is shown where it was.
        let found: Vec<Delivery> = self
            .store
            .snapshot("deliveries", async |conn: &mut Conn| {
                deliveries::list(conn, tenant, query.endpoint_id, status, query.limit).await
            })
            .await?;
        Ok(WebhookDeliveryList { deliveries: found.into_iter().map(shown).collect::<Result<_>>()? })
    }

    /// Sends a delivery again that has ended. One that has not stays as it is.
    pub async fn replay_delivery(&self, tenant: TenantId, delivery: Uuid) -> Result<WebhookDelivery> {
        let replayed = self
            .store
            .write("replay_delivery", async |conn: &mut Conn| {
                let known = deliveries::find(conn, tenant, delivery).await?.ok_or_else(no_such_delivery)?;
                if endpoints::find(conn, tenant, known.endpoint_id).await?.is_none() {
                    return Err(no_such_delivery());
                }
                deliveries::replay(conn, tenant, delivery, self.clock.now()).await?;
                self.probe(conn, tenant, known.endpoint_id).await?;
                deliveries::find(conn, tenant, delivery).await?.ok_or_else(no_such_delivery)
            })
            .await?;
        self.courier_bell.ring();
        shown(replayed)
    }

    /// Queues a delivery for every endpoint that an analysis concerns, in the caller's transaction. Verdicts announce
    /// nothing: their caller has the answers.
    pub(crate) async fn announce_analyses(
        &self,
        conn: &mut Conn,
        concluded: &[Concluded<'_>],
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
                max_attempts: i64::from(self.options.webhook_max_attempts),
                run_after: analysis.at,
                created_at: analysis.at,
                traceparent: analysis.traceparent.map(str::to_owned),
            }));
        }
        self.queue_deliveries(conn, &queued, consequences).await
    }

    /// Queues deliveries in the caller's transaction.
    pub(crate) async fn queue_deliveries(
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
        self.tell_other_couriers(conn).await
    }

    /// Ends the rest of an endpoint, if it has one, and makes sure that there is something to try its receiver with.
    async fn probe(&self, conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<()> {
        let now = self.clock.now();
        if endpoints::end_rest(conn, tenant, endpoint, now).await? {
            queue::hasten(conn, tenant, endpoint, now).await?;
        }
        self.tell_other_couriers(conn).await
    }

    /// A process that sends deliveries itself needs nobody else; on PostgreSQL a word to the others makes commits queue.
    async fn tell_other_couriers(&self, conn: &mut Conn) -> Result<()> {
        if !self.delivers_here.load(Ordering::Relaxed) {
            queue::announce(conn).await?;
        }
        Ok(())
    }

    async fn webhook_url(&self, text: &str) -> Result<String> {
        match self.outbound.check(text).await {
            Ok(_) => Ok(text.to_owned()),
            Err(reason) => Err(Error::bad_request(format!("url: {reason}"))),
        }
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
fn concerns(endpoint: &Endpoint, analysis: &Concluded<'_>) -> bool {
    let wanted = &endpoint.signal_keys.0;
    wanted.is_empty() || analysis.found.iter().any(|answer| wanted.contains(&answer.signal))
}

fn description(text: &str) -> Result<String> {
    if text.chars().count() > MAX_DESCRIPTION {
        return Err(Error::bad_request(format!(
            "description: it must have at most {MAX_DESCRIPTION} characters"
        )));
    }
    Ok(text.to_owned())
}

/// The keys, each once. A key of a signal that does not exist yet is fine.
fn signal_keys(keys: &[String]) -> Result<Vec<String>> {
    if keys.len() > MAX_SIGNAL_KEYS {
        return Err(Error::bad_request(format!("signal_keys: there must be at most {MAX_SIGNAL_KEYS}")));
    }
    if let Some(at) = keys.iter().position(|key| !is_key(key)) {
        return Err(Error::bad_request(format!("signal_keys[{at}]: this cannot be the key of a signal")));
    }
    let mut once: Vec<String> = Vec::new();
    for key in keys {
        if !once.contains(key) {
            once.push(key.clone());
        }
    }
    Ok(once)
}

fn all_events() -> Vec<String> {
    EVENT_TYPES.map(str::to_owned).to_vec()
}

/// The event types, each once and in our order.
fn events(asked: &[String]) -> Result<Vec<String>> {
    if asked.is_empty() {
        return Err(Error::bad_request("events: leave it out for all, or name at least one"));
    }
    if let Some(at) = asked.iter().position(|event| !EVENT_TYPES.contains(&event.as_str())) {
        let known = EVENT_TYPES.join(" or ");
        return Err(Error::bad_request(format!("events[{at}]: it must be {known}")));
    }
    Ok(all_events().into_iter().filter(|event| asked.contains(event)).collect())
}

fn no_such_endpoint() -> Error {
    Error::new(Kind::NotFound, "there is no such webhook endpoint")
}

fn no_such_delivery() -> Error {
    Error::new(Kind::NotFound, "there is no such webhook delivery")
}

fn record(endpoint: Endpoint) -> WebhookEndpoint {
    WebhookEndpoint {
        id: endpoint.endpoint_id,
        url: endpoint.url,
        description: endpoint.description,
        enabled: endpoint.enabled,
        signal_keys: endpoint.signal_keys.0,
        events: endpoint.events.0,
        created_at: endpoint.created_at,
        updated_at: endpoint.updated_at,
    }
}

fn shown(delivery: Delivery) -> Result<WebhookDelivery> {
    let status = match delivery.status.as_str() {
        "pending" => DeliveryStatus::Pending,
        "delivering" => DeliveryStatus::Delivering,
        "delivered" => DeliveryStatus::Delivered,
        "dead" => DeliveryStatus::Dead,
        _ => return Err(internal("a delivery status that nobody knows")),
    };
    Ok(WebhookDelivery {
        id: delivery.delivery_id,
        endpoint_id: delivery.endpoint_id,
        event_type: delivery.event_type,
        status,
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
