//! One call: its attempts, and how its response is parsed.

use http::{HeaderMap, Method, StatusCode};
use model::retry_after;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::retry::{Outcome, Repeat, random_fraction};
use crate::{Client, Credential, Error, Refusal, sign};

/// The characters of a path segment that are escaped: all but the unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A call to be made.
pub(crate) struct Call {
    method: Method,
    /// The escaped path, which is sent.
    path: String,
    /// The path before escaping, which is signed.
    decoded_path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    idempotency_key: Option<String>,
    repeat: Repeat,
}

/// The response to a call.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// A call of a path, given by its unescaped segments. GET, PUT and DELETE may be repeated.
    pub(crate) fn new(method: Method, segments: &[&str]) -> Result<Self, Error> {
        // URL normalization removes such segments, escaped or not.
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(Error::Setup(
                "an id that is empty, `.` or `..` cannot be part of an address".to_owned(),
            ));
        }
        let escaped: Vec<String> =
            segments.iter().map(|segment| utf8_percent_encode(segment, SEGMENT).to_string()).collect();
        let repeat =
            if matches!(method, Method::POST | Method::PATCH) { Repeat::Harmful } else { Repeat::Harmless };
        Ok(Self {
            method,
            path: format!("/{}", escaped.join("/")),
            decoded_path: format!("/{}", segments.join("/")),
            query: Vec::new(),
            body: None,
            idempotency_key: None,
            repeat,
        })
    }

    /// Adds a query parameter, if there is a value.
    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Sets the body.
    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let written =
            serde_json::to_vec(body).map_err(|reason| Error::Setup(format!("no JSON: {reason}")))?;
        self.body = Some(written);
        Ok(self)
    }

    /// Sets the idempotency key.
    pub(crate) fn idempotency_key(mut self, key: String) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// Marks the call as safe to repeat, whatever its method.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Harmless;
        self
    }
}

impl Client {
    /// Makes a call and parses its response.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.respond(call).await?.parse()
    }

    /// Makes a call whose response has no body.
    pub(crate) async fn done(&self, call: Call) -> Result<(), Error> {
        self.respond(call).await.map(|_| ())
    }

    /// Makes a call, and retries it while that may help.
    pub(crate) async fn respond(&self, call: Call) -> Result<Response, Error> {
        let (mut attempts, mut is_uncertain) = (0, false);
        loop {
            attempts += 1;
            let (outcome, error) = match self.attempt(&call).await {
                Ok(response) if response.status.is_success() => return Ok(response),
                // An earlier attempt deleted it, but its response was lost.
                Ok(response)
                    if is_uncertain
                        && call.method == Method::DELETE
                        && response.status == StatusCode::NOT_FOUND =>
                {
                    return Ok(response);
                }
                Ok(response) => {
                    let refusal = response.refusal();
                    let outcome = Outcome::Refused {
                        status: refusal.status,
                        retry_after: refusal.retry_after,
                        events_recorded: refusal.events_recorded,
                    };
                    (outcome, Error::Refused(refusal))
                }
                Err(error) if error.is_connect() => (Outcome::Unconnected, Error::Transport(error)),
                Err(error) => {
                    is_uncertain = true;
                    (Outcome::Unanswered, Error::Transport(error))
                }
            };
            match self.inner.retries.delay(attempts, call.repeat, outcome, random_fraction()) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(error),
            }
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Response, reqwest::Error> {
        let inner = &self.inner;
        let mut request = inner.http.request(call.method.clone(), format!("{}{}", inner.base, call.path));
        request = match &inner.credential {
            Credential::None => request,
            Credential::Token(token) => request.bearer_auth(token),
            Credential::Key { id, secret } => {
                let now = (inner.clock)();
                request.bearer_auth(sign::token(id, secret, now, call.method.as_str(), &call.decoded_path))
            }
        };
        if !call.query.is_empty() {
            request = request.query(&call.query);
        }
        if let Some(body) = &call.body {
            request = request.header(http::header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Response { status, headers, body: response.bytes().await?.into() })
    }
}

impl Response {
    /// Parses the body.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let unreadable = |reason: serde_json::Error| Error::Unreadable {
            status: self.status.as_u16(),
            reason: reason.to_string(),
        };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The error in the body. A body in another format comes from something in between, such as a proxy.
    fn refusal(&self) -> Refusal {
        let parsed: Option<model::api::Error> = serde_json::from_slice(&self.body).ok();
        let (code, message) = if let Some(parsed) = parsed {
            (parsed.error.code, parsed.error.message)
        } else {
            let reason = self.status.canonical_reason().unwrap_or("unknown status");
            ("unknown".to_owned(), format!("something other than the service answered: {reason}"))
        };
        Refusal {
            status: self.status.as_u16(),
            code,
            message,
            retry_after: self.header("retry-after").and_then(|value| retry_after(value, self.header("date"))),
            events_recorded: self.header("events-recorded") == Some("true"),
            request_id: self.header("x-request-id").map(str::to_owned),
        }
    }
}
