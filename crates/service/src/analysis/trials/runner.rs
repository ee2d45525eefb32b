//! Runs trials: a few objects of each in turn, and only while no live analysis waits.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use analyzer::Failure;
use futures_util::FutureExt as _;
use model::api::TrialStatus;
use model::{Answer, AnswerValue, Question, SignalType, TenantId, Timestamp};
use store::analysis::jobs::{self, Priority};
use store::analysis::signals::{self, Signal};
use store::analysis::trials::{self, Trial, TrialObject};
use store::analysis::{history, signal_versions};
use store::billing::balance::{self, AnalysisCharge};
use store::billing::usage::UsageSource;
use store::{Conn, Lease, Store};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::analysis::asking::Asker;
use crate::analysis::history::{
    ObjectRequest, Prepared, read_histories, read_long_history, read_past_history,
};
use crate::analysis::questions::{QuestionSet, SignalSelection};
use crate::analysis::response::AnalyzerResponse;
use crate::billing::{Balances, Prices, Unpaid};
use crate::runtime::{Clock, Error, Kind, Random, Result, Wakeup, count_panic, internal};

/// The pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How often trials are looked for without being woken. The backstop finds those that another process has started or left behind.
const IDLE: Duration = Duration::from_mins(1);
/// The pause while live analyses wait, or the analyzer cannot be reached.
const PAUSE: Duration = Duration::from_millis(200);
/// Trials that are looked at in one round.
const TRIALS_PER_ROUND: i64 = 16;
/// Objects of a trial in one round.
const OBJECTS_PER_ROUND: i64 = 4;
/// How much longer than the calls of a round a trial is leased.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// The most events that the history of a labelled object is made again from.
const MAX_MADE_AGAIN: i64 = 2_000;
/// How often the analyzer may fail about an object before that is left without an answer.
const MAX_ATTEMPTS: i64 = 3;
/// How many processes may end while they ask about an object before that is left without an answer.
const MAX_CLAIMS: i64 = 5;
/// How long a trial is left alone whose account has no money; a credit ends that at once.
const UNPAID_PAUSE: Duration = Duration::from_secs(30);
const PRESENT: &str = "present";
const PROPOSED: &str = "proposed";

/// Runs trials. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TrialRunner {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) asker: Asker,
    pub(crate) prices: Prices,
    pub(crate) balances: Balances,
    pub(crate) unpaid: Unpaid,
    pub(crate) wakeup: Wakeup,
    /// The deadline of a call of the analyzer.
    pub(crate) analyzer_timeout: Duration,
}

/// What became of an object.
enum ObjectOutcome {
    /// It is done, or the attempt has failed and counts.
    Done,
    /// The analyzer cannot be asked now, which says nothing about the object.
    AnalyzerBusy,
}

impl TrialRunner {
    pub(crate) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let pause = match AssertUnwindSafe(self.round(&stop)).catch_unwind().await {
                Ok(Ok(pause)) => pause,
                Ok(Err(error)) => {
                    warn!(cause = error.cause(), "cannot run trials: {error}");
                    Some(AFTER_FAILURE)
                }
                Err(_) => {
                    count_panic("trials");
                    Some(AFTER_FAILURE)
                }
            };
            let Some(pause) = pause else { continue };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wakeup.woken() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// Asks about a few objects of each trial; returns how long to wait for the next round, if at all.
    async fn round(&self, stop: &CancellationToken) -> Result<Option<Duration>> {
        let now = self.clock.now();
        let (found, is_busy) = self
            .store
            .read("next_trials", async |conn: &mut Conn| {
                let found = trials::unleased(conn, now, TRIALS_PER_ROUND).await?;
                let is_busy =
                    !found.is_empty() && jobs::next_tenant(conn, Priority::Live, None, now).await?.is_some();
                Ok::<_, Error>((found, is_busy))
            })
            .await?;
        if found.is_empty() {
            return Ok(Some(IDLE));
        }
        if is_busy {
            return Ok(Some(PAUSE));
        }
        let mut pause = None;
        for trial in &found {
            if stop.is_cancelled() {
                break;
            }
            match self.advance(trial, stop).await {
                Ok(true) => {}
                Ok(false) => pause = Some(PAUSE),
                Err(error) => {
                    error!(cause = error.cause(), trial = %trial.trial_id, "cannot advance a trial: {error}");
                    pause = Some(AFTER_FAILURE);
                }
            }
        }
        Ok(pause)
    }

