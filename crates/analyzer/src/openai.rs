//! Any OpenAI-compatible chat endpoint: `OpenAI`, vLLM, llama.cpp, Ollama, `LiteLLM`.
//!
//! Each question is a request for one letter, and the probabilities of that one token are the answer. A server that gives
//! no probabilities gets all questions in one request for percentages in JSON.

mod logprobs;

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use model::{Distribution, Question};
use serde_json::{Value, json};

use crate::http::{self, Deadline, Http, Rejection, RequestError};
use crate::instrument::instrumented;
use crate::{
    Analyzer, AnswerError, BoxFuture, Endpoint, Failure, Inquiry, InquiryAnswers, InvalidEndpoint, Usage,
    error_chain, json_answers, prompt,
};

/// The most that the API allows.
const TOP_LOGPROBS: u32 = 20;

/// A language model behind an OpenAI-compatible chat endpoint.
pub struct OpenAi {
    http: Http,
    model: String,
    unsupported: UnsupportedParameters,
}

/// The parameters that this server rejects. Discovered once and remembered while the process runs.
#[derive(Default)]
struct UnsupportedParameters {
    logprobs: AtomicBool,
    max_tokens: AtomicBool,
    temperature: AtomicBool,
    schema: AtomicBool,
}

/// The questions of one request, by the format of their answers.
#[derive(Clone, Copy)]
enum Format<'a> {
    Letter(&'a Question),
    Percentages(&'a [Question]),
}

/// What a completion cost, and the model that the server says has written it.
#[derive(Default)]
struct Receipt {
    usage: Usage,
    model: Option<String>,
}

/// Why a request, and with it this way to ask the questions, has failed.
enum CompletionError {
    NoLogprobs,
    Failure(Failure),
}

impl OpenAi {
    /// Prepares the analyzer; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Result<Self, InvalidEndpoint> {
        let http = Http::new(&endpoint, "chat/completions", ("authorization", "Bearer "))?;
        Ok(Self { http, model: endpoint.model, unsupported: UnsupportedParameters::default() })
    }

    async fn answer(&self, inquiry: Inquiry<'_>) -> Result<InquiryAnswers, Failure> {
        let deadline = self.http.deadline(inquiry);
        let history = prompt::history_block(inquiry.state);
        let by_letters = if self.unsupported.logprobs.load(Ordering::Relaxed) {
            Err(CompletionError::NoLogprobs)
        } else {
            let letter = |question| self.letter(&history, question, deadline);
            try_join_all(inquiry.questions.iter().map(letter)).await
        };
        let (answers, receipts) = match by_letters {
            Ok(letters) => letters.into_iter().unzip::<_, _, Vec<_>, Vec<_>>(),
            Err(CompletionError::NoLogprobs) => {
                let (answers, receipt) = self.percentages(&history, inquiry.questions, deadline).await?;
                (answers, vec![receipt])
            }
            Err(CompletionError::Failure(failure)) => return Err(failure),
        };
        let usage: Usage = receipts.iter().map(|receipt| receipt.usage).sum();
        let model = receipts.into_iter().find_map(|receipt| receipt.model);
        let model = model.unwrap_or_else(|| self.model.clone());
        Ok(InquiryAnswers { model, answers, input_tokens: usage.input, output_tokens: usage.output })
    }

    /// Requests the letter of one question. If it fails for this question alone, the others keep their answers.
    async fn letter(
        &self,
        history: &str,
        question: &Question,
        deadline: Deadline,
    ) -> Result<(Result<Distribution, AnswerError>, Receipt), CompletionError> {
        let (completion, receipt) = match self.complete(history, Format::Letter(question), deadline).await {
            Err(CompletionError::Failure(Failure::Failed(cause))) => {
                return Ok((Err(AnswerError::Failed(error_chain(&*cause))), Receipt::default()));
            }
            other => other?,
        };
        let Some(answer) = logprobs::parse(&completion, question) else {
            remember(&self.unsupported.logprobs, "logprobs");
            return Err(CompletionError::NoLogprobs);
        };
        Ok((answer, receipt))
    }

    /// Requests the percentages of all questions.
    async fn percentages(
        &self,
        history: &str,
        questions: &[Question],
        deadline: Deadline,
    ) -> Result<(Vec<Result<Distribution, AnswerError>>, Receipt), Failure> {
        let (completion, receipt) = self.complete(history, Format::Percentages(questions), deadline).await?;
        let answers = json_answers::find_object(written(&completion))
            .ok_or_else(|| Failure::failed("the response has no JSON object"))?;
        Ok((json_answers::parse(&answers, questions), receipt))
    }

    /// Sends a request, and again without each parameter that the server rejects.
    async fn complete(
        &self,
        history: &str,
        format: Format<'_>,
        deadline: Deadline,
    ) -> Result<(Value, Receipt), CompletionError> {
        loop {
            let body = self.body(history, format);
            match self.http.post(&body, deadline).await {
                Ok(completion) => {
                    let receipt = Receipt {
                        usage: usage(&body, &completion),
                        model: http::answering_model(&completion),
                    };
                    return Ok((completion, receipt));
                }
                // The next request does not have the rejected parameter, so the loop ends.
                Err(RequestError::Rejected(rejection)) if self.unsupported.learn(&body, &rejection) => {
                    if matches!(format, Format::Letter(_))
                        && self.unsupported.logprobs.load(Ordering::Relaxed)
                    {
                        return Err(CompletionError::NoLogprobs);
                    }
                }
                Err(error) => return Err(CompletionError::Failure(error.into())),
            }
        }
    }

    fn body(&self, history: &str, format: Format<'_>) -> Value {
        let is_unsupported = |parameter: &AtomicBool| parameter.load(Ordering::Relaxed);
        let (questions, max_tokens) = match format {
            Format::Letter(question) => (prompt::for_a_letter(question), 1),
            Format::Percentages(questions) => {
                (prompt::for_percentages(questions), json_answers::max_tokens(questions))
            }
        };
        let mut body = json!({
            "model": self.model,
            "messages": [
                {"role": "system", "content": prompt::SYSTEM},
                {"role": "user", "content": format!("{history}{questions}")},
            ],
        });
        let max_tokens_name =
            if is_unsupported(&self.unsupported.max_tokens) { "max_completion_tokens" } else { "max_tokens" };
        body[max_tokens_name] = json!(max_tokens);
        if !is_unsupported(&self.unsupported.temperature) {
            body["temperature"] = json!(0);
        }
        match format {
            Format::Letter(_) => {
                body["logprobs"] = json!(true);
                body["top_logprobs"] = json!(TOP_LOGPROBS);
            }
            Format::Percentages(questions) if !is_unsupported(&self.unsupported.schema) => {
                let schema =
                    json!({"name": "answers", "strict": true, "schema": json_answers::schema(questions)});
                body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            Format::Percentages(_) => {}
        }
        body
    }
}

impl From<CompletionError> for Failure {
    fn from(stop: CompletionError) -> Self {
        match stop {
            CompletionError::NoLogprobs => Self::failed("the server gives no log probabilities"),
            CompletionError::Failure(failure) => failure,
        }
    }
}

impl Analyzer for OpenAi {
    fn model(&self) -> &str {
        &self.model
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<InquiryAnswers, Failure>> {
        Box::pin(instrumented("openai", self, inquiry, self.answer(inquiry)))
    }
}

impl UnsupportedParameters {
    /// Remembers a parameter that the server rejects and the request can do without. Returns whether there is one.
    fn learn(&self, body: &Value, rejection: &Rejection) -> bool {
        let is_about = |parameter: &str| rejection.is_about(parameter, &body["messages"]);
        let (parameter, name) = if body.get("logprobs").is_some() && is_about("logprobs") {
            (&self.logprobs, "logprobs")
        // Newer models have another name for it. A value that is too large is a different error.
        } else if body.get("max_tokens").is_some() && is_about("max_tokens") && rejection.mentions("support")
        {
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

fn remember(unsupported: &AtomicBool, parameter: &'static str) {
    if !unsupported.swap(true, Ordering::Relaxed) {
        tracing::info!(
            parameter,
            "the analyzer's server rejects this parameter; requests are sent without it from now on"
        );
    }
}

/// The text of a completion.
fn written(completion: &Value) -> &str {
    completion["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

fn usage(body: &Value, completion: &Value) -> Usage {
    let counted = |name: &str| completion["usage"][name].as_u64();
    if let (Some(input), Some(output)) = (counted("prompt_tokens"), counted("completion_tokens")) {
        return Usage { input, output };
    }
    let messages = body["messages"].as_array().into_iter().flatten();
    let input_bytes = messages.filter_map(|message| message["content"].as_str()).map(str::len).sum();
    Usage::estimate(input_bytes, written(completion).len())
}
