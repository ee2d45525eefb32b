//! The bytes of request bodies that a process holds at a time, bounded.
//!
//! Bytes are counted as they arrive, and until their request has been handled, since what was parsed from them is about as
//! large. What is only announced counts for nobody: a client that announces much and sends little would otherwise take the
//! room of those who do send. A body whose announced length does not fit is refused before it is read.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use model::TenantId;
use service::{Error, Kind, client_network};

/// The bytes of all bodies in flight.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// The part of them that one tenant may take, and the part that all requests without a valid credential may take together.
/// Tenants together leave the latter free, so that people can always sign in.
const SHARE: usize = 4;
/// The part of them that the requests of one network may take that have no valid credential.
const NETWORK_SHARE: usize = 16;
/// When to retry: most bodies are handled in much less.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Counts the bytes of bodies in flight. Cheap to clone; clones share the count.
#[derive(Clone)]
pub(crate) struct BodyBudget {
    limit: usize,
    in_flight: Arc<Mutex<InFlight>>,
}

/// Who sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sender {
    Tenant(TenantId),
    /// Somebody without a valid credential, by the client's network.
    Stranger(IpAddr),
}

#[derive(Default)]
struct InFlight {
    of_tenants: usize,
    of_strangers: usize,
    by_sender: HashMap<Sender, usize>,
}

/// The bytes of one request's body, counted until this is dropped.
pub(super) struct BodyLease {
    budget: BodyBudget,
    network: IpAddr,
    counted: Mutex<Option<CountedBytes>>,
}

#[derive(Clone, Copy)]
struct CountedBytes {
    sender: Sender,
    bytes: usize,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self { limit: MAX_BYTES, in_flight: Arc::default() }
    }
}

impl BodyBudget {
    /// A lease of nothing yet, for a request from this address.
    pub(super) fn lease(&self, address: IpAddr) -> Arc<BodyLease> {
        let network = client_network(address);
        Arc::new(BodyLease { budget: self.clone(), network, counted: Mutex::default() })
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlight {
    /// Whether so many more bytes of a sender fit.
    fn has_room(&self, limit: usize, sender: Sender, bytes: usize) -> bool {
        let own = self.by_sender.get(&sender).copied().unwrap_or_default();
        let (all, most, own_most) = match sender {
            Sender::Tenant(_) => (self.of_tenants, limit - limit / SHARE, limit / SHARE),
            Sender::Stranger(_) => (self.of_strangers, limit / SHARE, limit / NETWORK_SHARE),
        };
        all + bytes <= most && own + bytes <= own_most
    }

    fn add(&mut self, sender: Sender, bytes: usize) {
        *self.all_of(sender) += bytes;
        *self.by_sender.entry(sender).or_default() += bytes;
    }

    fn remove(&mut self, sender: Sender, bytes: usize) {
        *self.all_of(sender) -= bytes;
        if let Some(own) = self.by_sender.get_mut(&sender) {
            *own -= bytes;
            // Senders without bodies in flight are removed, so that the map does not grow.
            if *own == 0 {
                self.by_sender.remove(&sender);
            }
        }
    }

    fn all_of(&mut self, sender: Sender) -> &mut usize {
        match sender {
            Sender::Tenant(_) => &mut self.of_tenants,
            Sender::Stranger(_) => &mut self.of_strangers,
        }
    }
}

impl BodyLease {
    /// Refuses a body of this length for which there is no room now. Counts nothing.
    pub(super) fn check(&self, tenant: Option<TenantId>, bytes: usize) -> Result<(), Error> {
        let fits = self.budget.in_flight().has_room(self.budget.limit, self.sender(tenant), bytes);
        if fits { Ok(()) } else { Err(no_room()) }
    }

    /// Counts bytes of a body that have arrived from `tenant`, or refuses them.
    pub(super) fn grow(&self, tenant: Option<TenantId>, bytes: usize) -> Result<(), Error> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let CountedBytes { sender, bytes: before } =
            counted.unwrap_or_else(|| CountedBytes { sender: self.sender(tenant), bytes: 0 });
        let mut in_flight = self.budget.in_flight();
        if !in_flight.has_room(self.budget.limit, sender, bytes) {
            return Err(no_room());
        }
        in_flight.add(sender, bytes);
        *counted = Some(CountedBytes { sender, bytes: before + bytes });
        Ok(())
    }

    fn sender(&self, tenant: Option<TenantId>) -> Sender {
        tenant.map_or(Sender::Stranger(self.network), Sender::Tenant)
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        if let Some(counted) = self.counted.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            self.budget.in_flight().remove(counted.sender, counted.bytes);
        }
    }
}

