//! A way to a server that a test can cut, stall and mend.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::TestDatabase;

/// Passes TCP connections on to a server until it is cut, when it drops them, or stalled, when they stay open and nothing more
/// gets through.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<watch::Sender<State>>,
}

/// A proxy to a PostgreSQL database, and the URL that leads through it.
pub async fn through_proxy(database: &TestDatabase) -> (String, Proxy) {
    let mut url: url::Url = database.url().parse().unwrap();
    let target = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap()).parse().unwrap();
    let proxy = Proxy::to(target).await;
    url.set_port(Some(proxy.address().port())).unwrap();
    (url.into(), proxy)
}

#[derive(Clone, Copy)]
struct State {
    /// Whether there is a way to the server.
    is_open: bool,
    /// The number of connections so far.
    connections: u64,
    /// The first connections, up to this number, are stalled.
    stalled: u64,
}

impl Proxy {
    /// Listens on loopback and passes on to `target`.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::Sender::new(State { is_open: true, connections: 0, stalled: 0 }));
        let tasks = TaskTracker::new();
        let own = Arc::clone(&state);
        TaskTracker::new().spawn(async move {
            while let Ok((inbound, _)) = listener.accept().await {
                own.send_modify(|state| state.connections += 1);
                let number = own.borrow().connections;
                tasks.spawn(pass(inbound, target, number, own.subscribe()));
            }
        });
        Self { address, state }
    }

    /// Where clients connect instead of to the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops what is connected; new connections hang until it is mended.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.is_open = false);
    }

    /// Lets nothing more through on what is connected, in either direction and without a word; new connections work.
    pub fn stall(&self) {
        self.state.send_modify(|state| state.stalled = state.connections);
    }

    /// How many connections there have been so far.
    pub fn connections(&self) -> u64 {
        self.state.borrow().connections
    }

    /// Lets everything through again, also what was stalled.
    pub fn mend(&self) {
        self.state.send_modify(|state| {
            state.is_open = true;
            state.stalled = 0;
        });
    }
}

async fn pass(inbound: TcpStream, target: SocketAddr, number: u64, mut state: watch::Receiver<State>) {
    if state.wait_for(|state| state.is_open).await.is_err() {
        return;
    }
    let Ok(outbound) = TcpStream::connect(target).await else { return };
    // As a connection without a proxy would be.
    let _ = (inbound.set_nodelay(true), outbound.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (inbound.into_split(), outbound.into_split());
    let there = copy(from_client, to_server, number, state.clone());
    let back = copy(from_server, to_client, number, state.clone());
    tokio::select! {
        // One that hangs up hangs up on both sides, but not through a stalled proxy.
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| !state.is_open) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: u64,
    mut state: watch::Receiver<State>,
) {
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if state.wait_for(|state| state.stalled < number).await.is_err()
            || length == 0
            || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}
