//! Replays: what a rule would have done over the past of answers, and which of the existing rules do the same.
//!
//! The history is read in the order of its key, page by page, and one object is in memory at a time. Every rule is evaluated by
//! the function that evaluates live ones (`model::replay`, `model::rule`). No model runs and nothing is charged. A long history
//! is replayed in the background; if its process ends, it is started again by whoever still wants it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::api::{
    LabelValue, ReplayDay, ReplayExample, ReplayLabels, ReplayStatus, RuleOverlap, RuleReplay,
    RuleReplayRequest, RuleReplayResponse, RuleReplayRun,
};
use model::condition::{BoundCondition, ComparedValue, Condition, EventWindow, Facts};
use model::recorded_answer::{self, RecordedAnswer};
use model::replay::{ReplayedAnalysis, ReplayedObject, ReplayedRule};
use model::{Date, TenantId, Timestamp};
use store::accounts::tenants;
use store::actions::replays::{self, Example};
use store::actions::rules;
use store::analysis::answer_history::{self, Analysis};
use store::analysis::signals::{self, Signal};
use store::objects::event_counters::{self, FactRequest};
use store::quality::labels;
use store::upkeep::kept_history;
use store::{Conn, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::actions::binding::bind;
use crate::actions::rules::{checked_cooldown, checked_length};
use crate::objects::answers::shape;
use crate::runtime::{Clock, Error, Kind, Random, Result, Workers, internal};

/// Analyses that are read at once.
const PAGE: i64 = 1_000;
/// The newest labels of a signal that firings are compared with.
const MAX_LABELS: i64 = 50_000;
/// Firings that are shown.
const EXAMPLES: usize = 50;
/// Replays that this process runs for waiting callers at the same time.
const CONCURRENT: usize = 2;
/// How often a replay in the background notes that it is alive, and how long that is believed.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
const BELIEVED_ALIVE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// Replays rules.
#[derive(Clone)]
pub struct Replays {
    store: Store,
    clock: Clock,
    random: Random,
    workers: Workers,
    /// The number of analyses up to which a caller waits for the result.
    inline: i64,
    /// For how many days the answers of every analysis are kept.
    history_days: u32,
    slots: Arc<Semaphore>,
}

/// What is replayed: the rule itself comes first, then the enabled rules.
struct Plan {
    tenant: TenantId,
    rules: Vec<ReplayedRule>,
    others: Vec<(Uuid, String)>,
    /// The signals that any rule names.
    signals: BTreeSet<String>,
    windows: Vec<EventWindow>,
    needs_facts: bool,
    /// Of objects with labels: by signal of the condition, whether the label satisfies it.
    labels: HashMap<String, Vec<(String, bool)>>,
    from: Timestamp,
    to: Timestamp,
    complete: bool,
}

impl Replays {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        random: Random,
        workers: Workers,
        (inline, history_days): (i64, u32),
    ) -> Self {
        let slots = Arc::new(Semaphore::new(CONCURRENT));
        Self { store, clock, random, workers, inline, history_days, slots }
    }

    /// Replays a rule: at once, or in the background if the history is long.
    pub async fn replay(&self, tenant: TenantId, request: &RuleReplayRequest) -> Result<RuleReplayResponse> {
        checked_length(&request.when)?;
        let cooldown =
            Duration::from_secs(checked_cooldown(request.cooldown_seconds.unwrap_or(0))?.unsigned_abs());
        let (plan, is_long) = self
            .store
            .read("plan_replay", async |conn: &mut Conn| {
                let plan = self.plan(conn, tenant, request, cooldown).await?;
                let count = answer_history::count_up_to(conn, tenant, self.inline.saturating_add(1)).await?;
                Ok::<_, Error>((plan, count > self.inline))
            })
            .await?;
        if is_long {
            return Ok(RuleReplayResponse::Started(Box::new(self.start(plan).await?)));
        }
        let Ok(_slot) = self.slots.try_acquire() else {
            let message = "other replays are running; try again in a moment";
            return Err(Error::new(Kind::RateLimited, message).retry_after(Duration::from_secs(1)));
        };
        let (result, _) = self.run(&plan, None).await?;
        Ok(RuleReplayResponse::Done(Box::new(result)))
    }

    /// A replay in the background.
    pub async fn get(&self, tenant: TenantId, replay: Uuid) -> Result<RuleReplayRun> {
        let now = self.clock.now();
        self.store
            .read("replay", async |conn: &mut Conn| {
                let found = replays::find(conn, tenant, replay).await?;
                let found = found.ok_or_else(|| Error::new(Kind::NotFound, "there is no such replay"))?;
                let is_alive = found.error.is_none() && found.alive_until > now;
                let status = if is_alive { ReplayStatus::Running } else { ReplayStatus::Failed };
                let ended = || (!is_alive).then(|| "its process has ended: start it again".to_owned());
                let error = found.error.or_else(ended).filter(|_| found.result.is_none());
                let run = RuleReplayRun::new(replay, status, found.analyses, error);
                if let Some(result) = found.result {
                    let mut result: RuleReplay = serde_json::from_str(&result).map_err(internal)?;
                    for example in replays::examples(conn, tenant, replay).await? {
                        result.examples.push(ReplayExample {
                            object_id: example.object_id,
                            at: example.at,
                            signal_values: serde_json::from_str(&example.signal_values).map_err(internal)?,
                        });
                    }
                    return Ok(run.done(result));
                }
                Ok(run)
            })
            .await
    }

    /// What is to be replayed, checked against the signals that there are.
    async fn plan(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        request: &RuleReplayRequest,
        cooldown: Duration,
    ) -> Result<Plan> {
        let now = self.clock.now();
        let all = signals::of_tenant(conn, tenant).await?;
        let condition =
            Condition::parse(&request.when).and_then(|condition| condition.bind(|key| shape(&all, key)));
        let condition = condition.map_err(|error| {
            Error::bad_request(format!("when: column {}: {}", error.column, error.message))
        })?;
        let (enabled, disabled): (Vec<Signal>, Vec<Signal>) =
            all.into_iter().partition(|signal| signal.enabled);
        let existing = rules::of_tenant(conn, tenant).await?;
        let existing: Vec<&rules::Rule> = existing.iter().filter(|rule| rule.enabled).collect();
        let mut others = Vec::new();
        let mut rules = vec![ReplayedRule { condition, cooldown }];
        for (rule, condition) in bind(&existing, &enabled, &disabled) {
            others.push((rule.rule_id, rule.name.clone()));
            let cooldown = Duration::from_secs(rule.cooldown_seconds.unsigned_abs());
            rules.push(ReplayedRule { condition, cooldown });
        }
        let labels = read_labels(conn, tenant, &rules[0].condition, &enabled).await?;
        let oldest = answer_history::oldest(conn, tenant).await?;
        let to = request.to.unwrap_or(now);
        let from = request.from.or(oldest).unwrap_or(to);
        if from > to {
            return Err(Error::bad_request("from: it must not be after to"));
        }
        // Nothing is missing of a time since when all is kept, nor before there was an account.
        let noted = kept_history::since(conn).await?.or(oldest).unwrap_or(now);
        let kept_since = noted.max(now - DAY * self.history_days);
        let created_at = tenants::find(conn, tenant).await?.map(|tenant| tenant.created_at);
        let is_whole = from >= kept_since || created_at.is_some_and(|created_at| created_at >= kept_since);
        let bound = || rules.iter().map(|rule| &rule.condition);
        Ok(Plan {
            tenant,
            others,
            signals: bound().flat_map(|bound| bound.keys()).map(str::to_owned).collect(),
            windows: distinct(bound().flat_map(|bound| bound.event_windows())),
            needs_facts: bound().any(|bound| !bound.facts().is_empty()),
            labels,
            from,
            to,
            complete: oldest.is_some() && self.history_days > 0 && is_whole,
            rules,
        })
    }

    /// Starts a replay in the background; an account has one at a time.
    async fn start(&self, plan: Plan) -> Result<RuleReplayRun> {
        let now = self.clock.now();
        let (tenant, id) = (plan.tenant, self.random.id(now));
        self.store
            .write("start_replay", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                if replays::is_running(conn, tenant, now).await? {
                    let message = "a replay is running: wait until it has ended";
                    return Err(Error::new(Kind::Conflict, message));
                }
                Ok(replays::insert(conn, tenant, id, now + BELIEVED_ALIVE, now).await?)
            })
            .await?;
        let this = self.clone();
        self.workers.start(|stop| async move { this.run_in_background(id, plan, stop).await });
        Ok(RuleReplayRun::new(id, ReplayStatus::Running, 0, None))
    }

    async fn run_in_background(&self, id: Uuid, plan: Plan, stop: CancellationToken) {
        let replayed = stop.run_until_cancelled(Box::pin(self.run_and_note(id, &plan))).await;
        let error = match replayed {
            Some(Ok(())) => return,
            Some(Err(error)) => {
                tracing::error!(tenant = %plan.tenant, cause = error.cause(), "a replay failed: {error}");
                "it could not be read: start it again"
            }
            None => "its process has ended: start it again",
        };
        let fail = async |conn: &mut Conn| replays::fail(conn, plan.tenant, id, error).await;
        if let Err(error) = self.store.write("fail_replay", fail).await {
            // It counts as failed anyway, once it is no longer believed to be alive.
            tracing::warn!(tenant = %plan.tenant, "cannot note that a replay failed: {error}");
        }
    }

    async fn run_and_note(&self, id: Uuid, plan: &Plan) -> Result<()> {
        let tenant = plan.tenant;
        let (mut result, analyses) = self.run(plan, Some(id)).await?;
        let example = |example: ReplayExample| Example {
            object_id: example.object_id,
            at: example.at,
            signal_values: serde_json::Value::Object(example.signal_values).to_string(),
        };
        let examples: Vec<Example> = std::mem::take(&mut result.examples).into_iter().map(example).collect();
        let result = serde_json::to_string(&result).map_err(internal)?;
        self.store
            .write("finish_replay", async |conn: &mut Conn| {
                replays::finish(conn, tenant, id, analyses, (&result, &examples)).await
            })
            .await?;
        Ok(())
    }

    /// Reads the history and evaluates the rules; returns the result and the number of analyses. A replay with an id notes how
    /// far it is.
    async fn run(&self, plan: &Plan, id: Option<Uuid>) -> Result<(RuleReplay, i64)> {
        let mut found = Found::new(plan);
        let mut last: Option<(String, Uuid)> = None;
        let (mut analyses, mut noted_at) = (0, self.clock.now());
        loop {
            let (page, facts) = self
                .store
                .read("replay", async |conn: &mut Conn| self.page(conn, plan, last.as_ref()).await)
                .await?;
            for (index, analysis) in page.iter().enumerate() {
                found.take_in(analysis, facts.get(index).and_then(Option::as_ref))?;
            }
            let Some(end) = page.last() else { break };
            last = Some((end.object_id.clone(), end.analysis_id));
            analyses += i64::try_from(page.len()).unwrap_or(0);
            let now = self.clock.now();
            if let Some(id) = id.filter(|_| now.since(noted_at) >= PROGRESS_INTERVAL) {
                noted_at = now;
                self.note_progress(plan.tenant, id, analyses, now).await?;
            }
        }
        Ok((found.finish(), analyses))
    }

    async fn note_progress(&self, tenant: TenantId, id: Uuid, analyses: i64, now: Timestamp) -> Result<()> {
        let until = now + BELIEVED_ALIVE;
        let note = async |conn: &mut Conn| replays::progress(conn, tenant, id, analyses, until).await;
        Ok(self.store.write("replay_progress", note).await?)
    }

    /// The next analyses, and what was known of their objects then, if a rule asks for that.
    async fn page(
        &self,
        conn: &mut Conn,
        plan: &Plan,
        last: Option<&(String, Uuid)>,
    ) -> Result<(Vec<Analysis>, Vec<Option<Facts>>)> {
        let after = last.map(|(object, id)| (object.as_str(), *id));
        let page = answer_history::page(conn, plan.tenant, after, PAGE).await?;
        if !plan.needs_facts {
            return Ok((page, Vec::new()));
        }
        let requests: Vec<FactRequest<'_>> = page
            .iter()
            .map(|analysis| FactRequest {
                tenant: plan.tenant,
                object_id: &analysis.object_id,
                read_seq: analysis.read_seq,
            })
            .collect();
        let windows: Vec<&EventWindow> = plan.windows.iter().collect();
        let facts = event_counters::facts(conn, &requests, &windows, self.clock.now()).await?;
        Ok((page, facts))
    }
}

