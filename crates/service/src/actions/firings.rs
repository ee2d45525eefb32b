//! Firings: rules are evaluated after an analysis, in the transaction that writes it.
//!
//! Rules are evaluated over the object's current answers, not over those of the analysis: an older analysis does not
//! replace newer answers. A rule that cannot be bound to the current signals (one is disabled or gone, or one of its
//! options is) is suspended: it does not match and keeps its state, so that it fires neither now nor when the signal is
//! enabled again. If a signal is deleted or changes its type, its answers are deleted, and the state of its rules is reset.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use model::api::{ActionConfig, ActionType, FiringStatus, ReviewReason, RuleMode, RuleTriggered};
use model::condition::{BoundCondition, ComparedValue, EventWindow, Facts};
use model::rule::Triggered;
use model::webhook::RULE_TRIGGERED;
use model::{Answer, TenantId};
use serde_json::{Map, Value};
use store::actions::firings::{self, Firing, MessageCounts};
use store::actions::rules::{self, ConditionState, Rule};
use store::actions::webhooks::deliveries::NewDelivery;
use store::actions::webhooks::endpoints::{self, Endpoint};
use store::analysis::signals::{self, Signal};
use store::objects::event_counters::{self, FactRequest};
use store::objects::reads::{self, StoredAnswer};
use store::outbox::messages::{self, NewMessage};
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::binding::bind;
use crate::actions::effects::{ConcludedAnalysis, Effects};
use crate::actions::recipients::{Addressees, Confirmation, Consent, Recipients};
use crate::actions::reviews::{ReviewOpener, ReviewRequest};
use crate::actions::rules::Rules;
use crate::actions::webhooks::{Deliveries, HandedDelivery};
use crate::objects::answers::result;
use crate::outbox::mail::{MailTemplates, Mailer};
use crate::outbox::worker::Firing as FiringRef;
use crate::outbox::{ChatMessage, ChatOutbox};
use crate::runtime::{Clock, Random, Result, internal};

/// Mails that the rules of a tenant may send per day: a misconfigured rule must not use up the quota of the mail server.
pub(super) const MAILS_PER_DAY: i64 = 1_000;
/// Chat messages that the rules of a tenant may send per day; Slack accepts about one per second.
pub(super) const CHATS_PER_DAY: i64 = 1_000;
/// A rule that fires.
struct Fired<'a> {
    rule: &'a Rule,
    concluded: &'a ConcludedAnalysis<'a>,
    /// The keys of the signals in the condition, also of those without an answer.
    signals: Vec<String>,
    values: Vec<Answer>,
    /// The facts in the condition, each with its value.
    facts: Vec<(String, Value)>,
}

/// The outcome of a firing's action.
enum Dispatch {
    /// The message is queued.
    Queued,
    /// A review is opened.
    Review,
    /// The webhook is queued as this delivery.
    QueuedAs(Uuid),
    /// Nothing can be sent, with the reason.
    Refused(String),
    /// The recipient has not agreed, for this reason.
    Unconfirmed(&'static str),
}

fn refused(reason: impl Into<String>) -> Dispatch {
    Dispatch::Refused(reason.into())
}

/// The rows to be written.
#[derive(Default)]
struct PendingWrites<'a> {
    /// The reviews to be opened for firings of one tenant, by the index of the firing.
    reviews: Vec<(usize, ReviewRequest<'a>)>,
    states: Vec<ConditionState>,
    firings: Vec<Firing>,
    messages: Vec<NewMessage>,
    deliveries: Vec<NewDelivery>,
    /// Those of them that are born leased.
    handed: Vec<HandedDelivery>,
}

/// The data that the actions of a tenant's rules need.
struct ActionInputs {
    configs: HashMap<Uuid, Option<ActionConfig>>,
    endpoints: Vec<Endpoint>,
    addressees: Addressees,
    mails_left: i64,
    chats_left: i64,
}

/// Evaluates rules, and lists firings.
#[derive(Clone)]
pub struct Firings {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) rules: Rules,
    pub(crate) templates: MailTemplates,
    pub(crate) mailer: Mailer,
    pub(crate) chat: ChatOutbox,
    pub(crate) deliveries: Deliveries,
    pub(crate) recipients: Recipients,
    pub(crate) opener: ReviewOpener,
}

