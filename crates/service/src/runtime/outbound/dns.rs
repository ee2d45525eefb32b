//! The system's DNS configuration: `/etc/hosts`, then the name servers of `/etc/resolv.conf`.
//!
//! Names that only another source of the C library knows (mDNS, LDAP, NIS) are not found.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};

/// How long the files are used before they are read again, and the longest that a name server's answer is cached.
const REREAD_INTERVAL: Duration = Duration::from_mins(1);
/// How long a name server has to answer. Shorter than the usual 5 s, so that a dead server leaves time to ask the next one.
const MAX_SERVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves names as the system is configured to.
#[derive(Default)]
pub(super) struct SystemDns {
    current: Mutex<Option<(Instant, Arc<Dns>)>>,
}

/// Resolves names by one state of the configuration.
pub(super) struct Dns {
    hosts: Hosts,
    resolver: TokioResolver,
}

impl SystemDns {
    /// The addresses of a name. The lookup ends when the future is dropped.
    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.current()?.resolve(name).await
    }

    /// The configuration, read again when it is old. Both files are small and local: reading them takes microseconds.
    fn current(&self) -> io::Result<Arc<Dns>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = match current.take() {
            Some((read_at, dns)) if read_at.elapsed() < REREAD_INTERVAL => {
                return Ok(Arc::clone(&current.insert((read_at, dns)).1));
            }
            previous => previous.map(|(_, dns)| dns),
        };
        let dns = match (system_conf::read_system_conf(), previous) {
            (Ok((config, options)), _) => Arc::new(Dns::new(config, options, system_hosts())?),
            (Err(error), Some(previous)) => {
                tracing::warn!(%error, "cannot read the DNS configuration; the previous one stays in use");
                previous
            }
            (Err(error), None) => {
                tracing::warn!(%error, "cannot read the DNS configuration; asking the local name server");
                Arc::new(Dns::new(local_server(), ResolverOpts::default(), system_hosts())?)
            }
        };
        Ok(Arc::clone(&current.insert((Instant::now(), dns)).1))
    }
}

impl Dns {
    pub(super) fn new(config: ResolverConfig, mut options: ResolverOpts, hosts: Hosts) -> io::Result<Self> {
        options.timeout = options.timeout.min(MAX_SERVER_TIMEOUT);
        // A caller checks all addresses, and the client tries both families.
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        options.positive_max_ttl = Some(REREAD_INTERVAL);
        options.negative_max_ttl = Some(REREAD_INTERVAL);
        // It would ask a server for the family that the file lacks; the C library does not, and nor do we.
        options.use_hosts_file = ResolveHosts::Never;
        // One server at a time: this bounds the sockets that one lookup opens.
        options.num_concurrent_reqs = 1;
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = builder.with_options(options).build().map_err(failure)?;
        Ok(Self { hosts, resolver })
    }

    pub(super) async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // A URL's host is ASCII already. Read as Unicode, an underscore would be refused.
        let parsed = Name::from_ascii(name).map_err(|error| failure(error.into()))?;
        let listed = self.listed(&parsed);
        if !listed.is_empty() {
            return Ok(listed);
        }
        Ok(self.resolver.lookup_ip(parsed).await.map_err(failure)?.iter().collect())
    }

    /// The addresses in the hosts file.
    fn listed(&self, name: &Name) -> Vec<IpAddr> {
        let lookups = [RecordType::A, RecordType::AAAA]
            .map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)));
        let records = lookups.iter().flatten().flat_map(Lookup::answers);
        records.filter_map(|record| record.data.ip_addr()).collect()
    }
}

fn system_hosts() -> Hosts {
    Hosts::from_system().unwrap_or_default()
}

/// What resolv.conf(5) prescribes where there is no configuration.
fn local_server() -> ResolverConfig {
    ResolverConfig::from_parts(None, vec![], vec![NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into())])
}

