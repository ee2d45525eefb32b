//! Writing down what became of attempts: the deliveries, how their receivers do, and the mail about those given up.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use model::webhook::rest_after;
use model::{TenantId, Timestamp};
use store::Conn;
use store::actions::webhooks::queue;
use store::actions::webhooks::queue::Held;
use store::actions::webhooks::endpoints;
use store::actions::webhooks::endpoints::Circuit;
use tracing::{debug, info};
use uuid::Uuid;

use super::attempt::{Attempt, Outcome, Parcel, Verdict};
use crate::outbox::notifications::Event;
use crate::{Result, Service};

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
type Sent<'a> = (&'a Parcel, &'a Attempt);

impl Service {
    /// Writes down outcomes in a transaction of their own.
    pub(super) async fn settle(&self, outcomes: &[Outcome], troubled: &mut HashSet<Uuid>) -> Result<()> {
        let known = &*troubled;
        let settlement = self
            .store
            .write("settle_deliveries", async |conn: &mut Conn| {
                self.write_outcomes(conn, outcomes, known).await
            })
            .await?;
        settlement.follow(self, outcomes, troubled);
        Ok(())
    }

    /// Writes down outcomes, in the caller's transaction.
    pub(super) async fn write_outcomes(
        &self,
        conn: &mut Conn,
        outcomes: &[Outcome],
        troubled: &HashSet<Uuid>,
    ) -> Result<Settlement> {
        let unsent = outcomes.iter().filter(|outcome| outcome.attempt.is_none());
        let unsent: Vec<Held> = unsent.map(|outcome| outcome.parcel.held()).collect();
        queue::release(conn, unsent).await?;
        let sent: Vec<Sent<'_>> = outcomes
            .iter()
            .filter_map(|outcome| Some((&outcome.parcel, outcome.attempt.as_ref()?)))
            .collect();
        let rows: Vec<_> = sent.iter().map(|(parcel, attempt)| attempt.settled(parcel)).collect();
        let held = queue::settle(conn, rows).await?;
        let mut settlement = Settlement { failing: Vec::new(), recovered: Vec::new(), mailed: false };
        let mut by_endpoint: HashMap<(TenantId, Uuid), Vec<Sent<'_>>> = HashMap::new();
        for (parcel, attempt) in sent {
            let destination = &parcel.destination;
            by_endpoint
                .entry((destination.tenant, destination.endpoint_id))
                .or_default()
                .push((parcel, attempt));
        }
        // In one order everywhere, so that no two processes wait for each other's rows.
        let mut endpoints: Vec<_> = by_endpoint.into_iter().collect();
        endpoints.sort_unstable_by_key(|(endpoint, _)| *endpoint);
        for ((tenant, endpoint), sent) in endpoints {
            let is_well = sent.iter().all(|(_, attempt)| attempt.is_success());
            if is_well && !troubled.contains(&endpoint) {
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
            .filter(|(parcel, attempt)| attempt.was_made() && parcel.destination.updated_at == edited_at);
        for (parcel, attempt) in told {
            if attempt.is_success() {
                circuit = Circuit { consecutive_failures: 0, rests: 0, resting_until: None };
                continue;
            }
            circuit.consecutive_failures += 1;
            // What was under way when a rest began does not make it longer.
            let may_rest = circuit.resting_until.is_none() || parcel.is_probe;
            if circuit.consecutive_failures >= TOLERATED_FAILURES && may_rest {
                let rest = rest_after(self.options.webhook_retry_base, circuit.rests);
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
        let given_up = sent.iter().find(|(parcel, attempt)| {
            matches!(attempt.verdict, Verdict::Dead(_)) && held.contains(&parcel.delivery_id)
        });
        let Some((parcel, attempt)) = given_up else { return Ok(false) };
        let at: Timestamp = attempt.at;
        if !endpoints::take_dead_mail(conn, tenant, endpoint, at, at - BETWEEN_MAILS).await? {
            return Ok(false);
        }
        let (url, reason) = (parcel.destination.url.as_str(), attempt.error.as_deref().unwrap_or_default());
        self.mail_tenant(conn, tenant, Event::WebhookDead, |to| {
            self.letters.webhook_dead(to, url, reason, at)
        })
        .await?;
        Ok(true)
    }
}

impl Settlement {
    /// What follows once it is committed.
    pub(super) fn follow(self, service: &Service, outcomes: &[Outcome], troubled: &mut HashSet<Uuid>) {
        troubled.extend(self.failing);
        for endpoint in &self.recovered {
            troubled.remove(endpoint);
        }
        if self.mailed {
            service.mailer.wake();
        }
        for outcome in outcomes {
            let Some(attempt) = &outcome.attempt else { continue };
            let name = attempt.verdict.name();
            metrics::counter!("auspex_webhook_deliveries_total", "outcome" => name).increment(1);
            let delivery = outcome.parcel.delivery_id;
            debug!(%delivery, outcome = name, "a webhook delivery was tried");
        }
    }
}
