use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::lookups::Resolver;
use super::*;

const DEADLINE: Duration = Duration::from_secs(5);

/// A name that resolves differently each time; the last answer repeats.
fn rebinding(answers: &[&[&str]]) -> Lookups {
    let answers: Vec<Vec<IpAddr>> =
        answers.iter().map(|texts| texts.iter().map(|text| text.parse().unwrap()).collect()).collect();
    let lookups = AtomicUsize::new(0);
    let resolver: Resolver = Arc::new(move |_| {
        let index = lookups.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[index].clone();
        Box::pin(async move {
            if answer.is_empty() { Err(std::io::Error::other("no such name")) } else { Ok(answer) }
        })
    });
    Lookups::by(resolver)
}

fn outbound(allow_private: bool, answers: &[&[&str]]) -> Outbound {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Outbound::with_lookups(allow_private, rebinding(answers)).unwrap()
}

/// A receiver that sends each connection one response; returns its port, and the number of connections.
async fn receiver(answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, connections)
}

async fn post(outbound: &Outbound, url: &str) -> std::result::Result<Reply, OutboundError> {
    outbound.post(&url.parse().unwrap(), HeaderMap::new(), "{}", DEADLINE).await
}

#[tokio::test]
async fn every_notation_of_a_private_address_is_refused() {
    let strict = outbound(false, &[&["93.184.215.14"]]);
    let lenient = outbound(true, &[&["93.184.215.14"]]);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "１２７.0.0.1",
        "0",
        "0.0.0.0",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "api.localhost",
        "10.1.2.3",
        "100.64.0.1",
        "169.254.169.254",
        "2852039166",
        "192.168.0.1",
        "224.0.0.1",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let url = format!("http://{host}:81/hook");
        let refused = strict.check(&url).await.unwrap_err();
        assert!(refused.ends_with(", which is not allowed"), "{host}: {refused}");
        let parsed: Url = url.parse().unwrap();
        let posted = strict.post(&parsed, HeaderMap::new(), "{}", DEADLINE).await;
        assert!(matches!(posted, Err(OutboundError::Refused(_))), "{host}: {posted:?}");
        lenient.check(&url).await.unwrap();
    }
}

#[tokio::test]
async fn an_invalid_url_is_refused_even_where_private_addresses_are_allowed() {
    let lenient = outbound(true, &[&[]]);
    let long = format!("https://example.com/{}", "a".repeat(MAX_URL));
    for url in [
        "",
        "example.com",
        "/hook",
        "ftp://example.com",
        "file:///etc/passwd",
        "http://",
        "http://[::1",
        "http://256.1.1.1/",
        "https://ann:secret@example.com/",
        "https://ann@example.com/",
        "https://exa mple.com/",
        long.as_str(),
    ] {
        assert!(lenient.check(url).await.is_err(), "{url}");
    }
}

#[tokio::test]
async fn all_addresses_of_a_name_are_checked() {
    let public = "93.184.215.14";
    for addresses in [&["10.0.0.1"][..], &[public, "127.0.0.1"], &["::1", public], &["::ffff:10.0.0.1"]] {
        let strict = outbound(false, &[addresses]);
        let refused = strict.check("https://hooks.example.com/").await.unwrap_err();
        assert_eq!(refused, "hooks.example.com resolves to a private address, which is not allowed");
    }
    outbound(false, &[&[public]]).check("https://hooks.example.com/").await.unwrap();
    // A name that does not resolve now may resolve later.
    outbound(false, &[&[]]).check("https://hooks.example.com/").await.unwrap();
}

#[tokio::test]
async fn a_name_is_checked_again_when_it_is_called() {
    let (port, connections) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("http://rebind.example.com:{port}/");
    let strict = outbound(false, &[&["93.184.215.14"], &["127.0.0.1"]]);
    strict.check(&url).await.unwrap();
    let OutboundError::Refused(reason) = post(&strict, &url).await.unwrap_err() else { panic!("called") };
    assert_eq!(reason, "rebind.example.com resolves to a private address, which is not allowed");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    // The same address where it is allowed: it was the guard that refused the first request.
    let lenient = outbound(true, &[&["127.0.0.1"]]);
    assert_eq!(post(&lenient, &url).await.unwrap().status, 200);
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (secret_port, connections) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let location = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{secret_port}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, _) = receiver(Box::leak(location.into_boxed_str())).await;
    let reply = post(&outbound(true, &[&[]]), &format!("http://127.0.0.1:{port}/")).await.unwrap();
    assert_eq!(reply.status, 302);
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_start_of_a_response_is_stored_as_text() {
    let answer = "HTTP/1.1 503 Busy\r\nretry-after: 120\r\ncontent-length: 5\r\n\r\nlater";
    let (port, _) = receiver(answer).await;
    let reply = post(&outbound(true, &[&[]]), &format!("http://127.0.0.1:{port}/")).await.unwrap();
    let wait = Some(Duration::from_mins(2));
    assert_eq!(reply, Reply { status: 503, body_start: "later".to_owned(), retry_after: wait });

    let mut cut = "é".repeat(600).into_bytes();
    cut.truncate(STORED_BYTES - 1);
    assert_eq!(storable(cut), "é".repeat(511));
    assert_eq!(storable(b"a\0b".to_vec()), "a\u{fffd}b");
    assert!(storable(vec![0xff; STORED_BYTES]).len() <= STORED_BYTES);
}

#[tokio::test]
async fn a_slow_and_a_missing_response_end_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test's runtime")]
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            if open.is_empty() {
                // The first request gets no response.
                open.push(stream);
                continue;
            }
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
            while stream.write_all(b".").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    let url: Url = format!("http://127.0.0.1:{port}/").parse().unwrap();
    let outbound = outbound(true, &[&[]]);
    for _ in 0..2 {
        let replied = outbound.post(&url, HeaderMap::new(), "{}", Duration::from_millis(200)).await;
        assert_eq!(replied, Err(OutboundError::Timeout));
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_network_error() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let failed = post(&outbound(true, &[&[]]), &format!("http://127.0.0.1:{port}/")).await.unwrap_err();
    assert!(matches!(&failed, OutboundError::Network(why) if why.starts_with("cannot connect")), "{failed}");
}
