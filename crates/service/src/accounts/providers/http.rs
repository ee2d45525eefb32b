//! HTTP requests to a provider: bounded in time and size, without redirects. And how a sign-in fails.

use std::error::Error as StdError;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, StatusCode, header, redirect};
use serde::de::DeserializeOwned;
use url::Url;

use crate::runtime::Result;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// From the first byte sent to the last one received. A member is waiting.
const DEADLINE: Duration = Duration::from_secs(10);
/// The largest response in practice, a set of keys, has a few kilobytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// GitHub refuses callers that do not say who they are.
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The code or its verifier is invalid, or they belong to different sign-ins: the caller's mistake.
    #[error("the code or its verifier is refused")]
    GrantRefused,
    /// The provider gives no identity before it has verified the address.
    #[error("the provider has not verified the address")]
    EmailUnverified,
    /// The provider failed. Of what it sent, this holds only an error code.
    #[error("{step}")]
    Broken {
        step: &'static str,
        #[source]
        cause: Box<dyn StdError + Send + Sync>,
    },
}

impl Failure {
    pub(super) fn at(step: &'static str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Broken { step, cause: cause.into() }
    }
}

/// The client that calls both providers.
pub(super) struct Http {
    client: Client,
    pub(super) deadline: Duration,
}

/// A complete response.
pub(super) struct Answer {
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
        Ok(Self { client, deadline: DEADLINE })
    }

    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        self.readied(self.client.get(url))
    }

    pub(super) fn post(&self, url: Url) -> RequestBuilder {
        self.readied(self.client.post(url))
    }

    fn readied(&self, request: RequestBuilder) -> RequestBuilder {
        request.timeout(self.deadline).header(header::ACCEPT, "application/json")
    }
}

/// Sends the request and reads the response, whatever its status.
pub(super) async fn answer(step: &'static str, request: RequestBuilder) -> Result<Answer, Failure> {
    let mut response = request.send().await.map_err(|error| Failure::at(step, error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Failure::at(step, error))? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(Failure::at(step, format!("the answer is larger than {MAX_ANSWER_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status: response.status(), body })
}

/// Sends the request and parses a successful response.
pub(super) async fn fetch<T: DeserializeOwned>(
    step: &'static str,
    request: RequestBuilder,
) -> Result<T, Failure> {
    answer(step, request).await?.read(step)
}

impl Answer {
    /// Parses a successful response.
    pub(super) fn read<T: DeserializeOwned>(&self, step: &'static str) -> Result<T, Failure> {
        if !self.status.is_success() {
            return Err(Failure::at(step, format!("the answer is {}", self.status)));
        }
        // serde's own messages quote the input, which may be a token or personal data.
        serde_json::from_slice(&self.body).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Failure::at(step, format!("the answer is not the JSON expected, at {place}"))
        })
    }
}
