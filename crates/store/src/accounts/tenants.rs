//! Tenants and their settings.

use model::api::EventRetention;
use model::{TenantId, Timestamp};

use crate::db::audit::begin_chain;
use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

/// An account.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct Tenant {
    /// Its id.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// Whether a new signal is asked about existing objects.
    pub auto_backfill_signals: bool,
    /// How long raw events are kept.
    pub event_retention: EventRetention,
    /// How many days, with `days`.
    pub event_retention_days: Option<i64>,
    /// The share of analyzed objects that is drawn for a review, in percent.
    pub audit_rate_pct: f64,
    /// The queue of those reviews.
    pub audit_queue: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it is suspended.
    pub suspended_at: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_at: Option<Timestamp>,
    /// When it is to be deleted, if an owner has asked for that.
    pub deletion_at: Option<Timestamp>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, name, auto_backfill_signals, event_retention, event_retention_days, audit_rate_pct, \
             audit_queue, created_at, suspended_at, deleting_at, deletion_at FROM tenants ",
            $rest
        )
    };
}

/// Makes a tenant with the default settings.
pub async fn insert(conn: &mut Conn, tenant: TenantId, name: &str, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, $2, $3)",
        tenant,
        name,
        now
    )?)?;
    // From the first day: an account without a chain has lost it.
    begin_chain(conn, tenant).await
}

/// The tenant, if there is one.
pub async fn find(conn: &mut Conn, tenant: TenantId) -> Result<Option<Tenant>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1"), tenant)
}

/// Finds the tenant and locks it until the transaction ends, so that concurrent changes lose nothing.
pub async fn lock(conn: &mut Conn, tenant: TenantId) -> Result<Option<Tenant>> {
    // On SQLite the write transaction is the lock; on PostgreSQL an update that changes nothing locks the row.
    execute!(conn, "UPDATE tenants SET name = name WHERE tenant_id = $1", tenant)?;
    find(conn, tenant).await
}

/// Whether there is any tenant.
pub async fn is_any(conn: &mut Conn) -> Result<bool> {
    let any: Option<(TenantId,)> = fetch_optional!(conn, "SELECT tenant_id FROM tenants LIMIT 1")?;
    Ok(any.is_some())
}

/// Every tenant, oldest first: for operators.
pub async fn all(conn: &mut Conn) -> Result<Vec<Tenant>> {
    fetch_all!(conn, select!("ORDER BY created_at, tenant_id"))
}

/// The next tenants after one in the order of their ids, up to `limit`.
pub async fn after(conn: &mut Conn, after: TenantId, limit: i64) -> Result<Vec<Tenant>> {
    fetch_all!(conn, select!("WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2"), after, limit)
}

/// A tenant with what it has and stores.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct TenantTotals {
    /// Its id.
    pub tenant_id: TenantId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it is suspended.
    pub suspended_at: Option<Timestamp>,
    /// When it is to be deleted, if an owner has asked for that.
    pub deletion_at: Option<Timestamp>,
    /// How many members it has.
    pub members: i64,
    /// Its balance.
    pub balance_micros: i64,
    /// The bytes of contents and metadata of its events.
    pub storage_bytes: i64,
}

/// The tenants after one, in the order of their ids, which is that of their making: for operators.
pub async fn totals_after(conn: &mut Conn, after: TenantId, limit: i64) -> Result<Vec<TenantTotals>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, name, created_at, suspended_at, deletion_at,
                (SELECT count(*) FROM users WHERE users.tenant_id = page.tenant_id) AS members,
                (SELECT coalesce(max(balance_micros), 0) FROM balances
                 WHERE balances.tenant_id = page.tenant_id) AS balance_micros,
                (SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM storage_tallies
                 WHERE storage_tallies.tenant_id = page.tenant_id) AS storage_bytes
         FROM (SELECT tenant_id, name, created_at, suspended_at, deletion_at FROM tenants
               WHERE tenant_id > $1 AND deleting_at IS NULL ORDER BY tenant_id LIMIT $2) AS page
         ORDER BY tenant_id",
        after,
        limit
    )
}

/// Sets when a tenant is to be deleted, or that it is not.
pub async fn set_deletion(conn: &mut Conn, tenant: TenantId, at: Option<Timestamp>) -> Result<()> {
    expect_one(execute!(conn, "UPDATE tenants SET deletion_at = $2 WHERE tenant_id = $1", tenant, at)?)
}

/// Writes the settings of a tenant.
pub async fn set_settings(conn: &mut Conn, tenant: &Tenant) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE tenants SET auto_backfill_signals = $2, event_retention = $3, event_retention_days = $4,
             audit_rate_pct = $5, audit_queue = $6
         WHERE tenant_id = $1",
        tenant.tenant_id,
        tenant.auto_backfill_signals,
        tenant.event_retention,
        tenant.event_retention_days,
        tenant.audit_rate_pct,
        &tenant.audit_queue
    )?)
}
