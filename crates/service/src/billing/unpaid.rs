//! Analyses that wait for money: set aside when a balance is empty, and woken by the credit that fills it.

use std::time::Duration;

use model::TenantId;
use store::analysis::jobs::{self, LeasedJob};
use store::billing::{balance, unpaid};
use store::{Conn, Lease, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::{Clock, Error, Result, Wakeup};

/// Analyses that one transaction sets aside or wakes: few enough that nobody waits for it. What is left of due ones is
/// found by the next that is claimed; what is left of woken ones by the waker.
const STEP: i64 = 2_000;
/// How often it is looked whether analyses wait although they need not: a tenant with more of them than one step, a
/// deployment that has stopped to block.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Analyses that wait for money.
#[derive(Clone)]
pub(crate) struct Unpaid {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Whether an empty balance pauses analyses.
    pub(crate) blocks: bool,
    /// Wakes the scheduler.
    pub(crate) scheduler: Wakeup,
}

impl Unpaid {
    /// Sets a claimed analysis aside that nobody can pay, and with it all others of its tenant that are due: they are
    /// looked at once, not one by one.
    pub(crate) async fn set_aside(&self, job: &LeasedJob, lease: Lease) -> Result<()> {
        self.store
            .write("set_aside", async |conn: &mut Conn| {
                let now = self.clock.now();
                // Under the balance's lock: a top-up that comes now wakes what is set aside here.
                if balance::lock_balance(conn, job.tenant_id).await? > 0 {
                    jobs::retry(conn, job, lease.token, now, false).await?;
                } else {
                    unpaid::set_aside(conn, job, lease.token).await?;
                    unpaid::set_aside_due(conn, job.tenant_id, now, STEP).await?;
                }
                Ok::<_, Error>(())
            })
            .await
    }

    /// Lets the analyses of a tenant go on, in the transaction that left its balance at this; says whether there may be
    /// more of them.
    pub(crate) async fn resume(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        balance_micros: i64,
    ) -> Result<bool> {
        if self.blocks && balance_micros <= 0 {
            return Ok(false);
        }
        Ok(unpaid::wake(conn, tenant, STEP).await? == STEP.unsigned_abs())
    }

    /// Tells the scheduler of this process that analyses may go on.
    pub(crate) fn wake(&self) {
        self.scheduler.wake();
    }

    /// Resumes, every few seconds, what the credit itself did not.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            match stop.run_until_cancelled(Box::pin(self.resume_all())).await {
                Some(Ok(())) => {}
                Some(Err(error)) => warn!(cause = error.cause(), "cannot resume unpaid analyses: {error}"),
                None => return,
            }
            if stop.run_until_cancelled(self.clock.sleep(LOOK_EVERY)).await.is_none() {
                return;
            }
        }
    }

    async fn resume_all(&self) -> Result<()> {
        let waiting = self.store.read("unpaid_tenants", async |conn| unpaid::tenants(conn).await).await?;
        for tenant in waiting {
            let balance = self.store.read("balance", async |conn| balance::balance(conn, tenant).await);
            if self.blocks && balance.await? <= 0 {
                continue;
            }
            let resume = async |conn: &mut Conn| {
                let balance = balance::lock_balance(conn, tenant).await?;
                self.resume(conn, tenant, balance).await
            };
            while self.store.write("resume_unpaid", resume).await? {
                self.wake();
            }
            self.wake();
        }
        Ok(())
    }
}