    /// Asks about the next objects of a trial, or ends it; returns whether it can go on at once.
    async fn advance(&self, trial: &Trial, stop: &CancellationToken) -> Result<bool> {
        let now = self.clock.now();
        let calls = u32::try_from(OBJECTS_PER_ROUND).unwrap_or(u32::MAX);
        let until = now + self.analyzer_timeout * calls + LEASE_MARGIN;
        let lease = Lease { token: self.random.id(now), until };
        let tenant = trial.tenant_id;
        let claim = async |conn: &mut Conn| self.claim(conn, trial, lease, now).await;
        let Some(objects) = self.store.write("claim_trial", claim).await? else { return Ok(false) };
        if objects.is_empty() {
            let end = async |conn: &mut Conn| {
                trials::end(conn, tenant, trial.trial_id, TrialStatus::Done, self.clock.now()).await
            };
            self.store.write("end_trial", end).await?;
            return Ok(true);
        }
        let mut unasked = objects.as_slice();
        let asked = stop.run_until_cancelled(self.ask_all(trial, &mut unasked)).await;
        let release = async |conn: &mut Conn| trials::release(conn, trial, lease.token, unasked).await;
        self.store.write("release_trial", release).await?;
        asked.unwrap_or(Ok(false))
    }

    /// Leases a trial, and counts a claim of each object that is asked about next: none are left if all are done. Nothing is
    /// leased if its account cannot pay, or another process was faster.
    async fn claim(
        &self,
        conn: &mut Conn,
        trial: &Trial,
        lease: Lease,
        now: Timestamp,
    ) -> Result<Option<Vec<TrialObject>>> {
        let tenant = trial.tenant_id;
        if self.unpaid.blocks && !balance::empty_balances(conn, &BTreeSet::from([tenant])).await?.is_empty() {
            // Under the lock of the balance: a concurrent credit lets go on what is put off here.
            if balance::lock_balance(conn, tenant).await? <= 0 {
                trials::put_off(conn, trial, now + UNPAID_PAUSE, now).await?;
                return Ok(None);
            }
        }
        if !trials::claim(conn, trial, lease, now).await? {
            return Ok(None);
        }
        let given_up = trials::give_up(conn, trial, MAX_CLAIMS).await?;
        if given_up > 0 {
            error!(trial = %trial.trial_id, %tenant, given_up, "objects of a trial were given up: every process that asked ended");
        }
        let mut objects = trials::open_objects(conn, tenant, trial.trial_id, OBJECTS_PER_ROUND).await?;
        // What may have ended its process is asked about alone, so that no other object is given up with it.
        if let Some(suspect) = objects.iter().position(|object| object.attempts > 0) {
            objects = vec![objects.swap_remove(suspect)];
        }
        trials::begin(conn, trial, &objects).await?;
        Ok(Some(objects))
    }

    /// Asks about objects in turn, and removes each from those given once it is done.
    async fn ask_all(&self, trial: &Trial, unasked: &mut &[TrialObject]) -> Result<bool> {
        let Some(signal) = self.compared_signal(trial).await? else {
            // The signal is gone, and its trials with it.
            let end = async |conn: &mut Conn| {
                let (tenant, now) = (trial.tenant_id, self.clock.now());
                trials::end(conn, tenant, trial.trial_id, TrialStatus::Cancelled, now).await
            };
            self.store.write("end_trial", end).await?;
            return Ok(true);
        };
        while let Some((object, rest)) = unasked.split_first() {
            let is_running = async |conn: &mut Conn| trials::is_running(conn, trial).await;
            if !self.store.read("is_trial_running", is_running).await? {
                // It was cancelled meanwhile.
                return Ok(true);
            }
            match self.ask(trial, &signal, object).await {
                Ok(ObjectOutcome::Done) => {}
                Ok(ObjectOutcome::AnalyzerBusy) => return Ok(false),
                Err(error) if error.kind() == Kind::NotReady => return Err(error),
                Err(error) => {
                    let object_id = &object.object_id;
                    error!(cause = error.cause(), trial = %trial.trial_id, object_id, "cannot ask about an object: {error}");
                    self.fail(trial, object, MAX_ATTEMPTS).await?;
                }
            }
            *unasked = rest;
        }
        Ok(true)
    }

