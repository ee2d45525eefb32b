//! The concluder: group writers for finished analyses. Everything that an analysis leads to is written in one
//! transaction: answers, their history, counts, ranks, summary, the job, firings, deliveries, the charge and the usage.
//! Callers continue once the commit is durable.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use model::api::AnalysisSource;
use model::recorded_answer::{analysis_id, encode};
use model::{Answer, AnswerValue, Charge, FirstAnswer, TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use store::analysis::answer_history::{self, NewAnalysis};
use store::analysis::concluder::{self, LockedObjects, NewAnswer, NewAnswers};
use store::analysis::jobs::{self, CoveredJob, JobLease};
use store::analysis::signals::Signal;
use store::analysis::storage::StorageChanges;
use store::analysis::verdict_slots;
use store::billing::balance::{self, AnalysisCharge};
use store::billing::usage::UsageSource;
use store::objects::events;
use store::{Batch, Conn, Lease, LockWait, Store};
use uuid::Uuid;

use crate::actions::{Announcements, ConcludedAnalysis, Effects};
use crate::analysis::history::AnalysisInput;
use crate::analysis::response::AnalyzerResponse;
use crate::billing::{Balances, Prices};
use crate::objects::ObjectCache;
use crate::runtime::group_writer::{Group, GroupWriter};
use crate::runtime::{Clock, Random, Result, Traces, Workers};

/// The length of a writer's queue; when it is full, callers wait for room.
const QUEUE: usize = 1_024;

/// A finished analysis, to be written.
pub(crate) struct Conclusion {
    pub(crate) tenant: TenantId,
    pub(crate) response: AnalyzerResponse,
    /// The object that was analyzed; none for the playground.
    pub(crate) object: Option<AnalyzedObject>,
    /// The job that was run; none for a verdict.
    pub(crate) job: Option<ClaimedJob>,
    /// The version of the queued job that this verdict makes unnecessary.
    pub(crate) covers: Option<i64>,
    /// Whether the questions are the tenant's signals; questions of the caller are not counted by key.
    pub(crate) asks_signals: bool,
    /// The verdict slot to be released.
    pub(crate) slot: Option<Uuid>,
}

/// The object of an analysis, and what was read about it.
pub(crate) struct AnalyzedObject {
    pub(crate) object_id: String,
    pub(crate) input: AnalysisInput,
}

/// The job that a worker has claimed.
#[derive(Clone, Copy)]
pub(crate) struct ClaimedJob {
    pub(crate) lease: Lease,
    pub(crate) version: i64,
    pub(crate) bulk_run_id: Option<Uuid>,
}

/// The outcome of writing an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The analysis is written.
    Written,
    /// The analysis is written, and its job stays queued: events came meanwhile.
    Requeued,
    /// The object is gone: the analysis is only charged.
    Gone,
    /// Another worker has claimed the job: the analysis is discarded.
    Late,
}

impl Outcome {
    fn is_written(self) -> bool {
        matches!(self, Self::Written | Self::Requeued)
    }
}

/// Submits finished analyses to the writers.
pub(crate) struct Concluder {
    lanes: Vec<GroupWriter<ConclusionWriter>>,
    /// Separate writers for verdicts, so that they do not queue behind jobs.
    urgent_lanes: Vec<GroupWriter<ConclusionWriter>>,
    traces: Traces,
    hasher: RandomState,
}

impl Concluder {
    /// Starts the writers. Tenants are distributed over them, so that waiting for the balance of a busy tenant delays only
    /// the tenants of the same writer.
    pub(crate) fn start(writer: &ConclusionWriter, traces: Traces, workers: &Workers) -> Self {
        let lanes = writer.store.parallel_writers();
        let start = |_| {
            let (lane, queue) = GroupWriter::new(QUEUE);
            workers.supervise_writer("concluder", queue, writer.clone());
            lane
        };
        Self {
            lanes: (0..lanes).map(start).collect(),
            urgent_lanes: (0..lanes).map(start).collect(),
            traces,
            hasher: RandomState::new(),
        }
    }

    /// Writes an analysis, and returns the outcome once it is durable.
    pub(crate) async fn conclude(&self, conclusion: Arc<Conclusion>) -> Result<Outcome> {
        self.submit(conclusion).await?.await
    }

