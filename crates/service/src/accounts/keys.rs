//! API keys: a public id, and a signing secret that is shown only once.

use model::api::{
    APIKey, APIKeyActivity, APIKeyCreate, APIKeyList, APIKeySecret, APIKeyStatus, APIKeyUpdate,
};
use model::{AuditAction, KeyId, KeyKind, ScopeSet, TenantId, Timestamp, UserId};
use store::accounts::keys::{self, Key, NewSecret};
use store::accounts::{sessions, tenants, users};
use store::actions::reviews;
use store::runtime::created_by::CreatedBy;
use store::{Conn, Store};

use crate::accounts::authentication::Authentication;
use crate::accounts::tokens;
use crate::outbox::mail::KeyFacts;
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::{
    Caller, Clock, Credential, Error, KeyRights, Kind, Random, Result, Sealer, audit, internal,
};

/// The maximum length of a key's name.
const MAX_NAME: usize = 100;
/// The maximum number of keys per tenant, without revoked ones: enough for one per calling service, few enough for a list.
const MAX_KEYS: i64 = 100;
const DEFAULT_NAME: &str = "API key";
const NOTE: &str = "Store the secret now: it is not shown again. Sign requests with it, and never send it.";
const BEARER_NOTE: &str =
    "Store the secret now: it is not shown again. Send it as Authorization: Bearer, over https only.";
/// How many characters of a legacy key are shown.
const PREVIEW: usize = 4;
/// The minimum length of a legacy key; a shorter one could be guessed.
const MIN_LEGACY: usize = 16;

/// The API keys of all tenants.
#[derive(Clone)]
pub struct Keys {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) authentication: Authentication,
    pub(crate) notifications: Notifications,
}

/// A new secret, and what is stored of it: sealed, or its hash.
struct MadeSecret {
    secret: String,
    sealed: Option<Vec<u8>>,
    bearer_hash: Option<[u8; 32]>,
}

impl Keys {
    /// The keys of a tenant, without revoked ones.
    pub async fn list(&self, tenant: TenantId) -> Result<APIKeyList> {
        let keys = self.store.read("api_keys", async |conn| keys::of_tenant(conn, tenant).await).await?;
        Ok(APIKeyList { api_keys: keys.iter().map(record).collect() })
    }

    /// Creates a key.
    pub async fn create(&self, caller: Caller, request: &APIKeyCreate) -> Result<APIKeySecret> {
        self.create_for(caller.tenant, request, Some(caller)).await
    }

    /// Creates a key for a caller, or for the operator.
    pub(crate) async fn create_for(
        &self,
        tenant: TenantId,
        request: &APIKeyCreate,
        caller: Option<Caller>,
    ) -> Result<APIKeySecret> {
        let name = key_name(request.name.as_deref().unwrap_or(DEFAULT_NAME))?;
        let kind = request.kind.unwrap_or_default();
        let scopes = ScopeSet::for_key(kind, request.scopes.as_deref())
            .map_err(|reason| Error::bad_request(format!("scopes: {reason}")))?;
        caller.map_or(Ok(()), |caller| require_within(caller, scopes))?;
        let now = self.clock.now();
        let key_id = KeyId(self.random.id(now));
        let made = self.new_secret(kind, key_id);
        let key = Key {
            key_id,
            public_id: tokens::public_id(&self.random, tokens::KEY_ID),
            tenant_id: tenant,
            name: name.to_owned(),
            status: APIKeyStatus::Active,
            kind,
            scopes: (scopes != ScopeSet::SIGNED).then(|| scopes.to_text()),
            bearer_hash: made.bearer_hash.map(|hash| hash.to_vec()),
            secret: made.sealed,
            legacy_hash: None,
            legacy_preview: None,
            created_at: now,
            last_used_at: None,
            legacy_used_at: None,
        };
        self.store
            .write("create_api_key", async |conn: &mut Conn| {
                // Locked, so that two concurrent requests cannot exceed the limit.
                tenants::lock(conn, tenant).await?;
                if keys::count(conn, tenant).await? >= MAX_KEYS {
                    let reason = format!("an account has at most {MAX_KEYS} API keys: revoke one first");
                    return Err(Error::new(Kind::Conflict, reason));
                }
                let maker = match caller {
                    Some(caller) => {
                        self.require_fresh(conn, caller).await?;
                        caller.created_by(conn).await?
                    }
                    None => CreatedBy::OPERATOR,
                };
                if !keys::insert(conn, &key, &maker).await? {
                    return Err(internal("a public key id was generated twice"));
                }
                audit::note(tenant, key.key_id.0, audit::NONE, Some(&record(&key)));
                self.notifications
                    .mail_tenant(conn, tenant, EmailEvent::ApiKeyCreated, |templates, to| {
                        templates.api_key_created(to, facts(&key), now)
                    })
                    .await
            })
            .await?;
        self.notifications.wake();
        Ok(with_secret(&key, made.secret))
    }