/// What a replay has found so far.
struct Found<'p> {
    plan: &'p Plan,
    object: Option<(String, ReplayedObject)>,
    /// Whether the rule was true for the object when the time that is counted began; none while no analysis of that time was read.
    was_true_before: Option<bool>,
    /// Which rules have fired for the object.
    fired: Vec<bool>,
    firings: i64,
    objects: i64,
    by_day: BTreeMap<Date, i64>,
    examples: Vec<ReplayExample>,
    overlap: Vec<RuleOverlap>,
    labelled: BTreeMap<String, LabelCounts>,
}

/// How many labelled objects there are about a signal.
#[derive(Default)]
struct LabelCounts {
    fired: u32,
    satisfied: u32,
    both: u32,
}

impl<'p> Found<'p> {
    fn new(plan: &'p Plan) -> Self {
        let overlap = |(rule_id, name): &(Uuid, String)| RuleOverlap {
            rule_id: *rule_id,
            name: name.clone(),
            both: 0,
            only_this: 0,
            only_that: 0,
        };
        Self {
            plan,
            object: None,
            was_true_before: None,
            fired: vec![false; plan.rules.len()],
            firings: 0,
            objects: 0,
            by_day: BTreeMap::new(),
            examples: Vec::new(),
            overlap: plan.others.iter().map(overlap).collect(),
            labelled: BTreeMap::new(),
        }
    }

