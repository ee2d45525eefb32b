//! Any OpenAI-compatible chat endpoint: `OpenAI`, vLLM, llama.cpp, Ollama, `LiteLLM`.
//!
//! Each question is asked for one letter, and the probabilities of that one token are the answer. A server that does not
//! give them is asked for shares in JSON instead, all questions in one request.

mod labels;

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use model::{Distribution, Question};
use serde_json::{Value, json};

use crate::http::{Deadline, Http, Problem, Refusal};
use crate::measure::measured;
use crate::{
    Analyzer, AnswerError, BoxFuture, Endpoint, Failure, Findings, Inquiry, InvalidEndpoint, Usage, in_full,
    prompt, shares,
};

/// The most that the API knows.
const TOP_LOGPROBS: u32 = 20;

/// A language model behind an OpenAI-compatible chat endpoint.
pub struct OpenAi {
    http: Http,
    model: String,
    refused: Refused,
}

/// What this server was found not to take. Found once, remembered as long as the process lives.
#[derive(Default)]
struct Refused {
    logprobs: AtomicBool,
    max_tokens: AtomicBool,
    temperature: AtomicBool,
    schema: AtomicBool,
}

/// What one request asks for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Letter(&'a Question),
    Shares(&'a [Question]),
}

/// Why a request, and all of the inquiry with it, comes to nothing.
enum Stop {
    NoLogprobs,
    Failure(Failure),
}

