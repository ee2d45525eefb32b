//! OpenID Connect issuers, of which Google is one: their configuration is discovered, and the user is in a signed ID token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use model::Timestamp;
use reqwest::RequestBuilder;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use url::{Url, form_urlencoded};

use super::http::{Failure, Http, Incomplete, fetch};
use super::id_token::{self, Expected, Profile};
use super::oauth::{Application, Tokens, exchange, without_slash};
use crate::accounts::providers::ProvenIdentity;
use crate::runtime::{Clock, Result};

const SCOPE: &str = "openid email profile";
const DISCOVERY: &str = "reading the OpenID configuration";
const KEYS: &str = "reading the issuer's keys";
const USERINFO: &str = "asking for the user";
/// How long the issuer's documents are cached.
const CACHED_FOR: Duration = Duration::from_hours(1);
/// The minimum age of the cached keys before a token with an unknown key causes a new read.
const KEYS_MIN_AGE: Duration = Duration::from_mins(1);

pub(super) struct OpenId {
    application: Application,
    issuer: Url,
    clock: Clock,
    configuration: Cached<Configuration>,
    keys: Cached<JwkSet>,
}

/// The issuer's discovery document, as received.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The issuer's configuration: its discovery document, checked.
struct Configuration {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    secret_in_body: bool,
}

#[derive(Deserialize)]
struct KeyDocument {
    keys: Vec<serde_json::Value>,
}

impl OpenId {
    pub(super) fn new(application: Application, issuer: &Url, clock: Clock) -> Self {
        Self { application, issuer: issuer.clone(), clock, configuration: Cached::new(), keys: Cached::new() }
    }

    pub(super) async fn authorization_url(
        &self,
        http: &Http,
        state: &str,
        challenge: &str,
    ) -> Result<Url, Failure> {
        let endpoint = self.configuration(http).await?.authorization_endpoint.clone();
        let mut url = self.application.authorization_url(endpoint, SCOPE, state, challenge);
        url.query_pairs_mut().append_pair("nonce", challenge);
        Ok(url)
    }

    pub(super) async fn identify(
        &self,
        http: &Http,
        code: &str,
        verifier: &str,
    ) -> Result<ProvenIdentity, Incomplete> {
        let configuration = self.configuration(http).await?;
        let tokens = exchange(self.grant(http, &configuration, code, verifier)).await?;
        let mut profile = self.verified(http, &configuration, &tokens, verifier).await?;
        if profile.email().is_none() {
            let found = userinfo(http, &configuration, &tokens, &profile).await;
            profile = found.map_err(|failure| failure.of(&profile.sub))?;
        }
        let email = profile
            .email()
            .ok_or_else(|| Failure::at(USERINFO, "it has no email address").of(&profile.sub))?;
        Ok(ProvenIdentity {
            email: email.to_owned(),
            email_verified: profile.email_verified(),
            subject: profile.sub,
            name: profile.name.filter(|name| !name.trim().is_empty()),
        })
    }

    fn grant(
        &self,
        http: &Http,
        configuration: &Configuration,
        code: &str,
        verifier: &str,
    ) -> RequestBuilder {
        let mut form = self.application.grant(code, verifier);
        let request = http.post(configuration.token_endpoint.clone());
        if configuration.secret_in_body {
            form.extend(self.application.credentials());
            return request.form(&form);
        }
        // RFC 6749, section 2.3.1: both are form-encoded before they are joined by a colon.
        let [id, secret] = self.application.credentials().map(|(_, text)| encoded(text));
        request.basic_auth(id, Some(secret)).form(&form)
    }

