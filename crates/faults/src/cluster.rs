//! Two PostgreSQL under Patroni, with synchronous replication, behind `HAProxy`: a database that survives its primary.
//!
//! Every way between the parts leads through a proxy of ours, so that a member can be cut off without a word.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Child;
use tokio::time::Instant;

use crate::http::client;
use crate::parts::{self, Workplace, free_addresses};
use crate::plan::Weather;
use crate::proxy::Proxy;
use crate::{Result, lock};

/// How long the lease of a primary lasts, how often its Patroni renews it, and how long that tries to, in seconds. Shorter ones
/// take a busy machine for a dead one.
const LEASE_S: u64 = 20;
const ROUND_S: u64 = 2;
const RETRY_S: u64 = 3;
/// How long the members may take to be what they should be.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often they are asked.
const TICK: Duration = Duration::from_millis(100);
/// How long one may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// A way for a primary to fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fall {
    /// kill -9 of all its processes, as if its host had lost its power.
    Kill,
    /// SIGSTOP to all its processes, and SIGCONT later.
    Freeze,
    /// Nothing gets to it or comes from it, and no connection is closed.
    CutOff,
    /// An operator makes the other one the primary.
    Switchover,
}

impl Fall {
    pub(crate) const ALL: [Self; 4] = [Self::Kill, Self::Freeze, Self::CutOff, Self::Switchover];
}

/// The cluster.
pub(crate) struct Cluster {
    /// Leads to the primary, through `HAProxy`.
    pub(crate) url: String,
    members: [Member; 2],
    http: reqwest::Client,
    /// `etcd` and `HAProxy`, which end with this.
    _around: [Child; 2],
}

/// A PostgreSQL with its Patroni.
struct Member {
    name: &'static str,
    place: Workplace,
    /// Where Patroni listens.
    rest: SocketAddr,
    patroni: Mutex<Option<Child>>,
    ways: Ways,
}

/// What a member is reached by, and what it reaches.
struct Ways {
    postgres: Proxy,
    rest: Proxy,
    etcd: Proxy,
}

impl Cluster {
    /// Starts it in a directory, and waits until the second member could take over.
    pub(crate) async fn start(place: &Workplace) -> Result<Self> {
        let [store, peer, entry] = free_addresses()?;
        let etcd = start_etcd(place, store, peer)?;
        let members = [Member::new("one", place, store).await?, Member::new("two", place, store).await?];
        let haproxy = start_haproxy(place, entry, &members)?;
        for member in &members {
            member.start()?;
        }
        let url = format!("postgres://auspex@{entry}/postgres");
        let cluster = Self { url, members, http: client(ANSWER)?, _around: [etcd, haproxy] };
        cluster.wait_until_redundant().await?;
        Ok(cluster)
    }

