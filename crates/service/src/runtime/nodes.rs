//! Who else is there: every process leaves a sign of life, and counts the others'.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use store::runtime::nodes;
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use crate::runtime::{Clock, Random, Result};

/// How often a node is heard of.
const BEAT: Duration = Duration::from_secs(5);
/// A node counts as alive for so long after it was last heard of: two beats may get lost.
const LIVE: Duration = Duration::from_secs(15);
/// Rows of nodes that ended without a word go after this; until then they tell an operator what was there.
const FORGET: Duration = Duration::from_hours(1);

/// The processes that share one database, as seen by one of them. Cheap to clone; clones are the same node.
#[derive(Clone)]
pub struct Nodes {
    store: Store,
    clock: Clock,
    id: Uuid,
    live: Arc<AtomicUsize>,
}

impl Nodes {
    /// A node that has not been heard of yet, and knows of no other.
    pub fn new(store: Store, clock: Clock, random: &Random) -> Self {
        let id = random.id(clock.now());
        Self { store, clock, id, live: Arc::new(AtomicUsize::new(1)) }
    }

    /// How many nodes were alive at the last beat, this one included.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Gives a sign of life and counts those of the others.
    pub async fn beat(&self) -> Result<()> {
        let now = self.clock.now();
        let seen = self
            .store
            .write("heartbeat", async |conn: &mut Conn| {
                nodes::beat(conn, self.id, now).await?;
                nodes::sweep(conn, now - FORGET).await?;
                nodes::seen_after(conn, now - LIVE).await
            })
            .await?;
        self.live.store(usize::try_from(seen).unwrap_or(1).max(1), Ordering::Relaxed);
        Ok(())
    }

    /// Beats until it is told to stop, then takes its leave, so that the others need not wait to miss it.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            // Counted from the start of a beat: one that takes long makes the next no later.
            let next = self.clock.now() + BEAT;
            if let Err(error) = self.beat().await {
                warn!(cause = error.cause(), "no sign of life given: {error}");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.clock.sleep_until(next) => {}
            }
        }
        let left =
            self.store.write("leave", async |conn: &mut Conn| nodes::remove(conn, self.id).await).await;
        if let Err(error) = left {
            warn!(%error, "left without a word; the others will miss this node within seconds");
        }
    }
}
