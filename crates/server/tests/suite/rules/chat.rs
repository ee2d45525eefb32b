//! Stands in for a Slack workspace's incoming webhook: it keeps what is posted, and answers what a story decides.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use testkit::PATIENCE;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The workspace.
pub(super) struct Chat {
    address: SocketAddr,
    script: Arc<Script>,
    _server: JoinSet<()>,
}

/// A message as it came.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

struct Script {
    /// What the next messages are answered, one each; others are taken.
    next: Mutex<VecDeque<(u16, &'static str, Option<&'static str>)>>,
    posted: watch::Sender<Vec<Posted>>,
}

impl Chat {
    pub(super) async fn start() -> Self {
        let script = Arc::new(Script { next: Mutex::default(), posted: watch::channel(Vec::new()).0 });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().route("/services/{token}", post(take)).with_state(Arc::clone(&script));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, script, _server: server }
    }

    /// The address of a webhook.
    pub(super) fn url(&self, token: &str) -> String {
        format!("http://{}/services/{token}", self.address)
    }

    /// Decides what one more message is answered: a status, a body, and how long to wait.
    pub(super) fn then(&self, status: u16, body: &'static str, retry_after: Option<&'static str>) {
        self.script.next.lock().unwrap().push_back((status, body, retry_after));
    }

    /// Waits until this many messages have come, and not more.
    pub(super) async fn posted(&self, count: usize) -> Vec<Posted> {
        let mut posted = self.script.posted.subscribe();
        let waited = tokio::time::timeout(PATIENCE, posted.wait_for(|posted| posted.len() >= count)).await;
        assert!(waited.is_ok(), "not {count} messages in time: {:?}", self.script.posted.borrow());
        let posted = self.script.posted.borrow().clone();
        assert_eq!(posted.len(), count);
        posted
    }
}

async fn take(State(script): State<Arc<Script>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let (status, said, retry_after) = script.next.lock().unwrap().pop_front().unwrap_or((200, "ok", None));
    script.posted.send_modify(|posted| posted.push(Posted { headers, body }));
    let status = StatusCode::from_u16(status).unwrap();
    match retry_after {
        Some(wait) => (status, [(header::RETRY_AFTER, wait)], said).into_response(),
        None => (status, said).into_response(),
    }
}
