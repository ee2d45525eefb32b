//! How the client behaves if the service is slow, busy, broken or gone, tested against a scripted server.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod exports;
mod ingester;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auspex_client::api::EventInput;
use auspex_client::{Call, Client, Error, Ingest, Timestamp};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// A scripted response: status, headers, body.
type Scripted = (u16, Vec<(&'static str, &'static str)>, &'static str);

const ACCEPTED: &str =
    r#"{"object_id":"a","accepted":1,"analysis_status":"scheduled","analysis_delay_ms":3000}"#;
const BUSY: &str = r#"{"error":{"code":"analyzer_busy","message":"come back later"}}"#;

/// A request that the server received.
#[derive(Clone, Debug)]
struct ReceivedRequest {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Clone, Default)]
struct Script {
    responses: Arc<Mutex<VecDeque<Scripted>>>,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// A server that responds from a script.
struct ScriptedServer {
    base: String,
    script: Script,
    _serving: AbortOnDropHandle<()>,
}

impl ScriptedServer {
    async fn start(responses: impl IntoIterator<Item = Scripted>) -> Self {
        let script =
            Script { responses: Arc::new(Mutex::new(responses.into_iter().collect())), ..Script::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(respond).with_state(script.clone());
        #[expect(clippy::disallowed_methods, reason = "it ends with the handle")]
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { base, script, _serving: AbortOnDropHandle::new(serving) }
    }

    fn client(&self) -> Client {
        let builder = Client::builder(&self.base).key("ak_1", "sk_1").backoff(Duration::from_millis(1));
        builder.clock(|| Timestamp::from_seconds(1_700_000_000)).build().unwrap()
    }

    fn received(&self) -> Vec<ReceivedRequest> {
        self.script.received.lock().unwrap().clone()
    }
}

async fn respond(
    State(script): State<Script>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    script.received.lock().unwrap().push(ReceivedRequest { method, path: uri.to_string(), headers, body });
    let (status, headers, body) =
        script.responses.lock().unwrap().pop_front().expect("the script has a response for every request");
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
async fn retries_have_the_same_idempotency_key_and_a_new_token() {
    let server =
        ScriptedServer::start([(503, vec![], BUSY), (500, vec![], "oops"), (202, vec![], ACCEPTED)]).await;
    let sent = server.client().send("a/b c", events()).await.unwrap();
    assert!(!sent.replayed);
    let received = server.received();
    assert_eq!(received.len(), 3);
    let of = |name: &str| -> Vec<String> {
        received.iter().map(|request| request.headers[name].to_str().unwrap().to_owned()).collect()
    };
    assert!(of("idempotency-key").windows(2).all(|pair| pair[0] == pair[1]));
    assert!(
        of("authorization").windows(2).all(|pair| pair[0] != pair[1]),
        "each attempt has a token of its own"
    );
    for request in &received {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/objects/a%2Fb%20c/events")
        );
        assert_eq!(request.body, received[0].body);
    }
}

#[tokio::test]
async fn the_callers_key_is_used_and_a_replay_is_reported() {
    let server = ScriptedServer::start([(202, vec![("idempotent-replayed", "true")], ACCEPTED)]).await;
    let sent = server.client().send("a", events().idempotency_key("mine")).await.unwrap();
    assert!(sent.replayed);
    assert_eq!(server.received()[0].headers["idempotency-key"], "mine");
}

#[tokio::test]
async fn a_verdict_whose_events_are_recorded_is_not_retried() {
    for status in [429, 503] {
        let headers = vec![("events-recorded", "true"), ("retry-after", "1"), ("x-request-id", "r1")];
        let server = ScriptedServer::start([(status, headers, BUSY)]).await;
        let error = server.client().verdict("a", events()).await.unwrap_err();
        let refusal = error.refusal().unwrap();
        assert!(refusal.events_recorded);
        assert_eq!((refusal.status, refusal.code.as_str()), (status, "analyzer_busy"));
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(refusal.request_id.as_deref(), Some("r1"));
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_rate_limited_verdict_is_retried() {
    let verdict = r#"{"object_id":"a","accepted":1,"analyzed":true,"history_included":true,"model":"m",
        "latency_ms":3,"answers":[]}"#;
    let server = ScriptedServer::start([(429, vec![("retry-after", "0")], BUSY), ok(verdict)]).await;
    assert!(server.client().verdict("a", events()).await.unwrap().analyzed);
}

#[tokio::test]
async fn retries_end() {
    let server = ScriptedServer::start(std::iter::repeat_n((503, Vec::new(), BUSY), 9)).await;
    let error = server.client().object("a").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(503), Some("analyzer_busy")));
    assert_eq!(server.received().len(), 5, "one attempt and four retries");
}

#[tokio::test]
async fn a_harmful_call_is_not_retried() {
    let server = ScriptedServer::start([(500, vec![], "oops")]).await;
    let error = server.client().create_key(None).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(500), Some("unknown")));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let server = ScriptedServer::start([(429, vec![("retry-after", "3600")], BUSY)]).await;
    let error = server.client().me().await.unwrap_err();
    assert_eq!(error.refusal().unwrap().retry_after, Some(Duration::from_hours(1)));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn an_unreachable_service_is_a_transport_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(base).backoff(Duration::from_millis(1)).max_retries(1).build().unwrap();
    let error = client.me().await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)), "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn responses_of_other_servers_are_errors() {
    let server = ScriptedServer::start([ok("<html>")]).await;
    let error = server.client().me().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { status: 200, .. }), "{error}");
    // A token is only for this service, so redirects are not followed.
    let server = ScriptedServer::start([(302, vec![("location", "http://127.0.0.1:1/")], "")]).await;
    assert_eq!(server.client().me().await.unwrap_err().status(), Some(302));
}

