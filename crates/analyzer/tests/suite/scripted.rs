//! A server that answers whatever a test tells it to, or passes requests on to a real one, and remembers what it was asked.

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

/// How a request is answered.
pub(crate) enum Reply {
    Json(u16, Value),
    /// A status, a header, a body.
    Text(u16, (&'static str, &'static str), String),
    /// Nothing, ever.
    Silence,
    /// As soon as the gate opens.
    Together(Arc<Gate>, Value),
    /// What a real server says, changed.
    Relay(Url, fn(&mut Value)),
}

/// Opens for some requests at a time, once as many wait, and counts how many waited at most.
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

/// A request, and what a real server said to it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) relayed: Option<Value>,
}

struct Stage {
    script: Box<dyn Fn(&Value) -> Reply + Send + Sync>,
    asked: Mutex<Vec<Asked>>,
}

/// A server that does as it is told.
pub(crate) struct Scripted {
    pub(crate) url: Url,
    stage: Arc<Stage>,
    // Ends the server with this value.
    _server: JoinSet<()>,
}

impl Scripted {
    /// Starts a server that answers as the script says to the body of each request.
    pub(crate) async fn start(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stage = Arc::new(Stage { script: Box::new(script), asked: Mutex::default() });
        let router = axum::Router::new().fallback(play).with_state(Arc::clone(&stage));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, stage, _server: server }
    }

    /// Every request so far, by the order of their answers.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.stage.asked.lock().unwrap().clone()
    }

    /// How many requests there were.
    pub(crate) fn count(&self) -> usize {
        self.stage.asked.lock().unwrap().len()
    }
}

async fn play(State(stage): State<Arc<Stage>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = (stage.script)(&body);
    let mut asked = Asked { path: parts.uri.path().to_owned(), headers: parts.headers, body, relayed: None };
    let response = match reply {
        Reply::Relay(server, change) => relay(server, change, &mut asked).await,
        reply => {
            stage.asked.lock().unwrap().push(asked);
            return say(reply).await;
        }
    };
    stage.asked.lock().unwrap().push(asked);
    response
}

async fn say(reply: Reply) -> Response {
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

async fn relay(server: Url, change: fn(&mut Value), asked: &mut Asked) -> Response {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(server.join(&asked.path).unwrap()).json(&asked.body);
    if let Some(authorization) = asked.headers.get(header::AUTHORIZATION) {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let mut value: Value = response.json().await.unwrap();
    change(&mut value);
    asked.relayed = Some(value.clone());
    (status, axum::Json(value)).into_response()
}
