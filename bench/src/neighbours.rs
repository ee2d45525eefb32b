//! How much others slow deliveries to a healthy endpoint: a dead endpoint of the same account, and another account that is
//! busy. Each is measured with and without it in turns, because the load of the machine changes within seconds.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::api::{EventInput, IngestRequest};
use model::{KeyId, TenantId};
use server::config::Config;
use service::{Caller, Clock, Credential, KeyRights, Random, Service};
use tokio::net::TcpListener;

use crate::deliveries::{Backlog, PER_ROUND, Receiver, queue, register};
use crate::ingest::config;
use crate::load::on_time;
use crate::waiting::wait_until;
use crate::{Figure, Target, median};

/// The share of the rate without others that deliveries must keep beside a dead endpoint.
const LEAST: f64 = 0.9;
/// How many times the latency without others the median one may be beside a busy account.
const MOST: f64 = 1.1;
/// Pairs of measurements, one of each without and one with others.
const PAIRS: usize = 5;
/// The deliveries that wait for the dead endpoint.
const DEAD_BACKLOG: usize = 5_000;
/// The events of the account whose deliveries are measured, and how far apart they are.
const EVENTS: u32 = 1_000;
const BETWEEN: Duration = Duration::from_millis(10);
/// How many of its events the busy account must have sent for each of the other's, or it was not busy.
const BUSY: f64 = 2.5;
/// The number of the next object: none is sent about twice.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// How long the last deliveries may take after the last event.
const DRAIN: Duration = Duration::from_mins(1);

/// Measures both on one database.
pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (name, url) = (target.name, target.url.as_str());
    let directory = tempfile::tempdir()?;
    let more = [("AUSPEX_DEBOUNCE_MS", "1"), ("AUSPEX_ENFORCEMENT", "grace")];
    let config: Config = config(url, directory.path(), &more)?;
    let service = server::assemble(&config, Clock::system(), Random::system()?).await?;
    service.start_queues();
    let dead = beside_dead_endpoint(&service).await?;
    println!("{name}: of the rate without others, beside a dead endpoint {dead:.2?}");
    let pairs = Box::pin(beside_busy_account(&service)).await?;
    let of = |percentile: usize| -> Vec<f64> { pairs.iter().map(|pair| pair.ratio(percentile)).collect() };
    for pair in &pairs {
        let [without, beside] = [&pair.without, &pair.beside].map(|took| [50, 99].map(|at| millis(took, at)));
        println!(
            "{name}: ms from event to delivery, p50 and p99: {without:.2?}, beside a busy account {beside:.2?}"
        );
    }
    println!("{name}: p99 beside a busy account {:.2} x (median of pairs)", median(of(99)));
    Ok(vec![
        Figure::at_least(format!("{name}: deliveries beside a dead endpoint"), median(dead), "x", LEAST),
        Figure::at_most(
            format!("{name}: event to delivery beside a busy account, p50"),
            median(of(50)),
            "x",
            MOST,
        ),
    ])
}

