//! Who is asking: signed requests, console sessions, and keys from before request signing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use model::{KeyId, TenantId, Timestamp, UserId};
use store::accounts::keys::Key;
use store::accounts::sessions::Session;
use store::Conn;
use store::accounts::{keys, sessions, users};
use tracing::warn;

use crate::runtime::short_cache::Beliefs;
use crate::accounts::signing;
use crate::accounts::signing::{RequestLine, Verifier};
use crate::{Error, Kind, Result, Service};
use crate::accounts::tokens;

/// How often the use of a key is written down.
const TOUCH_EVERY: Duration = Duration::from_mins(1);

/// Who is asking, once that is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The account: all that the caller may see.
    pub tenant: TenantId,
    /// How they proved it.
    pub credential: Credential,
}

/// How a caller proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// By an API key, whichever way.
    Key(KeyId),
    /// By a console token.
    Console {
        /// The person.
        user: UserId,
        /// Their session.
        session: SessionId,
    },
}

/// A console session, by the hash of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId([u8; 32]);

impl Caller {
    /// The person who is asking; keys are refused.
    pub fn person(&self) -> Result<UserId> {
        match self.credential {
            Credential::Console { user, .. } => Ok(user),
            Credential::Key(_) => Err(Error::new(Kind::Forbidden, "only a signed-in user may do this")),
        }
    }
}

/// What a request shows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The bearer credential.
    pub bearer: Option<&'a str>,
    /// The old long key in its own header.
    pub x_api_key: Option<&'a str>,
    /// The public key ID in the query.
    pub api_key: Option<&'a str>,
    /// Whether a token stands in the query, where logs would keep it.
    pub token_in_query: bool,
    /// What is asked for.
    pub request: RequestLine<'a>,
}

/// What is believed about credentials for a moment.
pub(crate) struct Gate {
    signing: Beliefs<String, SigningKey>,
    sessions: Beliefs<[u8; 32], Session>,
    /// Checked against when there is no such key, so that an unknown key takes the time of a bad signature.
    nobody: Verifier,
}

struct SigningKey {
    caller: Caller,
    verifier: Verifier,
    /// When its use was last written down, in microseconds.
    last_used_at: AtomicI64,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            signing: Beliefs::new(),
            sessions: Beliefs::new(),
            nobody: Verifier::new(b"nobody's secret, as long as any other one would be"),
        }
    }

    /// Forgets everything: a credential has just ended on this node.
    pub(crate) fn forget(&self) {
        self.signing.forget();
        self.sessions.forget();
    }
}

