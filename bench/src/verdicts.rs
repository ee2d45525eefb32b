//! Verdicts at a steady rate, with an analyzer that takes no time: what is measured is the overhead of the service.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::TenantId;
use server::Server;
use service::{Clock, Random, Service};
use store::Conn;
use store::objects::recorder::{self, Admission, Enforcement};
use tokio::task::JoinSet;

use crate::ingest::{self, config};
use crate::instant_analyzer::InstantAnalyzer;
use crate::load::{self, Load};
use crate::signing::unbound_token;
use crate::{Figure, Target};

const PER_SECOND: u32 = 200;
const CONNECTIONS: u32 = 32;
const DURATION: Duration = Duration::from_secs(15);
const BARE_DURATION: Duration = Duration::from_secs(5);
/// How many times two bare commits a verdict may take at the median.
const TWO_COMMITS: f64 = 2.0;
/// The slowest verdict in a hundred, in milliseconds.
const P99_MS: f64 = 10.0;

/// A server with these settings whose analyzer takes no time, and how it is asked for verdicts.
struct Running {
    server: Server,
    service: Arc<Service>,
    tenant: TenantId,
    token: String,
    /// Keeps its files for as long as it runs.
    _directory: tempfile::TempDir,
}

impl Running {
    async fn start(target: &Target, more: &[(&str, &str)]) -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let more = [&[("AUSPEX_ENFORCEMENT", "grace"), ("AUSPEX_SYNC_LIMIT", "64")], more].concat();
        let config = config(&target.url, directory.path(), &more)?;
        let (clock, random) = (Clock::system(), Random::system()?);
        let service = server::assemble(&config, clock.clone(), random.clone()).await?;
        let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
        let made = service.accounts.operators.create_key_for(tenant, None).await?;
        let token = unbound_token(&made, &clock)?;
        let server = Server::start_with(config, clock, random, Arc::new(InstantAnalyzer)).await?;
        Ok(Self { server, service, tenant, token, _directory: directory })
    }

    fn load(&self, path: &str) -> Load {
        Load {
            address: self.server.address().to_string(),
            path: path.to_owned(),
            token: self.token.clone(),
            body:
                r#"{"wait":true,"events":[{"type":"message","content":"Is the blue bicycle still for sale?"}]}"#
                    .to_owned(),
            expected: 200,
            sent: None,
        }
    }
}

/// The median of a verdict about an object that has a history, in milliseconds.
pub(crate) async fn p50(target: &Target, more: &[(&str, &str)]) -> Result<f64, Box<dyn Error>> {
    let running = Running::start(target, more).await?;
    let load = running.load("/v1/objects/buyer_{m}/events");
    let took = load::steady(&load, CONNECTIONS, PER_SECOND, BARE_DURATION).await?;
    running.server.stop().await;
    Ok(millis(&took, 50))
}

pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let running = Running::start(target, &[]).await?;
    let load = |path: &str| running.load(path);
    let new = load::steady(&load("/v1/objects/seller_{n}/events"), CONNECTIONS, PER_SECOND, DURATION).await?;
    // All but the first 500 are about objects that already have a history.
    let known =
        load::steady(&load("/v1/objects/buyer_{m}/events"), CONNECTIONS, PER_SECOND, DURATION).await?;
    let (service, tenant) = (Arc::clone(&running.service), running.tenant);
    running.server.stop().await;
    let bare = two_commits(&service, tenant).await?;
    println!(
        "{}: a verdict takes {} about a new object, {} about one that has a history; two commits of an event alone {}",
        target.name,
        percentiles(&new),
        percentiles(&known),
        percentiles(&bare)
    );
    let mut figures = Vec::new();
    for (about, took) in [("a new object", &new), ("a known object", &known)] {
        let what = format!("{}: verdict about {about}, 200/s", target.name);
        let ratio = millis(took, 50) / millis(&bare, 50);
        figures.push(Figure::at_most(format!("{what}, p50, to two commits"), ratio, "×", TWO_COMMITS));
        figures.push(Figure::at_most(format!("{what}, p99"), millis(took, 99), "ms", P99_MS));
    }
    Ok(figures)
}

fn percentiles(took: &[Duration]) -> String {
    format!("{:.2} ms at p50 and {:.2} ms at p99", millis(took, 50), millis(took, 99))
}

fn millis(took: &[Duration], percentile: usize) -> f64 {
    took[(took.len() - 1) * percentile / 100].as_secs_f64() * 1e3
}

/// What the machine itself takes at the same rate: two events recorded one after the other, each in a durable commit.
async fn two_commits(service: &Arc<Service>, tenant: TenantId) -> Result<Vec<Duration>, Box<dyn Error>> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..PER_SECOND * u32::try_from(BARE_DURATION.as_secs())? {
        let service = Arc::clone(service);
        tasks.spawn(async move {
            let from = load::on_time(begun + Duration::from_secs(1) * number / PER_SECOND).await;
            for _ in 0..2 {
                let entry = ingest::entry(tenant, 1, service.clock(), service.random())
                    .map_err(|error| error.to_string())?;
                let entries = std::slice::from_ref(&entry);
                let recorded = service.store().write("bench", async |conn: &mut Conn| {
                    recorder::record(conn, entries, Admission::by_balance(Enforcement::Grace), 0).await
                });
                recorded.await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(from.elapsed())
        });
    }
    let mut took = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        took.push(outcome??);
    }
    took.sort();
    Ok(took)
}
