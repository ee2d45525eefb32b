//! HTTP calls to providers: bounded in time and size, without redirects.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, header, redirect};
use serde::de::DeserializeOwned;
use url::Url;

use crate::runtime::Result;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// One call, from the first byte sent to the last one received.
const DEADLINE: Duration = Duration::from_secs(10);
/// The maximum size of a response; the largest in use, a set of keys, has a few kilobytes.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// GitHub refuses requests without a user agent.
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The code or its verifier is invalid, or they belong to different sign-ins: the caller's error.
    #[error("the code or its verifier is refused")]
    GrantRefused,
    /// The provider refuses users whose email address is not verified.
    #[error("the provider has not verified the address")]
    EmailUnverified,
    /// The provider failed. Of its response this contains only the error code.
    #[error("{step}")]
    Broken {
        step: &'static str,
        #[source]
        cause: Box<dyn StdError + Send + Sync>,
    },
}

/// Why a sign-in failed, and whose it was if the provider has told before.
#[derive(Debug)]
pub(super) struct Incomplete {
    /// The id of the provider account.
    pub(super) subject: Option<String>,
    pub(super) failure: Failure,
}

impl From<Failure> for Incomplete {
    fn from(failure: Failure) -> Self {
        Self { subject: None, failure }
    }
}

impl Failure {
    /// With whose sign-in it was.
    pub(super) fn of(self, subject: &str) -> Incomplete {
        Incomplete { subject: Some(subject.to_owned()), failure: self }
    }

    /// Not all calls of a sign-in were answered in time.
    pub(super) fn late() -> Self {
        Self::at("waiting for the provider", "the sign-in timed out")
    }

    pub(super) fn at(step: &'static str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Broken { step, cause: cause.into() }
    }
}

/// The HTTP client for all providers.
pub(super) struct Http {
    client: Client,
}

/// A complete response.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Http {
    pub(super) fn new() -> reqwest::Result<Self> {
        let client = Client::builder()
            .connect_timeout(CONNECT_DEADLINE)
            .redirect(redirect::Policy::none())
            .user_agent(USER_AGENT)
            .build()?;
        Ok(Self { client })
    }

    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        Self::with_defaults(self.client.get(url))
    }

    pub(super) fn post(&self, url: Url) -> RequestBuilder {
        Self::with_defaults(self.client.post(url))
    }

    fn with_defaults(request: RequestBuilder) -> RequestBuilder {
        request.timeout(DEADLINE).header(header::ACCEPT, "application/json")
    }
}

/// Sends a request and reads the response, whatever its status.
pub(super) async fn send(step: &'static str, request: RequestBuilder) -> Result<Response, Failure> {
    let mut response = request.send().await.map_err(|error| Failure::at(step, error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::at(step, error))? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(Failure::at(step, format!("the response is larger than {MAX_RESPONSE_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Response { status: response.status(), body })
}

/// Sends a request and parses a successful response.
pub(super) async fn fetch<T: DeserializeOwned>(
    step: &'static str,
    request: RequestBuilder,
) -> Result<T, Failure> {
    send(step, request).await?.read(step)
}

impl Response {
    /// Parses a successful response.
    pub(super) fn read<T: DeserializeOwned>(&self, step: &'static str) -> Result<T, Failure> {
        if !self.status.is_success() {
            return Err(Failure::at(step, format!("the response is {}", self.status)));
        }
        // serde's own message quotes its input, which may be a token or personal data.
        serde_json::from_slice(&self.body).map_err(|error| {
            let position = format!("line {}, column {}", error.line(), error.column());
            Failure::at(step, format!("the response is not the JSON expected, at {position}"))
        })
    }
}