    /// A new secret of a kind, and what is stored of it.
    fn new_secret(&self, kind: KeyKind, key: KeyId) -> MadeSecret {
        match kind {
            KeyKind::Signed => {
                let secret = tokens::secret(&self.random, tokens::KEY_SECRET);
                let sealed = self.sealer.seal(&self.random, "api_keys.secret", key.0, secret.as_bytes());
                MadeSecret { secret, sealed: Some(sealed), bearer_hash: None }
            }
            KeyKind::Bearer => {
                let secret = tokens::secret(&self.random, tokens::BEARER_KEY);
                let hash = tokens::hash(&secret);
                MadeSecret { secret, sealed: None, bearer_hash: Some(hash) }
            }
        }
    }

    /// Refuses a caller whose credential has ended. A browser left open must not become a key, so a session in a cookie needs
    /// recent proof too.
    async fn require_fresh(&self, conn: &mut Conn, caller: Caller) -> Result<()> {
        caller.require_valid(conn, self.clock.now()).await?;
        if caller.has_cookie() {
            self.authentication.require_recent_proof(conn, caller).await?;
        }
        Ok(())
    }

    /// Renames a key, or makes it active or inactive, which gives its claims back.
    pub async fn update(&self, caller: Caller, key: KeyId, update: &APIKeyUpdate) -> Result<APIKey> {
        let tenant = caller.tenant;
        let name = update.name.as_deref().map(key_name).transpose()?;
        let status = update.status.map(|status| match status {
            APIKeyActivity::Active => APIKeyStatus::Active,
            APIKeyActivity::Inactive => APIKeyStatus::Inactive,
        });
        let key = self
            .store
            .write("update_api_key", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                caller.require_valid(conn, self.clock.now()).await?;
                let before = find_within(conn, caller, key).await?;
                if !keys::update(conn, tenant, key, name, status).await? {
                    return Err(no_such_key());
                }
                if status == Some(APIKeyStatus::Inactive) {
                    reviews::release_all_of(conn, tenant, key.0).await?;
                }
                let after = keys::find(conn, tenant, key).await?.ok_or_else(no_such_key)?;
                audit::note(tenant, key.0, Some(&record(&before)), Some(&record(&after)));
                Ok(after)
            })
            .await?;
        self.authentication.clear_cache();
        Ok(record(&key))
    }

    /// Gives a key a new secret; the old one stops working at once. The caller is its maker from then on.
    pub async fn rotate(&self, caller: Caller, key: KeyId) -> Result<APIKeySecret> {
        let tenant = caller.tenant;
        let (key, secret) = self
            .store
            .write("rotate_api_key", async |conn: &mut Conn| {
                let now = self.clock.now();
                // Locked, so that a first proof of an address ends this key, or comes first and ends the caller's credential.
                tenants::lock(conn, tenant).await?;
                self.require_fresh(conn, caller).await?;
                let maker = caller.created_by(conn).await?;
                let found = find_within(conn, caller, key).await?;
                let made = self.new_secret(found.kind, key);
                let stored = match (&made.sealed, &made.bearer_hash) {
                    (Some(sealed), _) => NewSecret::Sealed(sealed),
                    (None, Some(hash)) => NewSecret::BearerHash(hash),
                    (None, None) => return Err(internal("a key without a secret")),
                };
                if !keys::rotate(conn, tenant, key, stored, &maker).await? {
                    return Err(no_such_key());
                }
                sessions::delete_of_key(conn, key).await?;
                let key = keys::find(conn, tenant, key).await?.ok_or_else(no_such_key)?;
                audit::note(tenant, key.key_id.0, Some(&record(&found)), Some(&record(&key)));
                self.notifications
                    .mail_tenant(conn, tenant, EmailEvent::ApiKeyRotated, |templates, to| {
                        templates.api_key_rotated(to, facts(&key), now)
                    })
                    .await?;
                Ok((key, made.secret))
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(with_secret(&key, secret))
    }

    /// Revokes a key permanently; its claims are given back.
    pub async fn revoke(&self, caller: Caller, key: KeyId) -> Result<()> {
        let tenant = caller.tenant;
        self.store
            .write("revoke_api_key", async |conn: &mut Conn| {
                // Locked, so that of two keys that revoke each other one stays.
                tenants::lock(conn, tenant).await?;
                caller.require_valid(conn, self.clock.now()).await?;
                let found = find_within(conn, caller, key).await?;
                if !keys::revoke(conn, tenant, key).await? {
                    return Err(no_such_key());
                }
                sessions::delete_of_key(conn, key).await?;
                reviews::release_all_of(conn, tenant, key.0).await?;
                audit::note(tenant, key.0, Some(&record(&found)), audit::NONE);
                mail_revoked(conn, &self.notifications, &[found], None, self.clock.now()).await
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(())
    }

    /// Imports a legacy key from before request signing: it has no secret until it is rotated.
    pub async fn import_legacy(&self, tenant: TenantId, name: &str, long_key: &str) -> Result<APIKey> {
        let name = key_name(name)?;
        let is_token_like = [tokens::CONSOLE_TOKEN, tokens::TENANT_TOKEN, tokens::BEARER_KEY]
            .iter()
            .any(|prefix| long_key.starts_with(prefix));
        if long_key.len() < MIN_LEGACY
            || is_token_like
            || !long_key.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Error::bad_request(format!(
                "the old key must have at least {MIN_LEGACY} visible ASCII characters and not start like a token of this service"
            )));
        }
        if long_key.matches('.').count() == 2 {
            return Err(Error::bad_request(
                "the old key must not have exactly two dots: it would be taken for a signed token",
            ));
        }
        let now = self.clock.now();
        let key = Key {
            key_id: KeyId(self.random.id(now)),
            public_id: tokens::public_id(&self.random, tokens::KEY_ID),
            tenant_id: tenant,
            name: name.to_owned(),
            status: APIKeyStatus::Active,
            kind: KeyKind::Signed,
            scopes: None,
            bearer_hash: None,
            secret: None,
            legacy_hash: Some(tokens::hash(long_key).to_vec()),
            legacy_preview: Some(format!("{}…", &long_key[..PREVIEW])),
            created_at: now,
            last_used_at: None,
            legacy_used_at: None,
        };
        let added = self
            .store
            .write("import_legacy_key", async |conn: &mut Conn| {
                audit::note(tenant, key.key_id.0, audit::NONE, Some(&record(&key)));
                keys::insert(conn, &key, &CreatedBy::OPERATOR).await
            })
            .await?;
        if added {
            Ok(record(&key))
        } else {
            Err(Error::new(Kind::Conflict, "this old key was imported already"))
        }
    }
}

/// Mails to all members that keys of their account were revoked, but to one who is told otherwise: each gets one mail.
pub(crate) async fn mail_revoked(
    conn: &mut Conn,
    notifications: &Notifications,
    revoked: &[Key],
    but_to: Option<UserId>,
    now: Timestamp,
) -> Result<()> {
    let Some(tenant) = revoked.first().map(|key| key.tenant_id) else { return Ok(()) };
    let keys: Vec<KeyFacts<'_>> = revoked.iter().map(facts).collect();
    for member in users::of_tenant(conn, tenant).await? {
        if Some(member.user_id) == but_to {
            continue;
        }
        let mail = notifications.templates.api_keys_revoked(&member.email, &keys, now);
        notifications.mail_user(conn, &member, &mail).await?;
    }
    Ok(())
}

/// Mails and records that keys were revoked with another change. To be called last in the transaction.
pub(crate) async fn record_revoked(
    conn: &mut Conn,
    notifications: &Notifications,
    revoked: &[Key],
    now: Timestamp,
) -> Result<()> {
    mail_revoked(conn, notifications, revoked, None, now).await?;
    for key in revoked {
        let what = (key.tenant_id, AuditAction::ApiKeyRevoked);
        audit::also(conn, what, key.key_id.0, Some(&record(key)), audit::NONE).await?;
    }
    Ok(())
}

pub(crate) fn key_name(name: &str) -> Result<&str> {
    let name = name.trim();
    let characters = name.chars().count();
    if (1..=MAX_NAME).contains(&characters) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Error::bad_request(format!("name: it must have 1 to {MAX_NAME} characters")))
    }
}

