//! Sessions and password reset links. Only hashes of their tokens are stored.

use model::api::TokenType;
use model::{KeyId, TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_one, fetch_optional};

/// Who a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A person who signed in.
    User(UserId),
    /// A legacy key that was exchanged for it.
    Key(KeyId),
}

/// A session that has not expired.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct Session {
    /// The account.
    pub tenant_id: TenantId,
    /// The person, for a console token.
    pub user_id: Option<UserId>,
    /// The legacy key, for a tenant token.
    pub key_id: Option<KeyId>,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// Opens a session.
pub async fn insert(
    conn: &mut Conn,
    tenant: TenantId,
    holder: Holder,
    token_hash: &[u8; 32],
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    let (kind, user, key) = match holder {
        Holder::User(user) => (TokenType::Console, Some(user), None),
        Holder::Key(key) => (TokenType::Tenant, None, Some(key)),
    };
    expect_one(execute!(
        conn,
        "INSERT INTO sessions (token_hash, tenant_id, kind, user_id, key_id, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        token_hash.as_slice(),
        tenant,
        kind,
        user,
        key,
        now,
        expires_at
    )?)
}

/// The session of this token, if it has not expired. A tenant token ends with its key.
pub async fn find(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<Option<Session>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, key_id, expires_at FROM sessions
         WHERE token_hash = $1 AND expires_at > $2
           AND (key_id IS NULL OR EXISTS (
                SELECT 1 FROM api_keys WHERE api_keys.key_id = sessions.key_id AND status = 'active' AND legacy_hash IS NOT NULL))",
        token_hash.as_slice(),
        now
    )
}

/// Ends every session of a person.
pub async fn delete_of_user(conn: &mut Conn, user: UserId) -> Result<u64> {
    execute!(conn, "DELETE FROM sessions WHERE user_id = $1", user)
}

/// Ends every session made from a key.
pub async fn delete_of_key(conn: &mut Conn, key: KeyId) -> Result<u64> {
    execute!(conn, "DELETE FROM sessions WHERE key_id = $1", key)
}

/// Stores a reset link. Earlier ones stay valid: whoever asks for another must not end the one that was mailed before.
pub async fn insert_reset(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    token_hash: &[u8; 32],
    expires_at: Timestamp,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO password_resets (token_hash, tenant_id, user_id, expires_at) VALUES ($1, $2, $3, $4)",
        token_hash.as_slice(),
        tenant,
        user,
        expires_at
    )?)
}

/// How many reset links of a person are valid.
pub async fn count_resets(conn: &mut Conn, user: UserId, now: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM password_resets WHERE user_id = $1 AND expires_at > $2",
        user,
        now
    )?;
    Ok(count)
}

/// Removes the reset links of a person.
pub async fn delete_resets_of_user(conn: &mut Conn, user: UserId) -> Result<u64> {
    execute!(conn, "DELETE FROM password_resets WHERE user_id = $1", user)
}

/// Whether a reset link exists and has not expired.
pub async fn find_reset(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<bool> {
    let found: Option<(UserId,)> = fetch_optional!(
        conn,
        "SELECT user_id FROM password_resets WHERE token_hash = $1 AND expires_at > $2",
        token_hash.as_slice(),
        now
    )?;
    Ok(found.is_some())
}

/// Redeems a reset link that has not expired; only one caller succeeds.
pub async fn take_reset(
    conn: &mut Conn,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(TenantId, UserId)>> {
    fetch_optional!(
        conn,
        "DELETE FROM password_resets WHERE token_hash = $1 AND expires_at > $2 RETURNING tenant_id, user_id",
        token_hash.as_slice(),
        now
    )
}

/// Removes expired sessions and reset links.
pub async fn sweep(conn: &mut Conn, now: Timestamp) -> Result<u64> {
    let sessions = execute!(conn, "DELETE FROM sessions WHERE expires_at <= $1", now)?;
    let resets = execute!(conn, "DELETE FROM password_resets WHERE expires_at <= $1", now)?;
    Ok(sessions + resets)
}
