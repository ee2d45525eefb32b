//! Webhook endpoints, as a tenant edits them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::api::{
    WebhookEndpoint, WebhookEndpointCreate, WebhookEndpointList, WebhookEndpointSecret,
    WebhookEndpointUpdate, WebhookSecretRotation,
};
use model::condition::is_key;
use model::webhook::{DEFAULT_EVENT_TYPES, EVENT_TYPES, SECRET_PREFIX};
use model::{TenantId, Timestamp};
use store::accounts::tenants;
use store::actions::webhooks::endpoints::{self, Endpoint};
use store::runtime::created_by::MadeBy;
use store::{Conn, Store};
use uuid::Uuid;

use crate::actions::webhooks::deliveries::drop_deliveries;
use crate::actions::webhooks::handle::CourierHandle;
use crate::runtime::{
    Caller, Clock, Error, Kind, Outbound, Random, Result, Sealer, Workers, audit, internal,
};

/// The column that secrets of endpoints are sealed for.
pub(crate) const SECRET_COLUMN: &str = "webhook_endpoints.secret";
/// The column that their previous secrets are sealed for.
pub(crate) const PREVIOUS_SECRET_COLUMN: &str = "webhook_endpoints.previous_secret";
/// For how long deliveries are signed with the previous secret too, unless the owner chooses, and at most: a week.
const OVERLAP_HOURS: i64 = 24;
const MAX_OVERLAP_HOURS: i64 = 168;
/// The column that URLs of endpoints are sealed for: many receivers expect a token in theirs.
pub(crate) const URL_COLUMN: &str = "webhook_endpoints.sealed_url";
/// URLs that are sealed in one transaction when the service starts.
const SEALED_AT_ONCE: i64 = 200;
const SECRET_BYTES: usize = 32;
const MAX_ENDPOINTS: i64 = 50;
const MAX_DESCRIPTION: usize = 1_000;
const MAX_SIGNAL_KEYS: usize = 1_000;
/// The version of an endpoint that was deleted: no claim for an earlier one is sent any more.
const DELETED: i64 = i64::MAX;
const NOTE: &str = "Store the secret now: it is not shown again. Deliveries are signed with it.";

/// The webhook endpoints of all tenants.
pub struct Endpoints {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) outbound: Outbound,
    pub(crate) workers: Workers,
    pub(crate) courier: CourierHandle,
}

impl Endpoints {
    /// The endpoints of a tenant.
    pub async fn list(&self, tenant: TenantId) -> Result<WebhookEndpointList> {
        let endpoints =
            self.store.read("webhooks", async |conn| endpoints::of_tenant(conn, tenant).await).await?;
        let webhooks = endpoints.into_iter().map(|endpoint| self.record(endpoint)).collect::<Result<_>>()?;
        Ok(WebhookEndpointList { webhooks })
    }

    /// Registers an endpoint.
    pub async fn create(
        &self,
        caller: Caller,
        request: &WebhookEndpointCreate,
    ) -> Result<WebhookEndpointSecret> {
        let tenant = caller.tenant;
        let now = self.clock.now();
        let (endpoint_id, enabled) = (self.random.id(now), request.enabled.unwrap_or(true));
        let endpoint = Endpoint {
            tenant_id: tenant,
            endpoint_id,
            sealed_url: self.sealed_url(endpoint_id, &request.url).await?,
            description: description(request.description.as_deref().unwrap_or_default())?,
            enabled,
            disabled_reason: None,
            signal_keys: signal_keys(request.signal_keys.as_deref().unwrap_or_default())?.into(),
            events: request.events.as_deref().map_or_else(|| Ok(default_events()), events)?.into(),
            created_at: now,
            updated_at: now,
            version: 1,
            disabled_us: 0,
            disabled_at: (!enabled).then_some(now),
            is_ready: true,
        };
        let secret = self.new_secret();
        let sealed = self.sealer.seal(&self.random, SECRET_COLUMN, endpoint_id, secret.as_bytes());
        self.store
            .write("create_webhook", async |conn: &mut Conn| {
                // Locked, so that two concurrent requests cannot exceed the limit.
                tenants::lock(conn, tenant).await?;
                if endpoints::count(conn, tenant).await? >= MAX_ENDPOINTS {
                    let reason = format!("an account has at most {MAX_ENDPOINTS} webhook endpoints");
                    return Err(Error::new(Kind::Conflict, reason));
                }
                caller.require_valid(conn, now).await?;
                let maker = caller.created_by(conn).await?;
                audit::note(tenant, endpoint_id, audit::NONE, Some(&self.record(endpoint.clone())?));
                Ok(endpoints::insert(conn, &endpoint, &sealed, &maker).await?)
            })
            .await?;
        Ok(WebhookEndpointSecret { endpoint: self.record(endpoint)?, secret, note: NOTE.to_owned() })
    }

    /// An endpoint.
    pub async fn get(&self, tenant: TenantId, endpoint: Uuid) -> Result<WebhookEndpoint> {
        let found =
            self.store.read("webhook", async |conn| endpoints::find(conn, tenant, endpoint).await).await?;
        self.record(found.ok_or_else(no_such_endpoint)?)
    }