    /// The profile in the ID token, once its signature and claims are verified.
    async fn verified(
        &self,
        http: &Http,
        configuration: &Configuration,
        tokens: &Tokens,
        verifier: &str,
    ) -> Result<Profile, Failure> {
        let token = tokens.id_token.as_deref();
        let token = token.ok_or_else(|| Failure::at(id_token::STEP, "the response contains no ID token"))?;
        let header = id_token::header(token)?;
        let key = match id_token::key_for(&header, &*self.keys(http, configuration, CACHED_FOR).await?) {
            Some(key) => key,
            // The issuer may have rotated its keys since they were read.
            None => id_token::key_for(&header, &*self.keys(http, configuration, KEYS_MIN_AGE).await?)
                .ok_or_else(|| Failure::at(id_token::STEP, "its key is not one of the issuer's"))?,
        };
        let expected = Expected {
            issuer: &configuration.issuer,
            client_id: &self.application.client_id,
            nonce: &URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)),
            now: self.clock.now(),
        };
        id_token::verify(token, &header, &key, &expected)
    }

    /// The issuer's configuration, cached for an hour.
    async fn configuration(&self, http: &Http) -> Result<Arc<Configuration>, Failure> {
        if let Some(configuration) = self.configuration.younger_than(CACHED_FOR, self.clock.now()) {
            return Ok(configuration);
        }
        let url = format!("{}/.well-known/openid-configuration", without_slash(&self.issuer));
        let url = Url::parse(&url).map_err(|error| Failure::at(DISCOVERY, error))?;
        let document: Document = fetch(DISCOVERY, http.get(url)).await?;
        let configuration = document.checked(&self.issuer).map_err(|cause| Failure::at(DISCOVERY, cause))?;
        Ok(self.configuration.insert(configuration, self.clock.now()))
    }

    /// The issuer's keys, read again if they are older than `age`.
    async fn keys(
        &self,
        http: &Http,
        configuration: &Configuration,
        age: Duration,
    ) -> Result<Arc<JwkSet>, Failure> {
        if let Some(keys) = self.keys.younger_than(age, self.clock.now()) {
            return Ok(keys);
        }
        let document: KeyDocument = fetch(KEYS, http.get(configuration.jwks_uri.clone())).await?;
        // RFC 7517, section 5: a key that is not understood is ignored.
        let understood = document.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(self.keys.insert(JwkSet { keys: understood.collect() }, self.clock.now()))
    }
}

impl Document {
    fn checked(self, issuer: &Url) -> Result<Configuration, &'static str> {
        // A trailing slash is ignored: a parsed URL always has a path.
        if self.issuer.trim_end_matches('/') != without_slash(issuer) {
            return Err("it is another issuer's");
        }
        // An issuer that uses TLS must not direct secrets or the user's browser to an unencrypted endpoint.
        let endpoint = |text: &str| match Url::parse(text) {
            Ok(url) if url.scheme() == "https" || (url.scheme() == "http" && issuer.scheme() == "http") => {
                Ok(url)
            }
            _ => Err("one of its endpoints is not a URL as secure as the issuer's"),
        };
        // An issuer that lists nothing supports Basic (OpenID Connect Discovery, section 3).
        let methods = self.token_endpoint_auth_methods_supported;
        let lists =
            |method: &str| methods.as_ref().is_some_and(|methods| methods.iter().any(|m| m == method));
        Ok(Configuration {
            authorization_endpoint: endpoint(&self.authorization_endpoint)?,
            token_endpoint: endpoint(&self.token_endpoint)?,
            jwks_uri: endpoint(&self.jwks_uri)?,
            userinfo_endpoint: self.userinfo_endpoint.as_deref().map(endpoint).transpose()?,
            secret_in_body: lists("client_secret_post") && !lists("client_secret_basic"),
            issuer: self.issuer,
        })
    }
}

/// The profile from the userinfo endpoint, which must have the same subject as the ID token.
async fn userinfo(
    http: &Http,
    configuration: &Configuration,
    tokens: &Tokens,
    proven: &Profile,
) -> Result<Profile, Failure> {
    let endpoint = configuration.userinfo_endpoint.clone();
    let endpoint = endpoint.ok_or_else(|| Failure::at(USERINFO, "the issuer has no userinfo endpoint"))?;
    let profile: Profile = fetch(USERINFO, http.get(endpoint).bearer_auth(&tokens.access_token)).await?;
    if profile.sub != proven.sub {
        return Err(Failure::at(USERINFO, "it is another user"));
    }
    Ok(profile)
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A cached value with the time of its read. Concurrent callers that find it expired each read it: none waits for another.
struct Cached<T>(Mutex<Option<(Timestamp, Arc<T>)>>);

impl<T> Cached<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn younger_than(&self, age: Duration, now: Timestamp) -> Option<Arc<T>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|(since, _)| now.since(*since) < age).map(|(_, value)| Arc::clone(value))
    }

    fn insert(&self, value: T, now: Timestamp) -> Arc<T> {
        let value = Arc::new(value);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&value)));
        value
    }
}
