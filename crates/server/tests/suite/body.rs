//! Bodies that are malformed, too large, or never arrive.

use std::time::Duration;

use futures_util::future::select_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::app::App;

testkit::on_both!(
    malformed_bodies_name_what_is_wrong,
    a_body_over_the_limit_is_refused,
    a_body_that_nobody_reads_is_taken_to_its_end,
    long_answers_are_compressed,
    bodies_in_flight_are_bounded,
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
    let deep = format!("{{\"tenant_name\": {}", "[".repeat(100_000));
    send(&deep).await;
    let latin1 = app.request(Method::POST, "/auth/console/register").body(vec![b'"', 0xe9, b'"']);
    app.send(latin1).await.refused(400, "bad_request");
}

async fn a_body_over_the_limit_is_refused(app: &App) {
    let large = json!({"tenant_name": "x".repeat(4 * 1024 * 1024), "email": "a@b.c", "password": "x"});
    app.post("/auth/console/register", &large).await.refused(413, "payload_too_large");
    let fitting =
        json!({"tenant_name": "x".repeat(4 * 1024 * 1024 - 100), "email": "a@b.c", "password": "x"});
    app.post("/auth/console/register", &fitting).await.refused(400, "bad_request");
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

/// The bytes that one account may have in flight, in the largest bodies.
const BODIES: usize = 32;

async fn bodies_in_flight_are_bounded(app: &App) {
    let (ann, bob) = (app.register("ann@example.com").await, app.register("bob@example.com").await);
    let address = app.url("/").replace("http://", "");
    let address = address.trim_end_matches('/');
    // Everybody announces as much as is allowed and sends next to nothing of it: what is announced counts.
    let mut clients = Vec::new();
    for number in 0..BODIES + 8 {
        let mut client = BufReader::new(TcpStream::connect(address).await.unwrap());
        let head = format!(
            "POST /v1/objects/user_{number}/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {ann}\r\n\
             content-length: {}\r\n\r\n{{",
            4 << 20
        );
        client.write_all(head.as_bytes()).await.unwrap();
        clients.push(client);
    }
    for _ in 0..8 {
        let answers = clients.iter_mut().map(|client| Box::pin(client.fill_buf()));
        let (_, answered, _) = select_all(answers).await;
        let mut head = String::new();
        let mut client = clients.swap_remove(answered);
        while !head.ends_with("\r\n\r\n") {
            assert!(client.read_line(&mut head).await.unwrap() > 0, "{head}");
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 1\r\n"), "{head}");
        assert!(!head.contains("\nevents-recorded:"), "{head}");
    }
    let event = json!({"events": [{"type": "event", "name": "signup"}]});
    let send = async |token: &str| app.call(token, Method::POST, "/v1/objects/user_1/events", &event).await;
    send(&ann).await.refused(503, "not_ready");
    assert_eq!(send(&bob).await.status, 202, "another account has room");
    drop(clients);
    let mut again = send(&ann).await;
    for _ in 0..1_000 {
        if again.status == 202 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = send(&ann).await;
    }
    assert_eq!(again.status, 202, "what nobody sends any more counts no more");
    let objects = app.call(&ann, Method::GET, "/v1/objects", &Value::Null).await.json();
    assert_eq!(objects["objects"].as_array().unwrap().len(), 1, "nothing else was recorded: {objects}");
    app.advance(Duration::from_mins(1));
}
