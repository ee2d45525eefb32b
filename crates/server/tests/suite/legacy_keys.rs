//! Keys from before request signing: taken over, used the old ways, and ended by rotation.

use std::time::{Duration, Instant};

use reqwest::Method;
use reqwest::header::RETRY_AFTER;
use serde_json::{Value, json};
use testkit::{Backend, PATIENCE, Stage as _, TestDatabase};

use crate::admin::{admin, auspex, finish, tenant_of};
use crate::app::{App, PASSWORD, Reply};
use crate::keys::OTHER_NODES_LIMIT;
use crate::secrets_in_logs::Process;
use crate::signer::Signer;

/// An old long key.
const OLD_KEY: &str = "live_9f1c2b7e5a804d63b1f0e8c7a6d5b4c3f2e1d0a9b8c7d6e5";

testkit::on_both!(
    an_old_key_is_taken_over_and_shown_as_what_it_is,
    an_old_key_authenticates_as_bearer_and_in_its_header,
    an_old_key_is_exchanged_for_a_token_of_fifteen_minutes,
    a_pair_that_is_none_gets_no_token,
    signing_keys_are_never_sent,
    uses_are_dated,
    rotation_ends_the_old_ways,
    deactivation_and_revocation_end_the_old_ways,
    every_use_is_a_warning_in_the_log,
);

/// An account with an old key.
struct Scene<'a> {
    app: &'a App,
    console: String,
    key: Value,
}

impl<'a> Scene<'a> {
    async fn set(app: &'a App) -> Self {
        let console = app.register("ada@acme.example").await;
        let tenant = tenant_of(app, &console).await;
        let printed =
            admin(app, &["key", "import-legacy", "--tenant", &tenant, "--name", "from 2019"], OLD_KEY);
        assert!(printed.contains("ak_") && !printed.contains(OLD_KEY), "{printed}");
        let key = only_key(app, &console).await;
        assert!(printed.contains(key["key"].as_str().unwrap()));
        Self { app, console, key }
    }

    fn path(&self) -> String {
        format!("/v1/api_keys/{}", self.key["id"].as_str().unwrap())
    }

    async fn change(&self, method: Method, end: &str, body: &Value) -> Reply {
        let reply = self.app.call(&self.console, method, &format!("{}{end}", self.path()), body).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply
    }

    async fn as_bearer(&self, credential: &str) -> Reply {
        self.app.call(credential, Method::GET, "/v1/me", &Value::Null).await
    }

    async fn in_header(&self, credential: &str) -> Reply {
        self.app.send(self.app.request(Method::GET, "/v1/me").header("X-API-Key", credential)).await
    }

    async fn exchange(&self, secret: &str) -> Reply {
        self.app.post("/auth/token", &json!({"api_key": self.key["key"], "secret": secret})).await
    }

    async fn token(&self) -> String {
        let reply = self.exchange(OLD_KEY).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["token"].as_str().unwrap().to_owned()
    }

    /// Asserts that the old key, and a token that it was exchanged for, are refused wherever they are sent.
    async fn ended(&self, token: &str) {
        refused(&self.as_bearer(OLD_KEY).await);
        refused(&self.in_header(OLD_KEY).await);
        refused(&self.exchange(OLD_KEY).await);
        refused(&self.as_bearer(token).await);
    }
}

#[track_caller]
fn refused(reply: &Reply) {
    assert_eq!(reply.refused(401, "unauthorized"), "unauthorized");
}

#[track_caller]
fn taken(reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["auth_type"], "tenant");
    assert_eq!(reply.json().get("user_id"), None);
}

