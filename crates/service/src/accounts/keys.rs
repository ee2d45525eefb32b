//! API keys: a public id, and a signing secret that is shown only once.

use model::api::{
    APIKey, APIKeyActivity, APIKeyCreate, APIKeyList, APIKeySecret, APIKeyStatus, APIKeyUpdate,
};
use model::{KeyId, TenantId};
use store::accounts::keys::{self, Key};
use store::accounts::{sessions, tenants};
use store::runtime::created_by::CreatedBy;
use store::{Conn, Store};

use crate::accounts::authentication::Authentication;
use crate::accounts::tokens;
use crate::outbox::mail::KeyFacts;
use crate::outbox::{EmailEvent, Notifications};
use crate::runtime::{Caller, Clock, Error, Kind, Random, Result, Sealer, internal};

/// The maximum length of a key's name.
const MAX_NAME: usize = 100;
/// The maximum number of keys per tenant, without revoked ones: enough for one per calling service, few enough for a list.
const MAX_KEYS: i64 = 100;
const DEFAULT_NAME: &str = "API key";
const NOTE: &str = "Store the secret now: it is not shown again. Sign requests with it, and never send it.";
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
        let now = self.clock.now();
        let key_id = KeyId(self.random.id(now));
        let secret = tokens::secret(&self.random, tokens::KEY_SECRET);
        let key = Key {
            key_id,
            public_id: tokens::public_id(&self.random, tokens::KEY_ID),
            tenant_id: tenant,
            name: name.to_owned(),
            status: APIKeyStatus::Active,
            secret: Some(self.sealer.seal(&self.random, "api_keys.secret", key_id.0, secret.as_bytes())),
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
                self.notifications
                    .mail_tenant(conn, tenant, EmailEvent::ApiKeyCreated, |templates, to| {
                        templates.api_key_created(to, facts(&key), now)
                    })
                    .await
            })
            .await?;
        self.notifications.wake();
        Ok(with_secret(&key, secret))
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

    /// Renames a key, or makes it active or inactive.
    pub async fn update(&self, tenant: TenantId, key: KeyId, update: &APIKeyUpdate) -> Result<APIKey> {
        let name = update.name.as_deref().map(key_name).transpose()?;
        let status = update.status.map(|status| match status {
            APIKeyActivity::Active => APIKeyStatus::Active,
            APIKeyActivity::Inactive => APIKeyStatus::Inactive,
        });
        let key = self
            .store
            .write("update_api_key", async |conn: &mut Conn| {
                if !keys::update(conn, tenant, key, name, status).await? {
                    return Err(no_such_key());
                }
                keys::find(conn, tenant, key).await?.ok_or_else(no_such_key)
            })
            .await?;
        self.authentication.clear_cache();
        Ok(record(&key))
    }

    /// Gives a key a new secret; the old one stops working at once. The caller is its maker from then on.
    pub async fn rotate(&self, caller: Caller, key: KeyId) -> Result<APIKeySecret> {
        let tenant = caller.tenant;
        let secret = tokens::secret(&self.random, tokens::KEY_SECRET);
        let sealed = self.sealer.seal(&self.random, "api_keys.secret", key.0, secret.as_bytes());
        let key = self
            .store
            .write("rotate_api_key", async |conn: &mut Conn| {
                let now = self.clock.now();
                // Locked, so that a first proof of an address ends this key, or comes first and ends the caller's credential.
                tenants::lock(conn, tenant).await?;
                self.require_fresh(conn, caller).await?;
                let maker = caller.created_by(conn).await?;
                if !keys::rotate(conn, tenant, key, &sealed, &maker).await? {
                    return Err(no_such_key());
                }
                sessions::delete_of_key(conn, key).await?;
                let key = keys::find(conn, tenant, key).await?.ok_or_else(no_such_key)?;
                self.notifications
                    .mail_tenant(conn, tenant, EmailEvent::ApiKeyRotated, |templates, to| {
                        templates.api_key_rotated(to, facts(&key), now)
                    })
                    .await?;
                Ok(key)
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(with_secret(&key, secret))
    }

    /// Revokes a key permanently.
    pub async fn revoke(&self, tenant: TenantId, key: KeyId) -> Result<()> {
        self.store
            .write("revoke_api_key", async |conn: &mut Conn| {
                let found = keys::find(conn, tenant, key).await?.ok_or_else(no_such_key)?;
                if !keys::revoke(conn, tenant, key).await? {
                    return Err(no_such_key());
                }
                sessions::delete_of_key(conn, key).await?;
                let now = self.clock.now();
                self.notifications
                    .mail_tenant(conn, tenant, EmailEvent::ApiKeyRevoked, |templates, to| {
                        templates.api_key_revoked(to, facts(&found), now)
                    })
                    .await
            })
            .await?;
        self.authentication.clear_cache();
        self.notifications.wake();
        Ok(())
    }

    /// Imports a legacy key from before request signing: it has no secret until it is rotated.
    pub async fn import_legacy(&self, tenant: TenantId, name: &str, long_key: &str) -> Result<APIKey> {
        let name = key_name(name)?;
        let is_token_like =
            [tokens::CONSOLE_TOKEN, tokens::TENANT_TOKEN].iter().any(|prefix| long_key.starts_with(prefix));
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

fn key_name(name: &str) -> Result<&str> {
    let name = name.trim();
    let characters = name.chars().count();
    if (1..=MAX_NAME).contains(&characters) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Error::bad_request(format!("name: it must have 1 to {MAX_NAME} characters")))
    }
}

fn facts(key: &Key) -> KeyFacts<'_> {
    KeyFacts { name: &key.name, public_id: &key.public_id }
}

fn no_such_key() -> Error {
    Error::new(Kind::NotFound, "there is no such API key")
}

fn with_secret(key: &Key, secret: String) -> APIKeySecret {
    APIKeySecret { api_key: record(key), key: key.public_id.clone(), secret, note: NOTE.to_owned() }
}

fn record(key: &Key) -> APIKey {
    APIKey {
        id: key.key_id.0,
        key: key.public_id.clone(),
        name: key.name.clone(),
        status: key.status,
        has_secret: key.secret.is_some(),
        legacy: key.legacy_hash.is_some().then_some(true),
        legacy_preview: key.legacy_preview.clone(),
        created_at: key.created_at,
        last_used_at: key.last_used_at,
        legacy_used_at: key.legacy_used_at,
    }
}