impl Firings {
    /// Evaluates the rules of all tenants whose objects were analyzed, in the transaction that writes the answers and
    /// locks the objects. The caller leaves out objects for which no rule can fire.
    pub(crate) async fn apply_rules(
        &self,
        conn: &mut Conn,
        concluded: &[ConcludedAnalysis<'_>],
        effects: &mut Effects,
    ) -> Result<()> {
        if concluded.is_empty() {
            return Ok(());
        }
        // Tenants in key order, to avoid deadlocks; of each object only the last analysis, because
        // the current answers are the same for all of them.
        let mut objects: BTreeMap<TenantId, BTreeMap<&str, &ConcludedAnalysis<'_>>> = BTreeMap::new();
        for one in concluded {
            objects.entry(one.tenant).or_default().insert(one.object_id, one);
        }
        let tenants: Vec<TenantId> = objects.keys().copied().collect();
        let rules = rules::enabled_of(conn, &tenants).await?;
        let mut writes = PendingWrites::default();
        for (tenant, objects) in &objects {
            let tenant_rules: Vec<&Rule> = rules.iter().filter(|rule| rule.tenant_id == *tenant).collect();
            if tenant_rules.is_empty() {
                continue;
            }
            let fired = evaluate(conn, *tenant, &tenant_rules, objects, &mut writes.states).await?;
            let (shadow, live): (Vec<_>, Vec<_>) =
                fired.into_iter().partition(|fired| fired.rule.mode == RuleMode::Shadow);
            for fired in &shadow {
                writes.firings.push(fired.record(
                    self.random.id(fired.concluded.at),
                    FiringStatus::Shadow,
                    None,
                ));
            }
            if !live.is_empty() {
                let mut inputs = self.read_inputs(conn, *tenant, &live).await?;
                for fired in &live {
                    self.fire(fired, &mut inputs, &mut writes)?;
                }
                writes.messages.extend(self.ask_recipients(conn, *tenant, inputs.addressees.due).await?);
                self.open_reviews(conn, *tenant, &mut writes, effects).await?;
            }
        }
        rules::put_states(conn, &writes.states).await?;
        firings::insert(conn, &writes.firings).await?;
        firings::count_by_day(conn, &writes.firings, self.random.shard()).await?;
        messages::enqueue(conn, &writes.messages).await?;
        self.deliveries.queue(conn, &writes.deliveries, effects).await?;
        writes.add_to(effects);
        Ok(())
    }

    /// Opens the reviews of a tenant's firings, which then name them.
    async fn open_reviews(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        writes: &mut PendingWrites<'_>,
        effects: &mut Effects,
    ) -> Result<()> {
        let (firings, requests): (Vec<usize>, Vec<ReviewRequest<'_>>) =
            std::mem::take(&mut writes.reviews).into_iter().unzip();
        let opened = self.opener.open(conn, tenant, &requests, effects).await?;
        for (firing, opened) in firings.into_iter().zip(opened) {
            let what = if opened.is_new { "opened" } else { "raised the priority of" };
            writes.firings[firing].detail = Some(format!("{what} review {}", opened.review.review_id));
        }
        Ok(())
    }

    /// The confirmations that an account may send, of those that are due: they count like the mails of its rules.
    pub(super) async fn ask_recipients(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        due: Vec<Confirmation>,
    ) -> Result<Vec<NewMessage>> {
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let today = self.clock.now().date();
        // Counting nothing locks the tally: until this transaction ends, no other one asks for the same account.
        let sent = firings::count_messages(conn, tenant, today, MessageCounts::default()).await?;
        let mails = self.recipients.claim(conn, tenant, due, MAILS_PER_DAY - sent.mails).await?;
        let new = MessageCounts { mails: i64::try_from(mails.len()).unwrap_or(i64::MAX), chats: 0 };
        firings::count_messages(conn, tenant, today, new).await?;
        Ok(mails.iter().map(|mail| self.mailer.seal(tenant, mail, None)).collect())
    }

    /// Reads what the actions need: a few queries per type of action.
    async fn read_inputs(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        fired: &[Fired<'_>],
    ) -> Result<ActionInputs> {
        let mut inputs = ActionInputs {
            configs: HashMap::new(),
            endpoints: Vec::new(),
            addressees: Addressees::default(),
            mails_left: 0,
            chats_left: 0,
        };
        for fired in fired {
            let opened = inputs.configs.entry(fired.rule.rule_id);
            opened.or_insert_with(|| self.rules.open_config(fired.rule).ok());
        }
        let count_of = |action: ActionType| {
            let count = fired.iter().filter(|fired| fired.rule.action_type == action).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        };
        if count_of(ActionType::Webhook) > 0 {
            inputs.endpoints = endpoints::of_tenant(conn, tenant).await?;
        }
        if count_of(ActionType::Email) > 0 {
            let addresses = inputs.configs.values().flatten().filter_map(|config| config.to.as_deref());
            inputs.addressees = self.recipients.look_up(conn, tenant, addresses).await?;
        }
        let is_mailed = |fired: &&Fired<'_>| {
            let config = inputs.configs.get(&fired.rule.rule_id).and_then(Option::as_ref);
            let addressee = config.and_then(|config| inputs.addressees.of(config.to.as_deref()?));
            addressee.is_some_and(|addressee| addressee.consent == Consent::Given)
        };
        let mails = fired.iter().filter(is_mailed).count();
        let needed = MessageCounts {
            mails: i64::try_from(mails).unwrap_or(i64::MAX),
            chats: count_of(ActionType::Slack),
        };
        if needed != MessageCounts::default() {
            let before = firings::count_messages(conn, tenant, self.clock.now().date(), needed).await?;
            inputs.mails_left = MAILS_PER_DAY.saturating_sub(before.mails);
            inputs.chats_left = CHATS_PER_DAY.saturating_sub(before.chats);
        }
        Ok(inputs)
    }

    /// Dispatches a firing's action, and records the outcome.
    fn fire<'a>(
        &self,
        fired: &Fired<'a>,
        inputs: &mut ActionInputs,
        writes: &mut PendingWrites<'a>,
    ) -> Result<()> {
        let firing_id = self.random.id(fired.concluded.at);
        let (status, detail) = match self.dispatch(fired, firing_id, inputs, writes)? {
            Dispatch::Queued | Dispatch::Review => (FiringStatus::Dispatched, None),
            Dispatch::QueuedAs(delivery) => {
                (FiringStatus::Dispatched, Some(format!("queued as delivery {delivery}")))
            }
            Dispatch::Refused(reason) => (FiringStatus::Error, Some(reason)),
            Dispatch::Unconfirmed(reason) => (FiringStatus::Unconfirmed, Some(reason.to_owned())),
        };
        writes.firings.push(fired.record(firing_id, status, detail));
        Ok(())
    }

    /// Queues a firing's message or delivery. If that is impossible, the analysis does not fail.
    fn dispatch<'a>(
        &self,
        fired: &Fired<'a>,
        firing_id: Uuid,
        inputs: &mut ActionInputs,
        writes: &mut PendingWrites<'a>,
    ) -> Result<Dispatch> {
        let Fired { rule, concluded, values, .. } = fired;
        let tenant = rule.tenant_id;
        let firing = FiringRef { object_id: concluded.object_id, firing_id };
        let Some(Some(config)) = inputs.configs.get(&rule.rule_id) else {
            return Ok(refused("the settings of the action cannot be read"));
        };
        if let Some(queue) = &config.queue {
            writes.reviews.push((writes.firings.len(), fired.review(queue, config.signals.as_ref())));
            return Ok(Dispatch::Review);
        }
        let link = self.templates.object_page(concluded.object_id);
        let triggered = Triggered {
            rule_name: &rule.name,
            when: &rule.condition,
            object_id: concluded.object_id,
            values,
            at: concluded.at,
            link: &link,
        };
        if let Some(to) = &config.to {
            let Some(addressee) = inputs.addressees.of(to) else {
                return Ok(refused("the recipient is not an email address"));
            };
            if let Some(reason) = addressee.consent.objection() {
                return Ok(Dispatch::Unconfirmed(reason));
            }
            if inputs.mails_left <= 0 {
                return Ok(refused(format!(
                    "the account's limit of {MAILS_PER_DAY} rule mails a day is reached"
                )));
            }
            inputs.mails_left -= 1;
            let (subject, withdraw_token) = (config.subject.as_deref(), &addressee.withdraw_token);
            let mail = self.templates.rule_triggered(to, subject, &triggered, withdraw_token);
            writes.messages.push(self.mailer.seal(tenant, &mail, Some(firing)));
            return Ok(Dispatch::Queued);
        }
        if let Some(url) = &config.webhook_url {
            if inputs.chats_left <= 0 {
                let reason = format!("the account's limit of {CHATS_PER_DAY} chat messages a day is reached");
                return Ok(refused(reason));
            }
            inputs.chats_left -= 1;
            let message = ChatMessage { url: url.clone(), body: triggered.slack_message() };
            writes.messages.push(self.chat.seal(tenant, &message, Some(firing)));
            return Ok(Dispatch::Queued);
        }
        let endpoint =
            inputs.endpoints.iter().find(|endpoint| Some(endpoint.endpoint_id) == config.endpoint_id);
        let endpoint = match endpoint {
            None => return Ok(refused("the webhook endpoint is gone")),
            Some(endpoint) if !endpoint.enabled => return Ok(refused("the webhook endpoint is disabled")),
            Some(endpoint) if !endpoint.receives(RULE_TRIGGERED) => {
                return Ok(refused("the webhook endpoint is not subscribed to rule.triggered"));
            }
            Some(endpoint) => endpoint,
        };
        let mut delivery = self.delivery_of(fired, endpoint)?;
        writes.handed.extend(self.deliveries.lease_new(&mut delivery, endpoint));
        let queued = Dispatch::QueuedAs(delivery.delivery_id);
        writes.deliveries.push(delivery);
        Ok(queued)
    }

