//! Sessions. Only hashes of their tokens are stored.

use std::time::Duration;

use model::api::TokenType;
use model::{KeyId, MemberRole, TenantId, Timestamp, UserId};

use crate::db::{Conn, Result, execute, expect_one, fetch_all, fetch_optional};

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
    /// What the person may do, for a console token.
    pub role: Option<MemberRole>,
    /// The legacy key, for a tenant token.
    pub key_id: Option<KeyId>,
    /// The scopes of the legacy key, unless it has all.
    pub scopes: Option<String>,
    /// When it ends.
    pub expires_at: Timestamp,
    /// When it was last used, to about a minute.
    pub last_seen_at: Timestamp,
    /// When it last showed a password, a code, a passkey or a provider.
    pub proved_at: Timestamp,
}

/// A session about to be opened.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// The account.
    pub tenant_id: TenantId,
    /// Whose it is.
    pub holder: Holder,
    /// The hash of its token.
    pub token_hash: &'a [u8; 32],
    /// The client's address.
    pub address: Option<&'a str>,
    /// What the client calls itself.
    pub agent: Option<&'a str>,
    /// Now.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A session as its holder sees it.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct OpenSession {
    /// The hash of its token.
    pub token_hash: Vec<u8>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was last used, to about a minute.
    pub last_seen_at: Timestamp,
    /// Where it was last used from.
    pub address: Option<String>,
    /// What the client called itself then.
    pub agent: Option<String>,
}

/// Opens a session.
pub async fn insert(conn: &mut Conn, session: &NewSession<'_>) -> Result<()> {
    let (kind, user, key) = match session.holder {
        Holder::User(user) => (TokenType::Console, Some(user), None),
        Holder::Key(key) => (TokenType::Tenant, None, Some(key)),
    };
    expect_one(execute!(
        conn,
        "INSERT INTO sessions (token_hash, tenant_id, kind, user_id, key_id, created_at, expires_at, last_seen_at, proved_at,
             address, agent)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $6, $6, $8, $9)",
        session.token_hash.as_slice(),
        session.tenant_id,
        kind,
        user,
        key,
        session.created_at,
        session.expires_at,
        session.address,
        session.agent
    )?)
}

/// The session of this token, if it has not expired. A tenant token ends with its key.
pub async fn find(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<Option<Session>> {
    fetch_optional!(
        conn,
        "SELECT tenant_id, user_id, key_id, expires_at, coalesce(last_seen_at, created_at) AS last_seen_at,
             coalesce(proved_at, created_at) AS proved_at,
             (SELECT role FROM users WHERE users.user_id = sessions.user_id) AS role,
             (SELECT scopes FROM api_keys WHERE api_keys.key_id = sessions.key_id) AS scopes
         FROM sessions
         WHERE token_hash = $1 AND expires_at > $2
           AND (key_id IS NULL OR EXISTS (
                SELECT 1 FROM api_keys WHERE api_keys.key_id = sessions.key_id AND status = 'active' AND legacy_hash IS NOT NULL))",
        token_hash.as_slice(),
        now
    )
}

/// The newest open sessions of a person, newest first.
pub async fn of_user(conn: &mut Conn, user: UserId, now: Timestamp, limit: i64) -> Result<Vec<OpenSession>> {
    fetch_all!(
        conn,
        "SELECT token_hash, created_at, coalesce(last_seen_at, created_at) AS last_seen_at, address, agent FROM sessions
         WHERE user_id = $1 AND expires_at > $2 ORDER BY created_at DESC, token_hash LIMIT $3",
        user,
        now,
        limit
    )
}

/// The sessions of a person that were opened at or after `from` and before `to`.
pub async fn opened_between(
    conn: &mut Conn,
    user: UserId,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<OpenSession>> {
    fetch_all!(
        conn,
        "SELECT token_hash, created_at, coalesce(last_seen_at, created_at) AS last_seen_at, address, agent FROM sessions
         WHERE user_id = $1 AND created_at >= $2 AND created_at < $3",
        user,
        from,
        to
    )
}

/// Records that a session was used, and from where.
pub async fn touch(
    conn: &mut Conn,
    token_hash: &[u8; 32],
    now: Timestamp,
    address: &str,
    agent: Option<&str>,
) -> Result<()> {
    execute!(
        conn,
        "UPDATE sessions SET last_seen_at = $2, address = $3, agent = $4 WHERE token_hash = $1",
        token_hash.as_slice(),
        now,
        address,
        agent
    )?;
    Ok(())
}

/// Records that a session showed a password, a code, a passkey or a provider; false when it has ended.
pub async fn set_proved(conn: &mut Conn, token_hash: &[u8; 32], now: Timestamp) -> Result<bool> {
    let changed = execute!(
        conn,
        "UPDATE sessions SET proved_at = $2 WHERE token_hash = $1 AND expires_at > $2",
        token_hash.as_slice(),
        now
    )?;
    Ok(changed == 1)
}

/// Ends one session of a person; false when there is none.
pub async fn delete(conn: &mut Conn, user: UserId, token_hash: &[u8]) -> Result<bool> {
    let deleted =
        execute!(conn, "DELETE FROM sessions WHERE token_hash = $1 AND user_id = $2", token_hash, user)?;
    Ok(deleted == 1)
}

/// Ends every session of a person but this one.
pub async fn delete_others(conn: &mut Conn, user: UserId, token_hash: &[u8; 32]) -> Result<u64> {
    execute!(
        conn,
        "DELETE FROM sessions WHERE user_id = $1 AND token_hash <> $2",
        user,
        token_hash.as_slice()
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

/// How long a network is known after the last sign-in from it.
const NETWORK_LIFETIME: Duration = Duration::from_hours(180 * 24);

/// Removes expired sessions, reset links, verification links, invitations and challenges of passkeys, and networks that nobody signs in from any more.
pub async fn sweep(conn: &mut Conn, now: Timestamp) -> Result<u64> {
    let sessions = execute!(conn, "DELETE FROM sessions WHERE expires_at <= $1", now)?;
    let resets = execute!(conn, "DELETE FROM password_resets WHERE expires_at <= $1", now)?;
    let verifications = execute!(conn, "DELETE FROM email_verifications WHERE expires_at <= $1", now)?;
    let invitations = execute!(conn, "DELETE FROM invitations WHERE expires_at <= $1", now)?;
    let challenges = execute!(conn, "DELETE FROM passkey_challenges WHERE expires_at <= $1", now)?;
    let stale = now - NETWORK_LIFETIME;
    let networks = execute!(conn, "DELETE FROM known_networks WHERE seen_at <= $1", stale)?;
    Ok(sessions + resets + verifications + invitations + challenges + networks)
}
