//! The people who sign in, their passwords and their second factor.

use model::{MemberRole, TenantId, Timestamp, UserId};

use crate::accounts::passkeys;
use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};

/// A person who signs in to the console.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct User {
    /// Their id.
    pub user_id: UserId,
    /// Their account.
    pub tenant_id: TenantId,
    /// Their address, as they wrote it.
    pub email: String,
    /// When the address was verified.
    pub email_verified_at: Option<Timestamp>,
    /// Argon2id, in PHC form; none for those who only sign in through a provider.
    pub password_hash: Option<String>,
    /// What they may do.
    pub role: MemberRole,
    /// Whether they have finished onboarding.
    pub onboarded: bool,
    /// The sealed TOTP secret, once set up.
    pub totp_secret: Option<Vec<u8>>,
    /// Since when two-factor is on.
    pub totp_enabled_at: Option<Timestamp>,
    /// When they were added.
    pub created_at: Timestamp,
}

/// A person about to be added.
#[derive(Debug)]
pub struct NewUser<'a> {
    /// Their id.
    pub user_id: UserId,
    /// Their account.
    pub tenant_id: TenantId,
    /// Their address, as they wrote it.
    pub email: &'a str,
    /// The address in the form that is compared.
    pub email_key: &'a str,
    /// When the address was verified.
    pub email_verified_at: Option<Timestamp>,
    /// Argon2id, in PHC form.
    pub password_hash: Option<&'a str>,
    /// What they may do.
    pub role: MemberRole,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT user_id, tenant_id, email, email_verified_at, password_hash, role, onboarded, totp_secret, \
             totp_enabled_at, created_at FROM users ",
            $rest
        )
    };
}

/// Adds a person; false when the address is taken.
pub async fn insert(conn: &mut Conn, user: &NewUser<'_>, now: Timestamp) -> Result<bool> {
    let added = execute!(
        conn,
        "INSERT INTO users (user_id, tenant_id, email, email_key, email_verified_at, password_hash, role, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (email_key) DO NOTHING",
        user.user_id,
        user.tenant_id,
        user.email,
        user.email_key,
        user.email_verified_at,
        user.password_hash,
        user.role,
        now
    )?;
    Ok(added == 1)
}

/// The person with this address, in any account.
pub async fn by_email(conn: &mut Conn, email_key: &str) -> Result<Option<User>> {
    fetch_optional!(conn, select!("WHERE email_key = $1"), email_key)
}

/// A person of this account.
pub async fn find(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Option<User>> {
    fetch_optional!(conn, select!("WHERE tenant_id = $1 AND user_id = $2"), tenant, user)
}

/// Locks a person until the transaction ends.
pub async fn lock(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<()> {
    // On SQLite the write transaction is the lock; on PostgreSQL an update that changes nothing locks the row.
    execute!(conn, "UPDATE users SET role = role WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    Ok(())
}

/// Everybody in this account.
pub async fn of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Vec<User>> {
    fetch_all!(conn, select!("WHERE tenant_id = $1 ORDER BY created_at, user_id"), tenant)
}

/// The people of a tenant after one, oldest first.
pub async fn of_tenant_after(
    conn: &mut Conn,
    tenant: TenantId,
    (created_at, user): (Timestamp, UserId),
    limit: i64,
) -> Result<Vec<User>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND (created_at, user_id) > ($2, $3) ORDER BY created_at, user_id LIMIT $4"
        ),
        tenant,
        created_at,
        user,
        limit
    )
}

/// Changes what a person may do; false when there is no such person.
pub async fn set_role(conn: &mut Conn, tenant: TenantId, user: UserId, role: MemberRole) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET role = $3 WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user,
        role
    )?;
    Ok(changed == 1)
}

/// Removes a person with everything that only they have: sessions, links, identities, passkeys, codes and settings. What they made stays.
pub async fn delete(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<()> {
    // A sign-in that is under way comes before this or finds nobody.
    lock(conn, tenant, user).await?;
    execute!(conn, "DELETE FROM sessions WHERE user_id = $1", user)?;
    execute!(conn, "DELETE FROM password_resets WHERE user_id = $1", user)?;
    execute!(conn, "DELETE FROM email_verifications WHERE user_id = $1", user)?;
    execute!(conn, "DELETE FROM identities WHERE user_id = $1", user)?;
    passkeys::delete_of_user(conn, tenant, user).await?;
    execute!(conn, "DELETE FROM recovery_codes WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    execute!(conn, "DELETE FROM notification_optouts WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    execute!(conn, "DELETE FROM known_networks WHERE tenant_id = $1 AND user_id = $2", tenant, user)?;
    expect_one(execute!(conn, "DELETE FROM users WHERE tenant_id = $1 AND user_id = $2", tenant, user)?)
}

/// The addresses of an account that were proved, as they were written and in the form that is compared, oldest member first.
pub async fn proved(conn: &mut Conn, tenant: TenantId) -> Result<Vec<(String, String)>> {
    fetch_all!(
        conn,
        "SELECT email, email_key FROM users WHERE tenant_id = $1 AND email_verified_at IS NOT NULL
         ORDER BY created_at, user_id",
        tenant
    )
}

/// The first person of this account; none while it has nobody.
pub async fn first_of_tenant(conn: &mut Conn, tenant: TenantId) -> Result<Option<UserId>> {
    let found: Option<(UserId,)> = fetch_optional!(
        conn,
        "SELECT user_id FROM users WHERE tenant_id = $1 ORDER BY created_at, user_id LIMIT 1",
        tenant
    )?;
    Ok(found.map(|(user,)| user))
}

/// Sets, changes or removes a password.
pub async fn set_password(conn: &mut Conn, tenant: TenantId, user: UserId, hash: Option<&str>) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE users SET password_hash = $3 WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user,
        hash
    )?)
}

