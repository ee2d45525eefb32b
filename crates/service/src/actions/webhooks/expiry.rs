//! Gives up deliveries that have waited for too long: to a receiver that has failed for days, with more deliveries than are ever
//! tried. They become dead letters like any other, and can be replayed.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::actions::webhooks::endpoints::{self, Endpoint};
use store::actions::webhooks::queue::{self, AttemptResult, DeliveryLease, DeliveryOutcome};
use store::{Conn, Lease, Store};

use crate::actions::webhooks::endpoints::open_url;
use crate::actions::webhooks::notices::mail_about_endpoint;
use crate::outbox::Notifications;
use crate::runtime::{Random, Result, Sealer};

/// The error of a delivery that has waited for too long.
const EXPIRED: &str = "expired";
/// Deliveries that one transaction gives up.
const STEP: i64 = 500;

/// Gives up deliveries that have waited for longer than `max_age`, not counting the time while their endpoint was disabled.
#[derive(Clone)]
pub(crate) struct Expiry {
    pub(crate) store: Store,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) notifications: Notifications,
    pub(crate) max_age: Duration,
}

impl Expiry {
    /// Gives up the deliveries of a tenant that have waited for too long.
    pub(crate) async fn expire(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let endpoints =
            self.store.read("webhooks", async |conn| endpoints::of_tenant(conn, tenant).await).await?;
        // Deliveries to a disabled endpoint wait for it to be enabled, however long that takes.
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.enabled) {
            while self.expire_some(endpoint, now).await? > 0 {}
        }
        Ok(())
    }

    async fn expire_some(&self, endpoint: &Endpoint, now: Timestamp) -> Result<usize> {
        let (tenant, endpoint_id) = (endpoint.tenant_id, endpoint.endpoint_id);
        let lease = Lease { token: self.random.id(now), until: now };
        let before = endpoint.active_time(now) - self.max_age;
        let made_before = Random::smallest_id(now - self.max_age);
        let (expired, mailed) = self
            .store
            .write("expire_deliveries", async |conn: &mut Conn| {
                let owner = (tenant, endpoint_id);
                let expired = queue::claim_expired(conn, owner, made_before, before, STEP, lease).await?;
                let results = expired.iter().map(|expired| AttemptResult {
                    lease: DeliveryLease {
                        tenant,
                        endpoint_id,
                        delivery_id: expired.delivery_id,
                        token: lease.token,
                    },
                    outcome: DeliveryOutcome::Dead,
                    attempts: expired.attempts,
                    at: now,
                    status_code: None,
                    error: Some(EXPIRED.to_owned()),
                    response: None,
                });
                let settled = queue::settle(conn, results.collect()).await?.len();
                if settled == 0 {
                    return Ok::<_, crate::runtime::Error>((0, false));
                }
                let url = open_url(&self.sealer, endpoint_id, &endpoint.sealed_url)?;
                let reason = format!("it had waited for {} hours", self.max_age.as_secs() / 3_600);
                let mailed = mail_about_endpoint(&self.notifications, conn, owner, now, |templates, to| {
                    templates.webhook_dead(to, &url, &reason, now)
                })
                .await?;
                Ok((settled, mailed))
            })
            .await?;
        if mailed {
            self.notifications.wake();
        }
        metrics::counter!("auspex_webhook_deliveries_total", "outcome" => EXPIRED).increment(expired as u64);
        Ok(expired)
    }
}
