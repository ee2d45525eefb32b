//! Authentication of requests: signed requests, console sessions, and legacy keys from before request signing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use model::api::APIKeyStatus;
use model::{KeyId, KeyKind, TenantId, Timestamp};
use store::accounts::closure;
use store::accounts::keys::{self, Key};
use store::accounts::sessions::{self, Session};
use store::accounts::users;
use store::{Conn, Store};
use tracing::warn;

use crate::accounts::signing::{self, RequestLine, Verifier};
use crate::accounts::tokens;
use crate::runtime::{
    Caller, Carrier, Clock, Credential, Error, KeyRights, Kind, Result, Sealer, SessionId, ShortCache,
    agent_name,
};

/// How often the use of a key is recorded.
const TOUCH_INTERVAL: Duration = Duration::from_mins(1);

/// The credentials of a request.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The bearer credential.
    pub bearer: Option<&'a str>,
    /// A legacy key in the `X-API-Key` header.
    pub x_api_key: Option<&'a str>,
    /// A console token in a cookie; it counts only if there is no other credential.
    pub cookie: Option<&'a str>,
    /// A key's public id in the query.
    pub api_key: Option<&'a str>,
    /// Whether the query contains a token, where it would be logged.
    pub token_in_query: bool,
    /// Method and path.
    pub request: RequestLine<'a>,
    /// The client's address.
    pub address: IpAddr,
    /// What the client calls itself.
    pub agent: Option<&'a str>,
}