impl SigningKey {
    /// Whether this use is to be written down. Of many at once, one is.
    fn begins_a_minute(&self, now: Timestamp) -> bool {
        let last = self.last_used_at.load(Ordering::Relaxed);
        now.since(Timestamp::from_micros(last)) >= TOUCH_EVERY
            && self
                .last_used_at
                .compare_exchange(last, now.micros(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// The one refusal for every reason.
pub(crate) fn unauthorized() -> Error {
    Error::new(Kind::Unauthorized, "unauthorized")
}

impl Service {
    /// Finds out who is asking, or refuses without saying why.
    pub async fn authenticate(&self, presented: Presented<'_>) -> Result<Caller> {
        if presented.token_in_query {
            return Err(unauthorized());
        }
        match (presented.bearer, presented.x_api_key) {
            (Some(bearer), _)
                if bearer.starts_with(tokens::CONSOLE_TOKEN) || bearer.starts_with(tokens::TENANT_TOKEN) =>
            {
                self.authenticate_session(bearer).await
            }
            (Some(bearer), _) if bearer.matches('.').count() == 2 => {
                self.authenticate_signed(bearer, presented).await
            }
            (Some(long_key), _) | (None, Some(long_key)) => self.authenticate_legacy(long_key).await,
            (None, None) => Err(unauthorized()),
        }
    }

    async fn authenticate_signed(&self, token: &str, presented: Presented<'_>) -> Result<Caller> {
        let kid = signing::key_id(token).ok_or_else(unauthorized)?;
        let public_id = match (kid.as_deref(), presented.api_key) {
            (Some(kid), Some(api_key)) if kid != api_key => return Err(unauthorized()),
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => return Err(unauthorized()),
        };
        let now = self.clock.now();
        let accepts = |verifier: &Verifier| verifier.accepts(token, presented.request, now);
        let believed = self.gate.signing.get(public_id);
        let key = if let Some(key) = believed.filter(|key| accepts(&key.verifier)) {
            key
        } else {
            // Asked for again after a bad signature too: another node may just have rotated the key, and time must
            // not tell whether there is one.
            let found = self.read_signing_key(public_id).await?;
            let accepted = accepts(found.as_ref().map_or(&self.gate.nobody, |key| &key.verifier));
            found.filter(|_| accepted).ok_or_else(unauthorized)?
        };
        let caller = key.caller;
        if let Credential::Key(key_id) = caller.credential
            && key.begins_a_minute(now)
        {
            self.write_use(caller.tenant, key_id, false).await;
        }
        Ok(caller)
    }

    async fn read_signing_key(&self, public_id: &str) -> Result<Option<Arc<SigningKey>>> {
        // PostgreSQL cannot be asked for such a text, so no key is called that.
        if public_id.contains('\0') {
            return Ok(None);
        }
        let asked = self.gate.signing.ask();
        let found = self
            .store
            .read("key_by_public_id", async |conn| keys::by_public_id(conn, public_id).await)
            .await?;
        let Some(key) = found else { return Ok(None) };
        let Some(sealed) = &key.secret else { return Ok(None) };
        let secret = self.sealer.open("api_keys.secret", key.key_id.0, sealed).map_err(crate::internal)?;
        let value = SigningKey {
            caller: caller_of(&key),
            verifier: Verifier::new(&secret),
            last_used_at: AtomicI64::new(key.last_used_at.map_or(i64::MIN, Timestamp::micros)),
        };
        Ok(Some(self.gate.signing.learn(public_id.to_owned(), asked, value)))
    }

    async fn authenticate_session(&self, token: &str) -> Result<Caller> {
        let (hash, now) = (tokens::hash(token), self.clock.now());
        let session = if let Some(session) = self.gate.sessions.get(&hash) {
            session
        } else {
            let asked = self.gate.sessions.ask();
            let found =
                self.store.read("session", async |conn| sessions::find(conn, &hash, now).await).await?;
            self.gate.sessions.learn(hash, asked, found.ok_or_else(unauthorized)?)
        };
        if session.expires_at <= now {
            return Err(unauthorized());
        }
        let credential = match (session.user_id, session.key_id) {
            (Some(user), _) => Credential::Console { user, session: SessionId(hash) },
            (None, Some(key)) => Credential::Key(key),
            (None, None) => return Err(unauthorized()),
        };
        Ok(Caller { tenant: session.tenant_id, credential })
    }

    /// Refuses a caller whose credential has ended since it was believed: what makes a new credential must not outlive
    /// the one that it was made with. In the transaction that makes it.
    pub(crate) async fn demand_alive(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        let alive = match caller.credential {
            Credential::Key(key) => {
                keys::find(conn, caller.tenant, key).await?.is_some_and(|key| key.status == "active")
            }
            Credential::Console { user, session } => {
                // Locked: whoever ends the sessions of this user comes before this transaction, or after it.
                users::lock(conn, caller.tenant, user).await?;
                sessions::find(conn, &session.0, self.clock.now()).await?.is_some()
            }
        };
        if alive { Ok(()) } else { Err(unauthorized()) }
    }

    async fn authenticate_legacy(&self, long_key: &str) -> Result<Caller> {
        let key = self.legacy_key(long_key).await?;
        self.touch(key.tenant_id, key.key_id, key.legacy_used_at, true).await;
        Ok(caller_of(&key))
    }

    /// The active key that this old long key belongs to. Each use is told in the log: these paths will be removed.
    pub(crate) async fn legacy_key(&self, long_key: &str) -> Result<Key> {
        let hash = tokens::hash(long_key);
        let found = self
            .store
            .read("key_by_legacy_hash", async |conn| keys::by_legacy_hash(conn, &hash).await)
            .await?;
        let key = found.ok_or_else(unauthorized)?;
        warn!(key = key.public_id, tenant = %key.tenant_id, "a legacy key was used: rotate it, its kind will be removed");
        Ok(key)
    }

    /// Writes down that a key was used, unless that was done within the last minute. It never fails a request.
    pub(crate) async fn touch(
        &self,
        tenant: TenantId,
        key: KeyId,
        last: Option<Timestamp>,
        the_old_way: bool,
    ) {
        if last.is_none_or(|last| self.clock.now().since(last) >= TOUCH_EVERY) {
            self.write_use(tenant, key, the_old_way).await;
        }
    }

    async fn write_use(&self, tenant: TenantId, key: KeyId, the_old_way: bool) {
        let now = self.clock.now();
        let written = self
            .store
            .write("touch_key", async |conn: &mut Conn| {
                keys::touch(conn, tenant, key, now, the_old_way).await
            })
            .await;
        if let Err(error) = written {
            warn!(%error, key = %key, "cannot write down the use of a key");
        }
    }
}

fn caller_of(key: &Key) -> Caller {
    Caller { tenant: key.tenant_id, credential: Credential::Key(key.key_id) }
}
