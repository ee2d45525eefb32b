//! The concluder: one writer that commits finished analyses whenever it is free, taking all that wait. Everything that
//! follows from an analysis is written in that one transaction: answers, counts, summary, job, what rules and webhooks
//! make of it, and the charge.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use model::{Answer, Judgement, TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use store::analyses::{self, Locked, NewAnswer, NewAnswers};
use store::jobs::{self, Covered, Held};
use store::ledger::{self, AnalysisCharge};
use store::signals::Signal;
use store::{Backend, Conn};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::analysis::Found;
use crate::concluded::{Concluded, Consequences};
use crate::histories::History;
use crate::{Error, Kind, Result, Service, Traces, internal};

/// Analyses that may wait for the writer; past that, workers wait to get in.
const QUEUE: usize = 1_024;
/// Analyses in one commit.
const MAX_ANALYSES: usize = 256;
/// Writers beside each other on PostgreSQL: tenants are spread over them, so that waiting for the balance of a busy one
/// holds up only its share.
const POSTGRES_LANES: usize = 4;

/// An analysis that has been done.
pub(crate) struct Conclusion {
    pub(crate) tenant: TenantId,
    pub(crate) found: Found,
    /// The object whose answers these are; none for a playground.
    pub(crate) about: Option<About>,
    /// The job that asked; none when a caller waits.
    pub(crate) job: Option<HeldJob>,
    /// The version of the queued job that a verdict makes needless.
    pub(crate) covers: Option<i64>,
    /// Whether the questions are the tenant's signals; a caller's own are not counted by name.
    pub(crate) asks_signals: bool,
}

/// What an analysis was about.
pub(crate) struct About {
    pub(crate) object_id: String,
    pub(crate) read: History,
}

/// The job that a worker holds.
#[derive(Clone, Copy)]
pub(crate) struct HeldJob {
    pub(crate) token: Uuid,
    pub(crate) until: Timestamp,
    pub(crate) version: i64,
    pub(crate) bulk_run_id: Option<Uuid>,
}

/// What became of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is written.
    Written,
    /// Its object is gone: it is only charged.
    Gone,
    /// The worker was replaced while it waited: nothing of it counts.
    Late,
}

/// Hands finished analyses to the writers.
pub(crate) struct Concluder {
    lanes: Vec<mpsc::Sender<Waiting>>,
    traces: Traces,
    hasher: RandomState,
}

struct Waiting {
    conclusion: Arc<Conclusion>,
    caller: oneshot::Sender<Result<Outcome>>,
}

/// The receiving ends, until their writers start.
pub(crate) struct Lanes(Vec<mpsc::Receiver<Waiting>>);

impl Concluder {
    pub(crate) fn new(backend: Backend, traces: Traces) -> (Self, Lanes) {
        let lanes = if backend == Backend::Sqlite { 1 } else { POSTGRES_LANES };
        let (senders, receivers) = (0..lanes).map(|_| mpsc::channel(QUEUE)).unzip();
        (Self { lanes: senders, traces, hasher: RandomState::new() }, Lanes(receivers))
    }

    /// Writes what follows from an analysis, and returns what became of it once that is durable.
    pub(crate) async fn conclude(&self, conclusion: Arc<Conclusion>) -> Result<Outcome> {
        self.hand_over(conclusion).await?.await
    }

    /// Hands an analysis over as soon as there is room, and returns what to wait for.
    pub(crate) async fn hand_over(
        &self,
        conclusion: Arc<Conclusion>,
    ) -> Result<impl Future<Output = Result<Outcome>>> {
        let (caller, answer) = oneshot::channel();
        let stopping = || Error::new(Kind::NotReady, "the service is stopping");
        let step = self.traces.part("conclude", SpanKind::Internal);
        let hash = self.hasher.hash_one(conclusion.tenant) % self.lanes.len() as u64;
        let lane = &self.lanes[usize::try_from(hash).unwrap_or(0)];
        lane.send(Waiting { conclusion, caller }).await.map_err(|_| stopping())?;
        Ok(async move {
            let written = answer.await.map_err(|_| stopping())?;
            drop(step);
            written
        })
    }
}

impl Lanes {
    /// Starts the writers.
    pub(crate) fn start(self, service: &Arc<Service>) {
        for lane in self.0 {
            let service = Arc::clone(service);
            service.workers.clone().start_writer(|stop| service.conclude_all(lane, stop));
        }
    }
}

