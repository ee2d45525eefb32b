//! Signed requests, without the client's own retries: the load must know of every single one what became of it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::tenant::Tenant;
use crate::{Result, now};

/// Longer than a verdict may take.
const TIMEOUT: Duration = Duration::from_secs(7);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends requests.
pub(crate) struct Http(reqwest::Client);

/// A response.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Whether it says that events were recorded despite an error.
    pub(crate) events_recorded: bool,
    /// The JSON of the body; null if it is none.
    pub(crate) body: Value,
}

impl Http {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(client(TIMEOUT)?))
    }

    pub(crate) async fn is_ready(&self, url: &str) -> bool {
        let response = self.0.get(format!("{url}/readyz")).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }

    pub(crate) async fn call(
        &self,
        url: &str,
        tenant: &Tenant,
        method: &str,
        path: &str,
        idempotency_key: Option<&str>,
        body: &Value,
    ) -> Result<Response> {
        let mut request = self.0.request(method.parse()?, format!("{url}{path}"));
        request = request.bearer_auth(token(tenant, method, path)?);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let events_recorded = response.headers().get("events-recorded").is_some_and(|value| value == "true");
        let bytes = response.bytes().await?;
        Ok(Response { status, events_recorded, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }
}

/// A client for servers on loopback.
pub(crate) fn client(timeout: Duration) -> Result<reqwest::Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().timeout(timeout).connect_timeout(CONNECT_TIMEOUT);
    Ok(client.build()?)
}

fn token(tenant: &Tenant, method: &str, path: &str) -> Result<String> {
    let now = now().seconds();
    let header = json!({"alg": "HS256", "typ": "JWT", "kid": tenant.key});
    let claims = json!({"iat": now, "exp": now + 60, "htm": method, "htu": path});
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(&header), encode(&claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(tenant.secret.as_bytes())?;
    mac.update(message.as_bytes());
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())))
}
