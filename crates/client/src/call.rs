//! One call: its tries, and what its answer is read as.

use http::{HeaderMap, Method, StatusCode};
use model::retry_after;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::retry::{Ended, Repeat, roll};
use crate::{Client, Credential, Error, Refusal, sign};

/// What stands for itself in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A call that is being described.
pub(crate) struct Call {
    method: Method,
    /// As it is sent, and as it is signed.
    path: String,
    decoded_path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
    idempotency_key: Option<String>,
    repeat: Repeat,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// A call of a path, whose segments are still to be escaped. GET, PUT and DELETE may be repeated.
    pub(crate) fn new(method: Method, segments: &[&str]) -> Result<Self, Error> {
        // An address loses such a segment on its way, escaped or not.
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

    /// With a parameter, if it is given.
    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// With a body.
    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        let written =
            serde_json::to_vec(body).map_err(|reason| Error::Setup(format!("no JSON: {reason}")))?;
        self.body = Some(written);
        Ok(self)
    }

    /// With a key by which the service knows a repetition.
    pub(crate) fn idempotency_key(mut self, key: String) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// Which may be made twice, whatever its method.
    pub(crate) fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Harmless;
        self
    }
}

impl Client {
    /// Makes a call and reads its answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.answer(call).await?.read()
    }

    /// Makes a call whose answer has no body.
    pub(crate) async fn done(&self, call: Call) -> Result<(), Error> {
        self.answer(call).await.map(|_| ())
    }

    /// Makes a call, again and again while that may help.
    pub(crate) async fn answer(&self, call: Call) -> Result<Answer, Error> {
        let (mut tries, mut unheard) = (0, false);
        loop {
            tries += 1;
            let (ended, error) = match self.attempt(&call).await {
                Ok(answer) if answer.status.is_success() => return Ok(answer),
                // An earlier try deleted it, and its answer was lost.
                Ok(answer)
                    if unheard && call.method == Method::DELETE && answer.status == StatusCode::NOT_FOUND =>
                {
                    return Ok(answer);
                }
                Ok(answer) => {
                    let refusal = answer.refusal();
                    let ended = Ended::Refused {
                        status: refusal.status,
                        retry_after: refusal.retry_after,
                        events_recorded: refusal.events_recorded,
                    };
                    (ended, Error::Refused(refusal))
                }
                Err(error) if error.is_connect() => (Ended::Unconnected, Error::Transport(error)),
                Err(error) => {
                    unheard = true;
                    (Ended::Unanswered, Error::Transport(error))
                }
            };
            match self.inner.retries.wait(tries, call.repeat, ended, roll()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Answer, reqwest::Error> {
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
        Ok(Answer { status, headers, body: response.bytes().await?.into() })
    }
}

impl Answer {
    /// The body as a record.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let unreadable = |reason: serde_json::Error| Error::Unreadable {
            status: self.status.as_u16(),
            reason: reason.to_string(),
        };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The refusal; what is not in the envelope came from something on the way, such as a proxy.
    fn refusal(&self) -> Refusal {
        let told: Option<model::api::Error> = serde_json::from_slice(&self.body).ok();
        let (code, message) = if let Some(told) = told {
            (told.error.code, told.error.message)
        } else {
            let reason = self.status.canonical_reason().unwrap_or("unknown status");
            ("unknown".to_owned(), format!("something other than the service answered: {reason}"))
        };
        Refusal {
            status: self.status.as_u16(),
            code,
            message,
            retry_after: self.header("retry-after").and_then(|asked| retry_after(asked, self.header("date"))),
            events_recorded: self.header("events-recorded") == Some("true"),
            request_id: self.header("x-request-id").map(str::to_owned),
        }
    }
}
