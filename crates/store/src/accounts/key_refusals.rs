//! Refused requests that named a key of an account: counted by key, cause and minute, the newest ones only.

use model::api::KeyRefusalCause;
use model::{KeyId, TenantId, Timestamp};

use crate::db::{Conn, Result, execute, fetch_all};

/// Refused requests of one key, for one cause, within one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRefusal {
    /// Whose key it is.
    pub tenant: TenantId,
    /// The key.
    pub key: KeyId,
    /// Why.
    pub cause: KeyRefusalCause,
    /// The start of the minute.
    pub minute: Timestamp,
    /// How many requests there were since the last time this was written.
    pub requests: i64,
    /// When the newest of them came.
    pub at: Timestamp,
    /// What exactly was wrong with the newest.
    pub detail: Option<String>,
    /// The client's address of the newest.
    pub address: Option<String>,
    /// The id of the newest.
    pub request_id: Option<String>,
}

/// Refused requests as the account sees them.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Refused {
    /// The key.
    pub key_id: KeyId,
    /// Its public id.
    pub public_id: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub cause: KeyRefusalCause,
    /// How many requests there were.
    pub requests: i64,
    /// When the newest of them came.
    pub at: Timestamp,
    /// What exactly was wrong with the newest.
    pub detail: Option<String>,
    /// The client's address of the newest.
    pub address: Option<String>,
    /// The id of the newest.
    pub request_id: Option<String>,
}

/// Adds refused requests to those of the same minute. Does nothing if the key is gone.
pub async fn add(conn: &mut Conn, refusal: &NewRefusal) -> Result<()> {
    execute!(
        conn,
        "INSERT INTO key_refusals (tenant_id, key_id, cause, minute, requests, at, detail, address, request_id)
         SELECT tenant_id, key_id, $3, $4, $5, $6, $7, $8, $9 FROM api_keys WHERE tenant_id = $1 AND key_id = $2
         ON CONFLICT (tenant_id, key_id, cause, minute) DO UPDATE SET
             requests = key_refusals.requests + excluded.requests, at = excluded.at, detail = excluded.detail,
             address = excluded.address, request_id = excluded.request_id",
        refusal.tenant,
        refusal.key,
        refusal.cause,
        refusal.minute,
        refusal.requests,
        refusal.at,
        refusal.detail.as_deref(),
        refusal.address.as_deref(),
        refusal.request_id.as_deref()
    )?;
    Ok(())
}

/// Refused requests of a tenant's keys, newest first. Revoked keys count too.
pub async fn newest(conn: &mut Conn, tenant: TenantId, limit: i64) -> Result<Vec<Refused>> {
    fetch_all!(
        conn,
        "SELECT key_refusals.key_id, public_id, name, cause, requests, at, detail, address, request_id
         FROM key_refusals JOIN api_keys
           ON api_keys.tenant_id = key_refusals.tenant_id AND api_keys.key_id = key_refusals.key_id
         WHERE key_refusals.tenant_id = $1 ORDER BY at DESC, cause, key_refusals.key_id LIMIT $2",
        tenant,
        limit
    )
}

/// Drops all but the `kept` newest rows of a tenant. Of several at the oldest instant that is kept, all stay.
pub async fn drop_surplus(conn: &mut Conn, tenant: TenantId, kept: i64) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM key_refusals WHERE tenant_id = $1 AND at < (
             SELECT at FROM key_refusals WHERE tenant_id = $1 ORDER BY at DESC LIMIT 1 OFFSET $2)",
        tenant,
        kept - 1
    )
}

/// Drops the rows of a tenant from before an instant.
pub async fn drop_before(conn: &mut Conn, tenant: TenantId, before: Timestamp) -> Result<u64> {
    execute!(conn, "DELETE FROM key_refusals WHERE tenant_id = $1 AND at < $2", tenant, before)
}
