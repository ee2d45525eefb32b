//! One call: its attempts, and how its response is parsed.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use model::retry_after;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::retry::{Outcome, Repeat, random_fraction};
use crate::{Client, Credential, Error, Refusal, sign};

/// The characters of a path segment that are escaped: all but the unreserved ones.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How long a streamed body may take.
const STREAM_TIMEOUT: Duration = Duration::from_hours(24);

/// A call to be made, for operations that have no method of their own, and for callers that want the response as it is.
///
/// ```no_run
/// # async fn example(client: auspex_client::Client) -> Result<(), auspex_client::Error> {
/// use auspex_client::{Call, Method};
///
/// let call = Call::new(Method::GET, &["v1", "objects", "seller/42", "timeline"])?.query("limit", Some(10));
/// println!("{}", String::from_utf8_lossy(&client.request(call).await?.body));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    /// The escaped path, which is sent.
    path: String,
    /// The path before escaping, which is signed.
    decoded_path: String,
    query: Vec<(Cow<'static, str>, String)>,
    body: Option<Vec<u8>>,
    idempotency_key: Option<String>,
    repeat: Repeat,
}

/// The response to a call.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as it was sent.
    pub body: Vec<u8>,
}

/// A response whose body is read as it arrives.
#[derive(Debug)]
pub struct ResponseStream {
    response: reqwest::Response,
}

impl ResponseStream {
    /// The next part of the body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = self.response.chunk().await.map_err(Error::Transport)?;
        Ok(chunk.map(Into::into))
    }
}

impl Call {
    /// A call of a path, given by its unescaped segments. GET, PUT and DELETE may be repeated.
    pub fn new(method: Method, segments: &[&str]) -> Result<Self, Error> {
        // URL normalization removes such segments, escaped or not.
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(Error::Setup(
                "an id that is empty, `.` or `..` cannot be part of an address".to_owned(),
            ));
        }
        let escaped: Vec<String> =
            segments.iter().map(|segment| utf8_percent_encode(segment, SEGMENT).to_string()).collect();
        Ok(Self::of(method, format!("/{}", escaped.join("/")), format!("/{}", segments.join("/"))))
    }

    /// A call of a path that is escaped already, with or without a query: `/v1/objects/seller%2F42?limit=1`.
    pub fn to_target(method: Method, target: &str) -> Result<Self, Error> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/')
            || path.contains(['#', ' '])
            || path.split('/').any(|part| matches!(part, "." | ".."))
        {
            return Err(Error::Setup(format!(
                "{path:?} is not the path of an operation, such as /v1/objects"
            )));
        }
        let decoded = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| Error::Setup(format!("{path:?} is not UTF-8 once it is decoded")))?;
        let mut call = Self::of(method, path.to_owned(), decoded.into_owned());
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        call.query.extend(pairs.map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned())));
        Ok(call)
    }

    fn of(method: Method, path: String, decoded_path: String) -> Self {
        let repeat =
            if matches!(method, Method::POST | Method::PATCH) { Repeat::Harmful } else { Repeat::Harmless };
        Self { method, path, decoded_path, query: Vec::new(), body: None, idempotency_key: None, repeat }
    }

    /// Adds a query parameter, if there is a value.
    #[must_use]
    pub fn query(mut self, name: impl Into<Cow<'static, str>>, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name.into(), value.to_string())));
        self
    }

    /// Sets the body.
    pub fn json(mut self, body: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let written =
            serde_json::to_vec(body).map_err(|reason| Error::Setup(format!("no JSON: {reason}")))?;
        self.body = Some(written);
        Ok(self)
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Marks the call as safe to repeat, whatever its method.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeat = Repeat::Harmless;
        self
    }
}

impl Client {
    /// Makes a call and parses its response.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        self.request(call).await?.parse()
    }

    /// Makes a call whose response has no body.
    pub(crate) async fn done(&self, call: Call) -> Result<(), Error> {
        self.request(call).await.map(|_| ())
    }

    /// Makes a call, and retries it while that may help.
    pub async fn request(&self, call: Call) -> Result<Response, Error> {
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

    /// Makes a call once and returns its response before its body has arrived, for bodies of any size. The body may take
    /// as long as it wants.
    pub async fn stream(&self, call: &Call) -> Result<ResponseStream, Error> {
        let request = self.prepare(call).timeout(STREAM_TIMEOUT);
        let response = request.send().await.map_err(Error::Transport)?;
        if response.status().is_success() {
            return Ok(ResponseStream { response });
        }
        let response = Response::read(response).await.map_err(Error::Transport)?;
        Err(Error::Refused(response.refusal()))
    }

    async fn attempt(&self, call: &Call) -> Result<Response, reqwest::Error> {
        Response::read(self.prepare(call).send().await?).await
    }

    fn prepare(&self, call: &Call) -> reqwest::RequestBuilder {
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
        request
    }
}

impl Response {
    async fn read(response: reqwest::Response) -> Result<Self, reqwest::Error> {
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Self { status, headers, body: response.bytes().await?.into() })
    }

    /// Parses the body.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let unreadable = |reason: serde_json::Error| Error::Unreadable {
            status: self.status.as_u16(),
            reason: reason.to_string(),
        };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }

    /// A header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
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
