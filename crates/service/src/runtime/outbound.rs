//! The only HTTP client for URLs that tenants configure: webhooks and chat messages.
//!
//! One pooled client serves all of them. A host name is resolved once per connection, all of its addresses are checked,
//! and the connection goes to a checked one; IP addresses in the URL bypass the resolver and are checked before each
//! request. Redirects are not followed, and one deadline covers everything from resolving to the last byte.
//! URLs that the operator configures do not use this client.

use std::error::Error as StdError;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use self::lookups::Lookups;
use model::address::objection;
use model::retry_after;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Body, Client, Response, redirect};
use url::{Host, Url};

use crate::runtime::{Result, internal};

mod dns;
mod lookups;

/// How much of a response is stored.
pub(crate) const STORED_BYTES: usize = 1_024;
/// How much of a response is read so that its connection can be reused; for longer responses a new connection is cheaper.
const READ_BYTES: usize = 64 * 1_024;
/// How long registration waits for a name to resolve; a slower name counts as one that does not resolve.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(3);
/// Idle connections kept open per receiver.
const IDLE_CONNECTIONS: usize = 32;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum length of a URL.
const MAX_URL: usize = 2_048;
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Sends requests to URLs that tenants configured. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub(crate) struct Outbound {
    client: Client,
    guard: Guard,
}

/// A receiver's response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The first [`STORED_BYTES`] of the body, as text that both databases can store.
    pub(crate) body_start: String,
    /// The wait that the receiver asks for in `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
}

/// Why there was no response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutboundError {
    /// The address is not allowed; a retry does not help.
    #[error("{0}")]
    Refused(String),
    /// The connection failed.
    #[error("{0}")]
    Network(String),
    /// The deadline passed.
    #[error("the request timed out")]
    Timeout,
}

/// Decides which addresses are allowed.
#[derive(Clone)]
struct Guard {
    allow_private: bool,
    lookups: Lookups,
}

/// Why a host is refused. The text is shown to the user who registered the URL.
#[derive(Debug)]
struct Objection(String);

impl Outbound {
    /// A client that connects to private networks only if `allow_private` is set.
    pub(crate) fn new(allow_private: bool) -> Result<Self> {
        Self::with_lookups(allow_private, Lookups::system())
    }

    fn with_lookups(allow_private: bool, lookups: Lookups) -> Result<Self> {
        let guard = Guard { allow_private, lookups };
        let client = Client::builder()
            .dns_resolver(guard.clone())
            .redirect(redirect::Policy::none())
            // A proxy would resolve names and connect itself, bypassing the guard.
            .no_proxy()
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(USER_AGENT)
            .build()
            .map_err(internal)?;
        Ok(Self { client, guard })
    }

    /// Whether private networks are allowed.
    pub(crate) fn allows_private(&self) -> bool {
        self.guard.allow_private
    }

    /// Parses and checks a URL, and returns what is wrong with it. A name that does not resolve now is allowed.
    pub(crate) async fn check(&self, text: &str) -> std::result::Result<Url, String> {
        if text.len() > MAX_URL {
            return Err(format!("it must have at most {MAX_URL} characters"));
        }
        let url = Url::parse(text).map_err(|reason| format!("invalid URL: {reason}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it must start with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not contain a user name or a password".to_owned());
        }
        self.guard.check_literal(&url).map_err(|objection| objection.0)?;
        if let (false, Some(Host::Domain(name))) = (self.guard.allow_private, url.host()) {
            let lookup = tokio::time::timeout(LOOKUP_DEADLINE, self.guard.resolve_checked(name));
            if let Ok(Err(objection)) = lookup.await {
                match objection.downcast::<Objection>() {
                    Ok(objection) => return Err(objection.0),
                    Err(unresolved) => tracing::debug!(%unresolved, "a host does not resolve yet"),
                }
            }
        }
        Ok(url)
    }