    /// Queues an analysis for its tenant's writer as soon as there is room, and returns a future of the outcome.
    pub(crate) async fn submit(
        &self,
        conclusion: Arc<Conclusion>,
    ) -> Result<impl Future<Output = Result<Outcome>> + use<>> {
        let step = self.traces.child("conclude", SpanKind::Internal);
        let lanes = if conclusion.job.is_none() { &self.urgent_lanes } else { &self.lanes };
        let hash = self.hasher.hash_one(conclusion.tenant) % lanes.len() as u64;
        let lane = &lanes[usize::try_from(hash).unwrap_or(0)];
        let written = lane.submit(conclusion).await?;
        Ok(async move {
            let written = written.await;
            drop(step);
            written
        })
    }
}

/// Writes finished analyses.
#[derive(Clone)]
pub(crate) struct ConclusionWriter {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) objects: Arc<ObjectCache>,
    pub(crate) announcements: Announcements,
    pub(crate) balances: Balances,
    pub(crate) prices: Prices,
    /// Whether what every analysis said is kept.
    pub(crate) keeps_history: bool,
}

impl Group for ConclusionWriter {
    type Piece = Arc<Conclusion>;
    type Outcome = Outcome;
    const PIECES: &'static str = "analyses";
    const METER: &'static str = "auspex_concluder_batch_analyses";
    /// A verdict may have to wait for one group of others: this many take a few milliseconds.
    const MAX: usize = 64;
    /// Those that were recorded together end together.
    const LINGER: Duration = Duration::from_millis(1);

    fn is_urgent(conclusion: &Arc<Conclusion>) -> bool {
        conclusion.job.is_none()
    }

    /// A group contains an object at most once.
    fn fitting(pieces: &[Arc<Conclusion>]) -> usize {
        let mut seen = HashSet::new();
        let fits = pieces.iter().take_while(|conclusion| {
            let object = conclusion.object.as_ref();
            object.is_none_or(|object| seen.insert((conclusion.tenant, object.object_id.as_str())))
        });
        fits.count()
    }

    async fn write(&self, group: &[Arc<Conclusion>], wait: LockWait) -> Result<Vec<Outcome>> {
        // Invalidated before and after the commit: a reader that sees the commit must not get an older cached value.
        self.invalidate_objects(group);
        let store = self.store.for_groups(wait);
        let (outcomes, effects) =
            store.write("conclude", async |conn: &mut Conn| self.write_group(conn, group).await).await?;
        self.invalidate_objects(group);
        self.announcements.follow_up(effects);
        Ok(outcomes)
    }
}

impl ConclusionWriter {
    fn invalidate_objects(&self, group: &[Arc<Conclusion>]) {
        for (tenant, object_id) in objects(group) {
            self.objects.invalidate(tenant, object_id);
        }
    }