/// Why a name has no addresses, in words for whoever owns it.
fn failure(error: NetError) -> io::Error {
    if error.is_no_records_found() || error.is_nx_domain() {
        return io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    }
    // The library's own words name our servers.
    tracing::debug!(%error, "a DNS lookup failed");
    io::Error::other("the name cannot be resolved")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hickory_resolver::config::ConnectionConfig;
    use hickory_resolver::proto::op::{Message, ResponseCode};
    use hickory_resolver::proto::rr::{RData, Record};
    use tokio::net::UdpSocket;

    use super::*;

    /// What the name server answers for a name and a type; `None` for silence.
    fn answer(name: &str, kind: RecordType) -> Option<Vec<IpAddr>> {
        let answer: &[&str] = match (name, kind) {
            ("both.test.", RecordType::A) => &["192.0.2.1", "192.0.2.2"],
            ("both.test.", RecordType::AAAA) => &["2001:db8::1"],
            ("under_score.test.", RecordType::A) => &["192.0.2.3"],
            ("silent.test.", _) => return None,
            _ => &[],
        };
        Some(answer.iter().map(|address| address.parse().unwrap()).collect())
    }

    /// A name server on loopback; its configuration, and how many queries it received.
    async fn name_server() -> (ResolverConfig, Arc<AtomicUsize>) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut connection = ConnectionConfig::udp();
        connection.port = socket.local_addr().unwrap().port();
        let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![connection]);
        let queries = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&queries);
        #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
        tokio::spawn(async move {
            let mut buffer = [0; 4_096];
            loop {
                let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let mut message = Message::from_vec(&buffer[..length]).unwrap().into_response();
                let query = message.queries[0].clone();
                let Some(addresses) = answer(&query.name().to_string(), query.query_type()) else { continue };
                if addresses.is_empty() {
                    message.metadata.response_code = ResponseCode::NXDomain;
                }
                let record = |address| Record::from_rdata(query.name().clone(), 60, RData::from(address));
                message.add_answers(addresses.into_iter().map(record));
                socket.send_to(&message.to_vec().unwrap(), peer).await.unwrap();
            }
        });
        (ResolverConfig::from_parts(None, vec![], vec![server]), queries)
    }

    fn hosts(text: &str) -> Hosts {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(text.as_bytes()).unwrap();
        hosts
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_name_has_the_addresses_of_both_families() {
        let (config, queries) = name_server().await;
        let dns = Dns::new(config, ResolverOpts::default(), Hosts::default()).unwrap();
        let both = addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
        assert_eq!(dns.resolve("both.test").await.unwrap(), both);
        assert_eq!(dns.resolve("both.test.").await.unwrap(), both);
        // The second time it came from the cache.
        assert_eq!(queries.load(Ordering::SeqCst), 2);
        assert_eq!(dns.resolve("under_score.test").await.unwrap(), addresses(&["192.0.2.3"]));
        let missing = dns.resolve("missing.test").await.unwrap_err();
        assert_eq!(
            (missing.kind(), missing.to_string().as_str()),
            (io::ErrorKind::NotFound, "the name has no address")
        );
    }

    #[tokio::test]
    async fn a_listed_name_is_not_asked_for() {
        let (config, queries) = name_server().await;
        let hosts = hosts("192.0.2.9 silent.test both.test # a comment\n192.0.2.10 both.test\n");
        let dns = Dns::new(config, ResolverOpts::default(), hosts).unwrap();
        assert_eq!(dns.resolve("SILENT.test").await.unwrap(), addresses(&["192.0.2.9"]));
        assert_eq!(dns.resolve("both.test").await.unwrap(), addresses(&["192.0.2.9", "192.0.2.10"]));
        assert_eq!(queries.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_lookup_ends_when_nobody_waits_for_it() {
        let (config, queries) = name_server().await;
        let dns = Dns::new(config, ResolverOpts::default(), Hosts::default()).unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(100), dns.resolve("silent.test")).await;
        assert!(waited.is_err());
        let asked = queries.load(Ordering::SeqCst);
        tokio::time::sleep(MAX_SERVER_TIMEOUT + Duration::from_millis(500)).await;
        assert_eq!(queries.load(Ordering::SeqCst), asked);
    }

    #[tokio::test]
    async fn this_system_resolves_its_own_name() {
        let found = SystemDns::default().resolve("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
