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
    /// The cookie that it sets, with its name.
    pub(crate) cookie: Option<String>,
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
        let signed = path.split('?').next().unwrap_or_default();
        let authorization = format!("Bearer {}", token(tenant, method, signed)?);
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(idempotency_key.map(|key| ("idempotency-key", key)));
        self.send(method, &format!("{url}{path}"), &headers, body).await
    }

    /// Sends a request with these headers.
    pub(crate) async fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Response> {
        let mut request = self.0.request(method.parse()?, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let events_recorded = response.headers().get("events-recorded").is_some_and(|value| value == "true");
        let cookie = response.headers().get("set-cookie").and_then(|value| value.to_str().ok());
        let cookie = cookie.and_then(|value| value.split(';').next()).map(str::to_owned);
        let bytes = response.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Response { status, events_recorded, cookie, body })
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
