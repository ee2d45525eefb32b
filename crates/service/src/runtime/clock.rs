//! The only source of the current time.
//!
//! The time that the service goes by runs with the host's monotonic clock, so nothing happens when somebody sets the host's
//! clock. Every heartbeat compares it with a reference: with the database's clock where processes share one, so that all of
//! them go by the same time, else with the host's clock. A small difference is corrected at once. A large one is believed
//! only after the reference has stood by it for a minute; until then, nothing is deleted for its age
//! (`docs/adr/0017-limits-on-database-work.md`).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use tokio::sync::watch;
use tracing::{info, warn};

/// A larger difference from the database's clock is not corrected at once.
const DATABASE_LIMIT: Duration = Duration::from_secs(2);
/// A larger difference from the host's clock is not corrected at once.
const HOST_LIMIT: Duration = Duration::from_mins(1);
/// How long a reference must stand by a large difference before it is believed, and by the time at the start of the process
/// before anything is deleted by it.
const CONFIRMED_AFTER: Duration = Duration::from_mins(1);
/// The same before the time at the start is confirmed. It is shorter, since neither clock is more credible yet.
const CORRECTED_AFTER: Duration = Duration::from_secs(10);
/// A reading of the database's clock that took longer says too little.
const SLOWEST_READING: Duration = Duration::from_secs(1);

/// The current time, and sleeping until a given time. Cheap to clone; clones show the same time.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    source: Source,
    /// The difference between the time and the monotonic clock, in microseconds.
    offset: AtomicI64,
    agreement: Mutex<Agreement>,
    /// Tells sleepers that the time was corrected.
    corrections: watch::Sender<()>,
    is_confirmed: watch::Sender<bool>,
}

enum Source {
    /// The host's clocks; the microseconds are what a test has set its clock ahead.
    System(Instant, AtomicI64),
    #[cfg(feature = "test-util")]
    Manual(watch::Receiver<Readings>),
}

/// What the host's clocks show in a test.
#[cfg(feature = "test-util")]
#[derive(Clone, Copy)]
struct Readings {
    host: Timestamp,
    monotonic: i64,
}

/// How the time compares with its reference.
struct Agreement {
    /// Since when no reading has contradicted it, on the monotonic clock.
    since: i64,
    is_confirmed: bool,
    pending: Option<PendingJump>,
}

/// A large difference that the reference has shown.
#[derive(Clone, Copy)]
struct PendingJump {
    since: i64,
    offset: i64,
}

/// A point on the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct Moment(i64);

/// A reading of the database's clock, and when it was asked and answered.
#[derive(Clone, Copy)]
pub(crate) struct DatabaseReading {
    pub(crate) asked: Moment,
    pub(crate) shown: Timestamp,
    pub(crate) answered: Moment,
}

impl DatabaseReading {
    /// The difference from the monotonic clock, with the reading in the middle between question and answer.
    fn offset(self) -> i64 {
        self.shown.micros() - self.asked.0.midpoint(self.answered.0)
    }

    fn took(self) -> i64 {
        self.answered.0 - self.asked.0
    }
}

/// Advances a manual clock.
#[cfg(feature = "test-util")]
#[derive(Clone)]
pub struct ClockHands(Arc<watch::Sender<Readings>>);

impl Clock {
    /// The host's clock, until the database's is known.
    pub fn system() -> Self {
        Self::new(Source::System(Instant::now(), AtomicI64::new(0)))
    }

    /// The host's clock, as if it were ahead by so much.
    #[cfg(debug_assertions)]
    pub fn system_ahead(by: Duration) -> Self {
        Self::new(Source::System(Instant::now(), AtomicI64::new(micros(by))))
    }

    /// A clock that stands still until it is advanced, so that a test can skip a day in one line. It never goes by the
    /// database's clock, which no test can advance.
    #[cfg(feature = "test-util")]
    pub fn manual(start: Timestamp) -> (Self, ClockHands) {
        let (hands, time) = watch::channel(Readings { host: start, monotonic: 0 });
        (Self::new(Source::Manual(time)), ClockHands(Arc::new(hands)))
    }

