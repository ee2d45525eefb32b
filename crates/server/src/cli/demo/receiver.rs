//! The other end of the demo's webhook: what a user of the service would run, in a few lines.

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

/// A delivery as it arrived.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) payload: Payload,
    pub(super) verified: Result<(), Unverified>,
}

#[derive(Clone)]
struct Desk {
    secret: Arc<OnceLock<String>>,
    arrived: Arc<watch::Sender<Vec<Arrived>>>,
}

/// A receiver on a port of its own.
pub(super) struct Receiver {
    url: String,
    desk: Desk,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Receiver {
    pub(super) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hooks/auspex", listener.local_addr()?);
        let desk = Desk { secret: Arc::default(), arrived: Arc::new(watch::channel(Vec::new()).0) };
        let routes = Router::new().route("/hooks/auspex", post(receive)).with_state(desk.clone());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(serving.into_future());
        Ok(Self { url, desk, tasks, stop })
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Checks what arrives with this secret.
    pub(super) fn expect(&self, secret: String) {
        // There is one endpoint, so this is called once.
        let _ = self.desk.secret.set(secret);
    }

    /// What has arrived once it is so much, or by the end of this time.
    pub(super) async fn wait_for(&self, number: usize, patience: Duration) -> Vec<Arrived> {
        let mut arrived = self.desk.arrived.subscribe();
        let _ = tokio::time::timeout(patience, arrived.wait_for(|all| all.len() >= number)).await;
        arrived.borrow().clone()
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn receive(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let secret = desk.secret.get().map_or("", String::as_str);
    let verified = webhook::verify(secret, &headers, &body, Clock::system().now(), webhook::TOLERANCE);
    let Ok(payload) = webhook::parse(&body) else { return StatusCode::BAD_REQUEST };
    let status = if verified.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
    desk.arrived.send_modify(|all| all.push(Arrived { payload, verified }));
    status
}
