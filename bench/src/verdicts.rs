//! Verdicts at a steady rate, by an analyzer that takes no time: what is left is what the service adds.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use server::Server;
use service::{Clock, Random};

use crate::analyses::Instantly;
use crate::ingest::config;
use crate::load::{self, Load};
use crate::signing::unbound_token;
use crate::{Figure, Target};

const A_SECOND: u32 = 200;
const CONNECTIONS: u32 = 32;
const DURATION: Duration = Duration::from_secs(15);

pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let more = [("AUSPEX_ENFORCEMENT", "grace"), ("AUSPEX_SYNC_LIMIT", "64")];
    let config = config(&target.url, directory.path(), &more)?;
    let (clock, random) = (Clock::system(), Random::system()?);
    let service = server::assemble(&config, clock.clone(), random.clone()).await?;
    let tenant = service.create_tenant("Bench").await?.tenant_id;
    let made = service.create_key_for(tenant, None).await?;
    let token = unbound_token(&made, &clock)?;
    let server = Server::start_with(config, clock, random, Arc::new(Instantly)).await?;
    let load = Load {
        address: server.address().to_string(),
        path: "/v1/objects/seller_{n}/events".to_owned(),
        token,
        body:
            r#"{"wait":true,"events":[{"type":"message","content":"Is the blue bicycle still for sale?"}]}"#
                .to_owned(),
        expected: 200,
    };
    let took = load::steady(&load, CONNECTIONS, A_SECOND, DURATION).await?;
    server.stop().await;
    let millis = |share: usize| took[(took.len() - 1) * share / 100].as_secs_f64() * 1e3;
    Ok(vec![
        Figure::at_most(
            format!("{}: verdict over the analyzer, 200/s, p50", target.name),
            millis(50),
            "ms",
            2.0,
        ),
        Figure::at_most(
            format!("{}: verdict over the analyzer, 200/s, p99", target.name),
            millis(99),
            "ms",
            10.0,
        ),
    ])
}
