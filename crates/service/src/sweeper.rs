//! Takes away what has run out: sessions, reset links, throttles. Late is harmless, since every reader checks the time.

use std::time::Duration;

use store::{Conn, Store, sessions};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Clock, Result, Throttle};

const SWEEP_EVERY: Duration = Duration::from_mins(10);

pub(crate) struct Sweeper {
    store: Store,
    clock: Clock,
    throttle: Throttle,
}

impl Sweeper {
    pub(crate) fn new(store: Store, clock: Clock, throttle: Throttle) -> Self {
        Self { store, clock, throttle }
    }

    pub(crate) async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.clock.sleep(SWEEP_EVERY)).await.is_some() {
            if let Err(error) = self.sweep().await {
                warn!(cause = error.cause(), "cannot sweep: {error}");
            }
        }
    }

    async fn sweep(&self) -> Result<()> {
        let now = self.clock.now();
        self.store.write("sweep_sessions", async |conn: &mut Conn| sessions::sweep(conn, now).await).await?;
        self.throttle.sweep().await?;
        Ok(())
    }
}
