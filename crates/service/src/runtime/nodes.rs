//! Heartbeats: every process renews a row in the database, counts the rows of all live processes, compares its clock with the
//! database's, and finds out whether a newer binary has migrated the schema away from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use store::runtime::nodes;
use store::{Conn, Store};
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use uuid::Uuid;

use crate::runtime::clock::DatabaseReading;
use crate::runtime::{Clock, Random, Result};

/// How often a node renews its heartbeat.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a heartbeat is valid: a node may miss two before it counts as gone.
pub const HEARTBEAT_LIFETIME: Duration = Duration::from_secs(15);
/// How long the row of a node that crashed is kept, so that an operator can still see it.
const ROW_RETENTION: Duration = Duration::from_hours(1);

/// A host's clock that is further off than this is worth a warning, though nothing goes by it.
const TOLERATED_OFFSET_S: f64 = 2.0;

/// The live nodes of a deployment, as one of them sees it. Cheap to clone; clones are the same node.
#[derive(Clone)]
pub struct Nodes {
    store: Store,
    clock: Clock,
    id: Uuid,
    live: Arc<AtomicUsize>,
    /// Whether the host's clock was off at the last heartbeat.
    is_off: Arc<AtomicBool>,
    /// Why this binary cannot work with the schema any more.
    outgrown: Arc<SetOnce<String>>,
}

impl Nodes {
    /// A node that has not sent a heartbeat yet, and counts only itself.
    pub fn new(store: Store, clock: Clock, random: &Random) -> Self {
        let id = random.id(clock.now());
        let outgrown = Arc::new(SetOnce::new());
        Self { store, clock, id, live: Arc::new(AtomicUsize::new(1)), is_off: Arc::default(), outgrown }
    }

    /// Why this binary cannot work with the schema any more; none while it can.
    pub fn outgrown(&self) -> Option<&str> {
        self.outgrown.get().map(String::as_str)
    }

    /// Waits until this binary cannot work with the schema any more, and says why.
    pub async fn wait_until_outgrown(&self) -> &str {
        self.outgrown.wait().await
    }

    /// The number of live nodes at the last heartbeat, including this one.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Compares the clocks, looks at the schema, renews this node's heartbeat and counts the live nodes.
    pub async fn beat(&self) -> Result<()> {
        let compared = self.compare_clocks().await;
        let now = self.clock.now();
        self.look_at_the_schema().await?;
        let live = self
            .store
            .write("heartbeat", async |conn: &mut Conn| {
                nodes::beat(conn, self.id, now).await?;
                nodes::sweep(conn, now - ROW_RETENTION).await?;
                nodes::seen_after(conn, now - HEARTBEAT_LIFETIME).await
            })
            .await?;
        self.live.store(usize::try_from(live).unwrap_or(1).max(1), Ordering::Relaxed);
        compared
    }

    /// Finds out whether the schema still carries this binary, before it writes anything there.
    async fn look_at_the_schema(&self) -> Result<()> {
        let refusal = async |conn: &mut Conn| nodes::schema_refusal(conn).await;
        // The name of the heartbeat's other read: each name is a few lines on the metrics page.
        if let Some(reason) = self.store.read("clock", refusal).await?
            && self.outgrown.set(reason.clone()).is_ok()
        {
            error!("{reason}; this process takes no more work");
        }
        Ok(())
    }

    async fn compare_clocks(&self) -> Result<()> {
        let reading = read_database_clock(&self.store, &self.clock).await?;
        let ahead_us = match reading.filter(|_| self.clock.follows_databases()) {
            Some(reading) => {
                self.clock.compare_with_database(reading);
                self.clock.host_ahead_of(reading)
            }
            None => self.clock.compare_with_host(),
        };
        let ahead_s = seconds(ahead_us);
        metrics::gauge!("auspex_clock_offset_seconds").set(ahead_s);
        let is_off = ahead_s.abs() > TOLERATED_OFFSET_S;
        if is_off && !self.is_off.swap(is_off, Ordering::Relaxed) {
            warn!(ahead_s, "this host's clock is wrong; the service does not go by it");
        }
        self.is_off.store(is_off, Ordering::Relaxed);
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

/// Sets a clock by that of the database, before anything is done by it. Nothing happens on SQLite.
pub async fn start_clock(store: &Store, clock: &Clock) -> Result<()> {
    let reading = read_database_clock(store, clock).await?;
    if let Some(reading) = reading.filter(|_| clock.follows_databases()) {
        clock.start_by(reading);
    }
    Ok(())
}

/// How many seconds this host's clock is ahead of the database's. None on SQLite, which has no clock of its own.
pub async fn clock_offset_s(store: &Store, clock: &Clock) -> Result<Option<f64>> {
    let reading = read_database_clock(store, clock).await?;
    Ok(reading.map(|reading| seconds(clock.host_ahead_of(reading))))
}

async fn read_database_clock(store: &Store, clock: &Clock) -> Result<Option<DatabaseReading>> {
    store
        .read("clock", async |conn: &mut Conn| {
            let asked = clock.moment();
            let shown = nodes::clock(conn).await?;
            Ok(shown.map(|shown| DatabaseReading { asked, shown, answered: clock.moment() }))
        })
        .await
}

#[expect(clippy::cast_precision_loss, reason = "microsecond precision is lost only over centuries")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}
