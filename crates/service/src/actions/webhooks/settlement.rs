//! Settles attempts: writes the outcomes of deliveries, the circuit breakers of endpoints (`resting.rs` says what they become), and
//! the mail about dead letters.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::{TenantId, Timestamp};
use store::actions::webhooks::endpoints;
use store::actions::webhooks::queue::{self, DeliveryLease};
use store::{Conn, Store};
use tracing::{debug, info};
use uuid::Uuid;

use crate::actions::webhooks::attempt::{Attempt, ClaimedDelivery, Outcome};
use crate::actions::webhooks::notices::mail_about_endpoint;
use crate::actions::webhooks::resting::circuit_after;
use crate::actions::webhooks::retries::AttemptOutcome;
use crate::outbox::Notifications;
use crate::runtime::Result;

/// The result of settling, to be applied after the commit.
pub(super) struct Settlement {
    /// Endpoints that have failed.
    failing: Vec<Uuid>,
    /// Endpoints that have recovered.
    recovered: Vec<Uuid>,
    mailed: bool,
}

/// A delivery that was sent, and its attempt.
type Sent<'a> = (&'a ClaimedDelivery, &'a Attempt);

/// Where an attempt failed, why and when.
fn failure<'a>((delivery, attempt): &Sent<'a>) -> (&'a str, &'a str, Timestamp) {
    (delivery.destination.url.as_str(), attempt.error.as_deref().unwrap_or_default(), attempt.at)
}

/// Writes the outcomes of attempts.
pub(super) struct Settler {
    pub(super) store: Store,
    pub(super) notifications: Notifications,
    /// The length of an endpoint's first rest.
    pub(super) retry_base: Duration,
}

impl Settler {
    /// Writes outcomes in a transaction of their own.
    pub(super) async fn settle(&self, outcomes: &[Outcome], failing: &mut HashSet<Uuid>) -> Result<()> {
        let failing_before = &*failing;
        let settlement = self
            .store
            .write("settle_deliveries", async |conn: &mut Conn| {
                self.write_outcomes(conn, outcomes, failing_before).await
            })
            .await?;
        self.apply(settlement, outcomes, failing);
        Ok(())
    }

    /// Writes outcomes in the caller's transaction.
    pub(super) async fn write_outcomes(
        &self,
        conn: &mut Conn,
        outcomes: &[Outcome],
        failing: &HashSet<Uuid>,
    ) -> Result<Settlement> {
        let unsent = outcomes.iter().filter(|outcome| outcome.attempt.is_none());
        let unsent: Vec<DeliveryLease> = unsent.map(|outcome| outcome.delivery.lease()).collect();
        queue::release(conn, unsent).await?;
        let sent: Vec<Sent<'_>> = outcomes
            .iter()
            .filter_map(|outcome| Some((&outcome.delivery, outcome.attempt.as_ref()?)))
            .collect();
        let rows: Vec<_> = sent.iter().map(|(delivery, attempt)| attempt.settled(delivery)).collect();
        let still_leased = queue::settle(conn, rows).await?;
        let mut settlement = Settlement { failing: Vec::new(), recovered: Vec::new(), mailed: false };
        let mut by_endpoint: HashMap<(TenantId, Uuid), Vec<Sent<'_>>> = HashMap::new();
        for (delivery, attempt) in sent {
            let destination = &delivery.destination;
            by_endpoint
                .entry((destination.tenant, destination.endpoint_id))
                .or_default()
                .push((delivery, attempt));
        }
        // In key order, to avoid deadlocks.
        let mut endpoints: Vec<_> = by_endpoint.into_iter().collect();
        endpoints.sort_unstable_by_key(|(endpoint, _)| *endpoint);
        for ((tenant, endpoint), mut sent) in endpoints {
            // An outcome that was written before counts once.
            sent.retain(|(delivery, _)| still_leased.contains(&delivery.delivery_id));
            let is_healthy = sent.iter().all(|(_, attempt)| attempt.is_success());
            if is_healthy && !failing.contains(&endpoint) {
                continue;
            }
            let Some((circuit, version)) = endpoints::circuit(conn, tenant, endpoint).await? else {
                continue;
            };
            let updated = circuit_after(self.retry_base, circuit, version, &sent);
            endpoints::set_circuit(conn, tenant, endpoint, updated).await?;
            if updated.consecutive_failures == 0 {
                settlement.recovered.push(endpoint);
            } else {
                settlement.failing.push(endpoint);
            }
            if updated.resting_until.is_some() && updated.rests > circuit.rests {
                let (failures, until) = (updated.consecutive_failures, updated.resting_until);
                info!(%endpoint, %tenant, failures, ?until, "a webhook endpoint is resting");
            }
            settlement.mailed |= self.mail_about_dead(conn, tenant, endpoint, &sent, &still_leased).await?;
            if circuit.rests == 0 && updated.rests > 0 {
                settlement.mailed |= self.mail_about_rest(conn, tenant, endpoint, &sent).await?;
            }
        }
        Ok(settlement)
    }

    /// Queues the mail about a dead letter, unless one about this endpoint was sent recently.
    async fn mail_about_dead(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        endpoint: Uuid,
        sent: &[Sent<'_>],
        still_leased: &HashSet<Uuid>,
    ) -> Result<bool> {
        let given_up = sent.iter().find(|(delivery, attempt)| {
            matches!(attempt.outcome, AttemptOutcome::Dead(_)) && still_leased.contains(&delivery.delivery_id)
        });
        let Some(given_up) = given_up else { return Ok(false) };
        let (url, reason, at) = failure(given_up);
        mail_about_endpoint(&self.notifications, conn, (tenant, endpoint), at, |templates, to| {
            templates.webhook_dead(to, url, reason, at)
        })
        .await
    }

    /// Queues the mail about an endpoint's first rest, unless one about this endpoint was sent recently. A receiver with many
    /// deliveries may be down for long before one of them is out of attempts.
    async fn mail_about_rest(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        endpoint: Uuid,
        sent: &[Sent<'_>],
    ) -> Result<bool> {
        let Some(failed) = sent.iter().rfind(|(_, attempt)| !attempt.is_final()) else { return Ok(false) };
        let (url, reason, at) = failure(failed);
        mail_about_endpoint(&self.notifications, conn, (tenant, endpoint), at, |templates, to| {
            templates.webhook_resting(to, url, reason, at)
        })
        .await
    }

    /// Applies a settlement after the commit.
    pub(super) fn apply(&self, settlement: Settlement, outcomes: &[Outcome], failing: &mut HashSet<Uuid>) {
        failing.extend(settlement.failing);
        for endpoint in &settlement.recovered {
            failing.remove(endpoint);
        }
        if settlement.mailed {
            self.notifications.wake();
        }
        for outcome in outcomes {
            let Some(attempt) = &outcome.attempt else { continue };
            let name = attempt.outcome.name();
            metrics::counter!("auspex_webhook_deliveries_total", "outcome" => name).increment(1);
            let delivery = outcome.delivery.delivery_id;
            debug!(%delivery, outcome = name, "a webhook delivery was attempted");
        }
    }
}
