//! Connections over real sockets, with limits that are short enough for a test.

use std::convert::Infallible;

use axum::body::Body;
use axum::routing::get;
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// How long a test waits for what must happen: much longer than it takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Long enough for a busy machine to read a request, which it must within this time.
const IDLE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET /` as the first stream of a connection, compressed by hand.
const HTTP2_REQUEST: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x";
const HTTP2_PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0auspex!!";

struct Listening {
    connections: Connections,
    address: SocketAddr,
}

/// `/` answers at once, `/slow` after several idle limits, `/endless` with more than fits into any buffer.
async fn listen(per_address: usize, trusted_proxies: &str, idle: Duration) -> Listening {
    let slow = || async {
        tokio::time::sleep(IDLE * 2).await;
        "slow"
    };
    let router = Router::new().route("/", get(|| async { "fast" })).route("/slow", get(slow)).route(
        "/endless",
        get(|| async { Body::from_stream(stream::repeat(Ok::<_, Infallible>(vec![b'x'; 1 << 16]))) }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let trusted_proxies = trusted_proxies.parse().unwrap();
    let limits = ConnectionLimits { total: 100, per_address, trusted_proxies, idle };
    Listening { connections: Connections::accept(listener, router, limits, Health::default()), address }
}

impl Listening {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until no connection is left.
    async fn are_all_gone(&self) {
        let gone = async {
            // One task accepts.
            while self.connections.tasks.len() > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("a connection stays for ever");
    }
}

/// Reads until the server closes the connection, and returns everything.
async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A server that closes while something is unread resets the connection, which ends it too.
    let _ = read.expect("the server closes the connection");
    bytes
}

#[tokio::test]
async fn a_connection_without_a_whole_head_is_ended() {
    let listening = listen(10, "", IDLE).await;
    for sent in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nhost: te", PREFACE] {
        let mut stream = listening.connect().await;
        stream.write_all(sent).await.unwrap();
        read_to_end(&mut stream).await;
    }
    listening.are_all_gone().await;
}

#[tokio::test]
async fn a_head_that_drips_is_ended_all_the_same() {
    let listening = listen(10, "", IDLE).await;
    let (mut reader, mut writer) = listening.connect().await.into_split();
    let drip = async {
        writer.write_all(b"GET / HTTP/1.1\r\nx: ").await?;
        loop {
            writer.write_all(b"x").await?;
            tokio::time::sleep(IDLE / 40).await;
        }
    };
    let mut bytes = Vec::new();
    tokio::select! {
        ended = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut bytes)) => {
            let _ = ended.expect("it is ended");
        }
        // What is written to a closed connection fails sooner or later.
        error = drip => { let _: std::io::Result<Infallible> = error; }
    }
    listening.are_all_gone().await;
}

#[tokio::test]
async fn an_idle_connection_is_ended_after_its_request_in_both_protocols() {
    let listening = listen(10, "", IDLE).await;
    let mut stream = listening.connect().await;
    stream.write_all(REQUEST).await.unwrap();
    let said = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("fast"), "{said}");

    // Pings keep an HTTP/2 connection alive, but not in use.
    let (mut reader, mut writer) = listening.connect().await.into_split();
    writer.write_all(&[PREFACE, HTTP2_REQUEST].concat()).await.unwrap();
    let pinging = async {
        while writer.write_all(HTTP2_PING).await.is_ok() {
            tokio::time::sleep(IDLE / 40).await;
        }
        std::future::pending::<()>().await;
    };
    let mut bytes = Vec::new();
    tokio::select! {
        ended = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut bytes)) => {
            let _ = ended.expect("it is ended");
        }
        () = pinging => {}
    }
    assert!(bytes.windows(4).any(|window| window == b"fast"), "{bytes:?}");
    listening.are_all_gone().await;
}

#[tokio::test]
async fn a_request_that_takes_longer_than_the_idle_limit_is_answered() {
    let listening = listen(10, "", IDLE).await;
    let mut stream = listening.connect().await;
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let said = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(said.ends_with("slow"), "{said}");
    listening.are_all_gone().await;
}

#[tokio::test]
async fn a_client_that_does_not_take_its_response_is_ended() {
    let listening = listen(10, "", IDLE).await;
    let mut stream = listening.connect().await;
    stream.write_all(b"GET /endless HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    stream.read_exact(&mut [0; 1_000]).await.expect("the response begins");
    listening.are_all_gone().await;
}

#[tokio::test]
async fn an_address_has_a_limited_number_of_connections_unless_it_is_a_trusted_proxy() {
    let listening = listen(3, "", PATIENCE).await;
    let answer = async |stream: &mut TcpStream| {
        let mut said = [0; 12];
        let written = stream.write_all(REQUEST).await.is_ok();
        written && stream.read_exact(&mut said).await.is_ok() && said.starts_with(b"HTTP/1.1 200")
    };
    let mut admitted = Vec::new();
    for _ in 0..3 {
        let mut stream = listening.connect().await;
        assert!(answer(&mut stream).await);
        admitted.push(stream);
    }
    assert!(!answer(&mut listening.connect().await).await, "a fourth is refused");
    drop(admitted);
    listening.are_all_gone().await;
    assert!(answer(&mut listening.connect().await).await, "there is room again");

    let behind_proxy = listen(3, "127.0.0.0/8", PATIENCE).await;
    let mut streams = Vec::new();
    for _ in 0..9 {
        let mut stream = behind_proxy.connect().await;
        assert!(answer(&mut stream).await);
        streams.push(stream);
    }
}
