//! Heartbeats: every process renews a row in the database, and counts the rows of all live processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use store::runtime::nodes;
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use crate::runtime::{Clock, Random, Result};

/// How often a node renews its heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a heartbeat is valid: a node may miss two before it counts as gone.
const HEARTBEAT_LIFETIME: Duration = Duration::from_secs(15);
/// How long the row of a node that crashed is kept, so that an operator can still see it.
const ROW_RETENTION: Duration = Duration::from_hours(1);

/// The live nodes of a deployment, as live by one of them. Cheap to clone; clones are the same node.
#[derive(Clone)]
pub struct Nodes {
    store: Store,
    clock: Clock,
    id: Uuid,
    live: Arc<AtomicUsize>,
}

impl Nodes {
    /// A node that has not sent a heartbeat yet, and counts only itself.
    pub fn new(store: Store, clock: Clock, random: &Random) -> Self {
        let id = random.id(clock.now());
        Self { store, clock, id, live: Arc::new(AtomicUsize::new(1)) }
    }

    /// The number of live nodes at the last heartbeat, including this one.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Renews this node's heartbeat and counts the live nodes.
    pub async fn beat(&self) -> Result<()> {
        let now = self.clock.now();
        let live = self
            .store
            .write("heartbeat", async |conn: &mut Conn| {
                nodes::beat(conn, self.id, now).await?;
                nodes::sweep(conn, now - ROW_RETENTION).await?;
                nodes::seen_after(conn, now - HEARTBEAT_LIFETIME).await
            })
            .await?;
        self.live.store(usize::try_from(live).unwrap_or(1).max(1), Ordering::Relaxed);
        Ok(())
    }

    /// Renews the heartbeat until `stop` is cancelled, then removes it so that other nodes stop counting this one at once.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            // Counted from the start of a heartbeat, so that a slow one does not delay the next.
            let next = self.clock.now() + HEARTBEAT_INTERVAL;
            if let Err(error) = self.beat().await {
                warn!(cause = error.cause(), "cannot renew the heartbeat: {error}");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.clock.sleep_until(next) => {}
            }
        }
        let removed =
            self.store.write("leave", async |conn: &mut Conn| nodes::remove(conn, self.id).await).await;
        if let Err(error) = removed {
            warn!(%error, "cannot remove the heartbeat; it expires within 15 seconds");
        }
    }
}
