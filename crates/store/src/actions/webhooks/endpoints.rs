//! Webhook endpoints: their settings, and how their receivers have been doing.

use std::time::Duration;

use model::{TenantId, Timestamp};
use sqlx::types::Json;
use uuid::Uuid;

use crate::db::{Backend, Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};
use crate::runtime::created_by::{CreatedBy, MadeBy};

/// An endpoint, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Endpoint {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Its id.
    pub endpoint_id: Uuid,
    /// Where deliveries go, sealed.
    pub sealed_url: Vec<u8>,
    /// What people call it; may be empty.
    pub description: String,
    /// Whether it gets deliveries.
    pub enabled: bool,
    /// Why the service disabled it.
    pub disabled_reason: Option<String>,
    /// The signals whose analyses it gets; empty: all.
    pub signal_keys: Json<Vec<String>>,
    /// The event types that it gets.
    pub events: Json<Vec<String>>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
    /// Its version, which every edit raises.
    pub version: i64,
    /// How long it was disabled before, in microseconds.
    pub disabled_us: i64,
    /// Since when it is disabled.
    pub disabled_at: Option<Timestamp>,
    /// Whether a new delivery may be sent at once: its receiver has not failed since it last succeeded, and its tenant is not
    /// suspended.
    pub is_ready: bool,
}

/// How an endpoint's receiver has been doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Circuit {
    /// Failures since the last success.
    pub consecutive_failures: i64,
    /// Rests since the last success.
    pub rests: i64,
    /// Nothing is sent before this.
    pub resting_until: Option<Timestamp>,
}

impl Endpoint {
    /// Enables or disables it.
    pub fn set_enabled(&mut self, enabled: bool, now: Timestamp) {
        match (self.enabled, enabled) {
            (true, false) => self.disabled_at = Some(now),
            (false, true) => {
                let disabled = now.since(self.disabled_at.take().unwrap_or(now));
                self.disabled_us += i64::try_from(disabled.as_micros()).unwrap_or(0);
            }
            _ => {}
        }
        self.enabled = enabled;
    }

    /// The time on a clock that stands still while the endpoint is disabled: deliveries age by it.
    pub fn active_time(&self, now: Timestamp) -> Timestamp {
        let now = if self.enabled { now } else { self.disabled_at.unwrap_or(now) };
        now - Duration::from_micros(self.disabled_us.unsigned_abs())
    }

    /// Whether it is enabled and gets events of this type.
    pub fn receives(&self, event: &str) -> bool {
        self.enabled && self.events.0.iter().any(|wanted| wanted == event)
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT tenant_id, endpoint_id, sealed_url, description, enabled, disabled_reason, signal_keys, events, \
                    created_at, updated_at, version, disabled_us, disabled_at, \
                    (consecutive_failures = 0 AND resting_until IS NULL AND (SELECT suspended_at FROM tenants \
                        WHERE tenants.tenant_id = webhook_endpoints.tenant_id) IS NULL) AS is_ready \
             FROM webhook_endpoints ",
            $rest
        )
    };
}

/// Adds an endpoint with its sealed secret.
pub async fn insert(conn: &mut Conn, endpoint: &Endpoint, sealed: &[u8], by: &CreatedBy) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO webhook_endpoints
             (tenant_id, endpoint_id, url, sealed_url, description, enabled, signal_keys, events, secret, created_at,
              updated_at, version, disabled_at, created_by, created_by_user, created_by_key)
         VALUES ($1, $2, '', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        endpoint.tenant_id,
        endpoint.endpoint_id,
        &endpoint.sealed_url,
        &endpoint.description,
        endpoint.enabled,
        &endpoint.signal_keys,
        &endpoint.events,
        sealed,
        endpoint.created_at,
        endpoint.updated_at,
        endpoint.version,
        endpoint.disabled_at,
        by.maker.as_str(),
        by.user,
        by.key
    )?)
}