/// Caches credentials for 800 ms.
struct CredentialCache {
    signing: ShortCache<String, SigningKey>,
    sessions: ShortCache<[u8; 32], CachedSession>,
    /// Bearer keys, by their hash.
    bearers: ShortCache<[u8; 32], BearerKey>,
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

struct BearerKey {
    caller: Caller,
    /// When its use was last recorded, in microseconds.
    last_used_at: AtomicI64,
}

struct CachedSession {
    session: Session,
    /// When its use was last recorded, in microseconds.
    last_seen_at: AtomicI64,
}

impl CredentialCache {
    fn new() -> Self {
        Self {
            signing: ShortCache::new(),
            sessions: ShortCache::new(),
            bearers: ShortCache::new(),
            suspended: ShortCache::new(),
            dummy: Verifier::new(b"a dummy secret, as long as the secret of a real key"),
        }
    }
}

/// Whether a use is to be recorded, given when one was last recorded. Of many concurrent ones, one is.
fn is_due_for_touch(last_use: &AtomicI64, now: Timestamp) -> bool {
    let last = last_use.load(Ordering::Relaxed);
    now.since(Timestamp::from_micros(last)) >= TOUCH_INTERVAL
        && last_use.compare_exchange(last, now.micros(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Authenticates requests. Cheap to clone; clones share the cache.
#[derive(Clone)]
pub struct Authentication {
    store: Store,
    clock: Clock,
    sealer: Sealer,
    /// How long a session counts as proved after it showed a password, a code or a provider.
    recent_proof: Duration,
    cache: Arc<CredentialCache>,
}

impl Authentication {
    pub(crate) fn new(store: Store, clock: Clock, sealer: Sealer, recent_proof: Duration) -> Self {
        Self { store, clock, sealer, recent_proof, cache: Arc::new(CredentialCache::new()) }
    }

    /// Drops all cached credentials, after one was revoked on this node.
    pub(crate) fn clear_cache(&self) {
        self.cache.signing.clear();
        self.cache.sessions.clear();
        self.cache.bearers.clear();
        self.cache.suspended.clear();
    }

    /// Authenticates a request, or refuses it without a reason. The holder of a valid credential is told that the account is
    /// suspended.
    pub async fn authenticate(&self, presented: Presented<'_>) -> Result<Caller> {
        let caller = self.identify(presented).await?;
        if self.is_suspended(caller.tenant).await? { Err(Error::suspended()) } else { Ok(caller) }
    }

    /// The caller of a request that goes on for long, as of now. Refused once the credential is revoked or has ended, or the account
    /// is suspended.
    pub(crate) async fn renew(&self, caller: Caller) -> Result<Caller> {
        let renewed = match caller.credential {
            Credential::Key { key, .. } => {
                let found =
                    self.store.read("key", async |conn| keys::find(conn, caller.tenant, key).await).await?;
                found.filter(|key| key.status == APIKeyStatus::Active).map(|key| caller_of(&key))
            }
            Credential::Console { user, session, carrier, .. } => {
                let found = self.read_session(session.0, self.clock.now()).await?;
                found.and_then(|found| found.session.role).map(|role| Caller {
                    tenant: caller.tenant,
                    credential: Credential::Console { user, session, role, carrier },
                })
            }
        };
        let renewed = renewed.ok_or_else(Error::unauthorized)?;
        if self.is_suspended(renewed.tenant).await? { Err(Error::suspended()) } else { Ok(renewed) }
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
        match (presented.bearer, presented.x_api_key, presented.cookie) {
            (Some(bearer), ..)
                if bearer.starts_with(tokens::CONSOLE_TOKEN) || bearer.starts_with(tokens::TENANT_TOKEN) =>
            {
                self.authenticate_session(bearer, Carrier::Header, presented).await
            }
            (Some(bearer), ..) if bearer.starts_with(tokens::BEARER_KEY) => {
                self.authenticate_bearer(bearer).await
            }
            (Some(bearer), ..) if bearer.matches('.').count() == 2 => {
                self.authenticate_signed(bearer, presented).await
            }
            (Some(long_key), ..) | (None, Some(long_key), _) => self.authenticate_legacy(long_key).await,
            (None, None, Some(token)) if token.starts_with(tokens::CONSOLE_TOKEN) => {
                self.authenticate_session(token, Carrier::Cookie, presented).await
            }
            (None, None, _) => Err(Error::unauthorized()),
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
        if let Credential::Key { key: key_id, .. } = caller.credential
            && is_due_for_touch(&key.last_used_at, now)
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

    async fn authenticate_session(
        &self,
        token: &str,
        carrier: Carrier,
        presented: Presented<'_>,
    ) -> Result<Caller> {
        let (hash, now) = (tokens::hash(token), self.clock.now());
        let cached = self.read_session(hash, now).await?.ok_or_else(Error::unauthorized)?;
        let session = &cached.session;
        let credential = match (session.user_id, session.role, session.key_id) {
            (Some(user), Some(role), _) => {
                Credential::Console { user, session: SessionId(hash), role, carrier }
            }
            (None, _, Some(key)) => {
                let rights = KeyRights::stored(KeyKind::Signed, session.scopes.as_deref());
                Credential::Key { key, rights }
            }
            _ => return Err(Error::unauthorized()),
        };
        if session.user_id.is_some() && is_due_for_touch(&cached.last_seen_at, now) {
            let (address, agent) = (presented.address.to_string(), presented.agent.map(agent_name));
            let touched = self
                .store
                .write("touch_session", async |conn: &mut Conn| {
                    sessions::touch(conn, &hash, now, &address, agent.as_deref()).await
                })
                .await;
            if let Err(error) = touched {
                warn!(%error, "cannot record the use of a session");
            }
        }
        Ok(Caller { tenant: session.tenant_id, credential })
    }

    async fn authenticate_bearer(&self, token: &str) -> Result<Caller> {
        let hash = tokens::hash(token);
        let key = if let Some(key) = self.cache.bearers.get(&hash) {
            key
        } else {
            let read = self.cache.bearers.start_read();
            let found = self
                .store
                .read("key_by_bearer_hash", async |conn| keys::by_bearer_hash(conn, &hash).await)
                .await?;
            let key = found.ok_or_else(Error::unauthorized)?;
            let last_used_at = AtomicI64::new(key.last_used_at.map_or(i64::MIN, Timestamp::micros));
            self.cache.bearers.insert(hash, read, BearerKey { caller: caller_of(&key), last_used_at })
        };
        if let Credential::Key { key: key_id, .. } = key.caller.credential
            && is_due_for_touch(&key.last_used_at, self.clock.now())
        {
            self.record_use(key.caller.tenant, key_id, false).await;
        }
        Ok(key.caller)
    }

    async fn read_session(&self, hash: [u8; 32], now: Timestamp) -> Result<Option<Arc<CachedSession>>> {
        let session = if let Some(session) = self.cache.sessions.get(&hash) {
            session
        } else {
            let read = self.cache.sessions.start_read();
            let found =
                self.store.read("session", async |conn| sessions::find(conn, &hash, now).await).await?;
            let Some(session) = found else { return Ok(None) };
            let last_seen_at = AtomicI64::new(session.last_seen_at.micros());
            self.cache.sessions.insert(hash, read, CachedSession { session, last_seen_at })
        };
        Ok(Some(session).filter(|cached| cached.session.expires_at > now))
    }

    /// Refuses a caller who is not a signed-in member, whose session has ended, or whose session has not shown a password, a
    /// code or a provider recently: a stolen session must not become permanent. To be called in the transaction that makes
    /// the change.
    pub(crate) async fn require_recent_proof(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        // Locked, so that ending this user's sessions happens either before or after this transaction.
        users::lock(conn, caller.tenant, caller.user()?).await?;
        self.check_recent_proof(conn, caller).await
    }

    /// Checks the same ahead of the transaction, so that a request that will be refused uses up nothing.
    pub(crate) async fn check_recent_proof(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        let ((_, session), now) = (caller.session()?, self.clock.now());
        let session = sessions::find(conn, &session.0, now).await?.ok_or_else(Error::unauthorized)?;
        if now.since(session.proved_at) <= self.recent_proof {
            return Ok(());
        }
        Err(Error::new(
            Kind::ReauthenticationRequired,
            "confirm your password, a code or a provider first: POST /auth/console/reauthenticate",
        ))
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
    let rights = KeyRights::stored(key.kind, key.scopes.as_deref());
    Caller { tenant: key.tenant_id, credential: Credential::Key { key: key.key_id, rights } }
}
