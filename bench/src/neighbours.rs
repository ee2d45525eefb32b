//! How much a dead endpoint slows deliveries to a healthy one: of the same account, and of another. Measured with and without it in
//! turns, because the load of the machine changes within seconds.

use std::error::Error;

use model::KeyId;
use server::config::Config;
use service::{Caller, Clock, Credential, KeyRights, Random, Service};
use tokio::net::TcpListener;

use crate::deliveries::{Backlog, PER_ROUND, Receiver, queue, register};
use crate::ingest::config;
use crate::{Figure, Target, median};

/// The share of the rate without a dead endpoint that deliveries must keep beside one.
const LEAST: f64 = 0.9;
/// Pairs of measurements, one of each without and one with it.
const PAIRS: usize = 5;
/// The deliveries that wait for the dead endpoint.
const DEAD_BACKLOG: usize = 5_000;

/// Measures both on one database.
pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (name, url) = (target.name, target.url.as_str());
    let directory = tempfile::tempdir()?;
    let more = [("AUSPEX_DEBOUNCE_MS", "1"), ("AUSPEX_ENFORCEMENT", "grace")];
    let config: Config = config(url, directory.path(), &more)?;
    let service = server::assemble(&config, Clock::system(), Random::system()?).await?;
    service.start_queues();
    let (healthy, other) = (account(&service, "Healthy").await?, account(&service, "Other").await?);
    let mut figures = Vec::new();
    for (owner, whose) in [(healthy, "of the same account"), (other, "of another account")] {
        let shares = beside_dead_endpoint(&service, healthy, owner).await?;
        println!("{name}: of the rate without it, beside a dead endpoint {whose} {shares:.2?}");
        let what = format!("{name}: deliveries beside a dead endpoint {whose}");
        figures.push(Figure::at_least(what, median(shares), "x", LEAST));
    }
    Ok(figures)
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
async fn beside_dead_endpoint(
    service: &Service,
    caller: Caller,
    owner: Caller,
) -> Result<Vec<f64>, Box<dyn Error>> {
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
        let dead = register(service, owner, &format!("http://{unused}/"), false).await?;
        queue(service, owner.tenant, dead, DEAD_BACKLOG).await?;
        Backlog { service, caller: owner, tenant: owner.tenant, receiver: &receiver }
            .enable(dead, true)
            .await?;
        let beside = backlog.round(healthy).await?;
        service.actions.endpoints.delete(owner.tenant, dead).await?;
        shares.push(beside / without);
    }
    backlog.remove(healthy).await?;
    Ok(shares)
}
