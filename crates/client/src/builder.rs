//! The builder of clients: URL, credential, timeout and retries.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use url::Url;

use crate::retry::Retries;
use crate::{Client, Credential, Error, Inner};

/// Longer than a verdict may take by default, which is 30 seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a body may stand still: a connection that was dropped in silence is noticed by nothing else.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// Builds a [`Client`].
///
/// ```
/// use std::time::Duration;
///
/// let client = auspex_client::Client::builder("https://auspex.example")
///     .key("ak_3f9a", "sk_5c1d")
///     .timeout(Duration::from_secs(10))
///     .max_retries(2)
///     .build()?;
/// # Ok::<(), auspex_client::Error>(())
/// ```
pub struct ClientBuilder {
    base_url: String,
    credential: Credential,
    timeout: Duration,
    retries: Retries,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl ClientBuilder {
    pub(crate) fn new(base_url: String) -> Self {
        Self {
            base_url,
            credential: Credential::None,
            timeout: DEFAULT_TIMEOUT,
            retries: Retries::default(),
            clock: Box::new(now),
        }
    }

    /// Signs requests with an API key: its public id and its secret.
    #[must_use]
    pub fn key(self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { credential: Credential::Key { id: id.into(), secret: secret.into() }, ..self }
    }

    /// Authenticates with a console token instead, as a signed-in user.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { credential: Credential::Token(token.into()), ..self }
    }

    /// Sets how long one attempt may take; 45 seconds by default. A verdict may take 30.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets how often a call is retried; 4 times by default, 0 for never.
    #[must_use]
    pub fn max_retries(mut self, times: u32) -> Self {
        self.retries.limit = times;
        self
    }

    /// Sets the delay before the first retry, which doubles with each; 250 ms by default.
    #[must_use]
    pub fn backoff(mut self, first: Duration) -> Self {
        self.retries.first_delay = first;
        self
    }

    /// Sets the longest `Retry-After` to wait for; 60 seconds by default. With a longer one, the error is returned at once.
    #[must_use]
    pub fn max_retry_after(mut self, longest: Duration) -> Self {
        self.retries.max_retry_after = longest;
        self
    }

    /// Sets the clock for signing tokens, if the machine's clock is not reliable.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..self }
    }

    /// Builds the client. Nothing is sent yet.
    pub fn build(self) -> Result<Client, Error> {
        let base = self.base_url.trim_end_matches('/').to_owned();
        let url =
            Url::parse(&base).map_err(|reason| Error::Setup(format!("{base:?} is no address: {reason}")))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.query().is_some() {
            return Err(Error::Setup(format!("{base:?} is no http or https address of a service")));
        }
        // If the program has already installed a TLS implementation, that one stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder();
        if is_local(&url) {
            // A proxy would connect to its own machine instead.
            http = http.no_proxy();
        }
        let http = http
            .timeout(self.timeout)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT.max(self.timeout))
            // A token is valid for one path of one service, and must not be sent anywhere else.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("auspex-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|reason| Error::Setup(reason.to_string()))?;
        let (credential, retries, clock) = (self.credential, self.retries, self.clock);
        Ok(Client { inner: Arc::new(Inner { http, base, credential, retries, clock }) })
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientBuilder").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the client runs in other programs, which have no service::Clock"
)]
fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since_epoch.as_micros().try_into().unwrap_or(i64::MAX))
}
