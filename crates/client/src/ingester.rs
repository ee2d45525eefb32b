//! Sends events in the background, many to a request.

mod batches;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::api::EventInput;
use model::backoff::{Backoff, Jitter};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use self::batches::{Batch, Batches, Hurry, Limits};
use crate::retry::random_fraction;
use crate::{Client, Error, Ingest};

/// What the service takes in one request: events, and bytes with room for what is around them.
const MAX_BATCH_EVENTS: usize = 500;
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024 - 64 * 1024;
/// How long a batch waits before it is sent again, at first and at most.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30), jitter: Jitter::UP_TO_HALF };

/// What is called with events that could not be delivered.
pub type OnError = Arc<dyn Fn(FailedBatch) + Send + Sync>;

/// The options of an ingester.
#[derive(Clone)]
pub struct IngesterOptions {
    /// How many events one request has at most; 500 at most.
    pub max_batch_events: usize,
    /// How many bytes the events of one request have at most.
    pub max_batch_bytes: usize,
    /// How long an event waits for others.
    pub max_delay: Duration,
    /// How many events may wait until [`Ingester::send`] does.
    pub max_pending_events: usize,
    /// How many bytes may wait until [`Ingester::send`] does.
    pub max_pending_bytes: usize,
    /// How many requests may be on the way at once.
    pub max_in_flight: usize,
    /// For how long temporary failures are retried.
    pub retry_for: Duration,
    /// How long [`Ingester::close`] tries to deliver what is left. What is not delivered by then is given up and reported.
    pub close_timeout: Duration,
    /// What is called with events that could not be delivered, instead of an error of [`Ingester::close`].
    pub on_error: Option<OnError>,
}

impl Default for IngesterOptions {
    fn default() -> Self {
        Self {
            max_batch_events: 100,
            max_batch_bytes: 1024 * 1024,
            max_delay: Duration::from_secs(1),
            max_pending_events: 10_000,
            max_pending_bytes: 32 * 1024 * 1024,
            max_in_flight: 4,
            retry_for: Duration::from_mins(5),
            close_timeout: Duration::from_secs(30),
            on_error: None,
        }
    }
}

impl fmt::Debug for IngesterOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IngesterOptions")
            .field("max_batch_events", &self.max_batch_events)
            .field("max_batch_bytes", &self.max_batch_bytes)
            .field("max_delay", &self.max_delay)
            .field("max_pending_events", &self.max_pending_events)
            .field("max_pending_bytes", &self.max_pending_bytes)
            .field("max_in_flight", &self.max_in_flight)
            .field("retry_for", &self.retry_for)
            .field("close_timeout", &self.close_timeout)
            .finish_non_exhaustive()
    }
}

impl IngesterOptions {
    fn check(&self) -> Result<(), Error> {
        let wrong = |message: String| Err(Error::Setup(message));
        if !(1..=MAX_BATCH_EVENTS).contains(&self.max_batch_events) {
            return wrong(format!("max_batch_events: it must be from 1 to {MAX_BATCH_EVENTS}"));
        }
        if !(1..=MAX_BATCH_BYTES).contains(&self.max_batch_bytes) {
            return wrong(format!("max_batch_bytes: it must be from 1 to {MAX_BATCH_BYTES}"));
        }
        if [self.max_pending_events, self.max_pending_bytes, self.max_in_flight].contains(&0) {
            return wrong(
                "max_pending_events, max_pending_bytes and max_in_flight must be 1 or more".to_owned(),
            );
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits {
            batch_events: self.max_batch_events,
            batch_bytes: self.max_batch_bytes,
            delay: self.max_delay,
            pending_events: self.max_pending_events,
            pending_bytes: self.max_pending_bytes,
        }
    }
}

/// Events of one object that could not be delivered.
#[derive(Clone, Debug)]
pub struct FailedBatch {
    /// The object.
    pub object_id: String,
    /// Its type, if one was given.
    pub object_type: Option<String>,
    /// The events.
    pub events: Vec<EventInput>,
    /// Why.
    pub error: Arc<Error>,
}

/// Some events could not be delivered, and there is no `on_error`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{events} events were not delivered; the last error: {last}")]
pub struct IngestError {
    /// How many.
    pub events: usize,
    /// The events themselves: up to `max_pending_events` that failed before the ingester was closed, and all that were left then.
    pub batches: Vec<FailedBatch>,
    /// Why the last of them were not.
    pub last: Arc<Error>,
}

/// Sends events in the background. [`Ingester::close`] delivers everything, or returns what it could not deliver in time.
///
/// Events are grouped by object, and sent when there are `max_batch_events` or `max_batch_bytes` of them, or after `max_delay`. Of
/// one object they arrive in the order in which they were handed over. Every request has an idempotency key, so that no event is
/// recorded twice. Temporary failures are retried for `retry_for`, once it is closed for at most `close_timeout`, and an invalid
/// event does not take others with it.
///
/// An ingester that is dropped without [`Ingester::close`] still delivers what waits, for as long as its runtime runs.
///
/// ```no_run
/// # async fn example(client: auspex_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use auspex_client::{IngesterOptions, api::EventInput};
///
/// let ingester = client.ingester(IngesterOptions::default())?;
/// for number in 0..1_000 {
///     ingester.send(&format!("seller/{}", number % 10), Some("user"), EventInput::event("page_viewed")).await?;
/// }
/// ingester.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct Ingester {
    shared: Arc<Shared>,
    workers: TaskTracker,
}

