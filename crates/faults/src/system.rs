//! A deployment under test: its processes, its database, its analyzer, its tenants with their rules and receivers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Client;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::process::Command;
use uuid::Uuid;

use crate::analyzer::Analyzer;
use crate::cluster::Cluster;
use crate::database::Database;
use crate::host::{self, ClockShim, Disk, Postgres, ProcessClock};
use crate::http::Http;
use crate::node::Node;
use crate::parts::Workplace;
use crate::plan::Kind;
use crate::pooler::{self, Pooler};
use crate::proxy::Proxy;
use crate::receiver::{Receiver, Role};
use crate::tenant::{Endpoint, Tenant};
use crate::{Result, lock, random::Random, say};

/// How long processes may take until they are ready, on a busy machine.
pub(crate) const READY: Duration = Duration::from_mins(1);
/// The credit of a tenant that never runs out of money, in cents.
const RICH: i64 = 100_000_000;
/// What the poor tenant has: the signup credit of 500 cents, less most of it.
const POOR: i64 = -470;
/// The price of an analysis: 1,000 tokens at 10 dollars a million.
pub(crate) const PRICE_MICROS: i64 = 10_000;
/// The analyses that a process may run at a time, and the verdicts that a tenant may.
pub(crate) const WORKERS: usize = 8;
pub(crate) const SYNC_LIMIT: usize = 8;
/// The processes that try to start behind a pooler in transaction mode.
const STARTS: usize = 10;
/// The master key of the deployment.
const MASTER_KEY: &str = "ZmF1bHRzLWZhdWx0cy1mYXVsdHMtZmF1bHRzLWZhdWw=";

/// Which deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// One process on SQLite.
    Sqlite,
    /// Three processes on PostgreSQL.
    Postgres,
    /// Three processes on PostgreSQL behind `PgBouncer` in session mode.
    Pooler,
    /// Three processes on two PostgreSQL, one of which is the primary.
    Cluster,
    /// Three processes of an older binary on PostgreSQL, which are replaced by the newer one.
    Upgrade,
}

/// A deployment.
pub(crate) struct System {
    pub(crate) backend: Backend,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) analyzer: Arc<Analyzer>,
    pub(crate) database: Database,
    pub(crate) http: Http,
    pub(crate) disk: Disk,
    pub(crate) postgres: Option<Postgres>,
    pub(crate) cluster: Option<Cluster>,
    _pooler: Option<Pooler>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) directory: PathBuf,
    /// What runs the operator's commands.
    binary: Mutex<PathBuf>,
    url: String,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Pooler => "pooler",
            Self::Cluster => "cluster",
            Self::Upgrade => "upgrade",
        }
    }

    fn nodes(self) -> usize {
        match self {
            Self::Sqlite => 1,
            Self::Postgres | Self::Pooler | Self::Cluster | Self::Upgrade => 3,
        }
    }
}

