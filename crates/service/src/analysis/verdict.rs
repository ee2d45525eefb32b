//! Verdicts: records events and returns answers while the caller waits.

use std::sync::Arc;

use analyzer::Failure;
use model::api::EventRetention;
use model::api::{IngestRequest, ModerationVerdict};
use model::{NewEvent, TenantId};
use store::analysis::history::{self, HistoryRequest, ObjectHistory};
use store::objects::request::Recorded;
use store::{Conn, Store};

use crate::analysis::asking::Asker;
use crate::analysis::concluder::{AnalyzedObject, Concluder, Conclusion};
use crate::analysis::history::{
    AnalysisInput, ObjectRequest, Prepared, history_events, read_histories, read_long_history,
};
use crate::analysis::jobs::Jobs;
use crate::analysis::questions::{CachedQuestions, SignalSelection};
use crate::analysis::response::{AnalyzerResponse, refusal};
use crate::analysis::verdict_slots::{Slot, VerdictSlots};
use crate::objects::ingest::{Ingest, refusal as ingest_refusal};
use crate::runtime::{Clock, Error, Kind, Result, Waiting};

/// Records events and returns verdicts.
#[derive(Clone)]
pub struct Verdicts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) ingest: Ingest,
    pub(crate) questions: CachedQuestions,
    pub(crate) asker: Asker,
    pub(crate) slots: VerdictSlots,
    pub(crate) concluder: Arc<Concluder>,
    pub(crate) jobs: Jobs,
}

/// A request for a verdict on an object whose events have just been recorded.
struct VerdictRequest<'a> {
    object_id: &'a str,
    last_seq: i64,
    events: &'a [NewEvent],
    /// The whole history, if the object was created with these events.
    whole_history: Option<Box<ObjectHistory>>,
    include_history: bool,
    signals: Option<&'a [String]>,
    caller: &'a Waiting,
}

impl Verdicts {
    /// Records events about an object, and returns the answers to its signals. Recorded events are kept even if that fails.
    pub async fn ingest(
        &self,
        tenant: TenantId,
        object_id: &str,
        mut request: IngestRequest,
        idempotency_key: Option<&str>,
        caller: &Waiting,
    ) -> Result<ModerationVerdict> {
        let (include_history, signals) = (request.include_history.unwrap_or(true), request.signals.take());
        let slot = self.slots.request(tenant);
        let entry = self.ingest.check(tenant, object_id, request, idempotency_key, Some(slot))?;
        let events = entry.events.clone();
        match self.ingest.record(entry).await? {
            Recorded::New { last_seq, has_slot, new_object } => {
                let slot = Slot::granted(&slot, has_slot).map_err(Error::with_events_recorded)?;
                let request = VerdictRequest {
                    object_id,
                    last_seq,
                    events: &events,
                    whole_history: new_object,
                    include_history,
                    signals: signals.as_deref(),
                    caller,
                };
                self.answer(slot, request).await.map_err(Error::with_events_recorded)
            }
            refused => Err(ingest_refusal(&refused)),
        }
    }