    /// The signal as it was worded when the trial was started.
    async fn compared_signal(&self, trial: &Trial) -> Result<Option<Signal>> {
        let tenant = trial.tenant_id;
        self.store
            .read("compared_signal", async |conn: &mut Conn| {
                let all = signals::of_tenant(conn, tenant).await?;
                let Some(signal) = all.into_iter().find(|signal| signal.signal_id == trial.signal_id) else {
                    return Ok(None);
                };
                let version = signal_versions::find(conn, tenant, &signal.key, trial.version).await?;
                Ok::<_, Error>(Some(match version {
                    Some(version) => Signal {
                        instructions: version.instructions,
                        criteria: version.criteria,
                        calibration_id: version.calibration_id,
                        version: version.version,
                        ..signal
                    },
                    None => signal,
                }))
            })
            .await
    }

    /// Asks both wordings about an object in one call, and records and charges what comes back in one transaction.
    async fn ask(&self, trial: &Trial, signal: &Signal, object: &TrialObject) -> Result<ObjectOutcome> {
        let questions = [
            present_question(signal)?,
            proposed_question(signal.kind, &trial.instructions, trial.criteria.as_deref())?,
        ];
        let state = read_states(&self.store, trial.tenant_id, signal, &[object]).await?.pop().flatten();
        let Some(state) = state else {
            return self.fail(trial, object, 1).await;
        };
        match self.asker.inquire(trial.tenant_id, &state, &questions, None).await {
            Ok(response) => {
                self.record(trial, signal, object, &response).await?;
                Ok(ObjectOutcome::Done)
            }
            Err(Failure::Throttled { .. } | Failure::Busy | Failure::Down(_)) => {
                Ok(ObjectOutcome::AnalyzerBusy)
            }
            Err(Failure::Failed(_) | Failure::OutOfTime | Failure::CallerLeft) => {
                self.fail(trial, object, MAX_ATTEMPTS).await
            }
        }
    }

    async fn fail(&self, trial: &Trial, object: &TrialObject, max_attempts: i64) -> Result<ObjectOutcome> {
        let fail = async |conn: &mut Conn| trials::fail(conn, trial, &object.object_id, max_attempts).await;
        self.store.write("fail_trial_object", fail).await?;
        Ok(ObjectOutcome::Done)
    }

    async fn record(
        &self,
        trial: &Trial,
        signal: &Signal,
        object: &TrialObject,
        response: &AnalyzerResponse,
    ) -> Result<()> {
        let calibrated = self.calibrated(trial.tenant_id, signal, response).await?;
        let find = |answers: &[Answer], key: &str| {
            answers.iter().find(|answer| answer.signal == key).map(|answer| answer.value.clone())
        };
        let json = |value: Option<AnswerValue>| {
            value.map(|value| serde_json::to_string(&value)).transpose().map_err(internal)
        };
        let present = json(find(&calibrated, PRESENT))?;
        let proposed = json(find(&response.answers, PROPOSED))?;
        let now = self.clock.now();
        let charge = self.charge(trial, signal, object, response);
        let shard = self.random.shard();
        let mails = self
            .store
            .write("record_trial_object", async |conn: &mut Conn| {
                let answers = (present.as_deref(), proposed.as_deref());
                let billed = if self.prices.metering { charge.micros } else { 0 };
                if !trials::record(conn, trial, &object.object_id, answers, billed).await? {
                    // Another process has, and has charged it; or the trial was cancelled, or the object is gone.
                    return Ok(false);
                }
                let charges = std::slice::from_ref(&charge);
                let mut batch = conn.batch();
                balance::count_usage(&mut batch, charges, self.prices.metering, now.date(), shard);
                batch.run(conn).await?;
                let mut mails = false;
                if self.prices.metering {
                    for account in balance::charge(conn, charges, now).await? {
                        if !account.low_mailed {
                            mails |=
                                self.balances.warn_if_low(conn, account.tenant, account.after_micros).await?;
                        }
                    }
                }
                Ok::<_, Error>(mails)
            })
            .await?;
        if mails {
            self.balances.notifications.mailer.wake();
        }
        Ok(())
    }

