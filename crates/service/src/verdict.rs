//! Verdicts: answers while the caller waits, bounded in number for each tenant over all nodes.

use std::sync::Arc;
use std::time::Duration;

use model::api::ModerationVerdict;
use model::{DossierEvent, NewEvent, TenantId};
use store::{Conn, jobs, sync_leases};
use tracing::{Instrument as _, Span};
use uuid::Uuid;

use crate::analysis::{Asked, History, Which, refusal};
use crate::concluder::{About, Conclusion};
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
            // The job first: one that is scheduled after the signals were read may ask for others.
            let (queued, asked) = self
                .store
                .read("verdict_signals", async |conn: &mut Conn| {
                    let queued = jobs::version(conn, tenant, object_id).await?;
                    Ok::<_, Error>((queued, Asked::load(conn, tenant, &which).await?))
                })
                .await?;
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
            if asked.is_empty() {
                return Ok(verdict);
            }
            let read =
                self.read_for_verdict(tenant, object_id, last_seq, events, include_history, asked).await?;
            let found = self.ask(&read).await.map_err(refusal)?;
            let conclusion = Arc::new(Conclusion {
                tenant,
                found,
                about: Some(About { object_id: object_id.to_owned(), read }),
                job: None,
                covers: queued.filter(|_| include_history && signals.is_none()),
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

    async fn read_for_verdict(
        &self,
        tenant: TenantId,
        object_id: &str,
        last_seq: i64,
        events: &[NewEvent],
        include_history: bool,
        asked: Asked,
    ) -> Result<History> {
        if !include_history {
            let subject = self
                .store
                .read("verdict_subject", async |conn| store::analyses::subject(conn, tenant, object_id).await)
                .await?;
            let subject = subject.ok_or_else(deleted)?;
            let told = self.told(events);
            return Ok(Self::read_events(&subject.object_type, told, subject.first_seen, last_seq, asked));
        }
        let read = self
            .store
            .snapshot("verdict_history", async |conn: &mut Conn| {
                self.read_history(conn, tenant, object_id, Some(last_seq), asked).await
            })
            .await?;
        read.ok_or_else(deleted)
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
        let carried = self.workers.carry(work(Arc::clone(self)).instrument(Span::current())).await;
        carried.unwrap_or_else(|| Err(internal("the analysis panicked")))
    }

    /// Runs an analysis that somebody waits for, if the tenant has a place in flight.
    pub(crate) async fn in_flight<T>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce() -> Result<T>,
    ) -> Result<T> {
        let lease = self.take_place(tenant).await?;
        let outcome = work().await;
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

fn deleted() -> Error {
    Error::new(Kind::NotFound, "the object was deleted")
}
