//! The concluder: writers that commit finished analyses whenever they are free, taking what waits. Everything that
//! follows from an analysis is written in that one transaction: answers, counts, summary, job, what rules and webhooks
//! make of it, and the charge.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use model::{Answer, Judgement, TenantId, Timestamp};
use opentelemetry::trace::SpanKind;
use store::analysis::concluder;
use store::analysis::concluder::{NewAnswer, NewAnswers, Standings};
use store::analysis::jobs;
use store::analysis::jobs::{Covered, Held};
use store::billing::balance;
use store::billing::balance::AnalysisCharge;
use store::analysis::signals::Signal;
use store::{Backend, Conn, Round};
use store::analysis::verdict_slots;
use uuid::Uuid;

use crate::analysis::asking::Found;
use crate::actions::consequences::{Concluded, Consequences};
use crate::runtime::group_writer::{Group, GroupWriter, Queue};
use crate::analysis::history::History;
use crate::{Result, Service, Traces};

/// Analyses that may wait for a writer; past that, workers wait to get in.
const QUEUE: usize = 1_024;
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
    /// The place in flight that it gives back.
    pub(crate) place: Option<Uuid>,
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
    lanes: Vec<GroupWriter<Conclusions>>,
    /// Those whose callers wait have writers of their own: they do not queue up behind the others.
    urgent_lanes: Vec<GroupWriter<Conclusions>>,
    traces: Traces,
    hasher: RandomState,
}

/// What waits for each writer, until they start.
pub(crate) struct Lanes(Vec<Queue<Conclusions>>);

impl Concluder {
    pub(crate) fn new(backend: Backend, traces: Traces) -> (Self, Lanes) {
        let lanes = if backend == Backend::Sqlite { 1 } else { POSTGRES_LANES };
        let (lanes, mut queues): (Vec<_>, Vec<_>) = (0..lanes).map(|_| GroupWriter::new(QUEUE)).unzip();
        let (urgent_lanes, urgent): (Vec<_>, Vec<_>) = lanes.iter().map(|_| GroupWriter::new(QUEUE)).unzip();
        queues.extend(urgent);
        (Self { lanes, urgent_lanes, traces, hasher: RandomState::new() }, Lanes(queues))
    }

    /// Writes what follows from an analysis, and returns what became of it once that is durable.
    pub(crate) async fn conclude(&self, conclusion: Arc<Conclusion>) -> Result<Outcome> {
        self.hand_over(conclusion).await?.await
    }

    /// Hands an analysis over to a writer of its tenant as soon as there is room, and returns what to wait for.
    pub(crate) async fn hand_over(
        &self,
        conclusion: Arc<Conclusion>,
    ) -> Result<impl Future<Output = Result<Outcome>> + use<>> {
        let step = self.traces.part("conclude", SpanKind::Internal);
        let lanes = if conclusion.job.is_none() { &self.urgent_lanes } else { &self.lanes };
        let hash = self.hasher.hash_one(conclusion.tenant) % lanes.len() as u64;
        let lane = &lanes[usize::try_from(hash).unwrap_or(0)];
        let written = lane.hand_over(conclusion).await?;
        Ok(async move {
            let written = written.await;
            drop(step);
            written
        })
    }
}

impl Lanes {
    /// Starts the writers.
    pub(crate) fn start(self, service: &Arc<Service>) {
        for queue in self.0 {
            let conclusions = Conclusions(Arc::clone(service));
            service.workers.start_writer(|stop| queue.run(conclusions, stop));
        }
    }
}

/// Writes finished analyses.
pub(crate) struct Conclusions(Arc<Service>);

impl Group for Conclusions {
    type Piece = Arc<Conclusion>;
    type Outcome = Outcome;
    const PIECES: &'static str = "analyses";
    const METER: &'static str = "auspex_concluder_batch_analyses";
    /// A caller who waits may wait for one group of others: this many take some milliseconds.
    const MAX: usize = 64;

