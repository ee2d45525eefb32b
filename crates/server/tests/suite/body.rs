//! Bodies that are malformed, too large, or never arrive.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::app::App;
use crate::scripted_analyzer::until;

testkit::on_both!(
    malformed_bodies_name_what_is_wrong,
    a_body_over_the_limit_is_refused,
    a_body_that_nobody_reads_is_taken_to_its_end,
    long_answers_are_compressed,
    bodies_in_flight_are_bounded,
    what_is_announced_and_not_sent_takes_no_room,
);

async fn malformed_bodies_name_what_is_wrong(app: &App) {
    let send = async |body: &str| {
        let request = app.request(Method::POST, "/auth/console/register").body(body.to_owned());
        app.send(request).await.refused(400, "bad_request")
    };
    assert!(send("").await.contains("empty"));
    assert!(send("{").await.contains("not JSON"));
    assert!(send("{\"tenant_name\": \"\u{1}\"}").await.contains("not JSON"));
    for other in ["[]", "null", "\"text\"", " [\"Acme\", \"a@b.c\", \"correct horse battery staple\"]"] {
        assert!(send(other).await.contains("must be a JSON object"), "{other}");
    }
    assert!(send("{}").await.contains("tenant_name"));
    assert!(
        send(r#"{"tenant_name": 1, "email": "a@b.c", "password": "x"}"#).await.starts_with("tenant_name: ")
    );
    assert!(
        send(r#"{"tenant_name": "a\u0000b", "email": "a@b.c", "password": "x"}"#).await.contains("U+0000")
    );
    let deep = format!("{{\"tenant_name\": {}", "[".repeat(60_000));
    send(&deep).await;
    let latin1 = app.request(Method::POST, "/auth/console/register").body(vec![b'"', 0xe9, b'"']);
    app.send(latin1).await.refused(400, "bad_request");
}

async fn a_body_over_the_limit_is_refused(app: &App) {
    let token = app.register("ann@example.com").await;
    let large = |bytes: usize| json!({"tenant_name": "x".repeat(bytes), "email": "a@b.c", "password": "x"});
    for (path, limit) in [("/auth/console/register", 64 << 10), ("/v1/playground", 4 << 20)] {
        let send = async |bytes| app.call(&token, Method::POST, path, &large(bytes)).await;
        send(limit).await.refused(413, "payload_too_large");
        send(limit - 100).await.refused(400, "bad_request");
    }
}

/// A client that reads nothing before it has sent everything still gets its answer, and may ask on.
async fn a_body_that_nobody_reads_is_taken_to_its_end(app: &App) {
    let address = app.url("/").replace("http://", "");
    let address = address.trim_end_matches('/');
    let mut client = BufReader::new(TcpStream::connect(address).await.unwrap());
    // The first is refused for its path, the second for its length, which is not read to the end either.
    for (path, length, status) in [("/nowhere", 3 << 20, 404), ("/auth/console/login", 6 << 20, 413)] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&vec![b' '; length]).await.unwrap();
        let mut first = String::new();
        client.read_line(&mut first).await.unwrap();
        assert!(first.starts_with(&format!("HTTP/1.1 {status} ")), "{first}");
        let mut length = 0;
        loop {
            let mut line = String::new();
            client.read_line(&mut line).await.unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        client.read_exact(&mut answer).await.unwrap();
        assert!(serde_json::from_slice::<Value>(&answer).unwrap()["error"].is_object(), "{answer:?}");
    }
}

async fn long_answers_are_compressed(app: &App) {
    let asked = app.request(Method::GET, "/openapi.json").header("accept-encoding", "gzip");
    let reply = asked.send().await.unwrap();
    assert_eq!(reply.headers()["content-encoding"], "gzip");
    let packed = reply.bytes().await.unwrap();
    let plain = app.get("/openapi.json").await;
    assert_eq!(plain.header("content-encoding"), "");
    assert!(packed.len() < plain.text.len() / 2);
}

/// The largest body.
const BODY: usize = 4 << 20;
/// The bytes that one account may have in flight, in the largest bodies.
const BODIES: usize = 16;

/// A request whose body has not arrived whole: the given length is announced, and so many bytes of it are sent.
async fn begin(app: &App, path: &str, token: &str, announced: usize, sent: usize) -> BufReader<TcpStream> {
    let address = app.url("/").replace("http://", "");
    let address = address.trim_end_matches('/');
    let mut client = BufReader::new(TcpStream::connect(address).await.unwrap());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-length: {announced}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    // It may be refused before it is whole.
    let _ = client.write_all(&vec![b' '; sent]).await;
    client
}

/// The head of the response, in lower case.
async fn head(client: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(client.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    head.to_ascii_lowercase()
}

/// The status that one event gets.
async fn ingest(app: &App, token: &str) -> u16 {
    let event = json!({"events": [{"type": "event", "name": "signup"}]});
    app.call(token, Method::POST, "/v1/objects/user_1/events", &event).await.status.as_u16()
}

/// Sends one event until it gets this status.
async fn ingest_until(app: &App, token: &str, status: u16) {
    until("an event gets the status", async || ingest(app, token).await == status).await;
}

async fn bodies_in_flight_are_bounded(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    let path = "/v1/objects/user_2/events";
    let clients = Mutex::new(Vec::new());
    until("the account's share is full", async || {
        // On a busy machine the first may be given up before the last is there.
        clients.lock().await.clear();
        let mut all = join_all((0..BODIES).map(|_| begin(app, path, &ann, BODY, BODY - 1))).await;
        clients.lock().await.append(&mut all);
        let read = async {
            while ingest(app, &ann).await != 503 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), read).await.is_ok()
    })
    .await;
    let refused = head(&mut begin(app, path, &ann, BODY, 0).await).await;
    assert!(refused.starts_with("http/1.1 503 ") && refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(!refused.contains("\nevents-recorded:"), "{refused}");
    ingest_until(app, &bob, 202).await;
    drop(clients);
    // What nobody sends any more counts no more.
    ingest_until(app, &ann, 202).await;
    let objects = app.call(&ann, Method::GET, "/v1/objects", &Value::Null).await.json();
    assert_eq!(objects["objects"].as_array().unwrap().len(), 1, "nothing else was recorded: {objects}");
    app.advance(Duration::from_mins(1));
}

async fn what_is_announced_and_not_sent_takes_no_room(app: &App) {
    let ann = app.register("ann@example.com").await;
    // As much as the process holds at a time, for the account and for everybody who signs in.
    let mut clients = Vec::new();
    for path in ["/v1/objects/user_2/events", "/auth/console/login"] {
        for _ in 0..64 {
            let mut client = begin(app, path, &ann, BODY, 1).await;
            if path.starts_with("/auth/") {
                let refused = head(&mut client).await;
                assert!(refused.starts_with("http/1.1 413 "), "nobody signs in with so much: {refused}");
            }
            clients.push(client);
        }
    }
    for _ in 0..64 {
        clients.push(begin(app, "/auth/console/login", &ann, 64 << 10, 1).await);
    }
    let bob = app.register("bob@example.com").await;
    for token in [&ann, &bob] {
        let event = json!({"events": [{"type": "event", "name": "signup"}]});
        let reply = app.call(token, Method::POST, "/v1/objects/user_1/events", &event).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }
    drop(clients);
    app.advance(Duration::from_mins(1));
}
