//! A server on loopback that can misbehave: the analyzer and the receivers of webhooks.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::Result;

/// How long a silent server keeps a connection.
const SILENCE: Duration = Duration::from_mins(1);
/// The time between two bytes of a dripping response.
const DRIP: Duration = Duration::from_millis(400);

/// How a server behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As it should.
    #[default]
    Honest,
    /// 500.
    Fail,
    /// 429 with `Retry-After: 1`.
    Throttle,
    /// No response.
    Hang,
    /// A response byte by byte, too slow for every deadline.
    Drip,
    /// The connection ends instead of a response.
    Cut,
    /// Bytes that are no HTTP.
    Garbage,
    /// A response of the right form with impossible contents.
    Lie,
    /// 410, for good.
    Gone,
}

impl fmt::Display for Manner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Honest => "good manners",
            Self::Fail => "errors",
            Self::Throttle => "rate limits",
            Self::Hang => "silence",
            Self::Drip => "drips",
            Self::Cut => "cut connections",
            Self::Garbage => "garbage",
            Self::Lie => "lies",
            Self::Gone => "gone",
        })
    }
}

/// A request as it arrived.
pub(crate) struct Request {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// What a server does for one request: how it behaves, and the body of a good response.
pub(crate) type Handler = dyn Fn(&Request) -> (Manner, String) + Send + Sync;

/// Starts a server, and returns its address. It ends with the runtime.
pub(crate) async fn serve(handler: Arc<Handler>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let tasks = TaskTracker::new();
    TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handler = Arc::clone(&handler);
            tasks.spawn(async move {
                // A connection that breaks is the other side's affair.
                let _ = converse(stream, &handler).await;
            });
        }
    });
    Ok(address)
}

async fn converse(stream: TcpStream, handler: &Arc<Handler>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let (manner, body) = handler(&request);
        let answer = |status: &str, more: &str, body: &str| {
            format!("HTTP/1.1 {status}\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
        };
        let response = match manner {
            Manner::Honest | Manner::Lie => answer("200 OK", "content-type: application/json\r\n", &body),
            Manner::Fail => answer("500 Internal Server Error", "", "broken"),
            Manner::Throttle => answer("429 Too Many Requests", "retry-after: 1\r\n", "later"),
            Manner::Gone => answer("410 Gone", "", "gone"),
            Manner::Cut => return Ok(()),
            Manner::Garbage => {
                stream.write_all(b"\x16\x03\x01 this is no HTTP \xff\xfe\r\n\r\n").await?;
                return Ok(());
            }
            Manner::Hang => {
                // Until the other side has had enough.
                let _ = tokio::time::timeout(SILENCE, stream.read(&mut [0; 64])).await;
                return Ok(());
            }
            Manner::Drip => {
                for byte in answer("200 OK", "content-type: application/json\r\n", &body).bytes() {
                    stream.write_all(&[byte]).await?;
                    tokio::time::sleep(DRIP).await;
                }
                return Ok(());
            }
        };
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut headers = HeaderMap::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value.trim())) {
            headers.insert(name, value);
        }
    }
    let length = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { headers, body }))
}
