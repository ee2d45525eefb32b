//! The budgets of a tenant, of requests and of bytes of events, shared by all its keys, sessions and nodes.
//!
//! Windows are clock minutes. A node leases blocks of a budget from the database and serves requests out
//! of them, so that most requests cost no round trip; the rest of a block expires with its minute. A node that finds
//! the budget used up caches that until the minute ends, so that refusals cost no round trip either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{TenantId, Timestamp};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use store::runtime::rate::{self, Budget};
use store::{Conn, Store};
use tokio::sync::Mutex;

use crate::runtime::{Clock, Error, Kind, Nodes, Result};

/// The window of every budget.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// The number of blocks that a budget is divided into for each node. Each node wastes at most one, together a tenth of the
/// budget; smaller blocks would waste less and cost more round trips.
const BLOCKS: i64 = 10;
/// The maximum number of tenants cached, about 20 MB. An evicted tenant loses the rest of its block, so this must exceed
/// the number of tenants active within a minute.
const TENANTS: u64 = 100_000;
/// The cache entry of a tenant without requests for this long is out of date, and is evicted.
pub(crate) const IDLE: Duration = Duration::from_mins(2);

/// The caller's remaining budget, as reported in the `RateLimit` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Requests allowed in a window.
    pub limit: i64,
    /// Requests left in this window, as last known to this node.
    pub remaining: i64,
    /// Seconds until the next window, rounded up.
    pub reset_s: u64,
}

/// Whether a request is allowed, and how many more are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The remaining budget.
    pub allowance: Allowance,
}

impl Decision {
    /// A decision made at `now`; a refusal is counted in metrics under `scope`.
    pub(crate) fn new(
        scope: &'static str,
        now: Timestamp,
        allowed: bool,
        limit: i64,
        remaining: i64,
    ) -> Self {
        if !allowed {
            metrics::counter!("auspex_rate_limited_total", "scope" => scope).increment(1);
        }
        let left = (window_of(now) + WINDOW).since(now);
        let reset_s = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        Self { allowed, allowance: Allowance { limit, remaining, reset_s } }
    }

    /// An error if the request is refused.
    pub fn permit(self) -> Result<()> {
        if self.allowed {
            return Ok(());
        }
        Err(Error::new(Kind::RateLimited, "too many requests; try again in the next minute")
            .retry_after(Duration::from_secs(self.allowance.reset_s)))
    }
}

/// The start of the window that contains `now`.
pub(crate) fn window_of(now: Timestamp) -> Timestamp {
    Timestamp::from_seconds(now.seconds() - now.seconds().rem_euclid(60))
}

/// A rate limit of each tenant. Cheap to clone; clones share the leased blocks.
#[derive(Clone)]
pub struct RateBudget {
    budget: Budget,
    store: Store,
    clock: Clock,
    nodes: Nodes,
    limit: i64,
    tenants: Cache<TenantId, Arc<Tenant>>,
}

/// This node's state of one tenant.
struct Tenant {
    /// Locked while a block is leased, so that one request leases it and the others wait for the result.
    share: Mutex<Share>,
    /// Leases that failed because of the database, as opposed to being refused.
    failures: AtomicU64,
}

/// A node's share of a tenant's budget in one window.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    window: Timestamp,
    /// Leased and not used yet.
    left: i64,
    /// Not leased by any node, as of the last lease. At zero there is nothing more to lease.
    unleased: i64,
}

impl Share {
    /// The share of a node that has leased nothing of the budget in this window.
    pub fn new(window: Timestamp, limit: i64) -> Self {
        Self { window, left: 0, unleased: limit }
    }

    /// The block to lease before `amount` can be taken, where a budget of `limit` is shared by `nodes`; none if enough is
    /// left, or nothing more can be leased.
    pub fn missing_block(&self, amount: i64, limit: i64, nodes: i64) -> Option<i64> {
        let is_short = self.left < amount && self.unleased > 0;
        is_short.then(|| (limit / BLOCKS / nodes.max(1)).max(amount - self.left))
    }

