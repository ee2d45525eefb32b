//! Accounts at identity providers, linked to our users.

use model::{Provider, TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, fetch_all, fetch_optional};

/// A linked account at a provider.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Identity {
    /// Which provider.
    pub provider: Provider,
    /// The account here.
    pub tenant_id: TenantId,
    /// The user here.
    pub user_id: UserId,
    /// The address that the provider showed.
    pub email: String,
    /// When it was linked.
    pub created_at: Timestamp,
}

/// Links an account at a provider; false when it is already linked, or the user has another account of that provider linked.
pub async fn insert(conn: &mut Conn, identity: &Identity, subject: &str) -> Result<bool> {
    let added = execute!(
        conn,
        "INSERT INTO identities (provider, subject, tenant_id, user_id, email, created_at)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        identity.provider,
        subject,
        identity.tenant_id,
        identity.user_id,
        &identity.email,
        identity.created_at
    )?;
    Ok(added == 1)
}

/// Finds the user that an account at a provider is linked to.
pub async fn find(conn: &mut Conn, provider: Provider, subject: &str) -> Result<Option<Identity>> {
    fetch_optional!(
        conn,
        "SELECT provider, tenant_id, user_id, email, created_at FROM identities WHERE provider = $1 AND subject = $2",
        provider,
        subject
    )
}

/// The accounts that a user has linked, oldest first.
pub async fn of_user(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Vec<Identity>> {
    fetch_all!(
        conn,
        "SELECT provider, tenant_id, user_id, email, created_at FROM identities
         WHERE tenant_id = $1 AND user_id = $2 ORDER BY created_at, provider",
        tenant,
        user
    )
}

/// Unlinks a provider; says whether it was linked.
pub async fn delete(conn: &mut Conn, tenant: TenantId, user: UserId, provider: Provider) -> Result<bool> {
    let deleted = execute!(
        conn,
        "DELETE FROM identities WHERE tenant_id = $1 AND user_id = $2 AND provider = $3",
        tenant,
        user,
        provider
    )?;
    Ok(deleted == 1)
}
