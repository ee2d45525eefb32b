//! Console sessions: the tokens that open them, their list, and how they end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::api::{Session, SessionList, Token, TokenType};
use model::{AuditAction, TenantId, Timestamp, UserId};
use store::accounts::closure;
use store::accounts::networks::{self, Familiarity};
use store::accounts::sessions::{self, Holder, NewSession, OpenSession};
use store::accounts::{unfinished_sign_ins, users};
use store::{Conn, Store};
use uuid::Uuid;

use crate::accounts::authentication::Authentication;
use crate::accounts::tokens;
use crate::outbox::Notifications;
use crate::runtime::audit;
use crate::runtime::{Caller, ClientInfo, Clock, Error, Kind, Random, Result, SessionId, agent_name};

/// The lifetime of a console token.
const CONSOLE_TOKEN_LIFETIME: Duration = Duration::from_hours(24);
/// The sessions that are listed, newest first.
const MAX_LISTED: i64 = 200;

/// The sessions of all members.
#[derive(Clone)]
pub struct Sessions {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

impl Sessions {
    /// Opens a console session in the caller's transaction. A sign-in from a new network is mailed to the member; call
    /// [`Self::opened`] once that is committed.
    pub(crate) async fn open(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        user: UserId,
        client: &ClientInfo,
    ) -> Result<Token> {
        refuse_suspended(conn, tenant).await?;
        // The account may be as new as the session.
        self.store.note_writing(user.0);
        let token = self.new_token(tokens::CONSOLE_TOKEN, CONSOLE_TOKEN_LIFETIME, TokenType::Console);
        let (hash, now, user_id) = (tokens::hash(&token.token), self.clock.now(), user);
        let (address, agent) =
            (client.address.to_canonical().to_string(), client.agent.as_deref().map(agent_name));
        let session = NewSession {
            tenant_id: tenant,
            holder: Holder::User(user),
            token_hash: &hash,
            address: Some(&address),
            agent: agent.as_deref(),
            created_at: now,
            expires_at: token.expires_at,
        };
        sessions::insert(conn, &session).await?;
        unfinished_sign_ins::finish(conn, tenant, user, &address).await?;
        let network = network(client.address);
        if networks::record(conn, tenant, user, &network, now).await? == Familiarity::New {
            let user = users::find(conn, tenant, user).await?.ok_or_else(Error::gone)?;
            let mail = self.notifications.templates.new_network(&user.email, &address, agent.as_deref(), now);
            self.notifications.mail_user(conn, &user, &mail).await?;
        }
        let origin = client.origin(now);
        audit::record_sign_in(conn, AuditAction::SessionOpened, (tenant, user_id), &origin).await?;
        Ok(token)
    }

    /// Sends what opening a session has queued; to be called after the commit.
    pub(crate) fn opened(&self) {
        self.notifications.wake();
    }

    pub(crate) fn new_token(&self, prefix: &str, lifetime: Duration, token_type: TokenType) -> Token {
        Token {
            token: tokens::secret(&self.random, prefix),
            expires_at: self.clock.now() + lifetime,
            token_type,
            new_user: None,
        }
    }

    /// The newest sessions of the signed-in member, newest first.
    pub async fn list(&self, caller: Caller) -> Result<SessionList> {
        let (user, current) = caller.session()?;
        let now = self.clock.now();
        let open = self
            .store
            .read("sessions", async |conn| sessions::of_user(conn, user, now, MAX_LISTED).await)
            .await?;
        Ok(SessionList { sessions: open.into_iter().map(|session| record(session, current)).collect() })
    }

    /// Ends one session of the signed-in member.
    pub async fn end(&self, caller: Caller, id: Uuid) -> Result<()> {
        let (user, _) = caller.session()?;
        let missing = || Error::new(Kind::NotFound, "there is no such session");
        let opened = opened_at(id).ok_or_else(missing)?;
        self.store
            .write("end_session", async |conn: &mut Conn| {
                caller.require_valid(conn, self.clock.now()).await?;
                let within = Duration::from_millis(1);
                let found = sessions::opened_between(conn, user, opened, opened + within).await?;
                let session = found.iter().find(|session| session_id(session) == id).ok_or_else(missing)?;
                if !sessions::delete(conn, user, &session.token_hash).await? {
                    return Err(missing());
                }
                audit::note(caller.tenant, id, audit::NONE, audit::NONE);
                Ok(())
            })
            .await?;
        self.authentication.clear_cache();
        Ok(())
    }

