//! How a model behind HTTP is asked: bounded in time, in size and in number, never redirected. And how that fails.

use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, StatusCode, redirect};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::places::Places;
use crate::{Failure, Inquiry};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Whatever is configured: no analysis is worth more, and instants must not overflow.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
/// A wrong header must not stop the queue for days. Asking again after an hour costs one request.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Answers are some kilobytes.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// How much of a refusal reaches the log.
const MAX_EXCERPT_BYTES: usize = 500;
/// How some services say that they are overloaded.
const OVERLOADED: u16 = 529;
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Where a model is, and how it may be asked.
#[derive(Clone)]
pub struct Endpoint {
    /// The address that the paths of the API are below; it usually ends in `/v1`.
    pub url: Url,
    /// What proves that we may ask.
    pub api_key: Option<String>,
    /// The model to ask for. Answers are recorded under this name, whatever the server calls it.
    pub model: String,
    /// How long an inquiry may take, all its requests and the wait for their turn together.
    pub timeout: Duration,
    /// How many requests may be under way at once, over all inquiries.
    pub max_concurrency: usize,
}

/// Why a model cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The address is not one that paths can be below.
    #[error("the analyzer's URL must be one that paths can be added to")]
    Url,
    /// The key cannot be sent.
    #[error("the analyzer's API key has characters that a header cannot carry")]
    ApiKey,
    /// There can be no client.
    #[error("the analyzer's HTTP client cannot be made")]
    Client(#[source] reqwest::Error),
}

/// One address of a model's API.
pub(crate) struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
    api_key: Option<String>,
    timeout: Duration,
    places: Places,
}

/// When an inquiry must be over, and whether somebody waits for it.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    is_urgent: bool,
}

/// Why a request has no successful answer.
pub(crate) enum Problem {
    /// The server does not want this request; another one might do.
    Refused(Refusal),
    Failure(Failure),
}

/// An answer that is not a success.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What the server says about it, without our key.
    pub(crate) body: String,
}

impl Http {
    /// Readies requests to `path`. The key goes into the header `key_name`, after `key_prefix`.
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
        let places = Places::new(endpoint.max_concurrency);
        Ok(Self { client, url, headers, api_key, timeout, places })
    }

    /// The same, with another header on every request.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// When an inquiry that starts now must be over.
    pub(crate) fn deadline(&self, inquiry: Inquiry<'_>) -> Deadline {
        Deadline { at: Instant::now() + self.timeout, is_urgent: inquiry.is_urgent }
    }

    /// Asks, and reads the answer as JSON.
    pub(crate) async fn post(&self, body: &Value, deadline: Deadline) -> Result<Value, Problem> {
        let exchange = tokio::time::timeout_at(deadline.at, self.exchange(body, deadline.is_urgent));
        exchange.await.unwrap_or_else(|_| {
            Err(Problem::Failure(Failure::failed(format!("no answer within {:?}", self.timeout))))
        })
    }

    async fn exchange(&self, body: &Value, is_urgent: bool) -> Result<Value, Problem> {
        let _place = self.places.take(is_urgent).await?;
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).json(body);
        let mut response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        if is_throttling(status) {
            return Err(Failure::Throttled { retry_after: retry_after(response.headers()) }.into());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
            if body.len() + chunk.len() > MAX_ANSWER_BYTES {
                let cause = format!("the answer is {status} and larger than {MAX_ANSWER_BYTES} bytes");
                return Err(Failure::failed(cause).into());
            }
            body.extend_from_slice(&chunk);
        }
        if !status.is_success() {
            return Err(Problem::Refused(Refusal { status, body: self.without_key(&body) }));
        }
        // serde's own words quote what it read, which may be a person's data.
        serde_json::from_slice(&body).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Failure::failed(format!("the answer is not JSON, at {place}")).into()
        })
    }

    /// Some servers quote the key that they refuse.
    fn without_key(&self, body: &[u8]) -> String {
        let body = String::from_utf8_lossy(body);
        match &self.api_key {
            Some(key) => body.replace(key, "***"),
            None => body.into_owned(),
        }
    }
}

impl Refusal {
    /// Whether the server names this parameter as the reason. It may quote the prompt, so a word that is in the prompt too
    /// proves nothing: what a person writes must not change how the server is asked.
    pub(crate) fn is_about(&self, parameter: &str, prompt: &Value) -> bool {
        let is_complaint = matches!(
            self.status,
            StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY
        );
        is_complaint && self.says(parameter) && !prompt.to_string().to_lowercase().contains(parameter)
    }

    /// Whether the server's words hold this one, in any case.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.body.to_lowercase().contains(word)
    }
}

/// Below 500 or above, these say "later" and not "never".
fn is_throttling(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) || status == OVERLOADED
}

/// Without the address, which may hold a secret of its own.
fn unanswered(error: reqwest::Error) -> Problem {
    let is_down = error.is_connect();
    let cause = Box::new(error.without_url());
    if is_down { Failure::Down(cause).into() } else { Failure::Failed(cause).into() }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).map(str::trim);
    let asked = text(header::RETRY_AFTER)?;
    let wait = match asked.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        // A date is compared with the server's own clock, since ours may differ.
        Err(_) => Duration::from_secs(
            instant(asked)?.saturating_sub(instant(text(header::DATE)?)?).try_into().unwrap_or(0),
        ),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Seconds since the epoch. What HTTP calls a date is one of mail.
fn instant(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok().map(jiff::Timestamp::as_second)
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Refused(Refusal { status, body }) => {
                Self::failed(format!("the answer is {status}: {}", excerpt(&body)))
            }
            Problem::Failure(failure) => failure,
        }
    }
}

/// The start of it, fit for a line of the log.
fn excerpt(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(MAX_EXCERPT_BYTES)];
    start.replace(char::is_control, " ")
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
    fn patience_is_asked_for_in_seconds_or_until_a_date() {
        let now = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (asked, date, wait_s) in [
            ("7", None, Some(7)),
            (" 0 ", None, Some(0)),
            ("999999999", None, Some(3600)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", now, Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", now, Some(0)),
            ("Mon, 07 Nov 1994 08:00:00 GMT", now, Some(3600)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", None, None),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some("now"), None),
            ("soon", now, None),
            ("-1", now, None),
        ] {
            let wait = wait_s.map(Duration::from_secs);
            assert_eq!(retry_after(&headers(asked, date)), wait, "{asked:?} at {date:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn an_excerpt_is_short_and_one_line() {
        assert_eq!(excerpt("one\ntwo\u{1b}[31m"), "one two [31m");
        let long = "é".repeat(MAX_EXCERPT_BYTES);
        assert_eq!(excerpt(&format!("x{long}")).len(), MAX_EXCERPT_BYTES - 1, "no half characters");
    }
}
