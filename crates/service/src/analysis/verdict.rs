//! Verdicts: answers while the caller waits, bounded in number for each tenant over all nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::api::ModerationVerdict;
use model::{DossierEvent, NewEvent, TenantId};
use opentelemetry::trace::FutureExt as _;
use store::Conn;
use store::analysis::history;
use store::analysis::history::Told;
use store::analysis::verdict_slots;
use store::analysis::verdict_slots::Place;
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::analysis::asking::{Found, refusal};
use crate::analysis::concluder::{About, Conclusion};
use crate::analysis::history::{Read, Wanted, Which, read_histories, read_long_history};
use crate::{Error, Kind, Result, Service, internal};

/// How much longer than the analyzer's deadline a place in flight is held: a crashed node's places are free after that.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// When to try again after too many at once: one of them will have ended by then.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// A place in flight that an analysis has.
pub(crate) struct Placed {
    tenant: TenantId,
    lease: Uuid,
    /// Whether it was given back with what was found.
    given_back: AtomicBool,
}

/// What a caller who waits asks about an object whose events have just been recorded.
pub(crate) struct Asking<'a> {
    pub(crate) object_id: &'a str,
    pub(crate) last_seq: i64,
    pub(crate) events: &'a [NewEvent],
    /// All of its history, where it began with them.
    pub(crate) begun: Option<Box<Told>>,
    pub(crate) include_history: bool,
    pub(crate) signals: Option<&'a [String]>,
}

impl Service {
    /// Scores an object. Whatever goes wrong from here on, its events stay recorded.
    pub(crate) async fn verdict(&self, place: Placed, asking: Asking<'_>) -> Result<ModerationVerdict> {
        let Asking { object_id, last_seq, events, begun, include_history, signals } = asking;
        let tenant = place.tenant;
        let scored = self.in_flight(place, async |place| {
            let which = signals.map_or(Which::All, Which::Keys);
            let wanted = Wanted { tenant, object_id, which, through: Some(last_seq) };
            let read = match begun {
                Some(told) if include_history => Read::of(*told, self.asked_of_callers(tenant, which).await?),
                None if include_history => self.read_for_verdict(wanted).await?,
                _ => self.read_these(wanted, events).await?,
            };
            let verdict = ModerationVerdict {
                object_id: object_id.to_owned(),
                accepted: i64::try_from(events.len()).unwrap_or(i64::MAX),
                analyzed: false,
                history_included: include_history,
                model: self.analyzer.model().to_owned(),
                latency_ms: 0,
                answers: Vec::new(),
                reason: Some("no configured signal matched".to_owned()),
            };
            let read = match read {
                Read::Ready(read) => read,
                Read::NothingAsked => return Ok(verdict),
                Read::Gone | Read::Long => return Err(Error::new(Kind::NotFound, "the object was deleted")),
            };
            let found = self.ask(&read, true).await.map_err(refusal)?;
            let answers_all = found.answers.len() == read.asked.questions().len();
            let covers = read.queued.filter(|_| signals.is_none() && answers_all);
            let about = Some(About { object_id: object_id.to_owned(), read: *read });
            let conclusion = self.conclude_for(place, found, about, covers, true).await?;
            let found = &conclusion.found;
            Ok(ModerationVerdict {
                analyzed: true,
                model: found.model.clone(),
                latency_ms: found.latency_ms,
                answers: found.answers.clone(),
                reason: None,
                ..verdict
            })
        });
        scored.await.map_err(Error::with_events_recorded)
    }

    async fn read_for_verdict(&self, wanted: Wanted<'_>) -> Result<Read> {
        let asked = self.asked_of_callers(wanted.tenant, wanted.which).await?;
        let read = self
            .store
            .read("verdict_history", async |conn: &mut Conn| {
                let mut reads = read_histories(conn, &[wanted], vec![Arc::clone(&asked)]).await?;
                Ok::<_, Error>(reads.pop().unwrap_or(Read::Gone))
            })
            .await?;
        if !matches!(read, Read::Long) {
            return Ok(read);
        }
        self.store
            .snapshot("long_history", async |conn: &mut Conn| read_long_history(conn, &wanted, asked).await)
            .await
    }

