//! How many connections each client address has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use service::client_network;

use crate::config::NetworkList;

/// Counts connections by client address. Cheap to clone; clones share the counts.
#[derive(Clone)]
pub(super) struct Addresses {
    limit: usize,
    exempt: NetworkList,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A connection that counts against its address until this is dropped.
pub(super) struct Admission {
    addresses: Addresses,
    /// None for an exempt address.
    network: Option<IpAddr>,
}

impl Addresses {
    /// At most `limit` connections for every address that is not `exempt`.
    pub(super) fn new(limit: usize, exempt: NetworkList) -> Self {
        Self { limit, exempt, counts: Arc::default() }
    }

    /// Counts a connection from `address`, unless that has too many.
    pub(super) fn admit(&self, address: IpAddr) -> Option<Admission> {
        if self.exempt.contains(address) {
            return Some(Admission { addresses: self.clone(), network: None });
        }
        let network = client_network(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(network).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Admission { addresses: self.clone(), network: Some(network) })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut counts = self.addresses.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&network) {
            *count -= 1;
            // Addresses without connections are removed, so that the map does not grow.
            if *count == 0 {
                counts.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_limited_number_and_a_proxy_does_not() {
        let addresses = Addresses::new(2, "10.0.0.0/8".parse().unwrap());
        let admit = |address: &str| addresses.admit(address.parse().unwrap());
        let first = [admit("203.0.113.9"), admit("::ffff:203.0.113.9")];
        assert!(first.iter().all(Option::is_some));
        assert!(admit("203.0.113.9").is_none());
        assert!(admit("203.0.113.10").is_some(), "another address is not affected");
        let proxied: Vec<_> = (0..5).map(|_| admit("10.1.2.3")).collect();
        assert!(proxied.iter().all(Option::is_some));
        drop(first);
        assert!(admit("203.0.113.9").is_some());
        let _network = [admit("2001:db8::1"), admit("2001:db8::2")];
        assert!(admit("2001:db8::3").is_none(), "the /64 of an IPv6 address counts as one");
        drop(proxied);
        assert_eq!(addresses.counts.lock().unwrap().len(), 1, "others are forgotten");
    }
}
