//! The request budget over many nodes: what the leases of blocks cost, and how exact the budget is. A node's share is the
//! service's own; the row in the database is the statement of `store/src/runtime/rate.rs` in a few lines.

use std::collections::HashMap;

use model::Timestamp;
use service::runtime::Share;

use super::design::Design;
use super::random::{Random, Tenants};

/// The row of a budget in one window.
#[derive(Default)]
struct Row {
    granted: i64,
}

impl Row {
    /// Leases a block unless `limit` is leased already; returns what is leased with it.
    fn lease(&mut self, block: i64, limit: i64) -> Option<i64> {
        (self.granted < limit).then(|| {
            self.granted += block;
            self.granted
        })
    }
}

/// What one minute cost.
pub(super) struct Minute {
    pub(super) requests: u64,
    pub(super) allowed: u64,
    /// Transactions that lease a block, of either budget.
    pub(super) leases: u64,
}

/// A minute in which all tenants send requests, each to any node.
pub(super) fn minute_of_all(design: &Design, nodes: usize, tenants: &Tenants, random: &mut Random) -> Minute {
    let requests = (design.requests_per_second(nodes) * 60.0) as u64;
    let node_count = nodes as i64;
    let bytes = design.bytes_per_request;
    let mut shares: HashMap<(u32, u32), (Share, Share)> = HashMap::new();
    let mut rows: HashMap<u32, (Row, Row)> = HashMap::new();
    let (mut allowed, mut leases) = (0, 0);
    for _ in 0..requests {
        let (tenant, node) = (tenants.draw(random) as u32, random.below(nodes) as u32);
        let (counted, sized) = shares.entry((tenant, node)).or_insert_with(|| {
            let window = Timestamp::from_seconds(0);
            (Share::new(window, design.requests_per_minute), Share::new(window, design.bytes_per_minute))
        });
        let (counts, sizes) = rows.entry(tenant).or_default();
        leases += u64::from(lease_if_short(counted, counts, 1, design.requests_per_minute, node_count));
        if !counted.take(1) {
            continue;
        }
        leases += u64::from(lease_if_short(sized, sizes, bytes, design.bytes_per_minute, node_count));
        allowed += u64::from(sized.take(bytes));
    }
    Minute { requests, allowed, leases }
}

/// A minute in which one tenant sends twice its limit, each request to any node.
pub(super) fn minute_beyond_the_limit(limit: i64, nodes: usize, random: &mut Random) -> Minute {
    let window = Timestamp::from_seconds(0);
    let mut shares = vec![Share::new(window, limit); nodes];
    let mut row = Row::default();
    let (mut allowed, mut leases) = (0, 0);
    let requests = 2 * limit as u64;
    for _ in 0..requests {
        let share = &mut shares[random.below(nodes)];
        leases += u64::from(lease_if_short(share, &mut row, 1, limit, nodes as i64));
        allowed += u64::from(share.take(1));
    }
    Minute { requests, allowed, leases }
}

/// Leases a block if the share needs one; returns whether it asked the database.
fn lease_if_short(share: &mut Share, row: &mut Row, amount: i64, limit: i64, nodes: i64) -> bool {
    let Some(block) = share.missing_block(amount, limit, nodes) else { return false };
    share.add(block, row.lease(block, limit), limit);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_wastes_at_most_a_tenth() {
        for limit in [60, 600, 3_000] {
            for nodes in [1, 3, 10, 60, 300, 1_000] {
                let minute = minute_beyond_the_limit(limit, nodes, &mut Random::new(1));
                let allowed = i64::try_from(minute.allowed).unwrap();
                assert!(allowed <= limit, "{limit} over {nodes}: {allowed}");
                assert!(allowed * 10 >= limit * 9, "{limit} over {nodes}: {allowed}");
            }
        }
    }

    #[test]
    fn more_nodes_lease_more_often() {
        let leases = |nodes| minute_beyond_the_limit(3_000, nodes, &mut Random::new(1)).leases;
        assert!(leases(1) <= 11, "ten blocks, and a last question");
        assert!(leases(10) <= 110);
        assert!(leases(1_000) >= 3_000, "a block is a single request");
    }
}
