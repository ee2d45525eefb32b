//! Deliveries that may be what crashes their senders.
//!
//! Of each endpoint one is claimed at a time, so that the next crash shows whether it was this one. Endpoints do not wait for
//! each other: a receiver that never responds does not delay the suspects of others.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use model::Timestamp;
use store::actions::webhooks::queue::{self, LeasedDelivery};
use store::{Conn, Lease};
use uuid::Uuid;

use crate::runtime::driver::{SUSPECT, Suspicion};

/// The suspects of all endpoints, as this process knows them.
#[derive(Clone, Default)]
pub(super) struct Suspects {
    /// The suspect of an endpoint that is claimed, and the end of its lease.
    claimed: HashMap<Uuid, (Uuid, Timestamp)>,
    /// Endpoints with more suspects in the queue.
    queued: HashSet<Uuid>,
}

impl Suspects {
    /// Whether no suspect is claimed or known to wait.
    pub(super) fn are_none(&self) -> bool {
        self.claimed.is_empty() && self.queued.is_empty()
    }

    /// Forgets claimed suspects whose lease has ended, or whose outcome is settled.
    pub(super) fn forget(&mut self, now: Timestamp, is_settled: impl Fn(Uuid) -> bool) {
        self.claimed.retain(|_, (delivery, until)| *until > now && !is_settled(*delivery));
    }

    /// Claims due deliveries of an endpoint. Where suspects are known to wait, they are claimed separately: they are not claimed
    /// in vain, and the others do not wait behind them.
    pub(super) async fn claim(
        &mut self,
        conn: &mut Conn,
        endpoint: Uuid,
        now: Timestamp,
        limit: i64,
        lease: Lease,
    ) -> store::Result<Vec<LeasedDelivery>> {
        if !self.queued.contains(&endpoint) {
            return queue::claim(conn, endpoint, now, limit, lease).await;
        }
        let mut taken = Vec::new();
        if !self.claimed.contains_key(&endpoint) {
            taken = queue::claim_begun(conn, endpoint, now, limit.min(1), lease, SUSPECT..i64::MAX).await?;
            if taken.is_empty() {
                self.queued.remove(&endpoint);
            }
        }
        let left = limit.saturating_sub(i64::try_from(taken.len()).unwrap_or(limit));
        taken.extend(queue::claim_begun(conn, endpoint, now, left, lease, 0..SUSPECT).await?);
        Ok(taken)
    }

    /// Whether a delivery that was claimed may be sent: of an endpoint's suspects, only one at a time.
    pub(super) fn may_send(&mut self, endpoint: Uuid, claimed: &LeasedDelivery, until: Timestamp) -> bool {
        if Suspicion::after(claimed.unfinished_claims) != Suspicion::Suspect {
            return true;
        }
        match self.claimed.entry(endpoint) {
            Entry::Occupied(one) => one.get().0 == claimed.delivery_id,
            Entry::Vacant(free) => {
                free.insert((claimed.delivery_id, until));
                self.queued.insert(endpoint);
                true
            }
        }
    }
}