    /// An object is in a group once.
    fn fitting(pieces: &[Arc<Conclusion>]) -> usize {
        let mut seen = HashSet::new();
        let fits = pieces.iter().take_while(|conclusion| {
            let about = conclusion.about.as_ref();
            about.is_none_or(|about| seen.insert((conclusion.tenant, about.object_id.as_str())))
        });
        fits.count()
    }

    async fn write(&self, pieces: &[Arc<Conclusion>]) -> Result<Vec<Outcome>> {
        self.0.write_conclusions(pieces).await
    }
}

impl Service {
    async fn write_conclusions(&self, batch: &[Arc<Conclusion>]) -> Result<Vec<Outcome>> {
        // Before as well as after: whoever sees the commit must not be shown what was remembered before it.
        self.forget_objects(batch);
        let (outcomes, consequences) = self
            .store
            .write_group("conclude", async |conn: &mut Conn| self.write_batch(conn, batch).await)
            .await?;
        self.forget_objects(batch);
        self.follow_up(&consequences);
        Ok(outcomes)
    }

    fn forget_objects(&self, batch: &[Arc<Conclusion>]) {
        for (tenant, object_id) in objects(batch.iter()) {
            self.cache.forget(tenant, object_id);
        }
    }

    /// Writes what follows, up to a round for the end.
    async fn write_batch(
        &self,
        conn: &mut Conn,
        batch: &[Arc<Conclusion>],
    ) -> Result<((Vec<Outcome>, Consequences), Round)> {
        let now = self.clock.now();
        let shard = self.random.shard();
        // Objects before jobs, as recording does: the other way round the two could wait for each other.
        // Read while they are locked, like the rules that follow: whoever made one before sees it looked at.
        let standings = Standings::lock(conn, &objects(batch.iter())).await?;
        let decided = self.decide(conn, batch, &standings, now).await?;
        let written: Vec<&Decided<'_>> =
            decided.iter().filter(|decided| decided.outcome == Outcome::Written).collect();
        let concluded: Vec<Concluded<'_>> =
            written.iter().filter_map(|written| concluded(written.conclusion, now)).collect();
        // What was asked is paid, also when the object has gone meanwhile.
        let paid = decided.iter().filter(|decided| decided.outcome != Outcome::Late);
        let charges: Vec<AnalysisCharge<'_>> =
            paid.map(|paid| self.charge_for(paid.conclusion, now)).collect();
        let ruled: Vec<Concluded<'_>> =
            concluded.iter().filter(|one| standings.may_fire(one.tenant, one.object_id)).copied().collect();
        let mut round = conn.round();
        self.keep(conn, &mut round, standings, &written, now, shard).await?;
        verdict_slots::release_all(&mut round, &places(batch));
        balance::count_usage(&mut round, &charges, self.options.metering, now.date(), shard);
        // Rules go by what is written. And on PostgreSQL the balances come last and are held until the commit: whoever else
        // pays for this tenant waits no longer than that.
        if !ruled.is_empty() || self.store.backend() == Backend::Postgres {
            round.run(conn).await?;
            round = conn.round();
        }
        let mut consequences = Consequences::default();
        self.announce_analyses(conn, &concluded, &mut consequences).await?;
        self.apply_rules(conn, &ruled, &mut consequences).await?;
        if self.options.metering && !charges.is_empty() {
            let charged = balance::charge(conn, round, &charges, now).await?;
            round = conn.round();
            for account in charged.into_iter().filter(|account| !account.low_mailed) {
                consequences.mails |=
                    self.warn_of_low_balance(conn, account.tenant, account.after_micros).await?;
            }
        }
        Ok(((decided.iter().map(|decided| decided.outcome).collect(), consequences), round))
    }

