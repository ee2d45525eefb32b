//! Sign-ins that stopped after the right password.

use model::{TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_optional};

/// A sign-in with the right password whose second factor has not followed.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct UnfinishedSignIn {
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
pub async fn find(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Option<UnfinishedSignIn>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, unfinished_at, unfinished_address, unfinished_request_id FROM users
         WHERE tenant_id = $1 AND user_id = $2 AND unfinished_at IS NOT NULL",
        tenant,
        user
    )
}

/// The oldest unfinished sign-in from before an instant, of anybody.
pub async fn oldest(conn: &mut Conn, before: Timestamp) -> Result<Option<UnfinishedSignIn>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, unfinished_at, unfinished_address, unfinished_request_id FROM users
         WHERE unfinished_at IS NOT NULL AND unfinished_at < $1 ORDER BY unfinished_at LIMIT 1",
        before
    )
}

/// Keeps an unfinished sign-in, in place of the one before.
pub async fn keep(conn: &mut Conn, unfinished: &UnfinishedSignIn) -> Result<()> {
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
pub async fn forget(conn: &mut Conn, unfinished: &UnfinishedSignIn) -> Result<bool> {
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
