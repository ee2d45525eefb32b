//! Requests to a model's HTTP API: bounded in time, size and number, without redirects. And how they fail.

use std::time::Duration;

use model::retry_after;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode, redirect};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::slots::Slots;
use crate::{Failure, Inquiry};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An upper bound for what is configured: no analysis is worth more, and instants must not overflow.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
/// A wrong header must not stop the queue for days, and retrying after an hour costs one request.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Responses are some kilobytes.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;
/// The longest name of a model that is recorded.
const MAX_MODEL_CHARS: usize = 128;
/// How much of a rejection goes to the log.
const MAX_EXCERPT_BYTES: usize = 500;
/// The status by which some services say that they are overloaded.
const OVERLOADED: u16 = 529;
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Where a model's API is, and how it may be called.
#[derive(Clone)]
pub struct Endpoint {
    /// The base URL of the API; it usually ends in `/v1`.
    pub url: Url,
    /// The API key, if the server needs one.
    pub api_key: Option<String>,
    /// The model to request. Answers are recorded under the name that the server's response has; this is for responses
    /// without one.
    pub model: String,
    /// How long an inquiry may take, including all its requests and the wait for a slot.
    pub timeout: Duration,
    /// How many requests may be in flight at once, over all inquiries.
    pub max_concurrency: usize,
}

/// Why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The URL cannot be a base.
    #[error("invalid URL: a path cannot be added to it; use one like https://example.com/v1")]
    Url,
    /// The API key cannot be sent.
    #[error("invalid API key: it has characters that are not allowed in a header")]
    ApiKey,
    /// The HTTP client cannot be built.
    #[error("the analyzer's HTTP client cannot be built")]
    Client(#[source] reqwest::Error),
}

/// One operation of a model's API.
pub(crate) struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
    api_key: Option<String>,
    timeout: Duration,
    slots: Slots,
}

/// When an inquiry must be over, and whether a caller is waiting for it.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    is_urgent: bool,
}

/// Why a request has failed.
pub(crate) enum RequestError {
    /// The server rejects this request; another one may succeed.
    Rejected(Rejection),
    Failure(Failure),
}

/// A response that is not a success.
pub(crate) struct Rejection {
    pub(crate) status: StatusCode,
    /// The body, with the API key removed.
    pub(crate) body: String,
}

impl Http {
    /// Prepares requests to `path`. The API key goes into the header `key_name`, after `key_prefix`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        path: &str,
        (key_name, key_prefix): (&'static str, &str),
    ) -> Result<Self, InvalidEndpoint> {
        let mut url = endpoint.url.clone();
        url.path_segments_mut().map_err(|()| InvalidEndpoint::Url)?.pop_if_empty().extend(path.split('/'));
        let mut headers = HeaderMap::new();
        let api_key = endpoint.api_key.clone().filter(|key| !key.is_empty());
        if let Some(key) = &api_key {
            let value = HeaderValue::try_from(format!("{key_prefix}{key}"));
            let mut value = value.map_err(|_| InvalidEndpoint::ApiKey)?;
            value.set_sensitive(true);
            headers.insert(key_name, value);
        }
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent(USER_AGENT)
            .build()
            .map_err(InvalidEndpoint::Client)?;
        let timeout = endpoint.timeout.min(MAX_TIMEOUT);
        let slots = Slots::new(endpoint.max_concurrency);
        Ok(Self { client, url, headers, api_key, timeout, slots })
    }

    /// Adds a header to every request.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// The deadline of an inquiry that starts now.
    pub(crate) fn deadline(&self, inquiry: Inquiry<'_>) -> Deadline {
        Deadline { at: Instant::now() + self.timeout, is_urgent: inquiry.is_urgent }
    }

    /// Sends a request and parses the response as JSON.
    pub(crate) async fn post(&self, body: &Value, deadline: Deadline) -> Result<Value, RequestError> {
        let exchange = tokio::time::timeout_at(deadline.at, self.exchange(body, deadline.is_urgent));
        exchange.await.unwrap_or_else(|_| {
            Err(RequestError::Failure(Failure::failed(format!(
                "the request timed out after {:?}",
                self.timeout
            ))))
        })
    }

