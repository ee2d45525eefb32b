//! Unpaid jobs and trials: parked when the tenant's balance is empty, and resumed when it is credited.

use std::time::Duration;

use model::TenantId;
use store::accounts::closure;
use store::analysis::jobs::{self, LeasedJob};
use store::analysis::trials;
use store::billing::{balance, unpaid};
use store::{Conn, Lease, Store};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::runtime::{Clock, Error, Kind, Result, Wakeup};

/// Jobs that one transaction parks or resumes: few enough not to delay other transactions. The remaining due jobs are
/// parked when the next of them is claimed; the remaining parked jobs are resumed by the worker.
const STEP: i64 = 2_000;
/// How often to check for parked jobs that could run: those of a tenant with more of them than one step, and those of a
/// deployment that no longer blocks on an empty balance.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Parks and resumes jobs that their tenants cannot pay for.
#[derive(Clone)]
pub(crate) struct Unpaid {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Whether an empty balance pauses analyses.
    pub(crate) blocks: bool,
    /// Wakes the scheduler.
    pub(crate) scheduler: Wakeup,
    /// Wakes the runner of trials.
    pub(crate) trials: Wakeup,
}

impl Unpaid {
    /// Parks a claimed job that its tenant cannot pay for, together with all other due jobs of the tenant, so that they need
    /// not be claimed one by one.
    pub(crate) async fn park(&self, job: &LeasedJob, lease: Lease) -> Result<()> {
        self.store
            .write("park_jobs", async |conn: &mut Conn| {
                let now = self.clock.now();
                // Under the lock of the balance: a concurrent top-up resumes what is parked here.
                if balance::lock_balance(conn, job.tenant_id).await? > 0 {
                    jobs::retry(conn, job, lease.token, now, false).await?;
                } else {
                    unpaid::park(conn, job, lease.token).await?;
                    unpaid::park_due(conn, job.tenant_id, now, STEP).await?;
                }
                Ok::<_, Error>(())
            })
            .await
    }

    /// Resumes parked jobs and trials of a tenant, in the transaction that set its balance to this value; returns whether there may be
    /// more jobs.
    pub(crate) async fn resume(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        balance_micros: i64,
    ) -> Result<bool> {
        if self.blocks && balance_micros <= 0 {
            return Ok(false);
        }
        trials::resume(conn, tenant).await?;
        Ok(unpaid::resume(conn, tenant, STEP).await? == STEP.unsigned_abs())
    }

    /// Wakes the scheduler and the runner of trials of this process.
    pub(crate) fn wake_workers(&self) {
        self.scheduler.wake();
        self.trials.wake();
    }

    /// Every few seconds, resumes the parked jobs that the credit itself did not.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            match stop.run_until_cancelled(Box::pin(self.resume_all())).await {
                Some(Ok(())) => {}
                Some(Err(error)) => warn!(cause = error.cause(), "cannot resume unpaid analyses: {error}"),
                None => return,
            }
            if stop.run_until_cancelled(self.clock.sleep(CHECK_INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Parks the due jobs of suspended tenants too: they are not claimed, and must not be found again and again.
    async fn park_suspended(&self) -> Result<Vec<TenantId>> {
        let now = self.clock.now();
        let (suspended, with_due) = self
            .store
            .read("suspended", async |conn: &mut Conn| {
                let suspended = closure::suspended(conn).await?;
                let mut with_due = Vec::new();
                for tenant in &suspended {
                    if unpaid::has_due(conn, *tenant, now).await? {
                        with_due.push(*tenant);
                    }
                }
                Ok::<_, Error>((suspended, with_due))
            })
            .await?;
        for tenant in with_due {
            let park = async |conn: &mut Conn| unpaid::park_due(conn, tenant, now, STEP).await;
            while self.store.write("park_suspended", park).await? == STEP.unsigned_abs() {}
        }
        Ok(suspended)
    }

    async fn resume_all(&self) -> Result<()> {
        let suspended = self.park_suspended().await?;
        let mut waiting = self.store.read("unpaid_tenants", async |conn| unpaid::tenants(conn).await).await?;
        waiting.retain(|tenant| !suspended.contains(tenant));
        for tenant in waiting {
            // The others must not wait for this one to be fixed.
            match self.resume_all_of(tenant).await {
                Ok(()) => {}
                Err(error) if error.kind() == Kind::NotReady => return Err(error),
                Err(error) => {
                    error!(cause = error.cause(), %tenant, "cannot resume unpaid analyses: {error}");
                }
            }
        }
        Ok(())
    }

    async fn resume_all_of(&self, tenant: TenantId) -> Result<()> {
        let balance = self.store.read("balance", async |conn| balance::balance(conn, tenant).await);
        if self.blocks && balance.await? <= 0 {
            return Ok(());
        }
        let resume = async |conn: &mut Conn| {
            let balance = balance::lock_balance(conn, tenant).await?;
            self.resume(conn, tenant, balance).await
        };
        while self.store.write("resume_unpaid", resume).await? {
            self.wake_workers();
        }
        self.wake_workers();
        Ok(())
    }
}
