//! Accepts connections, limited in number and in time, and lets them finish at shutdown.

mod activity;
mod addresses;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use service::Health;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use self::activity::{Activity, ResponseBody, WatchedStream};
use self::addresses::{Addresses, Admission};
use super::request_body::RequestBody;
use crate::config::NetworkList;

/// The maximum number of connections: far above what a busy service has, far below what would exhaust memory.
const MAX_CONNECTIONS: usize = 10_000;
/// How long a client may take to send a request's head, leave a response unread, or stay idle between two requests.
const IDLE_LIMIT: Duration = Duration::from_mins(1);
/// The same while the service stops, so that a client that takes nothing does not keep it from stopping in time.
const IDLE_LIMIT_WHILE_STOPPING: Duration = Duration::from_secs(5);
/// How long a connection that is ended for being idle may take to say goodbye.
const CLOSING_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait when the system has no sockets left, instead of a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The bytes that a connection buffers of what nobody has read yet: a whole head, and a part of a body.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// The same for HTTP/2, whose client is told how much it may send: enough for a fast transfer over a long way.
const WINDOW_BYTES: u32 = 256 * 1024;

/// The peer address of a request's connection, before any forwarding header is applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Cancelled when the listener stops: what has no end of its own by then must end early.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(pub(crate) CancellationToken);

/// The bounds of a listener's connections.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimits {
    /// The number of connections.
    total: usize,
    /// The number of connections of one client address.
    per_address: usize,
    /// Addresses that many clients share; the number of their connections is not limited.
    trusted_proxies: NetworkList,
    /// How long a connection may be idle.
    idle: Duration,
}

impl ConnectionLimits {
    /// The usual limits, with this many connections for an address that is not a trusted proxy.
    pub(crate) fn new(per_address: u32, trusted_proxies: NetworkList) -> Self {
        let per_address = usize::try_from(per_address).unwrap_or(usize::MAX);
        Self { total: MAX_CONNECTIONS, per_address, trusted_proxies, idle: IDLE_LIMIT }
    }
}

/// All connections of a listener.
pub(crate) struct Connections {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Connections {
    /// Starts accepting connections. If accepting panics, the panic is counted and the port stays open.
    pub(crate) fn accept(
        listener: TcpListener,
        router: Router,
        limits: ConnectionLimits,
        health: Health,
    ) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let acceptor = Acceptor {
            listener,
            router,
            idle: limits.idle,
            slots: Arc::new(Semaphore::new(limits.total)),
            addresses: Addresses::new(limits.per_address, limits.trusted_proxies),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(async move {
            health.supervise("connections", &acceptor.stop, || acceptor.run()).await;
        });
        Self { tasks, stop }
    }

    /// Stops accepting and returns when the requests in flight have been answered.
    pub(crate) async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Accepts connections within their limits.
struct Acceptor {
    listener: TcpListener,
    router: Router,
    idle: Duration,
    slots: Arc<Semaphore>,
    addresses: Addresses,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Acceptor {
    /// Accepts connections until it is stopped.
    async fn run(&self) {
        loop {
            let accepted = tokio::select! {
                accepted = self.next() => accepted,
                () = self.stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, peer, slot)) => {
                    let Some(admission) = self.addresses.admit(peer.ip()) else {
                        metrics::counter!("auspex_connections_refused_total").increment(1);
                        debug!(%peer, "refused a connection: its address has too many");
                        continue;
                    };
                    let serving = serve(
                        stream,
                        peer,
                        self.router.clone(),
                        self.idle,
                        self.stop.clone(),
                        (slot, admission),
                    );
                    self.tasks.spawn(serving);
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn next(&self) -> std::io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(std::io::Error::other)?;
        let (stream, peer) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, peer, slot))
    }
}

/// Serves one connection until it ends, has been idle for `idle_limit`, or has been asked to stop and is done.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    idle_limit: Duration,
    stop: CancellationToken,
    _held: (OwnedSemaphorePermit, Admission),
) {
    let activity = Arc::new(Activity::new());
    let io = TokioIo::new(WatchedStream::new(stream, Arc::clone(&activity)));
    let (requests, stopping) = (Arc::clone(&activity), Stopping(stop.clone()));
    let handle = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(stopping.clone());
        let busy = Activity::begin(&requests);
        let response = router.clone().oneshot(RequestBody::of(request));
        async move { Ok::<_, std::convert::Infallible>(ResponseBody::of(response.await?, busy)) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle_limit).max_buf_size(READ_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(idle_limit)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES);
    let mut connection = pin!(builder.serve_connection(io, handle));
    let mut idle = pin!(activity.idle(idle_limit));
    let is_stopping = tokio::select! {
        ended = connection.as_mut() => return note_end(peer, ended),
        () = idle.as_mut() => false,
        () = stop.cancelled() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_stopping {
        tokio::select! {
            ended = connection.as_mut() => return note_end(peer, ended),
            () = activity.idle(idle_limit.min(IDLE_LIMIT_WHILE_STOPPING)) => {}
        }
    }
    debug!(%peer, "ends an idle connection");
    if let Ok(ended) = tokio::time::timeout(CLOSING_LIMIT, connection).await {
        note_end(peer, ended);
    }
}

fn note_end(peer: SocketAddr, ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        debug!(%peer, %error, "connection ended early");
    }
}