struct Shared {
    client: Client,
    options: IngesterOptions,
    state: Mutex<State>,
    /// Notified whenever the state changes.
    changed: Notify,
}

struct State {
    batches: Batches,
    is_closing: bool,
    /// When everything is given up, once [`Ingester::close`] waits; never, if that is too far to be a point in time.
    give_up_at: Option<Instant>,
    /// Callers that wait for a flush: open batches are then sent at once.
    flushing: usize,
    /// Callers that wait for room: what makes most room is then sent before it is due.
    waiting: usize,
    failed: Option<IngestError>,
}

impl Client {
    /// Starts sending events in the background. To be called within a Tokio runtime, on which the requests are made.
    pub fn ingester(&self, options: IngesterOptions) -> Result<Ingester, Error> {
        options.check()?;
        let state = State {
            batches: Batches::new(options.limits()),
            is_closing: false,
            give_up_at: None,
            flushing: 0,
            waiting: 0,
            failed: None,
        };
        let (workers, in_flight) = (TaskTracker::new(), options.max_in_flight);
        let shared = Arc::new(Shared {
            client: self.clone(),
            options,
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        for _ in 0..in_flight {
            let shared = Arc::clone(&shared);
            workers.spawn(async move { shared.work().await });
        }
        workers.close();
        Ok(Ingester { shared, workers })
    }
}

impl Ingester {
    /// Hands over an event, and waits while too much waits.
    pub async fn send(
        &self,
        object_id: &str,
        object_type: Option<&str>,
        event: EventInput,
    ) -> Result<(), Error> {
        if matches!(object_id, "" | "." | "..") {
            return Err(Error::Setup("object_id: it must not be empty, `.` or `..`".to_owned()));
        }
        let bytes =
            serde_json::to_vec(&event).map_err(|reason| Error::Setup(format!("no JSON: {reason}")))?;
        // With the comma after it.
        let bytes = bytes.len() + 1;
        let mut event = Some(event);
        let mut add = |state: &mut State| {
            let has_room = state.batches.has_room_for(bytes);
            if let Some(event) = event.take_if(|_| has_room) {
                state.batches.add(object_id, object_type, event, bytes, Instant::now());
            }
            has_room
        };
        let is_added = add(&mut self.shared.state());
        if !is_added {
            let _waiting = Counted::new(&self.shared, |state| &mut state.waiting);
            self.shared.until(add).await;
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// How many events wait or are being sent.
    pub fn pending_events(&self) -> usize {
        self.shared.state().batches.pending_events()
    }

    /// Waits until everything that was handed over so far is delivered or given up.
    pub async fn flush(&self) {
        let end = self.shared.state().batches.next_number();
        let _flushing = Counted::new(&self.shared, |state| &mut state.flushing);
        self.shared.until(|state| !state.batches.has_before(end)).await;
    }

    /// Delivers everything and ends, within `close_timeout`. An error has what was not delivered, unless `on_error` was told.
    ///
    /// What was being sent when the time was over may have been recorded all the same: whoever sends it again by other means may
    /// record it twice.
    pub async fn close(self) -> Result<(), IngestError> {
        self.shared.state().give_up_at = Instant::now().checked_add(self.shared.options.close_timeout);
        self.shared.begin_closing();
        self.workers.wait().await;
        self.shared.state().failed.take().map_or(Ok(()), Err)
    }
}

impl Drop for Ingester {
    fn drop(&mut self) {
        self.shared.begin_closing();
    }
}

impl fmt::Debug for Ingester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.pending_events();
        formatter.debug_struct("Ingester").field("pending_events", &pending).finish_non_exhaustive()
    }
}

/// Counts a caller who waits, until it is dropped.
struct Counted<'a> {
    shared: &'a Shared,
    counter: fn(&mut State) -> &mut usize,
}

impl<'a> Counted<'a> {
    fn new(shared: &'a Shared, counter: fn(&mut State) -> &mut usize) -> Self {
        *counter(&mut shared.state()) += 1;
        shared.changed.notify_waiters();
        Self { shared, counter }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.shared.state()) -= 1;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_closing(&self) {
        self.state().is_closing = true;
        self.changed.notify_waiters();
    }