    async fn write_group(
        &self,
        conn: &mut Conn,
        group: &[Arc<Conclusion>],
    ) -> Result<(Vec<Outcome>, Effects)> {
        let shard = self.random.shard();
        // Objects before jobs, in the order of the recorder, to avoid deadlocks. Answers and rules are read while objects
        // are locked, so that a rule that was created before is applied.
        let locked = LockedObjects::lock(conn, &objects(group)).await?;
        // Taken while they are locked: the times of an object's analyses are in the order of their commits.
        let now = self.clock.now();
        let decided = decide(conn, group, &locked, now).await?;
        let written: Vec<&Decided<'_>> =
            decided.iter().filter(|decided| decided.outcome.is_written()).collect();
        let concluded: Vec<ConcludedAnalysis<'_>> =
            written.iter().filter_map(|written| concluded(written)).collect();
        // An analysis is charged even if its object was deleted meanwhile.
        let paid = decided.iter().filter(|decided| decided.outcome != Outcome::Late);
        let charges: Vec<AnalysisCharge<'_>> =
            paid.flat_map(|paid| self.charges_for(paid.conclusion, now)).collect();
        let with_rules: Vec<ConcludedAnalysis<'_>> = concluded
            .iter()
            .filter(|analysis| locked.has_rules(analysis.tenant, analysis.object_id))
            .copied()
            .collect();
        let is_drawn = |analysis: &&ConcludedAnalysis<'_>| {
            let rate = locked.audit_rate(analysis.tenant, analysis.object_id);
            self.announcements.audits.is_drawn(analysis.tenant, analysis.object_id, analysis.at, rate)
        };
        let drawn: Vec<ConcludedAnalysis<'_>> = concluded.iter().filter(is_drawn).copied().collect();
        let mut batch = conn.batch();
        write_results(conn, &mut batch, locked, &written, shard).await?;
        let analyses = self.analyses(&written);
        answer_history::insert(&mut batch, &analyses);
        verdict_slots::release_all(&mut batch, &slots(group));
        balance::count_usage(&mut batch, &charges, self.prices.metering, now.date(), shard);
        // Rules are evaluated on what is written.
        batch.run(conn).await?;
        let mut effects = Effects::default();
        self.announcements.announce(conn, &concluded, &with_rules, &drawn, &mut effects).await?;
        drop_read_events(conn, &written, shard).await?;
        if self.prices.metering && !charges.is_empty() {
            // Balances come last, so that other transactions that charge this tenant wait only for the commit.
            for account in balance::charge(conn, &charges, now).await? {
                if !account.low_mailed {
                    effects.mails |=
                        self.balances.warn_if_low(conn, account.tenant, account.after_micros).await?;
                }
            }
        }
        Ok((decided.iter().map(|decided| decided.outcome).collect(), effects))
    }

    /// The rows of the history, if it is kept.
    fn analyses<'a>(&self, written: &[&'a Decided<'_>]) -> Vec<NewAnalysis<'a>> {
        let kept = written.iter().filter(|_| self.keeps_history);
        kept.filter_map(|written| {
            let Conclusion { tenant, response, object, job, .. } = &**written.conclusion;
            let AnalyzedObject { object_id, input } = object.as_ref()?;
            let source = match job {
                None => AnalysisSource::Sync,
                Some(job) if job.bulk_run_id.is_some() => AnalysisSource::Bulk,
                Some(_) => AnalysisSource::Async,
            };
            let versioned = response.answers.iter().filter_map(|answer| {
                let signal = asked(answer, &input.questions.signals)?;
                Some((answer, signal.version))
            });
            Some(NewAnalysis {
                tenant: *tenant,
                object_id,
                analysis_id: analysis_id(written.at, self.random.bytes()),
                at: written.at,
                source,
                model: &response.model,
                read_seq: input.read_seq,
                answers: encode(versioned),
            })
        })
        .collect()
    }

    /// The charge of each stage.
    fn charges_for<'a>(
        &self,
        conclusion: &'a Conclusion,
        now: Timestamp,
    ) -> impl Iterator<Item = AnalysisCharge<'a>> + use<'a> {
        let response = &conclusion.response;
        // Answers are counted once, with the stage that reads all signals.
        let answered = response.answers.iter().filter(|_| conclusion.asks_signals);
        let keys = answered.map(|answer| answer.signal.as_str()).collect();
        let usage = (response.input_tokens, response.output_tokens);
        let charge = self.prices.charge(&response.model, usage.0, usage.1);
        let first = self.charge_for(conclusion, now, (&response.model, usage), &charge);
        let second = response.second.as_ref().map(|second| {
            let usage = (second.input_tokens, second.output_tokens);
            let charge = self.prices.charge_second(&second.model, usage.0, usage.1);
            let second = self.charge_for(conclusion, now, (&second.model, usage), &charge);
            AnalysisCharge { is_second_stage: true, ..second }
        });
        std::iter::once(AnalysisCharge { signal_keys: keys, ..first }).chain(second)
    }

    fn charge_for<'a>(
        &self,
        conclusion: &'a Conclusion,
        now: Timestamp,
        (model, (input_tokens, output_tokens)): (&'a str, (u64, u64)),
        charge: &Charge,
    ) -> AnalysisCharge<'a> {
        AnalysisCharge {
            tenant: conclusion.tenant,
            entry_id: self.random.id(now),
            micros: charge.micros,
            cost_usd: charge.cost_usd(),
            cost_margin: charge.cost_margin(),
            model,
            object_id: conclusion.object.as_ref().map(|object| object.object_id.as_str()),
            input_tokens: i64::try_from(input_tokens).unwrap_or(i64::MAX),
            output_tokens: i64::try_from(output_tokens).unwrap_or(i64::MAX),
            batch_id: conclusion.job.and_then(|job| job.bulk_run_id),
            source: if conclusion.job.is_none() { UsageSource::Sync } else { UsageSource::Async },
            is_second_stage: false,
            signal_keys: Vec::new(),
        }
    }
}

