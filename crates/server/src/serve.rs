//! The running process: what is started, in which order, and how it stops without dropping anything.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use service::{Clock, Random, Workers};
use store::Store;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use url::Url;

use crate::config::{Config, ConfigError};
use crate::http::{self, App, Connections};

/// How long requests and workers may take to finish once the service is told to stop.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// A running service.
pub struct Server {
    address: SocketAddr,
    public_url: Url,
    store: Store,
    connections: Connections,
    workers: Workers,
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}: {cause}")]
    DataDirectory {
        /// The directory asked for.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The database cannot be used.
    #[error("cannot use the database: {0}")]
    Database(#[from] store::Error),
    /// The settings do not work out.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Server {
    /// Starts the service and returns once it accepts requests.
    pub async fn start(config: Config, clock: Clock, random: Random) -> Result<Self, StartError> {
        // The one TLS implementation of everything that calls out; already there when a test starts a second service.
        let _ = rustls::crypto::ring::default_provider().install_default();
        prepare_data_directory(&config)?;
        let store = Store::open(&config.database_address()).await?;
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(|cause| StartError::Listen { address: config.listen, cause })?;
        let address =
            listener.local_addr().map_err(|cause| StartError::Listen { address: config.listen, cause })?;
        let public_url = match &config.public_url {
            Some(url) => url.clone(),
            None => Url::parse(&format!("http://{address}"))
                .map_err(|error| ConfigError::from_public_url(&error))?,
        };
        let workers = Workers::default();
        let app = App { store: store.clone(), clock, random, public_url: public_url.clone() };
        let connections = Connections::accept(listener, http::router(app));
        info!(%address, "listening");
        Ok(Self { address, public_url, store, connections, workers })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How people reach it, without a slash at the end.
    pub fn public_url(&self) -> &str {
        self.public_url.as_str().trim_end_matches('/')
    }

    /// Its database.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Stops accepting, finishes requests and workers, and says whether all ended in time.
    pub async fn stop(self) -> bool {
        info!("stopping");
        let drained = tokio::time::timeout(DRAIN_LIMIT, async {
            // Requests first: they may still hand work to the workers.
            self.connections.drain().await;
            self.workers.drain().await;
            self.store.close().await;
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

/// Makes the data directory, for us alone, where the configuration has a use for it.
pub(crate) fn prepare_data_directory(config: &Config) -> Result<(), StartError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.data_dir)
        .map_err(|cause| StartError::DataDirectory { path: config.data_dir.display().to_string(), cause })
}

/// Ends with the first signal to stop; a second one ends the process at once.
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
        #[expect(clippy::disallowed_methods, reason = "it outlives everything that could wait for it")]
        tokio::spawn(async move {
            next().await;
            warn!("told to stop again: ending at once");
            std::process::exit(130);
        });
    })
}
