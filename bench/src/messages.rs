//! A message from the request to its webhook: accepted, analyzed by the word counter, delivered. At a low rate and as fast as
//! it goes, to one endpoint and to ten: CPU of the service and its database for each message, and how long it takes.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::KeyId;
use model::api::WebhookEndpointCreate;
use service::{Caller, Clock, Credential, KeyRights, Random};
use sqlx::{Connection as _, PgConnection};

use crate::deliveries::{Receiver, bare_loop};
use crate::ingest::config;
use crate::load::{self, Load};
use crate::process::{Running, cpu_seconds_of, parent_of, with_children};
use crate::signing::unbound_token;
use crate::{Figure, Target};

const PER_SECOND: u32 = 300;
const CONNECTIONS: u32 = 32;
/// Connections when it goes as fast as it can.
const SATURATED_CONNECTIONS: usize = 64;
const PACED: Duration = Duration::from_secs(15);
const SATURATED: Duration = Duration::from_secs(10);
/// The same with ten endpoints: each message is ten deliveries, and all must have arrived within [`DRAIN`].
const SATURATED_TEN: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(3);
/// How long the service may take for what it has accepted.
const DRAIN: Duration = Duration::from_mins(1);
/// Messages sent alone, each after the one before has arrived.
const ALONE: usize = 50;
/// The longest debounce: what the service waits for more events about the same object.
const DEBOUNCE: Duration = Duration::from_millis(1);
/// Four heartbeats.
const IDLE: Duration = Duration::from_secs(20);
/// How long what comes after the last delivery may take, before nothing is done any more.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// The CPU of a message under load in requests of the bare client, with one endpoint and with ten: a third above what was measured.
const SATURATED_TO_BARE: f64 = 60.0;
const SATURATED_TO_BARE_TEN: f64 = 130.0;

/// What one database must keep to, in microseconds of CPU for a message at the low rate.
fn paced_limit(target: &Target) -> f64 {
    if target.name == "SQLite" { 1_800.0 } else { 2_500.0 }
}

/// Adds the figures to those given as soon as each is measured.
pub(crate) async fn measure(
    binary: &Path,
    target: &Target,
    figures: &mut Vec<Figure>,
) -> Result<(), Box<dyn Error>> {
    for endpoints in [1, 10] {
        measure_with(binary, target, endpoints, figures).await?;
    }
    Ok(())
}

/// How often the service wakes up while nothing is to be done.
pub(crate) async fn measure_idle(binary: &Path, target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let receiver = Receiver::start().await?;
    let token = set_up(&target.url, directory.path(), &receiver, 1).await?;
    let service = Running::start_with(binary, directory.path(), &settings(&target.url))?;
    let database = Database::of(target).await?;
    let case = Case { service: &service, database: &database, receiver: &receiver, endpoints: 1, token };
    // It has done everything once.
    case.alone(1).await?;
    let idle = case.idle().await?;
    Ok(vec![Figure::at_most(format!("{}: wake-ups when idle", target.name), idle, "/s", 5.0)])
}