/// A key of the caller's account that the caller may manage.
async fn find_within(conn: &mut Conn, caller: Caller, key: KeyId) -> Result<Key> {
    let key = keys::find(conn, caller.tenant, key).await?.ok_or_else(no_such_key)?;
    require_within(caller, KeyRights::stored(key.kind, key.scopes.as_deref()).scopes)?;
    Ok(key)
}

/// Refuses a key that would manage a key with more scopes than its own. One with all scopes manages every key.
fn require_within(caller: Caller, scopes: ScopeSet) -> Result<()> {
    let Credential::Key { rights, .. } = caller.credential else { return Ok(()) };
    if rights.scopes == ScopeSet::SIGNED || rights.scopes.includes(scopes) {
        return Ok(());
    }
    let message = format!("a key manages only keys within its own scopes: {}", rights.scopes.to_text());
    Err(Error::new(Kind::Forbidden, message))
}

fn facts(key: &Key) -> KeyFacts<'_> {
    KeyFacts { name: &key.name, public_id: &key.public_id }
}

fn no_such_key() -> Error {
    Error::new(Kind::NotFound, "there is no such API key")
}

fn with_secret(key: &Key, secret: String) -> APIKeySecret {
    let note = match key.kind {
        KeyKind::Signed => NOTE,
        KeyKind::Bearer => BEARER_NOTE,
    };
    APIKeySecret { api_key: record(key), key: key.public_id.clone(), secret, note: note.to_owned() }
}

pub(crate) fn record(key: &Key) -> APIKey {
    APIKey {
        id: key.key_id.0,
        key: key.public_id.clone(),
        name: key.name.clone(),
        status: key.status,
        kind: key.kind,
        scopes: KeyRights::stored(key.kind, key.scopes.as_deref()).scopes.scopes(),
        has_secret: key.secret.is_some(),
        legacy: key.legacy_hash.is_some().then_some(true),
        legacy_preview: key.legacy_preview.clone(),
        created_at: key.created_at,
        last_used_at: key.last_used_at,
        legacy_used_at: key.legacy_used_at,
    }
}