/// Records that the address was verified; the first time counts.
pub async fn verify_email(conn: &mut Conn, tenant: TenantId, user: UserId, now: Timestamp) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE users SET email_verified_at = coalesce(email_verified_at, $3) WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user,
        now
    )?)
}

/// Records that onboarding is done; false when there is no such person.
pub async fn set_onboarded(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET onboarded = TRUE WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user
    )?;
    Ok(changed == 1)
}

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

/// A sign-in with the right password whose second factor has not followed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Unfinished {
    /// The account.
    pub tenant_id: TenantId,
    /// Whose.
    pub user_id: UserId,
    /// When.
    pub unfinished_at: Timestamp,
    /// From where.
    pub unfinished_address: Option<String>,
    /// In which request.
    pub unfinished_request_id: Option<String>,
}

/// The unfinished sign-in of a person, if there is one.
pub async fn unfinished(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Option<Unfinished>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, unfinished_at, unfinished_address, unfinished_request_id FROM users
         WHERE tenant_id = $1 AND user_id = $2 AND unfinished_at IS NOT NULL",
        tenant,
        user
    )
}

/// The oldest unfinished sign-in from before an instant, of anybody.
pub async fn oldest_unfinished(conn: &mut Conn, before: Timestamp) -> Result<Option<Unfinished>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, unfinished_at, unfinished_address, unfinished_request_id FROM users
         WHERE unfinished_at IS NOT NULL AND unfinished_at < $1 ORDER BY unfinished_at LIMIT 1",
        before
    )
}

/// Keeps an unfinished sign-in, in place of the one before.
pub async fn set_unfinished(conn: &mut Conn, unfinished: &Unfinished) -> Result<()> {
    expect_one(execute!(
        conn,
        "UPDATE users SET unfinished_at = $3, unfinished_address = $4, unfinished_request_id = $5
         WHERE tenant_id = $1 AND user_id = $2",
        unfinished.tenant_id,
        unfinished.user_id,
        unfinished.unfinished_at,
        &unfinished.unfinished_address,
        &unfinished.unfinished_request_id
    )?)
}

/// Forgets an unfinished sign-in; false when it is gone already.
pub async fn forget_unfinished(conn: &mut Conn, unfinished: &Unfinished) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE users SET unfinished_at = NULL, unfinished_address = NULL, unfinished_request_id = NULL
         WHERE tenant_id = $1 AND user_id = $2 AND unfinished_at = $3",
        unfinished.tenant_id,
        unfinished.user_id,
        unfinished.unfinished_at
    )?;
    Ok(changed == 1)
}

/// Forgets the unfinished sign-in of a person from an address: it has gone on.
pub async fn finish(conn: &mut Conn, tenant: TenantId, user: UserId, address: &str) -> Result<()> {
    execute!(
        conn,
        "UPDATE users SET unfinished_at = NULL, unfinished_address = NULL, unfinished_request_id = NULL
         WHERE tenant_id = $1 AND user_id = $2 AND unfinished_address = $3",
        tenant,
        user,
        address
    )?;
    Ok(())
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

/// The email events that this person has opted out of.
pub async fn optouts(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Vec<String>> {
    let events: Vec<(String,)> = fetch_all!(
        conn,
        "SELECT event FROM notification_optouts WHERE tenant_id = $1 AND user_id = $2",
        tenant,
        user
    )?;
    Ok(events.into_iter().map(|(event,)| event).collect())
}

/// Sets whether this person gets the emails of an event.
pub async fn set_optout(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    event: &str,
    wanted: bool,
) -> Result<()> {
    if wanted {
        execute!(
            conn,
            "DELETE FROM notification_optouts WHERE tenant_id = $1 AND user_id = $2 AND event = $3",
            tenant,
            user,
            event
        )?;
    } else {
        execute!(
            conn,
            "INSERT INTO notification_optouts (tenant_id, user_id, event) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            tenant,
            user,
            event
        )?;
    }
    Ok(())
}

/// Everybody in this account who gets the emails of an event.
pub async fn recipients(conn: &mut Conn, tenant: TenantId, event: &str) -> Result<Vec<User>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND NOT EXISTS (
                 SELECT 1 FROM notification_optouts AS optout
                 WHERE optout.tenant_id = users.tenant_id AND optout.user_id = users.user_id AND optout.event = $2)
             ORDER BY created_at, user_id"
        ),
        tenant,
        event
    )
}