/// Writes answers and summaries, and removes the jobs that are finished with them.
async fn write_results(
    conn: &mut Conn,
    batch: &mut Batch,
    locked: LockedObjects,
    written: &[&Decided<'_>],
    shard: i64,
) -> Result<()> {
    let conclusions = || written.iter().map(|written| written.conclusion);
    let covered: Vec<CoveredJob<'_>> =
        conclusions().filter_map(|conclusion| covered_job(conclusion, &locked)).collect();
    jobs::remove_covered(batch, &covered);
    let done: Vec<(JobLease<'_>, i64)> = written
        .iter()
        .filter_map(|written| Some((leased_job(written.conclusion)?, written.version?)))
        .collect();
    jobs::finish(batch, &done);
    let new: Vec<NewAnswers<'_>> = written.iter().filter_map(|written| new_answers(written)).collect();
    concluder::put_answers(batch, locked, &new, shard);
    for (tenant, object) in
        conclusions().filter_map(|conclusion| Some((conclusion.tenant, conclusion.object.as_ref()?)))
    {
        if let Some(summary) = &object.input.new_summary {
            concluder::put_summary(conn, tenant, &object.object_id, summary).await?;
        }
    }
    Ok(())
}

/// Removes the events of tenants that keep them only until they are analyzed. Rules have counted them before.
async fn drop_read_events(conn: &mut Conn, written: &[&Decided<'_>], shard: i64) -> Result<()> {
    let mut storage = StorageChanges::default();
    for conclusion in written.iter().map(|written| written.conclusion) {
        let Some(object) = conclusion.object.as_ref().filter(|object| object.input.drop_events) else {
            continue;
        };
        let (tenant, read_seq) = (conclusion.tenant, object.input.read_seq);
        storage.add(tenant, -events::drop_through(conn, tenant, &object.object_id, read_seq).await?);
    }
    let mut batch = conn.batch();
    storage.write(&mut batch, shard);
    Ok(batch.run(conn).await?)
}

/// An analysis, and whether it is still valid.
struct Decided<'a> {
    conclusion: &'a Arc<Conclusion>,
    /// The current version of its job, if it is still leased.
    version: Option<i64>,
    outcome: Outcome,
    at: Timestamp,
}

/// Decides which analyses are still valid, while their objects are locked.
async fn decide<'a>(
    conn: &mut Conn,
    group: &'a [Arc<Conclusion>],
    locked: &LockedObjects,
    now: Timestamp,
) -> Result<Vec<Decided<'a>>> {
    let leased: Vec<JobLease<'_>> = group.iter().filter_map(|conclusion| leased_job(conclusion)).collect();
    let mut versions = jobs::lock_leased(conn, &leased).await?.into_iter();
    let decided = group.iter().map(|conclusion| {
        let version = conclusion.job.and_then(|_| versions.next().flatten());
        let is_there = conclusion.object.as_ref().is_none_or(|AnalyzedObject { object_id, input }| {
            locked.still_exists(conclusion.tenant, object_id, input.first_seen, input.read_seq)
        });
        let outcome = match (conclusion.job, version, is_there) {
            (Some(job), Some(version), true) if version != job.version => Outcome::Requeued,
            (None, _, true) | (_, Some(_), true) => Outcome::Written,
            (None, _, false) | (_, Some(_), false) => Outcome::Gone,
            // While a lease lasts no other worker can claim the job: it was deleted with its object.
            (Some(job), None, false) if now < job.lease.until => Outcome::Gone,
            (Some(_), None, _) => Outcome::Late,
        };
        let at = conclusion
            .object
            .as_ref()
            .map_or(now, |object| locked.time_of_next(conclusion.tenant, &object.object_id, now));
        Decided { conclusion, version, outcome, at }
    });
    Ok(decided.collect())
}

