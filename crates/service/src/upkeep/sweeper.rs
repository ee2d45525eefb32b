//! The sweeper deletes what has expired: sessions, reset links, throttles, idempotency keys, request budgets, old firings and
//! deliveries, old answers, events past their retention and their quotes in summaries, bulk runs, checkouts and counts that nobody can ask
//! for. A late sweep is harmless: every reader checks the time itself.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::api::{DeliveryStatus, EventRetention};
use model::{TenantId, Timestamp};
use store::accounts::tenants::{self, Tenant};
use store::accounts::{audit_log, key_refusals, sessions};
use store::actions::webhooks::{deliveries, endpoints};
use store::actions::{firings, recipients, replays, reviews, rules};
use store::analysis::concluder::{self, LockedObjects};
use store::analysis::history::{self, EventRange};
use store::analysis::{
    answer_history, bulk_runs, escalations, signals, storage, tallies, trials, verdict_slots,
};
use store::objects::{event_counters, events, overview};
use store::quality::{calibrations, labels};
use store::runtime::rate;
use store::upkeep::{kept_history, sweep_rounds, sweeper};
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use uuid::Uuid;

use crate::accounts::{Closure, record_one_unfinished};
use crate::actions::{Expiry, REOPEN_WITHIN, drop_deliveries};
use crate::analysis::history::fold;
use crate::billing::Checkouts;
use crate::runtime::{Clock, Error, Kind, Random, Result, SweepRequests, Throttle, count_panic};

/// How often all accounts are swept, each by one of the processes.
pub const SWEEP_INTERVAL: Duration = Duration::from_mins(10);
/// How often a process looks whether there are accounts to be swept.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// Accounts that a process claims at a time: less than a second of work, if there is nothing to delete.
const CLAIMED: i64 = 32;
/// Rows per step: few enough that a sweep does not delay requests.
const STEP: i64 = 500;
const DAY: Duration = Duration::from_hours(24);
/// How long a delivery is kept after it was delivered.
const DELIVERED_RETENTION: Duration = Duration::from_hours(24 * 30);
/// How long a dead letter is kept, and can be replayed.
const DEAD_RETENTION: Duration = Duration::from_hours(24 * 90);
/// How long counts of events are kept; only those of the last two days are used.
const COUNTS_RETENTION: Duration = Duration::from_hours(50);
/// How long it is counted what happened on a day; the overview shows the last 14.
const DAYS_RETENTION: Duration = Duration::from_hours(15 * 24);
/// How long it is counted what was escalated on a day; only today's counts are used.
const ESCALATIONS_RETENTION: Duration = Duration::from_hours(7 * 24);
/// How long rate budgets are kept. A budget is for one minute; the rest allows for clock skew.
const BUDGETS_RETENTION: Duration = Duration::from_hours(1);
/// How long firings are kept.
const FIRINGS_RETENTION: Duration = Duration::from_hours(90 * 24);
/// How long a recipient of rule mails can follow the link in the last confirmation mail.
const UNANSWERED_RETENTION: Duration = Duration::from_hours(30 * 24);
/// How long the result of a replay is kept.
const REPLAYS_RETENTION: Duration = Duration::from_hours(7 * 24);
/// How long a refused request of a key is kept.
const REFUSALS_RETENTION: Duration = Duration::from_hours(7 * 24);
/// How long a trial that has ended is kept.
const TRIALS_RETENTION: Duration = Duration::from_hours(365 * 24);
/// How long a finished bulk run is kept that nobody can ask for, so that an operator can still see it.
const BULK_RUNS_RETENTION: Duration = Duration::from_hours(24);
/// After this time no running analysis can still write state of a retired condition.
const RETIRED_RETENTION: Duration = Duration::from_mins(5);

/// Deletes expired rows.
#[derive(Clone)]
pub(crate) struct Sweeper {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) throttle: Throttle,
    pub(crate) checkouts: Checkouts,
    pub(crate) expiry: Expiry,
    pub(crate) closure: Closure,
    /// For how many days the answers of every analysis are kept.
    pub(crate) history_days: u32,
    /// For how many days the audit log is kept.
    pub(crate) audit_days: u32,
    /// Accounts that are to be swept at once.
    pub(crate) requests: SweepRequests,
}

