//! How others reach the courier of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::{TenantId, Timestamp};
use store::Conn;
use store::actions::webhooks::{endpoints, queue};
use uuid::Uuid;

use crate::actions::webhooks::board::Board;
use crate::runtime::{Result, Wakeup};

/// Reaches the courier of this process, and through the database those of others. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CourierHandle {
    pub(super) board: Arc<Board>,
    pub(crate) wakeup: Wakeup,
    sends_here: Arc<AtomicBool>,
}

impl CourierHandle {
    /// Notes that this process sends deliveries.
    pub(crate) fn sends_here(&self) {
        self.sends_here.store(true, Ordering::Relaxed);
    }

    /// Tells the courier that there is something to send.
    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Takes back what was claimed for an endpoint that was edited or deleted, and is not being sent yet.
    pub(crate) fn recall(&self, endpoint: Uuid, version: Timestamp) {
        self.board.recall(endpoint, version);
        self.wake();
    }

    /// Ends the rest of an endpoint, if it has one, and makes sure that there is something to try its receiver with.
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
        self.tell_others(conn).await
    }

    /// Notifies the couriers of other processes, unless this process sends deliveries itself: a notification makes commits
    /// on PostgreSQL wait for each other.
    pub(crate) async fn tell_others(&self, conn: &mut Conn) -> Result<()> {
        if !self.sends_here.load(Ordering::Relaxed) {
            queue::notify(conn).await?;
        }
        Ok(())
    }
}
