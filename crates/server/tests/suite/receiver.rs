//! A receiver of webhooks whose answers a story holds in hand: it speaks HTTP/1.1 by itself, so that it can also do it badly.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use testkit::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What the receiver does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Answers with a status.
    Status(u16),
    /// Answers with a status, a header and a body.
    Say(u16, (&'static str, String), String),
    /// Answers with a status once the gate is opened.
    StatusWhenOpened(u16, Arc<Semaphore>),
    /// Takes the request and never answers.
    Silence,
    /// Answers 200, and then its body byte by byte for ever.
    Drip,
    /// Hangs up without a word.
    HangUp,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) path: String,
    /// Header values by lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A receiver on a port of its own.
pub(crate) struct Receiver {
    address: SocketAddr,
    script: Arc<Script>,
    stop: CancellationToken,
}

struct Script {
    next: Mutex<VecDeque<Answer>>,
    usual: Mutex<Answer>,
    arrived: watch::Sender<Vec<Arrived>>,
    /// Requests under way, and the most that ever were.
    busy: AtomicUsize,
    busiest: AtomicUsize,
}

impl Receiver {
    /// Listens, and takes everything.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            script: Arc::new(Script {
                next: Mutex::default(),
                usual: Mutex::new(Answer::Status(200)),
                arrived: watch::channel(Vec::new()).0,
                busy: AtomicUsize::new(0),
                busiest: AtomicUsize::new(0),
            }),
            stop: CancellationToken::new(),
        };
        let (script, stop, tasks) = (Arc::clone(&receiver.script), receiver.stop.clone(), TaskTracker::new());
        tasks.clone().spawn(async move {
            while let Some(Ok((stream, _))) = stop.run_until_cancelled(listener.accept()).await {
                let (script, stop) = (Arc::clone(&script), stop.clone());
                tasks.spawn(async move {
                    // A peer that goes away ends its connection, and nothing else.
                    let _ = stop.run_until_cancelled(converse(stream, &script)).await;
                });
            }
        });
        receiver
    }

    /// An address of this receiver.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Decides about one more request.
    pub(crate) fn then(&self, answer: Answer) {
        self.script.next.lock().unwrap().push_back(answer);
    }

    /// Decides about all requests that nothing else was decided about.
    pub(crate) fn always(&self, answer: Answer) {
        *self.script.usual.lock().unwrap() = answer;
    }

    /// Holds all further requests back until the gate has a permit for each.
    pub(crate) fn hold(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.always(Answer::StatusWhenOpened(200, Arc::clone(&gate)));
        gate
    }

    /// Holds one more request back: it is answered with a status once the gate has a permit.
    pub(crate) fn hold_one(&self, status: u16) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.then(Answer::StatusWhenOpened(status, Arc::clone(&gate)));
        gate
    }

    /// What has arrived so far.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.script.arrived.borrow().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.script.arrived.borrow().len()
    }

    /// The most requests that were ever under way at once.
    pub(crate) fn busiest(&self) -> usize {
        self.script.busiest.load(Ordering::SeqCst)
    }

    /// Waits until this many requests have arrived, and not more; returns the last.
    #[track_caller]
    pub(crate) fn got(&self, times: usize) -> impl Future<Output = Arrived> {
        let caller = std::panic::Location::caller();
        let mut arrived = self.script.arrived.subscribe();
        async move {
            let waited = tokio::time::timeout(PATIENCE, arrived.wait_for(|all| all.len() >= times));
            let reached = waited.await.is_ok();
            let all = arrived.borrow().clone();
            assert!(reached && all.len() == times, "{caller}: {} deliveries arrived, not {times}", all.len());
            all.last().expect("a delivery").clone()
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Serves one connection for as long as both sides like.
async fn converse(stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let busy = script.busy.fetch_add(1, Ordering::SeqCst) + 1;
        script.busiest.fetch_max(busy, Ordering::SeqCst);
        let answer = script.next.lock().unwrap().pop_front();
        let answer = answer.unwrap_or_else(|| script.usual.lock().unwrap().clone());
        script.arrived.send_modify(|all| all.push(request));
        let goes_on = reply(&mut stream, answer).await;
        script.busy.fetch_sub(1, Ordering::SeqCst);
        if !goes_on? {
            break;
        }
    }
    Ok(())
}

async fn reply(stream: &mut BufReader<TcpStream>, answer: Answer) -> std::io::Result<bool> {
    let (status, header, body) = match answer {
        Answer::Status(status) => (status, ("x-none", String::new()), String::new()),
        Answer::Say(status, header, body) => (status, header, body),
        Answer::StatusWhenOpened(status, gate) => {
            gate.acquire().await.expect("the gate stays").forget();
            (status, ("x-none", String::new()), String::new())
        }
        Answer::HangUp => return Ok(false),
        // Until the caller hangs up.
        Answer::Silence => {
            stream.read_u8().await?;
            return Ok(false);
        }
        Answer::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await?;
            loop {
                stream.write_all(b".").await?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    let (name, value) = header;
    let head = format!("HTTP/1.1 {status} Said\r\n{name}: {value}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    Ok(true)
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Arrived>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    assert!(line.starts_with("POST ") && line.ends_with(" HTTP/1.1\r\n"), "{line}");
    let path = line.split(' ').nth(1).unwrap().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Arrived { path, headers, body: String::from_utf8(body).unwrap() }))
}