    /// Keeps answers and summaries, and ends the jobs that are done with them.
    async fn keep(
        &self,
        conn: &mut Conn,
        round: &mut Round,
        standings: Standings,
        written: &[&Decided<'_>],
        now: Timestamp,
        shard: i64,
    ) -> Result<()> {
        let conclusions = || written.iter().map(|written| written.conclusion);
        let covered: Vec<Covered<'_>> =
            conclusions().filter_map(|conclusion| covered_job(conclusion, &standings)).collect();
        jobs::clear_covered(round, &covered);
        let done: Vec<(Held<'_>, i64)> = written
            .iter()
            .filter_map(|written| Some((held_job(written.conclusion)?, written.version?)))
            .collect();
        jobs::finish(round, &done);
        let new: Vec<NewAnswers<'_>> =
            conclusions().filter_map(|conclusion| new_answers(conclusion, now)).collect();
        concluder::put_answers(round, standings, &new, shard);
        for (tenant, about) in
            conclusions().filter_map(|conclusion| Some((conclusion.tenant, conclusion.about.as_ref()?)))
        {
            if let Some(summary) = &about.read.folded {
                concluder::put_summary(conn, tenant, &about.object_id, summary).await?;
            }
            if about.read.drop_events {
                concluder::drop_events(conn, tenant, &about.object_id, about.read.read_seq).await?;
            }
        }
        Ok(())
    }

    /// Which analyses still count, while their objects are locked.
    async fn decide<'a>(
        &self,
        conn: &mut Conn,
        batch: &'a [Arc<Conclusion>],
        standings: &Standings,
        now: Timestamp,
    ) -> Result<Vec<Decided<'a>>> {
        let held: Vec<Held<'_>> = batch.iter().filter_map(|conclusion| held_job(conclusion)).collect();
        let mut versions = jobs::still_held(conn, &held).await?.into_iter();
        let decided = batch.iter().map(|conclusion| {
            let version = conclusion.job.and_then(|_| versions.next().flatten());
            let is_there = conclusion.about.as_ref().is_none_or(|About { object_id, read }| {
                standings.has(conclusion.tenant, object_id, read.since, read.read_seq)
            });
            let outcome = match (conclusion.job, version, is_there) {
                (None, _, true) | (_, Some(_), true) => Outcome::Written,
                (None, _, false) | (_, Some(_), false) => Outcome::Gone,
                // While a lease lasts nobody else takes the job: it went with its object.
                (Some(job), None, false) if now < job.until => Outcome::Gone,
                (Some(_), None, _) => Outcome::Late,
            };
            Decided { conclusion, version, outcome }
        });
        Ok(decided.collect())
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

/// An analysis, and whether it still counts.
struct Decided<'a> {
    conclusion: &'a Arc<Conclusion>,
    /// The version that its job has now, if the worker still holds it.
    version: Option<i64>,
    outcome: Outcome,
}

fn objects<'a>(batch: impl Iterator<Item = &'a Arc<Conclusion>>) -> Vec<(TenantId, &'a str)> {
    batch
        .filter_map(|conclusion| Some((conclusion.tenant, conclusion.about.as_ref()?.object_id.as_str())))
        .collect()
}

fn places(batch: &[Arc<Conclusion>]) -> Vec<(TenantId, Uuid)> {
    batch.iter().filter_map(|conclusion| Some((conclusion.tenant, conclusion.place?))).collect()
}

fn held_job(conclusion: &Conclusion) -> Option<Held<'_>> {
    let (job, about) = (conclusion.job?, conclusion.about.as_ref()?);
    let (tenant, object_id) = (conclusion.tenant, about.object_id.as_str());
    Some(Held { tenant, object_id, token: job.token, version: job.version })
}

/// The job that a verdict makes needless, unless events came since, or signals that it did not know of.
fn covered_job<'a>(conclusion: &'a Conclusion, standings: &Standings) -> Option<Covered<'a>> {
    let (version, About { object_id, read }) = (conclusion.covers?, conclusion.about.as_ref()?);
    let tenant = conclusion.tenant;
    let is_newest = standings.newest_seq(tenant, object_id) == Some(read.read_seq);
    let was_asked = |signal| read.asked.signals.iter().any(|asked| asked.signal_id == signal);
    let covers = is_newest && standings.asks_only(tenant, object_id, was_asked);
    covers.then_some(Covered { tenant, object_id, version })
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