impl System {
    /// Sets a deployment up in `directory`, with its processes running.
    pub(crate) async fn start(
        backend: Backend,
        binary: &Path,
        directory: &Path,
        without: &[Kind],
    ) -> Result<Self> {
        let directory = directory.join(backend.name());
        let disk = Disk::new(directory.join("data"))?;
        let postgres = match backend {
            Backend::Sqlite | Backend::Cluster => None,
            Backend::Postgres | Backend::Pooler | Backend::Upgrade => {
                Some(Postgres::from_environment().ok_or("start it with scripts/with-postgres")?)
            }
        };
        let cluster = match backend {
            Backend::Cluster => Some(Cluster::start(&Workplace::new(directory.join("servers"))?).await?),
            _ => None,
        };
        let server =
            postgres.as_ref().map(|postgres| &postgres.url).or(cluster.as_ref().map(|cluster| &cluster.url));
        let url = match server {
            None => format!("sqlite:{}", disk.path().join("auspex.db").display()),
            Some(server) => new_database(server).await?,
        };
        let pooler = match backend {
            Backend::Pooler => Some(start_pooler(&directory, binary, &url, disk.path()).await?),
            _ => None,
        };
        let way = pooler.as_ref().map_or_else(|| Ok(url.clone()), |pooler| pooler.url(&url))?;
        let (address, analyzer) = Analyzer::start().await?;
        let shim = ClockShim::new(&directory)?;
        let mut nodes = Vec::new();
        for number in 0..backend.nodes() {
            let clock = ProcessClock::new(directory.join(format!("clock-{number}")))?;
            let log = directory.join(format!("node-{number}.log"));
            let (port, variables, proxy) = surroundings(number, disk.path(), &way, address).await?;
            nodes.push(Node::new(binary.to_owned(), port, variables, log, (clock, shim.clone()), proxy));
        }
        let kinds = kinds(backend, &disk, postgres.as_ref(), shim.is_some(), without);
        let (http, tenants) = (Http::new()?, Vec::new());
        let binary = Mutex::new(binary.to_owned());
        let commands = lock(&binary).clone();
        auspex(&commands, &url, disk.path(), &["migrate"]).await?;
        let database = Database::open(&url).await?;
        let mut system = Self {
            backend,
            nodes,
            tenants,
            analyzer,
            database,
            http,
            disk,
            postgres,
            cluster,
            _pooler: pooler,
            kinds,
            directory,
            binary,
            url,
        };
        for node in &system.nodes {
            node.start()?;
        }
        system.wait_until_ready().await?;
        for number in 0..3 {
            let tenant = system.tenant(number).await?;
            system.tenants.push(tenant);
        }
        Ok(system)
    }

    /// Runs `auspex admin …` on the database, past the proxies.
    pub(crate) async fn admin(&self, arguments: &[&str]) -> Result<String> {
        let arguments = [&["admin"], arguments].concat();
        let binary = lock(&self.binary).clone();
        self.run(&binary, &arguments).await
    }

    /// Runs a command of a binary on the database, past the proxies.
    pub(crate) async fn run(&self, binary: &Path, arguments: &[&str]) -> Result<String> {
        auspex(binary, &self.url, self.disk.path(), arguments).await
    }

    /// Takes this binary for the operator's commands from now on.
    pub(crate) fn command_with(&self, binary: &Path) {
        binary.clone_into(&mut lock(&self.binary));
    }