    async fn answer(&self, slot: Slot, request: VerdictRequest<'_>) -> Result<ModerationVerdict> {
        let VerdictRequest { object_id, last_seq, events, whole_history, include_history, signals, caller } =
            request;
        let tenant = slot.tenant;
        self.slots
            .run(slot, async |slot| {
                let selection = SignalSelection::requested(signals);
                let object = ObjectRequest { tenant, object_id, selection, through: Some(last_seq) };
                let prepared = match whole_history {
                    Some(stored) if include_history => {
                        Prepared::of(*stored, self.questions.get(tenant, selection).await?)
                    }
                    None if include_history => self.read_history(object).await?,
                    _ => self.prepare_without_history(object, events).await?,
                };
                let verdict = ModerationVerdict {
                    object_id: object_id.to_owned(),
                    accepted: i64::try_from(events.len()).unwrap_or(i64::MAX),
                    analyzed: false,
                    history_included: include_history,
                    model: self.asker.model().to_owned(),
                    latency_ms: 0,
                    answers: Vec::new(),
                    reason: Some("no configured signal matched".to_owned()),
                };
                let input = match prepared {
                    Prepared::Ready(input) => input,
                    Prepared::NoQuestions => return Ok(verdict),
                    Prepared::Gone | Prepared::Long => {
                        return Err(Error::new(Kind::NotFound, "the object was deleted"));
                    }
                };
                let response = match self.asker.ask_in_stages(tenant, &input, Some(caller)).await {
                    Ok(response) => response,
                    Err(failure) => {
                        if matches!(failure, Failure::CallerLeft) {
                            // Nobody will send the events again: they are analyzed like those of callers who do not wait.
                            self.jobs.schedule(tenant, object_id).await?;
                        }
                        return Err(refusal(failure));
                    }
                };
                let answers_all = response.answers.len() == input.questions.questions().len();
                let asks_all = matches!(selection, SignalSelection::All);
                let covers = input.queued_version.filter(|_| asks_all && answers_all);
                let object = Some(AnalyzedObject { object_id: object_id.to_owned(), input: *input });
                let conclusion = conclude(&self.concluder, slot, response, object, covers, true).await?;
                let response = &conclusion.response;
                Ok(ModerationVerdict {
                    analyzed: true,
                    model: response.model.clone(),
                    latency_ms: response.latency_ms,
                    answers: response.answers.clone(),
                    reason: None,
                    ..verdict
                })
            })
            .await
    }

    async fn read_history(&self, object: ObjectRequest<'_>) -> Result<Prepared> {
        let questions = self.questions.get(object.tenant, object.selection).await?;
        let prepared = self
            .store
            .read("verdict_history", async |conn: &mut Conn| {
                let mut prepared = read_histories(conn, &[object], vec![Arc::clone(&questions)]).await?;
                Ok::<_, Error>(prepared.pop().unwrap_or(Prepared::Gone))
            })
            .await?;
        if !matches!(prepared, Prepared::Long) {
            return Ok(prepared);
        }
        self.store
            .snapshot("long_history", async |conn: &mut Conn| {
                read_long_history(conn, &object, questions).await
            })
            .await
    }

    /// Prepares only the events of the request, without the history.
    async fn prepare_without_history(
        &self,
        object: ObjectRequest<'_>,
        events: &[NewEvent],
    ) -> Result<Prepared> {
        let questions = self.questions.get(object.tenant, object.selection).await?;
        let request = HistoryRequest { through: Some(0), ..object.history() };
        let stored =
            self.store.read("verdict_subject", async |conn| history::read(conn, &[request], 0).await).await?;
        let Some(stored) = stored.into_values().next() else { return Ok(Prepared::Gone) };
        if questions.is_empty() {
            return Ok(Prepared::NoQuestions);
        }
        let (recent, read_seq) =
            (history_events(events, self.clock.now()), object.through.unwrap_or_default());
        let mut input = AnalysisInput::of_events(
            &stored.object_type,
            recent.clone(),
            stored.first_seen,
            read_seq,
            questions,
        );
        if stored.retention == EventRetention::AfterAnalysis {
            input.fold_read_events(stored.summary, recent);
        }
        Ok(Prepared::Ready(Box::new(input)))
    }
}

/// Writes the answers of a synchronous analysis, and releases its slot in the same transaction.
pub(crate) async fn conclude(
    concluder: &Concluder,
    slot: &Slot,
    response: AnalyzerResponse,
    object: Option<AnalyzedObject>,
    covers: Option<i64>,
    asks_signals: bool,
) -> Result<Arc<Conclusion>> {
    let conclusion = Arc::new(Conclusion {
        tenant: slot.tenant,
        response,
        object,
        job: None,
        covers,
        asks_signals,
        slot: Some(slot.id),
    });
    concluder.conclude(Arc::clone(&conclusion)).await?;
    slot.mark_released();
    Ok(conclusion)
}
