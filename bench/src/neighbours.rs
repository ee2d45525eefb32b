//! How much others slow deliveries to a healthy endpoint: a dead endpoint of the same account, and another account that is
//! busy. Each is measured with and without it in turns, because the load of the machine changes within seconds.

use std::error::Error;
use std::time::Duration;

use model::api::{EventInput, IngestRequest};
use model::{KeyId, TenantId};
use server::config::Config;
use service::{Caller, Clock, Credential, KeyRights, Random, Service};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep, sleep_until};

use crate::deliveries::{Backlog, PER_ROUND, Receiver, queue, register};
use crate::ingest::config;
use crate::{Figure, Target, median};

/// The share of the rate without others that deliveries must keep beside them.
const LEAST: f64 = 0.9;
/// Pairs of measurements, one of each without and one with others.
const PAIRS: usize = 5;
/// The deliveries that wait for the dead endpoint.
const DEAD_BACKLOG: usize = 5_000;
/// The events of the account whose deliveries are measured, and how far apart they are.
const EVENTS: u32 = 1_000;
const BETWEEN: Duration = Duration::from_millis(10);
/// The same of the busy account: three times as many, together far below what either database can do.
const BETWEEN_OF_BUSY: Duration = Duration::from_micros(3_333);

/// Measures both on one database.
pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (name, url) = (target.name, target.url.as_str());
    let directory = tempfile::tempdir()?;
    let more = [("AUSPEX_DEBOUNCE_MS", "1"), ("AUSPEX_ENFORCEMENT", "grace")];
    let config: Config = config(url, directory.path(), &more)?;
    let service = server::assemble(&config, Clock::system(), Random::system()?).await?;
    service.start_queues();
    let dead = beside_dead_endpoint(&service).await?;
    let busy = beside_busy_account(&service).await?;
    println!(
        "{name}: of the rate without others, beside a dead endpoint {dead:.2?}, beside a busy account {busy:.2?}"
    );
    Ok(vec![
        Figure::at_least(format!("{name}: deliveries beside a dead endpoint"), median(dead), "x", LEAST),
        Figure::at_least(format!("{name}: deliveries beside a busy account"), median(busy), "x", LEAST),
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

/// Deliveries per second of an account that sends at a fixed rate beside another that sends three times as much, relative to
/// those without it.
async fn beside_busy_account(service: &Service) -> Result<Vec<f64>, Box<dyn Error>> {
    let (quiet, busy) = (account(service, "Quiet").await?, account(service, "Busy").await?);
    let (receiver, other) = (Receiver::start().await?, Receiver::start().await?);
    register(service, quiet, &receiver.url, true).await?;
    register(service, busy, &other.url, true).await?;
    let mut shares = Vec::new();
    for pair in 0..PAIRS {
        let without = delivered(service, quiet.tenant, &receiver, &format!("without_{pair}")).await?;
        let (objects, of_busy) = (format!("beside_{pair}"), format!("busy_{pair}"));
        let beside = tokio::select! {
            measured = delivered(service, quiet.tenant, &receiver, &objects) => measured?,
            stopped = send(service, busy.tenant, &of_busy, u32::MAX, BETWEEN_OF_BUSY) => {
                stopped?;
                return Err("the busy account has stopped".into());
            }
        };
        shares.push(beside / without);
        while service.store().pending().await?.deliveries > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(shares)
}

/// Sends the events of one measurement, and returns the deliveries per second until the last has arrived.
async fn delivered(
    service: &Service,
    tenant: TenantId,
    receiver: &Receiver,
    objects: &str,
) -> Result<f64, Box<dyn Error>> {
    receiver.forget();
    let started = Instant::now();
    send(service, tenant, objects, EVENTS, BETWEEN).await?;
    while receiver.count() < usize::try_from(EVENTS)? {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(f64::from(EVENTS) / started.elapsed().as_secs_f64())
}

/// Sends events about one object after another at a fixed rate.
async fn send(
    service: &Service,
    tenant: TenantId,
    objects: &str,
    count: u32,
    between: Duration,
) -> Result<(), Box<dyn Error>> {
    let events: Vec<EventInput> = serde_json::from_str(r#"[{"type":"event","name":"listing_viewed"}]"#)?;
    let started = Instant::now();
    for number in 0..count {
        let request = IngestRequest {
            object_type: None,
            events: events.clone(),
            wait: false,
            signals: None,
            include_history: None,
        };
        service.objects.ingest.accept(tenant, &format!("{objects}_{number}"), request, None).await?;
        sleep_until(started + between * (number + 1)).await;
    }
    Ok(())
}