    /// Waits until every process says that it is ready.
    pub(crate) async fn wait_until_ready(&self) -> Result<()> {
        let deadline = tokio::time::Instant::now() + READY;
        for node in &self.nodes {
            while !self.http.is_ready(&node.url).await {
                if tokio::time::Instant::now() > deadline {
                    return Err(format!("{} is not ready after {READY:?}", node.url).into());
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    /// The endpoint whose receiver never responds, which rests most of the time.
    pub(crate) fn silent_endpoint(&self) -> Uuid {
        let mut endpoints = self.tenants.iter().flat_map(|tenant| &tenant.endpoints);
        let silent = endpoints.find(|endpoint| endpoint.receiver.role == Role::Silent);
        silent.map(|endpoint| endpoint.id).unwrap_or_default()
    }

    /// Copies the database into the directory, which is kept.
    pub(crate) async fn keep(&self) -> Result<()> {
        for node in &self.nodes {
            node.kill().await;
        }
        match &self.postgres {
            Some(postgres) => postgres.keep(&self.directory.join("postgres")).await,
            None => host::copy(self.disk.path(), &self.directory.join("kept")),
        }
    }

    /// Opens an account with one signal, two rules and its receivers.
    async fn tenant(&self, number: usize) -> Result<Tenant> {
        let is_poor = number == 2;
        let id = self.admin(&["tenant", "create", &format!("Tenant {number}")]).await?;
        let amount = if is_poor { POOR } else { RICH }.to_string();
        self.admin(&["credit", &id, &amount]).await?;
        let made = self.admin(&["key", "create", "--tenant", &id]).await?;
        let word = |name: &str| {
            let line = made.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned()).ok_or("the key is not shown")
        };
        let (key, secret) = (word("key")?, word("secret")?);
        let client = Client::builder(&self.nodes[0].url).key(&key, &secret).build()?;
        for signal in ["is_scammer", "trust_score", "buyer_intent"] {
            client.delete_signal(signal).await?;
        }
        let mut tenant =
            Tenant { id: id.parse()?, key, secret, is_poor, rules: [Uuid::nil(); 2], endpoints: Vec::new() };
        let question = json!({"type": "noul", "instructions": "Is the newest event hot?"});
        self.set_up(&tenant, "PUT", "/v1/signals/hot", &question).await?;
        let roles = [Role::Steady, Role::Moody, Role::Gone, Role::Silent];
        for role in &roles[..if number == 0 { 4 } else { 2 }] {
            let (address, receiver) = Receiver::start(*role).await?;
            let made = self
                .set_up(&tenant, "POST", "/v1/webhooks", &json!({"url": format!("http://{address}/")}))
                .await?;
            let _ = receiver.secret.set(text(&made["secret"])?);
            tenant.endpoints.push(Endpoint { id: text(&made["endpoint"]["id"])?.parse()?, receiver });
        }
        for (rule, (when, endpoint)) in [("hot > 0.5", 0), ("hot < 0.5", 1)].into_iter().enumerate() {
            let config = json!({"endpoint_id": tenant.endpoints[endpoint].id});
            let body = json!({"when": when, "action_type": "webhook", "action_config": config});
            tenant.rules[rule] =
                text(&self.set_up(&tenant, "POST", "/v1/rules", &body).await?["id"])?.parse()?;
        }
        Ok(tenant)
    }

    async fn set_up(&self, tenant: &Tenant, method: &str, path: &str, body: &Value) -> Result<Value> {
        let response = self.http.call(&self.nodes[0].url, tenant, method, path, None, body).await?;
        if response.status >= 300 {
            return Err(format!("{method} {path}: {} {}", response.status, response.body).into());
        }
        Ok(response.body)
    }
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().ok_or_else(|| format!("no text: {value}"))?.to_owned())
}

/// The kinds of faults that this machine allows. Those of a cluster are its primary's, and an upgrade has its own.
fn kinds(
    backend: Backend,
    disk: &Disk,
    postgres: Option<&Postgres>,
    has_clock: bool,
    without: &[Kind],
) -> Vec<Kind> {
    if matches!(backend, Backend::Cluster | Backend::Upgrade) {
        return Vec::new();
    }
    let mut kinds = vec![Kind::Kill, Kind::Terminate, Kind::Freeze, Kind::Receivers, Kind::Analyzer];
    if has_clock {
        kinds.push(Kind::Clock);
    }
    if let Some(postgres) = postgres {
        kinds.extend([Kind::Delay, Kind::Cut, Kind::Stall]);
        if postgres.can_be_restarted() {
            kinds.push(Kind::Restart);
        }
    } else if disk.can_be_filled() {
        kinds.push(Kind::Disk);
    }
    kinds.retain(|kind| !without.contains(kind));
    kinds
}

/// The port of a node, its settings, and its way to the database.
async fn surroundings(
    number: usize,
    data: &Path,
    url: &str,
    analyzer: SocketAddr,
) -> Result<(u16, Vec<(&'static str, String)>, Option<Proxy>)> {
    // Free a moment ago; a node that finds its port taken ends at once, and the run with it.
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
    let (proxy, url) = if url.starts_with("sqlite:") {
        (None, url.to_owned())
    } else {
        let (user, host, database) = pooler::split(url)?;
        let proxy = Proxy::to(host.parse()?).await?;
        let name = node_name(number);
        let url = format!("postgres://{user}@{}/{database}?application_name={name}", proxy.address);
        (Some(proxy), url)
    };
    let mut variables = settings(&url, data);
    variables.extend([
        ("AUSPEX_LISTEN", format!("127.0.0.1:{port}")),
        ("AUSPEX_ANALYZER_URL", format!("http://{analyzer}/v1")),
    ]);
    Ok((port, variables, proxy))
}

/// What a node calls itself on PostgreSQL.
pub(crate) fn node_name(number: usize) -> String {
    format!("auspex-{number}")
}

/// Short times, so that what is owed comes within a round.
fn settings(url: &str, data: &Path) -> Vec<(&'static str, String)> {
    let workers = WORKERS.to_string();
    let sync_limit = SYNC_LIMIT.to_string();
    let fixed = [
        ("AUSPEX_MASTER_KEY", MASTER_KEY),
        ("AUSPEX_ANALYZER", "systemone"),
        ("AUSPEX_ANALYZER_URL", "http://127.0.0.1:9/v1"),
        ("AUSPEX_LISTEN", "127.0.0.1:0"),
        ("AUSPEX_ANALYZER_MODEL", "faults"),
        ("AUSPEX_ANALYZER_TIMEOUT_MS", "3000"),
        ("AUSPEX_DEBOUNCE_MS", "300"),
        ("AUSPEX_DEBOUNCE_MAX_MS", "2000"),
        ("AUSPEX_RATE_LIMIT_PER_MINUTE", "1000000"),
        ("AUSPEX_WEBHOOK_RETRY_BASE_MS", "500"),
        ("AUSPEX_WEBHOOK_MAX_ATTEMPTS", "9"),
        ("AUSPEX_WEBHOOK_TIMEOUT_MS", "2000"),
        ("AUSPEX_PRICE_INPUT_PER_MTOK", "10"),
        ("AUSPEX_PRICE_OUTPUT_PER_MTOK", "0"),
        ("AUSPEX_WORKERS", &workers),
        ("AUSPEX_SYNC_LIMIT", &sync_limit),
    ];
    let mut settings: Vec<_> = fixed.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
    settings.push(("AUSPEX_DATABASE_URL", url.to_owned()));
    settings.push(("AUSPEX_DATA_DIR", data.display().to_string()));
    settings
}

async fn auspex(binary: &Path, url: &str, data: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(arguments).env_clear().envs(settings(url, data)).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?.trim_end().to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("auspex {}: {}", arguments.join(" "), String::from_utf8_lossy(&said)).into())
}

/// Starts a pooler in session mode, after it was seen that one in transaction mode is refused.
async fn start_pooler(directory: &Path, binary: &Path, url: &str, data: &Path) -> Result<Pooler> {
    let place = Workplace::new(directory.join("servers"))?;
    let unfit = Pooler::start(&place, url, "transaction").await?;
    let unfit = unfit.url(url)?;
    // At once, so that they disturb each other's look at it.
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..STARTS {
        let (binary, url, data) = (binary.to_owned(), unfit.clone(), data.to_owned());
        starts.spawn(async move {
            let started = auspex(&binary, &url, &data, &["serve"]);
            tokio::time::timeout(READY, started).await
        });
    }
    let mut shown = String::new();
    for start in starts.join_all().await {
        shown = match start {
            Ok(Err(error)) if error.to_string().contains("pool_mode = session") => {
                error.to_string().lines().last().unwrap_or_default().to_owned()
            }
            Ok(Err(error)) => return Err(format!("behind a pooler in transaction mode: {error}").into()),
            Ok(Ok(_)) | Err(_) => return Err("a pooler in transaction mode was not refused".into()),
        };
    }
    say(&format!("PgBouncer in transaction mode: {STARTS} starts refused: {shown}"));
    Pooler::start(&place, url, "session").await
}

/// Creates a database in a cluster, and returns its URL.
async fn new_database(cluster: &str) -> Result<String> {
    let mut connection = PgConnection::connect(cluster).await?;
    let name = format!("faults_{}", Random::new(u64::from(std::process::id()), cluster).next());
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await?;
    let (base, _) = cluster.rsplit_once('/').ok_or("postgres://host/database")?;
    Ok(format!("{base}/{name}"))
}