    pub(crate) fn name(&self, member: usize) -> &'static str {
        self.members[member].name
    }

    /// Waits until there is a primary with a synchronous standby, and returns the primary.
    pub(crate) async fn wait_until_redundant(&self) -> Result<usize> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for primary in 0..self.members.len() {
                if self.says(primary, "primary").await && self.says(1 - primary, "synchronous").await {
                    return Ok(primary);
                }
            }
            tokio::time::sleep(TICK).await;
        }
        Err(format!("no primary with a synchronous standby within {PATIENCE:?}").into())
    }

    /// Waits until a member is the primary, and returns when it was seen.
    pub(crate) async fn wait_for_primary(&self, member: usize) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.says(member, "primary").await {
                return Ok(Instant::now());
            }
            tokio::time::sleep(TICK).await;
        }
        Err(format!("{} did not become the primary within {PATIENCE:?}", self.name(member)).into())
    }

    /// Makes a primary fall.
    pub(crate) async fn fell(&self, primary: usize, fall: Fall) -> Result<()> {
        let member = &self.members[primary];
        match fall {
            Fall::Kill => member.kill().await,
            Fall::Freeze => member.freeze(),
            Fall::CutOff => member.set_weather(Weather::Stall(100)),
            Fall::Switchover => {
                let asked = json!({"leader": member.name, "candidate": self.name(1 - primary)});
                let url = format!("http://{}/switchover", member.rest);
                // Patroni answers when it is done.
                let asking = self.http.post(url).timeout(PATIENCE).body(asked.to_string());
                let answer = asking.send().await?;
                if !answer.status().is_success() {
                    return Err(format!("switchover: {}", answer.text().await?).into());
                }
            }
        }
        Ok(())
    }

    /// Lets one that fell come back.
    pub(crate) fn raise(&self, fallen: usize, fall: Fall) -> Result<()> {
        let member = &self.members[fallen];
        match fall {
            Fall::Kill => member.start()?,
            Fall::Freeze => member.thaw(),
            Fall::CutOff => member.set_weather(Weather::Fair),
            Fall::Switchover => {}
        }
        Ok(())
    }

    /// Whether a member says that it has this role.
    async fn says(&self, member: usize, role: &str) -> bool {
        let url = format!("http://{}/{role}", self.members[member].rest);
        self.http.get(url).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

impl Member {
    async fn new(name: &'static str, around: &Workplace, etcd: SocketAddr) -> Result<Self> {
        let place = Workplace::new(around.directory.join(name))?;
        let [postgres, rest] = free_addresses()?;
        let ways = Ways {
            postgres: Proxy::to(postgres).await?,
            rest: Proxy::to(rest).await?,
            etcd: Proxy::to(etcd).await?,
        };
        let member = Self { name, place, rest, patroni: Mutex::default(), ways };
        member.place.write("patroni.yml", &member.settings(postgres).to_string())?;
        Ok(member)
    }

    /// Patroni's settings; JSON is YAML.
    fn settings(&self, postgres: SocketAddr) -> Value {
        json!({
            "scope": "auspex",
            "name": self.name,
            "restapi": {"listen": self.rest, "connect_address": self.ways.rest.address},
            "etcd": {"hosts": [self.ways.etcd.address], "use_proxies": true},
            "bootstrap": {
                "dcs": {
                    "ttl": LEASE_S,
                    "loop_wait": ROUND_S,
                    "retry_timeout": RETRY_S,
                    "synchronous_mode": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": {"max_connections": 200, "wal_log_hints": "on"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
            },
            "postgresql": {
                "listen": postgres,
                "connect_address": self.ways.postgres.address,
                "data_dir": self.place.path("data"),
                "pgpass": self.place.path("pgpass"),
                "authentication": {"superuser": {"username": "auspex"}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": self.place.directory},
            },
        })
    }

    fn start(&self) -> Result<()> {
        let patroni = self.place.start("patroni", "patroni", &["patroni.yml".to_owned()])?;
        *lock(&self.patroni) = Some(patroni);
        Ok(())
    }

    fn set_weather(&self, weather: Weather) {
        for way in [&self.ways.postgres, &self.ways.rest, &self.ways.etcd] {
            way.set(weather);
        }
    }

    /// Patroni and PostgreSQL's first process.
    fn heads(&self) -> Vec<u32> {
        let patroni = lock(&self.patroni).as_ref().and_then(Child::id);
        let file = std::fs::read_to_string(PathBuf::from(self.place.path("data/postmaster.pid")));
        let postgres = file.ok().and_then(|file| file.lines().next()?.parse().ok());
        patroni.into_iter().chain(postgres).collect()
    }

    /// Stops all processes: first those that would start others.
    fn freeze(&self) {
        let heads = self.heads();
        parts::signal("STOP", &heads);
        parts::signal("STOP", &offspring(&heads));
    }

    fn thaw(&self) {
        let heads = self.heads();
        parts::signal("CONT", &offspring(&heads));
        parts::signal("CONT", &heads);
    }

    async fn kill(&self) {
        self.kill_processes();
        let patroni = lock(&self.patroni).take();
        if let Some(mut patroni) = patroni {
            let _ = patroni.wait().await;
        }
    }

    fn kill_processes(&self) {
        self.freeze();
        let mut processes = self.heads();
        processes.extend(offspring(&processes));
        parts::signal("KILL", &processes);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill_processes();
    }
}

fn offspring(heads: &[u32]) -> Vec<u32> {
    heads.iter().flat_map(|head| parts::children(*head)).collect()
}

/// One `etcd`: its own failures are not what is tested.
fn start_etcd(place: &Workplace, client: SocketAddr, peer: SocketAddr) -> Result<Child> {
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    let arguments = [
        format!("--data-dir={}", place.path("etcd")),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--logger=zap".to_owned(),
        // Patroni 3.0.2 compares before it renews its lead only with this interface. With the newer one, a primary that was
        // frozen takes the lead back from the one that followed it, and what that one has acknowledged is lost.
        "--enable-v2=true".to_owned(),
    ];
    place.start("etcd", "etcd", &arguments)
}

/// Sends connections to whichever member's Patroni says that it is the primary, and closes those to one that is not.
fn start_haproxy(place: &Workplace, entry: SocketAddr, members: &[Member]) -> Result<Child> {
    let server = |member: &Member| {
        let Member { name, ways, .. } = member;
        format!("  server {name} {} check port {}\n", ways.postgres.address, ways.rest.address.port())
    };
    let servers: String = members.iter().map(server).collect();
    let settings = format!(
        "global
  maxconn 1000
defaults
  mode tcp
  timeout connect 2s
  timeout check 2s
  timeout client 30m
  timeout server 30m
listen primary
  bind {entry}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{servers}"
    );
    let file = place.write("haproxy.cfg", &settings)?;
    place.start("haproxy", "haproxy", &["-db".to_owned(), "-f".to_owned(), file])
}
