//! Starts the peers of `tests/peers`, which run in Python, and plays the people who sign in at the identity providers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

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
        Self::greeted_by(spawn(script, arguments))
    }

    fn greeted_by(mut process: Child) -> Self {
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

fn spawn(script: &str, arguments: &[&str]) -> Child {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/peers/bin/python");
    assert!(python.exists(), "the test peers are missing: run `make test` (or scripts/test-peers)");
    let mut command = Command::new(python);
    command.arg("-B").arg(root.join("tests/peers").join(script)).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the library for receivers of Standard Webhooks says about deliveries, each `{secret, headers, body}`:
/// `verified`, or why not.
pub fn verify_webhooks(deliveries: &[Value]) -> Vec<String> {
    let mut process = spawn("standard_webhooks.py", &[]);
    let mut questions = process.stdin.take().unwrap();
    for delivery in deliveries {
        writeln!(questions, "{delivery}").unwrap();
    }
    drop(questions);
    let said = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(process.wait().unwrap().success());
    said
}

/// What a script of `tests/peers` says to each line of JSON.
pub fn ask_peer(script: &str, arguments: &[&str], questions: &[Value]) -> Vec<Value> {
    let mut process = spawn(script, arguments);
    let mut asked = process.stdin.take().unwrap();
    for question in questions {
        writeln!(asked, "{question}").unwrap();
    }
    drop(asked);
    let said = BufReader::new(process.stdout.take().unwrap()).lines();
    let said = said.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(process.wait().unwrap().success());
    said
}

/// Figures of quality by scikit-learn, for each set of answers and labels.
pub fn scikit_learn_figures(sets: Vec<Value>) -> Vec<Value> {
    let mut process = spawn("quality.py", &[]);
    let mut questions = process.stdin.take().unwrap();
    // Beside reading: both pipes are short.
    let writer = std::thread::spawn(move || {
        for set in sets {
            writeln!(questions, "{set}").unwrap();
        }
    });
    let figures = BufReader::new(process.stdout.take().unwrap()).lines();
    let figures = figures.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    writer.join().unwrap();
    assert!(process.wait().unwrap().success());
    figures
}

/// What openapi-spec-validator holds against a document.
pub fn openapi_complaints(document: &Value) -> String {
    let mut process = spawn("openapi.py", &[]);
    process.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "the validator breaks");
    String::from_utf8(output.stdout).unwrap()
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

/// An OpenID Connect provider of another make than [`GooglePeer`], below a path, at which a client is registered.
pub struct OwnIssuerPeer {
    peer: Peer,
}

impl OwnIssuerPeer {
    /// Starts it with one client, which people come back to at `callback`. It signs by this algorithm.
    pub fn start(algorithm: &str, client_id: &str, client_secret: &str, callback: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let modules = root.join("target/peers/node").canonicalize();
        let modules = modules.expect("the test peers are missing: run `make test` (or scripts/test-peers)");
        let mut command = Command::new("node");
        command.arg("--no-warnings").arg(root.join("tests/peers/oidc_provider.mjs")).arg(modules);
        command.args([algorithm, client_id, client_secret, callback]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { peer: Peer::greeted_by(command.spawn().expect("node runs")) }
    }

    /// The issuer's name.
    pub fn url(&self) -> Url {
        self.peer.url.join("/realms/acme").unwrap()
    }

    /// Makes a person, or changes what is known of them.
    pub async fn person(&self, subject: &str, claims: &Value) {
        self.peer.put(&format!("/users/{subject}"), claims).await;
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

/// A stand-in for Stripe.
pub struct StripePeer {
    peer: Peer,
    key: String,
}

impl StripePeer {
    /// Starts it with an account whose secret key this is.
    pub fn start(key: &str) -> Self {
        Self { peer: Peer::start("card_payments.py", &["--key", key]), key: key.to_owned() }
    }

    /// Its address.
    pub fn url(&self) -> &Url {
        &self.peer.url
    }

    /// Decides what happens to the next requests, one each; see the script.
    pub async fn next(&self, behaviour: &[&str]) {
        self.control("behaviour", &json!({"next": behaviour})).await;
    }

    /// Changes a session, as when its customer pays.
    pub async fn change(&self, session: &str, fields: &Value) {
        self.control(&format!("sessions/{session}"), fields).await;
    }

    /// An event about a session as Stripe would send it: its body, and the header that signs it.
    pub async fn event(&self, event: &Value) -> (String, String) {
        let made = self.control("events", event).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("body"), text("signature"))
    }

    /// What was asked of it so far.
    pub async fn requests(&self) -> Vec<Value> {
        let answer = browser().get(self.peer.url.join("/control/requests").unwrap()).send().await.unwrap();
        answer.json().await.unwrap()
    }

    /// What Stripe's official library makes of it.
    pub fn official(&self, command: &str, more: &[&str], input: &Value) -> Value {
        let url = self.peer.url.as_str().trim_end_matches('/').to_owned();
        let known = [command, "--api", &url, "--key", &self.key];
        let mut process = spawn("official_stripe.py", &[&known, more].concat());
        process.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "the official library refuses");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Ends it before its time.
    pub fn stop(&self) {
        self.peer.stop();
    }

    async fn control(&self, path: &str, content: &Value) -> Value {
        let url = self.peer.url.join(&format!("/control/{path}")).unwrap();
        let answer = browser().post(url).json(content).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
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
        .timeout(crate::PATIENCE)
        .build()
        .unwrap()
}
