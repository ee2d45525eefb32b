//! Passkeys, and the challenges that authenticators sign.

use model::{TenantId, Timestamp, UserId};
use uuid::Uuid;

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_one, fetch_optional};

/// A registered passkey.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Passkey {
    /// What the authenticator calls it.
    pub credential_id: String,
    /// Its id here.
    pub passkey_id: Uuid,
    /// The account.
    pub tenant_id: TenantId,
    /// Whose it is.
    pub user_id: UserId,
    /// What the authenticator calls its owner.
    pub user_handle: Uuid,
    /// What the verifier knows about it.
    pub credential: String,
    /// What its owner calls it.
    pub name: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
}

/// A challenge that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Challenge {
    /// Who adds a passkey with it; none where somebody signs in.
    pub user_id: Option<UserId>,
    /// The handle of the new passkey.
    pub user_handle: Option<Uuid>,
    /// What the verifier wants back.
    pub state: String,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT credential_id, passkey_id, tenant_id, user_id, user_handle, credential, name, created_at, \
             last_used_at FROM passkeys ",
            $rest
        )
    };
}

/// Adds a passkey; false when the authenticator's is registered already, here or elsewhere.
pub async fn insert(conn: &mut Conn, passkey: &Passkey) -> Result<bool> {
    let added = execute!(
        conn,
        "INSERT INTO passkeys (credential_id, passkey_id, tenant_id, user_id, user_handle, credential, name, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
        &passkey.credential_id,
        passkey.passkey_id,
        passkey.tenant_id,
        passkey.user_id,
        passkey.user_handle,
        &passkey.credential,
        &passkey.name,
        passkey.created_at
    )?;
    Ok(added == 1)
}

/// The passkeys of a user, oldest first.
pub async fn of_user(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<Vec<Passkey>> {
    fetch_all!(
        conn,
        select!("WHERE tenant_id = $1 AND user_id = $2 ORDER BY created_at, passkey_id"),
        tenant,
        user
    )
}

/// The passkey that an authenticator calls by this name.
pub async fn by_credential(conn: &mut Conn, credential_id: &str) -> Result<Option<Passkey>> {
    fetch_optional!(conn, select!("WHERE credential_id = $1"), credential_id)
}

/// Records that a passkey was used; false when it has been removed, or used otherwise since it was read.
pub async fn set_used(conn: &mut Conn, passkey: &Passkey, credential: &str, now: Timestamp) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE passkeys SET credential = $2, last_used_at = $3 WHERE credential_id = $1 AND credential = $4",
        &passkey.credential_id,
        credential,
        now,
        &passkey.credential
    )?;
    Ok(changed == 1)
}

/// Renames a passkey of a user; false when there is none.
pub async fn rename(
    conn: &mut Conn,
    (tenant, user): (TenantId, UserId),
    id: Uuid,
    name: &str,
) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE passkeys SET name = $4 WHERE tenant_id = $1 AND user_id = $2 AND passkey_id = $3",
        tenant,
        user,
        id,
        name
    )?;
    Ok(changed == 1)
}

/// Removes a passkey of a user; false when there is none.
pub async fn delete(conn: &mut Conn, tenant: TenantId, user: UserId, id: Uuid) -> Result<bool> {
    let removed = execute!(
        conn,
        "DELETE FROM passkeys WHERE tenant_id = $1 AND user_id = $2 AND passkey_id = $3",
        tenant,
        user,
        id
    )?;
    Ok(removed == 1)
}

/// Removes all passkeys of a user, and what they started to add; returns how many passkeys there were.
pub async fn delete_of_user(conn: &mut Conn, tenant: TenantId, user: UserId) -> Result<u64> {
    delete_challenges_of(conn, user).await?;
    execute!(conn, "DELETE FROM passkeys WHERE tenant_id = $1 AND user_id = $2", tenant, user)
}

/// Stores a challenge.
pub async fn insert_challenge(
    conn: &mut Conn,
    hash: &[u8; 32],
    challenge: &Challenge,
    expires_at: Timestamp,
) -> Result<()> {
    expect_one(execute!(
        conn,
        "INSERT INTO passkey_challenges (challenge_hash, user_id, user_handle, state, expires_at)
         VALUES ($1, $2, $3, $4, $5)",
        hash.as_slice(),
        challenge.user_id,
        challenge.user_handle,
        &challenge.state,
        expires_at
    )?)
}

/// Withdraws the challenges with which a user adds a passkey.
pub async fn delete_challenges_of(conn: &mut Conn, user: UserId) -> Result<u64> {
    execute!(conn, "DELETE FROM passkey_challenges WHERE user_id = $1", user)
}

/// Makes room for the challenge of a sign-in, so that no more than `limit` of them wait. The oldest tenth goes at once, so that
/// a flood does not sort them for each; challenges of members who add a passkey stay.
pub async fn make_room(conn: &mut Conn, limit: i64) -> Result<u64> {
    let (waiting,): (i64,) = fetch_one!(
        conn,
        "SELECT COUNT(*) FROM (SELECT 1 FROM passkey_challenges WHERE user_id IS NULL LIMIT $1) AS waiting",
        limit
    )?;
    if waiting < limit {
        return Ok(0);
    }
    execute!(
        conn,
        "DELETE FROM passkey_challenges WHERE challenge_hash IN (
             SELECT challenge_hash FROM passkey_challenges WHERE user_id IS NULL ORDER BY expires_at LIMIT $1)",
        limit / 10 + 1
    )
}

/// Uses up a challenge that has not expired; only one caller gets it.
pub async fn take_challenge(conn: &mut Conn, hash: &[u8; 32], now: Timestamp) -> Result<Option<Challenge>> {
    fetch_optional!(
        conn,
        "DELETE FROM passkey_challenges WHERE challenge_hash = $1 AND expires_at > $2
         RETURNING user_id, user_handle, state",
        hash.as_slice(),
        now
    )
}
