//! A handle to the courier of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{TenantId, Timestamp};
use store::Conn;
use store::actions::webhooks::{endpoints, queue};
use uuid::Uuid;

use crate::actions::webhooks::board::Board;
use crate::runtime::{Result, Wakeup};

/// Wakes the courier of this process and, through the database, those of other processes. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CourierHandle {
    pub(super) board: Arc<Board>,
    pub(crate) wakeup: Wakeup,
    sends_here: Arc<AtomicBool>,
}

impl CourierHandle {
    /// Marks that this process sends deliveries.
    pub(crate) fn mark_sending_here(&self) {
        self.sends_here.store(true, Ordering::Relaxed);
    }

    /// Wakes the courier of this process.
    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Releases the claimed deliveries of an endpoint that was edited or deleted, except those in flight.
    pub(crate) fn recall(&self, endpoint: Uuid, version: i64) {
        self.board.recall(endpoint, version);
        self.wake();
    }

    /// Wakes a resting endpoint, and makes a delivery due to probe its receiver with.
    pub(crate) async fn probe(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        endpoint: Uuid,
        now: Timestamp,
    ) -> Result<()> {
        if endpoints::end_rest(conn, tenant, endpoint, now).await? {
            queue::make_first_due(conn, tenant, endpoint, now).await?;
        }
        self.notify_others(conn).await
    }

    /// Notifies the couriers of other processes, unless this process sends deliveries itself: a notification makes commits
    /// on PostgreSQL wait for each other.
    pub(crate) async fn notify_others(&self, conn: &mut Conn) -> Result<()> {
        if !self.sends_here.load(Ordering::Relaxed) {
            queue::notify(conn).await?;
        }
        Ok(())
    }
}
