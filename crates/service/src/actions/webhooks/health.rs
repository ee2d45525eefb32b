//! How an endpoint is doing, for people, and test deliveries to it. Whether it rests is decided in `resting.rs`.

use std::collections::HashMap;
use std::time::Duration;

use model::TenantId;
use model::Timestamp;
use model::api::{DeliveryStatus, EndpointState, EndpointTest, WebhookDelivery, WebhookHealth};
use model::webhook::ENDPOINT_TEST;
use store::Conn;
use store::actions::webhooks::deliveries::{self, EndedDelivery, NewDelivery};
use store::actions::webhooks::endpoints::{self, Circuit, Endpoint};
use tracing::warn;
use uuid::Uuid;

use crate::actions::effects::Effects;
use crate::actions::webhooks::deliveries::{Deliveries, no_such_delivery, record};
use crate::actions::webhooks::endpoints::no_such_endpoint;
use crate::runtime::{Error, Kind, Result, internal};

/// The deliveries that figures are about: the newest that have ended.
const FIGURES_OVER: i64 = 500;
/// Waiting deliveries are counted up to this.
const MAX_WAITING: i64 = 10_000;

impl Deliveries {
    /// Sends a test to an endpoint, whatever events it asks for. If it is resting, its receiver is tried at once.
    pub async fn send_test(&self, tenant: TenantId, endpoint: Uuid) -> Result<WebhookDelivery> {
        let queued = self
            .store
            .write("test_webhook", async |conn: &mut Conn| {
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                if !known.enabled {
                    return Err(Error::new(Kind::Conflict, "the endpoint is disabled"));
                }
                let now = self.clock.now();
                let delivery = self.test_of(&known, now)?;
                let id = delivery.delivery_id;
                self.queue(conn, &[delivery], &mut Effects::default()).await?;
                self.courier.probe(conn, tenant, endpoint, now).await?;
                deliveries::find(conn, tenant, id).await?.ok_or_else(no_such_delivery)
            })
            .await?;
        self.courier.wake();
        record(queued)
    }

    fn test_of(&self, endpoint: &Endpoint, now: Timestamp) -> Result<NewDelivery> {
        let payload = EndpointTest {
            event: ENDPOINT_TEST.to_owned(),
            tenant_id: endpoint.tenant_id,
            endpoint_id: endpoint.endpoint_id,
            occurred_at: now,
        };
        Ok(NewDelivery {
            tenant: endpoint.tenant_id,
            delivery_id: self.random.id(now),
            endpoint_id: endpoint.endpoint_id,
            event_type: ENDPOINT_TEST,
            object_id: None,
            payload: serde_json::to_string(&payload).map_err(internal)?,
            max_attempts: self.max_attempts,
            run_after: now,
            created_at: now,
            active_since: endpoint.active_time(now),
            traceparent: None,
            lease: None,
        })
    }

    /// How the endpoints of a tenant are doing, by id, as far as that could be read: the list of them is worth more.
    pub async fn health_of_all(&self, tenant: TenantId, endpoints: &[Uuid]) -> HashMap<Uuid, WebhookHealth> {
        let mut all = HashMap::new();
        for endpoint in endpoints {
            match self.health(tenant, *endpoint).await {
                Ok(health) => {
                    all.insert(*endpoint, health);
                }
                // It was deleted meanwhile.
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => {
                    warn!(%error, "cannot read how the endpoints of an account are doing");
                    break;
                }
            }
        }
        all
    }

    /// How an endpoint is doing.
    pub async fn health(&self, tenant: TenantId, endpoint: Uuid) -> Result<WebhookHealth> {
        let now = self.clock.now();
        self.store
            .snapshot("webhook_health", async |conn: &mut Conn| {
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                let circuit = endpoints::read_circuit(conn, tenant, endpoint).await?;
                let circuit = circuit.ok_or_else(no_such_endpoint)?;
                let waiting = deliveries::count_waiting(conn, tenant, endpoint, MAX_WAITING).await?;
                let ended = deliveries::newest_ended(conn, tenant, endpoint, FIGURES_OVER).await?;
                Ok(figures(&known, circuit, waiting, &ended, now))
            })
            .await
    }
}

fn figures(
    endpoint: &Endpoint,
    circuit: Circuit,
    waiting: i64,
    ended: &[EndedDelivery],
    now: Timestamp,
) -> WebhookHealth {
    let resting_until = circuit.resting_until.filter(|until| *until > now);
    let state = if !endpoint.enabled {
        EndpointState::Disabled
    } else if resting_until.is_some() {
        EndpointState::Resting
    } else if circuit.consecutive_failures > 0 || is_last_dead(ended) {
        EndpointState::Failing
    } else {
        EndpointState::Good
    };
    let is_delivered = |ended: &&EndedDelivery| ended.status == DeliveryStatus::Delivered;
    let mut times: Vec<Duration> = ended.iter().filter(is_delivered).map(EndedDelivery::duration).collect();
    times.sort_unstable();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "at most 500")]
    let success_share = (!ended.is_empty()).then(|| times.len() as f64 / ended.len() as f64);
    WebhookHealth {
        state,
        resting_until,
        consecutive_failures: circuit.consecutive_failures,
        waiting,
        delivered: count(times.len()),
        dead: count(ended.len() - times.len()),
        success_share,
        p50_ms: percentile(&times, 50),
        p95_ms: percentile(&times, 95),
        since: ended.iter().map(|ended| ended.created_at).min(),
    }
}

/// Whether the delivery that ended last was given up. A receiver that refuses for good does not count as failing for the
/// circuit, since it is there.
fn is_last_dead(ended: &[EndedDelivery]) -> bool {
    // Newest first; of several that ended at once, the newest counts.
    ended
        .iter()
        .rev()
        .max_by_key(|ended| ended.ended_at)
        .is_some_and(|last| last.status == DeliveryStatus::Dead)
}

/// The time that so many percent of sorted times do not exceed, in milliseconds.
fn percentile(times: &[Duration], percent: usize) -> Option<i64> {
    let index = (times.len() * percent).div_ceil(100).checked_sub(1)?;
    times.get(index).map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let times: Vec<Duration> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 95)), (Some(10), Some(19)));
        assert_eq!((percentile(&times[..1], 50), percentile(&times[..1], 95)), (Some(1), Some(1)));
        assert_eq!(percentile(&[], 50), None);
    }
}