    /// Posts a body, and reads the start of the response.
    pub(crate) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<Body>,
        deadline: Duration,
    ) -> std::result::Result<Reply, OutboundError> {
        self.guard.check_literal(url).map_err(|objection| OutboundError::Refused(objection.0))?;
        let request = self.client.post(url.clone()).headers(headers).body(body);
        let exchange = async {
            let response = request.send().await.map_err(failure)?;
            read(response).await
        };
        tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(OutboundError::Timeout))
    }
}

async fn read(mut response: Response) -> std::result::Result<Reply, OutboundError> {
    let status = response.status().as_u16();
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let retry_after = header(RETRY_AFTER).and_then(|wait| retry_after(wait, header(DATE)));
    let mut start = Vec::new();
    let mut length = 0;
    while length < READ_BYTES
        && let Some(chunk) = response.chunk().await.map_err(failure)?
    {
        length += chunk.len();
        start.extend_from_slice(&chunk[..chunk.len().min(STORED_BYTES - start.len())]);
    }
    Ok(Reply { status, body_start: storable(start), retry_after })
}

/// Converts bytes to text that both databases can store.
fn storable(bytes: Vec<u8>) -> String {
    let whole = match std::str::from_utf8(&bytes) {
        // The text was cut within a character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let mut text = String::from_utf8_lossy(&bytes[..whole]).replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(STORED_BYTES));
    text
}

impl Guard {
    /// Refuses a URL whose host is a disallowed IP address, in any notation: parsing has normalized it.
    fn check_literal(&self, url: &Url) -> std::result::Result<(), Objection> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(None, address.into()),
            Some(Host::Ipv6(address)) => self.check_address(None, address.into()),
            Some(Host::Domain(name)) if self.allow_private || !is_local_name(name) => Ok(()),
            Some(Host::Domain(name)) => Err(Objection(format!("{name} is loopback, which is not allowed"))),
            None => Err(Objection("it must name a host".to_owned())),
        }
    }

    /// Refuses a disallowed address: the host of a URL, or one that `name` resolved to.
    fn check_address(&self, name: Option<&str>, address: IpAddr) -> std::result::Result<(), Objection> {
        match (objection(address).filter(|_| !self.allow_private), name) {
            (None, _) => Ok(()),
            (Some(why), None) => Err(Objection(format!("{address} is {why}, which is not allowed"))),
            (Some(why), Some(name)) => {
                // The address is not in the message: tenants must not learn how names resolve inside the operator's network.
                tracing::debug!(name, %address, why, "a name resolves to an address that is not allowed");
                Err(Objection(format!("{name} resolves to a private address, which is not allowed")))
            }
        }
    }

    /// The addresses of a name. One disallowed address is enough to refuse the name: it may be an attempt at DNS rebinding.
    async fn resolve_checked(
        &self,
        name: &str,
    ) -> std::result::Result<Vec<IpAddr>, Box<dyn StdError + Send + Sync>> {
        let addresses = self.lookups.resolve(name.to_owned()).await?;
        for address in &addresses {
            self.check_address(Some(name), *address)?;
        }
        Ok(addresses)
    }
}

/// Whether a name always means this machine, whatever a resolver answers (RFC 6761).
fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.resolve_checked(name.as_str()).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// The error for the tenant that owns the receiver. Without the URL, which may be a credential.
fn failure(error: reqwest::Error) -> OutboundError {
    let error = error.without_url();
    if error.is_timeout() {
        return OutboundError::Timeout;
    }
    let mut deepest: &dyn StdError = &error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
        if let Some(Objection(reason)) = cause.downcast_ref() {
            return OutboundError::Refused(reason.clone());
        }
    }
    let step = if error.is_connect() { "cannot connect" } else { "the connection broke" };
    OutboundError::Network(format!("{step}: {deepest}"))
}

impl fmt::Display for Objection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl StdError for Objection {}

#[cfg(test)]
mod tests;
