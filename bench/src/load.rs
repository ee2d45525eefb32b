//! Generates HTTP load over many connections, as cheaply as possible, because it shares the machine with the service.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The next number. It is never reset, because a number that was sent before would only be a replay.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// How many values `{m}` can have.
const FEW: u64 = 500;

/// The request that every connection repeats; `{n}` in its path is replaced by a unique number, `{m}` by one of 500.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) address: String,
    pub(crate) path: String,
    pub(crate) token: String,
    pub(crate) body: String,
    pub(crate) expected: u16,
    /// When each number was sent, if that is of interest.
    pub(crate) sent: Option<Arc<Mutex<HashMap<u64, Instant>>>>,
}

impl Load {
    /// How many requests were sent.
    pub(crate) fn sent_count(&self) -> usize {
        self.sent.as_ref().map_or(0, |sent| lock(sent).len())
    }

    /// From sending each request until something about its number arrived.
    pub(crate) fn took_until(&self, arrivals: &HashMap<u64, Instant>) -> Vec<Duration> {
        let Some(sent) = &self.sent else { return Vec::new() };
        let sent = lock(sent);
        sent.iter().filter_map(|(number, sent)| Some(arrivals.get(number)?.duration_since(*sent))).collect()
    }
}

fn lock(sent: &Mutex<HashMap<u64, Instant>>) -> MutexGuard<'_, HashMap<u64, Instant>> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends one request on a connection of its own.
pub(crate) async fn once(load: &Load) -> Result<(), Box<dyn Error>> {
    let mut stream = open(load).await?;
    send(load, &mut stream).await?;
    Ok(())
}

/// Sends as fast as possible over this many connections, and returns responses per second.
pub(crate) async fn run(load: &Load, connections: usize, duration: Duration) -> Result<f64, Box<dyn Error>> {
    let answered = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + duration;
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (load, answered) = (load.clone(), Arc::clone(&answered));
        tasks
            .spawn(async move { send_until(&load, end, &answered).await.map_err(|error| error.to_string()) });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let answered = answered.load(Ordering::Relaxed) as f64;
    Ok(answered / duration.as_secs_f64())
}

/// Sends at a steady rate over this many connections, and returns the latency of each response from the time its request
/// was due: a service that falls behind does not slow the rate.
pub(crate) async fn steady(
    load: &Load,
    connections: u32,
    per_second: u32,
    duration: Duration,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let load = load.clone();
        tasks.spawn(async move {
            let gap = Duration::from_secs(1) * connections / per_second;
            let mut due = begun + gap * connection / connections;
            let mut took = Vec::new();
            let mut stream = open(&load).await?;
            while due < begun + duration {
                let from = on_time(due).await;
                send(&load, &mut stream).await.map_err(|error| error.to_string())?;
                took.push(from.elapsed());
                due += gap;
            }
            Ok::<_, String>(took)
        });
    }
    let mut took = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        took.extend(outcome??);
    }
    took.sort();
    Ok(took)
}

/// How late a timer may fire: timers have millisecond resolution.
const TIMER: Duration = Duration::from_millis(2);

/// Waits until a request is due, and returns the time to measure from: a late sender does not slow the rate, but a timer
/// that fires a little late does not count against the service.
pub(crate) async fn on_time(due: Instant) -> Instant {
    if Instant::now() >= due {
        return due;
    }
    tokio::time::sleep_until(due.into()).await;
    Instant::now().min(due + TIMER)
}

async fn open(load: &Load) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(&load.address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

async fn send_until(load: &Load, end: Instant, answered: &AtomicU64) -> Result<(), Box<dyn Error>> {
    let mut stream = open(load).await?;
    while Instant::now() < end {
        send(load, &mut stream).await?;
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Sends one request and reads its response.
async fn send(load: &Load, stream: &mut TcpStream) -> Result<String, Box<dyn Error>> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = load.path.replace("{n}", &number.to_string()).replace("{m}", &(number % FEW).to_string());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\nidempotency-key: {number}\r\ncontent-length: {}\r\n\r\n{}",
        load.token,
        load.body.len(),
        load.body
    );
    if let Some(sent) = &load.sent {
        lock(sent).insert(number, Instant::now());
    }
    stream.write_all(request.as_bytes()).await?;
    let response = read_response(stream, &mut vec![0; 4 * 1024]).await?;
    if response.starts_with(&format!("HTTP/1.1 {}", load.expected)) {
        Ok(response)
    } else {
        Err(format!("expected {}: {response}", load.expected).into())
    }
}

/// Reads one response with its body, which has a length: no response is chunked.
pub(crate) async fn read_response(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> Result<String, Box<dyn Error>> {
    let mut filled = 0;
    let mut whole = None;
    while whole.is_none_or(|whole| filled < whole) {
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            return Err("the service closed the connection".into());
        }
        filled += read;
        whole = whole.or_else(|| length(&buffer[..filled]));
    }
    Ok(std::str::from_utf8(&buffer[..filled])?.to_owned())
}

/// The length of a response, once its head has arrived.
fn length(response: &[u8]) -> Option<usize> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&response[..end]).ok()?;
    let length =
        |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok();
    Some(end + head.lines().find_map(length).unwrap_or(0))
}
