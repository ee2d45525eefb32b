//! `PgBouncer` between the processes and PostgreSQL.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::Child;

use crate::Result;
use crate::parts::{Workplace, free_addresses};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sessions on PostgreSQL: those of three processes, 20 each.
const SESSIONS: usize = 60;

/// A `PgBouncer`, with the settings of its package but for those that it cannot do without.
pub(crate) struct Pooler {
    address: SocketAddr,
    _process: Child,
}

impl Pooler {
    /// Starts one in front of the server of this URL.
    pub(crate) async fn start(place: &Workplace, url: &str, mode: &str) -> Result<Self> {
        let (_, server, _) = split(url)?;
        let server: SocketAddr = server.parse()?;
        let [address] = free_addresses()?;
        let users = place.write("users.txt", "\"auspex\" \"\"\n")?;
        let settings = format!(
            "[databases]
* = host={} port={}
[pgbouncer]
listen_addr = {}
listen_port = {}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = {SESSIONS}
",
            server.ip(),
            server.port(),
            address.ip(),
            address.port(),
        );
        let file = place.write(&format!("{mode}.ini"), &settings)?;
        let process = place.start(&format!("pgbouncer-{mode}"), "pgbouncer", &[file])?;
        let listening = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.map_err(|_| "PgBouncer does not listen")?;
        Ok(Self { address, _process: process })
    }

    /// A URL of the server, through this.
    pub(crate) fn url(&self, url: &str) -> Result<String> {
        let (user, _, database) = split(url)?;
        Ok(format!("postgres://{user}@{}/{database}", self.address))
    }
}

/// The user, the host with its port, and the database of a URL.
pub(crate) fn split(url: &str) -> Result<(&str, &str, &str)> {
    let parts = || {
        let (user, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
        let (host, database) = rest.split_once('/')?;
        Some((user, host, database))
    };
    parts().ok_or_else(|| "postgres://user@host:port/database".into())
}