    fn delivery_of(&self, fired: &Fired<'_>, endpoint: &Endpoint) -> Result<NewDelivery> {
        let Fired { rule, concluded, values, .. } = fired;
        let payload = RuleTriggered {
            event: RULE_TRIGGERED.to_owned(),
            rule_id: rule.rule_id,
            rule_name: Some(rule.name.clone()),
            tenant_id: rule.tenant_id,
            object_id: concluded.object_id.to_owned(),
            matched_when: rule.condition.clone(),
            model: Some(concluded.model.to_owned()),
            occurred_at: concluded.at,
            values: values.clone(),
        };
        Ok(NewDelivery {
            tenant: rule.tenant_id,
            delivery_id: self.random.id(concluded.at),
            endpoint_id: endpoint.endpoint_id,
            event_type: RULE_TRIGGERED,
            object_id: Some(concluded.object_id.to_owned()),
            payload: serde_json::to_string(&payload).map_err(internal)?,
            max_attempts: self.deliveries.max_attempts,
            run_after: concluded.at,
            created_at: concluded.at,
            active_since: endpoint.active_time(concluded.at),
            traceparent: concluded.traceparent.map(str::to_owned),
            lease: None,
        })
    }
}

impl<'a> Fired<'a> {
    /// The review that is to be opened: of the signals in the condition, unless the rule names others.
    fn review(&self, queue: &str, signals: Option<&Vec<String>>) -> ReviewRequest<'a> {
        ReviewRequest {
            object_id: self.concluded.object_id,
            queue: queue.to_owned(),
            rule_id: Some(self.rule.rule_id),
            reason: ReviewReason::Rule,
            signals: signals.cloned().unwrap_or_else(|| self.signals.clone()),
            at: self.concluded.at,
        }
    }

    fn record(&self, firing_id: Uuid, status: FiringStatus, detail: Option<String>) -> Firing {
        let Self { rule, concluded, values, facts, .. } = self;
        Firing {
            tenant_id: rule.tenant_id,
            firing_id,
            rule_id: rule.rule_id,
            object_id: concluded.object_id.to_owned(),
            matched_when: rule.condition.clone(),
            signal_values: signal_values(values, facts).to_string(),
            action_type: rule.action_type,
            status,
            detail,
            fired_at: concluded.at,
        }
    }
}