/// The sealed secret of an endpoint.
pub async fn secret(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<Option<Vec<u8>>> {
    let found: Option<(Vec<u8>,)> = fetch_optional!(
        conn,
        "SELECT secret FROM webhook_endpoints WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint
    )?;
    Ok(found.map(|(secret,)| secret))
}

/// Gives an endpoint a new sealed secret. The one before stays in use until an instant, if it is given.
pub async fn set_secret(
    conn: &mut Conn,
    (tenant, endpoint): (TenantId, Uuid),
    sealed: &[u8],
    previous: Option<(&[u8], Timestamp)>,
) -> Result<()> {
    let (previous, until) = previous.unzip();
    expect_one(execute!(
        conn,
        "UPDATE webhook_endpoints SET secret = $3, previous_secret = $4, previous_until = $5
         WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint,
        sealed,
        previous,
        until
    )?)
}

/// Removes the previous secrets of a tenant that are no longer in use.
pub async fn drop_previous_secrets(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<u64> {
    execute!(
        conn,
        "UPDATE webhook_endpoints SET previous_secret = NULL, previous_until = NULL
         WHERE tenant_id = $1 AND previous_until <= $2",
        tenant,
        now
    )
}

/// The endpoints of a tenant, oldest first.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Endpoint>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 ORDER BY endpoint_id"), tenant)
}

/// An endpoint of a tenant.
pub async fn find(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<Option<Endpoint>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND endpoint_id = $2"), tenant, endpoint)
}

/// Counts the endpoints of a tenant.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) =
        fetch_one!(conn, "SELECT count(*) FROM webhook_endpoints WHERE tenant_id = $1", tenant)?;
    Ok(count)
}

/// Stores an edited endpoint, and returns its new version: one more than before, whoever edited it and by whichever clock.
pub async fn update(conn: &mut Conn, endpoint: &Endpoint) -> Result<i64> {
    let (version,): (i64,) = fetch_one!(
        conn,
        "UPDATE webhook_endpoints SET sealed_url = $3, description = $4, enabled = $5, signal_keys = $6, events = $7,
             updated_at = $8, version = version + 1, disabled_us = $9, disabled_at = $10, disabled_reason = $11
         WHERE tenant_id = $1 AND endpoint_id = $2 RETURNING version",
        endpoint.tenant_id,
        endpoint.endpoint_id,
        &endpoint.sealed_url,
        &endpoint.description,
        endpoint.enabled,
        &endpoint.signal_keys,
        &endpoint.events,
        endpoint.updated_at,
        endpoint.disabled_us,
        endpoint.disabled_at,
        &endpoint.disabled_reason
    )?;
    Ok(version)
}

/// Endpoints whose address a version before sealing left in the clear, at most `limit` of them.
pub async fn with_plain_url(conn: &mut Conn, limit: i64) -> Result<Vec<(TenantId, Uuid, String)>> {
    fetch_all!(
        conn,
        "SELECT tenant_id, endpoint_id, url FROM webhook_endpoints WHERE sealed_url IS NULL
         ORDER BY tenant_id, endpoint_id LIMIT $1",
        limit
    )
}

/// Replaces an address in the clear by its sealed form, unless another process has done so.
pub async fn seal_url(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, sealed: &[u8]) -> Result<()> {
    if conn.backend() == Backend::Sqlite {
        // The file keeps no copy in the free part of a page. PostgreSQL's vacuum removes the old row.
        execute!(conn, "PRAGMA secure_delete = ON")?;
    }
    execute!(
        conn,
        "UPDATE webhook_endpoints SET url = '', sealed_url = $3
         WHERE tenant_id = $1 AND endpoint_id = $2 AND sealed_url IS NULL",
        tenant,
        endpoint,
        sealed
    )?;
    Ok(())
}

/// The enabled endpoints that a person made, oldest first.
pub async fn enabled_made_by(conn: &mut Conn, tenant: TenantId, by: MadeBy) -> Result<Vec<Endpoint>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND enabled AND (created_by_user = $2 OR ($3 AND created_by IS NULL))
             ORDER BY endpoint_id"
        ),
        tenant,
        by.user,
        by.is_first
    )
}

