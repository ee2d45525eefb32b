//! Bulk runs: one pass over all objects of a tenant, to analyze everything again, to backfill a signal, or to update the
//! ranks of objects after a change of signals. A run is one row; the feeder turns it into jobs step by step.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::TenantId;
use model::api::{
    AnalysisStatus, AnalyzeAllScheduled, BackfillEstimate, BackfillState, BackfillStatus, SignalBackfill,
};
use store::accounts::tenants;
use store::analysis::bulk_runs::{self, BulkRun, BulkRunKind, NewBulkRun};
use store::analysis::concluder;
use store::analysis::jobs::{self, NewBulkJob};
use store::analysis::signals::{self, Signal};
use store::billing::balance;
use store::objects::overview;
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::error;
use uuid::Uuid;

use crate::quality::no_such_signal;
use crate::runtime::{Clock, Error, Kind, Random, Result, Wakeup, count_panic};

/// Objects per step of a run: enough that feeding costs little compared to the analyses, few enough that its
/// transaction takes only milliseconds.
const STEP: i64 = 256;
/// More jobs are queued when a tenant has fewer bulk jobs than this, so that the scheduler does not have to wait for the
/// next step; and never more than this and one step are queued, however many objects there are.
const REFILL_AT: i64 = 128;
/// The delay between two rounds. One round serves all jobs that finished meanwhile, and other writers get their turn.
const PAUSE: Duration = Duration::from_millis(10);
/// How often runs that wait for queued jobs are looked at without being woken: other nodes may have run those.
const POLL: Duration = Duration::from_secs(1);

/// The bulk runs of all tenants. Cheap to clone.
#[derive(Clone)]
pub struct BulkRuns {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    /// Wakes the feeder.
    pub(crate) feeder: Wakeup,
    /// Wakes the scheduler.
    pub(crate) scheduler: Wakeup,
}

/// What became of the runs in one round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// One or more have advanced.
    Moved,
    /// None could advance.
    Waits,
    /// There are none.
    NoRuns,
}

impl BulkRuns {
    /// Turns bulk runs into jobs until `stop` is cancelled. The progress is in the rows, and another process can continue.
    pub(crate) async fn run_feeder(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let progress = self.step_all().await.unwrap_or_else(|error| {
                error!(cause = error.cause(), "cannot read the bulk runs: {error}");
                Progress::Waits
            });
            if progress != Progress::Moved {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.feeder.woken() => {}
                    () = self.clock.sleep(POLL), if progress == Progress::Waits => {}
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Advances every run by one step if possible.
    async fn step_all(&self) -> Result<Progress> {
        let runs = self.store.read("bulk_runs", async |conn| bulk_runs::running(conn).await).await?;
        let mut moved = false;
        let mut fed = None;
        for run in &runs {
            if run.kind != BulkRunKind::Rerank && fed.replace(run.tenant_id) == Some(run.tenant_id) {
                // Runs of a tenant are fed one after the other, so that the next need not pay for what the first has asked.
                continue;
            }
            // A run that fails or panics does not stop the others.
            match AssertUnwindSafe(self.step(run, &runs)).catch_unwind().await {
                Ok(Ok(stepped)) => moved |= stepped,
                Err(_) => count_panic("feeder"),
                Ok(Err(error)) => {
                    error!(cause = error.cause(), run = %run.bulk_run_id, "cannot advance a bulk run: {error}");
                }
            }
        }
        Ok(match (runs.is_empty(), moved) {
            (true, _) => Progress::NoRuns,
            (false, false) => Progress::Waits,
            (false, true) => Progress::Moved,
        })
    }

    async fn step(&self, run: &BulkRun, runs: &[BulkRun]) -> Result<bool> {
        match run.kind {
            BulkRunKind::Rerank => self.rerank(run).await,
            BulkRunKind::Analyze | BulkRunKind::Backfill => {
                self.feed(run, &backfilled_signals(runs, run)).await
            }
        }
    }
}

/// The signals of all running backfills of the tenant: one analysis of an object serves them all.
fn backfilled_signals(runs: &[BulkRun], run: &BulkRun) -> Vec<Uuid> {
    let of_tenant = runs.iter().filter(|other| other.tenant_id == run.tenant_id);
    of_tenant
        .filter(|other| other.kind == BulkRunKind::Backfill)
        .filter_map(|other| other.signal_id)
        .collect()
}

/// The next step of a run.
enum NextStep {
    /// Queue these jobs, and move the cursor to this object.
    Ask(Vec<NewBulkJob>, String),
    /// Wait for queued jobs.
    Wait,
    /// The run is finished.
    End,
}

impl BulkRuns {
    /// Schedules an analysis of every object at bulk priority. While such a run is in progress no second is started:
    /// the response is that of the first.
    pub async fn analyze_all(&self, tenant: TenantId) -> Result<AnalyzeAllScheduled> {
        let scheduled = self
            .store
            .write("analyze_all", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                if let Some(run) = bulk_runs::running_of(conn, tenant, BulkRunKind::Analyze).await? {
                    return Ok(run.total);
                }
                let total = overview::objects(conn, tenant).await?;
                if total > 0 {
                    self.start_run(conn, tenant, BulkRunKind::Analyze, None, total).await?;
                }
                Ok::<_, Error>(total)
            })
            .await?;
        self.feeder.wake();
        Ok(AnalyzeAllScheduled { scheduled, analysis_status: AnalysisStatus::Scheduled })
    }

    /// The estimated cost of a backfill of a signal, and the progress of the latest one.
    pub async fn backfill_status(&self, tenant: TenantId, key: &str) -> Result<BackfillStatus> {
        self.store
            .read("backfill", async |conn: &mut Conn| {
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                let objects = overview::unanswered(conn, tenant, signal.signal_id).await?;
                let (spent_micros, analyses) = balance::spent(conn, tenant).await?;
                let latest = bulk_runs::latest_backfill(conn, tenant, key, signal.signal_id).await?;
                Ok(BackfillStatus {
                    estimate: BackfillEstimate {
                        objects,
                        estimated_cost_micros: estimated_cost(objects, spent_micros, analyses),
                    },
                    backfill: latest.map(|run| progress(key, &run, objects)),
                })
            })
            .await
    }

    /// Starts a backfill of a signal, or returns the one in progress.
    pub async fn start_backfill(&self, tenant: TenantId, key: &str) -> Result<SignalBackfill> {
        let started = self
            .store
            .write("start_backfill", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let signal = signals::find(conn, tenant, key).await?.ok_or_else(no_such_signal)?;
                if !signal.enabled {
                    return Err(Error::new(Kind::Conflict, "the signal is disabled"));
                }
                self.backfill_signal(conn, tenant, &signal).await
            })
            .await?;
        self.feeder.wake();
        Ok(started)
    }

