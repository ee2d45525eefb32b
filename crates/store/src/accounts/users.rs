//! The people who sign in, and their passwords.

use model::{MemberRole, TenantId, Timestamp, UserId};

use crate::accounts::passkeys;
use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

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
