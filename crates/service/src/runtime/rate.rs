//! The request budget of a tenant, shared by all its keys, sessions and nodes.
//!
//! Windows are the minutes of the clock. A node leases blocks of the budget from the database and serves requests out
//! of them, so that most cost no round trip; what is left of a block when its minute ends is gone. A node that finds
//! the budget used up remembers that until the minute ends, so that refusals cost none either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{TenantId, Timestamp};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use store::runtime::rate;
use store::{Conn, Store};
use tokio::sync::Mutex;

use crate::runtime::{Clock, Error, Kind, Nodes, Result};

/// The window of every budget.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// Blocks that a budget is cut into for each node. Nodes can waste up to one each, together a tenth of the budget;
/// more blocks would waste less and ask the database more often.
const BLOCKS: i64 = 10;
/// Tenants remembered at once, about 20 MB. One that is forgotten loses what is left of its block, so they must be
/// more than ask within a minute.
const TENANTS: u64 = 100_000;
/// A tenant that has not asked for so long has nothing left to remember.
pub(crate) const IDLE: Duration = Duration::from_mins(2);

/// What a caller may still ask for, as the `RateLimit` headers tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Requests allowed in a window.
    pub limit: i64,
    /// Requests left in this window, as far as this node knows.
    pub remaining: i64,
    /// Seconds until the next window, rounded up.
    pub reset_s: u64,
}

/// Whether a request may go on, and what may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether this one may.
    pub allowed: bool,
    /// What is left.
    pub allowance: Allowance,
}

impl Decision {
    /// Decides at `now`, and counts a refusal under `scope`.
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

    /// The refusal, if it is one.
    pub fn permit(self) -> Result<()> {
        if self.allowed {
            return Ok(());
        }
        Err(Error::new(Kind::RateLimited, "too many requests; try again in the next minute")
            .retry_after(Duration::from_secs(self.allowance.reset_s)))
    }
}

/// When the window that `now` falls into began.
pub(crate) fn window_of(now: Timestamp) -> Timestamp {
    Timestamp::from_seconds(now.seconds() - now.seconds().rem_euclid(60))
}

/// Requests a minute for each tenant. Cheap to clone; clones share what was leased.
#[derive(Clone)]
pub struct RateBudget {
    store: Store,
    clock: Clock,
    nodes: Nodes,
    limit: i64,
    tenants: Cache<TenantId, Arc<Tenant>>,
}

/// What this node knows of one tenant.
struct Tenant {
    /// Held while a block is leased, so that one request asks for it and the others wait for the answer.
    share: Mutex<Share>,
    /// Leases that failed: the database neither granted nor refused them.
    failures: AtomicU64,
}

/// This node's share of one window.
struct Share {
    window: Timestamp,
    /// Leased and not used yet.
    left: i64,
    /// Not leased by any node when this one last heard. Nothing: there is no more to ask for.
    unleased: i64,
}

impl RateBudget {
    /// Allows each tenant `limit` requests a minute over all `nodes`.
    pub fn new(store: Store, clock: Clock, nodes: Nodes, limit: u32) -> Self {
        let tenants = Cache::builder()
            .max_capacity(TENANTS)
            .time_to_idle(IDLE)
            // The default policy may turn a newcomer away, which would then lease a block for every request.
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { store, clock, nodes, limit: i64::from(limit), tenants }
    }

    /// Takes one request out of the tenant's budget, if there is one left.
    pub async fn take(&self, tenant: TenantId) -> Result<Decision> {
        let ours = self.tenants.get_with(tenant, || Arc::new(Tenant::new()));
        let failures = ours.failures.load(Ordering::Relaxed);
        let mut share = ours.share.lock().await;
        let now = self.clock.now();
        let window = window_of(now);
        if share.window != window {
            *share = Share { window, left: 0, unleased: self.limit };
        }
        if share.left == 0 && share.unleased > 0 {
            // Whoever waited for a lease that failed does not try again: with the database away, each would wait in
            // turn for as long as the first.
            if ours.failures.load(Ordering::Relaxed) != failures {
                return Err(Error::new(Kind::NotReady, "the database does not answer"));
            }
            if let Err(error) = self.lease(tenant, &mut share).await {
                ours.failures.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        }
        let allowed = share.left > 0;
        share.left -= i64::from(allowed);
        Ok(Decision::new("tenant", now, allowed, self.limit, share.unleased + share.left))
    }

    /// Leases the next block of the share's window.
    async fn lease(&self, tenant: TenantId, share: &mut Share) -> Result<()> {
        let nodes = i64::try_from(self.nodes.live()).unwrap_or(i64::MAX);
        let block = (self.limit / BLOCKS / nodes).max(1);
        let (window, limit) = (share.window, self.limit);
        let granted = self
            .store
            .write("lease rate budget", async |conn: &mut Conn| {
                rate::lease(conn, tenant, window, WINDOW, block, limit).await
            })
            .await?;
        match granted {
            Some(granted) => {
                let beyond = (granted - limit).max(0);
                share.left = (block - beyond).max(0);
                share.unleased = (limit - granted).max(0);
            }
            None => share.unleased = 0,
        }
        Ok(())
    }
}

impl Tenant {
    /// Nothing is known of it, as of a window long past.
    fn new() -> Self {
        let share = Share { window: Timestamp::from_micros(i64::MIN), left: 0, unleased: 0 };
        Self { share: Mutex::new(share), failures: AtomicU64::new(0) }
    }
}
