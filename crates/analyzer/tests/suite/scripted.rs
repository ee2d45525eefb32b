//! A server that answers as a test's script says, or relays requests to a real server, and records all requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use url::Url;

const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// The reply to a request.
pub(crate) enum Reply {
    Json(u16, Value),
    /// A status, a header, a body.
    Text(u16, (&'static str, &'static str), String),
    /// The server never replies.
    Silence,
    /// A reply once the gate opens.
    Together(Arc<Gate>, Value),
    /// The reply of a real server, modified.
    Relay(Url, fn(&mut Value)),
}

/// A barrier that opens when a given number of requests wait, and counts how many waited at most.
pub(crate) struct Gate {
    barrier: Barrier,
    waiting: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(together: usize) -> Arc<Self> {
        let barrier = Barrier::new(together);
        Arc::new(Self { barrier, waiting: AtomicUsize::default(), most: AtomicUsize::default() })
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    async fn pass(&self) {
        self.most.fetch_max(self.waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.barrier.wait().await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A request, and the reply of the real server if it was relayed.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) relayed: Option<Value>,
}

struct Shared {
    script: Box<dyn Fn(&Value) -> Reply + Send + Sync>,
    requests: Mutex<Vec<RecordedRequest>>,
}

/// A server that follows a script.
pub(crate) struct Scripted {
    pub(crate) url: Url,
    shared: Arc<Shared>,
    // Stops the server when dropped.
    _server: JoinSet<()>,
}

impl Scripted {
    /// Starts a server that answers as the script says to the body of each request.
    pub(crate) async fn start(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let shared = Arc::new(Shared { script: Box::new(script), requests: Mutex::default() });
        let router = axum::Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, _server: server }
    }

    /// Every request so far, in the order of the replies.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The number of requests so far.
    pub(crate) fn count(&self) -> usize {
        self.shared.requests.lock().unwrap().len()
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = (shared.script)(&body);
    let mut request =
        RecordedRequest { path: parts.uri.path().to_owned(), headers: parts.headers, body, relayed: None };
    let response = match reply {
        Reply::Relay(server, change) => relay(server, change, &mut request).await,
        reply => {
            shared.requests.lock().unwrap().push(request);
            return send(reply).await;
        }
    };
    shared.requests.lock().unwrap().push(request);
    response
}

async fn send(reply: Reply) -> Response {
    match reply {
        Reply::Json(status, value) => {
            (StatusCode::from_u16(status).unwrap(), axum::Json(value)).into_response()
        }
        Reply::Text(status, (name, value), text) => {
            Response::builder().status(status).header(name, value).body(Body::from(text)).unwrap()
        }
        Reply::Together(gate, value) => {
            gate.pass().await;
            axum::Json(value).into_response()
        }
        Reply::Silence | Reply::Relay(..) => std::future::pending().await,
    }
}

async fn relay(server: Url, change: fn(&mut Value), recorded: &mut RecordedRequest) -> Response {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(server.join(&recorded.path).unwrap()).json(&recorded.body);
    if let Some(authorization) = recorded.headers.get(header::AUTHORIZATION) {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let mut value: Value = response.json().await.unwrap();
    change(&mut value);
    recorded.relayed = Some(value.clone());
    (status, axum::Json(value)).into_response()
}
