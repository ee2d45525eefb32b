//! What must be true once the faults are lifted and the work is done: pure functions of what the load knows and what the
//! database says.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use crate::analyzer::{Call, INPUT_TOKENS, call_of};
use crate::database::{Delivery, Rows};
use crate::journal::{Fate, Marker, Sent};
use crate::receiver::Role;
use crate::system::{PRICE_MICROS, SYNC_LIMIT, WORKERS};

/// What the harness knows about a tenant.
pub(crate) struct Known<'a> {
    /// Its requests.
    pub(crate) sent: Vec<&'a Sent>,
    /// All calls of the analyzer, by number from 1.
    pub(crate) calls: &'a [Call],
    pub(crate) is_poor: bool,
    /// The rules that fire when the answer becomes yes, and when it becomes no.
    pub(crate) rules: [Uuid; 2],
    pub(crate) endpoints: Vec<KnownEndpoint>,
    pub(crate) nodes: usize,
}

/// What the harness knows about an endpoint.
pub(crate) struct KnownEndpoint {
    pub(crate) id: Uuid,
    pub(crate) role: Role,
    /// The deliveries that its receiver has answered with 200.
    pub(crate) accepted: HashSet<Uuid>,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checked {
    pub(crate) events: usize,
    pub(crate) analyses: usize,
    pub(crate) firings: usize,
    pub(crate) deliveries: usize,
    pub(crate) dead: usize,
}

impl std::ops::Add for Checked {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            analyses: self.analyses + other.analyses,
            firings: self.firings + other.firings,
            deliveries: self.deliveries + other.deliveries,
            dead: self.dead + other.dead,
        }
    }
}

/// Checks one tenant, and returns what does not hold.
pub(crate) fn check(known: &Known<'_>, rows: &Rows) -> (Checked, Vec<String>) {
    let mut wrong = Vec::new();
    let sequence = check_events(known, rows, &mut wrong);
    let concluded = check_charges(known, rows, &sequence, &mut wrong);
    let fired = check_answers(known, rows, &concluded, &mut wrong);
    check_firings(known, rows, fired, &mut wrong);
    check_verdicts(known, &sequence, &concluded, &mut wrong);
    let dead = check_deliveries(known, rows, &concluded, &mut wrong);
    let checked = Checked {
        events: rows.events.len(),
        analyses: rows.charges.len(),
        firings: rows.firings.len(),
        deliveries: rows.deliveries.len(),
        dead,
    };
    (checked, wrong)
}

/// Where each event stands: its object and its sequence number.
type Sequence = HashMap<Marker, (String, i64)>;

/// Every acknowledged event is there once, a refused one is not, a request is recorded as a whole, and sequences have no gap.
fn check_events(known: &Known<'_>, rows: &Rows, wrong: &mut Vec<String>) -> Sequence {
    let mut sequence = Sequence::new();
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for (object_id, seq, text) in &rows.events {
        let count = counts.entry(object_id).or_default();
        *count += 1;
        if *seq != *count {
            wrong.push(format!("object {object_id}: event {count} has the sequence number {seq}"));
        }
        match Marker::parse(text) {
            Some(marker) => {
                if let Some((other, at)) = sequence.insert(marker, (object_id.clone(), *seq)) {
                    wrong.push(format!("event {marker} is there twice: {other} {at} and {object_id} {seq}"));
                }
            }
            None => wrong.push(format!("nobody sent the event {text:?} of {object_id}")),
        }
    }
    for (object_id, event_count) in &rows.objects {
        let found = counts.get(object_id.as_str()).copied().unwrap_or(0);
        if found != *event_count {
            wrong.push(format!("object {object_id} counts {event_count} events and has {found}"));
        }
    }
    let mut markers: HashSet<&Marker> = HashSet::new();
    for sent in &known.sent {
        markers.extend(&sent.markers);
        let is_there = |marker: &&Marker| {
            sequence.get(marker).is_some_and(|(object_id, _)| *object_id == sent.object_id)
        };
        let found = sent.markers.iter().filter(is_there).count();
        let expected = match sent.fate {
            Fate::Recorded => found == sent.markers.len(),
            Fate::Refused => found == 0,
            Fate::Unknown => found == 0 || found == sent.markers.len(),
        };
        if !expected {
            let (object_id, fate, total) = (&sent.object_id, sent.fate, sent.markers.len());
            let shown = sent.markers.iter().map(Marker::to_string).collect::<Vec<_>>().join(" ");
            wrong.push(format!("{fate:?} events of {object_id}: {found} of {total} are there ({shown})"));
        }
    }
    for marker in sequence.keys().filter(|marker| !markers.contains(marker)) {
        wrong.push(format!("nobody sent the event {marker}"));
    }
    sequence
}

