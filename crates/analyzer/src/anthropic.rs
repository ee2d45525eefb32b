//! A language model behind Anthropic's Messages API: all questions in one request, answered by a tool that it must use,
//! whose input has a schema.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http::{Http, Problem};
use crate::measure::measured;
use crate::{
    Analyzer, BoxFuture, Endpoint, Failure, Findings, Inquiry, InvalidEndpoint, Usage, prompt, shares,
};

const VERSION: &str = "2023-06-01";
const TOOL: &str = "answer";

/// A language model behind Anthropic's Messages API.
pub struct Anthropic {
    http: Http,
    model: String,
    /// Some models take no temperature. Found once, remembered as long as the process lives.
    refuses_temperature: AtomicBool,
}

impl Anthropic {
    /// Readies the analyzer; asks nothing yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http =
            Http::new(&endpoint, "messages", ("x-api-key", ""))?.with_header("anthropic-version", VERSION);
        Ok(Self { http, model: endpoint.model, refuses_temperature: AtomicBool::new(false) })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<Findings, Failure> {
        let reply = self.message(inquiry).await?;
        let input = tool_input(&reply).ok_or_else(|| Failure::failed("the answer does not use the tool"))?;
        let answers = shares::read(input, inquiry.questions);
        let usage = usage(&reply).unwrap_or_else(|| {
            let asked = prompt::for_shares(inquiry.questions);
            Usage::estimate(inquiry.state.len() + asked.len(), input.to_string().len())
        });
        let model = self.model.clone();
        Ok(Findings { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }

    async fn message(&self, inquiry: Inquiry<'_>) -> Result<Value, Failure> {
        let deadline = self.http.deadline(inquiry);
        let mut body = body(&self.model, inquiry);
        if !self.refuses_temperature.load(Ordering::Relaxed) {
            body["temperature"] = json!(0);
        }
        match self.http.post(&body, deadline).await {
            Err(Problem::Refused(refusal))
                if body.get("temperature").is_some()
                    && refusal.is_about("temperature", &body["messages"]) =>
            {
                self.refuses_temperature.store(true, Ordering::Relaxed);
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

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(measured("anthropic", self, inquiry, self.answer(inquiry)))
    }
}

fn body(model: &str, inquiry: Inquiry<'_>) -> Value {
    json!({
        "model": model,
        "max_tokens": shares::max_tokens(inquiry.questions),
        "system": prompt::SYSTEM,
        "messages": [{"role": "user", "content": [
            // Read once and kept for some minutes, for the next inquiry about the same object.
            {"type": "text", "text": prompt::dossier(inquiry.state), "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": prompt::for_shares(inquiry.questions)},
        ]}],
        "tools": [{
            "name": TOOL,
            "description": "Hands in the answers to all questions.",
            "input_schema": shares::schema(inquiry.questions),
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
    // What is read from the cache or written to it is counted apart, and was read nonetheless.
    let cached = counted("cache_read_input_tokens")
        .unwrap_or(0)
        .saturating_add(counted("cache_creation_input_tokens").unwrap_or(0));
    Some(Usage { input: counted("input_tokens")?.saturating_add(cached), output: counted("output_tokens")? })
}
