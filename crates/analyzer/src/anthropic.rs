//! A language model behind Anthropic's Messages API: all questions go in one request, and the answers are the input of a
//! tool that the model must use, which has a schema.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http::{self, Http, RequestError};
use crate::instrument::instrumented;
use crate::{
    Analyzer, BoxFuture, Endpoint, Failure, Inquiry, InquiryAnswers, InvalidEndpoint, Usage, json_answers,
    prompt,
};

const VERSION: &str = "2023-06-01";
const TOOL: &str = "answer";

/// A language model behind Anthropic's Messages API.
pub struct Anthropic {
    http: Http,
    model: String,
    /// Some models reject a temperature. Discovered once and remembered while the process runs.
    rejects_temperature: AtomicBool,
}

impl Anthropic {
    /// Prepares the analyzer; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http =
            Http::new(&endpoint, "messages", ("x-api-key", ""))?.with_header("anthropic-version", VERSION);
        Ok(Self { http, model: endpoint.model, rejects_temperature: AtomicBool::new(false) })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<InquiryAnswers, Failure> {
        let reply = self.message(inquiry).await?;
        let input =
            tool_input(&reply).ok_or_else(|| Failure::failed("the response does not use the tool"))?;
        let answers = json_answers::parse(input, inquiry.questions);
        let usage = usage(&reply).unwrap_or_else(|| {
            let questions = prompt::for_percentages(inquiry.questions);
            Usage::estimate(inquiry.state.len() + questions.len(), input.to_string().len())
        });
        let model = http::answering_model(&reply).unwrap_or_else(|| self.model.clone());
        Ok(InquiryAnswers { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }

    async fn message(&self, inquiry: Inquiry<'_>) -> Result<Value, Failure> {
        let deadline = self.http.deadline(inquiry);
        let mut body = body(&self.model, inquiry);
        if !self.rejects_temperature.load(Ordering::Relaxed) {
            body["temperature"] = json!(0);
        }
        match self.http.post(&body, deadline).await {
            Err(RequestError::Rejected(rejection))
                if body.get("temperature").is_some()
                    && rejection.is_about("temperature", &body["messages"]) =>
            {
                self.rejects_temperature.store(true, Ordering::Relaxed);
                body.as_object_mut().map(|body| body.remove("temperature"));
                Ok(self.http.post(&body, deadline).await?)
            }
            other => Ok(other?),
        }
    }
}

impl Analyzer for Anthropic {
    fn model(&self) -> &str {
        &self.model
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        Box::pin(instrumented("anthropic", self, inquiry, self.answer(inquiry)))
    }
}

fn body(model: &str, inquiry: Inquiry<'_>) -> Value {
    json!({
        "model": model,
        "max_tokens": json_answers::max_tokens(inquiry.questions),
        "system": prompt::SYSTEM,
        "messages": [{"role": "user", "content": [
            // Cached by the provider for some minutes, for the next inquiry about the same object.
            {"type": "text", "text": prompt::history_block(inquiry.state), "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": prompt::for_percentages(inquiry.questions)},
        ]}],
        "tools": [{
            "name": TOOL,
            "description": "Hands in the answers to all questions.",
            "input_schema": json_answers::schema(inquiry.questions),
        }],
        "tool_choice": {"type": "tool", "name": TOOL},
    })
}

fn tool_input(reply: &Value) -> Option<&Value> {
    let blocks = reply["content"].as_array()?;
    blocks.iter().find(|block| block["type"] == "tool_use" && block["name"] == TOOL)?.get("input")
}

fn usage(reply: &Value) -> Option<Usage> {
    let counted = |name: &str| reply["usage"][name].as_u64();
    // Tokens read from the cache or written to it are counted separately, and are input all the same.
    let cached = counted("cache_read_input_tokens")
        .unwrap_or(0)
        .saturating_add(counted("cache_creation_input_tokens").unwrap_or(0));
    Some(Usage { input: counted("input_tokens")?.saturating_add(cached), output: counted("output_tokens")? })
}