    /// Ends every session of the signed-in member but the caller's.
    pub async fn end_others(&self, caller: Caller) -> Result<()> {
        self.store
            .write("end_other_sessions", async |conn: &mut Conn| {
                caller.require_valid(conn, self.clock.now()).await?;
                end_others(conn, caller).await
            })
            .await?;
        self.authentication.clear_cache();
        Ok(())
    }

    /// Ends the caller's session.
    pub async fn log_out(&self, caller: Caller) -> Result<()> {
        let (user, session) = caller.session()?;
        self.store
            .write("log_out", async |conn: &mut Conn| sessions::delete(conn, user, &session.0).await)
            .await?;
        self.authentication.clear_cache();
        Ok(())
    }
}

/// Refuses a suspended account, which gets no new session.
pub(crate) async fn refuse_suspended(conn: &mut Conn, tenant: TenantId) -> Result<()> {
    if closure::is_suspended(conn, tenant).await? { Err(Error::suspended()) } else { Ok(()) }
}

/// Ends every session of the signed-in member but the caller's, in the caller's transaction: what changes how a member signs
/// in must not leave anybody else signed in. The cache is cleared once that is committed.
pub(crate) async fn end_others(conn: &mut Conn, caller: Caller) -> Result<()> {
    let (user, session) = caller.session()?;
    sessions::delete_others(conn, user, &session.0).await?;
    Ok(())
}

/// Ends every session of a member, but the one that a request carries if it is theirs: a sign-in that changes how the member signs in
/// is no reason to sign them out in the same browser.
pub(crate) async fn end_all_but(conn: &mut Conn, user: UserId, held: Option<Caller>) -> Result<()> {
    match held.map(|caller| caller.session()) {
        Some(Ok((holder, session))) if holder == user => {
            sessions::delete_others(conn, user, &session.0).await?;
        }
        _ => {
            sessions::delete_of_user(conn, user).await?;
        }
    }
    Ok(())
}

/// The network of an address: a /24 or a /48, so that most new addresses from the same provider are not worth a mail.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(host) => format!("{}/24", Ipv4Addr::from_bits(host.to_bits() & !0xff)),
        IpAddr::V6(host) => format!("{}/48", Ipv6Addr::from_bits(host.to_bits() >> 80 << 80)),
    }
}

/// The id of a session: a UUID v7 from its time and the hash of its token, which a reader cannot turn back into the token.
fn session_id(session: &OpenSession) -> Uuid {
    let millis = u64::try_from(session.created_at.micros() / 1_000).unwrap_or(0);
    let mut bits = [0; 10];
    bits.iter_mut().zip(&session.token_hash).for_each(|(bit, byte)| *bit = *byte);
    uuid::Builder::from_unix_timestamp_millis(millis, &bits).into_uuid()
}

/// The millisecond in which the session with this id was opened.
fn opened_at(id: Uuid) -> Option<Timestamp> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)? + i64::from(nanos / 1_000);
    Some(Timestamp::from_micros(micros))
}

fn record(session: OpenSession, current: SessionId) -> Session {
    Session {
        id: session_id(&session),
        created_at: session.created_at,
        last_seen_at: session.last_seen_at,
        current: session.token_hash == current.0,
        address: session.address,
        agent: session.agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_version_7_and_says_when_the_session_was_opened() {
        let created_at = Timestamp::from_micros(1_767_225_600_123_456);
        let session = OpenSession {
            token_hash: vec![0xa5; 32],
            created_at,
            last_seen_at: created_at,
            address: None,
            agent: None,
        };
        let id = session_id(&session);
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(opened_at(id), Some(Timestamp::from_micros(1_767_225_600_123_000)));
        assert_eq!(opened_at(Uuid::from_u128(7)), None);
        assert_eq!(opened_at(Uuid::max()), None);
    }

    #[test]
    fn neighbours_are_one_network() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("203.0.113.9"), "203.0.113.0/24");
        assert_eq!(of("::ffff:203.0.113.200"), of("203.0.113.9"));
        assert_eq!(of("2001:db8:1:2::1"), "2001:db8:1::/48");
        assert_ne!(of("2001:db8:2:2::1"), of("2001:db8:1:2::1"));
    }
}
