//! The second factor of people who sign in: TOTP secrets, passkeys in their place, and recovery codes.

use model::{TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_one};

/// Stores a new TOTP secret; false once two-factor is on.
pub async fn set_totp_secret(conn: &mut Conn, tenant: TenantId, user: UserId, sealed: &[u8]) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET totp_secret = $3 WHERE tenant_id = $1 AND user_id = $2 AND totp_enabled_at IS NULL",
        tenant,
        user,
        sealed
    )?;
    Ok(changed == 1)
}

/// Turns two-factor on with a secret; false if it is already on, or if the secret changed meanwhile.
pub async fn enable_totp(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    sealed: &[u8],
    step: i64,
    now: Timestamp,
) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET totp_enabled_at = $5, totp_last_step = $4
         WHERE tenant_id = $1 AND user_id = $2 AND totp_secret = $3 AND totp_enabled_at IS NULL",
        tenant,
        user,
        sealed,
        step,
        now
    )?;
    Ok(changed == 1)
}

/// Turns two-factor on whose factor is a passkey; false if it is already on. A secret that was set up goes.
pub async fn require_passkey(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    now: Timestamp,
) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET totp_enabled_at = $3, totp_secret = NULL
         WHERE tenant_id = $1 AND user_id = $2 AND totp_enabled_at IS NULL",
        tenant,
        user,
        now
    )?;
    Ok(changed == 1)
}

/// Turns two-factor off and removes its secret and codes.
pub async fn disable_totp(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE users SET totp_secret = NULL, totp_enabled_at = NULL WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user
    )?)?;
    execute!(conn, "DELETE FROM recovery_codes WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    Ok(())
}

/// Redeems a TOTP step: true for one caller only, and only for a step newer than the last one used.
pub async fn take_totp_step(conn: &mut Conn, tenant: TenantId, user: UserId, step: i64) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET totp_last_step = $3
         WHERE tenant_id = $1 AND user_id = $2 AND totp_last_step < $3 AND totp_enabled_at IS NOT NULL",
        tenant,
        user,
        step
    )?;
    Ok(changed == 1)
}

/// Replaces all recovery codes.
pub async fn set_recovery_codes(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    hashes: &[[u8; 32]],
) -> Result<()> {
    execute!(conn, "DELETE FROM recovery_codes WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    for hash in hashes {
        expect_one(execute!(
            conn,
            "INSERT INTO recovery_codes (tenant_id, user_id, code_hash) VALUES ($1, $2, $3)",
            tenant,
            user,
            hash.as_slice()
        )?)?;
    }
    Ok(())
}

/// Redeems a recovery code: true for one caller only.
pub async fn take_recovery_code(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    hash: &[u8; 32],
) -> Result<bool> {
    let deleted = execute!(
        conn,
        "DELETE FROM recovery_codes WHERE tenant_id = $1 AND user_id = $2 AND code_hash = $3",
        tenant,
        user,
        hash.as_slice()
    )?;
    Ok(deleted == 1)
}

/// How many recovery codes are left.
pub async fn count_recovery_codes(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM recovery_codes WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user
    )?;
    Ok(count)
}
