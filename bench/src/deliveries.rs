//! Webhook deliveries from a backlog, compared with a bare loop with the same client and receiver; and how much a receiver
//! that never responds delays deliveries to a healthy one.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::api::{DeliveryStatus, EventInput, IngestRequest, WebhookEndpointCreate, WebhookEndpointUpdate};
use model::{KeyId, TenantId, Timestamp};
use service::{Caller, Clock, Credential, DeliveryQuery, KeyRights, Random, Service};
use store::Conn;
use store::actions::webhooks::deliveries;
use store::actions::webhooks::deliveries::NewDelivery;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::ingest::config;
use crate::waiting::wait_until;
use crate::{Figure, Target, median};

/// The share of a bare loop that deliveries must reach, in percent.
const OF_BARE: f64 = 25.0;
/// How much more a delivery from a long backlog may cost than one from a short one.
const FLATNESS: f64 = 1.3;
const SHORT: usize = 25_000;
const LONG: usize = 500_000;
/// Deliveries timed in each round.
const TIMED: usize = 20_000;
/// Deliveries at the start of each round that are not timed: an endpoint first has to prove that it is healthy.
const WARM_UP: usize = 2_200;
/// What a round takes out of a backlog.
pub(crate) const PER_ROUND: usize = WARM_UP + TIMED;
const ROUNDS: usize = 5;
/// Concurrent requests of the bare loop.
const BARE_REQUESTS: usize = 64;
const BARE_DURATION: Duration = Duration::from_secs(1);
/// Time for opening the connections, which is not measured.
const BARE_WARM_UP: Duration = Duration::from_millis(200);
/// Analyses delivered to a healthy receiver while another never responds.
const ANALYSES: usize = 1_000;
const BETWEEN_ANALYSES: Duration = Duration::from_millis(10);
/// How long a round, or what is left of a backlog, may take.
const LIMIT: Duration = Duration::from_mins(10);
/// A payload like that of an analysis of the default signals.
const PAYLOAD: &str = r#"{"event":"analysis.completed","object_id":"user_1","tenant_id":"019e0000-0000-7000-8000-000000000000","model":"embedded","occurred_at":"2026-01-01T00:00:00.000000Z","answers":[{"signal":"is_scammer","type":"noul","noul":0.031416},{"signal":"trust","type":"score","score":2.1,"probabilities":{"0":0.1,"1":0.1,"2":0.4,"3":0.4},"confidence":0.2},{"signal":"intent","type":"choice","choice":"browse","probabilities":{"browse":0.8,"buy":0.2},"confidence":0.3}]}"#;

pub(crate) async fn measure(target: &Target) -> Result<Vec<Figure>, Box<dyn Error>> {
    let (name, url) = (target.name, target.url.as_str());
    let directory = tempfile::tempdir()?;
    let (clock, random) = (Clock::system(), Random::system()?);
    let more = [("AUSPEX_DEBOUNCE_MS", "1"), ("AUSPEX_ENFORCEMENT", "grace")];
    let config = config(url, directory.path(), &more)?;
    let service = server::assemble(&config, clock.clone(), random.clone()).await?;
    let tenant = service.accounts.operators.create_tenant("Bench").await?.tenant_id;
    service.start_queues();
    let receiver = Receiver::start().await?;
    let key = service.accounts.operators.create_key_for(tenant, None).await?.api_key.id;
    let caller = Caller { tenant, credential: Credential::Key { key: KeyId(key), rights: KeyRights::ALL } };
    let backlog = Backlog { service: &service, caller, tenant, receiver: &receiver };
    let mut short = Vec::new();
    for _ in 0..ROUNDS {
        short.push(backlog.short().await?);
    }
    let rounds = backlog.long().await?;
    let share = median(rounds.iter().map(|round| round.rate / round.bare).collect());
    let bare = median(rounds.iter().map(|round| round.bare).collect());
    let long = median(rounds.iter().map(|round| round.rate).collect());
    let short = median(short);
    let p99 = delay_beside_silent_receiver(&service, caller, &receiver).await?;
    println!(
        "{name}: {long:.0} deliveries/s out of {LONG} and {short:.0}/s out of {SHORT}; a bare loop {bare:.0}/s"
    );
    Ok(vec![
        Figure::at_least(format!("{name}: deliveries, of a bare loop"), 100.0 * share, "%", OF_BARE),
        Figure::at_most(
            format!("{name}: a delivery out of {LONG} over one out of {SHORT}"),
            short / long,
            "x",
            FLATNESS,
        ),
        Figure::at_most(format!("{name}: delivery beside a silent receiver, p99"), p99, "s", 1.0),
    ])
}