impl Service {
    async fn conclude_all(self: Arc<Self>, mut waiting: mpsc::Receiver<Waiting>, stop: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = waiting.recv_many(&mut batch, MAX_ANALYSES) => received,
                () = stop.cancelled(), if !waiting.is_closed() => {
                    waiting.close();
                    continue;
                }
            };
            if received == 0 {
                return;
            }
            while !batch.is_empty() {
                let rest = batch.split_off(distinct(&batch));
                self.commit_conclusions(std::mem::replace(&mut batch, rest)).await;
            }
        }
    }

    async fn commit_conclusions(&self, batch: Vec<Waiting>) {
        let (conclusions, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.conclusion, waiting.caller)).unzip();
        #[expect(clippy::cast_precision_loss, reason = "at most a few hundred")]
        metrics::histogram!("auspex_concluder_batch_analyses").record(conclusions.len() as f64);
        match self.write_conclusions(&conclusions).await {
            Ok(outcomes) => {
                for (caller, outcome) in callers.into_iter().zip(outcomes) {
                    let _ = caller.send(Ok(outcome));
                }
            }
            // Whether the commit arrived is not known where the database is gone: to try again could charge twice.
            Err(error) if error.kind() == Kind::NotReady => {
                tracing::warn!(cause = error.cause(), "analyses could not be written: {error}");
                for caller in callers {
                    let _ = caller.send(Err(Error::new(Kind::NotReady, "the database does not answer")));
                }
            }
            // One analysis that cannot be written harms no other: each is tried alone.
            Err(_) if conclusions.len() > 1 => {
                for (conclusion, caller) in conclusions.iter().zip(callers) {
                    let outcome = self.write_conclusions(std::slice::from_ref(conclusion)).await;
                    let outcome = outcome
                        .and_then(|outcomes| outcomes.first().copied().ok_or_else(|| internal("no outcome")));
                    let _ = caller.send(outcome);
                }
            }
            Err(error) => {
                if let Some(caller) = callers.into_iter().next() {
                    let _ = caller.send(Err(error));
                }
            }
        }
    }

    /// A panic over one analysis must not end the writer for all.
    async fn write_conclusions(&self, batch: &[Arc<Conclusion>]) -> Result<Vec<Outcome>> {
        let written = AssertUnwindSafe(self.try_write_conclusions(batch)).catch_unwind().await;
        written.unwrap_or_else(|_| Err(internal("writing analyses panicked")))
    }

    async fn try_write_conclusions(&self, batch: &[Arc<Conclusion>]) -> Result<Vec<Outcome>> {
        // Before as well as after: whoever sees the commit must not be shown what was remembered before it.
        self.forget_objects(batch);
        let (outcomes, consequences) =
            self.store.write("conclude", async |conn: &mut Conn| self.write_batch(conn, batch).await).await?;
        self.forget_objects(batch);
        self.follow_up(&consequences);
        Ok(outcomes)
    }

    fn forget_objects(&self, batch: &[Arc<Conclusion>]) {
        for (tenant, object_id) in objects(batch) {
            self.cache.forget(tenant, object_id);
        }
    }

    async fn write_batch(
        &self,
        conn: &mut Conn,
        batch: &[Arc<Conclusion>],
    ) -> Result<(Vec<Outcome>, Consequences)> {
        let now = self.clock.now();
        let shard = self.random.shard();
        // Objects before jobs, as recording does: the other way round the two could wait for each other.
        let locked = analyses::lock(conn, &objects(batch)).await?;
        let outcomes = self.outcomes(conn, batch, &locked, now).await?;
        let with = |outcome: Outcome| {
            batch
                .iter()
                .zip(&outcomes)
                .filter(move |(_, is)| **is == outcome)
                .map(|(conclusion, _)| &**conclusion)
        };
        let new: Vec<NewAnswers<'_>> =
            with(Outcome::Written).filter_map(|conclusion| new_answers(conclusion, now)).collect();
        analyses::put_answers(conn, &locked, &new, shard).await?;
        for (tenant, about) in with(Outcome::Written)
            .filter_map(|conclusion| Some((conclusion.tenant, conclusion.about.as_ref()?)))
        {
            if let Some(summary) = &about.read.folded {
                analyses::put_summary(conn, tenant, &about.object_id, summary).await?;
            }
            if about.read.drop_events {
                analyses::drop_events(conn, tenant, &about.object_id, about.read.read_seq).await?;
            }
        }
        let held: Vec<Held<'_>> = with(Outcome::Written).filter_map(held_job).collect();
        jobs::finish(conn, &held).await?;
        let covered: Vec<Covered<'_>> =
            with(Outcome::Written).filter_map(|conclusion| covered_job(conclusion, &locked)).collect();
        jobs::clear_covered(conn, &covered).await?;
        let concluded: Vec<Concluded<'_>> =
            with(Outcome::Written).filter_map(|conclusion| concluded(conclusion, now)).collect();
        let mut consequences = Consequences::default();
        self.announce_analyses(conn, &concluded, &mut consequences).await?;
        self.apply_rules(conn, &concluded, &mut consequences).await?;
        // What was asked is paid, also when the object has gone meanwhile.
        let paid = batch.iter().zip(&outcomes).filter(|(_, outcome)| **outcome != Outcome::Late);
        let charges: Vec<AnalysisCharge<'_>> =
            paid.map(|(conclusion, _)| self.charge_for(conclusion, now)).collect();
        for account in ledger::charge(conn, &charges, self.options.metering, now, shard).await? {
            consequences.mails |=
                self.warn_of_low_balance(conn, account.tenant, account.after_micros).await?;
        }
        Ok((outcomes, consequences))
    }

    /// Which analyses still count, while their objects are locked.
    async fn outcomes(
        &self,
        conn: &mut Conn,
        batch: &[Arc<Conclusion>],
        locked: &Locked,
        now: Timestamp,
    ) -> Result<Vec<Outcome>> {
        let held: Vec<Held<'_>> = batch.iter().filter_map(|conclusion| held_job(conclusion)).collect();
        let mut still_held = jobs::still_held(conn, &held).await?.into_iter();
        let outcome = |conclusion: &Arc<Conclusion>| {
            let is_held = conclusion.job.map(|job| (job, still_held.next().unwrap_or(false)));
            let is_there = conclusion.about.as_ref().is_none_or(|About { object_id, read }| {
                locked.has(conclusion.tenant, object_id, read.since, read.read_seq)
            });
            match (is_held, is_there) {
                (None | Some((_, true)), true) => Outcome::Written,
                (None | Some((_, true)), false) => Outcome::Gone,
                // While a lease lasts nobody else takes the job: it went with its object.
                (Some((job, false)), false) if now < job.until => Outcome::Gone,
                (Some((_, false)), _) => Outcome::Late,
            }
        };
        Ok(batch.iter().map(outcome).collect())
    }

    fn charge_for<'a>(&self, conclusion: &'a Conclusion, now: Timestamp) -> AnalysisCharge<'a> {
        let found = &conclusion.found;
        let answered = found.answers.iter().filter(|_| conclusion.asks_signals);
        let charge = self.options.tariff_of(&found.model).charge(found.input_tokens, found.output_tokens);
        AnalysisCharge {
            tenant: conclusion.tenant,
            entry_id: self.random.id(now),
            micros: charge.micros,
            cost_usd: charge.cost_usd(),
            cost_margin: charge.cost_margin(),
            model: &found.model,
            object_id: conclusion.about.as_ref().map(|about| about.object_id.as_str()),
            input_tokens: i64::try_from(found.input_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(found.output_tokens).unwrap_or(i64::MAX),
            batch_id: conclusion.job.and_then(|job| job.bulk_run_id),
            is_sync: conclusion.job.is_none(),
            signal_keys: answered.map(|answer| answer.signal.as_str()).collect(),
        }
    }
}