impl PendingWrites<'_> {
    fn add_to(self, effects: &mut Effects) {
        effects.handed.extend(self.handed);
        for firing in &self.firings {
            effects.mails |= firing.action_type == ActionType::Email;
            effects.chats |= firing.action_type == ActionType::Slack;
            effects.firings.push((firing.action_type, firing.status));
        }
    }
}

/// Returns which of a tenant's rules fire for which objects, and adds changed states of conditions to `states`.
async fn evaluate<'a>(
    conn: &mut Conn,
    tenant: TenantId,
    rules: &[&'a Rule],
    objects: &BTreeMap<&str, &'a ConcludedAnalysis<'a>>,
    states: &mut Vec<ConditionState>,
) -> Result<Vec<Fired<'a>>> {
    let (enabled, disabled): (Vec<Signal>, Vec<Signal>) =
        signals::of_tenant(conn, tenant).await?.into_iter().partition(|signal| signal.enabled);
    let bound = bind(rules, &enabled, &disabled);
    if bound.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<&str> = objects.keys().copied().collect();
    let facts = read_facts(conn, tenant, &bound, objects).await?;
    let answers = reads::answers_of(conn, tenant, &ids).await?;
    let known: HashMap<(String, Uuid), _> = rules::states_of(conn, tenant, &ids)
        .await?
        .into_iter()
        .map(|state| ((state.object_id, state.condition_id), state.rule_state))
        .collect();
    let mut fired = Vec::new();
    for (object_id, concluded) in objects {
        let stored = answers.get(*object_id).map_or(&[][..], Vec::as_slice);
        let current = by_key(&enabled, stored);
        let facts = facts.get(*object_id);
        for (rule, condition) in &bound {
            let answer = |key: &str| current.get(key).and_then(|(_, answer)| comparable(answer));
            let matches = condition.matches_with(answer, facts);
            let known = known.get(&((*object_id).to_owned(), rule.condition_id));
            let before = known.copied().unwrap_or_default();
            let cooldown = Duration::from_secs(rule.cooldown_seconds.unsigned_abs());
            let (after, fires) = before.after(matches, cooldown, concluded.at);
            if after != before {
                let object_id = (*object_id).to_owned();
                states.push(ConditionState {
                    tenant,
                    object_id,
                    condition_id: rule.condition_id,
                    rule_state: after,
                });
            }
            if fires {
                let used = condition.keys().into_iter().filter_map(|key| current.get(key));
                let values =
                    used.map(|(signal, answer)| Ok(result(signal, answer)?.into())).collect::<Result<_>>()?;
                let facts = facts.map_or_else(Vec::new, |facts| condition.values_of_facts(facts));
                let signals = condition.keys().into_iter().map(str::to_owned).collect();
                fired.push(Fired { rule, concluded, signals, values, facts });
            }
        }
    }
    Ok(fired)
}

