//! Invitations to become a member of an account. Only hashes of their tokens are stored.

use model::{MemberRole, TenantId, Timestamp, UserId};
use uuid::Uuid;

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};
use crate::runtime::created_by::MadeBy;

/// An invitation.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Invitation {
    /// Its id.
    pub invitation_id: Uuid,
    /// The account.
    pub tenant_id: TenantId,
    /// Who is invited, as the address was written.
    pub email: String,
    /// The address in the form that is compared.
    pub email_key: String,
    /// What the new member may do.
    pub role: MemberRole,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT invitation_id, tenant_id, email, email_key, role, created_at, expires_at FROM invitations ",
            $rest
        )
    };
}

/// Stores an invitation by a member; an earlier one to the same address ends. Returns that, if it was open.
pub async fn put(
    conn: &mut Conn,
    invitation: &Invitation,
    maker: UserId,
    token_hash: &[u8; 32],
) -> Result<Option<Invitation>> {
    let replaced: Option<Invitation> = fetch_optional!(
        conn,
        "DELETE FROM invitations WHERE tenant_id = $1 AND email_key = $2
         RETURNING invitation_id, tenant_id, email, email_key, role, created_at, expires_at",
        invitation.tenant_id,
        &invitation.email_key
    )?;
    expect_one(execute!(
        conn,
        "INSERT INTO invitations (token_hash, invitation_id, tenant_id, email, email_key, role, created_at, expires_at,
             created_by_user)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        token_hash.as_slice(),
        invitation.invitation_id,
        invitation.tenant_id,
        &invitation.email,
        &invitation.email_key,
        invitation.role,
        invitation.created_at,
        invitation.expires_at,
        maker
    )?)?;
    Ok(replaced.filter(|replaced| replaced.expires_at > invitation.created_at))
}

/// The open invitations of an account, oldest first.
pub async fn of_tenant_after(
    conn: &mut Conn,
    tenant: TenantId,
    (created_at, invitation): (Timestamp, Uuid),
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Invitation>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND expires_at > $2 AND (created_at, invitation_id) > ($3, $4)
             ORDER BY created_at, invitation_id LIMIT $5"
        ),
        tenant,
        now,
        created_at,
        invitation,
        limit
    )
}

/// How many open invitations an account has.
pub async fn count(conn: &mut Conn, tenant: TenantId, now: Timestamp) -> Result<i64> {
    let (count,): (i64,) = fetch_one!(
        conn,
        "SELECT count(*) FROM invitations WHERE tenant_id = $1 AND expires_at > $2",
        tenant,
        now
    )?;
    Ok(count)
}

/// The open invitation of a token.
pub async fn find(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<Option<Invitation>> {
    fetch_optional!(conn, select!("WHERE token_hash = $1 AND expires_at > $2"), token_hash.as_slice(), now)
}

/// Redeems an open invitation; only one caller succeeds.
pub async fn take(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<Option<Invitation>> {
    fetch_optional!(
        conn,
        "DELETE FROM invitations WHERE token_hash = $1 AND expires_at > $2
         RETURNING invitation_id, tenant_id, email, email_key, role, created_at, expires_at",
        token_hash.as_slice(),
        now
    )
}

/// Withdraws an open invitation of an account, if there is one.
pub async fn delete(
    conn: &mut Conn,
    tenant: TenantId,
    invitation: Uuid,
    now: Timestamp,
) -> Result<Option<Invitation>> {
    fetch_optional!(
        conn,
        "DELETE FROM invitations WHERE tenant_id = $1 AND invitation_id = $2 AND expires_at > $3
         RETURNING invitation_id, tenant_id, email, email_key, role, created_at, expires_at",
        tenant,
        invitation,
        now
    )
}

/// The open invitations that a member sent, oldest first.
pub async fn made_by(
    conn: &mut Conn,
    tenant: TenantId,
    by: MadeBy,
    now: Timestamp,
) -> Result<Vec<Invitation>> {
    fetch_all!(
        conn,
        select!(
            "WHERE tenant_id = $1 AND (created_by_user = $2 OR ($3 AND created_by_user IS NULL)) AND expires_at > $4
             ORDER BY created_at, invitation_id"
        ),
        tenant,
        by.user,
        by.is_first,
        now
    )
}

/// Ends the open invitations that a member sent; returns them, oldest first.
pub async fn delete_made_by(
    conn: &mut Conn,
    tenant: TenantId,
    by: MadeBy,
    now: Timestamp,
) -> Result<Vec<Invitation>> {
    let mut ended: Vec<Invitation> = fetch_all!(
        conn,
        "DELETE FROM invitations
         WHERE tenant_id = $1 AND (created_by_user = $2 OR ($3 AND created_by_user IS NULL)) AND expires_at > $4
         RETURNING invitation_id, tenant_id, email, email_key, role, created_at, expires_at",
        tenant,
        by.user,
        by.is_first,
        now
    )?;
    ended.sort_by_key(|invitation| (invitation.created_at, invitation.invitation_id));
    Ok(ended)
}
