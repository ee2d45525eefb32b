//! Reads every few seconds what is due next in each queue, and wakes the worker concerned: what another process has queued without
//! a notification, or with one that was lost, and what it has left behind.

use std::time::Duration;

use store::upkeep::next_due::next_due;
use store::{Conn, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::{Clock, Result, Wakeup};

/// How late work of other processes may start, if nothing has told this one of it.
pub const INTERVAL: Duration = store::BACKSTOP_INTERVAL;

/// Wakes the workers for due work that they may not know of.
#[derive(Clone)]
pub(crate) struct Backstop {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) scheduler: Wakeup,
    pub(crate) courier: Wakeup,
    pub(crate) mailer: Wakeup,
    pub(crate) chat: Wakeup,
    pub(crate) trials: Wakeup,
    pub(crate) feeder: Wakeup,
}

impl Backstop {
    pub(crate) async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.clock.sleep(INTERVAL)).await.is_some() {
            if let Some(Err(error)) = stop.run_until_cancelled(self.wake_workers()).await {
                warn!(cause = error.cause(), "cannot read what is due: {error}");
            }
        }
    }

    async fn wake_workers(&self) -> Result<()> {
        let next = self.store.read("next_due", async |conn: &mut Conn| next_due(conn).await).await?;
        // What is due later is read again before: most of it are leases of running work, which do not expire.
        let soon = self.clock.now() + 2 * INTERVAL;
        for (due, worker) in [
            (next.jobs, &self.scheduler),
            (next.deliveries, &self.courier),
            (next.mails, &self.mailer),
            (next.chats, &self.chat),
            (next.trials, &self.trials),
            (next.bulk_runs, &self.feeder),
        ] {
            if let Some(due) = due.filter(|due| *due <= soon) {
                worker.wake_by(due);
            }
        }
        Ok(())
    }
}