/// The facts that conditions ask for, by object: of each as far as its analysis has read. Without facts in a condition nothing is
/// read.
async fn read_facts<'a>(
    conn: &mut Conn,
    tenant: TenantId,
    bound: &[(&Rule, BoundCondition)],
    objects: &BTreeMap<&'a str, &ConcludedAnalysis<'_>>,
) -> Result<HashMap<&'a str, Facts>> {
    if bound.iter().all(|(_, condition)| condition.facts().is_empty()) {
        return Ok(HashMap::new());
    }
    let mut windows: Vec<&EventWindow> = Vec::new();
    for window in bound.iter().flat_map(|(_, condition)| condition.event_windows()) {
        if !windows.contains(&window) {
            windows.push(window);
        }
    }
    let request = |(id, one): (&&'a str, &&ConcludedAnalysis<'_>)| FactRequest {
        tenant,
        object_id: id,
        read_seq: one.read_seq,
    };
    let requests: Vec<FactRequest<'a>> = objects.iter().map(request).collect();
    let Some(now) = objects.values().map(|one| one.at).max() else { return Ok(HashMap::new()) };
    let facts = event_counters::facts(conn, &requests, &windows, now).await?;
    let by_object =
        requests.iter().zip(facts).filter_map(|(request, facts)| Some((request.object_id, facts?)));
    Ok(by_object.collect())
}

/// The answers to enabled signals, by key.
fn by_key<'a>(
    enabled: &'a [Signal],
    answers: &'a [StoredAnswer],
) -> HashMap<&'a str, (&'a Signal, &'a StoredAnswer)> {
    let answered = enabled.iter().filter_map(|signal| {
        let answer = answers.iter().find(|answer| answer.signal_id == signal.signal_id)?;
        Some((signal.key.as_str(), (signal, answer)))
    });
    answered.collect()
}

fn comparable(answer: &StoredAnswer) -> Option<ComparedValue<'_>> {
    answer.value.map(ComparedValue::Number).or_else(|| answer.choice.as_deref().map(ComparedValue::Choice))
}

/// The values by signal: numbers, and names of options; then the facts.
fn signal_values(values: &[Answer], facts: &[(String, Value)]) -> Value {
    let value = |answer: &Answer| match (answer.value.number(), &answer.value.choice) {
        (Some(number), _) => Value::from(number),
        (None, choice) => Value::from(choice.clone()),
    };
    let answers = values.iter().map(|answer| (answer.signal.clone(), value(answer)));
    Value::Object(answers.chain(facts.iter().cloned()).collect::<Map<_, _>>())
}