impl Sweeper {
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut is_overdue = false;
        let begin = async |conn: &mut Conn| kept_history::begin(conn, self.history_days).await;
        let begun = stop.run_until_cancelled(self.store.write("note_kept_history", begin)).await;
        if let Some(Err(error)) = begun {
            warn!("cannot note since when the history of answers is kept: {error}");
        }
        while stop.run_until_cancelled(self.wait(is_overdue)).await.is_some() {
            // Nothing is deleted for its age by a clock that has just jumped, or that nobody has watched yet.
            is_overdue = !self.clock.is_confirmed();
            if let Some(Err(error)) = stop.run_until_cancelled(Box::pin(self.sweep(!is_overdue))).await {
                warn!(cause = error.cause(), "cannot sweep: {error}");
            }
            self.requests.wakeup.poll_finished();
        }
    }

    async fn wait(&self, is_overdue: bool) {
        tokio::select! {
            () = self.clock.sleep(LOOK_INTERVAL) => {}
            () = self.requests.wakeup.woken() => {}
            () = self.clock.confirmed(), if is_overdue => {}
        }
    }

    /// Deletes what nobody may quote any more and, by a confirmed time, what is too old. What fails is logged and counted, and
    /// the rest is swept nevertheless; only an outage of the database ends a sweep.
    async fn sweep(&self, is_time_confirmed: bool) -> Result<()> {
        if !is_time_confirmed {
            return self.sweep_quotes().await;
        }
        while let Some(account) = self.requests.take() {
            let found = self.store.read("tenant", async |conn| tenants::find(conn, account).await).await?;
            if let Some(account) = found {
                self.sweep_account(&account, self.clock.now()).await?;
            }
        }
        let at_once = self.requests.take_all();
        let now = self.clock.now();
        let is_open = async |conn: &mut Conn| sweep_rounds::is_open(conn, now, SWEEP_INTERVAL).await;
        if at_once || self.store.read("sweep_round", is_open).await? {
            self.sweep_round(at_once).await?;
        }
        Ok(())
    }

    /// Sweeps accounts that no other process has claimed in this round, until there are none.
    async fn sweep_round(&self, mut at_once: bool) -> Result<()> {
        self.step("kept_history", None, self.note_kept_history(self.clock.now())).await?;
        // The clock may jump meanwhile.
        while self.clock.is_confirmed() {
            let now = self.clock.now();
            let claim = async |conn: &mut Conn| {
                sweep_rounds::claim(conn, now, SWEEP_INTERVAL, at_once, CLAIMED).await
            };
            let claimed = self.store.write("claim_sweep", claim).await?;
            at_once = false;
            if claimed.is_first {
                self.step("accounts", None, self.sweep_accounts(now)).await?;
                self.step("unfinished_sign_ins", None, self.record_unfinished_sign_ins(now)).await?;
                self.step("idempotency_keys", None, self.sweep_idempotency_keys(now)).await?;
                self.sweep_conditions(now).await?;
            }
            for account in &claimed.accounts {
                self.sweep_account(account, now).await?;
            }
            if claimed.is_last {
                break;
            }
        }
        Ok(())
    }

    /// Deletes the quotes of all accounts that do not keep events forever, whatever the time is.
    async fn sweep_quotes(&self) -> Result<()> {
        let limited = self.store.read("tenants_with_limited_retention", async |conn| {
            sweeper::tenants_with_limited_retention(conn).await
        });
        for tenant in limited.await? {
            self.step("samples", Some(tenant), self.sweep_samples(tenant)).await?;
        }
        Ok(())
    }

    /// Deletes what an account keeps no longer.
    async fn sweep_account(&self, account: &Tenant, now: Timestamp) -> Result<()> {
        let (is_suspended, tenant) = (account.suspended_at.is_some(), account.tenant_id);
        if account.deletion_at.is_some_and(|at| at <= now) {
            return self.step("deletion", Some(tenant), self.closure.delete_as_asked(account)).await;
        }
        if account.event_retention != EventRetention::Forever {
            self.step("samples", Some(tenant), self.sweep_samples(tenant)).await?;
        }
        if let (EventRetention::Days, Some(days)) = (account.event_retention, account.event_retention_days) {
            let days = u32::try_from(days).unwrap_or(u32::MAX);
            self.step("events", Some(tenant), self.sweep_events(tenant, now - DAY * days)).await?;
        }
        self.step("counts", Some(tenant), self.sweep_counts(tenant, now)).await?;
        self.step("answer_history", Some(tenant), self.sweep_answer_history(tenant, now)).await?;
        self.step("event_counters", Some(tenant), self.sweep_event_counters(tenant, now)).await?;
        self.step("firings", Some(tenant), self.sweep_firings(tenant, now)).await?;
        self.step("audit_log", Some(tenant), self.sweep_audit_log(tenant, now)).await?;
        self.step("key_refusals", Some(tenant), self.sweep_key_refusals(tenant, now)).await?;
        self.step("replays", Some(tenant), self.sweep_replays(tenant, now)).await?;
        self.step("reviews", Some(tenant), self.sweep_reviews(tenant, now)).await?;
        self.step("trials", Some(tenant), self.sweep_trials(tenant, now)).await?;
        self.step("labels", Some(tenant), self.sweep_labels(tenant)).await?;
        self.step("recipients", Some(tenant), self.sweep_recipients(tenant, now)).await?;
        // What waits for the end of a suspension does not age.
        if !is_suspended {
            self.step("expired_deliveries", Some(tenant), self.expiry.expire(tenant, now)).await?;
        }
        self.step("deliveries", Some(tenant), self.sweep_deliveries(tenant, now)).await?;
        self.step("bulk_runs", Some(tenant), self.sweep_bulk_runs(tenant, now)).await?;
        self.step("checkouts", Some(tenant), self.checkouts.sweep(tenant, now)).await
    }

    /// Deletes the state of conditions that no rule has any more.
    async fn sweep_conditions(&self, now: Timestamp) -> Result<()> {
        let retired = now - RETIRED_RETENTION;
        let retired = self.store.read("retired_conditions", async |conn| rules::retired(conn, retired).await);
        for (tenant, condition) in retired.await? {
            self.step("conditions", Some(tenant), self.sweep_condition(tenant, condition)).await?;
        }
        Ok(())
    }

    /// Runs one step of a sweep. If it fails or panics, that is logged and counted, and the sweep goes on. Fails only if the
    /// database does not respond: then it would not respond to the next step either.
    async fn step(
        &self,
        step: &'static str,
        tenant: Option<TenantId>,
        run: impl Future<Output = Result<()>> + Send,
    ) -> Result<()> {
        let tenant = tenant.map(|tenant| tenant.to_string());
        match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => {
                // A step that takes too long is no outage.
                if error.kind() == Kind::NotReady && self.store.ping().await.is_err() {
                    return Err(error);
                }
                error!(step, tenant, cause = error.cause(), "cannot sweep: {error}");
            }
            Err(_) => {
                error!(step, tenant, "a sweep panicked");
                count_panic("sweeper");
            }
        }
        metrics::counter!("auspex_sweep_failures_total", "step" => step).increment(1);
        Ok(())
    }

    async fn sweep_accounts(&self, now: Timestamp) -> Result<()> {
        self.store.write("sweep_sessions", async |conn: &mut Conn| sessions::sweep(conn, now).await).await?;
        self.throttle.sweep().await?;
        self.store
            .write("sweep_verdict_slots", async |conn: &mut Conn| verdict_slots::sweep(conn, now).await)
            .await?;
        Ok(())
    }

    async fn sweep_idempotency_keys(&self, now: Timestamp) -> Result<()> {
        let step = async |conn: &mut Conn| sweeper::drop_idempotency_keys(conn, now, STEP).await;
        while self.store.write("sweep_idempotency_keys", step).await? > 0 {}
        Ok(())
    }

    /// Deletes request budgets and counts that are not used any more.
    async fn sweep_counts(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        self.store
            .write("sweep_tenant", async |conn: &mut Conn| {
                rate::drop_old(conn, tenant, now - BUDGETS_RETENTION).await?;
                escalations::drop_before(conn, tenant, (now - ESCALATIONS_RETENTION).date()).await?;
                sweeper::drop_event_tallies(conn, tenant, now - COUNTS_RETENTION).await?;
                overview::drop_days(conn, tenant, (now - DAYS_RETENTION).date()).await?;
                sweeper::drop_tallies_of_deleted_signals(conn, tenant).await
            })
            .await?;
        let empty =
            self.store.read("empty_tallies", async |conn| tallies::empty(conn, tenant, STEP).await).await?;
        for tally in empty {
            self.store
                .write("sweep_tally", async |conn: &mut Conn| tallies::drop_empty(conn, tenant, &tally).await)
                .await?;
        }
        Ok(())
    }

    /// Deletes finished bulk runs that nobody can ask for: only the last backfill of a signal can be asked for.
    async fn sweep_bulk_runs(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let sweep =
            async |conn: &mut Conn| bulk_runs::drop_ended(conn, tenant, now - BULK_RUNS_RETENTION).await;
        self.store.write("sweep_bulk_runs", sweep).await?;
        Ok(())
    }

    /// Deletes old finished deliveries, those left over from deleted endpoints, and secrets that are no longer in use.
    async fn sweep_deliveries(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let step = async |conn: &mut Conn| endpoints::drop_previous_secrets(conn, tenant, now).await;
        self.store.write("sweep_previous_secrets", step).await?;
        let endpoints =
            self.store.read("webhooks", async |conn| endpoints::of_tenant(conn, tenant).await).await?;
        for endpoint in endpoints {
            let owner = (tenant, endpoint.endpoint_id);
            for (status, retention) in
                [(DeliveryStatus::Delivered, DELIVERED_RETENTION), (DeliveryStatus::Dead, DEAD_RETENTION)]
            {
                let before = now - retention;
                while self
                    .store
                    .write("sweep_deliveries", async |conn: &mut Conn| {
                        let made_before = Random::smallest_id(before);
                        deliveries::drop_ended(conn, owner, status, made_before, before, STEP).await
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

    /// Notes since when the history of answers is whole, before anything of it is swept.
    async fn note_kept_history(&self, now: Timestamp) -> Result<()> {
        let note = async |conn: &mut Conn| kept_history::note(conn, self.history_days, now).await;
        Ok(self.store.write("note_kept_history", note).await?)
    }

    /// Deletes what analyses said before the days for which it is kept.
    async fn sweep_answer_history(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - DAY * self.history_days;
        let step = async |conn: &mut Conn| answer_history::drop_before(conn, tenant, before, STEP).await;
        while self.store.write("sweep_answer_history", step).await? > 0 {}
        Ok(())
    }

    /// Deletes old lines of the audit log.
    async fn sweep_audit_log(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - DAY * self.audit_days;
        let step = async |conn: &mut Conn| audit_log::sweep(conn, tenant, before, STEP).await;
        while self.store.write("sweep_audit_log", step).await? > 0 {}
        Ok(())
    }

    /// Records sign-ins whose second factor never came, and forgets them.
    async fn record_unfinished_sign_ins(&self, now: Timestamp) -> Result<()> {
        let step = async |conn: &mut Conn| record_one_unfinished(conn, now).await;
        while self.store.write("record_unfinished_sign_in", step).await? {}
        Ok(())
    }

    /// Deletes old refused requests of keys, of which there are few.
    async fn sweep_key_refusals(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - REFUSALS_RETENTION;
        let sweep = async |conn: &mut Conn| key_refusals::drop_before(conn, tenant, before).await;
        self.store.write("sweep_key_refusals", sweep).await?;
        Ok(())
    }

    /// Deletes counters of events that are no longer kept.
    async fn sweep_event_counters(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let step = async |conn: &mut Conn| event_counters::sweep(conn, tenant, now, STEP).await;
        while self.store.write("sweep_event_counters", step).await? > 0 {}
        Ok(())
    }

    /// Deletes the labels and calibrations of signals that were deleted, or have become another question.
    async fn sweep_labels(&self, tenant: TenantId) -> Result<()> {
        let mut last = Uuid::nil();
        let next = async |last: Uuid| {
            self.store
                .read("labelled_question", async |conn: &mut Conn| {
                    let Some(signal) = labels::next_question(conn, tenant, last).await? else {
                        return Ok(None);
                    };
                    let signals = signals::of_tenant(conn, tenant).await?;
                    let exists = signals.iter().any(|existing| existing.signal_id == signal);
                    Ok::<_, Error>(Some((signal, exists)))
                })
                .await
        };
        while let Some((signal, exists)) = next(last).await? {
            // The id of a question that is gone does not come back.
            let step = async |conn: &mut Conn| labels::drop_some(conn, tenant, signal, STEP).await;
            while !exists && self.store.write("sweep_labels", step).await? > 0 {}
            last = signal;
        }
        let sweep = async |conn: &mut Conn| calibrations::drop_of_deleted(conn, tenant).await;
        self.store.write("sweep_calibrations", sweep).await?;
        Ok(())
    }

    /// Deletes old trials, and those of signals that are gone.
    async fn sweep_trials(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - TRIALS_RETENTION;
        let old = async |conn: &mut Conn| trials::superfluous(conn, tenant, before, STEP).await;
        for trial in self.store.read("superfluous_trials", old).await? {
            let delete = async |conn: &mut Conn| trials::delete(conn, tenant, trial).await;
            self.store.write("sweep_trial", delete).await?;
        }
        Ok(())
    }

    /// Forgets the labels that reviews replaced, once the reviews can no longer be reopened.
    async fn sweep_reviews(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - REOPEN_WITHIN;
        let step = async |conn: &mut Conn| reviews::forget_undo(conn, tenant, before, STEP).await;
        while self.store.write("sweep_reviews", step).await? > 0 {}
        Ok(())
    }

    /// Deletes old firings, and counts of mails from before today.
    async fn sweep_firings(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        while self
            .store
            .write("sweep_firings", async |conn: &mut Conn| {
                firings::drop_message_counts(conn, tenant, now.date()).await?;
                firings::drop_before(conn, tenant, now - FIRINGS_RETENTION, STEP).await
            })
            .await?
            > 0
        {}
        Ok(())
    }

    /// Deletes recipients of rule mails who never responded. One is asked again if a rule has another mail for it.
    async fn sweep_recipients(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let before = now - UNANSWERED_RETENTION;
        let step = async |conn: &mut Conn| recipients::drop_unanswered(conn, tenant, before, STEP).await;
        while self.store.write("sweep_recipients", step).await? > 0 {}
        Ok(())
    }

    /// Deletes old replays, of which there are few.
    async fn sweep_replays(&self, tenant: TenantId, now: Timestamp) -> Result<()> {
        let sweep = async |conn: &mut Conn| replays::drop_before(conn, tenant, now - REPLAYS_RETENTION).await;
        Ok(self.store.write("sweep_replays", sweep).await?)
    }

    /// Deletes the state of a retired condition.
    async fn sweep_condition(&self, tenant: TenantId, condition: Uuid) -> Result<()> {
        let step = async |conn: &mut Conn| rules::sweep_retired(conn, tenant, condition, STEP).await;
        while !self.store.write("sweep_condition", step).await? {}
        Ok(())
    }

    /// Deletes quotes from summaries of a tenant with limited retention, some objects at a time.
    async fn sweep_samples(&self, tenant: TenantId) -> Result<()> {
        let step = async |conn: &mut Conn| sweeper::drop_samples(conn, tenant, STEP).await;
        while self.store.write("sweep_samples", step).await? > 0 {}
        Ok(())
    }

    /// Folds and deletes events received before an instant, some objects at a time.
    async fn sweep_events(&self, tenant: TenantId, before: Timestamp) -> Result<()> {
        loop {
            let outdated = self
                .store
                .read("outdated_events", async |conn| {
                    sweeper::events_past_retention(conn, tenant, before, STEP).await
                })
                .await?;
            if outdated.is_empty() {
                return Ok(());
            }
            for (object_id, through) in outdated {
                self.store
                    .write("sweep_events", async |conn: &mut Conn| {
                        // Locked, so that events are not folded into a new object with the same id.
                        let locked = LockedObjects::lock(conn, &[(tenant, object_id.as_str())]).await?;
                        if locked.newest_seq(tenant, &object_id).is_none_or(|newest| newest < through) {
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
                            // A limited retention is for removing texts; counts are kept.
                            summary.state.sample_messages.clear();
                            concluder::put_summary(conn, tenant, &object_id, summary).await?;
                        }
                        let dropped = events::drop_through(conn, tenant, &object_id, through).await?;
                        storage::remove(conn, tenant, dropped, 0).await?;
                        Ok::<_, Error>(())
                    })
                    .await?;
            }
        }
    }
}