    fn new(source: Source) -> Self {
        let (monotonic, host) = (source.monotonic(), source.host());
        let agreement = Agreement { since: monotonic, is_confirmed: false, pending: None };
        Self(Arc::new(Inner {
            source,
            offset: AtomicI64::new(host - monotonic),
            agreement: Mutex::new(agreement),
            corrections: watch::Sender::new(()),
            is_confirmed: watch::Sender::new(false),
        }))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.source.monotonic() + self.0.offset.load(Ordering::Relaxed))
    }

    /// Returns once the clock shows `instant` or later.
    pub async fn sleep_until(&self, instant: Timestamp) {
        let mut corrections = self.0.corrections.subscribe();
        loop {
            let offset = self.0.offset.load(Ordering::Relaxed);
            let due = Moment(instant.micros().saturating_sub(offset));
            tokio::select! {
                () = self.0.source.reaches(due) => return,
                // The sender lives as long as this clock.
                _ = corrections.changed() => {}
            }
        }
    }

    /// Returns after `duration` on this clock, counted from the call and not from the first poll of the future.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        self.sleep_until(self.now() + duration)
    }

    /// Returns once the time has been confirmed, so that something may be deleted for its age.
    pub(crate) async fn confirmed(&self) {
        let mut is_confirmed = self.0.is_confirmed.subscribe();
        // The sender lives as long as this clock.
        let _ = is_confirmed.wait_for(|is_confirmed| *is_confirmed).await;
    }

    /// Whether the time has been confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        *self.0.is_confirmed.borrow()
    }

    /// A point on the monotonic clock.
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.0.source.monotonic())
    }

    /// Whether it goes by the clock of a database that it shares with other processes.
    pub(crate) fn follows_databases(&self) -> bool {
        matches!(self.0.source, Source::System(..))
    }

    /// How far the host's clock is ahead of the database's, in microseconds.
    pub(crate) fn host_ahead_of(&self, reading: DatabaseReading) -> i64 {
        self.0.source.host_offset() - reading.offset()
    }

    /// Goes by the database's clock from now on: for the start of a process, which has no other time to lose.
    pub(crate) fn start_by(&self, reading: DatabaseReading) {
        self.correct(reading.offset());
    }

    /// Compares the time with the database's clock.
    pub(crate) fn compare_with_database(&self, reading: DatabaseReading) {
        if reading.took() <= micros(SLOWEST_READING) {
            // Half of the time that it took is on either side of the reading, nobody knows how much.
            self.compare("the database's clock", reading.offset(), reading.took() / 2, DATABASE_LIMIT);
        }
    }

    /// Compares the time with the host's clock, and returns how far that is ahead, in microseconds.
    pub(crate) fn compare_with_host(&self) -> i64 {
        let offset = self.0.source.host_offset();
        let ahead = offset - self.0.offset.load(Ordering::Relaxed);
        self.compare("the host's clock", offset, 0, HOST_LIMIT);
        ahead
    }

    fn compare(&self, reference: &str, offset: i64, noise: i64, limit: Duration) {
        let (now, limit) = (self.0.source.monotonic(), micros(limit));
        let mut agreement = self.0.agreement.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = offset - self.0.offset.load(Ordering::Relaxed);
        let ahead_s = ahead / 1_000_000;
        if ahead.abs() <= limit {
            agreement.pending = None;
            if ahead.abs() > noise {
                self.correct(offset);
            }
            agreement.is_confirmed |= now - agreement.since >= micros(CONFIRMED_AFTER);
        } else {
            let patience = if agreement.is_confirmed { CONFIRMED_AFTER } else { CORRECTED_AFTER };
            let jump = agreement.pending.filter(|jump| (offset - jump.offset).abs() <= limit);
            let jump = jump.unwrap_or_else(|| {
                let stable_s = patience.as_secs();
                warn!(
                    "{reference} jumped by {ahead_s} s; ignoring it until it is stable for {stable_s} s; deletion by age is paused"
                );
                PendingJump { since: now, offset }
            });
            agreement.pending = Some(jump);
            if now - jump.since >= micros(patience) {
                info!(ahead_s, "{reference} is stable again; using its time");
                agreement.pending = None;
                if !agreement.is_confirmed {
                    agreement.since = jump.since;
                }
                self.correct(offset);
            }
        }
        let is_confirmed = agreement.is_confirmed && agreement.pending.is_none();
        self.0.is_confirmed.send_if_modified(|was| std::mem::replace(was, is_confirmed) != is_confirmed);
    }

    fn correct(&self, offset: i64) {
        self.0.offset.store(offset, Ordering::Relaxed);
        self.0.corrections.send_replace(());
    }
}

impl Source {
    /// Microseconds on a clock that nobody can set.
    fn monotonic(&self) -> i64 {
        match self {
            Self::System(start, _) => micros(start.elapsed()),
            #[cfg(feature = "test-util")]
            Self::Manual(time) => time.borrow().monotonic,
        }
    }

    /// Microseconds since 1970 on the host's clock.
    fn host(&self) -> i64 {
        match self {
            Self::System(_, ahead) => {
                #[expect(clippy::disallowed_methods, reason = "the only source of the current time")]
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                micros(since_epoch) + ahead.load(Ordering::Relaxed)
            }
            #[cfg(feature = "test-util")]
            Self::Manual(time) => time.borrow().host.micros(),
        }
    }

    /// How far the host's clock is ahead of the monotonic one, in microseconds.
    fn host_offset(&self) -> i64 {
        match self {
            Self::System(..) => self.host() - self.monotonic(),
            // Both at once: a test may advance its clock meanwhile.
            #[cfg(feature = "test-util")]
            Self::Manual(time) => {
                let now = *time.borrow();
                now.host.micros() - now.monotonic
            }
        }
    }

    async fn reaches(&self, due: Moment) {
        match self {
            Self::System(..) => {
                let left = due.0.saturating_sub(self.monotonic()).try_into().unwrap_or(0);
                tokio::time::sleep(Duration::from_micros(left)).await;
            }
            #[cfg(feature = "test-util")]
            Self::Manual(time) => {
                // The sender is dropped only at the end of the test; nothing is due after that.
                if time.clone().wait_for(|now| now.monotonic >= due.0).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

fn micros(duration: Duration) -> i64 {
    duration.as_micros().try_into().unwrap_or(i64::MAX)
}

#[cfg(feature = "test-util")]
impl ClockHands {
    /// Moves the clock forward, as time does.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| {
            now.host = now.host + by;
            now.monotonic += micros(by);
        });
    }

    /// Sets the host's clock ahead, while no time passes.
    pub fn set_ahead(&self, by: Duration) {
        self.0.send_modify(|now| now.host = now.host + by);
    }

    /// Sets the host's clock back, while no time passes.
    pub fn set_back(&self, by: Duration) {
        self.0.send_modify(|now| now.host = now.host - by);
    }
}

#[cfg(feature = "test-util")]
impl Clock {
    /// Sets the host's clock of this process ahead of the true time by so much, for tests with a real database.
    pub fn pretend_ahead(&self, by: Duration) {
        if let Source::System(_, ahead) = &self.0.source {
            ahead.store(micros(by), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
