//! Asynchronous ingest compared with the machine's own limits, in one run: (a) the same server, which authenticates, parses
//! and refuses; (b) the same rows written in groups directly to the database.

use std::error::Error;
use std::time::{Duration, Instant};

use model::api::EventInput;
use model::event;
use server::Server;
use server::config::Config;
use service::{Clock, Random, Service};
use store::analysis::jobs::Schedule;
use store::objects::recorder::{self, Admission, Enforcement};
use store::objects::request::{IdempotencyKey, IngestKind, IngestRequest};
use store::{Conn, Store};

use crate::load::{self, Load};
use crate::signing::unbound_token;
use crate::{Figure, Target};

const CONNECTIONS: usize = 256;
const DURATION: Duration = Duration::from_secs(5);
/// Requests per commit in (b): about what the recorder groups at this number of connections.
const BATCH: usize = 200;

pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    // No workers: analyses would compete for the machine, and are measured on their own.
    let config = config(&target.url, directory.path(), &[("AUSPEX_ROLE", "api")])?;
    let clock = Clock::system();
    let service = server::assemble(&config, clock.clone(), Random::system()?).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    let made = service.accounts.operators.create_key_for(tenant, None).await?;
    let token = unbound_token(&made, &clock)?;
    let server = Server::start(config, clock, Random::system()?).await?;
    let load = |events: usize, object_type: &str, expected| Load {
        address: server.address().to_string(),
        path: "/v1/objects/user_{n}/events".to_owned(),
        token: token.clone(),
        body: body(events, object_type),
        expected,
        sent: None,
    };
    // An empty type is refused after authentication and parsing, and before anything is recorded.
    let refused = load::run(&load(1, "", 400), CONNECTIONS, DURATION).await?;
    let one = load::run(&load(1, "user", 202), CONNECTIONS, DURATION).await?;
    let direct_one = direct(&service, tenant, 1).await?;
    let ten = load::run(&load(10, "user", 202), CONNECTIONS, DURATION).await?;
    let direct_ten = direct(&service, tenant, 10).await?;
    server.stop().await;
    let (of_a, of_b, of_b_ten) = target.ingest_limits;
    let figure = |what: String, measured: f64, least: f64| Figure::at_least(what, measured, "%", least);
    println!(
        "{}: {one:.0} requests/s with 1 event, {ten:.0} with 10; (a) {refused:.0}/s, (b) {direct_one:.0}/s and {direct_ten:.0}/s",
        target.name
    );
    Ok(vec![
        figure(format!("{}: ingest, 1 event, of the bare server", target.name), 100.0 * one / refused, of_a),
        figure(format!("{}: ingest, 1 event, of direct writes", target.name), 100.0 * one / direct_one, of_b),
        figure(
            format!("{}: ingest, 10 events, of direct writes", target.name),
            100.0 * ten / direct_ten,
            of_b_ten,
        ),
    ])
}

pub(crate) const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The settings of a service on a database of the benchmark, on a port of its own.
pub(crate) fn config(
    url: &str,
    directory: &std::path::Path,
    more: &[(&str, &str)],
) -> Result<Config, Box<dyn Error>> {
    let variables = [
        ("AUSPEX_LISTEN", "127.0.0.1:0"),
        ("AUSPEX_DATA_DIR", &directory.display().to_string()),
        ("AUSPEX_DATABASE_URL", url),
        ("AUSPEX_MASTER_KEY", MASTER_KEY),
        ("AUSPEX_RATE_LIMIT_PER_MINUTE", "4000000000"),
        ("AUSPEX_INGEST_MIB_PER_MINUTE", "0"),
        // Measures the service, not a model.
        ("AUSPEX_ANALYZER", "words"),
    ];
    let variables = variables.iter().chain(more);
    Ok(Config::from_environment(variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))?)
}

fn body(events: usize, object_type: &str) -> String {
    let event = r#"{"type":"event","name":"listing_viewed","content":"blue bicycle","metadata":{"price":120,"city":"Graz"}}"#;
    format!(r#"{{"object_type":"{object_type}","events":[{}]}}"#, vec![event; events].join(","))
}

/// Requests per second if the same rows are written in groups, without HTTP.
async fn direct(service: &Service, tenant: model::TenantId, events: usize) -> Result<f64, Box<dyn Error>> {
    let store: &Store = service.store();
    let (clock, random) = (Clock::system(), Random::system()?);
    let begun = Instant::now();
    let mut requests = 0.0;
    while begun.elapsed() < DURATION {
        let entries: Vec<IngestRequest> =
            (0..BATCH).map(|_| entry(tenant, events, &clock, &random)).collect::<Result<_, _>>()?;
        let written = store
            .write("bench", async |conn: &mut Conn| {
                recorder::record(conn, &entries, Admission::by_balance(Enforcement::Block), 0).await
            })
            .await?;
        requests += f64::from(u32::try_from(written.len())?);
    }
    Ok(requests / begun.elapsed().as_secs_f64())
}

/// A request about one object with this many events.
pub(crate) fn entry(
    tenant: model::TenantId,
    events: usize,
    clock: &Clock,
    random: &Random,
) -> Result<IngestRequest, Box<dyn Error>> {
    let now = clock.now();
    let id = random.id(now);
    let inputs = vec![
        serde_json::from_str::<EventInput>(
            r#"{"type":"event","name":"listing_viewed","content":"blue bicycle","metadata":{"price":120,"city":"Graz"}}"#
        )?;
        events
    ];
    Ok(IngestRequest {
        tenant,
        object_id: format!("user_{id}"),
        object_type: Some("user".to_owned()),
        display_name: None,
        events: event::check_events(inputs, event::MAX_EVENTS, now)?,
        idempotency: Some(IdempotencyKey {
            key: id.to_string(),
            kind: IngestKind::Async,
            expires_at: now + Duration::from_hours(24),
        }),
        schedule: Some(Schedule {
            run_at: now + Duration::from_secs(3),
            deadline_at: now + Duration::from_secs(30),
        }),
        verdict_slot: None,
        received_at: now,
        traceparent: None,
    })
}
