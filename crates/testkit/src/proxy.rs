//! A way to a server that a test can cut and mend.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Passes TCP connections on to a server until it is cut; then it drops them, and new ones hang until it is mended.
pub struct Proxy {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    /// Listens on loopback and passes on to `target`.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(watch::Sender::new(true));
        let tasks = TaskTracker::new();
        let gate = Arc::clone(&open);
        TaskTracker::new().spawn(async move {
            while let Ok((inbound, _)) = listener.accept().await {
                tasks.spawn(pass(inbound, target, gate.subscribe()));
            }
        });
        Self { address, open }
    }

    /// Where clients connect instead of to the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops what is connected, and lets nothing through.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut inbound: TcpStream, target: SocketAddr, mut open: watch::Receiver<bool>) {
    if open.wait_for(|open| *open).await.is_err() {
        return;
    }
    let Ok(mut outbound) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound) => {}
        _ = open.wait_for(|open| !*open) => {}
    }
}
