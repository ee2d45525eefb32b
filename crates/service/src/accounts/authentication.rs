//! Authentication of requests: signed requests, console sessions, and legacy keys from before request signing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use model::api::APIKeyStatus;
use model::{KeyId, TenantId, Timestamp, UserId};
use store::accounts::closure;
use store::accounts::keys::{self, Key};
use store::accounts::sessions::{self, Session};
use store::accounts::users;
use store::{Conn, Store};
use tracing::warn;

use crate::accounts::signing::{self, RequestLine, Verifier};
use crate::accounts::tokens;
use crate::runtime::{Clock, Error, Kind, Result, Sealer, ShortCache};

/// How often the use of a key is recorded.
const TOUCH_INTERVAL: Duration = Duration::from_mins(1);

/// An authenticated caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant: all that the caller may access.
    pub tenant: TenantId,
    /// How the caller authenticated.
    pub credential: Credential,
}

/// How a caller authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// With an API key, in any form.
    Key(KeyId),
    /// With a console token.
    Console {
        /// The member.
        user: UserId,
        /// The session.
        session: SessionId,
    },
}

/// A console session, by the hash of its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId([u8; 32]);

impl Caller {
    /// The signed-in user; API keys are refused.
    pub fn user(&self) -> Result<UserId> {
        match self.credential {
            Credential::Console { user, .. } => Ok(user),
            Credential::Key(_) => Err(Error::new(Kind::Forbidden, "only a signed-in user may do this")),
        }
    }
}

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The bearer credential.
    pub bearer: Option<&'a str>,
    /// A legacy key in the `X-API-Key` header.
    pub x_api_key: Option<&'a str>,
    /// A key's public id in the query.
    pub api_key: Option<&'a str>,
    /// Whether the query contains a token, where it would be logged.
    pub token_in_query: bool,
    /// Method and path.
    pub request: RequestLine<'a>,
}

/// Caches credentials for 800 ms.
struct CredentialCache {
    signing: ShortCache<String, SigningKey>,
    sessions: ShortCache<[u8; 32], Session>,
    /// Whether a tenant is suspended.
    suspended: ShortCache<TenantId, bool>,
    /// Verifies against a dummy secret if there is no such key, so that an unknown key takes as long as a bad signature.
    dummy: Verifier,
}

struct SigningKey {
    caller: Caller,
    verifier: Verifier,
    /// When its use was last recorded, in microseconds.
    last_used_at: AtomicI64,
}

impl CredentialCache {
    fn new() -> Self {
        Self {
            signing: ShortCache::new(),
            sessions: ShortCache::new(),
            suspended: ShortCache::new(),
            dummy: Verifier::new(b"a dummy secret, as long as the secret of a real key"),
        }
    }
}

