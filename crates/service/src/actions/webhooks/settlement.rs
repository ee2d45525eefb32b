//! Writing down what became of attempts: the deliveries, how their receivers do, and the mail about those given up.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::webhook::rest_after;
use model::{TenantId, Timestamp};
use store::actions::webhooks::endpoints::{self, Circuit};
use store::actions::webhooks::queue::{self, DeliveryLease};
use store::{Conn, Store};
use tracing::{debug, info};
use uuid::Uuid;

use super::attempt::{Attempt, ClaimedDelivery, Outcome, Verdict};
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::Result;

/// Failures in a row after which an endpoint rests.
const TOLERATED_FAILURES: i64 = 10;
/// How long after one mail about an endpoint there is no other.
const BETWEEN_MAILS: Duration = Duration::from_hours(24);

/// What was written down: what follows once it is committed.
pub(super) struct Settlement {
    /// Endpoints that have failed, and those that have recovered.
    failing: Vec<Uuid>,
    recovered: Vec<Uuid>,
    mailed: bool,
}

/// An attempt of a delivery that was sent.
type Sent<'a> = (&'a ClaimedDelivery, &'a Attempt);

/// Writes what became of attempts.
pub(super) struct Settler {
    pub(super) store: Store,
    pub(super) notifications: Notifications,
    /// How long an endpoint's first rest lasts.
    pub(super) retry_base: Duration,
}

impl Settler {
    /// Writes down outcomes in a transaction of their own.
    pub(super) async fn settle(&self, outcomes: &[Outcome], failing: &mut HashSet<Uuid>) -> Result<()> {
        let known = &*failing;
        let settlement = self
            .store
            .write("settle_deliveries", async |conn: &mut Conn| {
                self.write_outcomes(conn, outcomes, known).await
            })
            .await?;
        self.follow(settlement, outcomes, failing);
        Ok(())
    }

    /// Writes down outcomes, in the caller's transaction.
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
        let held = queue::settle(conn, rows).await?;
        let mut settlement = Settlement { failing: Vec::new(), recovered: Vec::new(), mailed: false };
        let mut by_endpoint: HashMap<(TenantId, Uuid), Vec<Sent<'_>>> = HashMap::new();
        for (delivery, attempt) in sent {
            let destination = &delivery.destination;
            by_endpoint
                .entry((destination.tenant, destination.endpoint_id))
                .or_default()
                .push((delivery, attempt));
        }
        // In one order everywhere, so that no two processes wait for each other's rows.
        let mut endpoints: Vec<_> = by_endpoint.into_iter().collect();
        endpoints.sort_unstable_by_key(|(endpoint, _)| *endpoint);
        for ((tenant, endpoint), sent) in endpoints {
            let is_well = sent.iter().all(|(_, attempt)| attempt.is_success());
            if is_well && !failing.contains(&endpoint) {
                continue;
            }
            let Some((circuit, edited_at)) = endpoints::circuit(conn, tenant, endpoint).await? else {
                continue;
            };
            let moved = self.moved(circuit, edited_at, &sent);
            endpoints::set_circuit(conn, tenant, endpoint, moved).await?;
            if moved.consecutive_failures == 0 {
                settlement.recovered.push(endpoint);
            } else {
                settlement.failing.push(endpoint);
            }
            if moved.resting_until.is_some() && moved.rests > circuit.rests {
                let (failures, until) = (moved.consecutive_failures, moved.resting_until);
                info!(%endpoint, %tenant, failures, ?until, "a webhook endpoint rests");
            }
            settlement.mailed |= self.mail_about_dead(conn, tenant, endpoint, &sent, &held).await?;
        }
        Ok(settlement)
    }

    /// How a receiver does after these attempts. What went to where the endpoint led before an edit tells nothing about where
    /// it leads now.
    fn moved(&self, mut circuit: Circuit, edited_at: Timestamp, sent: &[Sent<'_>]) -> Circuit {
        let told = sent
            .iter()
            .filter(|(delivery, attempt)| attempt.was_made() && delivery.destination.updated_at == edited_at);
        for (delivery, attempt) in told {
            if attempt.is_success() {
                circuit = Circuit { consecutive_failures: 0, rests: 0, resting_until: None };
                continue;
            }
            circuit.consecutive_failures += 1;
            // What was under way when a rest began does not make it longer.
            let may_rest = circuit.resting_until.is_none() || delivery.is_probe;
            if circuit.consecutive_failures >= TOLERATED_FAILURES && may_rest {
                let rest = rest_after(self.retry_base, circuit.rests);
                circuit.resting_until = Some(attempt.at + rest);
                circuit.rests += 1;
            }
        }
        circuit
    }

    /// Queues the mail about a delivery that was given up, unless there was one about this endpoint lately.
    async fn mail_about_dead(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        endpoint: Uuid,
        sent: &[Sent<'_>],
        held: &HashSet<Uuid>,
    ) -> Result<bool> {
        let given_up = sent.iter().find(|(delivery, attempt)| {
            matches!(attempt.verdict, Verdict::Dead(_)) && held.contains(&delivery.delivery_id)
        });
        let Some((delivery, attempt)) = given_up else { return Ok(false) };
        let at: Timestamp = attempt.at;
        if !endpoints::claim_dead_mail(conn, tenant, endpoint, at, at - BETWEEN_MAILS).await? {
            return Ok(false);
        }
        let (url, reason) = (delivery.destination.url.as_str(), attempt.error.as_deref().unwrap_or_default());
        self.notifications
            .mail_tenant(conn, tenant, EmailEvent::WebhookDead, |templates, to| {
                templates.webhook_dead(to, url, reason, at)
            })
            .await?;
        Ok(true)
    }

    /// What follows once outcomes are committed.
    pub(super) fn follow(&self, settlement: Settlement, outcomes: &[Outcome], failing: &mut HashSet<Uuid>) {
        failing.extend(settlement.failing);
        for endpoint in &settlement.recovered {
            failing.remove(endpoint);
        }
        if settlement.mailed {
            self.notifications.wake();
        }
        for outcome in outcomes {
            let Some(attempt) = &outcome.attempt else { continue };
            let name = attempt.verdict.name();
            metrics::counter!("auspex_webhook_deliveries_total", "outcome" => name).increment(1);
            let delivery = outcome.delivery.delivery_id;
            debug!(%delivery, outcome = name, "a webhook delivery was tried");
        }
    }
}
