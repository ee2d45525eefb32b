//! Groups events by object into requests. Free of input and output, tasks and clocks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use model::api::EventInput;
use tokio::time::Instant;
use uuid::Uuid;

/// When a batch is sent, and how much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) batch_events: usize,
    pub(super) batch_bytes: usize,
    pub(super) delay: Duration,
    pub(super) pending_events: usize,
    pub(super) pending_bytes: usize,
}

/// Events of one object that are sent in one request.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// Counts batches in the order of opening.
    pub(super) number: u64,
    pub(super) object_id: String,
    pub(super) object_type: Option<String>,
    pub(super) events: Vec<EventInput>,
    /// The idempotency key of its request.
    pub(super) key: String,
    /// The bytes of the events as JSON.
    bytes: usize,
    opened_at: Instant,
}

impl Batch {
    /// The batch in two, each with a key of its own.
    pub(super) fn halves(mut self) -> (Self, Self) {
        let second = self.events.split_off(self.events.len() / 2);
        let second = Self { events: second, key: new_key(), ..self.clone() };
        (Self { key: new_key(), ..self }, second)
    }
}

fn new_key() -> String {
    Uuid::new_v4().to_string()
}

/// What is sent before it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hurry {
    /// Nothing.
    None,
    /// The largest batch, because somebody waits for room.
    Largest,
    /// Everything.
    All,
}

/// What a batch weighs while it is sent.
#[derive(Clone, Copy, Debug)]
struct Weight {
    number: u64,
    events: usize,
    bytes: usize,
}

/// All events that wait or are being sent.
#[derive(Debug)]
pub(super) struct Batches {
    limits: Limits,
    /// The batch of each object that takes events, by its number.
    open: BTreeMap<u64, Batch>,
    /// The number of each object's open batch.
    open_of: HashMap<String, u64>,
    full: VecDeque<Batch>,
    sending: HashMap<String, Weight>,
    next_number: u64,
    pending_events: usize,
    pending_bytes: usize,
}

