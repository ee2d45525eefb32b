//! Takes away what has run out: sessions, reset links, throttles, idempotency keys, request budgets, old firings and
//! deliveries, events past their retention and what summaries still quote of them. Late is harmless: every reader checks
//! the time itself.

use std::time::Duration;

use model::api::DeliveryStatus;
use model::{TenantId, Timestamp};
use store::accounts::{sessions, tenants};
use store::actions::webhooks::{deliveries, endpoints};
use store::actions::{firings, rules};
use store::analysis::concluder::{self, LockedObjects};
use store::analysis::history::{self, EventRange};
use store::analysis::verdict_slots;
use store::runtime::rate;
use store::upkeep::sweeper;
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::actions::drop_deliveries;
use crate::analysis::history::fold;
use crate::runtime::{Clock, Error, Random, Result, Throttle, Wakeup};

const SWEEP_EVERY: Duration = Duration::from_mins(10);
/// Rows of one step: few enough that no request waits for a sweep.
const STEP: i64 = 500;
const DAY: Duration = Duration::from_hours(24);
/// How long a delivery can be looked at after its receiver took it.
const DELIVERED_KEPT: Duration = Duration::from_hours(24 * 30);
/// How long one that was given up can be replayed.
const DEAD_KEPT: Duration = Duration::from_hours(24 * 90);
/// Events are counted for the last day; the rest of this is room.
const COUNTS_KEPT: Duration = Duration::from_hours(48);
/// A budget is for one minute; the rest of this is room for clocks that differ.
const BUDGETS_KEPT: Duration = Duration::from_hours(1);
/// How long firings are kept.
const FIRINGS_KEPT: Duration = Duration::from_hours(90 * 24);
/// An analysis that began while a condition was alive has ended by then, and writes no state of it any more.
const RETIRED_FOR: Duration = Duration::from_mins(5);

/// Removes what has expired.
#[derive(Clone)]
pub(crate) struct Sweeper {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) throttle: Throttle,
    /// Wakes the sweeper: a new retention takes effect at once.
    pub(crate) wakeup: Wakeup,
}

