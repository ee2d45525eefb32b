//! Signs requests by hand, from the specification alone, so that nothing of the service checks itself.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Timestamp;
use percent_encoding::percent_decode_str;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::app::{App, Reply};

/// An API key's two halves.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Signer {
    pub(crate) fn new(key: &str, secret: &str) -> Self {
        Self { key: key.to_owned(), secret: secret.to_owned() }
    }

    /// A token with this header and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).unwrap();
        mac.update(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// A token as the official clients make it: 60 seconds, bound to method and path.
    pub(crate) fn sign(&self, now: Timestamp, method: &Method, path: &str) -> String {
        let header = json!({"alg": "HS256", "typ": "JWT", "kid": self.key});
        let claims =
            json!({"iat": now.seconds(), "exp": now.seconds() + 60, "htm": method.as_str(), "htu": path});
        self.token(&header, &claims)
    }

    /// A signed request, with a JSON body unless that is null.
    pub(crate) async fn call(&self, app: &App, method: Method, path: &str, body: &Value) -> Reply {
        // The path is sent escaped and signed decoded.
        let bare = percent_decode_str(path.split('?').next().unwrap()).decode_utf8().unwrap();
        app.call(&self.sign(app.now(), &method, &bare), method, path, body).await
    }
}
