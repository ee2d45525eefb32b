//! Verdicts: answers while the caller waits, bounded in number for each tenant over all nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::api::ModerationVerdict;
use model::{DossierEvent, NewEvent, TenantId};
use opentelemetry::trace::FutureExt as _;
use store::{Conn, analyses, jobs, sync_leases, tenants};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::analysis::refusal;
use crate::concluder::{About, Conclusion};
use crate::histories::{Asked, Read, Wanted, Which};
use crate::{Error, Kind, Result, Service, internal};

/// How much longer than the analyzer's deadline a place in flight is held: a crashed node's places are free after that.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// When to try again after too many at once: one of them will have ended by then.
const BUSY_WAIT: Duration = Duration::from_secs(1);

impl Service {
    /// Scores an object whose events have just been recorded. Whatever goes wrong from here on, they stay recorded.
    pub(crate) async fn verdict(
        &self,
        tenant: TenantId,
        object_id: &str,
        last_seq: i64,
        events: &[NewEvent],
        include_history: bool,
        signals: Option<&[String]>,
    ) -> Result<ModerationVerdict> {
        let scored = self.in_flight(tenant, async || {
            let which = signals.map_or(Which::All, Which::Keys);
            let wanted = Wanted { tenant, object_id, which, through: Some(last_seq) };
            let (queued, read) = if include_history {
                self.read_for_verdict(wanted).await?
            } else {
                (None, self.read_these(wanted, events).await?)
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
            let found = self.ask(&read).await.map_err(refusal)?;
            let answers_all = found.answers.len() == read.asked.questions().len();
            let covers = queued.filter(|_| signals.is_none() && answers_all);
            let conclusion = Arc::new(Conclusion {
                tenant,
                found,
                about: Some(About { object_id: object_id.to_owned(), read: *read }),
                job: None,
                covers,
                asks_signals: true,
            });
            self.concluder.conclude(Arc::clone(&conclusion)).await?;
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

    /// The version of the job that is queued for the object, and its history.
    async fn read_for_verdict(&self, wanted: Wanted<'_>) -> Result<(Option<i64>, Read)> {
        self.store
            .snapshot("verdict_history", async |conn: &mut Conn| {
                let queued = jobs::version(conn, wanted.tenant, wanted.object_id).await?;
                let mut reads = self.read_histories(conn, &[wanted]).await?;
                Ok((queued, reads.pop().unwrap_or(Read::Gone)))
            })
            .await
    }

    /// Only what the request brought.
    async fn read_these(&self, wanted: Wanted<'_>, events: &[NewEvent]) -> Result<Read> {
        let (tenant, object_id) = (wanted.tenant, wanted.object_id);
        let (asked, subject, summary, retentions) = self
            .store
            .snapshot("verdict_subject", async |conn: &mut Conn| {
                let asked = Asked::load(conn, tenant, wanted.which).await?;
                let subject = analyses::subject(conn, tenant, object_id).await?;
                let summary = analyses::summary(conn, tenant, object_id).await?;
                let retentions = tenants::retentions(conn, &BTreeSet::from([tenant])).await?;
                Ok::<_, Error>((asked, subject, summary, retentions))
            })
            .await?;
        let Some(subject) = subject else { return Ok(Read::Gone) };
        if asked.is_empty() {
            return Ok(Read::NothingAsked);
        }
        let (told, read_seq) = (self.told(events), wanted.through.unwrap_or(subject.event_count));
        let mut read =
            Self::read_events(&subject.object_type, told.clone(), subject.first_seen, read_seq, asked);
        if retentions.get(&tenant).is_some_and(|retention| retention == "after_analysis") {
            read.fold_alone(summary, told);
        }
        Ok(Read::Ready(Box::new(read)))
    }

    /// Events of a request as a dossier tells them.
    pub(crate) fn told(&self, events: &[NewEvent]) -> Vec<DossierEvent> {
        let now = self.clock.now();
        let told = events.iter().zip(1..).map(|(event, seq)| DossierEvent {
            seq,
            kind: event.kind,
            name: event.name.clone(),
            content: event.content.clone(),
            metadata: event.metadata.clone(),
            occurred_at: event.occurred_at,
            received_at: now,
        });
        told.collect()
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

    /// Runs an analysis that somebody waits for, if the tenant has a place in flight.
    pub(crate) async fn in_flight<T>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<T> {
        let count = |outcome: &'static str| {
            metrics::counter!("auspex_analyses_total", "source" => "sync", "outcome" => outcome).increment(1);
        };
        let lease = self.take_place(tenant).await.inspect_err(|error| count(outcome_of(error)))?;
        let under_way = self.running.begin(tenant);
        let outcome = work().await;
        drop(under_way);
        count(outcome.as_ref().map_or_else(outcome_of, |_| "ok"));
        let released = self
            .store
            .write("release_place", async |conn: &mut Conn| sync_leases::release(conn, tenant, lease).await)
            .await;
        if let Err(error) = released {
            // It runs out by itself; the verdict is worth more.
            tracing::warn!(%error, "cannot release a place in flight");
        }
        outcome
    }

    async fn take_place(&self, tenant: TenantId) -> Result<Uuid> {
        let now = self.clock.now();
        let lease = self.random.id(now);
        let until = now + self.options.analyzer_timeout + LEASE_MARGIN;
        let limit = i64::from(self.options.sync_limit);
        let taken = self
            .store
            .write("take_place", async |conn: &mut Conn| {
                sync_leases::take(conn, tenant, lease, now, until, limit).await
            })
            .await?;
        if taken {
            Ok(lease)
        } else {
            Err(Error::new(Kind::RateLimited, "too many synchronous analyses at once").retry_after(BUSY_WAIT))
        }
    }
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
