//! The stage of stories about identity providers: the service beside a Google and a GitHub of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use service::Clock;
use sha2::{Digest as _, Sha256};
use testkit::{Backend, GithubPeer, GooglePeer, PATIENCE, Stage};
use url::Url;

use crate::app::{App, Reply};
use crate::registration::rows;

/// Both of them, in the order in which they are offered.
pub(crate) const PROVIDERS: [&str; 2] = ["google", "github"];
/// Below a path and without a slash at its end, as operators write it.
const PUBLIC_URL: &str = "https://example.test/auspex";
const CLIENT_ID: &str = "auspex-client";
const CLIENT_SECRET: &str = "hush:a+b c/d%é";
/// The issuer's clock runs while the service's stands still: a story may last this long before an ID token seems to
/// come from the future, and has the rest of the token's hour before it seems expired.
const AHEAD_SECONDS: i64 = 600;

/// The service, and the providers that it is configured with.
pub(crate) struct Providers {
    pub(crate) app: App,
    google: GooglePeer,
    github: GithubPeer,
    sign_ins: AtomicU32,
}

impl Stage for Providers {
    async fn set_up(backend: Backend) -> Self {
        let google = GooglePeer::start(&callback("google")).await;
        let github = GithubPeer::start(CLIENT_ID, CLIENT_SECRET, &callback("github"), &[]);
        let settings = settings(&google, &github);
        let start = Timestamp::from_seconds(Clock::system().now().seconds() + AHEAD_SECONDS);
        let app = App::start_at(backend, &borrowed(&settings), start).await;
        Self { app, google, github, sign_ins: AtomicU32::new(0) }
    }

    async fn tear_down(self) {
        self.app.tear_down().await;
    }
}

impl Providers {
    /// Another node of the same service, with more settings.
    pub(crate) async fn node_with(&self, more: &[(&str, &str)]) -> App {
        let settings = settings(&self.google, &self.github);
        self.app.second_node(&[borrowed(&settings).as_slice(), more].concat()).await
    }

    /// What a provider knows of a person from now on. Numbers name people at each provider on its own.
    pub(crate) async fn person(&self, provider: &str, person: u32, email: &str, verified: bool) {
        if provider == "google" {
            let claims = json!({"name": "Ann", "email": email, "email_verified": verified});
            self.google.person(&person.to_string(), &claims).await;
        } else {
            let emails = json!([
                {"email": format!("old-{email}"), "primary": false, "verified": true},
                {"email": email, "primary": true, "verified": verified},
            ]);
            self.github.person(person.into(), &json!({"name": "Ann", "emails": emails})).await;
        }
    }

    /// What GitHub knows of a person from now on: no address.
    pub(crate) async fn without_address(&self, person: u32) {
        self.github.person(person.into(), &json!({"name": "Ann", "emails": []})).await;
    }

    /// Ends a provider.
    pub(crate) fn stop(&self, provider: &str) {
        if provider == "google" {
            self.google.stop();
        } else {
            self.github.stop();
        }
    }

    /// The person agrees at the provider. What the console then posts: the code, and the verifier that belongs to it.
    pub(crate) async fn proof(&self, provider: &str, person: u32) -> Value {
        let number = self.sign_ins.fetch_add(1, Ordering::Relaxed);
        let (state, verifier) = (format!("state-{number}"), format!("{number:043}"));
        let request = json!({"state": state, "code_challenge": challenge(&verifier)});
        let reply = self.app.post(&format!("/auth/console/oauth/{provider}/authorize"), &request).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let url: Url = reply.json()["url"].as_str().unwrap().parse().unwrap();
        let field = if provider == "google" { "sub" } else { "id" };
        let back = testkit::agree(url, &[(field, &person.to_string())]).await;
        assert!(back.as_str().starts_with(&format!("{}?", callback(provider))), "{back}");
        assert_eq!(parameter(&back, "state"), state);
        json!({"code": parameter(&back, "code"), "code_verifier": verifier})
    }

    /// The person signs in.
    pub(crate) async fn sign_in(&self, provider: &str, person: u32) -> Reply {
        let proof = self.proof(provider, person).await;
        self.app.post(&format!("/auth/console/oauth/{provider}"), &proof).await
    }