    /// Adds a block that was leased. `granted` is what all nodes have leased in the window, this block included; none if the
    /// whole budget was leased before.
    pub fn add(&mut self, block: i64, granted: Option<i64>, limit: i64) {
        match granted {
            Some(granted) => {
                let beyond = (granted - limit).max(0);
                self.left += (block - beyond).max(0);
                self.unleased = (limit - granted).max(0);
            }
            None => self.unleased = 0,
        }
    }

    /// Takes an amount, if that much is left.
    pub fn take(&mut self, amount: i64) -> bool {
        let is_enough = self.left >= amount;
        self.left -= if is_enough { amount } else { 0 };
        is_enough
    }
}

impl RateBudget {
    /// Allows each tenant `limit` requests a minute over all `nodes`.
    pub fn new(store: Store, clock: Clock, nodes: Nodes, limit: u32) -> Self {
        Self::of(Budget::Requests, store, clock, nodes, i64::from(limit))
    }

    /// Allows each tenant to send `limit` bytes of events a minute over all `nodes`.
    pub fn of_bytes(store: Store, clock: Clock, nodes: Nodes, limit: i64) -> Self {
        Self::of(Budget::Bytes, store, clock, nodes, limit)
    }

    fn of(budget: Budget, store: Store, clock: Clock, nodes: Nodes, limit: i64) -> Self {
        let tenants = Cache::builder()
            .max_capacity(TENANTS)
            .time_to_idle(IDLE)
            // The default policy may not admit a new entry; its tenant would then lease a block for every request.
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { budget, store, clock, nodes, limit, tenants }
    }

    /// Takes one request out of the tenant's budget, if there is one left.
    pub async fn take(&self, tenant: TenantId) -> Result<Decision> {
        self.take_amount(tenant, 1).await
    }

    /// Takes bytes of events out of the tenant's budget, or refuses them. As many as a whole budget, or more, take all of it.
    pub async fn take_bytes(&self, tenant: TenantId, bytes: i64) -> Result<()> {
        let decision = self.take_amount(tenant, bytes.min(self.limit)).await?;
        if decision.allowed {
            return Ok(());
        }
        let message =
            format!("more than {} bytes of events in a minute; try again in the next one", self.limit);
        Err(Error::new(Kind::RateLimited, message)
            .retry_after(Duration::from_secs(decision.allowance.reset_s)))
    }

    async fn take_amount(&self, tenant: TenantId, amount: i64) -> Result<Decision> {
        let state = self.tenants.get_with(tenant, || Arc::new(Tenant::new()));
        let failures = state.failures.load(Ordering::Relaxed);
        let mut share = state.share.lock().await;
        let now = self.clock.now();
        let window = window_of(now);
        if share.window != window {
            *share = Share::new(window, self.limit);
        }
        let nodes = i64::try_from(self.nodes.live()).unwrap_or(i64::MAX);
        if let Some(block) = share.missing_block(amount, self.limit, nodes) {
            // A request that waited for a lease that failed does not try again: with the database down, each would wait in
            // turn for as long as the first did.
            if state.failures.load(Ordering::Relaxed) != failures {
                return Err(Error::new(Kind::NotReady, "the database does not answer"));
            }
            if let Err(error) = self.lease(tenant, &mut share, block).await {
                state.failures.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        }
        let allowed = share.take(amount);
        let scope = match self.budget {
            Budget::Requests => "tenant",
            Budget::Bytes => "ingest",
        };
        Ok(Decision::new(scope, now, allowed, self.limit, share.unleased + share.left))
    }

    /// Leases the next block of the share's window.
    async fn lease(&self, tenant: TenantId, share: &mut Share, block: i64) -> Result<()> {
        let window = rate::Window { start: share.window, ahead: WINDOW };
        let (budget, limit) = (self.budget, self.limit);
        let granted = self
            .store
            .write("lease_rate_budget", async |conn: &mut Conn| {
                rate::lease(conn, budget, tenant, window, block, limit).await
            })
            .await?;
        share.add(block, granted, limit);
        Ok(())
    }
}

impl Tenant {
    /// A tenant without a share, in a window long past.
    fn new() -> Self {
        let share = Share::new(Timestamp::from_micros(i64::MIN), 0);
        Self { share: Mutex::new(share), failures: AtomicU64::new(0) }
    }
}
