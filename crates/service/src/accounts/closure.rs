//! Suspension and deletion of accounts, by the operator or because an owner has asked for it.

use std::time::Duration;

use model::{TenantId, Timestamp};
use store::accounts::{closure, tenants};
use store::actions::webhooks::endpoints;
use store::runtime::nodes;
use store::{Conn, Store};
use tracing::info;

use crate::runtime::{Clock, Error, HEARTBEAT_LIFETIME, Kind, Result};

/// Rows that one transaction deletes: few enough not to delay others.
const STEP: i64 = 500;
/// How long requests that got in before a suspension may still write.
const REQUESTS_IN_FLIGHT: Duration = Duration::from_mins(1);
/// Suspends, resumes and deletes accounts.
#[derive(Clone)]
pub struct Closure {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

impl Closure {
    /// Suspends an account: nobody gets in, and its jobs and deliveries wait. Other nodes notice within a second.
    pub async fn suspend(&self, tenant: TenantId) -> Result<()> {
        self.store
            .write("suspend_tenant", async |conn: &mut Conn| {
                require(conn, tenant).await?;
                if closure::suspend(conn, tenant, self.clock.now()).await? {
                    Ok(())
                } else {
                    Err(Error::new(Kind::Conflict, "the account is suspended already"))
                }
            })
            .await
    }

    /// Ends a suspension. What waited goes on within seconds.
    pub async fn resume(&self, tenant: TenantId) -> Result<()> {
        self.store
            .write("resume_tenant", async |conn: &mut Conn| {
                let known = require(conn, tenant).await?;
                if known.deleting_at.is_some() {
                    return Err(Error::new(Kind::Conflict, "the account is being deleted"));
                }
                if !closure::resume(conn, tenant).await? {
                    return Err(Error::new(Kind::Conflict, "the account is not suspended"));
                }
                let now = self.clock.now();
                let pause = now.since(known.suspended_at.unwrap_or(now));
                endpoints::add_pause(conn, tenant, pause).await?;
                Ok(())
            })
            .await
    }

    /// Deletes an account with everything that belongs to it, except for the sums of its ledger; returns the number of rows.
    ///
    /// It goes in steps, each of which is final: a deletion that was interrupted is continued by calling this again.
    pub async fn delete(&self, tenant: TenantId) -> Result<u64> {
        let since = self.begin(tenant).await?;
        self.let_requests_end(since).await?;
        self.delete_everything(tenant).await
    }

    /// Continues the deletion that an owner has asked for: the first call shuts everybody out, and one a minute later deletes.
    /// The row may be a while old: a deletion that was taken back since does not begin.
    pub async fn delete_as_asked(&self, tenant: &tenants::Tenant) -> Result<()> {
        let now = self.clock.now();
        if tenant.deleting_at.is_some_and(|since| now.since(since) >= REQUESTS_IN_FLIGHT) {
            let rows = self.delete_everything(tenant.tenant_id).await?;
            info!(tenant = %tenant.tenant_id, rows, "an account was deleted, as its owner has asked");
            return Ok(());
        }
        self.store
            .write("begin_deletion", async |conn: &mut Conn| {
                let known = require(conn, tenant.tenant_id).await?;
                if known.deletion_at.is_some_and(|at| at <= now) {
                    shut_out(conn, &known, now).await?;
                }
                Ok(())
            })
            .await
    }

    /// Shuts everybody out of an account that is to be deleted; returns since when.
    async fn begin(&self, tenant: TenantId) -> Result<Timestamp> {
        self.store
            .write("begin_deletion", async |conn: &mut Conn| {
                let known = require(conn, tenant).await?;
                shut_out(conn, &known, self.clock.now()).await
            })
            .await
    }

    async fn delete_everything(&self, tenant: TenantId) -> Result<u64> {
        let tables = self.store.read("owned_tables", async |conn| closure::owned_tables(conn).await).await?;
        let mut deleted = 0;
        loop {
            deleted += self.delete_rows(tenant, &tables).await?;
            let fold = async |conn: &mut Conn| closure::fold_ledger(conn, tenant, STEP).await;
            while self.store.write("fold_ledger", fold).await? > 0 {}
            let finish =
                async |conn: &mut Conn| closure::finish_deletion(conn, tenant, self.clock.now()).await;
            if self.store.write("finish_deletion", finish).await? {
                break;
            }
        }
        // What was written while the last step ran.
        Ok(deleted + self.delete_rows(tenant, &tables).await?)
    }

    /// Waits, where nodes are running, until no request from before the suspension can be in flight.
    async fn let_requests_end(&self, suspended_at: Timestamp) -> Result<()> {
        let now = self.clock.now();
        let live = self
            .store
            .read("live_nodes", async |conn| nodes::seen_after(conn, now - HEARTBEAT_LIFETIME).await)
            .await?;
        if live > 0 {
            self.clock.sleep_until(suspended_at + REQUESTS_IN_FLIGHT).await;
        }
        Ok(())
    }

    async fn delete_rows(&self, tenant: TenantId, tables: &[closure::OwnedTable]) -> Result<u64> {
        let mut deleted = 0;
        for table in tables {
            loop {
                let step = async |conn: &mut Conn| closure::delete_rows(conn, table, tenant, STEP).await;
                match self.store.write("delete_of_tenant", step).await? {
                    0 => break,
                    rows => deleted += rows,
                }
            }
        }
        Ok(deleted)
    }
}

/// Suspends an account for its deletion; returns since when it is suspended.
async fn shut_out(conn: &mut Conn, known: &tenants::Tenant, now: Timestamp) -> Result<Timestamp> {
    closure::suspend(conn, known.tenant_id, now).await?;
    closure::begin_deletion(conn, known.tenant_id, now).await?;
    Ok(known.suspended_at.unwrap_or(now))
}

async fn require(conn: &mut Conn, tenant: TenantId) -> Result<tenants::Tenant> {
    let found = tenants::lock(conn, tenant).await?;
    found.ok_or_else(|| Error::new(Kind::NotFound, "there is no such tenant"))
}