    /// Takes in the next analysis: of the same object, or of the next one.
    fn take_in(&mut self, analysis: &Analysis, facts: Option<&Facts>) -> Result<()> {
        if self.object.as_ref().is_none_or(|(object_id, _)| *object_id != analysis.object_id) {
            self.end_object();
            self.object = Some((analysis.object_id.clone(), ReplayedObject::new(&self.plan.rules)));
        }
        let Some((_, object)) = self.object.as_mut().filter(|_| analysis.at <= self.plan.to) else {
            return Ok(());
        };
        let recorded = recorded_answer::parse(&analysis.answers).map_err(internal)?;
        let used = recorded.iter().filter(|answer| self.plan.signals.contains(&*answer.signal));
        let answers: Vec<(&str, ComparedValue<'_>)> =
            used.filter_map(|answer| Some((&*answer.signal, comparable(answer)?))).collect();
        let (at, read_seq) = (analysis.at, analysis.read_seq);
        if at >= self.plan.from && self.was_true_before.is_none() {
            self.was_true_before = Some(object.is_true(0));
        }
        let fired =
            object.conclude(&self.plan.rules, ReplayedAnalysis { at, read_seq, answers: &answers, facts });
        if at < self.plan.from {
            return Ok(());
        }
        for index in fired {
            self.fired[index] = true;
            if index == 0 {
                let signal_values = object.values(&self.plan.rules[0].condition, facts);
                self.firings += 1;
                *self.by_day.entry(at.date()).or_default() += 1;
                self.examples.push(ReplayExample {
                    object_id: analysis.object_id.clone(),
                    at,
                    signal_values,
                });
            }
        }
        if self.examples.len() >= 20 * EXAMPLES {
            self.keep_newest_examples();
        }
        Ok(())
    }

    fn end_object(&mut self) {
        let this = self.fired[0];
        self.objects += i64::from(this);
        for (overlap, that) in self.overlap.iter_mut().zip(&self.fired[1..]) {
            overlap.both += i64::from(this && *that);
            overlap.only_this += i64::from(this && !that);
            overlap.only_that += i64::from(!this && *that);
        }
        // An object that was not analyzed in this time says nothing about the rule; and one for which the rule was true already
        // was found before: unless it fires again, it is neither found now nor missed.
        let counts = this || self.was_true_before == Some(false);
        let object = self.object.as_ref().filter(|_| counts);
        let labels = object.and_then(|(object_id, _)| self.plan.labels.get(object_id));
        for (signal, is_satisfied) in labels.into_iter().flatten() {
            let counts = self.labelled.entry(signal.clone()).or_default();
            counts.fired += u32::from(this);
            counts.satisfied += u32::from(*is_satisfied);
            counts.both += u32::from(this && *is_satisfied);
        }
        self.fired.fill(false);
        self.was_true_before = None;
    }

    fn keep_newest_examples(&mut self) {
        self.examples.sort_by(|one, other| (other.at, &one.object_id).cmp(&(one.at, &other.object_id)));
        self.examples.truncate(EXAMPLES);
    }

    fn finish(mut self) -> RuleReplay {
        self.end_object();
        self.keep_newest_examples();
        self.overlap.sort_by_key(|overlap| std::cmp::Reverse(overlap.both));
        RuleReplay {
            firings: self.firings,
            objects: self.objects,
            by_day: self.by_day.into_iter().map(|(day, firings)| ReplayDay { day, firings }).collect(),
            examples: self.examples,
            labelled: self.labelled.into_iter().map(|(signal, counts)| (signal, counts.shares())).collect(),
            overlap: self.overlap,
            from: self.plan.from,
            to: self.plan.to,
            complete: self.plan.complete,
        }
    }
}

impl LabelCounts {
    fn shares(&self) -> ReplayLabels {
        let of = |whole: u32| (whole > 0).then(|| f64::from(self.both) / f64::from(whole));
        ReplayLabels { precision: of(self.fired), recall: of(self.satisfied) }
    }
}

/// The labels about the signals of a condition, by object: whether each satisfies a comparison with its signal.
async fn read_labels(
    conn: &mut Conn,
    tenant: TenantId,
    condition: &BoundCondition,
    enabled: &[Signal],
) -> Result<HashMap<String, Vec<(String, bool)>>> {
    let mut by_object: HashMap<String, Vec<(String, bool)>> = HashMap::new();
    let comparisons = condition.comparisons();
    for key in condition.keys() {
        let Some(signal) = enabled.iter().find(|signal| signal.key == key) else { continue };
        for (object_id, value) in labels::counting(conn, tenant, signal.signal_id, MAX_LABELS).await? {
            let value: LabelValue = serde_json::from_str(&value).map_err(internal)?;
            let admitted = |value: ComparedValue<'_>| {
                let mut about = comparisons.iter().filter(|comparison| comparison.key == key);
                about.any(|comparison| comparison.accepts.admits(value))
            };
            let is_satisfied = match &value {
                LabelValue::YesNo(is_yes) => admitted(ComparedValue::Number(f64::from(u8::from(*is_yes)))),
                #[expect(clippy::cast_precision_loss, reason = "at most 26 levels")]
                LabelValue::Level(level) => admitted(ComparedValue::Number(*level as f64)),
                LabelValue::Choice(option) => admitted(ComparedValue::Choice(option)),
            };
            by_object.entry(object_id).or_default().push((key.to_owned(), is_satisfied));
        }
    }
    Ok(by_object)
}

fn comparable<'a>(answer: &'a RecordedAnswer<'_>) -> Option<ComparedValue<'a>> {
    answer.value().map(ComparedValue::Number).or_else(|| answer.choice.as_deref().map(ComparedValue::Choice))
}

fn distinct<'a>(windows: impl Iterator<Item = &'a EventWindow>) -> Vec<EventWindow> {
    let mut distinct: Vec<EventWindow> = Vec::new();
    for window in windows {
        if !distinct.contains(window) {
            distinct.push(window.clone());
        }
    }
    distinct
}
