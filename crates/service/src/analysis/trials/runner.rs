//! Runs trials: a few objects of each in turn, and only while no live analysis waits.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use analyzer::Failure;
use futures_util::FutureExt as _;
use model::api::TrialStatus;
use model::{Answer, Judgement, Question, SignalType, TenantId};
use store::analysis::jobs::{self, Priority};
use store::analysis::signal_versions;
use store::analysis::signals::{self, Signal};
use store::analysis::trials::{self, Trial, TrialObject};
use store::billing::balance::{self, AnalysisCharge};
use store::billing::usage::UsageSource;
use store::{Conn, Lease, Store};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::analysis::asking::{AnalyzerResponse, Asker};
use crate::analysis::history::read_input;
use crate::analysis::questions::QuestionSet;
use crate::billing::{Balances, Prices, Unpaid};
use crate::runtime::{Clock, Error, Random, Result, Wakeup, count_panic, internal};

/// How often trials are looked for without being woken: those that another process started or left behind.
const POLL: Duration = Duration::from_secs(1);
/// The pause while live analyses wait, or the analyzer cannot be reached.
const PAUSE: Duration = Duration::from_millis(200);
/// Trials that are looked at in one round.
const TRIALS_PER_ROUND: i64 = 16;
/// Objects of a trial in one round.
const OBJECTS_PER_ROUND: i64 = 4;
/// How much longer than the calls of a round a trial is leased.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// How often an object is asked about before it is left without an answer.
const MAX_ATTEMPTS: i64 = 3;
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
enum Asked {
    /// It is done, or counted as an attempt in vain.
    Settled,
    /// The analyzer has no time now.
    Later,
}

impl TrialRunner {
    pub(crate) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let round = stop.run_until_cancelled(AssertUnwindSafe(self.round()).catch_unwind()).await;
            let pause = match round {
                None => return,
                Some(Ok(Ok(pause))) => pause,
                Some(Ok(Err(error))) => {
                    warn!(cause = error.cause(), "cannot run trials: {error}");
                    Some(POLL)
                }
                Some(Err(_)) => {
                    count_panic("trials");
                    Some(POLL)
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
    async fn round(&self) -> Result<Option<Duration>> {
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
            return Ok(Some(POLL));
        }
        if is_busy {
            return Ok(Some(PAUSE));
        }
        let mut pause = None;
        for trial in &found {
            match self.advance(trial).await {
                Ok(true) => {}
                Ok(false) => pause = Some(PAUSE),
                Err(error) => {
                    error!(cause = error.cause(), trial = %trial.trial_id, "cannot advance a trial: {error}");
                    pause = Some(POLL);
                }
            }
        }
        Ok(pause)
    }

    /// Asks about the next objects of a trial, or ends it; returns whether it can go on at once.
    async fn advance(&self, trial: &Trial) -> Result<bool> {
        let now = self.clock.now();
        let calls = u32::try_from(OBJECTS_PER_ROUND).unwrap_or(u32::MAX);
        let until = now + self.analyzer_timeout * calls + LEASE_MARGIN;
        let lease = Lease { token: self.random.id(now), until };
        let tenant = trial.tenant_id;
        let claimed = self
            .store
            .write("claim_trial", async |conn: &mut Conn| {
                if self.unpaid.blocks {
                    let broke = balance::empty_balances(conn, &BTreeSet::from([tenant])).await?;
                    if !broke.is_empty() {
                        return Ok(None);
                    }
                }
                if !trials::claim(conn, trial, lease, now).await? {
                    return Ok(None);
                }
                Ok::<_, Error>(Some(
                    trials::open_objects(conn, tenant, trial.trial_id, OBJECTS_PER_ROUND).await?,
                ))
            })
            .await?;
        let Some(objects) = claimed else { return Ok(false) };
        if objects.is_empty() {
            let end = async |conn: &mut Conn| {
                trials::end(conn, tenant, trial.trial_id, TrialStatus::Done, self.clock.now()).await
            };
            self.store.write("end_trial", end).await?;
            return Ok(true);
        }
        let asked = self.ask_all(trial, &objects).await;
        let release = async |conn: &mut Conn| trials::release(conn, trial, lease.token).await;
        self.store.write("release_trial", release).await?;
        asked
    }

    async fn ask_all(&self, trial: &Trial, objects: &[TrialObject]) -> Result<bool> {
        let Some(signal) = self.compared_signal(trial).await? else {
            // The signal is gone, and its trials with it.
            let end = async |conn: &mut Conn| {
                let (tenant, now) = (trial.tenant_id, self.clock.now());
                trials::end(conn, tenant, trial.trial_id, TrialStatus::Cancelled, now).await
            };
            self.store.write("end_trial", end).await?;
            return Ok(true);
        };
        for object in objects {
            if let Asked::Later = self.ask(trial, &signal, object).await? {
                return Ok(false);
            }
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
    async fn ask(&self, trial: &Trial, signal: &Signal, object: &TrialObject) -> Result<Asked> {
        let questions = [
            present_question(signal)?,
            proposed_question(signal.kind, &trial.instructions, trial.criteria.as_deref())?,
        ];
        let Some(state) = read_state(&self.store, trial.tenant_id, signal, object).await? else {
            return self.fail(trial, object, 1).await;
        };
        match self.asker.inquire(trial.tenant_id, &state, &questions, None).await {
            Ok(response) => {
                self.record(trial, signal, object, &response).await?;
                Ok(Asked::Settled)
            }
            Err(Failure::Throttled { .. } | Failure::Busy | Failure::Down(_)) => Ok(Asked::Later),
            Err(Failure::Failed(_) | Failure::OutOfTime | Failure::CallerLeft) => {
                self.fail(trial, object, MAX_ATTEMPTS).await
            }
        }
    }

    async fn fail(&self, trial: &Trial, object: &TrialObject, max_attempts: i64) -> Result<Asked> {
        let fail = async |conn: &mut Conn| trials::fail(conn, trial, &object.object_id, max_attempts).await;
        self.store.write("fail_trial_object", fail).await?;
        Ok(Asked::Settled)
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
            answers.iter().find(|answer| answer.signal == key).map(|answer| answer.judgement.clone())
        };
        let json = |judgement: Option<Judgement>| {
            judgement.map(|judgement| serde_json::to_string(&judgement)).transpose().map_err(internal)
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
                    // Another process has, and has charged it; or the object is gone.
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

/// The history of an object as the analyzer reads it; none if the object is gone.
pub(super) async fn read_state(
    store: &Store,
    tenant: TenantId,
    signal: &Signal,
    object: &TrialObject,
) -> Result<Option<String>> {
    let signal = Signal { enabled: true, ..signal.clone() };
    store
        .snapshot("read_history", async |conn: &mut Conn| {
            let questions = QuestionSet::read(conn, tenant, std::slice::from_ref(&signal)).await?;
            let input =
                read_input(conn, tenant, &object.object_id, object.through, Arc::new(questions)).await?;
            Ok(input.map(|input| input.state))
        })
        .await
}
