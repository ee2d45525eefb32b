//! Asking without recording: the playground, and the wire format of typed decision models.

use analyzer::Inquiry;
use model::api::{
    PlaygroundRequest, PlaygroundVerdict, SystemOneAnswer, SystemOneQuestion, SystemOneRequest,
    SystemOneResponse, SystemOneUsage,
};
use model::{Answer, Question, SignalType, TenantId, event};
use serde_json::Value;
use serde_json::value::RawValue;
use store::Conn;
use store::objects::recorder::DEFAULT_OBJECT_TYPE;

use crate::analysis::asking::refusal;
use crate::analysis::history::Which;
use crate::{Error, Result, Service};

/// Events of one request.
const MAX_EVENTS: usize = 50;
/// Questions of one request.
const MAX_QUESTIONS: usize = 100;
/// The largest state, in bytes: what a dossier may hold, with room.
const MAX_STATE: usize = 64 * 1024;
/// What a question without instructions asks.
const NO_INSTRUCTIONS: &str = "\"Judge by the criteria.\"";

impl Service {
    /// Scores events on their own: records nothing, fires nothing, and is charged.
    pub async fn play(&self, tenant: TenantId, request: PlaygroundRequest) -> Result<PlaygroundVerdict> {
        let object_type = request.object_type.as_deref().unwrap_or(DEFAULT_OBJECT_TYPE);
        event::check_object_type(object_type).map_err(Error::bad_request)?;
        let events =
            event::check_events(request.events, MAX_EVENTS, self.clock.now()).map_err(Error::bad_request)?;
        let which = request.signals.as_deref().map_or(Which::All, Which::Keys);
        let place = self.take_place(tenant).await?;
        self.in_flight(place, async |place| {
            self.store
                .read("balance", async |conn: &mut Conn| self.demand_balance(conn, tenant).await)
                .await?;
            let asked = self.asked_of_callers(tenant, which).await?;
            let verdict = PlaygroundVerdict {
                analyzed: false,
                model: self.analyzer.model().to_owned(),
                latency_ms: 0,
                answers: Vec::new(),
                cost_micros: 0,
                events_count: i64::try_from(events.len()).unwrap_or(i64::MAX),
                reason: Some("no configured signal matched".to_owned()),
            };
            if asked.is_empty() {
                return Ok(verdict);
            }
            let read = Self::read_events(object_type, self.told(&events), self.clock.now(), 0, asked);
            let found = self.ask(&read, true).await.map_err(refusal)?;
            let charged = self.conclude_for(place, found, None, None, true).await?;
            let found = &charged.found;
            Ok(PlaygroundVerdict {
                analyzed: true,
                cost_micros: self.price_of(found),
                model: found.model.clone(),
                latency_ms: found.latency_ms,
                answers: found.answers.clone(),
                reason: None,
                ..verdict
            })
        })
        .await
    }

    /// Answers questions about a state that the caller brings.
    pub async fn system_one(
        &self,
        tenant: TenantId,
        request: &SystemOneRequest,
    ) -> Result<SystemOneResponse> {
        let questions = parse_questions(request)?;
        let state = state_text(&request.state)?;
        let place = self.take_place(tenant).await?;
        self.in_flight(place, async |place| {
            self.store
                .read("balance", async |conn: &mut Conn| self.demand_balance(conn, tenant).await)
                .await?;
            let found = self
                .inquire(Inquiry { state: &state, questions: &questions, is_urgent: true })
                .await
                .map_err(refusal)?;
            let charged = self.conclude_for(place, found, None, None, false).await?;
            let found = &charged.found;
            let answers = found.answers.iter().map(|answer| {
                let question = questions.iter().find(|question| question.key == answer.signal);
                (answer.signal.clone(), wire_answer(answer, question))
            });
            Ok(SystemOneResponse {
                model: found.model.clone(),
                answers: answers.collect(),
                usage: SystemOneUsage {
                    input_tokens: found.input_tokens,
                    output_tokens: found.output_tokens,
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

/// A text as it is; anything else as JSON.
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
    SystemOneAnswer { judgement: answer.judgement.clone(), legend }
}
