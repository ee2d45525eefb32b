//! The client's address, behind trusted proxies.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use service::ClientInfo;

use super::App;
use super::connections::Peer;
use crate::config::NetworkList;

/// The client's address: the peer's, or the one that a trusted proxy forwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientAddress(pub(super) IpAddr);

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // Every connection has a peer; without one, all clients would share the unspecified address.
        let peer = parts.extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer.ip());
        Ok(Self(client_address(peer, &parts.headers, &app.trusted_proxies)))
    }
}

/// Where a request comes from: the client's address and the name that it gives itself.
#[derive(Clone, Debug)]
pub(super) struct Client(pub(super) ClientInfo);

impl FromRequestParts<App> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let ClientAddress(address) = ClientAddress::from_request_parts(parts, app).await?;
        let request_id = parts.extensions.get::<RequestId>().map(|RequestId(id)| id.to_string());
        let agent = agent(&parts.headers).map(str::to_owned);
        Ok(Self(ClientInfo { address, agent, request_id }))
    }
}

/// The id of a request, which is in its response and in the log.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) Arc<str>);

/// What a client calls itself. A name with other bytes than visible ASCII is ignored.
pub(super) fn agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::USER_AGENT)?.to_str().ok()
}

/// The right-most address that is not a trusted proxy: the client could have forged everything to the left of it.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &NetworkList) -> IpAddr {
    let mut client = peer.to_canonical();
    if !trusted.contains(client) {
        return client;
    }
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .collect();
    for hop in forwarded.iter().rev() {
        let Some(address) = parse(hop.trim()) else { break };
        client = address.to_canonical();
        if !trusted.contains(client) {
            break;
        }
    }
    client
}

/// Parses an address, optionally with a port or in brackets, as proxies write them.
fn parse(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        let trusted: NetworkList = "10.0.0.0/8, 127.0.0.1, ::1".parse().unwrap();
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn an_untrusted_peer_cannot_forge_its_address() {
        assert_eq!(client("203.0.113.9", &["1.2.3.4"]), "203.0.113.9");
        assert_eq!(
            client("10.0.0.1", &["1.2.3.4, 203.0.113.9"]),
            "203.0.113.9",
            "everything to the left of an untrusted address is ignored"
        );
    }

    #[test]
    fn trusted_hops_are_walked_from_the_right() {
        assert_eq!(client("10.0.0.1", &["203.0.113.9, 10.0.0.2"]), "203.0.113.9");
        assert_eq!(
            client("10.0.0.1", &["203.0.113.9", "10.0.0.2, 10.0.0.3"]),
            "203.0.113.9",
            "several headers are one list"
        );
        assert_eq!(client("::ffff:10.0.0.1", &["203.0.113.9:4711"]), "203.0.113.9");
        assert_eq!(client("::1", &["[2001:db8::1]:80"]), "2001:db8::1");
        assert_eq!(client("::1", &["[2001:db8::1]"]), "2001:db8::1");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &["10.0.0.2"]), "10.0.0.2", "all trusted: the left-most");
        assert_eq!(client("10.0.0.1", &["203.0.113.9, unknown"]), "10.0.0.1", "garbage ends the walk");
    }
}