/// How many of the waiting go into one commit: an object is there once.
fn distinct(batch: &[Waiting]) -> usize {
    let mut seen = HashSet::new();
    let fits = batch.iter().take_while(|Waiting { conclusion, .. }| {
        let about = conclusion.about.as_ref();
        about.is_none_or(|about| seen.insert((conclusion.tenant, about.object_id.as_str())))
    });
    fits.count()
}

fn objects(batch: &[Arc<Conclusion>]) -> Vec<(TenantId, &str)> {
    batch
        .iter()
        .filter_map(|conclusion| Some((conclusion.tenant, conclusion.about.as_ref()?.object_id.as_str())))
        .collect()
}

fn held_job(conclusion: &Conclusion) -> Option<Held<'_>> {
    let (job, about) = (conclusion.job?, conclusion.about.as_ref()?);
    let (tenant, object_id) = (conclusion.tenant, about.object_id.as_str());
    Some(Held { tenant, object_id, token: job.token, version: job.version })
}

/// The job that a verdict makes needless, unless events came since.
fn covered_job<'a>(conclusion: &'a Conclusion, locked: &Locked) -> Option<Covered<'a>> {
    let (version, about) = (conclusion.covers?, conclusion.about.as_ref()?);
    let (tenant, object_id) = (conclusion.tenant, about.object_id.as_str());
    let is_newest = locked.newest_seq(tenant, object_id) == Some(about.read.read_seq);
    is_newest.then_some(Covered { tenant, object_id, version })
}

/// What rules and webhooks go by.
fn concluded(conclusion: &Conclusion, now: Timestamp) -> Option<Concluded<'_>> {
    let about = conclusion.about.as_ref()?;
    Some(Concluded {
        tenant: conclusion.tenant,
        object_id: &about.object_id,
        found: &conclusion.found.answers,
        model: &conclusion.found.model,
        is_sync: conclusion.job.is_none(),
        at: now,
        traceparent: conclusion.found.traceparent.as_deref(),
    })
}

fn new_answers(conclusion: &Conclusion, now: Timestamp) -> Option<NewAnswers<'_>> {
    let about = conclusion.about.as_ref()?;
    let kept = conclusion.found.answers.iter().filter_map(|answer| kept(answer, &about.read.asked.signals));
    Some(NewAnswers {
        tenant: conclusion.tenant,
        object_id: &about.object_id,
        answers: kept.collect(),
        model: &conclusion.found.model,
        read_seq: about.read.read_seq,
        now,
    })
}

fn kept(answer: &Answer, signals: &[Signal]) -> Option<NewAnswer> {
    let signal = signals.iter().find(|signal| signal.key == answer.signal)?;
    let Judgement { noul, choice, probabilities, confidence, .. } = &answer.judgement;
    Some(NewAnswer {
        signal_id: signal.signal_id,
        is_noul: noul.is_some(),
        value: answer.judgement.value(),
        choice: choice.clone(),
        // Names and finite numbers: there is nothing that JSON cannot write.
        probabilities: probabilities.as_ref().and_then(|shares| serde_json::to_string(shares).ok()),
        confidence: *confidence,
    })
}
