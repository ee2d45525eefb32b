//! Authentication of requests: signed requests, console sessions, and legacy keys from before request signing.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use model::api::{APIKeyStatus, KeyRefusalCause};
use model::{KeyId, KeyKind, TenantId, Timestamp};
use store::accounts::closure;
use store::accounts::keys::{self, Key};
use store::accounts::sessions::{self, Session};
use store::accounts::users;
use store::{Conn, Store};
use tracing::warn;

use crate::accounts::refusals::{Refusals, RefusedFrom, Rejection};
use crate::accounts::request_signature::{self, RequestLine, Verifier};
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
    /// The id of the request.
    pub request_id: Option<&'a str>,
}

impl Presented<'_> {
    fn refused_from(&self) -> RefusedFrom<'_> {
        RefusedFrom { address: self.address, request_id: self.request_id }
    }
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

/// What a public id names.
enum Found {
    /// An active key with a secret.
    Signing(Arc<SigningKey>),
    /// A key that cannot sign, or not any more.
    Other(Box<Key>),
    /// Nothing.
    Nothing,
}

struct SigningKey {
    key_id: KeyId,
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
    /// How long a session counts as proved after it showed a password, a code, a passkey or a provider.
    recent_proof: Duration,
    refusals: Refusals,
    cache: Arc<CredentialCache>,
}

