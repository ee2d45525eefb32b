//! What a client does when the service is slow, busy, broken or gone: against a receiver that plays all of these.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auspex_client::api::EventInput;
use auspex_client::{Client, Error, Ingest, Timestamp};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// What the receiver answers: a status, headers, a body.
type Scripted = (u16, Vec<(&'static str, &'static str)>, &'static str);

const ACCEPTED: &str =
    r#"{"object_id":"a","accepted":1,"analysis_status":"scheduled","analysis_delay_ms":3000}"#;
const BUSY: &str = r#"{"error":{"code":"analyzer_busy","message":"come back later"}}"#;

/// A request as it arrived.
#[derive(Clone, Debug)]
struct Arrived {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Scripted>>>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

/// A service that answers from a script.
struct Peer {
    base: String,
    script: Script,
    _serving: AbortOnDropHandle<()>,
}

impl Peer {
    async fn start(answers: impl IntoIterator<Item = Scripted>) -> Self {
        let script =
            Script { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Script::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(script.clone());
        #[expect(clippy::disallowed_methods, reason = "it ends with the handle")]
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { base, script, _serving: AbortOnDropHandle::new(serving) }
    }

    fn client(&self) -> Client {
        let builder = Client::builder(&self.base).key("ak_1", "sk_1").backoff(Duration::from_millis(1));
        builder.clock(|| Timestamp::from_seconds(1_700_000_000)).build().unwrap()
    }

    fn arrived(&self) -> Vec<Arrived> {
        self.script.arrived.lock().unwrap().clone()
    }
}

async fn answer(
    State(script): State<Script>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    script.arrived.lock().unwrap().push(Arrived { method, path: uri.to_string(), headers, body });
    let (status, headers, body) =
        script.answers.lock().unwrap().pop_front().expect("the story asks no more than it says");
    let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

fn ok(body: &'static str) -> Scripted {
    (200, Vec::new(), body)
}

fn events() -> Ingest {
    Ingest::new([EventInput::event("listed")])
}

#[tokio::test]
async fn events_are_sent_again_under_one_key_and_newly_signed() {
    let peer = Peer::start([(503, vec![], BUSY), (500, vec![], "oops"), (202, vec![], ACCEPTED)]).await;
    let sent = peer.client().send("a/b c", events()).await.unwrap();
    assert!(!sent.replayed);
    let arrived = peer.arrived();
    assert_eq!(arrived.len(), 3);
    let of = |name: &str| -> Vec<String> {
        arrived.iter().map(|request| request.headers[name].to_str().unwrap().to_owned()).collect()
    };
    assert!(of("idempotency-key").windows(2).all(|pair| pair[0] == pair[1]));
    assert!(of("authorization").windows(2).all(|pair| pair[0] != pair[1]), "each try has a token of its own");
    for request in &arrived {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/objects/a%2Fb%20c/events")
        );
        assert_eq!(request.body, arrived[0].body);
    }
}

#[tokio::test]
async fn a_key_of_the_caller_is_used_and_a_replay_is_told() {
    let peer = Peer::start([(202, vec![("idempotent-replayed", "true")], ACCEPTED)]).await;
    let sent = peer.client().send("a", events().idempotency_key("mine")).await.unwrap();
    assert!(sent.replayed);
    assert_eq!(peer.arrived()[0].headers["idempotency-key"], "mine");
}

#[tokio::test]
async fn a_verdict_whose_events_are_recorded_is_not_asked_for_again() {
    for status in [429, 503] {
        let headers = vec![("events-recorded", "true"), ("retry-after", "1"), ("x-request-id", "r1")];
        let peer = Peer::start([(status, headers, BUSY)]).await;
        let error = peer.client().verdict("a", events()).await.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert!(refusal.events_recorded);
        assert_eq!((refusal.status, refusal.code.as_str()), (status, "analyzer_busy"));
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(refusal.request_id.as_deref(), Some("r1"));
        assert_eq!(peer.arrived().len(), 1);
    }
}

#[tokio::test]
async fn a_verdict_that_was_only_rate_limited_is() {
    let verdict = r#"{"object_id":"a","accepted":1,"analyzed":true,"history_included":true,"model":"m",
        "latency_ms":3,"answers":[]}"#;
    let peer = Peer::start([(429, vec![("retry-after", "0")], BUSY), ok(verdict)]).await;
    assert!(peer.client().verdict("a", events()).await.unwrap().analyzed);
}

#[tokio::test]
async fn tries_end() {
    let peer = Peer::start(std::iter::repeat_n((503, Vec::new(), BUSY), 9)).await;
    let error = peer.client().object("a").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(503), Some("analyzer_busy")));
    assert_eq!(peer.arrived().len(), 5, "once, and four times again");
}

#[tokio::test]
async fn what_would_do_something_twice_is_sent_once() {
    let peer = Peer::start([(500, vec![], "oops")]).await;
    let error = peer.client().create_key(None).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(500), Some("unknown")));
    assert_eq!(peer.arrived().len(), 1);
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let peer = Peer::start([(429, vec![("retry-after", "3600")], BUSY)]).await;
    let error = peer.client().me().await.unwrap_err();
    assert_eq!(error.refusal().unwrap().retry_after, Some(Duration::from_hours(1)));
    assert_eq!(peer.arrived().len(), 1);
}

#[tokio::test]
async fn a_service_that_is_gone_is_an_error_in_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(base).backoff(Duration::from_millis(1)).max_retries(1).build().unwrap();
    let error = client.me().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)), "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn a_stranger_in_its_place_is_noticed() {
    let peer = Peer::start([ok("<html>")]).await;
    let error = peer.client().me().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { status: 200, .. }), "{error}");
    // A token is for this service alone: it is not carried to where something points.
    let peer = Peer::start([(302, vec![("location", "http://127.0.0.1:1/")], "")]).await;
    assert_eq!(peer.client().me().await.unwrap_err().status(), Some(302));
}

#[tokio::test]
async fn what_cannot_be_sent_is_said_before() {
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    for id in ["", ".", ".."] {
        assert!(matches!(client.object(id).await.unwrap_err(), Error::Setup(_)), "{id:?}");
    }
    for address in ["", "auspex.example", "ftp://auspex.example", "http://", "http://x/?q"] {
        assert!(Client::builder(address).build().is_err(), "{address}");
    }
    assert!(!format!("{:?}", Client::builder("http://x").key("ak_1", "sk_hush").build()).contains("hush"));
}