    /// Only what the request brought.
    async fn read_these(&self, wanted: Wanted<'_>, events: &[NewEvent]) -> Result<Read> {
        let asked = self.asked_of_callers(wanted.tenant, wanted.which).await?;
        let object = history::Wanted { through: Some(0), ..wanted.key() };
        let told = self
            .store
            .read("verdict_subject", async |conn| history::read(conn, &[object], 0).await)
            .await?;
        let Some(subject) = told.into_values().next() else { return Ok(Read::Gone) };
        if asked.is_empty() {
            return Ok(Read::NothingAsked);
        }
        let (told, read_seq) = (self.told(events), wanted.through.unwrap_or_default());
        let mut read =
            Self::read_events(&subject.object_type, told.clone(), subject.first_seen, read_seq, asked);
        if subject.retention == "after_analysis" {
            read.fold_alone(subject.summary, told);
        }
        Ok(Read::Ready(Box::new(read)))
    }

    /// Writes what was found for a caller who waits, and gives its place back in the same transaction.
    pub(crate) async fn conclude_for(
        &self,
        place: &Placed,
        found: Found,
        about: Option<About>,
        covers: Option<i64>,
        asks_signals: bool,
    ) -> Result<Arc<Conclusion>> {
        let Placed { tenant, lease, given_back } = place;
        let conclusion = Conclusion {
            tenant: *tenant,
            found,
            about,
            job: None,
            covers,
            asks_signals,
            place: Some(*lease),
        };
        let conclusion = Arc::new(conclusion);
        self.concluder.conclude(Arc::clone(&conclusion)).await?;
        given_back.store(true, Ordering::Relaxed);
        Ok(conclusion)
    }

    /// Events of a request as a dossier tells them.
    pub(crate) fn told(&self, events: &[NewEvent]) -> Vec<DossierEvent> {
        let now = self.clock.now();
        events.iter().zip(1..).map(|(event, seq)| DossierEvent::of(event, seq, now)).collect()
    }

    /// Carries an analysis that somebody waits for to its end, also when they go away: what was asked is charged, its
    /// answers are kept, and its place is given back.
    pub async fn carry<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T> {
        let carried = self
            .workers
            .carry(work(Arc::clone(self)).instrument(Span::current()).with_current_context())
            .await;
        carried.unwrap_or_else(|| Err(internal("the analysis panicked")))
    }

    /// Runs an analysis that somebody waits for, in its place in flight.
    pub(crate) async fn in_flight<T>(
        &self,
        place: Placed,
        work: impl AsyncFnOnce(&Placed) -> Result<T>,
    ) -> Result<T> {
        let Placed { tenant, lease, .. } = place;
        let under_way = self.running.begin(tenant);
        let outcome = work(&place).await;
        drop(under_way);
        count(outcome.as_ref().map_or_else(outcome_of, |_| "ok"));
        if place.given_back.into_inner() {
            return outcome;
        }
        let released = self
            .store
            .write("release_place", async |conn: &mut Conn| verdict_slots::release(conn, tenant, lease).await)
            .await;
        if let Err(error) = released {
            // It runs out by itself; what was found is worth more.
            tracing::warn!(%error, "cannot release a place in flight");
        }
        outcome
    }

    /// The place in flight that a caller who waits needs.
    pub(crate) fn wanted_place(&self, tenant: TenantId) -> Place {
        let now = self.clock.now();
        Place {
            tenant,
            lease: self.random.id(now),
            now,
            until: now + self.options.analyzer_timeout + LEASE_MARGIN,
            limit: i64::from(self.options.sync_limit),
        }
    }

    /// Takes a place in flight for an analysis that records nothing.
    pub(crate) async fn take_place(&self, tenant: TenantId) -> Result<Placed> {
        let place = self.wanted_place(tenant);
        let taken = self
            .store
            .write("take_place", async |conn: &mut Conn| verdict_slots::take_one(conn, &place).await)
            .await?;
        Placed::of(&place, taken)
    }
}

impl Placed {
    /// A place that was asked for, if it was given; else the refusal.
    pub(crate) fn of(place: &Place, is_given: bool) -> Result<Self> {
        if is_given {
            return Ok(Self { tenant: place.tenant, lease: place.lease, given_back: AtomicBool::new(false) });
        }
        count("refused");
        Err(Error::new(Kind::RateLimited, "too many synchronous analyses at once").retry_after(BUSY_WAIT))
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("auspex_analyses_total", "source" => "sync", "outcome" => outcome).increment(1);
}

/// What a refusal counts as, in the words that analyses of the queue are counted by.
fn outcome_of(refusal: &Error) -> &'static str {
    match refusal.kind() {
        Kind::RateLimited => "refused",
        Kind::PaymentRequired => "unpaid",
        Kind::AnalyzerBusy => "throttled",
        Kind::AnalyzerError => "failed",
        _ => "error",
    }
}
