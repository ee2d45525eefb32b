//! Answers without recording: the playground, and `/v1/systemone`, the wire format of typed decision models.

use std::sync::Arc;

use model::api::{
    PlaygroundRequest, PlaygroundVerdict, SystemOneAnswer, SystemOneQuestion, SystemOneRequest,
    SystemOneResponse, SystemOneUsage,
};
use model::{Answer, Question, SignalType, TenantId, event};
use serde_json::Value;
use serde_json::value::RawValue;
use store::objects::recorder::DEFAULT_OBJECT_TYPE;
use store::{Conn, Store};

use crate::analysis::asking::Asker;
use crate::analysis::concluder::Concluder;
use crate::analysis::history::{AnalysisInput, history_events};
use crate::analysis::questions::{CachedQuestions, SignalSelection};
use crate::analysis::response::refusal;
use crate::analysis::verdict::conclude;
use crate::analysis::verdict_slots::VerdictSlots;
use crate::billing::{Balances, Prices};
use crate::runtime::{Clock, Error, Result, Waiting};

/// The maximum number of events in a request.
const MAX_EVENTS: usize = 50;
/// The maximum number of questions in a request.
const MAX_QUESTIONS: usize = 100;
/// The maximum size of a state in bytes: more than that of a history.
const MAX_STATE: usize = 64 * 1024;
/// The instructions of a question without any.
const NO_INSTRUCTIONS: &str = "\"Judge by the criteria.\"";

/// Answers questions about data in the request, and records nothing.
#[derive(Clone)]
pub struct Playground {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) questions: CachedQuestions,
    pub(crate) asker: Asker,
    pub(crate) slots: VerdictSlots,
    pub(crate) concluder: Arc<Concluder>,
    pub(crate) balances: Balances,
    pub(crate) prices: Prices,
}

impl Playground {
    /// Answers a tenant's signals about events in the request. Nothing is recorded, no rule fires, and the analysis is charged.
    pub async fn play(
        &self,
        tenant: TenantId,
        request: PlaygroundRequest,
        caller: &Waiting,
    ) -> Result<PlaygroundVerdict> {
        let object_type = request.object_type.as_deref().unwrap_or(DEFAULT_OBJECT_TYPE);
        event::check_object_type(object_type).map_err(Error::bad_request)?;
        let events =
            event::check_events(request.events, MAX_EVENTS, self.clock.now()).map_err(Error::bad_request)?;
        let selection = SignalSelection::requested(request.signals.as_deref());
        let slot = self.slots.take(tenant).await?;
        self.slots
            .run(slot, async |slot| {
                self.store
                    .read("balance", async |conn: &mut Conn| self.balances.require_funds(conn, tenant).await)
                    .await?;
                let questions = self.questions.get(tenant, selection).await?;
                let verdict = PlaygroundVerdict {
                    analyzed: false,
                    model: self.asker.model().to_owned(),
                    latency_ms: 0,
                    answers: Vec::new(),
                    cost_micros: 0,
                    events_count: i64::try_from(events.len()).unwrap_or(i64::MAX),
                    reason: Some("no configured signal matched".to_owned()),
                };
                if questions.is_empty() {
                    return Ok(verdict);
                }
                let now = self.clock.now();
                let input =
                    AnalysisInput::of_events(object_type, history_events(&events, now), now, 0, questions);
                let response =
                    self.asker.ask_in_stages(tenant, &input, Some(caller)).await.map_err(refusal)?;
                let conclusion = conclude(&self.concluder, slot, response, None, None, true).await?;
                let response = &conclusion.response;
                Ok(PlaygroundVerdict {
                    analyzed: true,
                    cost_micros: response.billed_micros(&self.prices),
                    model: response.model.clone(),
                    latency_ms: response.latency_ms,
                    answers: response.answers.clone(),
                    reason: None,
                    ..verdict
                })
            })
            .await
    }

    /// Answers questions about a state in the request.
    pub async fn system_one(
        &self,
        tenant: TenantId,
        request: &SystemOneRequest,
        caller: &Waiting,
    ) -> Result<SystemOneResponse> {
        let questions = parse_questions(request)?;
        let state = state_text(&request.state)?;
        let slot = self.slots.take(tenant).await?;
        self.slots
            .run(slot, async |slot| {
                self.store
                    .read("balance", async |conn: &mut Conn| self.balances.require_funds(conn, tenant).await)
                    .await?;
                let asked = self.asker.inquire(tenant, &state, &questions, Some(caller)).await;
                let response = asked.map_err(refusal)?;
                let conclusion = conclude(&self.concluder, slot, response, None, None, false).await?;
                let response = &conclusion.response;
                let answers = response.answers.iter().map(|answer| {
                    let question = questions.iter().find(|question| question.key == answer.signal);
                    (answer.signal.clone(), wire_answer(answer, question))
                });
                Ok(SystemOneResponse {
                    model: response.model.clone(),
                    answers: answers.collect(),
                    usage: SystemOneUsage {
                        input_tokens: response.input_tokens,
                        output_tokens: response.output_tokens,
                    },
                })
            })
            .await
    }
}

fn parse_questions(request: &SystemOneRequest) -> Result<Vec<Question>> {
    if request.questions.is_empty() || request.questions.len() > MAX_QUESTIONS {
        return Err(Error::bad_request(format!("questions: there must be 1 to {MAX_QUESTIONS}")));
    }
    let parse = |(id, question): (&String, &SystemOneQuestion)| {
        let instructions = question.instructions.as_deref().map_or(NO_INSTRUCTIONS, RawValue::get);
        let criteria = question.criteria.as_deref().map(RawValue::get);
        Question::parse(id, question.kind, instructions, criteria)
            .map_err(|error| Error::bad_request(format!("questions.{id}.{error}")))
    };
    request.questions.iter().map(parse).collect()
}

/// The state as text: a string as it is, anything else as JSON.
fn state_text(state: &RawValue) -> Result<String> {
    let text = match serde_json::from_str(state.get()) {
        Ok(Value::String(text)) => text,
        _ => state.get().to_owned(),
    };
    if text.len() > MAX_STATE {
        return Err(Error::bad_request(format!("state: it must have at most {MAX_STATE} bytes")));
    }
    Ok(text)
}

fn wire_answer(answer: &Answer, question: Option<&Question>) -> SystemOneAnswer {
    let legend = question.filter(|question| question.kind == SignalType::Score).map(|question| {
        let text = |description: &Option<Value>| {
            description.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        question.candidates.iter().map(|level| (level.name.clone(), text(&level.description))).collect()
    });
    SystemOneAnswer { value: answer.value.clone(), legend }
}