    /// Edits an endpoint. If it is resting, its receiver is probed at once.
    pub async fn update(
        &self,
        caller: Caller,
        endpoint: Uuid,
        update: &WebhookEndpointUpdate,
    ) -> Result<WebhookEndpoint> {
        let tenant = caller.tenant;
        let sealed_url = match &update.url {
            Some(url) => Some(self.sealed_url(endpoint, url).await?),
            None => None,
        };
        let description = update.description.as_deref().map(description).transpose()?;
        let signal_keys = update.signal_keys.as_deref().map(signal_keys).transpose()?;
        let events = update.events.as_deref().map(events).transpose()?;
        let edited = self
            .store
            .write("update_webhook", async |conn: &mut Conn| {
                // Locked, so that concurrent changes of different fields are not lost.
                tenants::lock(conn, tenant).await?;
                let now = self.clock.now();
                caller.require_valid(conn, now).await?;
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                let before = self.record(known.clone())?;
                let mut edited = Endpoint {
                    sealed_url: sealed_url.unwrap_or(known.sealed_url),
                    description: description.unwrap_or(known.description),
                    // Until somebody enables it, it keeps the reason.
                    disabled_reason: known.disabled_reason.filter(|_| update.enabled != Some(true)),
                    signal_keys: signal_keys.map_or(known.signal_keys, Into::into),
                    events: events.map_or(known.events, Into::into),
                    updated_at: now,
                    ..known
                };
                edited.set_enabled(update.enabled.unwrap_or(edited.enabled), now);
                edited.version = endpoints::update(conn, &edited).await?;
                self.courier.probe(conn, tenant, endpoint, now).await?;
                audit::note(tenant, endpoint, Some(&before), Some(&self.record(edited.clone())?));
                Ok::<_, Error>(edited)
            })
            .await?;
        // Claimed deliveries are released, so that they are sent as the endpoint is now, or not at all.
        self.courier.recall(endpoint, edited.version);
        self.record(edited)
    }

    fn new_secret(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(self.random.bytes::<SECRET_BYTES>()))
    }

    /// Gives an endpoint a new secret. Deliveries are signed with the previous one too for some hours, so that the receiver can
    /// change over when it likes. A second rotation within that time ends the oldest secret.
    pub async fn rotate_secret(
        &self,
        caller: Caller,
        endpoint: Uuid,
        request: &WebhookSecretRotation,
    ) -> Result<WebhookEndpointSecret> {
        let hours = request.overlap_hours.unwrap_or(OVERLAP_HOURS);
        if !(0..=MAX_OVERLAP_HOURS).contains(&hours) {
            let message = format!("overlap_hours: it must be from 0 to {MAX_OVERLAP_HOURS}");
            return Err(Error::bad_request(message));
        }
        let tenant = caller.tenant;
        let secret = self.new_secret();
        let sealed = self.sealer.seal(&self.random, SECRET_COLUMN, endpoint, secret.as_bytes());
        let rotated = self
            .store
            .write("rotate_webhook_secret", async |conn: &mut Conn| {
                tenants::lock(conn, tenant).await?;
                let now = self.clock.now();
                caller.require_valid(conn, now).await?;
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                let present =
                    endpoints::secret(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                let present = self.sealer.open(SECRET_COLUMN, endpoint, &present).map_err(internal)?;
                let resealed = self.sealer.seal(&self.random, PREVIOUS_SECRET_COLUMN, endpoint, &present);
                let until = now + Duration::from_hours(hours.unsigned_abs());
                let previous = (hours > 0).then_some((resealed.as_slice(), until));
                endpoints::set_secret(conn, (tenant, endpoint), &sealed, previous).await?;
                let mut rotated = Endpoint { updated_at: now, ..known };
                rotated.version = endpoints::update(conn, &rotated).await?;
                audit::note(tenant, endpoint, audit::NONE, Some(&self.record(rotated.clone())?));
                Ok::<_, Error>(rotated)
            })
            .await?;
        // Claimed deliveries are released, so that they are signed as the endpoint is now.
        self.courier.recall(endpoint, rotated.version);
        Ok(WebhookEndpointSecret { endpoint: self.record(rotated)?, secret, note: NOTE.to_owned() })
    }

    /// Deletes an endpoint and its deliveries.
    pub async fn delete(&self, tenant: TenantId, endpoint: Uuid) -> Result<()> {
        self.store
            .write("delete_webhook", async |conn: &mut Conn| {
                // Locked, so that a concurrent edit happens before or after.
                tenants::lock(conn, tenant).await?;
                let known = endpoints::find(conn, tenant, endpoint).await?.ok_or_else(no_such_endpoint)?;
                audit::note(tenant, endpoint, Some(&self.record(known)?), audit::NONE);
                if endpoints::delete(conn, tenant, endpoint).await? {
                    Ok(())
                } else {
                    Err(no_such_endpoint())
                }
            })
            .await?;
        self.courier.recall(endpoint, DELETED);
        // The deliveries are no longer listed; there may be very many, so they are removed in the background. What a
        // crash leaves behind is swept.
        let store = self.store.clone();
        self.workers.start(|stop| async move {
            let dropped = stop.run_until_cancelled(drop_deliveries(&store, tenant, endpoint)).await;
            if let Some(Err(error)) = dropped {
                tracing::warn!(%error, %endpoint, "cannot remove the deliveries of a deleted endpoint");
            }
        });
        Ok(())
    }

    async fn sealed_url(&self, endpoint: Uuid, text: &str) -> Result<Vec<u8>> {
        match self.outbound.check(text).await {
            Ok(_) => Ok(self.sealer.seal(&self.random, URL_COLUMN, endpoint, text.as_bytes())),
            Err(reason) => Err(Error::bad_request(format!("url: {reason}"))),
        }
    }

    fn record(&self, endpoint: Endpoint) -> Result<WebhookEndpoint> {
        Ok(WebhookEndpoint {
            id: endpoint.endpoint_id,
            url: open_url(&self.sealer, endpoint.endpoint_id, &endpoint.sealed_url)?,
            description: endpoint.description,
            enabled: endpoint.enabled,
            disabled_reason: endpoint.disabled_reason,
            signal_keys: endpoint.signal_keys.0,
            events: endpoint.events.0,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
            health: None,
        })
    }
}