#[tokio::test]
async fn any_call_can_be_made_and_its_response_is_left_as_it_is() {
    let server = ScriptedServer::start([ok("{\"a\": 1.50}"), (202, vec![], ""), ok("one\ntwo\n")]).await;
    let client = server.client();
    let call = Call::to_target(Method::GET, "/v1/objects/a%2Fb?q=x+%3E%200.5&limit=1").unwrap();
    assert_eq!(client.request(call).await.unwrap().body, b"{\"a\": 1.50}");
    let call = Call::new(Method::POST, &["v1", "rules", "replay"]).unwrap();
    let response = client.request(call.json(&[1, 2]).unwrap()).await.unwrap();
    assert_eq!(response.status, StatusCode::ACCEPTED);
    let mut stream = client.stream(&Call::new(Method::GET, &["v1", "export"]).unwrap()).await.unwrap();
    let mut body = Vec::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        body.extend(chunk);
    }
    assert_eq!(body, b"one\ntwo\n");
    let received = server.received();
    assert_eq!(received[0].path, "/v1/objects/a%2Fb?q=x+%3E+0.5&limit=1");
    assert_eq!(received[1].body, "[1,2]");
    for path in ["v1/me", "/v1/../me", "/v1/a b", "/%ff", ""] {
        assert!(matches!(Call::to_target(Method::GET, path), Err(Error::Setup(_))), "{path}");
    }
    let refusing = ScriptedServer::start([(429, vec![], BUSY)]).await;
    let call = Call::new(Method::GET, &["v1", "export"]).unwrap();
    assert_eq!(refusing.client().stream(&call).await.unwrap_err().code(), Some("analyzer_busy"));
}

#[tokio::test]
async fn invalid_calls_fail_before_anything_is_sent() {
    let client = Client::builder("http://127.0.0.1:1").build().unwrap();
    for id in ["", ".", ".."] {
        assert!(matches!(client.object(id).await.unwrap_err(), Error::Setup(_)), "{id:?}");
    }
    for address in ["", "auspex.example", "ftp://auspex.example", "http://", "http://x/?q"] {
        assert!(Client::builder(address).build().is_err(), "{address}");
    }
    assert!(!format!("{:?}", Client::builder("http://x").key("ak_1", "sk_hush").build()).contains("hush"));
}