impl Authentication {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        sealer: Sealer,
        recent_proof: Duration,
        refusals: Refusals,
    ) -> Self {
        Self { store, clock, sealer, recent_proof, refusals, cache: Arc::new(CredentialCache::new()) }
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
            return self.refuse_token_in_query(presented).await;
        }
        match (presented.bearer, presented.x_api_key, presented.cookie) {
            (Some(bearer), ..)
                if bearer.starts_with(tokens::CONSOLE_TOKEN) || bearer.starts_with(tokens::TENANT_TOKEN) =>
            {
                self.authenticate_session(bearer, Carrier::Header, presented).await
            }
            (Some(bearer), ..) if bearer.starts_with(tokens::BEARER_KEY) => {
                self.authenticate_bearer(bearer, presented).await
            }
            (Some(bearer), ..) if bearer.matches('.').count() == 2 => {
                self.authenticate_signed(bearer, presented).await
            }
            (Some(long_key), ..) | (None, Some(long_key), _) => {
                self.authenticate_legacy(long_key, presented).await
            }
            (None, None, Some(token)) if token.starts_with(tokens::CONSOLE_TOKEN) => {
                self.authenticate_session(token, Carrier::Cookie, presented).await
            }
            (None, None, _) => Err(Error::refused("there is no credential")),
        }
    }

    /// Refuses a request that named this key, and tells the owners of the account why. Only the log says it too.
    fn refuse(&self, key: (TenantId, KeyId), rejection: Rejection, presented: Presented<'_>) -> Error {
        let reason = format!("key {}: {}", key.1, rejection.cause.as_str());
        self.refusals.note(key, rejection, presented.refused_from());
        Error::refused(reason)
    }

    /// Refuses a key that is not active.
    fn require_active(&self, key: &Key, presented: Presented<'_>) -> Result<()> {
        let cause = match key.status {
            APIKeyStatus::Active => return Ok(()),
            APIKeyStatus::Inactive => KeyRefusalCause::Inactive,
            APIKeyStatus::Revoked => KeyRefusalCause::Revoked,
        };
        Err(self.refuse((key.tenant_id, key.key_id), Rejection::bare(cause), presented))
    }

    async fn refuse_token_in_query(&self, presented: Presented<'_>) -> Result<Caller> {
        let signed = presented.bearer.and_then(request_signature::key_id).flatten();
        let found = match signed.as_deref().or(presented.api_key) {
            Some(public_id) => self.read_key(public_id).await?,
            None => None,
        };
        Err(match found {
            Some(key) => {
                let rejection = Rejection::bare(KeyRefusalCause::TokenInQuery);
                self.refuse((key.tenant_id, key.key_id), rejection, presented)
            }
            None => Error::refused("a token is in the query"),
        })
    }

    async fn authenticate_signed(&self, token: &str, presented: Presented<'_>) -> Result<Caller> {
        let kid = request_signature::key_id(token).ok_or_else(|| Error::refused("not an HS256 token"))?;
        let (public_id, is_other_key) = match (kid.as_deref(), presented.api_key) {
            (Some(kid), Some(api_key)) => (kid, kid != api_key),
            (Some(id), None) | (None, Some(id)) => (id, false),
            (None, None) => return Err(Error::refused("the token names no key")),
        };
        let now = self.clock.now();
        let check = |verifier: &Verifier| verifier.check(token, presented.request, now);
        let cached = self.cache.signing.get(public_id).filter(|_| !is_other_key);
        let key = if let Some(key) = cached.filter(|key| check(&key.verifier).is_ok()) {
            key
        } else {
            // Also read again after a bad signature: another node may just have rotated the key, and the timing must
            // not reveal whether the key exists.
            let found = self.read_signing_key(public_id).await?;
            let verifier = match &found {
                Found::Signing(key) => &key.verifier,
                Found::Other(_) | Found::Nothing => &self.cache.dummy,
            };
            let checked = check(verifier);
            self.accept(found, checked, is_other_key, presented)?
        };
        let caller = key.caller;
        if let Credential::Key { key: key_id, .. } = caller.credential
            && is_due_for_touch(&key.last_used_at, now)
        {
            self.record_use(caller.tenant, key_id, false).await;
        }
        Ok(caller)
    }

    /// The key that a token is checked against, unless it is refused.
    fn accept(
        &self,
        found: Found,
        checked: std::result::Result<(), Rejection>,
        is_other_key: bool,
        presented: Presented<'_>,
    ) -> Result<Arc<SigningKey>> {
        let (id, rejection) = match (found, checked) {
            (Found::Nothing, _) => return Err(Error::refused("there is no such key")),
            (Found::Signing(key), Ok(())) if !is_other_key => return Ok(key),
            (Found::Other(key), _) => {
                self.require_active(&key, presented)?;
                ((key.tenant_id, key.key_id), Rejection::bare(KeyRefusalCause::NotForSigning))
            }
            (Found::Signing(key), checked) => {
                let mismatch = is_other_key.then(|| Rejection::bare(KeyRefusalCause::KeyMismatch));
                let Some(rejection) = mismatch.or(checked.err()) else { return Ok(key) };
                ((key.caller.tenant, key.key_id), rejection)
            }
        };
        Err(self.refuse(id, rejection, presented))
    }

    /// The key with a public id, whatever its status.
    async fn read_key(&self, public_id: &str) -> Result<Option<Key>> {
        // PostgreSQL does not accept U+0000 in text, so no key has such an id.
        if public_id.contains('\0') {
            return Ok(None);
        }
        let read =
            self.store.read("key_by_public_id", async |conn| keys::by_public_id(conn, public_id).await).await;
        Ok(read?)
    }

    async fn read_signing_key(&self, public_id: &str) -> Result<Found> {
        let read = self.cache.signing.start_read();
        let Some(key) = self.read_key(public_id).await? else { return Ok(Found::Nothing) };
        let (Some(sealed), APIKeyStatus::Active) = (&key.secret, key.status) else {
            return Ok(Found::Other(Box::new(key)));
        };
        let secret =
            self.sealer.open("api_keys.secret", key.key_id.0, sealed).map_err(crate::runtime::internal)?;
        let value = SigningKey {
            key_id: key.key_id,
            caller: caller_of(&key),
            verifier: Verifier::new(&secret),
            last_used_at: AtomicI64::new(key.last_used_at.map_or(i64::MIN, Timestamp::micros)),
        };
        Ok(Found::Signing(self.cache.signing.insert(public_id.to_owned(), read, value)))
    }

    async fn authenticate_session(
        &self,
        token: &str,
        carrier: Carrier,
        presented: Presented<'_>,
    ) -> Result<Caller> {
        let (hash, now) = (tokens::hash(token), self.clock.now());
        let cached = self.read_session(hash, now).await?;
        let cached = cached.ok_or_else(|| Error::refused("there is no such session, or it has ended"))?;
        let session = &cached.session;
        let credential = match (session.user_id, session.role, session.key_id) {
            (Some(user), Some(role), _) => {
                Credential::Console { user, session: SessionId(hash), role, carrier }
            }
            (None, _, Some(key)) => {
                let rights = KeyRights::stored(KeyKind::Signed, session.scopes.as_deref());
                Credential::Key { key, rights }
            }
            _ => return Err(Error::refused("the session belongs to nobody")),
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

    async fn authenticate_bearer(&self, token: &str, presented: Presented<'_>) -> Result<Caller> {
        let hash = tokens::hash(token);
        let key = if let Some(key) = self.cache.bearers.get(&hash) {
            key
        } else {
            let read = self.cache.bearers.start_read();
            let found = self
                .store
                .read("key_by_bearer_hash", async |conn| keys::by_bearer_hash(conn, &hash).await)
                .await?;
            let key = found.ok_or_else(|| Error::refused("there is no such bearer key"))?;
            self.require_active(&key, presented)?;
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
        self.recent_proof_in(conn, caller).await
    }

    /// Checks the same ahead of the transaction, so that a request that will be refused uses up nothing.
    pub(crate) async fn check_recent_proof(&self, caller: Caller) -> Result<()> {
        self.store
            .read("recent_proof", async |conn: &mut Conn| self.recent_proof_in(conn, caller).await)
            .await
    }

    async fn recent_proof_in(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        let ((_, session), now) = (caller.session()?, self.clock.now());
        let session = sessions::find(conn, &session.0, now).await?;
        let session = session.ok_or_else(|| Error::refused("the session has ended"))?;
        if now.since(session.proved_at) <= self.recent_proof {
            return Ok(());
        }
        Err(Error::new(
            Kind::ReauthenticationRequired,
            "confirm your password, a code, a passkey or a provider first: POST /auth/console/reauthenticate",
        ))
    }

    async fn authenticate_legacy(&self, long_key: &str, presented: Presented<'_>) -> Result<Caller> {
        let key = self.find_legacy_key(long_key).await?;
        self.require_active(&key, presented)?;
        self.touch(key.tenant_id, key.key_id, key.legacy_used_at, true).await;
        Ok(caller_of(&key))
    }

    /// The active key that a legacy key belongs to.
    pub(crate) async fn legacy_key(&self, long_key: &str) -> Result<Key> {
        let key = self.find_legacy_key(long_key).await?;
        let is_active = key.status == APIKeyStatus::Active;
        if is_active { Ok(key) } else { Err(Error::refused(format!("key {}: inactive", key.key_id))) }
    }

    /// The key that a legacy key belongs to, active or not. Each use is logged, because legacy keys will be removed.
    async fn find_legacy_key(&self, long_key: &str) -> Result<Key> {
        let hash = tokens::hash(long_key);
        let found = self
            .store
            .read("key_by_legacy_hash", async |conn| keys::by_legacy_hash(conn, &hash).await)
            .await?;
        let key = found.ok_or_else(|| Error::refused("no key of any known form"))?;
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
