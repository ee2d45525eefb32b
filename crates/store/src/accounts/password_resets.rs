//! Links that reset a password. The sweep of expired ones is with that of sessions.

use model::{TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_optional};

/// Stores a reset link. Earlier ones stay valid: whoever asks for another must not end the one that was mailed before.
pub async fn insert(
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

/// Removes the reset links of a person.
pub async fn delete_of_user(conn: &mut Conn, user: UserId) -> Result<u64> {
    execute!(conn, "DELETE FROM password_resets WHERE user_id = $1", user)
}

/// Whose a reset link is that has not expired.
pub async fn find(
    conn: &mut Conn,
    token_hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(TenantId, UserId)>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id FROM password_resets WHERE token_hash = $1 AND expires_at > $2",
        token_hash.as_slice(),
        now
    )
}

/// Redeems a reset link that has not expired; only one caller succeeds.
pub async fn take(
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