/// An account with a signal and nothing else.
async fn account(service: &Service, name: &str) -> Result<Caller, Box<dyn Error>> {
    let tenant = service.accounts.operators.create_tenant(name).await?.tenant_id;
    let key = service.accounts.operators.create_key_for(tenant, None).await?.api_key.id;
    let caller = Caller { tenant, credential: Credential::Key { key: KeyId(key), rights: KeyRights::ALL } };
    let signal = serde_json::from_str(r#"{"type":"noul","instructions":"Is it fraud?"}"#)?;
    service.analysis.signals.put(caller, "is_fraud", &signal).await?;
    Ok(caller)
}

/// Deliveries per second out of a backlog beside an endpoint that refuses connections, relative to those without it.
async fn beside_dead_endpoint(service: &Service) -> Result<Vec<f64>, Box<dyn Error>> {
    let caller = account(service, "Dead").await?;
    let (tenant, receiver) = (caller.tenant, Receiver::start().await?);
    let healthy = register(service, caller, &receiver.url, false).await?;
    let backlog = Backlog { service, caller, tenant, receiver: &receiver };
    // A round leaves a little more than it times.
    queue(service, tenant, healthy, (2 * PAIRS + 1) * PER_ROUND).await?;
    // The port of a listener that is gone.
    let unused = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let mut shares = Vec::new();
    for _ in 0..PAIRS {
        let without = backlog.round(healthy).await?;
        let dead = register(service, caller, &format!("http://{unused}/"), false).await?;
        queue(service, tenant, dead, DEAD_BACKLOG).await?;
        backlog.enable(dead, true).await?;
        let beside = backlog.round(healthy).await?;
        service.actions.endpoints.delete(tenant, dead).await?;
        shares.push(beside / without);
    }
    backlog.remove(healthy).await?;
    Ok(shares)
}

/// From event to delivery, in order: of an account without others, and then beside a busy one.
struct Pair {
    without: Vec<Duration>,
    beside: Vec<Duration>,
}

impl Pair {
    /// How many times the latency without the other account that beside it is.
    fn ratio(&self, percentile: usize) -> f64 {
        millis(&self.beside, percentile) / millis(&self.without, percentile)
    }
}

/// The latency at a percentile of those in order.
fn millis(took: &[Duration], percentile: usize) -> f64 {
    took[(took.len() - 1) * percentile / 100].as_secs_f64() * 1e3
}

/// How long deliveries of an account that sends at a fixed rate take, alone and beside another that sends three times as much.
async fn beside_busy_account(service: &Service) -> Result<Vec<Pair>, Box<dyn Error>> {
    let (quiet, busy) = (account(service, "Quiet").await?, account(service, "Busy").await?);
    let (receiver, other) = (Receiver::start().await?, Receiver::start().await?);
    register(service, quiet, &receiver.url, true).await?;
    register(service, busy, &other.url, true).await?;
    // The first ones open connections and fill caches.
    latencies(service, quiet.tenant, &receiver).await?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let without = latencies(service, quiet.tenant, &receiver).await?;
        other.forget();
        let beside = tokio::select! {
            measured = latencies(service, quiet.tenant, &receiver) => measured?,
            stopped = send_busily(service, busy.tenant) => {
                stopped?;
                return Err("the busy account has stopped".into());
            }
        };
        let of_busy = f64::from(u32::try_from(other.count())?) / f64::from(EVENTS);
        if of_busy < BUSY {
            return Err(
                format!("the busy account had only {of_busy:.1} times the deliveries of the other").into()
            );
        }
        pairs.push(Pair { without, beside });
        let are_sent = async || Ok(service.store().pending().await?.deliveries == 0);
        wait_until("the deliveries of the busy account", DRAIN, are_sent).await?;
    }
    Ok(pairs)
}

/// Sends the events of one measurement, and returns how long each took from when it was due until its delivery arrived, in order.
async fn latencies(
    service: &Service,
    tenant: TenantId,
    receiver: &Receiver,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    receiver.forget();
    let sent = send(service, tenant, "user", EVENTS).await?;
    let expected = usize::try_from(EVENTS)?;
    let have_arrived = async || Ok(receiver.count() >= expected);
    wait_until("the deliveries of a measurement", DRAIN, have_arrived).await?;
    let arrivals = receiver.first_arrivals();
    let took = |(number, sent): (&u64, &Instant)| Some(arrivals.get(number)?.duration_since(*sent));
    let mut took: Vec<Duration> = sent.iter().filter_map(took).collect();
    if took.len() < expected {
        return Err(format!("only {} of {expected} deliveries are about what was sent", took.len()).into());
    }
    took.sort_unstable();
    Ok(took)
}

/// Sends three times as many events until it is dropped, which is far below what either database can do.
async fn send_busily(service: &Service, tenant: TenantId) -> Result<(), Box<dyn Error>> {
    let sender = || send(service, tenant, "busy", u32::MAX);
    tokio::try_join!(sender(), sender(), sender())?;
    Ok(())
}

/// Sends events at a fixed rate, each about another object, and returns when each was due, by the number of its object.
async fn send(
    service: &Service,
    tenant: TenantId,
    objects: &str,
    count: u32,
) -> Result<HashMap<u64, Instant>, Box<dyn Error>> {
    let events: Vec<EventInput> = serde_json::from_str(r#"[{"type":"event","name":"listing_viewed"}]"#)?;
    let (started, mut sent) = (Instant::now(), HashMap::new());
    for event in 0..count {
        let request = IngestRequest {
            object_type: None,
            events: events.clone(),
            wait: false,
            signals: None,
            include_history: None,
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let due = on_time(started + BETWEEN * event).await;
        service.objects.ingest.accept(tenant, &format!("{objects}_{number}"), request, None).await?;
        sent.insert(number, due);
    }
    Ok(sent)
}
