//! The way from one node to its database: it can be slow, cut or silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::Result;
use crate::plan::Weather;

/// Passes connections on as long as the weather is fair.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    weather: Arc<watch::Sender<Weather>>,
}

impl Proxy {
    /// Listens on loopback and passes on to `target`.
    pub(crate) async fn to(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let weather = Arc::new(watch::Sender::new(Weather::Fair));
        let (tasks, forecast) = (TaskTracker::new(), Arc::clone(&weather));
        TaskTracker::new().spawn(async move {
            let mut number = 0;
            while let Ok((inbound, _)) = listener.accept().await {
                number += 1;
                tasks.spawn(pass(inbound, target, forecast.subscribe(), number));
            }
        });
        Ok(Self { address, weather })
    }

    /// Changes the weather for connections that are open and for new ones.
    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

/// Passes one connection on until either side or the weather ends it.
async fn pass(inbound: TcpStream, target: SocketAddr, mut weather: watch::Receiver<Weather>, number: u64) {
    if clear(&mut weather, number).await.is_none() {
        return;
    }
    let Ok(outbound) = TcpStream::connect(target).await else { return };
    let _ = (inbound.set_nodelay(true), outbound.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (inbound.into_split(), outbound.into_split());
    let mut cut = weather.clone();
    tokio::select! {
        () = pump(from_client, to_server, weather.clone(), number) => {}
        () = pump(from_server, to_client, weather, number) => {}
        _ = cut.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    number: u64,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let Some(delay) = clear(&mut weather, number).await else { return };
        tokio::time::sleep(delay).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits while this connection is stalled, and returns its delay; none if it is cut.
async fn clear(weather: &mut watch::Receiver<Weather>, number: u64) -> Option<Duration> {
    // Neighbours in number must not share their fate.
    let lot = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100;
    let passes = |weather: &Weather| !matches!(weather, Weather::Stall(share) if lot < *share);
    match *weather.wait_for(passes).await.ok()? {
        Weather::Cut => None,
        Weather::Delay(delay) => Some(delay),
        Weather::Fair | Weather::Stall(_) => Some(Duration::ZERO),
    }
}