impl Sweeper {
    pub(crate) async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.wait()).await.is_some() {
            if let Some(Err(error)) = stop.run_until_cancelled(self.sweep()).await {
                warn!(cause = error.cause(), "cannot sweep: {error}");
            }
        }
    }

    async fn wait(&self) {
        tokio::select! {
            () = self.clock.sleep(SWEEP_EVERY) => {}
            () = self.wakeup.woken() => {}
        }
    }

    async fn sweep(&self) -> Result<()> {
        let now = self.clock.now();
        self.store.write("sweep_sessions", async |conn: &mut Conn| sessions::sweep(conn, now).await).await?;
        self.throttle.sweep().await?;
        self.store
            .write("sweep_places", async |conn: &mut Conn| verdict_slots::sweep(conn, now).await)
            .await?;
        while self
            .store
            .write("sweep_keys", async |conn: &mut Conn| sweeper::drop_keys(conn, now, STEP).await)
            .await?
            > 0
        {}
        for (tenant, days) in self
            .store
            .read("limited_tenants", async |conn| sweeper::tenants_with_retention_days(conn).await)
            .await?
        {
            let days = u32::try_from(days).unwrap_or(u32::MAX);
            self.sweep_events(tenant, now - DAY * days).await?;
        }
        self.sweep_samples().await?;
        for tenant in self.store.read("tenants", async |conn| tenants::all(conn).await).await? {
            self.store
                .write("sweep_tenant", async |conn: &mut Conn| {
                    rate::drop_old(conn, tenant.tenant_id, now - BUDGETS_KEPT).await?;
                    sweeper::drop_event_tallies(conn, tenant.tenant_id, now - COUNTS_KEPT).await
                })
                .await?;
            self.sweep_firings(tenant.tenant_id, now).await?;
            self.sweep_deliveries(tenant.tenant_id, now).await?;
        }
        self.sweep_conditions(now - RETIRED_FOR).await
    }

    /// Removes deliveries that ended long ago, and what is left of those of endpoints that are gone.
    async fn sweep_deliveries(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let endpoints =
            self.store.read("webhooks", async |conn| endpoints::of_tenant(conn, tenant).await).await?;
        for endpoint in endpoints {
            let place = (tenant, endpoint.endpoint_id);
            for (status, kept) in
                [(DeliveryStatus::Delivered, DELIVERED_KEPT), (DeliveryStatus::Dead, DEAD_KEPT)]
            {
                let before = now - kept;
                while self
                    .store
                    .write("sweep_deliveries", async |conn: &mut Conn| {
                        let made_before = Random::smallest_id(before);
                        deliveries::drop_ended(conn, place, status, made_before, before, STEP).await
                    })
                    .await?
                    > 0
                {}
            }
        }
        let orphaned = self
            .store
            .read("orphaned_deliveries", async |conn| deliveries::orphaned(conn, tenant).await)
            .await?;
        for endpoint in orphaned {
            drop_deliveries(&self.store, tenant, endpoint).await?;
        }
        Ok(())
    }

    /// Removes firings past their time, and counts of mails from before today.
    async fn sweep_firings(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        while self
            .store
            .write("sweep_firings", async |conn: &mut Conn| {
                firings::drop_message_counts(conn, tenant, now.date()).await?;
                firings::drop_before(conn, tenant, now - FIRINGS_KEPT, STEP).await
            })
            .await?
            > 0
        {}
        Ok(())
    }

    /// Removes where conditions that were given up stood with objects.
    async fn sweep_conditions(&self, before: Timestamp) -> Result<()> {
        let retired =
            self.store.read("retired_conditions", async |conn| rules::retired(conn, before).await).await?;
        for (tenant, condition) in retired {
            while !self
                .store
                .write("sweep_condition", async |conn: &mut Conn| {
                    rules::sweep_retired(conn, tenant, condition, STEP).await
                })
                .await?
            {}
        }
        Ok(())
    }

    /// Ends what summaries quote where events have a limit, some objects at a time.
    async fn sweep_samples(&self) -> Result<()> {
        let tenants = self
            .store
            .read("quoteless_tenants", async |conn| sweeper::tenants_with_limited_retention(conn).await)
            .await?;
        for tenant in tenants {
            let step = async |conn: &mut Conn| sweeper::drop_samples(conn, tenant, STEP).await;
            while self.store.write("sweep_samples", step).await? > 0 {}
        }
        Ok(())
    }

    /// Folds and removes events received before an instant, some objects at a time.
    async fn sweep_events(&self, tenant: TenantId, before: Timestamp) -> Result<()> {
        loop {
            let outdated = self
                .store
                .read("outdated_events", async |conn| sweeper::outdated(conn, tenant, before, STEP).await)
                .await?;
            if outdated.is_empty() {
                return Ok(());
            }
            for (object_id, through) in outdated {
                self.store
                    .write("sweep_events", async |conn: &mut Conn| {
                        // Held, so that what is folded is not left to another object of the same name.
                        let held = LockedObjects::lock(conn, &[(tenant, object_id.as_str())]).await?;
                        if held.newest_seq(tenant, &object_id).is_none_or(|newest| newest < through) {
                            return Ok(());
                        }
                        let mut summary = history::summary(conn, tenant, &object_id).await?;
                        let after = summary.as_ref().map_or(0, |summary| summary.through_seq);
                        let events = history::events_between(
                            conn,
                            EventRange { tenant, object_id: &object_id, after, through },
                            i64::MAX,
                        )
                        .await?;
                        fold(&mut summary, events.into_iter());
                        if let Some(summary) = &mut summary {
                            // Texts are what a limit is there to remove; counts stay.
                            summary.state.sample_messages.clear();
                            concluder::put_summary(conn, tenant, &object_id, summary).await?;
                        }
                        concluder::drop_events(conn, tenant, &object_id, through).await?;
                        Ok::<_, Error>(())
                    })
                    .await?;
            }
        }
    }
}
