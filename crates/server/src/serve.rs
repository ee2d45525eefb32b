//! The running process: what starts in which order, and how it stops without losing work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use analyzer::Analyzer;
use service::{Clock, Random, Service, Workers};
use store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use url::Url;

use crate::assembly::{StartError, analyzer, assemble_for};
use crate::config::{Config, Role};
use crate::http::{self, App, BodyBudget, ConnectionLimits, Connections, McpEndpoint, SessionCookie};
use crate::meters::Meters;
use crate::traces::Collector;

/// How long requests and workers may take to finish after a signal to stop.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// A running service.
pub struct Server {
    address: SocketAddr,
    public_url: Url,
    service: Arc<Service>,
    connections: Connections,
    workers: Workers,
    collector: Option<Collector>,
}

impl Server {
    /// Starts the service and returns once it accepts requests.
    pub async fn start(config: Config, clock: Clock, random: Random) -> Result<Self, StartError> {
        let analyzer = analyzer(&config)?;
        Self::start_with(config, clock, random, analyzer).await
    }

    /// Starts the service with a custom analyzer, such as one that takes no time.
    pub async fn start_with(
        config: Config,
        clock: Clock,
        random: Random,
        analyzer: Arc<dyn Analyzer>,
    ) -> Result<Self, StartError> {
        let cannot_listen = |cause| StartError::Listen { address: config.listen, cause };
        let listener = TcpListener::bind(config.listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let public_url = config.public_url_at(address)?;
        let workers = Workers::default();
        let meters =
            config.serves_metrics().then(|| Meters::start(config.metrics_token.clone(), &clock, &workers));
        let (traces, collector) = Collector::start(&config, &clock)?;
        let service =
            assemble_for(&config, clock, random, workers.clone(), &public_url, analyzer, traces).await?;
        service.start_node();
        if config.role != Role::Api {
            service.start_queues();
        }
        let limits = ConnectionLimits::new(config.connections_per_address, config.trusted_proxies.clone());
        let app = App {
            service: Arc::clone(&service),
            public_url: public_url.clone(),
            data_dir: config.data_dir.clone(),
            trusted_proxies: config.trusted_proxies,
            meters,
            bodies: BodyBudget::default(),
            session_cookie: SessionCookie::new(config.env),
            mcp: McpEndpoint::new(&service, &public_url),
        };
        let routes = if config.role == Role::Worker { http::health_router(app) } else { http::router(app) };
        let connections = Connections::accept(listener, routes, limits, workers.health().clone());
        info!(%address, "listening");
        Ok(Self { address, public_url, service, connections, workers, collector })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The public URL, without a trailing slash.
    pub fn public_url(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The database.
    pub fn store(&self) -> &Store {
        self.service.store()
    }

    /// Stops accepting, waits for requests and workers, and returns whether all finished in time.
    pub async fn stop(self) -> bool {
        info!("stopping");
        let drained = tokio::time::timeout(DRAIN_LIMIT, async {
            // Requests first: they may still queue work for the workers.
            self.connections.drain().await;
            self.workers.drain().await;
            self.service.store().close().await;
            if let Some(collector) = self.collector {
                collector.stop().await;
            }
        })
        .await
        .is_ok();
        if drained {
            info!("stopped");
        } else {
            warn!(limit_s = DRAIN_LIMIT.as_secs(), "stopped before everything had finished");
        }
        drained
    }
}

/// Completes at the first signal to stop; a second one exits the process at once.
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        #[expect(clippy::disallowed_methods, reason = "it outlives everything that could await it")]
        tokio::spawn(async move {
            next().await;
            warn!("second signal to stop: exiting at once");
            std::process::exit(130);
        });
    })
}