async fn measure_with(
    binary: &Path,
    target: &Target,
    endpoints: usize,
    figures: &mut Vec<Figure>,
) -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let receiver = Receiver::start().await?;
    let token = set_up(&target.url, directory.path(), &receiver, endpoints).await?;
    let service = Running::start_with(binary, directory.path(), &settings(&target.url))?;
    let database = Database::of(target).await?;
    let name = target.name;
    let case = Case { service: &service, database: &database, receiver: &receiver, endpoints, token };

    let to = format!("to {endpoints} endpoint{}", if endpoints == 1 { "" } else { "s" });
    // Times are until the first delivery about an event.
    let first = if endpoints == 1 { "delivery" } else { "the first delivery of ten" };
    let what = |text: &str| format!("{name}, {to}: {text}");

    case.paced(WARM_UP).await?;
    let bare = bare_cpu(&receiver).await?;
    let alone = case.alone(ALONE).await?;
    println!(
        "{}",
        what(&format!(
            "a lone event to {first} {:.1} / {:.1} / {:.1} ms (p50, p90, p99)",
            alone.millis(50),
            alone.millis(90),
            alone.millis(99)
        ))
    );
    let paced = case.paced(PACED).await?;
    println!(
        "{}",
        what(&format!(
            "at {PER_SECOND}/s {:.0} µs of CPU a message (service {:.0}, database {:.0}), {:.1} context switches of the service; \
             event to {first} {:.1} / {:.1} ms (p50, p99)",
            paced.cpu_micros(),
            paced.service_micros,
            paced.database_micros,
            paced.waits,
            paced.millis(50),
            paced.millis(99),
        ))
    );
    if endpoints == 1 {
        figures.extend([
            Figure::at_most(what("a lone event to delivery, p50"), alone.millis(50), "ms", 11.0),
            Figure::at_most(what("a lone event to delivery, p90"), alone.millis(90), "ms", 11.0),
            Figure::at_most(what("event to delivery at 300/s, p50"), paced.millis(50), "ms", 12.0),
            Figure::at_most(what("event to delivery at 300/s, p99"), paced.millis(99), "ms", 40.0),
            Figure::at_most(what("CPU at 300/s"), paced.cpu_micros(), "µs", paced_limit(target)),
        ]);
    }
    let duration = if endpoints == 1 { SATURATED } else { SATURATED_TEN };
    let saturated = case.saturated(duration).await?;
    println!(
        "{}",
        what(&format!(
            "saturated {:.0}/s, {:.0} µs a message; a bare request {bare:.0} µs",
            saturated.per_second,
            saturated.cpu_micros()
        ))
    );
    let to_bare = saturated.cpu_micros() / bare;
    let most = if endpoints == 1 { SATURATED_TO_BARE } else { SATURATED_TO_BARE_TEN };
    figures.push(Figure::at_most(what("CPU saturated, to a bare request"), to_bare, "×", most));
    Ok(())
}

pub(crate) fn settings(url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("AUSPEX_DATABASE_URL", url.to_owned()),
        ("AUSPEX_MASTER_KEY", crate::ingest::MASTER_KEY.to_owned()),
        ("AUSPEX_RATE_LIMIT_PER_MINUTE", "4000000000".to_owned()),
        ("AUSPEX_INGEST_MIB_PER_MINUTE", "0".to_owned()),
        ("AUSPEX_DEBOUNCE_MS", DEBOUNCE.as_millis().to_string()),
        ("AUSPEX_ENFORCEMENT", "grace".to_owned()),
        ("AUSPEX_ALLOW_PRIVATE_TARGETS", "true".to_owned()),
    ]
}

/// Creates an account with a signal and endpoints, and returns a token for it.
pub(crate) async fn set_up(
    url: &str,
    directory: &Path,
    receiver: &Receiver,
    endpoints: usize,
) -> Result<String, Box<dyn Error>> {
    let clock = Clock::system();
    let settings = settings(url);
    let more: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let config = config(url, directory, &more)?;
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let made = service.accounts.operators.create_key_for(tenant, None).await?;
    let caller = Caller {
        tenant,
        credential: Credential::Key { key: KeyId(made.api_key.id), rights: KeyRights::ALL },
    };
    let signal = serde_json::from_str(r#"{"type":"noul","instructions":"Is it fraud?"}"#)?;
    service.analysis.signals.put(caller, "is_fraud", &signal).await?;
    for _ in 0..endpoints {
        let create = WebhookEndpointCreate {
            url: receiver.url.clone(),
            description: None,
            signal_keys: None,
            events: None,
            enabled: Some(true),
        };
        service.actions.endpoints.create(caller, &create).await?;
    }
    let token = unbound_token(&made, &clock)?;
    service.store().close().await;
    Ok(token)
}

/// The database's processes, whose CPU counts; SQLite has none.
pub(crate) struct Database {
    postmaster: Option<u32>,
}

impl Database {
    async fn of(target: &Target) -> Result<Self, Box<dyn Error>> {
        if target.name == "SQLite" {
            Ok(Self { postmaster: None })
        } else {
            Self::postgres(&target.url).await
        }
    }

    pub(crate) async fn postgres(url: &str) -> Result<Self, Box<dyn Error>> {
        let mut connection = PgConnection::connect(url).await?;
        let (pid,): (i32,) = sqlx::query_as("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        Ok(Self { postmaster: parent_of(u32::try_from(pid)?)? })
    }

    fn cpu_seconds(&self) -> Result<f64, Box<dyn Error>> {
        match self.postmaster {
            None => Ok(0.0),
            Some(postmaster) => cpu_seconds_of(&with_children(postmaster)?),
        }
    }
}

pub(crate) struct Case<'a> {
    pub(crate) service: &'a Running,
    pub(crate) database: &'a Database,
    pub(crate) receiver: &'a Receiver,
    pub(crate) endpoints: usize,
    pub(crate) token: String,
}

/// What was measured.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    service_micros: f64,
    database_micros: f64,
    /// Context switches of the service for each message.
    waits: f64,
    /// From sending each event to its first arrival, in order.
    took: Vec<Duration>,
}