    /// Starts a backfill, or returns the one in progress, in the caller's transaction, which has locked the tenant.
    pub(crate) async fn backfill_signal(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        signal: &Signal,
    ) -> Result<SignalBackfill> {
        let unanswered = overview::unanswered(conn, tenant, signal.signal_id).await?;
        let latest = bulk_runs::latest_backfill(conn, tenant, &signal.key, signal.signal_id).await?;
        let run = if let Some(run) = latest.filter(BulkRun::is_running) {
            run
        } else {
            bulk_runs::drop_ended_backfills(conn, tenant, &signal.key).await?;
            self.start_run(conn, tenant, BulkRunKind::Backfill, Some(signal), unanswered).await?
        };
        Ok(progress(&signal.key, &run, unanswered))
    }

    /// Starts a run that updates the ranks of all objects after a change of signals, in the caller's transaction.
    pub(crate) async fn rerank_all(&self, conn: &mut Conn, tenant: TenantId) -> Result<()> {
        if !bulk_runs::restart(conn, tenant, BulkRunKind::Rerank).await? {
            let total = overview::objects(conn, tenant).await?;
            self.start_run(conn, tenant, BulkRunKind::Rerank, None, total).await?;
        }
        Ok(())
    }

    async fn start_run(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        kind: BulkRunKind,
        signal: Option<&Signal>,
        total: i64,
    ) -> Result<BulkRun> {
        let now = self.clock.now();
        let signal = signal.map(|signal| (signal.key.as_str(), signal.signal_id));
        let new = NewBulkRun { id: self.random.id(now), kind, signal, total, now };
        Ok(bulk_runs::start(conn, tenant, &new).await?)
    }

    /// Queues the next jobs of a run if few are queued, or finishes it; returns whether anything was done.
    async fn feed(&self, run: &BulkRun, backfilled: &[Uuid]) -> Result<bool> {
        // Read outside of the transaction, to keep it short; the cursor shows whether another node was faster.
        let next =
            self.store.read("next_of_bulk_run", async |conn| next(conn, run, backfilled).await).await?;
        let moved = match next {
            NextStep::Wait => return Ok(false),
            NextStep::End => self.end(run).await?,
            NextStep::Ask(asks, cursor) => {
                self.store
                    .write("feed_bulk_run", async |conn: &mut Conn| {
                        let moved = bulk_runs::advance(conn, run, &cursor).await?;
                        if moved {
                            let now = self.clock.now();
                            jobs::schedule_bulk(conn, run.tenant_id, run.bulk_run_id, &asks, now).await?;
                        }
                        Ok::<_, Error>(moved)
                    })
                    .await?
            }
        };
        self.scheduler.wake();
        Ok(moved)
    }