    async fn exchange(&self, body: &Value, is_urgent: bool) -> Result<Value, RequestError> {
        let _slot = self.slots.acquire(is_urgent).await?;
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).json(body);
        let mut response = request.send().await.map_err(transport_failure)?;
        let status = response.status();
        if is_throttling(status) {
            return Err(Failure::Throttled { retry_after: requested_wait(response.headers()) }.into());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(transport_failure)? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let cause = format!("the response is {status} and larger than {MAX_RESPONSE_BYTES} bytes");
                return Err(Failure::failed(cause).into());
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(RequestError::Rejected(Rejection { status, body: self.without_key(&body) }));
        }
        // serde's own message quotes the input, which may be personal data.
        serde_json::from_slice(&body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::failed(format!("the response is not JSON, at line {line}, column {column}")).into()
        })
    }

    /// Removes the API key, which some servers quote when they reject it.
    fn without_key(&self, body: &[u8]) -> String {
        let body = String::from_utf8_lossy(body);
        match &self.api_key {
            Some(key) => body.replace(key, "***"),
            None => body.into_owned(),
        }
    }
}

impl Rejection {
    /// Whether the server names this parameter as the reason. It may quote the prompt, so a parameter whose name is in
    /// the prompt does not count: what a user writes must not change how the server is called.
    pub(crate) fn is_about(&self, parameter: &str, prompt: &Value) -> bool {
        let is_about_the_request = matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY
        );
        is_about_the_request
            && self.mentions(parameter)
            && !prompt.to_string().to_lowercase().contains(parameter)
    }

    /// Whether the body contains this word, in upper or lower case.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        self.body.to_lowercase().contains(word)
    }
}

/// Whether the status asks to retry later.
fn is_throttling(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) || status == OVERLOADED
}

/// The failure of a request without a response. The URL is left out, since it may contain a secret.
fn transport_failure(error: reqwest::Error) -> RequestError {
    let is_down = error.is_connect();
    let cause = Box::new(error.without_url());
    if is_down { Failure::Down(cause).into() } else { Failure::Failed(cause).into() }
}

/// The wait that the `Retry-After` header asks for.
fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let wait = retry_after(text(header::RETRY_AFTER)?, text(header::DATE))?;
    Some(wait.min(MAX_RETRY_AFTER))
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<RequestError> for Failure {
    fn from(problem: RequestError) -> Self {
        match problem {
            RequestError::Rejected(Rejection { status, body }) => {
                Self::failed(format!("the response is {status}: {}", excerpt(&body)))
            }
            RequestError::Failure(failure) => failure,
        }
    }
}

/// The start of a text, in one line for the log.
fn excerpt(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(MAX_EXCERPT_BYTES)];
    model::single_line(start)
}

/// The model that a response names, if that is a plausible name.
pub(crate) fn answering_model(response: &Value) -> Option<String> {
    let name = response["model"].as_str()?.trim();
    let is_plausible =
        (1..=MAX_MODEL_CHARS).contains(&name.chars().count()) && !name.contains(char::is_control);
    is_plausible.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(retry_after: &str, date: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, retry_after.parse().unwrap());
        if let Some(date) = date {
            headers.insert(header::DATE, date.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_requested_wait_is_at_most_an_hour() {
        let now = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (retry_after, date, wait_s) in [
            ("7", None, Some(7)),
            ("999999999", None, Some(3600)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", now, Some(30)),
            ("Mon, 07 Nov 1994 08:00:00 GMT", now, Some(3600)),
            ("soon", now, None),
        ] {
            let wait = wait_s.map(Duration::from_secs);
            assert_eq!(requested_wait(&headers(retry_after, date)), wait, "{retry_after:?} at {date:?}");
        }
        assert_eq!(requested_wait(&HeaderMap::new()), None);
    }

    #[test]
    fn a_response_names_its_model() {
        let named = |model: Value| answering_model(&serde_json::json!({ "model": model }));
        assert_eq!(named("large-2026-08-01".into()).as_deref(), Some("large-2026-08-01"));
        for not_a_name in
            ["".into(), " ".into(), "a\nb".into(), "x".repeat(129).into(), 7.into(), Value::Null]
        {
            assert_eq!(named(not_a_name), None);
        }
    }

    #[test]
    fn an_excerpt_is_short_and_one_line() {
        assert_eq!(excerpt("one\ntwo\u{2028}\u{1b}[31m"), "one two  [31m");
        let long = "é".repeat(MAX_EXCERPT_BYTES);
        assert_eq!(excerpt(&format!("x{long}")).len(), MAX_EXCERPT_BYTES - 1, "no half characters");
    }
}