impl Measured {
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.service_micros + self.database_micros
    }

    fn millis(&self, percentile: usize) -> f64 {
        self.took[(self.took.len() - 1) * percentile / 100].as_secs_f64() * 1e3
    }
}

impl Case<'_> {
    fn load(&self) -> Load {
        Load {
            address: self.service.address().to_owned(),
            path: "/v1/objects/user_{n}/events".to_owned(),
            token: self.token.clone(),
            body: r#"{"events":[{"type":"message","content":"Is the blue bicycle still for sale?"}]}"#
                .to_owned(),
            expected: 202,
            sent: Some(Arc::default()),
        }
    }

    async fn paced(&self, duration: Duration) -> Result<Measured, Box<dyn Error>> {
        let load = self.load();
        let send = async {
            let answered = load::steady(&load, CONNECTIONS, PER_SECOND, duration).await?;
            Ok(answered.len())
        };
        self.measured(&load, send).await
    }

    pub(crate) async fn saturated(&self, duration: Duration) -> Result<Measured, Box<dyn Error>> {
        let load = self.load();
        let send = async {
            load::run(&load, SATURATED_CONNECTIONS, duration).await?;
            Ok(load.sent_count())
        };
        self.measured(&load, send).await
    }

    /// So many events, each once the one before has arrived.
    async fn alone(&self, events: usize) -> Result<Measured, Box<dyn Error>> {
        let load = self.load();
        self.receiver.forget();
        for event in 1..=events {
            load::once(&load).await?;
            self.arrival_of(event * self.endpoints).await?;
            // Long enough for everything to be settled, and not in step with any poll.
            tokio::time::sleep(Duration::from_millis(137)).await;
        }
        let mut took = load.took_until(&self.receiver.first_arrivals());
        took.sort();
        Ok(Measured { per_second: 0.0, service_micros: 0.0, database_micros: 0.0, waits: 0.0, took })
    }

    /// How often the service's threads wake up a second while nothing is to be done.
    async fn idle(&self) -> Result<f64, Box<dyn Error>> {
        tokio::time::sleep(SETTLED_AFTER).await;
        let before = self.service.waits()?;
        tokio::time::sleep(IDLE).await;
        Ok(self.service.waits()?.since(&before) / IDLE.as_secs_f64())
    }

    /// Waits until so many deliveries have arrived.
    async fn arrival_of(&self, expected: usize) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + DRAIN;
        while self.receiver.count() < expected {
            if Instant::now() > end {
                return Err(format!("{} of {expected} deliveries arrived", self.receiver.count()).into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Sends, waits until everything has arrived, and counts what it took.
    async fn measured(
        &self,
        load: &Load,
        send: impl Future<Output = Result<usize, Box<dyn Error>>>,
    ) -> Result<Measured, Box<dyn Error>> {
        self.receiver.forget();
        let (service_before, database_before) = (self.service.cpu_seconds()?, self.database.cpu_seconds()?);
        let waits_before = self.service.waits()?;
        let begun = Instant::now();
        let messages = send.await?;
        self.arrival_of(messages * self.endpoints).await?;
        let elapsed = begun.elapsed();
        // What is settled later belongs to it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let service = self.service.cpu_seconds()? - service_before;
        let database = self.database.cpu_seconds()? - database_before;
        let waits = self.service.waits()?.since(&waits_before);
        let messages = f64::from(u32::try_from(messages)?);
        let mut took = load.took_until(&self.receiver.first_arrivals());
        took.sort();
        Ok(Measured {
            per_second: messages / elapsed.as_secs_f64(),
            service_micros: service * 1e6 / messages,
            database_micros: database * 1e6 / messages,
            waits: waits / messages,
            took,
        })
    }
}

/// CPU of one request of a bare client to the receiver, both ends together.
async fn bare_cpu(receiver: &Receiver) -> Result<f64, Box<dyn Error>> {
    let before = cpu_seconds_of(&[std::process::id()])?;
    let requests = receiver.count();
    bare_loop(receiver).await?;
    let requests = f64::from(u32::try_from(receiver.count() - requests)?);
    Ok((cpu_seconds_of(&[std::process::id()])? - before) * 1e6 / requests)
}