/// Requests per second of a loop that only posts, with a client like the service's.
pub(crate) async fn bare_loop(receiver: &Receiver) -> Result<f64, Box<dyn Error>> {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let end = Instant::now() + BARE_WARM_UP + BARE_DURATION;
    let mut tasks = JoinSet::new();
    for _ in 0..BARE_REQUESTS {
        let (client, url) = (client.clone(), receiver.url.clone());
        tasks.spawn(async move {
            while Instant::now() < end {
                let request = client.post(&url).header("content-type", "application/json").body(PAYLOAD);
                request.send().await?.bytes().await?;
            }
            Ok::<_, reqwest::Error>(())
        });
    }
    tokio::time::sleep(BARE_WARM_UP).await;
    let (started, before) = (Instant::now(), receiver.count());
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(f64::from(u32::try_from(receiver.count() - before)?) / started.elapsed().as_secs_f64())
}

/// The rates of one round: requests per second of the bare loop, and deliveries per second.
struct Rates {
    bare: f64,
    rate: f64,
}

/// A receiver, and the account whose deliveries wait for it.
pub(crate) struct Backlog<'a> {
    pub(crate) service: &'a Service,
    pub(crate) caller: Caller,
    pub(crate) tenant: TenantId,
    pub(crate) receiver: &'a Receiver,
}

impl Backlog<'_> {
    /// Deliveries per second from a short backlog.
    async fn short(&self) -> Result<f64, Box<dyn Error>> {
        let endpoint = register(self.service, self.caller, &self.receiver.url, false).await?;
        queue(self.service, self.tenant, endpoint, SHORT).await?;
        let rate = self.round(endpoint).await?;
        self.remove(endpoint).await?;
        Ok(rate)
    }

    /// Deliveries per second from a long backlog, in rounds, each right after a bare loop: the load of the machine changes
    /// within seconds.
    async fn long(&self) -> Result<Vec<Rates>, Box<dyn Error>> {
        let endpoint = register(self.service, self.caller, &self.receiver.url, false).await?;
        queue(self.service, self.tenant, endpoint, LONG).await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let bare = bare_loop(self.receiver).await?;
            rounds.push(Rates { bare, rate: self.round(endpoint).await? });
        }
        self.remove(endpoint).await?;
        Ok(rounds)
    }

    /// Enables the endpoint for one round, and returns deliveries per second.
    pub(crate) async fn round(&self, endpoint: Uuid) -> Result<f64, Box<dyn Error>> {
        self.receiver.arrivals().clear();
        self.enable(endpoint, true).await?;
        let have_arrived = async || Ok(self.receiver.count() > WARM_UP + TIMED);
        wait_until("a round of deliveries", LIMIT, have_arrived).await?;
        let took = {
            let arrivals = self.receiver.arrivals();
            arrivals[WARM_UP + TIMED] - arrivals[WARM_UP]
        };
        self.enable(endpoint, false).await?;
        self.wait_until_idle(endpoint).await?;
        Ok(f64::from(u32::try_from(TIMED)?) / took.as_secs_f64())
    }

    /// Removes an endpoint, and waits until the rest of its backlog is gone, which would disturb the next measurement.
    pub(crate) async fn remove(&self, endpoint: Uuid) -> Result<(), Box<dyn Error>> {
        self.service.actions.endpoints.delete(self.tenant, endpoint).await?;
        let are_gone = async || Ok(self.service.store().pending().await?.deliveries == 0);
        wait_until("removing the rest of a backlog", LIMIT, are_gone).await
    }

    pub(crate) async fn enable(&self, endpoint: Uuid, enabled: bool) -> Result<(), service::Error> {
        let update = WebhookEndpointUpdate { enabled: Some(enabled), ..WebhookEndpointUpdate::default() };
        self.service.actions.endpoints.update(self.caller, endpoint, &update).await?;
        Ok(())
    }

    /// Waits until no delivery is in flight.
    async fn wait_until_idle(&self, endpoint: Uuid) -> Result<(), Box<dyn Error>> {
        let in_flight = || DeliveryQuery {
            status: Some(DeliveryStatus::Delivering),
            endpoint_id: Some(endpoint),
            limit: 1,
            cursor: None,
        };
        let none_is = async || {
            Ok(self.service.actions.deliveries.list(self.tenant, &in_flight()).await?.deliveries.is_empty())
        };
        wait_until("deliveries in flight", LIMIT, none_is).await
    }
}

/// Queues deliveries of one payload for an endpoint.
pub(crate) async fn queue(
    service: &Service,
    tenant: TenantId,
    endpoint_id: Uuid,
    count: usize,
) -> Result<(), Box<dyn Error>> {
    const AT_ONCE: usize = 1_000;
    let (clock, random) = (service.clock(), service.random());
    for from in (0..count).step_by(AT_ONCE) {
        let now = clock.now();
        let rows: Vec<NewDelivery> = (from..count.min(from + AT_ONCE))
            .map(|number| NewDelivery {
                tenant,
                delivery_id: random.id(now),
                endpoint_id,
                event_type: "analysis.completed",
                object_id: Some(format!("user_{number}")),
                payload: PAYLOAD.to_owned(),
                max_attempts: 6,
                run_after: now,
                created_at: now,
                active_since: now,
                traceparent: None,
                lease: None,
            })
            .collect();
        let store = service.store();
        store.write("bench", async |conn: &mut Conn| deliveries::queue(conn, &rows).await).await?;
    }
    Ok(())
}

