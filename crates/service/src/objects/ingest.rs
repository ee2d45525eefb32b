//! Ingest: events in, and either a schedule or a verdict out.

use std::time::Duration;

use model::api::{IngestAccepted, IngestRequest, ModerationVerdict};
use model::event::{self, MAX_EVENTS};
use model::{NewEvent, TenantId};
use opentelemetry::trace::SpanKind;
use store::objects::recorder::{Entry, Idempotency, IngestKind, Recorded, Schedule};

use crate::analysis::verdict::{Asking, Placed};
use crate::{Error, Kind, Result, Service};
use crate::runtime::traces;

/// How long an idempotency key is remembered.
const KEY_LIFE: Duration = Duration::from_hours(24);
/// The longest idempotency key, in characters.
const MAX_KEY: usize = 255;

/// What an ingest request comes to.
#[derive(Debug)]
pub enum Ingested {
    /// Recorded, and an analysis is scheduled.
    Accepted(IngestAccepted),
    /// Recorded before under the same key.
    Replayed(IngestAccepted),
    /// Recorded and scored.
    Verdict(Box<ModerationVerdict>),
}

impl Service {
    /// Records events about an object; answers at once, or with a verdict when the caller waits.
    pub async fn ingest(
        &self,
        tenant: TenantId,
        object_id: &str,
        request: IngestRequest,
        idempotency_key: Option<&str>,
    ) -> Result<Ingested> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        if let Some(kind) = &request.object_type {
            event::check_object_type(kind).map_err(Error::bad_request)?;
        }
        let now = self.clock.now();
        let events = event::check_events(request.events, MAX_EVENTS, now).map_err(Error::bad_request)?;
        let kind = if request.wait { IngestKind::Sync } else { IngestKind::Async };
        let entry = Entry {
            tenant,
            object_id: object_id.to_owned(),
            object_type: request.object_type,
            display_name: event::display_name(&events),
            events,
            idempotency: idempotency_key.map(|key| idempotency(key, kind, now + KEY_LIFE)).transpose()?,
            schedule: (!request.wait).then(|| Schedule {
                run_at: now + self.options.debounce,
                deadline_at: now + self.options.debounce_max,
            }),
            place: request.wait.then(|| self.wanted_place(tenant)),
            received_at: now,
            traceparent: traces::current(),
        };
        let place = entry.place;
        let accepted = i64::try_from(entry.events.len()).unwrap_or(i64::MAX);
        let events: Vec<NewEvent> = if request.wait { entry.events.clone() } else { Vec::new() };
        let recording = self.traces.part("record", SpanKind::Internal);
        let recorded = recording.around(self.recorder.write(entry)).await;
        drop(recording);
        match (recorded?, place) {
            (Recorded::New { last_seq, has_place, begun }, Some(place)) => {
                let place = Placed::of(&place, has_place).map_err(Error::with_events_recorded)?;
                let asking = Asking {
                    object_id,
                    last_seq,
                    events: &events,
                    begun,
                    include_history: request.include_history.unwrap_or(true),
                    signals: request.signals.as_deref(),
                };
                Ok(Ingested::Verdict(Box::new(self.verdict(place, asking).await?)))
            }
            (Recorded::New { .. }, None) => Ok(Ingested::Accepted(self.accepted(object_id, accepted))),
            (Recorded::Replayed { accepted }, _) => {
                Ok(Ingested::Replayed(self.accepted(object_id, accepted)))
            }
            (Recorded::Conflict, _) => Err(Error::new(
                Kind::Conflict,
                "a request with this Idempotency-Key that waits for a verdict was made before",
            )),
            (Recorded::KeyReused, _) => Err(Error::new(
                Kind::IdempotencyKeyReused,
                "this Idempotency-Key was used for another object",
            )),
            (Recorded::PaymentRequired, _) => Err(payment_required()),
        }
    }

    fn accepted(&self, object_id: &str, accepted: i64) -> IngestAccepted {
        IngestAccepted {
            object_id: object_id.to_owned(),
            accepted,
            analysis_status: "scheduled".to_owned(),
            analysis_delay_ms: u64::try_from(self.options.debounce.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

pub(crate) fn payment_required() -> Error {
    Error::new(Kind::PaymentRequired, "the prepaid balance is empty")
}

fn idempotency(key: &str, kind: IngestKind, expires_at: model::Timestamp) -> Result<Idempotency> {
    if (1..=MAX_KEY).contains(&key.chars().count()) {
        Ok(Idempotency { key: key.to_owned(), kind, expires_at })
    } else {
        Err(Error::bad_request(format!("Idempotency-Key: it must have 1 to {MAX_KEY} characters")))
    }
}