async fn only_key(app: &App, console: &str) -> Value {
    let keys = app.call(console, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    assert_eq!(keys["api_keys"].as_array().unwrap().len(), 1, "{keys}");
    keys["api_keys"][0].clone()
}

async fn an_old_key_is_taken_over_and_shown_as_what_it_is(app: &App) {
    let scene = Scene::set(app).await;
    let key = &scene.key;
    assert!(key["key"].as_str().unwrap().starts_with("ak_"));
    assert_eq!(key["name"], "from 2019");
    assert_eq!(key["status"], "active");
    assert_eq!(key["has_secret"], false);
    assert_eq!(key["legacy"], true);
    let preview = key["legacy_preview"].as_str().unwrap();
    assert_eq!(preview, format!("{}…", &OLD_KEY[..4]), "enough to know it by, too little to help a guess");
    assert_eq!(key.get("last_used_at"), None);
    assert_eq!(key.get("legacy_used_at"), None);
    assert!(!key.to_string().contains(OLD_KEY));
    // It cannot sign: neither with itself nor with nothing.
    for secret in [OLD_KEY, "", preview] {
        let signer = Signer::new(key["key"].as_str().unwrap(), secret);
        refused(&signer.call(app, Method::GET, "/v1/me", &Value::Null).await);
    }
}

async fn an_old_key_authenticates_as_bearer_and_in_its_header(app: &App) {
    let scene = Scene::set(app).await;
    taken(&scene.as_bearer(OLD_KEY).await);
    taken(&scene.in_header(OLD_KEY).await);
    let public = scene.key["key"].as_str().unwrap();
    let preview = scene.key["legacy_preview"].as_str().unwrap();
    for wrong in ["", "x", public, preview, &OLD_KEY[1..], &OLD_KEY.to_uppercase(), &format!("{OLD_KEY}x")] {
        refused(&scene.as_bearer(wrong).await);
        refused(&scene.in_header(wrong).await);
    }
    for name in ["api_key", "token", "access_token", "x-api-key"] {
        refused(&app.get(&format!("/v1/me?{name}={OLD_KEY}")).await);
    }
    // It is no person.
    let mfa = app.call(OLD_KEY, Method::GET, "/v1/me/mfa", &Value::Null).await;
    mfa.refused(403, "forbidden");
    let mfa = app.send(app.request(Method::GET, "/v1/me/mfa").header("X-API-Key", OLD_KEY)).await;
    mfa.refused(403, "forbidden");
}

async fn an_old_key_is_exchanged_for_a_token_of_fifteen_minutes(app: &App) {
    let scene = Scene::set(app).await;
    let reply = scene.exchange(OLD_KEY).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let token = reply.json()["token"].as_str().unwrap().to_owned();
    let end = app.now() + Duration::from_mins(15);
    let expected = json!({"token": token, "expires_at": end.to_string(), "token_type": "tenant"});
    assert_eq!(reply.json(), expected);
    taken(&scene.as_bearer(&token).await);
    app.call(&token, Method::GET, "/v1/me/mfa", &Value::Null).await.refused(403, "forbidden");
    assert_ne!(scene.token().await, token, "each exchange makes a token of its own");
    app.advance(Duration::from_secs(15 * 60 - 1));
    taken(&scene.as_bearer(&token).await);
    app.advance(Duration::from_secs(1));
    refused(&scene.as_bearer(&token).await);
    taken(&scene.as_bearer(&scene.token().await).await);
}

async fn a_pair_that_is_none_gets_no_token(app: &App) {
    let scene = Scene::set(app).await;
    let tenant = tenant_of(app, &scene.console).await;
    let other = "live_0000000000000000000000000000000000000000";
    admin(app, &["key", "import-legacy", "--tenant", &tenant], other);
    let key = &scene.key["key"];
    for body in [
        json!({"api_key": key, "secret": other}),
        json!({"api_key": key, "secret": "wrong"}),
        json!({"api_key": key, "secret": ""}),
        json!({"api_key": "ak_nobody", "secret": OLD_KEY}),
        json!({"api_key": "", "secret": OLD_KEY}),
        json!({"api_key": OLD_KEY, "secret": OLD_KEY}),
        json!({"api_key": scene.key["id"], "secret": OLD_KEY}),
    ] {
        let reply = app.post("/auth/token", &body).await;
        assert_eq!(reply.status, 401, "{body}: {}", reply.text);
        refused(&reply);
        assert!(reply.headers.get(RETRY_AFTER).is_none());
    }
    for body in
        [json!({}), json!({"api_key": key}), json!({"secret": OLD_KEY}), json!({"api_key": 1, "secret": 2})]
    {
        app.post("/auth/token", &body).await.refused(400, "bad_request");
    }
}

/// The secret of a signing key is never sent, so a request that carries it gets nothing for it.
async fn signing_keys_are_never_sent(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    let scene = Scene { app, console: console.clone(), key: only_key(app, &console).await };
    for credential in [&signer.secret, &signer.key] {
        refused(&scene.as_bearer(credential).await);
        refused(&scene.in_header(credential).await);
        refused(&scene.exchange(credential).await);
    }
    // Nor does a console token or a signed one count as an old key.
    refused(&scene.in_header(&console).await);
    refused(&scene.in_header(&signer.sign(app.now(), &Method::GET, "/v1/me")).await);
}

async fn uses_are_dated(app: &App) {
    let scene = Scene::set(app).await;
    for way in 0..3 {
        app.advance(Duration::from_secs(61));
        let now = json!(app.now().to_string());
        let reply = match way {
            0 => scene.as_bearer(OLD_KEY).await,
            1 => scene.in_header(OLD_KEY).await,
            _ => scene.exchange(OLD_KEY).await,
        };
        assert_eq!(reply.status, 200, "{}", reply.text);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while only_key(app, &scene.console).await["legacy_used_at"] != now {
            assert!(tokio::time::Instant::now() < deadline, "way {way} is not written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(only_key(app, &scene.console).await["last_used_at"], now);
    }
}

async fn rotation_ends_the_old_ways(app: &App) {
    let scene = Scene::set(app).await;
    let token = scene.token().await;
    taken(&scene.as_bearer(&token).await);
    taken(&scene.as_bearer(OLD_KEY).await);
    let rotated = scene.change(Method::POST, "/rotate", &Value::Null).await.json();
    assert_eq!(rotated["key"], scene.key["key"], "the id is kept");
    assert_eq!(rotated["api_key"]["has_secret"], true);
    assert_ne!(rotated["api_key"]["legacy"], true);
    scene.ended(&token).await;
    let secret = rotated["secret"].as_str().unwrap();
    let signer = Signer::new(scene.key["key"].as_str().unwrap(), secret);
    taken(&signer.call(app, Method::GET, "/v1/me", &Value::Null).await);
    refused(&scene.exchange(secret).await);
}

async fn deactivation_and_revocation_end_the_old_ways(app: &App) {
    let scene = Scene::set(app).await;
    let token = scene.token().await;
    taken(&scene.in_header(OLD_KEY).await);
    taken(&scene.as_bearer(&token).await);
    scene.change(Method::PATCH, "", &json!({"status": "inactive"})).await;
    scene.ended(&token).await;
    scene.change(Method::PATCH, "", &json!({"status": "active"})).await;
    taken(&scene.as_bearer(OLD_KEY).await);
    taken(&scene.in_header(OLD_KEY).await);
    let token = scene.token().await;
    taken(&scene.as_bearer(&token).await);
    scene.change(Method::DELETE, "", &Value::Null).await;
    scene.ended(&token).await;
}

/// The old key is looked up for every request; a token that it was exchanged for may be remembered for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchanged_token_ends_on_every_node_within_a_second() {
    let app = App::start(Backend::Postgres, &[]).await;
    let other = app.second_node(&[]).await;
    let scene = Scene::set(&app).await;
    let token = scene.token().await;
    let there = async |credential: &str| other.call(credential, Method::GET, "/v1/me", &Value::Null).await;
    taken(&there(&token).await);
    taken(&there(OLD_KEY).await);
    scene.change(Method::POST, "/rotate", &Value::Null).await;
    let changed = Instant::now();
    scene.ended(&token).await;
    refused(&there(OLD_KEY).await);
    while there(&token).await.status != 401 {
        assert!(changed.elapsed() < OTHER_NODES_LIMIT, "the other node still takes the token");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.stop().await;
    app.tear_down().await;
}

/// By the real binary, whose log is what an operator sees.
async fn every_use_is_a_warning_in_the_log(database: &TestDatabase) {
    let admin = |arguments: &[&str], input: &str| {
        let output = finish(auspex(database.directory(), database.url(), arguments), input.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    admin(&["migrate"], "");
    let tenant = admin(&["admin", "tenant", "create", "Acme"], "");
    let printed = admin(&["admin", "key", "import-legacy", "--tenant", &tenant], OLD_KEY);
    let key = printed.split_whitespace().last().unwrap();
    let process = Process::start(database.directory(), database.url(), &[]);
    let uses = 3;
    for _ in 0..uses {
        let request = process.request(Method::GET, "/v1/me");
        assert_eq!(process.send(request.bearer_auth(OLD_KEY)).await.status, 200);
        let request = process.request(Method::GET, "/v1/me");
        assert_eq!(process.send(request.header("X-API-Key", OLD_KEY)).await.status, 200);
        let body = json!({"api_key": key, "secret": OLD_KEY});
        let request = process.request(Method::POST, "/auth/token").json(&body);
        assert_eq!(process.send(request).await.status, 200);
    }
    // What is refused is no use of it.
    let request = process.request(Method::GET, "/v1/me");
    assert_eq!(process.send(request.header("X-API-Key", PASSWORD)).await.status, 401);
    let log = process.stop();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 3 * uses, "{log}");
    for warning in warnings {
        assert!(warning.contains("legacy") && warning.contains(key), "it says which key: {warning}");
        assert!(!warning.contains(OLD_KEY));
    }
}
