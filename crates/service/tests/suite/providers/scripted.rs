//! A provider with scripted responses, and an OpenID Connect issuer built on it, because no real provider
//! misbehaves on demand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use model::{Provider, Timestamp};
use serde_json::{Value, json};
use service::{Clock, ClockHands, Error, OidcOptions, ProvenIdentity, Providers};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use url::{Url, form_urlencoded};

use super::{CHALLENGE, CLIENT_ID, CLIENT_SECRET, VERIFIER, google_at, own_issuer, providers};

pub(super) const CODE: &str = "the-code-of-this-sign-in";
pub(super) const ACCESS_TOKEN: &str = "the-access-token";
/// The initial time of the manual clock.
pub(super) const NOW: i64 = 1_800_000_000;
const MEBIBYTE: usize = 1024 * 1024;

/// The response of an endpoint.
#[derive(Clone)]
pub(super) enum Reply {
    Json(u16, Value),
    Text(&'static str),
    Redirect,
    /// Valid JSON after a mebibyte of spaces.
    Huge(Value),
    /// No response.
    Silence,
    /// A body that does not end, as fast as it is read.
    Endless,
    /// A body of which a byte comes now and then.
    Slow,
    /// A JSON document, but only after this time.
    Late(Duration, Value),
}

/// A request that an endpoint received.
#[derive(Clone)]
pub(super) struct ReceivedRequest {
    pub(super) authorization: Option<String>,
    pub(super) form: HashMap<String, String>,
}

#[derive(Default)]
struct Script {
    replies: HashMap<&'static str, Reply>,
    requests: HashMap<String, Vec<ReceivedRequest>>,
}

/// A provider with scripted responses.
pub(super) struct Scripted {
    pub(super) url: Url,
    script: Arc<Mutex<Script>>,
    // Stops the server when dropped.
    _server: JoinSet<()>,
}

impl Scripted {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let router = axum::Router::new().fallback(respond).with_state(Arc::clone(&script));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script, _server: server }
    }

    pub(super) fn set_reply(&self, path: &'static str, reply: Reply) {
        self.script.lock().unwrap().replies.insert(path, reply);
    }

    pub(super) fn requests(&self, path: &str) -> Vec<ReceivedRequest> {
        self.script.lock().unwrap().requests.get(path).cloned().unwrap_or_default()
    }
}

async fn respond(State(script): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MEBIBYTE).await.unwrap();
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let received = ReceivedRequest {
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
        form: form_urlencoded::parse(&body).into_owned().collect(),
    };
    let reply = {
        let mut script = script.lock().unwrap();
        script.requests.entry(parts.uri.path().to_owned()).or_default().push(received);
        script.replies.get(parts.uri.path()).cloned()
    };
    match reply {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Reply::Json(status, value)) => {
            (StatusCode::from_u16(status).unwrap(), axum::Json(value)).into_response()
        }
        Some(Reply::Text(text)) => text.into_response(),
        Some(Reply::Redirect) => (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response(),
        Some(Reply::Huge(value)) => Body::from(format!("{}{value}", " ".repeat(MEBIBYTE))).into_response(),
        Some(Reply::Silence) => std::future::pending().await,
        Some(Reply::Endless) => {
            let spaces = axum::body::Bytes::from_static(&[b' '; 8192]);
            let chunks = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(spaces.clone()));
            Body::from_stream(chunks).into_response()
        }
        Some(Reply::Late(after, document)) => {
            tokio::time::sleep(after).await;
            axum::Json(document).into_response()
        }
        Some(Reply::Slow) => {
            let bytes = futures_util::stream::unfold((), async |()| {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok::<_, std::io::Error>(" "), ()))
            });
            Body::from_stream(bytes).into_response()
        }
    }
}

/// An issuer that behaves correctly unless told otherwise, a client for it, and the client's clock.
pub(super) struct Issuer {
    pub(super) provider: Scripted,
    pub(super) providers: Providers,
    pub(super) hands: ClockHands,
    /// What it is configured as.
    pub(super) is: Provider,
}

impl Issuer {
    /// In Google's place.
    pub(super) async fn start() -> Self {
        let provider = Scripted::start().await;
        let (clock, hands) = Clock::manual(Timestamp::from_seconds(NOW));
        let providers = providers(Some(google_at(&provider.url)), None, clock);
        Self { provider, providers, hands, is: Provider::Google }.behaving()
    }