/// Opens the sealed URL of an endpoint.
pub(crate) fn open_url(sealer: &Sealer, endpoint: Uuid, sealed: &[u8]) -> Result<String> {
    let url = sealer.open(URL_COLUMN, endpoint, sealed).map_err(internal)?;
    String::from_utf8(url).map_err(internal)
}

/// Seals the URLs that a version before sealing has stored. Nothing else runs on the database meanwhile but processes that do
/// the same.
pub async fn seal_plain_urls(store: &Store, sealer: &Sealer, random: &Random) -> Result<u64> {
    let mut sealed = 0;
    loop {
        let step = store
            .write("seal_endpoint_urls", async |conn: &mut Conn| {
                let plain = endpoints::with_plain_url(conn, SEALED_AT_ONCE).await?;
                for (tenant, endpoint, url) in &plain {
                    let url = sealer.seal(random, URL_COLUMN, *endpoint, url.as_bytes());
                    endpoints::seal_url(conn, *tenant, *endpoint, &url).await?;
                }
                Ok::<_, Error>(plain.len() as u64)
            })
            .await?;
        if step == 0 {
            return Ok(sealed);
        }
        sealed += step;
    }
}

/// Disables the enabled endpoints that a member made, in the caller's transaction. Returns them with the versions to recall
/// them at, once that is committed.
pub(crate) async fn disable_endpoints_made_by(
    conn: &mut Conn,
    courier: &CourierHandle,
    by: MadeBy,
    tenant: TenantId,
    reason: &str,
    now: Timestamp,
) -> Result<Vec<(Uuid, i64)>> {
    let mut disabled = Vec::new();
    for mut endpoint in endpoints::enabled_made_by(conn, tenant, by).await? {
        endpoint.disabled_reason = Some(reason.to_owned());
        endpoint.updated_at = now;
        endpoint.set_enabled(false, now);
        disabled.push((endpoint.endpoint_id, endpoints::update(conn, &endpoint).await?));
    }
    if !disabled.is_empty() {
        courier.notify_others(conn).await?;
    }
    Ok(disabled)
}

fn description(text: &str) -> Result<String> {
    if text.chars().count() > MAX_DESCRIPTION {
        return Err(Error::bad_request(format!(
            "description: it must have at most {MAX_DESCRIPTION} characters"
        )));
    }
    Ok(text.to_owned())
}

/// The keys without duplicates. A key may belong to a signal that does not exist yet.
fn signal_keys(keys: &[String]) -> Result<Vec<String>> {
    if keys.len() > MAX_SIGNAL_KEYS {
        return Err(Error::bad_request(format!("signal_keys: there must be at most {MAX_SIGNAL_KEYS}")));
    }
    if let Some(at) = keys.iter().position(|key| !is_key(key)) {
        return Err(Error::bad_request(format!("signal_keys[{at}]: this cannot be the key of a signal")));
    }
    let mut unique: Vec<String> = Vec::new();
    for key in keys {
        if !unique.contains(key) {
            unique.push(key.clone());
        }
    }
    Ok(unique)
}

fn default_events() -> Vec<String> {
    DEFAULT_EVENT_TYPES.map(str::to_owned).to_vec()
}

/// The event types without duplicates, in a fixed order.
fn events(requested: &[String]) -> Result<Vec<String>> {
    if requested.is_empty() {
        return Err(Error::bad_request("events: name at least one, or leave it out"));
    }
    if let Some(at) = requested.iter().position(|event| !EVENT_TYPES.contains(&event.as_str())) {
        let known = EVENT_TYPES.join(", ");
        return Err(Error::bad_request(format!("events[{at}]: it must be one of {known}")));
    }
    let known = EVENT_TYPES.map(str::to_owned).into_iter();
    Ok(known.filter(|event| requested.contains(event)).collect())
}

pub(super) fn no_such_endpoint() -> Error {
    Error::new(Kind::NotFound, "there is no such webhook endpoint")
}
