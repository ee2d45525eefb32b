//! Requests to URLs that tenants name: webhooks and chat messages.
//!
//! All of them share one pooled client. A name is resolved once for each connection, all of its addresses are checked,
//! and the connection goes to a checked one; an IP address in the URL needs no resolver and is checked before each
//! request. Redirects are not followed, and one deadline covers everything from the lookup to the last byte.
//! Requests to URLs that the operator configured do not go through here.

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

/// How much of an answer is kept.
pub(crate) const KEPT_BYTES: usize = 1_024;
/// How much of an answer is read for the sake of the connection: with more to come, a new one is cheaper.
const READ_BYTES: usize = 64 * 1_024;
/// How long registration waits for a name; one that takes longer counts as one that does not resolve.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(3);
/// Connections to one receiver that are kept open for the next request.
const IDLE_CONNECTIONS: usize = 32;
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest address.
const MAX_URL: usize = 2_048;
const USER_AGENT: &str = concat!("auspex/", env!("CARGO_PKG_VERSION"));

/// Calls addresses that strangers named. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub(crate) struct Outbound {
    client: Client,
    guard: Guard,
}

/// What a receiver answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The status.
    pub(crate) status: u16,
    /// The first [`KEPT_BYTES`] of the body, as text that can be stored.
    pub(crate) body_start: String,
    /// How long it asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

/// Why there was no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutboundError {
    /// The address is none that we call, now or later.
    #[error("{0}")]
    Refused(String),
    /// Something on the way broke.
    #[error("{0}")]
    Network(String),
    /// The deadline passed.
    #[error("no complete answer in time")]
    Timeout,
}

/// Decides which addresses may be called.
#[derive(Clone)]
struct Guard {
    allow_private: bool,
    lookups: Lookups,
}

/// A host that is refused, and why. Public: the text is for whoever registered the address.
#[derive(Debug)]
struct Objection(String);

impl Outbound {
    /// A way out that leads into private networks only if `allow_private` says so.
    pub(crate) fn new(allow_private: bool) -> Result<Self> {
        Self::with_lookups(allow_private, Lookups::of_system())
    }

    fn with_lookups(allow_private: bool, lookups: Lookups) -> Result<Self> {
        let guard = Guard { allow_private, lookups };
        let client = Client::builder()
            .dns_resolver(guard.clone())
            .redirect(redirect::Policy::none())
            // A proxy would resolve and connect in our place, past the guard.
            .no_proxy()
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .user_agent(USER_AGENT)
            .build()
            .map_err(internal)?;
        Ok(Self { client, guard })
    }

    /// Whether deliveries may go to private networks.
    pub(crate) fn allows_private(&self) -> bool {
        self.guard.allow_private
    }

    /// Reads an address that a stranger names, and says what is wrong with it. A name that does not resolve now is fine.
    pub(crate) async fn check(&self, text: &str) -> std::result::Result<Url, String> {
        if text.len() > MAX_URL {
            return Err(format!("it must have at most {MAX_URL} characters"));
        }
        let url = Url::parse(text).map_err(|reason| format!("it is not an address: {reason}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it must start with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not contain a user name or a password".to_owned());
        }
        self.guard.check_literal(&url).map_err(|objection| objection.0)?;
        if let (false, Some(Host::Domain(name))) = (self.guard.allow_private, url.host()) {
            let looked_up = tokio::time::timeout(LOOKUP_DEADLINE, self.guard.resolve_checked(name));
            if let Ok(Err(objection)) = looked_up.await {
                match objection.downcast::<Objection>() {
                    Ok(objection) => return Err(objection.0),
                    Err(unresolved) => tracing::debug!(%unresolved, "a host does not resolve yet"),
                }
            }
        }
        Ok(url)
    }

    /// Posts a body, and reads the start of the answer.
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
    let mut kept = Vec::new();
    let mut length = 0;
    while length < READ_BYTES
        && let Some(chunk) = response.chunk().await.map_err(failure)?
    {
        length += chunk.len();
        kept.extend_from_slice(&chunk[..chunk.len().min(KEPT_BYTES - kept.len())]);
    }
    Ok(Reply { status, body_start: storable(kept), retry_after })
}

/// Bytes as text that both databases can keep.
fn storable(bytes: Vec<u8>) -> String {
    let whole = match std::str::from_utf8(&bytes) {
        // The cut went through a character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let mut text = String::from_utf8_lossy(&bytes[..whole]).replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(KEPT_BYTES));
    text
}

impl Guard {
    /// Refuses an address that is written out in the URL, in whatever form: those were made one by parsing.
    fn check_literal(&self, url: &Url) -> std::result::Result<(), Objection> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(None, address.into()),
            Some(Host::Ipv6(address)) => self.check_address(None, address.into()),
            Some(Host::Domain(name)) if self.allow_private || !is_local_name(name) => Ok(()),
            Some(Host::Domain(name)) => Err(Objection(format!("{name} is loopback and is not called"))),
            None => Err(Objection("it must name a host".to_owned())),
        }
    }

    /// Refuses an address that is none to be called: one that stands in the URL, or one that a name has led to.
    fn check_address(&self, name: Option<&str>, address: IpAddr) -> std::result::Result<(), Objection> {
        match (objection(address).filter(|_| !self.allow_private), name) {
            (None, _) => Ok(()),
            (Some(why), None) => Err(Objection(format!("{address} is {why} and is not called"))),
            (Some(why), Some(name)) => {
                // What names mean inside our network is not for strangers to know.
                tracing::debug!(name, %address, why, "a name leads to an address that is not called");
                Err(Objection(format!("{name} leads to a private address and is not called")))
            }
        }
    }

    /// The addresses of a name. One that must not be called spoils all: such a name is not what it claims to be.
    async fn resolve_checked(
        &self,
        name: &str,
    ) -> std::result::Result<Vec<IpAddr>, Box<dyn StdError + Send + Sync>> {
        let addresses = self.lookups.find(name.to_owned()).await?;
        for address in &addresses {
            self.check_address(Some(name), *address)?;
        }
        Ok(addresses)
    }
}

/// Whether a name stands for this machine whatever a resolver says (RFC 6761).
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

/// What went wrong, in words for whoever owns the receiver. Without the URL, which may be a credential.
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