fn no_room() -> Error {
    metrics::counter!("auspex_bodies_refused_total").increment(1);
    Error::new(Kind::NotReady, "too many bytes of requests are being handled; retry").retry_after(RETRY_AFTER)
}

/// The lease of the request's body, for work that goes on after its caller has left.
pub(super) struct Leased {
    _lease: Option<Arc<BodyLease>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Leased {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self { _lease: parts.extensions.get().cloned() })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// Tenants by their numbers.
    const TENANTS: [Option<TenantId>; 5] = [
        Some(TenantId(Uuid::from_u128(0))),
        Some(TenantId(Uuid::from_u128(1))),
        Some(TenantId(Uuid::from_u128(2))),
        Some(TenantId(Uuid::from_u128(3))),
        Some(TenantId(Uuid::from_u128(4))),
    ];

    fn lease(budget: &BodyBudget, address: &str) -> Arc<BodyLease> {
        budget.lease(address.parse().unwrap())
    }

    #[test]
    fn bytes_are_counted_until_the_lease_ends_and_one_tenant_leaves_room_for_others() {
        let budget = BodyBudget { limit: 160, in_flight: Arc::default() };
        let here = || lease(&budget, "192.0.2.1");
        let [first, second, third, fourth] = [here(), here(), here(), here()];
        first.grow(TENANTS[1], 30).unwrap();
        first.grow(TENANTS[1], 10).unwrap();
        let refused = second.grow(TENANTS[1], 1).unwrap_err();
        assert_eq!((refused.kind(), refused.wait()), (Kind::NotReady, Some(RETRY_AFTER)));
        assert!(!refused.events_recorded());
        second.grow(TENANTS[2], 40).unwrap();
        third.grow(TENANTS[3], 40).unwrap();
        assert!(fourth.grow(TENANTS[4], 1).is_err(), "the rest is for those who sign in");
        fourth.grow(None, 10).unwrap();
        let clone = Arc::clone(&first);
        drop(first);
        let fifth = here();
        assert!(fifth.grow(TENANTS[4], 1).is_err(), "the work goes on");
        drop(clone);
        fifth.grow(TENANTS[4], 40).unwrap();
        drop((second, third, fourth, fifth));
        let left = budget.in_flight();
        assert_eq!((left.of_tenants, left.of_strangers, left.by_sender.len()), (0, 0, 0));
    }

    #[test]
    fn strangers_share_a_quarter_and_one_network_has_a_sixteenth() {
        let budget = BodyBudget { limit: 160, in_flight: Arc::default() };
        let first = lease(&budget, "2001:db8::1");
        first.grow(None, 10).unwrap();
        assert!(lease(&budget, "2001:db8::2").grow(None, 1).is_err(), "the same network");
        let others: Vec<_> = (1..4).map(|number| lease(&budget, &format!("192.0.2.{number}"))).collect();
        for other in &others {
            other.grow(None, 10).unwrap();
        }
        let last = lease(&budget, "192.0.2.4");
        assert!(last.grow(None, 1).is_err(), "all networks together");
        drop(first);
        last.grow(None, 1).unwrap();
        last.grow(TENANTS[1], 9).unwrap();
        assert!(last.grow(TENANTS[1], 1).is_err(), "a body is counted for who sent its first byte");
    }

    #[test]
    fn what_is_announced_must_fit_and_counts_for_nobody() {
        let budget = BodyBudget { limit: 160, in_flight: Arc::default() };
        let [first, second] = [lease(&budget, "192.0.2.1"), lease(&budget, "192.0.2.1")];
        first.check(TENANTS[1], 40).unwrap();
        second.check(TENANTS[1], 40).unwrap();
        assert!(first.check(TENANTS[1], 41).is_err());
        first.grow(TENANTS[1], 1).unwrap();
        assert!(second.check(TENANTS[1], 40).is_err());
        second.check(TENANTS[1], 39).unwrap();
    }
}
