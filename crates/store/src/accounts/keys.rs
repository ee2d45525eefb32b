//! API keys.

use model::api::APIKeyStatus;
use model::{KeyId, KeyKind, TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};
use crate::runtime::created_by::{CreatedBy, MadeBy};

/// An API key, with its secret still sealed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Key {
    /// Its id.
    pub key_id: KeyId,
    /// Its public id, which requests carry.
    pub public_id: String,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// What people call it.
    pub name: String,
    /// Whether it authenticates.
    pub status: APIKeyStatus,
    /// How it authenticates.
    pub kind: KeyKind,
    /// Its scopes, unless it has all.
    pub scopes: Option<String>,
    /// The hash of a bearer key.
    pub bearer_hash: Option<Vec<u8>>,
    /// The sealed signing secret; none for a legacy key or a bearer key.
    pub secret: Option<Vec<u8>>,
    /// The hash of the legacy key, until it is rotated.
    pub legacy_hash: Option<Vec<u8>>,
    /// The first characters of the legacy key.
    pub legacy_preview: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last authenticated, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it last authenticated by its legacy key.
    pub legacy_used_at: Option<Timestamp>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key_id, public_id, tenant_id, name, status, kind, scopes, bearer_hash, secret, legacy_hash, legacy_preview, created_at, \
             last_used_at, legacy_used_at FROM api_keys ",
            $rest
        )
    };
}

/// Adds a key; false when its public id or its legacy key is taken.
pub async fn insert(conn: &mut Conn, key: &Key, by: &CreatedBy) -> Result<bool> {
    let added = execute!(
        conn,
        "INSERT INTO api_keys (key_id, public_id, tenant_id, name, status, secret, legacy_hash, legacy_preview, created_at,
             created_by, created_by_user, created_by_key, kind, scopes, bearer_hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT DO NOTHING",
        key.key_id,
        &key.public_id,
        key.tenant_id,
        &key.name,
        key.status,
        &key.secret,
        &key.legacy_hash,
        &key.legacy_preview,
        key.created_at,
        by.maker.as_str(),
        by.user,
        by.key,
        key.kind,
        &key.scopes,
        &key.bearer_hash
    )?;
    Ok(added == 1)
}

/// The keys of a tenant that are not revoked, oldest first.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<Key>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND status <> 'revoked' ORDER BY created_at, key_id"),
        tenant
    )
}

/// How many keys of a tenant are not revoked.
pub async fn count(conn: &mut Conn, tenant: TenantId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND status <> 'revoked'",
        tenant
    )?;
    Ok(count)
}

/// A key of a tenant that is not revoked.
pub async fn find(conn: &mut Conn, tenant: TenantId, key: KeyId) -> Result<Option<Key>> {
    fetch_optional!(
        conn,
        select!("WHERE tenant_id = $1 AND key_id = $2 AND status <> 'revoked'"),
        tenant,
        key
    )
}

/// The key with this public id, whatever its status: a revoked one too.
pub async fn by_public_id(conn: &mut Conn, public_id: &str) -> Result<Option<Key>> {
    fetch_optional!(conn, select!("WHERE public_id = $1"), public_id)
}

/// The key whose legacy key has this hash, active or not.
pub async fn by_legacy_hash(conn: &mut Conn, hash: &[u8; 32]) -> Result<Option<Key>> {
    fetch_optional!(conn, select!("WHERE legacy_hash = $1"), hash.as_slice())
}

/// The bearer key with this hash, active or not.
pub async fn by_bearer_hash(conn: &mut Conn, hash: &[u8; 32]) -> Result<Option<Key>> {
    fetch_optional!(conn, select!("WHERE bearer_hash = $1"), hash.as_slice())
}

/// The keys of a tenant that a person made and that are not revoked, oldest first.
pub async fn made_by(conn: &mut Conn, tenant: TenantId, by: MadeBy) -> Result<Vec<Key>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND status <> 'revoked' AND (created_by_user = $2 OR ($3 AND created_by IS NULL))
             ORDER BY created_at, key_id"
        ),
        tenant,
        by.user,
        by.is_first
    )
}