impl OpenAi {
    /// Readies the analyzer; asks nothing yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http = Http::new(&endpoint, "chat/completions", ("authorization", "Bearer "))?;
        Ok(Self { http, model: endpoint.model, refused: Refused::default() })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<Findings, Failure> {
        let deadline = self.http.deadline(inquiry);
        let dossier = prompt::dossier(inquiry.state);
        let by_letters = if self.refused.logprobs.load(Ordering::Relaxed) {
            Err(Stop::NoLogprobs)
        } else {
            let letter = |question| self.letter(&dossier, question, deadline);
            try_join_all(inquiry.questions.iter().map(letter)).await
        };
        let (answers, usage) = match by_letters {
            Ok(letters) => {
                let (answers, usages): (Vec<_>, Vec<Usage>) = letters.into_iter().unzip();
                (answers, usages.into_iter().sum())
            }
            Err(Stop::NoLogprobs) => self.shares(&dossier, inquiry.questions, deadline).await?,
            Err(Stop::Failure(failure)) => return Err(failure),
        };
        let model = self.model.clone();
        Ok(Findings { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }

    /// Asks one question for its letter. What fails for this question alone leaves the others their answers.
    async fn letter(
        &self,
        dossier: &str,
        question: &Question,
        deadline: Deadline,
    ) -> Result<(Result<Distribution, AnswerError>, Usage), Stop> {
        let (completion, usage) = match self.complete(dossier, Wanted::Letter(question), deadline).await {
            Err(Stop::Failure(Failure::Failed(cause))) => {
                return Ok((Err(AnswerError::Failed(in_full(&*cause))), Usage::default()));
            }
            other => other?,
        };
        let Some(answer) = labels::read(&completion, question) else {
            remember(&self.refused.logprobs, "logprobs");
            return Err(Stop::NoLogprobs);
        };
        Ok((answer, usage))
    }

    /// Asks all questions for shares.
    async fn shares(
        &self,
        dossier: &str,
        questions: &[Question],
        deadline: Deadline,
    ) -> Result<(Vec<Result<Distribution, AnswerError>>, Usage), Failure> {
        let (completion, usage) = self.complete(dossier, Wanted::Shares(questions), deadline).await?;
        let answers = shares::find(written(&completion))
            .ok_or_else(|| Failure::failed("the answer has no JSON object"))?;
        Ok((shares::read(&answers, questions), usage))
    }

    /// Sends a request, again for each parameter that the server turns out not to take.
    async fn complete(
        &self,
        dossier: &str,
        wanted: Wanted<'_>,
        deadline: Deadline,
    ) -> Result<(Value, Usage), Stop> {
        loop {
            let body = self.body(dossier, wanted);
            match self.http.post(&body, deadline).await {
                Ok(completion) => {
                    let usage = usage(&body, &completion);
                    return Ok((completion, usage));
                }
                // What was learned is not in the next request, so this ends.
                Err(Problem::Refused(refusal)) if self.refused.learn(&body, &refusal) => {
                    if matches!(wanted, Wanted::Letter(_)) && self.refused.logprobs.load(Ordering::Relaxed) {
                        return Err(Stop::NoLogprobs);
                    }
                }
                Err(problem) => return Err(Stop::Failure(problem.into())),
            }
        }
    }

    fn body(&self, dossier: &str, wanted: Wanted<'_>) -> Value {
        let is_refused = |parameter: &AtomicBool| parameter.load(Ordering::Relaxed);
        let (asked, max_tokens) = match wanted {
            Wanted::Letter(question) => (prompt::for_a_letter(question), 1),
            Wanted::Shares(questions) => (prompt::for_shares(questions), shares::max_tokens(questions)),
        };
        let mut body = json!({
            "model": self.model,
            "messages": [
                {"role": "system", "content": prompt::SYSTEM},
                {"role": "user", "content": format!("{dossier}{asked}")},
            ],
        });
        let max_tokens_name =
            if is_refused(&self.refused.max_tokens) { "max_completion_tokens" } else { "max_tokens" };
        body[max_tokens_name] = json!(max_tokens);
        if !is_refused(&self.refused.temperature) {
            body["temperature"] = json!(0);
        }
        match wanted {
            Wanted::Letter(_) => {
                body["logprobs"] = json!(true);
                body["top_logprobs"] = json!(TOP_LOGPROBS);
            }
            Wanted::Shares(questions) if !is_refused(&self.refused.schema) => {
                let schema = json!({"name": "answers", "strict": true, "schema": shares::schema(questions)});
                body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            Wanted::Shares(_) => {}
        }
        body
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::NoLogprobs => Self::failed("the server gives no probabilities of tokens"),
            Stop::Failure(failure) => failure,
        }
    }
}

impl Analyzer for OpenAi {
    fn model(&self) -> &str {
        &self.model
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(measured("openai", self, inquiry, self.answer(inquiry)))
    }
}

impl Refused {
    /// Whether the server refuses something that the request had and can do without. Remembers it.
    fn learn(&self, body: &Value, refusal: &Refusal) -> bool {
        let is_about = |parameter: &str| refusal.is_about(parameter, &body["messages"]);
        let (parameter, name) = if body.get("logprobs").is_some() && is_about("logprobs") {
            (&self.logprobs, "logprobs")
        // Newer models want another name for it. A value that does not fit is another matter.
        } else if body.get("max_tokens").is_some() && is_about("max_tokens") && refusal.says("support") {
            (&self.max_tokens, "max_tokens")
        } else if body.get("temperature").is_some() && is_about("temperature") {
            (&self.temperature, "temperature")
        } else if body.get("response_format").is_some()
            && (is_about("response_format") || is_about("json_schema"))
        {
            (&self.schema, "response_format")
        } else {
            return false;
        };
        remember(parameter, name);
        true
    }
}

fn remember(refused: &AtomicBool, parameter: &'static str) {
    if !refused.swap(true, Ordering::Relaxed) {
        tracing::info!(
            parameter,
            "the analyzer's server does not take this parameter and is asked without it from now on"
        );
    }
}

fn written(completion: &Value) -> &str {
    completion["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

fn usage(body: &Value, completion: &Value) -> Usage {
    let counted = |name: &str| completion["usage"][name].as_u64();
    if let (Some(input), Some(output)) = (counted("prompt_tokens"), counted("completion_tokens")) {
        return Usage { input, output };
    }
    let messages = body["messages"].as_array().into_iter().flatten();
    let read_bytes = messages.filter_map(|message| message["content"].as_str()).map(str::len).sum();
    Usage::estimate(read_bytes, written(completion).len())
}