/// An analysis that was written, in the order of the ledger.
struct Concluded {
    call: u64,
    object_id: String,
    /// The newest event that it read.
    read: i64,
    is_hot: bool,
}

/// Every charge belongs to an honest call of the analyzer about its object, none to the same call twice.
fn check_charges(
    known: &Known<'_>,
    rows: &Rows,
    sequence: &Sequence,
    wrong: &mut Vec<String>,
) -> Vec<Concluded> {
    let mut charged = HashSet::new();
    let mut concluded = Vec::new();
    for charge in &rows.charges {
        let number = charge.output_tokens.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let object_id = charge.object_id.as_deref().unwrap_or_default();
        let call = usize::try_from(number).ok().and_then(|number| known.calls.get(number.checked_sub(1)?));
        let Some(call) = call.filter(|call| call.is_honest) else {
            wrong.push(format!("a charge for {object_id} without an answer: call {number}"));
            continue;
        };
        if !charged.insert(number) {
            wrong.push(format!("call {number} about {object_id} is charged twice"));
        }
        if (charge.input_tokens, charge.delta_micros) != (Some(INPUT_TOKENS), -PRICE_MICROS) {
            wrong.push(format!(
                "call {number} about {object_id} costs {} micro-dollars",
                -charge.delta_micros
            ));
        }
        match sequence.get(&call.newest) {
            Some((about, read)) if about == object_id => concluded.push(Concluded {
                call: number,
                object_id: object_id.to_owned(),
                read: *read,
                is_hot: call.newest.is_hot,
            }),
            found => wrong.push(format!("call {number} is charged to {object_id} and read {found:?}")),
        }
    }
    // Nothing is in flight any more. Until the first of them is charged, as many may have started as there are slots.
    let in_flight = i64::try_from(known.nodes * WORKERS + SYNC_LIMIT).unwrap_or(i64::MAX);
    if known.is_poor && rows.balance_micros < -(in_flight * PRICE_MICROS) {
        wrong.push(format!("the balance of a tenant without money is {}", rows.balance_micros));
    }
    concluded
}

/// What must have fired: rule, object and the call whose answer met the condition.
type Fired = BTreeMap<(Uuid, String, u64), i64>;

/// Each object has the newest of its answers, which covers all its events. Returns what a model of the rules makes of them.
fn check_answers(known: &Known<'_>, rows: &Rows, concluded: &[Concluded], wrong: &mut Vec<String>) -> Fired {
    let mut current: BTreeMap<&str, &Concluded> = BTreeMap::new();
    let mut matched: HashSet<(Uuid, &str)> = HashSet::new();
    let mut fired = Fired::new();
    for one in concluded {
        let newest = current.entry(&one.object_id).or_insert(one);
        // An older answer never replaces a newer one.
        if one.read >= newest.read {
            *newest = one;
        }
        for (rule, matches) in known.rules.iter().zip([newest.is_hot, !newest.is_hot]) {
            let state = (*rule, one.object_id.as_str());
            if !matches {
                matched.remove(&state);
            } else if matched.insert(state) {
                *fired.entry((*rule, one.object_id.clone(), newest.call)).or_default() += 1;
            }
        }
    }
    let answers: HashMap<&str, (u64, i64)> = rows
        .answers
        .iter()
        .map(|(object_id, value, read)| (object_id.as_str(), (call_of(*value), *read)))
        .collect();
    for (object_id, event_count) in &rows.objects {
        let expected = current.get(object_id.as_str()).map(|newest| (newest.call, newest.read));
        let found = answers.get(object_id.as_str()).copied();
        if found != expected {
            wrong.push(format!(
                "object {object_id} has the answer {found:?}, not {expected:?} (call, newest event)"
            ));
        }
        // A verdict that failed owes nothing, nor does anybody to a tenant without money.
        let is_owed = object_id.starts_with("queued") && !known.is_poor;
        if is_owed && found.is_none_or(|(_, read)| read != *event_count) {
            wrong.push(format!("object {object_id} has {event_count} events and its answer is {found:?}"));
        }
    }
    fired
}

/// Every rule has fired as the model says, and only so.
fn check_firings(known: &Known<'_>, rows: &Rows, mut fired: Fired, wrong: &mut Vec<String>) {
    for firing in &rows.firings {
        let values: Value = serde_json::from_str(&firing.signal_values).unwrap_or_default();
        let call = values["hot"].as_f64().map_or(0, call_of);
        *fired.entry((firing.rule_id, firing.object_id.clone(), call)).or_default() -= 1;
        if firing.status != "dispatched" {
            wrong.push(format!("a firing for {} is {}", firing.object_id, firing.status));
        }
    }
    for ((rule, object_id, call), missing) in fired.into_iter().filter(|(_, missing)| *missing != 0) {
        let name = if rule == known.rules[0] { "yes" } else { "no" };
        let what = if missing > 0 { "did not fire" } else { "fired too often" };
        wrong.push(format!(
            "the rule for {name} {what} for {object_id} with call {call} (by {})",
            missing.abs()
        ));
    }
}