    /// The answers, that to the present wording calibrated as the signal was.
    async fn calibrated(
        &self,
        tenant: TenantId,
        signal: &Signal,
        response: &AnalyzerResponse,
    ) -> Result<Vec<Answer>> {
        let signal = Signal { key: PRESENT.to_owned(), enabled: true, ..signal.clone() };
        let set = self
            .store
            .read("calibration", async |conn: &mut Conn| {
                QuestionSet::read(conn, tenant, std::slice::from_ref(&signal)).await
            })
            .await?;
        Ok(set.calibrated(response.answers.clone()))
    }

    fn charge<'a>(
        &self,
        trial: &Trial,
        signal: &'a Signal,
        object: &'a TrialObject,
        response: &'a AnalyzerResponse,
    ) -> AnalysisCharge<'a> {
        let charge = self.prices.charge(&response.model, response.input_tokens, response.output_tokens);
        AnalysisCharge {
            tenant: trial.tenant_id,
            entry_id: self.random.id(self.clock.now()),
            micros: charge.micros,
            cost_usd: charge.cost_usd(),
            cost_margin: charge.cost_margin(),
            model: &response.model,
            object_id: Some(&object.object_id),
            input_tokens: i64::try_from(response.input_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(response.output_tokens).unwrap_or(i64::MAX),
            batch_id: Some(trial.trial_id),
            source: UsageSource::Async,
            is_second_stage: false,
            signal_keys: vec![signal.key.as_str()],
        }
    }
}

/// The present wording as a question.
pub(super) fn present_question(signal: &Signal) -> Result<Question> {
    Question::parse(PRESENT, signal.kind, &signal.instructions, signal.criteria.as_deref()).map_err(internal)
}

/// The proposed wording as a question.
pub(super) fn proposed_question(
    kind: SignalType,
    instructions: &str,
    criteria: Option<&str>,
) -> Result<Question> {
    Question::parse(PROPOSED, kind, instructions, criteria).map_err(internal)
}

/// The objects whose summaries have passed what is to be read of them, and whether their histories can be made again.
pub(super) async fn passed(
    conn: &mut Conn,
    tenant: TenantId,
    objects: &[&TrialObject],
) -> Result<HashMap<String, bool>> {
    let wanted: Vec<(&str, i64)> =
        objects.iter().filter_map(|object| Some((object.object_id.as_str(), object.through?))).collect();
    let passed = history::passed(conn, tenant, &wanted, MAX_MADE_AGAIN).await?;
    Ok(passed.into_iter().map(|object| (object.object_id, object.can_be_made_again)).collect())
}

/// The histories of objects as the analyzer reads them; none where the object is gone, or what stood when it was labelled.
pub(super) async fn read_states(
    store: &Store,
    tenant: TenantId,
    signal: &Signal,
    objects: &[&TrialObject],
) -> Result<Vec<Option<String>>> {
    let signal = Signal { enabled: true, ..signal.clone() };
    store
        .snapshot("read_histories", async |conn: &mut Conn| {
            let questions = Arc::new(QuestionSet::read(conn, tenant, std::slice::from_ref(&signal)).await?);
            let requests: Vec<ObjectRequest<'_>> = objects
                .iter()
                .map(|object| ObjectRequest {
                    tenant,
                    object_id: &object.object_id,
                    selection: SignalSelection::All,
                    through: object.through,
                })
                .collect();
            let past = passed(conn, tenant, objects).await?;
            let read = read_histories(conn, &requests, vec![Arc::clone(&questions); requests.len()]).await?;
            let mut states = Vec::with_capacity(requests.len());
            for (request, prepared) in requests.iter().zip(read) {
                let prepared = match (past.get(request.object_id), prepared) {
                    (_, Prepared::Gone) | (Some(false), _) => Prepared::Gone,
                    (Some(true), _) => read_past_history(conn, request, Arc::clone(&questions)).await?,
                    (None, Prepared::Long) => {
                        read_long_history(conn, request, Arc::clone(&questions)).await?
                    }
                    (None, prepared) => prepared,
                };
                states.push(match prepared {
                    Prepared::Ready(input) => Some(input.state),
                    Prepared::NoQuestions | Prepared::Gone | Prepared::Long => None,
                });
            }
            Ok(states)
        })
        .await
}