fn objects(group: &[Arc<Conclusion>]) -> Vec<(TenantId, &str)> {
    group
        .iter()
        .filter_map(|conclusion| Some((conclusion.tenant, conclusion.object.as_ref()?.object_id.as_str())))
        .collect()
}

fn slots(group: &[Arc<Conclusion>]) -> Vec<(TenantId, Uuid)> {
    group.iter().filter_map(|conclusion| Some((conclusion.tenant, conclusion.slot?))).collect()
}

fn leased_job(conclusion: &Conclusion) -> Option<JobLease<'_>> {
    let (job, object) = (conclusion.job?, conclusion.object.as_ref()?);
    let (tenant, object_id) = (conclusion.tenant, object.object_id.as_str());
    Some(JobLease { tenant, object_id, token: job.lease.token, version: job.version })
}

/// The job that a verdict makes unnecessary, unless it was queued for newer events or for signals that were not asked.
fn covered_job<'a>(conclusion: &'a Conclusion, locked: &LockedObjects) -> Option<CoveredJob<'a>> {
    let (version, AnalyzedObject { object_id, input }) = (conclusion.covers?, conclusion.object.as_ref()?);
    let tenant = conclusion.tenant;
    let is_newest = locked.newest_seq(tenant, object_id) == Some(input.read_seq);
    let was_asked = |id| input.questions.signals.iter().any(|signal| signal.signal_id == id);
    let covers = is_newest && locked.all_signals(tenant, object_id, was_asked);
    covers.then_some(CoveredJob { tenant, object_id, version })
}

/// The analysis as rules and webhooks see it.
fn concluded<'a>(written: &Decided<'a>) -> Option<ConcludedAnalysis<'a>> {
    let conclusion = written.conclusion;
    let object = conclusion.object.as_ref()?;
    Some(ConcludedAnalysis {
        tenant: conclusion.tenant,
        object_id: &object.object_id,
        answers: &conclusion.response.answers,
        model: &conclusion.response.model,
        read_seq: object.input.read_seq,
        is_sync: conclusion.job.is_none(),
        at: written.at,
        traceparent: conclusion.response.traceparent.as_deref(),
    })
}

fn new_answers<'a>(written: &Decided<'a>) -> Option<NewAnswers<'a>> {
    let conclusion = written.conclusion;
    let object = conclusion.object.as_ref()?;
    let signals = &object.input.questions.signals;
    let firsts = conclusion.response.second.as_ref().map(|second| &second.firsts);
    let first = |answer: &Answer| firsts.and_then(|firsts| firsts.get(&answer.signal));
    let answers = conclusion
        .response
        .answers
        .iter()
        .filter_map(|answer| Some(new_answer(answer, asked(answer, signals)?, first(answer))));
    Some(NewAnswers {
        tenant: conclusion.tenant,
        object_id: &object.object_id,
        answers: answers.collect(),
        model: &conclusion.response.model,
        read_seq: object.input.read_seq,
        now: written.at,
    })
}

/// The signal that an answer belongs to, as it was asked.
fn asked<'a>(answer: &Answer, signals: &'a [Signal]) -> Option<&'a Signal> {
    signals.iter().find(|signal| signal.key == answer.signal)
}

fn new_answer(answer: &Answer, signal: &Signal, first: Option<&FirstAnswer>) -> NewAnswer {
    let AnswerValue { noul, choice, probabilities, confidence, .. } = &answer.value;
    NewAnswer {
        signal_id: signal.signal_id,
        version: signal.version,
        is_noul: noul.is_some(),
        value: answer.value.number(),
        choice: choice.clone(),
        // Serializing strings and finite numbers to JSON cannot fail.
        probabilities: probabilities.as_ref().and_then(|shares| serde_json::to_string(shares).ok()),
        confidence: *confidence,
        raw: answer.raw.as_ref().and_then(|raw| serde_json::to_string(raw).ok()),
        escalated: answer.escalated,
        model: answer.model.clone(),
        first: first.and_then(|first| serde_json::to_string(first).ok()),
    }
}