pub(crate) async fn register(
    service: &Service,
    caller: Caller,
    url: &str,
    enabled: bool,
) -> Result<Uuid, service::Error> {
    let create = WebhookEndpointCreate {
        url: url.to_owned(),
        description: None,
        signal_keys: None,
        events: None,
        enabled: Some(enabled),
    };
    Ok(service.actions.endpoints.create(caller, &create).await?.endpoint.id)
}

/// The 99th percentile, in seconds, of the time from an analysis to its delivery at a healthy receiver, while another one
/// accepts every connection and never responds.
async fn delay_beside_silent_receiver(
    service: &Service,
    caller: Caller,
    receiver: &Receiver,
) -> Result<f64, Box<dyn Error>> {
    let tenant = caller.tenant;
    let silent_listener = TcpListener::bind("127.0.0.1:0").await?;
    let silent =
        register(service, caller, &format!("http://{}/", silent_listener.local_addr()?), true).await?;
    let healthy = register(service, caller, &receiver.url, true).await?;
    let events: Vec<EventInput> = serde_json::from_str(r#"[{"type":"event","name":"listing_viewed"}]"#)?;
    let signal = serde_json::from_str(r#"{"type":"noul","instructions":"Is it fraud?"}"#)?;
    service.analysis.signals.put(caller, "is_fraud", &signal).await?;
    receiver.arrivals().clear();
    receiver.delays().clear();
    for number in 0..ANALYSES {
        let request = IngestRequest {
            object_type: None,
            events: events.clone(),
            wait: false,
            signals: None,
            include_history: None,
        };
        service.objects.ingest.accept(tenant, &format!("beside_{number}"), request, None).await?;
        tokio::time::sleep(BETWEEN_ANALYSES).await;
    }
    let have_arrived = async || Ok(receiver.count() >= ANALYSES);
    wait_until("deliveries beside a silent receiver", LIMIT, have_arrived).await?;
    let mut delays = receiver.delays().clone();
    delays.sort_unstable();
    for endpoint in [silent, healthy] {
        service.actions.endpoints.delete(tenant, endpoint).await?;
    }
    Ok(delays[delays.len() * 99 / 100].as_secs_f64())
}

/// A receiver that responds as soon as it can and records when.
pub(crate) struct Receiver {
    pub(crate) url: String,
    log: Arc<ReceiverLog>,
}

#[derive(Default)]
struct ReceiverLog {
    arrivals: Mutex<Vec<Instant>>,
    /// From the time in the payload to the arrival.
    delays: Mutex<Vec<Duration>>,
    /// When the first delivery about an object with this number arrived.
    numbers: Mutex<HashMap<u64, Instant>>,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let log = Arc::new(ReceiverLog::default());
        let shared_log = Arc::clone(&log);
        #[expect(clippy::disallowed_methods, reason = "it ends with the measurement")]
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared_log)));
            }
        });
        Ok(Self { url, log })
    }

    /// When the first delivery about each numbered object arrived.
    pub(crate) fn first_arrivals(&self) -> HashMap<u64, Instant> {
        self.log.numbers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets what has arrived.
    pub(crate) fn forget(&self) {
        self.arrivals().clear();
        self.delays().clear();
        self.log.numbers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.arrivals().len()
    }

    fn arrivals(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        self.log.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delays(&self) -> std::sync::MutexGuard<'_, Vec<Duration>> {
        self.log.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(stream: TcpStream, log: Arc<ReceiverLog>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let clock = Clock::system();
    let mut stream = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim_end().parse().map_err(std::io::Error::other)?;
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        let now = clock.now();
        if let Some(finished_at) = occurred_at(&body) {
            log.delays.lock().unwrap_or_else(PoisonError::into_inner).push(now.since(finished_at));
        }
        if let Some(number) = object_number(&body) {
            let mut numbers = log.numbers.lock().unwrap_or_else(PoisonError::into_inner);
            numbers.entry(number).or_insert_with(Instant::now);
        }
        log.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

/// When the analysis in a payload finished, without parsing the rest of it.
fn occurred_at(body: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(body).ok()?;
    text.split_once(r#""occurred_at":""#)?.1.get(..27)?.parse().ok()
}

/// The number in the id of a payload's object.
fn object_number(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let id = text.split_once(r#""object_id":"user_"#)?.1;
    id.split_once('"')?.0.parse().ok()
}
