//! Wakes the workers of this process when another process has queued work.

use std::time::Duration;

use store::{Notification, Store};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::runtime::{Clock, Wakeup};

/// The delay before another attempt to listen.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Listens to notifications of other processes.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Wakes the scheduler.
    pub(crate) scheduler: Wakeup,
    /// Wakes the courier.
    pub(crate) courier: Wakeup,
}

impl Listener {
    /// Listens until `stop` is cancelled. The queues are also polled: without notifications, work that other processes
    /// queued starts a little later.
    pub(crate) async fn run(self, stop: CancellationToken) {
        while let Some(Err(error)) = stop.run_until_cancelled(self.listen()).await {
            warn!(%error, "cannot listen to notifications of other processes");
            if stop.run_until_cancelled(self.clock.sleep(RETRY_AFTER)).await.is_none() {
                return;
            }
        }
    }

    async fn listen(&self) -> store::Result<()> {
        let Some(mut listener) = self.store.listen().await? else { return Ok(()) };
        loop {
            match listener.receive().await? {
                Notification::Jobs(Some(due)) => self.scheduler.wake_by(due),
                Notification::Jobs(None) => self.scheduler.wake(),
                Notification::Deliveries => self.courier.wake(),
                Notification::Unknown => {
                    self.scheduler.wake();
                    self.courier.wake();
                }
            }
        }
    }
}
