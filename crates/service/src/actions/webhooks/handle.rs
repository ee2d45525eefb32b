//! A handle to the courier of this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::{TenantId, Timestamp};
use store::actions::webhooks::deliveries::NewDelivery;
use store::actions::webhooks::endpoints::Endpoint;
use store::actions::webhooks::{endpoints, queue};
use store::{Conn, Lease};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::actions::webhooks::attempt::ClaimedDelivery;
use crate::actions::webhooks::board::{Board, Reservation};
use crate::runtime::{Random, Result, Wakeup};

/// How long a claimed delivery may wait in this process before it is sent. A lease lasts this much longer than an attempt.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Wakes the courier of this process and, through the database, those of other processes; and hands it deliveries that are born
/// leased. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CourierHandle {
    pub(super) board: Arc<Board>,
    pub(crate) wakeup: Wakeup,
    sends_here: Arc<AtomicBool>,
    handed: Arc<Handed>,
    /// How long a delivery is leased.
    lease: Duration,
}

/// Deliveries that were handed over, and not taken yet.
#[derive(Default)]
struct Handed {
    waiting: Mutex<Vec<HandedDelivery>>,
    arrived: Notify,
}

/// A delivery that is born leased, with its room in the lane of its endpoint.
pub(crate) struct HandedDelivery {
    pub(super) delivery: ClaimedDelivery,
    _room: Reservation,
}

impl CourierHandle {
    /// A handle to a courier whose attempts have this deadline.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            board: Arc::default(),
            wakeup: Wakeup::default(),
            sends_here: Arc::default(),
            handed: Arc::default(),
            lease: timeout + MAX_WAIT,
        }
    }

    /// A lease that begins now.
    pub(super) fn lease(&self, random: &Random, now: Timestamp) -> Lease {
        Lease { token: random.id(now), until: now + self.lease }
    }

    /// Lets a delivery that is about to be written be born leased, if this process will send it at once. It is to be handed
    /// over after the commit.
    pub(crate) fn lease_new(
        &self,
        delivery: &mut NewDelivery,
        endpoint: &Endpoint,
        random: &Random,
    ) -> Option<HandedDelivery> {
        if !endpoint.is_ready {
            return None;
        }
        let room = self.board.reserve(endpoint.endpoint_id, endpoint.version, delivery.payload.len())?;
        let lease = self.lease(random, delivery.created_at);
        delivery.lease = Some(lease);
        let delivery = ClaimedDelivery {
            destination: Arc::clone(&room.destination),
            delivery_id: delivery.delivery_id,
            event_type: delivery.event_type.to_owned(),
            payload: delivery.payload.clone(),
            attempts: 0,
            max_attempts: delivery.max_attempts,
            traceparent: delivery.traceparent.clone(),
            lease,
            is_probe: false,
            claimed: Instant::now(),
        };
        Some(HandedDelivery { delivery, _room: room })
    }

    /// Hands over deliveries that were born leased, after the commit.
    pub(crate) fn hand_over(&self, deliveries: Vec<HandedDelivery>) {
        if !deliveries.is_empty() {
            self.handed.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(deliveries);
            self.handed.arrived.notify_one();
        }
    }

    /// Returns once deliveries were handed over.
    pub(super) async fn handed_over(&self) {
        self.handed.arrived.notified().await;
    }

    /// Takes the deliveries that were handed over; their room is free again.
    pub(super) fn take_handed(&self) -> Vec<ClaimedDelivery> {
        let handed = std::mem::take(&mut *self.handed.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        handed.into_iter().map(|handed| handed.delivery).collect()
    }

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
