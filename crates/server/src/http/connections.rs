//! Accepts connections, limited in number and in time, and lets them finish at shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use super::request_body::RequestBody;

/// The maximum number of connections: far above what a busy service has, far below what would exhaust memory.
const MAX_CONNECTIONS: usize = 10_000;
/// How long a client may take to send a request's head, or stay idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long to wait when the system has no sockets left, instead of a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The peer address of a request's connection, before any forwarding header is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// All connections of a listener.
pub(crate) struct Connections {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Connections {
    /// Starts accepting connections.
    pub(crate) fn accept(listener: TcpListener, router: Router) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(accept(listener, router, tasks.clone(), stop.clone()));
        Self { tasks, stop }
    }

    /// Stops accepting and returns when the requests in flight have been answered.
    pub(crate) async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn accept(listener: TcpListener, router: Router, tasks: TaskTracker, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &slots) => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer, slot)) => {
                let connection = serve(stream, peer, router.clone(), &graceful);
                tasks.spawn(async move {
                    if let Err(error) = connection.await {
                        debug!(%peer, %error, "connection ended early");
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, slot))
}

fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + use<> {
    let handle = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(RequestBody::of(request))
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(HEAD_TIMEOUT);
    graceful.watch(builder.serve_connection(TokioIo::new(stream), handle).into_owned())
}