    /// Returns once somebody has waited for the end for too long.
    async fn time_is_over(&self) {
        let mut give_up_at = None;
        self.until(|state| {
            give_up_at = state.give_up_at;
            give_up_at.is_some()
        })
        .await;
        if let Some(give_up_at) = give_up_at {
            sleep_until(give_up_at).await;
        }
    }

    /// Returns once a condition holds.
    async fn until(&self, mut condition: impl FnMut(&mut State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the state is looked at, so that no change is missed.
            changed.as_mut().enable();
            let holds = condition(&mut self.state());
            if holds {
                return;
            }
            changed.await;
        }
    }

    async fn work(&self) {
        while let Some(batch) = self.next_batch().await {
            let object_id = batch.object_id.clone();
            // A caller that is dropped in the middle, such as a runtime that ends, takes the batch with it.
            for failure in self.deliver(batch).await {
                self.report(failure);
            }
            self.state().batches.done(&object_id);
            self.changed.notify_waiters();
        }
    }

    /// The next batch to be sent; none once the ingester is closed and nothing is left.
    async fn next_batch(&self) -> Option<Batch> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let due = {
                let mut state = self.state();
                let hurry = match &*state {
                    State { is_closing: true, .. } | State { flushing: 1.., .. } => Hurry::All,
                    State { waiting: 1.., .. } => Hurry::Largest,
                    _ => Hurry::None,
                };
                if let Some(batch) = state.batches.take(Instant::now(), hurry) {
                    return Some(batch);
                }
                if state.is_closing && state.batches.pending_events() == 0 {
                    return None;
                }
                state.batches.next_due()
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = changed => {}
                        () = sleep_until(due) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Sends a batch, for as long as it may help; returns what could not be delivered.
    async fn deliver(&self, batch: Batch) -> Vec<FailedBatch> {
        let give_up_at = Instant::now().checked_add(self.options.retry_for);
        let (mut waiting, mut failed) = (vec![batch], Vec::new());
        while let Some(batch) = waiting.pop() {
            let outcome = tokio::select! {
                biased;
                () = self.time_is_over() => {
                    let limit = self.options.close_timeout.as_secs_f64();
                    Err(Error::GivenUp(format!("not delivered within {limit} s after close")))
                }
                outcome = self.send_until(&batch, give_up_at) => outcome,
            };
            let Err(error) = outcome else { continue };
            if batch.events.len() > 1 && matches!(error.status(), Some(400 | 413)) {
                // One event is invalid, and must not take the others with it.
                let (first, second) = batch.halves();
                waiting.extend([second, first]);
            } else {
                failed.push(failure(batch, error));
            }
        }
        failed
    }

    /// Sends a batch again and again while it fails for the moment only.
    async fn send_until(&self, batch: &Batch, give_up_at: Option<Instant>) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            let mut ingest = Ingest::new(batch.events.iter().cloned()).idempotency_key(&batch.key);
            if let Some(object_type) = &batch.object_type {
                ingest = ingest.object_type(object_type);
            }
            let Err(error) = self.client.send(&batch.object_id, ingest).await else { return Ok(()) };
            let refusal = error.refusal();
            if refusal.is_some_and(|refusal| refusal.events_recorded) {
                return Ok(());
            }
            let is_temporary = match &error {
                Error::Transport(_) => true,
                Error::Refused(refusal) => matches!(refusal.status, 408 | 429 | 500 | 502 | 503 | 504),
                Error::Unreadable { .. } | Error::Setup(_) | Error::GivenUp(_) => false,
            };
            attempts += 1;
            let asked = refusal.and_then(|refusal| refusal.retry_after).unwrap_or_default();
            let delay = BACKOFF.wait(attempts, random_fraction()).max(asked);
            let is_too_late =
                give_up_at.is_some_and(|at| at.saturating_duration_since(Instant::now()) < delay);
            if !is_temporary || is_too_late {
                return Err(error);
            }
            tokio::time::sleep(delay).await;
        }
    }

    fn report(&self, failure: FailedBatch) {
        if let Some(on_error) = &self.options.on_error {
            // A panic of the program's must not keep its other events from being delivered.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| on_error(failure)));
            return;
        }
        let mut state = self.state();
        let (before, mut batches) =
            state.failed.take().map_or((0, Vec::new()), |failed| (failed.events, failed.batches));
        let (events, last) = (before + failure.events.len(), Arc::clone(&failure.error));
        // Bounded like what waits: a program that ignores failures must not run out of memory by them. What is left when it is
        // closed is bounded already.
        if state.is_closing || events <= self.options.max_pending_events {
            batches.push(failure);
        }
        state.failed = Some(IngestError { events, batches, last });
    }
}

fn failure(batch: Batch, error: Error) -> FailedBatch {
    let Batch { object_id, object_type, events, .. } = batch;
    FailedBatch { object_id, object_type, events, error: Arc::new(error) }
}