/// Removes an endpoint; false when there is none. Its deliveries are hidden from then on, and removed in small steps
/// (`deliveries::drop_of_endpoint`).
pub async fn delete(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<bool> {
    let removed = execute!(
        conn,
        "DELETE FROM webhook_endpoints WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint
    )?;
    Ok(removed == 1)
}

/// Locks an endpoint until the transaction ends; returns its circuit and its version. None if it was deleted.
pub async fn circuit(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<Option<(Circuit, i64)>> {
    let statement = format!(
        "SELECT consecutive_failures, rests, resting_until, version FROM webhook_endpoints
         WHERE tenant_id = $1 AND endpoint_id = $2 {}",
        conn.backend().for_update()
    );
    let found: Option<(i64, i64, Option<Timestamp>, i64)> =
        fetch_optional!(conn, sqlx::AssertSqlSafe(statement), tenant, endpoint)?;
    Ok(found.map(|(consecutive_failures, rests, resting_until, version)| {
        (Circuit { consecutive_failures, rests, resting_until }, version)
    }))
}

/// The circuit of an endpoint, without locking it. None if it was deleted.
pub async fn read_circuit(conn: &mut Conn, tenant: TenantId, endpoint: Uuid) -> Result<Option<Circuit>> {
    fetch_optional!(
        conn,
        "SELECT consecutive_failures, rests, resting_until FROM webhook_endpoints
         WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint
    )
}

/// Stores the circuit of an endpoint.
pub async fn set_circuit(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, circuit: Circuit) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_endpoints SET consecutive_failures = $3, rests = $4, resting_until = $5
         WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint,
        circuit.consecutive_failures,
        circuit.rests,
        circuit.resting_until
    )?;
    Ok(())
}

/// Ends the rest of an endpoint, so that its receiver is tried at once; false if it is not resting.
pub async fn end_rest(conn: &mut Conn, tenant: TenantId, endpoint: Uuid, now: Timestamp) -> Result<bool> {
    let ended = execute!(
        conn,
        "UPDATE webhook_endpoints SET resting_until = $3, rests = 0
         WHERE tenant_id = $1 AND endpoint_id = $2 AND resting_until IS NOT NULL",
        tenant,
        endpoint,
        now
    )?;
    Ok(ended == 1)
}

/// Claims the right to try a receiver whose rest is over, until `until`: false if another has it, or has locked the endpoint.
/// It does not wait for the lock: the caller has locked other endpoints and could deadlock.
pub async fn claim_probe(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Uuid,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool> {
    let statement = format!(
        "WITH rested AS MATERIALIZED (
             SELECT endpoint_id AS rested_endpoint FROM webhook_endpoints
             WHERE tenant_id = $1 AND endpoint_id = $2 AND resting_until <= $3 {}
         )
         UPDATE webhook_endpoints SET resting_until = $4
         WHERE tenant_id = $1 AND endpoint_id IN (SELECT rested_endpoint FROM rested)",
        conn.backend().skip_locked()
    );
    let claimed = execute!(conn, sqlx::AssertSqlSafe(statement), tenant, endpoint, now, until)?;
    Ok(claimed == 1)
}

/// Gives the right to try a receiver back: nothing was sent.
pub async fn return_probe(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Uuid,
    resting_until: Option<Timestamp>,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_endpoints SET resting_until = $3 WHERE tenant_id = $1 AND endpoint_id = $2",
        tenant,
        endpoint,
        resting_until
    )?;
    Ok(())
}

/// Counts a time in which nothing was sent to any endpoint of a tenant as if they had been disabled: deliveries do not age in it.
pub async fn add_pause(conn: &mut Conn, tenant: TenantId, pause: Duration) -> Result<()> {
    execute!(
        conn,
        "UPDATE webhook_endpoints SET disabled_us = disabled_us + $2 WHERE tenant_id = $1 AND enabled",
        tenant,
        i64::try_from(pause.as_micros()).unwrap_or(i64::MAX)
    )?;
    Ok(())
}

/// Claims the right to email about dead deliveries of an endpoint: false if there was an email after `since`.
pub async fn claim_dead_mail(
    conn: &mut Conn,
    tenant: TenantId,
    endpoint: Uuid,
    now: Timestamp,
    since: Timestamp,
) -> Result<bool> {
    let claimed = execute!(
        conn,
        "UPDATE webhook_endpoints SET dead_mailed_at = $3
         WHERE tenant_id = $1 AND endpoint_id = $2 AND (dead_mailed_at IS NULL OR dead_mailed_at <= $4)",
        tenant,
        endpoint,
        now,
        since
    )?;
    Ok(claimed == 1)
}