    /// As the operator's own issuer, for addresses of these domains.
    pub(super) async fn start_own(domains: &[&str]) -> Self {
        let provider = Scripted::start().await;
        let (clock, hands) = Clock::manual(Timestamp::from_seconds(NOW));
        let options = OidcOptions {
            client_id: CLIENT_ID.to_owned(),
            client_secret: CLIENT_SECRET.to_owned(),
            issuer: provider.url.clone(),
            name: "Acme SSO".to_owned(),
            allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        };
        let providers = own_issuer(options, clock);
        Self { provider, providers, hands, is: Provider::Oidc }.behaving()
    }

    fn behaving(self) -> Self {
        let issuer = self;
        issuer.set_configuration(json!({}));
        issuer.set_keys(&[(1, "one")]);
        issuer.set_id_token(&issuer.token());
        issuer
    }

    /// The issuer as named in tokens: its URL without the trailing slash.
    pub(super) fn name(&self) -> &str {
        self.provider.url.as_str().trim_end_matches('/')
    }

    /// The discovery document, with changes.
    pub(super) fn configuration(&self, changes: Value) -> Value {
        let mut document = json!({
            "issuer": self.name(),
            "authorization_endpoint": format!("{}/authorize?tenant=1", self.name()),
            "token_endpoint": format!("{}/token", self.name()),
            "jwks_uri": format!("{}/keys", self.name()),
            "userinfo_endpoint": format!("{}/userinfo", self.name()),
        });
        merge(&mut document, changes);
        document
    }

    pub(super) fn set_configuration(&self, changes: Value) {
        let document = self.configuration(changes);
        self.provider.set_reply("/.well-known/openid-configuration", Reply::Json(200, document));
    }

    pub(super) fn set_keys(&self, keys: &[(u8, &str)]) {
        self.provider.set_reply("/keys", Reply::Json(200, key_set(keys)));
    }

    /// Exchanges the code for this ID token.
    pub(super) fn set_id_token(&self, id_token: &str) {
        let tokens = json!({"access_token": ACCESS_TOKEN, "token_type": "Bearer", "id_token": id_token});
        self.provider.set_reply("/token", Reply::Json(200, tokens));
    }

    /// Valid claims, with changes; null removes a claim.
    pub(super) fn claims(&self, changes: Value) -> Value {
        let mut claims = json!({
            "iss": self.name(),
            "sub": "ann-1",
            "aud": CLIENT_ID,
            "iat": NOW,
            "exp": NOW + 3600,
            "nonce": CHALLENGE,
            "email": "ann@example.com",
            "email_verified": true,
            "name": "Ann",
        });
        merge(&mut claims, changes);
        claims
    }

    /// A valid token.
    pub(super) fn token(&self) -> String {
        signed(1, Some("one"), &self.claims(json!({})))
    }

    /// A token signed by the issuer, with changed claims.
    pub(super) fn token_with(&self, changes: Value) -> String {
        signed(1, Some("one"), &self.claims(changes))
    }

    pub(super) async fn identify(&self) -> Result<ProvenIdentity, Error> {
        self.providers.identify(self.is, CODE, VERIFIER).await
    }
}

fn merge(into: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    let members = into.as_object_mut().unwrap();
    for (name, value) in changes {
        if value.is_null() {
            members.remove(&name);
        } else {
            members.insert(name, value);
        }
    }
}

/// The P-256 key whose private scalar is this byte repeated 32 times, in PKCS #8.
pub(super) fn key(secret: u8) -> EncodingKey {
    const PREFIX: &str = "3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420";
    EncodingKey::from_ec_der(&[hex::decode(PREFIX).unwrap(), vec![secret; 32]].concat())
}

/// The public keys, as an issuer lists them.
pub(super) fn key_set(keys: &[(u8, &str)]) -> Value {
    let keys = keys.iter().map(|(secret, name)| {
        let mut key = Jwk::from_encoding_key(&key(*secret), Algorithm::ES256).unwrap();
        key.common.key_id = Some((*name).to_owned());
        key
    });
    json!({"keys": keys.collect::<Vec<_>>()})
}

/// A token signed with one of these keys.
pub(super) fn signed(secret: u8, name: Option<&str>, claims: &Value) -> String {
    let header = Header { kid: name.map(str::to_owned), ..Header::new(Algorithm::ES256) };
    jsonwebtoken::encode(&header, claims, &key(secret)).unwrap()
}
