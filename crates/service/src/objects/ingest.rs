//! Ingest: checks and records events, and schedules an analysis unless the caller waits for a verdict.

use std::sync::Arc;
use std::time::Duration;

use model::TenantId;
use model::api::{AnalysisStatus, IngestAccepted, IngestRequest};
use model::event::{self, MAX_EVENTS};
use opentelemetry::trace::SpanKind;
use store::analysis::jobs::Schedule;
use store::analysis::verdict_slots::VerdictSlot;
use store::objects::request::{IngestKind, IngestRequest as NewRequest, Recorded};

use crate::objects::idempotency;
use crate::objects::recorder::Recorder;
use crate::runtime::group_writer::GroupWriter;
use crate::runtime::{Clock, Error, Kind, RateBudget, Result, Traces, traces};

/// The outcome of ingest without a verdict.
#[derive(Debug)]
pub enum Ingested {
    /// The events are recorded, and an analysis is scheduled.
    Accepted(IngestAccepted),
    /// The events had already been recorded under the same key.
    Replayed(IngestAccepted),
}

/// Records events.
#[derive(Clone)]
pub struct Ingest {
    pub(crate) clock: Clock,
    pub(crate) traces: Traces,
    pub(crate) recorder: Arc<GroupWriter<Recorder>>,
    /// The bytes that each tenant may send, if they are limited.
    pub(crate) budget: Option<RateBudget>,
    /// How long an object must be quiet before it is analyzed.
    pub(crate) debounce: Duration,
    /// The longest time that an object waits if it is never quiet.
    pub(crate) debounce_max: Duration,
}

impl Ingest {
    /// Records events about an object, and schedules its analysis.
    pub async fn accept(
        &self,
        tenant: TenantId,
        object_id: &str,
        request: IngestRequest,
        idempotency_key: Option<&str>,
    ) -> Result<Ingested> {
        let entry = self.check(tenant, object_id, request, idempotency_key, None)?;
        let accepted = i64::try_from(entry.events.len()).unwrap_or(i64::MAX);
        match self.record(entry).await? {
            Recorded::New { .. } => Ok(Ingested::Accepted(self.accepted(object_id, accepted))),
            Recorded::Replayed { accepted } => Ok(Ingested::Replayed(self.accepted(object_id, accepted))),
            refused => Err(refusal(&refused)),
        }
    }

    /// Checks a request; `slot` is set if it waits for a verdict.
    pub(crate) fn check(
        &self,
        tenant: TenantId,
        object_id: &str,
        request: IngestRequest,
        idempotency_key: Option<&str>,
        slot: Option<VerdictSlot>,
    ) -> Result<NewRequest> {
        event::check_object_id(object_id).map_err(Error::bad_request)?;
        if let Some(kind) = &request.object_type {
            event::check_object_type(kind).map_err(Error::bad_request)?;
        }
        let now = self.clock.now();
        let events = event::check_events(request.events, MAX_EVENTS, now).map_err(Error::bad_request)?;
        let kind = if slot.is_some() { IngestKind::Sync } else { IngestKind::Async };
        Ok(NewRequest {
            tenant,
            object_id: object_id.to_owned(),
            object_type: request.object_type,
            display_name: event::display_name(&events),
            events,
            idempotency: idempotency_key.map(|key| idempotency::check(key, kind, now)).transpose()?,
            schedule: slot
                .is_none()
                .then(|| Schedule { run_at: now + self.debounce, deadline_at: now + self.debounce_max }),
            verdict_slot: slot,
            received_at: now,
            traceparent: traces::current(),
        })
    }

    /// Records a checked request, if the tenant may send that many bytes; returns once it is durable.
    pub(crate) async fn record(&self, entry: NewRequest) -> Result<Recorded> {
        if let Some(budget) = &self.budget {
            budget.take_bytes(entry.tenant, entry.sent_bytes()).await?;
        }
        self.traces.child("record", SpanKind::Internal).around(self.recorder.write(entry)).await
    }

    fn accepted(&self, object_id: &str, accepted: i64) -> IngestAccepted {
        IngestAccepted {
            object_id: object_id.to_owned(),
            accepted,
            analysis_status: AnalysisStatus::Scheduled,
            analysis_delay_ms: u64::try_from(self.debounce.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Why a request was not recorded.
pub(crate) fn refusal(recorded: &Recorded) -> Error {
    match recorded {
        Recorded::KeyReused => {
            Error::new(Kind::IdempotencyKeyReused, "this Idempotency-Key was used for another object")
        }
        Recorded::PaymentRequired => Error::payment_required(),
        Recorded::QuotaExceeded => Error::new(
            Kind::StorageQuotaExceeded,
            "the events would exceed the storage quota: delete objects, or keep events for a shorter time",
        ),
        Recorded::Conflict | Recorded::Replayed { .. } | Recorded::New { .. } => Error::new(
            Kind::Conflict,
            "a request with this Idempotency-Key that waits for a verdict was made before",
        ),
    }
}
