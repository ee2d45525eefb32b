//! A collector of traces: takes what the service sends by OTLP, and reads it with the standard's own messages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span as Sent;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A span as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty for the first of a trace.
    pub(crate) parent: String,
    pub(crate) begun_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The traces that it is linked to.
    pub(crate) links: Vec<String>,
    pub(crate) failed: bool,
    /// What sent it.
    pub(crate) resource: BTreeMap<String, String>,
}

pub(crate) struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Taken>>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Taken {
    spans: Vec<Span>,
    is_silent: bool,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, taken, stop) =
            (listener.local_addr().unwrap(), Arc::default(), CancellationToken::new());
        let routes = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&taken));
        let server = stop.clone().run_until_cancelled_owned(axum::serve(listener, routes).into_future());
        TaskTracker::new().spawn(server);
        Self { address, taken, stop }
    }

    /// What `AUSPEX_OTLP_ENDPOINT` must be.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes connections from now on and answers nothing.
    pub(crate) fn fall_silent(&self) {
        self.taken.lock().unwrap().is_silent = true;
    }

    /// What has arrived so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.taken.lock().unwrap().spans.clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn take(State(taken): State<Arc<Mutex<Taken>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    if taken.lock().unwrap().is_silent {
        std::future::pending::<()>().await;
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).expect("it is what the standard says");
    for sender in request.resource_spans {
        let resource = texts(&sender.resource.unwrap_or_default().attributes);
        let sent = sender.scope_spans.into_iter().flat_map(|scope| {
            let is_ours = scope.scope.as_ref().is_some_and(|scope| scope.name == "auspex");
            assert!(is_ours, "{:?}", scope.scope);
            scope.spans
        });
        let spans = sent.map(|span| Span::new(span, &resource));
        taken.lock().unwrap().spans.extend(spans);
    }
    StatusCode::OK
}

impl Span {
    fn new(sent: Sent, resource: &BTreeMap<String, String>) -> Self {
        Self {
            name: sent.name,
            kind: sent.kind,
            trace: hex::encode(sent.trace_id),
            id: hex::encode(sent.span_id),
            parent: hex::encode(sent.parent_span_id),
            begun_ns: sent.start_time_unix_nano,
            ended_ns: sent.end_time_unix_nano,
            attributes: texts(&sent.attributes),
            links: sent.links.into_iter().map(|link| hex::encode(link.trace_id)).collect(),
            failed: sent.status.is_some_and(|status| status.code == 2),
            resource: resource.clone(),
        }
    }

    /// An attribute, empty where there is none.
    pub(crate) fn says(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
        other => panic!("{}: {other:?}", pair.key),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}