    /// The person signs in, to an account that is there or a new one; their console token.
    pub(crate) async fn token(&self, provider: &str, person: u32, status: u16) -> String {
        let reply = self.sign_in(provider, person).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert_eq!(reply.json()["new_user"] == true, status == 201, "{}", reply.text);
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// The user links the person.
    pub(crate) async fn link(&self, token: &str, provider: &str, person: u32) -> Reply {
        let proof = self.proof(provider, person).await;
        self.app.call(token, Method::POST, &format!("/v1/me/identities/{provider}"), &proof).await
    }

    /// The user removes what is linked at the provider.
    pub(crate) async fn unlink(&self, token: &str, provider: &str) -> Reply {
        self.app.call(token, Method::DELETE, &format!("/v1/me/identities/{provider}"), &Value::Null).await
    }

    /// Whether the user has a password, and the providers that they are linked at.
    pub(crate) async fn ways_in(&self, token: &str) -> (bool, Vec<String>) {
        let ways = self.get(token, "/v1/me/identities").await;
        let linked = ways["identities"].as_array().unwrap().iter();
        let linked = linked.map(|identity| identity["provider"].as_str().unwrap().to_owned()).collect();
        (ways["has_password"].as_bool().unwrap(), linked)
    }

    /// The record at `path`.
    pub(crate) async fn get(&self, token: &str, path: &str) -> Value {
        let reply = self.app.call(token, Method::GET, path, &Value::Null).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }

    /// Shows that the address is the user's own: they ask for a reset link and choose this password. They are signed
    /// out by that.
    pub(crate) async fn reset_password(&self, email: &str, password: &str) {
        let reply = self.app.post("/auth/console/password/forgot", &json!({"email": email})).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
        let link = tokio::time::timeout(PATIENCE, async {
            // The service answers before it looks whether there is somebody to write to.
            loop {
                let mails = self.app.mails().await;
                let mut links = mails
                    .iter()
                    .filter(|mail| mail.to == email)
                    .filter_map(|mail| mail.text.split_once(&format!("{PUBLIC_URL}/console/reset?token=")));
                if let Some((_, link)) = links.next_back() {
                    break link.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let link = link.await.expect("the link is sent");
        let body = json!({"token": link.split_whitespace().next().unwrap(), "password": password});
        let reply = self.app.post("/auth/console/password/reset", &body).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    }

    /// Signs in with a password.
    pub(crate) async fn log_in(&self, email: &str, password: &str) -> Reply {
        self.app.post("/auth/console/login", &json!({"email": email, "password": password})).await
    }

    /// How many accounts there are, each with all that an account starts with.
    pub(crate) async fn accounts(&self) -> usize {
        let query = "SELECT balance_micros
                || ' ' || (SELECT count(*) FROM ledger_entries AS line
                           WHERE line.tenant_id = tenants.tenant_id AND line.reason = 'signup_credit')
                || ' ' || (SELECT count(*) FROM signals WHERE signals.tenant_id = tenants.tenant_id)
            FROM tenants JOIN balances ON balances.tenant_id = tenants.tenant_id";
        let accounts = rows(&self.app, query).await;
        for account in &accounts {
            assert_eq!(account, "5000000 1 3", "balance, lines of signup credit, signals");
        }
        accounts.len()
    }
}

/// Where a provider sends people back to.
pub(crate) fn callback(provider: &str) -> String {
    format!("{PUBLIC_URL}/console/oauth/{provider}")
}

/// The base64url SHA-256 of a verifier (S256).
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// A parameter of an address, empty when it is not there.
pub(crate) fn parameter(url: &Url, name: &str) -> String {
    url.query_pairs().find(|(key, _)| key == name).map_or_else(String::new, |(_, value)| value.into_owned())
}

fn settings(google: &GooglePeer, github: &GithubPeer) -> [(&'static str, String); 8] {
    [
        ("AUSPEX_PUBLIC_URL", PUBLIC_URL.to_owned()),
        ("AUSPEX_GOOGLE_CLIENT_ID", google.client_id.clone()),
        ("AUSPEX_GOOGLE_CLIENT_SECRET", google.client_secret.clone()),
        ("AUSPEX_GOOGLE_ISSUER", google.url().to_string()),
        ("AUSPEX_GITHUB_CLIENT_ID", CLIENT_ID.to_owned()),
        ("AUSPEX_GITHUB_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
        ("AUSPEX_GITHUB_URL", github.url().to_string()),
        ("AUSPEX_GITHUB_API_URL", github.url().join("/api/v3").unwrap().to_string()),
    ]
}

fn borrowed<'a>(settings: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    settings.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