/// Changes the name, the status or both of a key that is not revoked; false when there is none.
pub async fn update(
    conn: &mut Conn,
    tenant: TenantId,
    key: KeyId,
    name: Option<&str>,
    status: Option<APIKeyStatus>,
) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE api_keys SET name = coalesce($3, name), status = coalesce($4, status)
         WHERE tenant_id = $1 AND key_id = $2 AND status <> 'revoked'",
        tenant,
        key,
        name,
        status
    )?;
    Ok(changed == 1)
}

/// A new secret of a key.
#[derive(Clone, Copy, Debug)]
pub enum NewSecret<'a> {
    /// A sealed signing secret.
    Sealed(&'a [u8]),
    /// The hash of a bearer key.
    BearerHash(&'a [u8; 32]),
}

/// Gives a key a new secret and removes its legacy key; false when there is no such key. Whoever does so is its maker from then
/// on: they know the secret.
pub async fn rotate(
    conn: &mut Conn,
    tenant: TenantId,
    key: KeyId,
    secret: NewSecret<'_>,
    by: &CreatedBy,
) -> Result<bool> {
    let (sealed, bearer_hash) = match secret {
        NewSecret::Sealed(sealed) => (Some(sealed), None),
        NewSecret::BearerHash(hash) => (None, Some(hash.as_slice())),
    };
    let changed = execute!(
        conn,
        "UPDATE api_keys SET secret = $3, bearer_hash = $7, legacy_hash = NULL, legacy_preview = NULL,
             created_by = $4, created_by_user = $5, created_by_key = $6
         WHERE tenant_id = $1 AND key_id = $2 AND status <> 'revoked'",
        tenant,
        key,
        sealed,
        by.maker.as_str(),
        by.user,
        by.key,
        bearer_hash
    )?;
    Ok(changed == 1)
}

/// Revokes a key; false when there is none. Its public id stays taken.
pub async fn revoke(conn: &mut Conn, tenant: TenantId, key: KeyId) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE api_keys SET status = 'revoked', secret = NULL, bearer_hash = NULL, legacy_hash = NULL
         WHERE tenant_id = $1 AND key_id = $2 AND status <> 'revoked'",
        tenant,
        key
    )?;
    Ok(changed == 1)
}

/// Who made a key: how, unless that is not known, and the person behind it.
pub async fn maker(
    conn: &mut Conn,
    tenant: TenantId,
    key: KeyId,
) -> Result<Option<(Option<String>, Option<UserId>)>> {
    fetch_optional!(
        conn,
        "SELECT created_by, created_by_user FROM api_keys WHERE tenant_id = $1 AND key_id = $2",
        tenant,
        key
    )
}

/// Revokes every key that a person made, and ends the sessions made from them; returns the keys as they were, oldest first.
pub async fn revoke_made_by(conn: &mut Conn, tenant: TenantId, by: MadeBy) -> Result<Vec<Key>> {
    let revoked = made_by(conn, tenant, by).await?;
    execute!(
        conn,
        "DELETE FROM sessions WHERE key_id IN (
             SELECT key_id FROM api_keys WHERE tenant_id = $1 AND status <> 'revoked'
                AND (created_by_user = $2 OR ($3 AND created_by IS NULL)))",
        tenant,
        by.user,
        by.is_first
    )?;
    execute!(
        conn,
        "UPDATE api_keys SET status = 'revoked', secret = NULL, bearer_hash = NULL, legacy_hash = NULL
         WHERE tenant_id = $1 AND status <> 'revoked' AND (created_by_user = $2 OR ($3 AND created_by IS NULL))",
        tenant,
        by.user,
        by.is_first
    )?;
    Ok(revoked)
}

/// Records when a key was used, and whether by its legacy key.
pub async fn touch(
    conn: &mut Conn,
    tenant: TenantId,
    key: KeyId,
    now: Timestamp,
    is_legacy: bool,
) -> Result<()> {
    let legacy_used_at = is_legacy.then_some(now);
    expect_one(execute!(
        conn,
        "UPDATE api_keys SET last_used_at = $3, legacy_used_at = coalesce($4, legacy_used_at)
         WHERE tenant_id = $1 AND key_id = $2",
        tenant,
        key,
        now,
        legacy_used_at
    )?)
}
