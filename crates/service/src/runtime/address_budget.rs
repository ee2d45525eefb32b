//! A request rate limit per client address, for requests that carry no valid credential: sign-ins, and failures to
//! authenticate. Each process counts in memory, because a refusal must be cheaper than the request that it refuses.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use model::Timestamp;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::runtime::rate::{IDLE, window_of};
use crate::runtime::{Clock, Decision};

/// Requests per minute: far more than an office behind one address needs, far fewer than guessing passwords needs.
const PER_MINUTE: i64 = 300;
/// The maximum number of addresses counted, about 20 MB. Beyond that the least recently used are evicted.
const ADDRESSES: u64 = 100_000;

/// The network that counts as one client: the /64 of an IPv6 address, the least that a provider assigns to one customer,
/// or an IPv4 address, also if it is written as IPv6.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(host) => IpAddr::V6(Ipv6Addr::from_bits(host.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Counts requests by client address. Cheap to clone; clones share the counts.
#[derive(Clone)]
pub struct AddressBudget {
    clock: Clock,
    counts: Cache<IpAddr, Arc<Mutex<Count>>>,
}

/// Requests within one window.
#[derive(Clone, Copy)]
struct Count {
    window: Timestamp,
    requests: i64,
}

impl AddressBudget {
    /// An empty budget on this clock.
    pub fn new(clock: Clock) -> Self {
        Self::with_capacity(ADDRESSES, clock)
    }

    fn with_capacity(addresses: u64, clock: Clock) -> Self {
        let counts = Cache::builder()
            .max_capacity(addresses)
            .time_to_idle(IDLE)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { clock, counts }
    }

    /// Whether a request from `address` would be allowed. Counts nothing.
    #[cfg(test)]
    fn check(&self, address: IpAddr) -> Decision {
        let now = self.clock.now();
        let requests = self.counts.get(&client_network(address)).map_or(0, |count| {
            let count = count.lock().unwrap_or_else(PoisonError::into_inner);
            if count.window == window_of(now) { count.requests } else { 0 }
        });
        Decision::new("address", now, requests < PER_MINUTE, PER_MINUTE, PER_MINUTE - requests)
    }

    /// Counts a request from `address` and returns whether it is allowed. A refused request is not counted.
    pub fn count(&self, address: IpAddr) -> Decision {
        let now = self.clock.now();
        let window = window_of(now);
        let fresh = Count { window, requests: 0 };
        let count = self.counts.get_with(client_network(address), || Arc::new(Mutex::new(fresh)));
        // A panic elsewhere cannot leave a count half-written.
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        if count.window != window {
            *count = fresh;
        }
        let allowed = count.requests < PER_MINUTE;
        count.requests += i64::from(allowed);
        Decision::new("address", now, allowed, PER_MINUTE, PER_MINUTE - count.requests)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::{Allowance, Kind};

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn exhaust(budget: &AddressBudget, text: &str) {
        for _ in 0..PER_MINUTE {
            assert!(budget.count(address(text)).allowed);
        }
    }

    #[test]
    fn three_hundred_requests_a_minute_are_allowed() {
        let (clock, hands) = Clock::manual(Timestamp::from_seconds(60_000) + Duration::from_millis(1_500));
        let budget = AddressBudget::new(clock);
        let here = address("192.0.2.1");
        assert_eq!(budget.check(here).allowance, Allowance { limit: 300, remaining: 300, reset_s: 59 });
        for remaining in (0..300).rev() {
            let decision = budget.count(here);
            assert_eq!(decision.allowance, Allowance { limit: 300, remaining, reset_s: 59 });
            assert!(decision.allowed);
        }
        for refused in [budget.count(here), budget.check(here)] {
            assert_eq!(refused.allowance, Allowance { limit: 300, remaining: 0, reset_s: 59 });
            let error = refused.permit().unwrap_err();
            assert_eq!((error.kind(), error.wait()), (Kind::RateLimited, Some(Duration::from_secs(59))));
        }
        assert!(budget.check(address("192.0.2.2")).allowed);
        hands.advance(Duration::from_millis(58_499));
        assert!(!budget.check(here).allowed);
        hands.advance(Duration::from_millis(1));
        assert_eq!(budget.check(here).allowance, Allowance { limit: 300, remaining: 300, reset_s: 60 });
        assert_eq!(budget.count(here).allowance.remaining, 299);
    }

    #[test]
    fn a_check_counts_nothing() {
        let budget = AddressBudget::new(Clock::manual(Timestamp::from_seconds(0)).0);
        for _ in 0..1_000 {
            assert!(budget.check(address("192.0.2.1")).allowed);
        }
        assert_eq!(budget.count(address("192.0.2.1")).allowance.remaining, 299);
    }

    #[test]
    fn one_customer_is_one_address() {
        let budget = AddressBudget::new(Clock::manual(Timestamp::from_seconds(0)).0);
        exhaust(&budget, "2001:db8:1:2::1");
        assert!(!budget.check(address("2001:db8:1:2:ffff:ffff:ffff:ffff")).allowed);
        assert!(budget.check(address("2001:db8:1:3::1")).allowed);
        exhaust(&budget, "::ffff:192.0.2.1");
        assert!(!budget.check(address("192.0.2.1")).allowed);
        assert!(budget.check(address("::ffff:192.0.2.2")).allowed);
    }

    #[test]
    fn the_least_recently_used_address_is_evicted_at_capacity() {
        let budget = AddressBudget::with_capacity(100, Clock::manual(Timestamp::from_seconds(0)).0);
        let used = "192.0.2.1";
        exhaust(&budget, used);
        exhaust(&budget, "192.0.2.2");
        for other in 0x0a00_0000..0x0a00_0400_u32 {
            budget.count(IpAddr::from(other.to_be_bytes()));
            assert!(!budget.check(address(used)).allowed, "an address in use was evicted");
            budget.counts.run_pending_tasks();
        }
        assert!(budget.counts.entry_count() <= 100);
        assert!(budget.check(address("192.0.2.2")).allowed, "an idle address was not evicted");
    }

    #[test]
    fn threads_count_together() {
        let budget = AddressBudget::new(Clock::manual(Timestamp::from_seconds(0)).0);
        let ask = || (0..200).filter(|_| budget.count(address("192.0.2.1")).allowed).count();
        let allowed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(allowed, 300);
    }
}
