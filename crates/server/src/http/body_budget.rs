//! The bytes of request bodies that a process holds at a time, bounded.
//!
//! A body is counted from before it is read until its request has been handled, since what was parsed from it is about as
//! large. What does not fit is refused before it is read.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use model::TenantId;
use service::{Error, Kind};

/// The bytes of all bodies in flight.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// The part of them that one tenant may take, or everybody who has not been identified together: the rest is for others.
const SHARE: usize = 2;
/// When to retry: most bodies are handled in much less.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Counts the bytes of bodies in flight. Cheap to clone; clones share the count.
#[derive(Clone)]
pub(crate) struct BodyBudget {
    limit: usize,
    in_flight: Arc<Mutex<InFlight>>,
}

#[derive(Default)]
struct InFlight {
    total: usize,
    /// Those of tenants, and of requests without a valid credential.
    by_tenant: HashMap<Option<TenantId>, usize>,
}

/// The bytes of one request's body, counted until this is dropped.
pub(super) struct BodyLease {
    budget: BodyBudget,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    tenant: Option<TenantId>,
    bytes: usize,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self { limit: MAX_BYTES, in_flight: Arc::default() }
    }
}

impl BodyBudget {
    /// A lease of nothing yet.
    pub(super) fn lease(&self) -> Arc<BodyLease> {
        Arc::new(BodyLease { budget: self.clone(), held: Mutex::default() })
    }

    fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyLease {
    /// Counts more bytes of a body that `tenant` sends, or refuses them.
    pub(super) fn grow(&self, tenant: Option<TenantId>, bytes: usize) -> Result<(), Error> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = if held.bytes == 0 { tenant } else { held.tenant };
        let mut in_flight = self.budget.in_flight();
        let own = in_flight.by_tenant.get(&tenant).copied().unwrap_or_default();
        let limit = self.budget.limit;
        if in_flight.total + bytes > limit || own + bytes > limit / SHARE {
            metrics::counter!("auspex_bodies_refused_total").increment(1);
            return Err(Error::new(Kind::NotReady, "too many bytes of requests are being handled; retry")
                .retry_after(RETRY_AFTER));
        }
        if bytes > 0 {
            in_flight.total += bytes;
            in_flight.by_tenant.insert(tenant, own + bytes);
            *held = Held { tenant, bytes: held.bytes + bytes };
        }
        Ok(())
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        if held.bytes == 0 {
            return;
        }
        let mut in_flight = self.budget.in_flight();
        in_flight.total -= held.bytes;
        if let Some(own) = in_flight.by_tenant.get_mut(&held.tenant) {
            *own -= held.bytes;
            // Tenants without bodies in flight are removed, so that the map does not grow.
            if *own == 0 {
                in_flight.by_tenant.remove(&held.tenant);
            }
        }
    }
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
    use super::*;

    #[test]
    fn bytes_are_counted_until_the_lease_ends_and_one_tenant_leaves_room_for_others() {
        let budget = BodyBudget { limit: 100, in_flight: Arc::default() };
        let [ann, bob, eve] = [1, 2, 3].map(|number| Some(TenantId(uuid::Uuid::from_u128(number))));
        let [first, second, third] = [budget.lease(), budget.lease(), budget.lease()];
        first.grow(ann, 30).unwrap();
        first.grow(ann, 20).unwrap();
        let refused = second.grow(ann, 1).unwrap_err();
        assert_eq!((refused.kind(), refused.wait()), (Kind::NotReady, Some(RETRY_AFTER)));
        assert!(!refused.events_recorded());
        second.grow(bob, 40).unwrap();
        third.grow(eve, 10).unwrap();
        assert!(third.grow(eve, 1).is_err(), "there is no room left");
        let clone = Arc::clone(&first);
        drop(first);
        assert!(third.grow(eve, 1).is_err(), "the work goes on");
        drop(clone);
        third.grow(eve, 40).unwrap();
        drop((second, third));
        let left = budget.in_flight();
        assert_eq!((left.total, left.by_tenant.len()), (0, 0));
    }
}