/// An answer that a caller was given is charged, and has read the caller's events.
fn check_verdicts(known: &Known<'_>, sequence: &Sequence, concluded: &[Concluded], wrong: &mut Vec<String>) {
    let read: HashMap<u64, i64> = concluded.iter().map(|one| (one.call, one.read)).collect();
    for sent in &known.sent {
        let Some(call) = sent.verdict else { continue };
        let own = sent.markers.iter().filter_map(|marker| Some(sequence.get(marker)?.1)).max();
        match (read.get(&call), own) {
            (Some(read), Some(own)) if *read >= own => {}
            (None, _) => {
                wrong.push(format!("the verdict of call {call} about {} is not charged", sent.object_id));
            }
            (read, own) => wrong.push(format!("the verdict of call {call} read {read:?} of {own:?} events")),
        }
    }
}

/// Every analysis is announced to every endpoint once, every firing once to its endpoint; and what is owed has arrived or is
/// dead. Returns how many are dead.
fn check_deliveries(
    known: &Known<'_>,
    rows: &Rows,
    concluded: &[Concluded],
    wrong: &mut Vec<String>,
) -> usize {
    let mut dead = 0;
    let mut announced: BTreeMap<(Uuid, u64), usize> = BTreeMap::new();
    let mut triggered = 0;
    let mut ids = HashSet::new();
    for delivery in &rows.deliveries {
        ids.insert(delivery.id);
        let payload: Value = serde_json::from_str(&delivery.payload).unwrap_or_default();
        if delivery.event_type == "analysis.completed" {
            let call = payload["answers"][0]["noul"].as_f64().map_or(0, call_of);
            *announced.entry((delivery.endpoint_id, call)).or_default() += 1;
        } else {
            triggered += 1;
        }
        dead += usize::from(delivery.outcome.as_deref() == Some("dead"));
        check_delivery(known, delivery, wrong);
    }
    if triggered != rows.firings.len() {
        wrong.push(format!("{} firings queued {triggered} deliveries", rows.firings.len()));
    }
    let verdicts: BTreeSet<u64> = known.sent.iter().filter_map(|sent| sent.verdict).collect();
    for endpoint in &known.endpoints {
        for one in concluded {
            let count = announced.remove(&(endpoint.id, one.call)).unwrap_or(0);
            // A caller who got no answer cannot tell whether there was a verdict.
            let expected = match one.object_id.starts_with("queued") {
                true => 1..=1,
                false if verdicts.contains(&one.call) => 0..=0,
                false => 0..=1,
            };
            if !expected.contains(&count) {
                let (call, object_id, role) = (one.call, &one.object_id, endpoint.role);
                wrong.push(format!(
                    "call {call} about {object_id} is announced {count} times to the {role:?} receiver"
                ));
            }
        }
        for unknown in endpoint.accepted.difference(&ids) {
            wrong.push(format!("delivery {unknown} arrived and is not known"));
        }
    }
    for ((_, call), count) in announced {
        wrong.push(format!("call {call} is announced {count} times and not charged"));
    }
    dead
}

fn check_delivery(known: &Known<'_>, delivery: &Delivery, wrong: &mut Vec<String>) {
    let Delivery { id, endpoint_id, outcome, queued, .. } = delivery;
    let Some(endpoint) = known.endpoints.iter().find(|endpoint| endpoint.id == *endpoint_id) else {
        wrong.push(format!("delivery {id} is for nobody"));
        return;
    };
    let has_arrived = endpoint.accepted.contains(id);
    let holds = match (endpoint.role, outcome.as_deref(), queued) {
        (Role::Steady | Role::Moody, Some("delivered"), None) => has_arrived,
        // It may misbehave for longer than the attempts last.
        (Role::Moody, Some("dead"), None) => true,
        // A refusal is final. Where nobody responds, attempts fail, and meanwhile the endpoint rests.
        (Role::Gone | Role::Silent, Some("dead"), None) | (Role::Silent, None, Some(_)) => !has_arrived,
        _ => false,
    };
    if !holds {
        wrong.push(format!(
            "delivery {id} to the {:?} receiver: outcome {outcome:?}, queued {queued:?}, arrived {has_arrived}",
            endpoint.role
        ));
    }
}

#[cfg(test)]
mod tests;
