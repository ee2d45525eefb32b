//! A decision model behind `POST {url}/systemone`: one request with the history as the state and every signal as a
//! question.
//!
//! Only probabilities are used. The other fields of an answer (the winner, a confidence, a legend) follow from them, and
//! servers differ in them.

use model::{Distribution, Question, SignalType};
use serde_json::{Map, Value, json};

use crate::http::{self, Http};
use crate::instrument::instrumented;
use crate::{
    Analyzer, AnswerError, BoxFuture, Endpoint, Failure, Inquiry, InquiryAnswers, InvalidEndpoint, Usage,
};

/// How far a rounded probability may exceed one.
const ROUNDING: f64 = 1e-6;

/// A decision model behind its HTTP API.
pub struct SystemOne {
    http: Http,
    model: String,
}

impl SystemOne {
    /// Prepares the analyzer; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http = Http::new(&endpoint, "systemone", ("authorization", "Bearer "))?;
        Ok(Self { http, model: endpoint.model })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<InquiryAnswers, Failure> {
        let questions: Map<String, Value> =
            numbered(inquiry.questions).map(|(id, one)| (id, question_body(one))).collect();
        let body = json!({"model": self.model, "state": inquiry.state, "questions": questions});
        let reply = self.http.post(&body, self.http.deadline(inquiry)).await?;
        let answers =
            numbered(inquiry.questions).map(|(id, one)| parse(&reply["answers"][id], one)).collect();
        let usage = usage(&reply)
            .unwrap_or_else(|| Usage::estimate(inquiry.state.len() + body["questions"].to_string().len(), 0));
        let model = http::answering_model(&reply).unwrap_or_else(|| self.model.clone());
        Ok(InquiryAnswers { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }
}

impl Analyzer for SystemOne {
    fn model(&self) -> &str {
        &self.model
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        Box::pin(instrumented("systemone", self, inquiry, self.answer(inquiry)))
    }
}

/// The questions by number, since an answer must not depend on the names that a tenant gives its signals.
fn numbered(questions: &[Question]) -> impl Iterator<Item = (String, &Question)> {
    questions.iter().enumerate().map(|(number, question)| (number.to_string(), question))
}

fn question_body(question: &Question) -> Value {
    let mut body = json!({"type": question.kind, "instructions": question.instructions});
    if let Some(criteria) = &question.criteria {
        body["criteria"] = criteria.clone();
        // Nor may it depend on the order of the options.
        if let (SignalType::Choice, Value::Object(options)) = (question.kind, &mut body["criteria"]) {
            options.sort_keys();
        }
    }
    body
}

fn parse(answer: &Value, question: &Question) -> Result<Distribution, AnswerError> {
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
    // A decision model writes no tokens, so some servers do not report them.
    Some(Usage { input: counted("input_tokens")?, output: counted("output_tokens").unwrap_or(0) })
}