    async fn end(&self, run: &BulkRun) -> Result<bool> {
        self.store
            .write("end_bulk_run", async |conn: &mut Conn| {
                let completed = match run.signal_id {
                    Some(signal) => {
                        Some(completed(run, overview::unanswered(conn, run.tenant_id, signal).await?))
                    }
                    None => None,
                };
                Ok(bulk_runs::finish(conn, run, completed, self.clock.now()).await?)
            })
            .await
    }

    /// Updates the ranks of the next objects of a run, or finishes it.
    async fn rerank(&self, run: &BulkRun) -> Result<bool> {
        let (tenant, after) = (run.tenant_id, run.object_cursor.as_str());
        let ids = self
            .store
            .read("next_of_rerank", async |conn| bulk_runs::objects_after(conn, tenant, after, STEP).await)
            .await?;
        let Some(last) = ids.last() else { return self.end(run).await };
        let shard = self.random.shard();
        self.store
            .write("rerank", async |conn: &mut Conn| {
                let moved = bulk_runs::advance(conn, run, last).await?;
                if moved {
                    concluder::rerank(conn, tenant, after, last, shard).await?;
                }
                Ok(moved)
            })
            .await
    }
}

/// Determines the next step of a run.
async fn next(conn: &mut Conn, run: &BulkRun, backfilled: &[Uuid]) -> Result<NextStep> {
    let tenant = run.tenant_id;
    let queued = jobs::count_bulk(conn, tenant, REFILL_AT).await?;
    if queued == REFILL_AT {
        return Ok(NextStep::Wait);
    }
    let enabled: HashSet<Uuid> = signals::of_tenant(conn, tenant)
        .await?
        .into_iter()
        .filter(|signal| signal.enabled)
        .map(|signal| signal.signal_id)
        .collect();
    // A signal that was disabled or deleted is no longer asked.
    let is_asked = run.signal_id.is_none_or(|signal| enabled.contains(&signal));
    let ids = if is_asked {
        bulk_runs::objects_after(conn, tenant, &run.object_cursor, STEP).await?
    } else {
        Vec::new()
    };
    let Some(last) = ids.last().cloned() else {
        return Ok(if queued == 0 { NextStep::End } else { NextStep::Wait });
    };
    if run.kind == BulkRunKind::Analyze {
        let asks = ids.into_iter().map(|object_id| NewBulkJob { object_id, signals: None });
        return Ok(NextStep::Ask(asks.collect(), last));
    }
    let answered = bulk_runs::answered_between(conn, tenant, &run.object_cursor, &last).await?;
    let ask = |object_id: String| {
        let open =
            |signal: &Uuid| enabled.contains(signal) && !answered.contains(&(object_id.clone(), *signal));
        let signals: Vec<Uuid> = backfilled.iter().copied().filter(open).collect();
        let is_open = run.signal_id.is_some_and(|signal| signals.contains(&signal));
        is_open.then_some(NewBulkJob { object_id, signals: Some(signals) })
    };
    Ok(NextStep::Ask(ids.into_iter().filter_map(ask).collect(), last))
}

fn progress(key: &str, run: &BulkRun, unanswered: i64) -> SignalBackfill {
    let completed = run.completed.unwrap_or_else(|| completed(run, unanswered));
    SignalBackfill {
        signal_key: key.to_owned(),
        status: if run.is_running() { BackfillState::Running } else { BackfillState::Done },
        total: run.total,
        completed,
        pending: run.total - completed,
        started_at: run.started_at,
    }
}

/// How many of a backfill's objects have an answer, given how many objects have none now. New objects since its start
/// may be among those, so this may temporarily be too low, and is never too high.
fn completed(run: &BulkRun, unanswered: i64) -> i64 {
    run.total - unanswered.clamp(0, run.total)
}

/// The number of objects times the average charge, rounded to a micro-dollar.
fn estimated_cost(objects: i64, spent_micros: i64, analyses: i64) -> i64 {
    if analyses <= 0 {
        return 0;
    }
    let (total, count) = (i128::from(objects) * i128::from(spent_micros), i128::from(analyses));
    i64::try_from((total + count / 2) / count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_the_mean_times_the_objects() {
        assert_eq!(estimated_cost(10, 0, 0), 0, "nothing has been charged yet");
        assert_eq!(estimated_cost(10, 0, 5), 0, "nothing is billed");
        assert_eq!(estimated_cost(3, 10, 4), 8, "7.5 micro-dollars");
        assert_eq!(estimated_cost(i64::MAX, i64::MAX, 1), i64::MAX);
    }
}