impl SigningKey {
    /// Whether this use is to be recorded. Of many concurrent ones, one is.
    fn is_due_for_touch(&self, now: Timestamp) -> bool {
        let last = self.last_used_at.load(Ordering::Relaxed);
        now.since(Timestamp::from_micros(last)) >= TOUCH_INTERVAL
            && self
                .last_used_at
                .compare_exchange(last, now.micros(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Authenticates requests. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct Authentication {
    store: Store,
    clock: Clock,
    sealer: Sealer,
    cache: Arc<CredentialCache>,
}

impl Authentication {
    pub(crate) fn new(store: Store, clock: Clock, sealer: Sealer) -> Self {
        Self { store, clock, sealer, cache: Arc::new(CredentialCache::new()) }
    }

    /// Drops all cached credentials, after one was revoked on this node.
    pub(crate) fn clear_cache(&self) {
        self.cache.signing.clear();
        self.cache.sessions.clear();
        self.cache.suspended.clear();
    }

    /// Authenticates a request, or refuses it without a reason. The holder of a valid credential is told that the account is
    /// suspended.
    pub async fn authenticate(&self, presented: Presented<'_>) -> Result<Caller> {
        let caller = self.identify(presented).await?;
        if self.is_suspended(caller.tenant).await? { Err(Error::suspended()) } else { Ok(caller) }
    }

    async fn is_suspended(&self, tenant: TenantId) -> Result<bool> {
        if let Some(known) = self.cache.suspended.get(&tenant) {
            return Ok(*known);
        }
        let read = self.cache.suspended.start_read();
        let is_suspended =
            self.store.read("is_suspended", async |conn| closure::is_suspended(conn, tenant).await).await?;
        Ok(*self.cache.suspended.insert(tenant, read, is_suspended))
    }

    async fn identify(&self, presented: Presented<'_>) -> Result<Caller> {
        if presented.token_in_query {
            return Err(Error::unauthorized());
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
            (None, None) => Err(Error::unauthorized()),
        }
    }

    async fn authenticate_signed(&self, token: &str, presented: Presented<'_>) -> Result<Caller> {
        let kid = signing::key_id(token).ok_or_else(Error::unauthorized)?;
        let public_id = match (kid.as_deref(), presented.api_key) {
            (Some(kid), Some(api_key)) if kid != api_key => return Err(Error::unauthorized()),
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => return Err(Error::unauthorized()),
        };
        let now = self.clock.now();
        let accepts = |verifier: &Verifier| verifier.accepts(token, presented.request, now);
        let cached = self.cache.signing.get(public_id);
        let key = if let Some(key) = cached.filter(|key| accepts(&key.verifier)) {
            key
        } else {
            // Also read again after a bad signature: another node may just have rotated the key, and the timing must
            // not reveal whether the key exists.
            let found = self.read_signing_key(public_id).await?;
            let accepted = accepts(found.as_ref().map_or(&self.cache.dummy, |key| &key.verifier));
            found.filter(|_| accepted).ok_or_else(Error::unauthorized)?
        };
        let caller = key.caller;
        if let Credential::Key(key_id) = caller.credential
            && key.is_due_for_touch(now)
        {
            self.record_use(caller.tenant, key_id, false).await;
        }
        Ok(caller)
    }

    async fn read_signing_key(&self, public_id: &str) -> Result<Option<Arc<SigningKey>>> {
        // PostgreSQL does not accept U+0000 in text, so no key has such an id.
        if public_id.contains('\0') {
            return Ok(None);
        }
        let read = self.cache.signing.start_read();
        let found = self
            .store
            .read("key_by_public_id", async |conn| keys::by_public_id(conn, public_id).await)
            .await?;
        let Some(key) = found else { return Ok(None) };
        let Some(sealed) = &key.secret else { return Ok(None) };
        let secret =
            self.sealer.open("api_keys.secret", key.key_id.0, sealed).map_err(crate::runtime::internal)?;
        let value = SigningKey {
            caller: caller_of(&key),
            verifier: Verifier::new(&secret),
            last_used_at: AtomicI64::new(key.last_used_at.map_or(i64::MIN, Timestamp::micros)),
        };
        Ok(Some(self.cache.signing.insert(public_id.to_owned(), read, value)))
    }

    async fn authenticate_session(&self, token: &str) -> Result<Caller> {
        let (hash, now) = (tokens::hash(token), self.clock.now());
        let session = if let Some(session) = self.cache.sessions.get(&hash) {
            session
        } else {
            let read = self.cache.sessions.start_read();
            let found =
                self.store.read("session", async |conn| sessions::find(conn, &hash, now).await).await?;
            self.cache.sessions.insert(hash, read, found.ok_or_else(Error::unauthorized)?)
        };
        if session.expires_at <= now {
            return Err(Error::unauthorized());
        }
        let credential = match (session.user_id, session.key_id) {
            (Some(user), _) => Credential::Console { user, session: SessionId(hash) },
            (None, Some(key)) => Credential::Key(key),
            (None, None) => return Err(Error::unauthorized()),
        };
        Ok(Caller { tenant: session.tenant_id, credential })
    }

    /// Refuses a caller whose credential was revoked after authentication: a revoked credential must not create new ones.
    /// To be called in the transaction that creates the new credential.
    pub(crate) async fn require_valid(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        let is_valid = match caller.credential {
            Credential::Key(key) => keys::find(conn, caller.tenant, key)
                .await?
                .is_some_and(|key| key.status == APIKeyStatus::Active),
            Credential::Console { user, session } => {
                // Locked, so that ending this user's sessions happens either before or after this transaction.
                users::lock(conn, caller.tenant, user).await?;
                sessions::find(conn, &session.0, self.clock.now()).await?.is_some()
            }
        };
        if is_valid { Ok(()) } else { Err(Error::unauthorized()) }
    }

    async fn authenticate_legacy(&self, long_key: &str) -> Result<Caller> {
        let key = self.legacy_key(long_key).await?;
        self.touch(key.tenant_id, key.key_id, key.legacy_used_at, true).await;
        Ok(caller_of(&key))
    }

    /// The active key that a legacy key belongs to. Each use is logged, because legacy keys will be removed.
    pub(crate) async fn legacy_key(&self, long_key: &str) -> Result<Key> {
        let hash = tokens::hash(long_key);
        let found = self
            .store
            .read("key_by_legacy_hash", async |conn| keys::by_legacy_hash(conn, &hash).await)
            .await?;
        let key = found.ok_or_else(Error::unauthorized)?;
        warn!(key = key.public_id, tenant = %key.tenant_id, "a legacy key was used: rotate it, legacy keys will be removed");
        Ok(key)
    }

    /// Records the use of a key, unless that was done within the last minute. An error is only logged.
    pub(crate) async fn touch(&self, tenant: TenantId, key: KeyId, last: Option<Timestamp>, as_legacy: bool) {
        if last.is_none_or(|last| self.clock.now().since(last) >= TOUCH_INTERVAL) {
            self.record_use(tenant, key, as_legacy).await;
        }
    }

    async fn record_use(&self, tenant: TenantId, key: KeyId, as_legacy: bool) {
        let now = self.clock.now();
        let written = self
            .store
            .write("touch_key", async |conn: &mut Conn| keys::touch(conn, tenant, key, now, as_legacy).await)
            .await;
        if let Err(error) = written {
            warn!(%error, key = %key, "cannot record the use of a key");
        }
    }
}

fn caller_of(key: &Key) -> Caller {
    Caller { tenant: key.tenant_id, credential: Credential::Key(key.key_id) }
}
