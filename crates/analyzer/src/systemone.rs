//! A decision model behind `POST {url}/systemone`: the dossier as the state, every signal as a question, one request.
//!
//! Only probabilities are read. What else an answer holds (the winner, a confidence, a legend) follows from them, and
//! servers differ in it.

use model::{Distribution, Question, SignalType};
use serde_json::{Map, Value, json};

use crate::http::Http;
use crate::measure::measured;
use crate::{Analyzer, AnswerError, BoxFuture, Endpoint, Failure, Findings, Inquiry, InvalidEndpoint, Usage};

/// How far above one a rounded probability may be.
const ROUNDING: f64 = 1e-6;

/// A decision model behind its HTTP interface.
pub struct SystemOne {
    http: Http,
    model: String,
}

impl SystemOne {
    /// Readies the analyzer; asks nothing yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http = Http::new(&endpoint, "systemone", ("authorization", "Bearer "))?;
        Ok(Self { http, model: endpoint.model })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<Findings, Failure> {
        let questions: Map<String, Value> =
            numbered(inquiry.questions).map(|(id, one)| (id, asked(one))).collect();
        let body = json!({"model": self.model, "state": inquiry.state, "questions": questions});
        let reply = self.http.post(&body, self.http.deadline(inquiry)).await?;
        let answers = numbered(inquiry.questions).map(|(id, one)| read(&reply["answers"][id], one)).collect();
        let usage = usage(&reply)
            .unwrap_or_else(|| Usage::estimate(inquiry.state.len() + body["questions"].to_string().len(), 0));
        let model = self.model.clone();
        Ok(Findings { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }
}

impl Analyzer for SystemOne {
    fn model(&self) -> &str {
        &self.model
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(measured("systemone", self, inquiry, self.answer(inquiry)))
    }
}

/// The questions by number: an answer must not depend on what a tenant calls its signals.
fn numbered(questions: &[Question]) -> impl Iterator<Item = (String, &Question)> {
    questions.iter().enumerate().map(|(number, question)| (number.to_string(), question))
}

fn asked(question: &Question) -> Value {
    let mut asked = json!({"type": question.kind, "instructions": question.instructions});
    if let Some(criteria) = &question.criteria {
        asked["criteria"] = criteria.clone();
        // Nor on the order that it lists its options in.
        if let (SignalType::Choice, Value::Object(options)) = (question.kind, &mut asked["criteria"]) {
            options.sort_keys();
        }
    }
    asked
}

fn read(answer: &Value, question: &Question) -> Result<Distribution, AnswerError> {
    if answer.is_null() {
        return Err(AnswerError::Missing);
    }
    let weights: Option<Vec<f64>> = if question.kind == SignalType::Noul {
        let yes = answer["noul"].as_f64().filter(|yes| (0.0..=1.0 + ROUNDING).contains(yes));
        yes.map(|yes| vec![yes, (1.0 - yes).max(0.0)])
    } else {
        let weight = |name: &String| answer["probabilities"][name].as_f64();
        question.candidates.iter().map(|candidate| weight(&candidate.name)).collect()
    };
    let weights = weights.ok_or(AnswerError::Incomplete)?;
    Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
}

fn usage(reply: &Value) -> Option<Usage> {
    let counted = |name: &str| reply["usage"][name].as_u64();
    // What writes nothing has nothing to count.
    Some(Usage { input: counted("input_tokens")?, output: counted("output_tokens").unwrap_or(0) })
}
