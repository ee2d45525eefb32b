//! Starts the peers of `tests/peers`, which run in Python, and plays the people who sign in at the identity providers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

/// A server on loopback. It ends with this value, and by itself should this process die first.
struct Peer {
    url: Url,
    process: Mutex<Child>,
}

impl Peer {
    /// Starts a script of `tests/peers`, and returns once it listens.
    fn start(script: &str, arguments: &[&str]) -> Self {
        let mut process = script_of(script).args(arguments).spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let greeting: Value = serde_json::from_str(&greeting).expect("the peer says its port");
        let url = format!("http://127.0.0.1:{}", greeting["port"]).parse().unwrap();
        Self { url, process: Mutex::new(process) }
    }

    fn stop(&self) {
        // A test that failed while it held the lock must not hide its own message.
        let mut process = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = process.kill();
        let _ = process.wait();
    }

    async fn put(&self, path: &str, record: &Value) {
        let request = browser().put(self.url.join(path).unwrap()).json(record);
        assert_eq!(request.send().await.unwrap().status(), 204);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A script of `tests/peers`, to be spoken to.
fn script_of(script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/peers/bin/python");
    assert!(python.exists(), "the test peers are missing: run `make test` (or scripts/test-peers)");
    let mut command = Command::new(python);
    command.arg("-B").arg(root.join("tests/peers").join(script)).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// What the library for receivers of Standard Webhooks says about deliveries, each `{secret, headers, body}`:
/// `verified`, or why not.
pub fn verify_webhooks(deliveries: &[Value]) -> Vec<String> {
    let mut process = script_of("standard_webhooks.py").spawn().unwrap();
    let mut questions = process.stdin.take().unwrap();
    for delivery in deliveries {
        writeln!(questions, "{delivery}").unwrap();
    }
    drop(questions);
    let said = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(process.wait().unwrap().success());
    said
}

/// An OpenID Connect provider in Google's place, at which a client is registered.
pub struct GooglePeer {
    peer: Peer,
    /// What the provider calls the client.
    pub client_id: String,
    /// What proves that it is the client.
    pub client_secret: String,
}

impl GooglePeer {
    /// Starts it and registers a client that people come back to at `callback`.
    pub async fn start(callback: &str) -> Self {
        let peer = Peer::start("oidc.py", &[]);
        let registration = browser()
            .post(peer.url.join("/oauth2/clients").unwrap())
            .json(&json!({"redirect_uris": [callback]}))
            .send()
            .await
            .unwrap();
        let client: Value = registration.json().await.unwrap();
        let text = |name: &str| client[name].as_str().unwrap().to_owned();
        Self { peer, client_id: text("client_id"), client_secret: text("client_secret") }
    }

    /// Its address, which is the issuer's name.
    pub fn url(&self) -> &Url {
        &self.peer.url
    }

    /// Makes a person, or changes what is known of them.
    pub async fn person(&self, subject: &str, claims: &Value) {
        self.peer.put(&format!("/users/{subject}"), claims).await;
    }

    /// Ends it before its time.
    pub fn stop(&self) {
        self.peer.stop();
    }
}

/// A stand-in for GitHub.
pub struct GithubPeer {
    peer: Peer,
}

impl GithubPeer {
    /// Starts it with one client, which people come back to at `callback`, and with more options of its script.
    pub fn start(client_id: &str, client_secret: &str, callback: &str, more: &[&str]) -> Self {
        let registered =
            ["--client-id", client_id, "--client-secret", client_secret, "--redirect-uri", callback];
        Self { peer: Peer::start("github.py", &[&registered, more].concat()) }
    }

    /// Its address; the API is below it at `/api/v3`.
    pub fn url(&self) -> &Url {
        &self.peer.url
    }

    /// Makes a person, or changes what is known of them.
    pub async fn person(&self, id: u64, profile: &Value) {
        self.peer.put(&format!("/people/{id}"), profile).await;
    }

    /// Ends it before its time.
    pub fn stop(&self) {
        self.peer.stop();
    }
}

/// The person, named as the provider's form wants it, agrees; where the provider then sends their browser.
pub async fn agree(authorization: Url, person: &[(&str, &str)]) -> Url {
    let answer = browser().post(authorization).form(person).send().await.unwrap();
    assert_eq!(answer.status(), 302);
    answer.headers()["location"].to_str().unwrap().parse().unwrap()
}

fn browser() -> reqwest::Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}