impl Batches {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
            open_of: HashMap::new(),
            full: VecDeque::new(),
            sending: HashMap::new(),
            next_number: 0,
            pending_events: 0,
            pending_bytes: 0,
        }
    }

    /// How many events wait or are being sent.
    pub(super) fn pending_events(&self) -> usize {
        self.pending_events
    }

    /// Whether another event may wait. A single one always may.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.pending_events == 0
            || (self.pending_events < self.limits.pending_events
                && self.pending_bytes + bytes <= self.limits.pending_bytes)
    }

    /// Adds an event to the batch of its object.
    pub(super) fn add(
        &mut self,
        object_id: &str,
        object_type: Option<&str>,
        event: EventInput,
        bytes: usize,
        now: Instant,
    ) {
        let open = self.open_of.get(object_id).copied();
        let open = open.filter(|number| {
            let takes = self.open.get(number).is_some_and(|batch| self.takes(batch, object_type, bytes));
            if !takes {
                self.fill(*number);
            }
            takes
        });
        let number = open.unwrap_or_else(|| self.open_batch(object_id, now));
        let Some(batch) = self.open.get_mut(&number) else { return };
        if batch.object_type.is_none() {
            batch.object_type = object_type.map(str::to_owned);
        }
        batch.events.push(event);
        batch.bytes += bytes;
        let is_full =
            batch.events.len() >= self.limits.batch_events || batch.bytes >= self.limits.batch_bytes;
        self.pending_events += 1;
        self.pending_bytes += bytes;
        if is_full {
            self.fill(number);
        }
    }

    fn takes(&self, batch: &Batch, object_type: Option<&str>, bytes: usize) -> bool {
        let is_same_type = object_type.is_none_or(|object_type| {
            batch.object_type.as_deref().is_none_or(|of_batch| of_batch == object_type)
        });
        is_same_type && batch.bytes + bytes <= self.limits.batch_bytes
    }

    fn open_batch(&mut self, object_id: &str, now: Instant) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let batch = Batch {
            number,
            object_id: object_id.to_owned(),
            object_type: None,
            events: Vec::new(),
            key: new_key(),
            bytes: 0,
            opened_at: now,
        };
        self.open.insert(number, batch);
        self.open_of.insert(object_id.to_owned(), number);
        number
    }

    fn fill(&mut self, number: u64) {
        if let Some(batch) = self.close(number) {
            self.full.push_back(batch);
        }
    }

    fn close(&mut self, number: u64) -> Option<Batch> {
        let batch = self.open.remove(&number)?;
        self.open_of.remove(&batch.object_id);
        Some(batch)
    }

    /// When the next batch that can be sent has waited long enough.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.free_and_open().next().and_then(|batch| batch.opened_at.checked_add(self.limits.delay))
    }

    /// Takes a batch to send. Of one object, one at a time: its events arrive in order. Full ones go first, then those that
    /// have waited long enough, then those that are in a hurry.
    pub(super) fn take(&mut self, now: Instant, hurry: Hurry) -> Option<Batch> {
        let full = self.full.iter().position(|batch| !self.sending.contains_key(&batch.object_id));
        let batch = if let Some(at) = full {
            self.full.remove(at)?
        } else {
            let number = self.choose_open(now, hurry)?;
            self.close(number)?
        };
        let weight = Weight { number: batch.number, events: batch.events.len(), bytes: batch.bytes };
        self.sending.insert(batch.object_id.clone(), weight);
        Some(batch)
    }

    fn choose_open(&self, now: Instant, hurry: Hurry) -> Option<u64> {
        let oldest = self.free_and_open().next()?;
        if hurry == Hurry::All || now.saturating_duration_since(oldest.opened_at) >= self.limits.delay {
            return Some(oldest.number);
        }
        let largest = || self.free_and_open().max_by_key(|batch| batch.bytes).map(|batch| batch.number);
        if hurry == Hurry::Largest { largest() } else { None }
    }

    /// Open batches whose object has nothing else on the way, oldest first.
    fn free_and_open(&self) -> impl Iterator<Item = &Batch> {
        let waiting: HashSet<&str> = self.full.iter().map(|batch| batch.object_id.as_str()).collect();
        self.open.values().filter(move |batch| {
            !self.sending.contains_key(&batch.object_id) && !waiting.contains(batch.object_id.as_str())
        })
    }

    /// The batch of an object was delivered or given up.
    pub(super) fn done(&mut self, object_id: &str) {
        if let Some(weight) = self.sending.remove(object_id) {
            self.pending_events -= weight.events;
            self.pending_bytes -= weight.bytes;
        }
    }

    /// The number that the next batch will have.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether a batch with a lower number is not done.
    pub(super) fn has_before(&self, number: u64) -> bool {
        let full = self.full.iter().map(|batch| batch.number);
        let sending = self.sending.values().map(|weight| weight.number);
        self.open.keys().copied().chain(full).chain(sending).any(|other| other < number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        batch_events: 3,
        batch_bytes: 100,
        delay: Duration::from_secs(1),
        pending_events: 5,
        pending_bytes: 250,
    };

    fn add(batches: &mut Batches, object: &str, object_type: Option<&str>, name: &str, bytes: usize) {
        batches.add(object, object_type, EventInput::event(name), bytes, Instant::now());
    }

    fn names(batch: &Batch) -> Vec<&str> {
        batch.events.iter().map(|event| event.name.as_deref().unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn batches_are_sent_when_they_are_full_or_have_waited() {
        let mut batches = Batches::new(LIMITS);
        for name in ["1", "2", "3", "4"] {
            add(&mut batches, "a", None, name, 10);
        }
        add(&mut batches, "b", None, "5", 10);
        let full = batches.take(Instant::now(), Hurry::None).unwrap();
        assert_eq!((full.object_id.as_str(), names(&full)), ("a", vec!["1", "2", "3"]));
        assert!(batches.take(Instant::now(), Hurry::None).is_none(), "the rest has not waited long enough");
        tokio::time::advance(LIMITS.delay).await;
        let waited = batches.take(Instant::now(), Hurry::None).unwrap();
        assert_eq!(waited.object_id, "b", "the rest of a must come after its first batch");
        assert!(batches.take(Instant::now(), Hurry::All).is_none());
        batches.done("a");
        assert_eq!(names(&batches.take(Instant::now(), Hurry::None).unwrap()), ["4"]);
        batches.done("a");
        batches.done("b");
        assert_eq!(batches.pending_events(), 0);
        assert!(batches.has_room_for(usize::MAX), "a single event is never refused");
    }

    #[test]
    fn a_batch_has_one_type_and_not_too_many_bytes() {
        let mut batches = Batches::new(LIMITS);
        add(&mut batches, "a", None, "1", 10);
        add(&mut batches, "a", Some("user"), "2", 10);
        add(&mut batches, "a", Some("shop"), "3", 60);
        add(&mut batches, "a", None, "4", 60);
        let now = Instant::now();
        let mut sent = Vec::new();
        while let Some(batch) = batches.take(now, Hurry::All) {
            sent.push((batch.object_type.clone(), names(&batch).join("")));
            batches.done("a");
        }
        let (user, shop) = (Some("user".to_owned()), Some("shop".to_owned()));
        assert_eq!(sent, [(user, "12".to_owned()), (shop, "3".to_owned()), (None, "4".to_owned())]);
    }

    #[test]
    fn what_may_wait_is_bounded_and_the_largest_batch_makes_room() {
        let mut batches = Batches::new(LIMITS);
        add(&mut batches, "a", None, "1", 10);
        add(&mut batches, "b", None, "2", 90);
        assert!(batches.has_room_for(150) && !batches.has_room_for(151));
        for object in ["c", "d", "e"] {
            add(&mut batches, object, None, "3", 1);
        }
        assert!(!batches.has_room_for(1), "five events wait");
        assert!(batches.has_before(batches.next_number()));
        assert_eq!(batches.take(Instant::now(), Hurry::Largest).unwrap().object_id, "b");
        batches.done("b");
        assert!(batches.has_room_for(1));
    }

    #[test]
    fn halves_have_keys_of_their_own() {
        let mut batches = Batches::new(LIMITS);
        for name in ["1", "2", "3"] {
            add(&mut batches, "a", None, name, 10);
        }
        let whole = batches.take(Instant::now(), Hurry::None).unwrap();
        let (first, second) = whole.clone().halves();
        assert_eq!((names(&first), names(&second)), (vec!["1"], vec!["2", "3"]));
        assert!(first.key != second.key && first.key != whole.key);
    }
}
