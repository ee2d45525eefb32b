//! The demo's webhook receiver: what a user of the service would run, in a few lines.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use client::webhook::{self, Payload, Unverified};
use service::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A received delivery.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) payload: Payload,
    pub(super) verified: Result<(), Unverified>,
}

#[derive(Clone)]
struct Inbox {
    secret: Arc<OnceLock<String>>,
    arrived: Arc<watch::Sender<Vec<Arrived>>>,
}

/// A receiver on a port of its own.
pub(super) struct Receiver {
    url: String,
    inbox: Inbox,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Receiver {
    pub(super) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hooks/auspex", listener.local_addr()?);
        let inbox = Inbox { secret: Arc::default(), arrived: Arc::new(watch::channel(Vec::new()).0) };
        let routes = Router::new().route("/hooks/auspex", post(receive)).with_state(inbox.clone());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(serving.into_future());
        Ok(Self { url, inbox, tasks, stop })
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Sets the secret that deliveries are verified with.
    pub(super) fn expect(&self, secret: String) {
        // There is one endpoint, so this is called once.
        let _ = self.inbox.secret.set(secret);
    }

    /// Waits until this many deliveries have arrived or the time is up, and returns them.
    pub(super) async fn wait_for(&self, number: usize, timeout: Duration) -> Vec<Arrived> {
        let mut arrived = self.inbox.arrived.subscribe();
        let _ = tokio::time::timeout(timeout, arrived.wait_for(|all| all.len() >= number)).await;
        arrived.borrow().clone()
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn receive(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let secret = inbox.secret.get().map_or("", String::as_str);
    let verified = webhook::verify(secret, &headers, &body, Clock::system().now(), webhook::TOLERANCE);
    let Ok(payload) = webhook::parse(&body) else { return StatusCode::BAD_REQUEST };
    let status = if verified.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
    inbox.arrived.send_modify(|all| all.push(Arrived { payload, verified }));
    status
}
